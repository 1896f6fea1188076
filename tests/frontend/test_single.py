"""Attributes that Paddle holds in single precision, in programs that hold them in double."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PirkitError
from pirkit.frontend.files import parse
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text

SINGLE: Final = 0.699999988079071
WRITERS: Final[list[Callable[[ModuleOp], str]]] = [write_paddle_json, write_paddle_text]


def elu(alpha: str) -> ModuleOp:
    return parse(
        'pir.program @main(%x "x" : tensor<2xf32>) {\n'
        f"  %y = pd_op.elu(%x) {{alpha = {alpha}}} : (tensor<2xf32>) -> tensor<2xf32>\n"
        '  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()\n}'
    )


def alpha_of(module: ModuleOp) -> Any:
    (alpha,) = [op.attribute("alpha") for op in module.walk() if op.name == "pd_op.elu"]  # type: ignore[attr-defined]
    return alpha


def test_programs_of_our_own_hold_double() -> None:
    assert alpha_of(elu("0.7 : f64")) == 0.7


def test_json_holds_the_nearest_single() -> None:
    assert alpha_of(parse(write_paddle_json(elu("0.7 : f64")))) == SINGLE


@pytest.mark.parametrize("number", ["0.1234565000", "0.9999995000", "1.0e-46", "3.4028234e38"])
def test_text_prints_the_nearest_single(number: str) -> None:
    """Rounded once to single and then to six digits, as Paddle would print it."""
    module = elu(f"{number} : f64")
    rounded = parse(write_paddle_json(module))
    assert write_paddle_text(module) == write_paddle_text(rounded)
    again = read_paddle_text(write_paddle_text(module))
    assert write_paddle_text(again) == write_paddle_text(module)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("number", ["1.0e40", "-3.5e38"])
def test_a_number_too_large_for_single_is_refused(write: Any, number: str) -> None:
    with pytest.raises(PirkitError, match="does not fit in single precision") as raised:
        write(elu(f"{number} : f64"))
    assert raised.value.code == "PK0403"

"""What the campaign over torch's own samples has found, and a slice of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.torch.comparing import same  # noqa: E402
from tools.campaigns.driver import SEVERE  # noqa: E402
from tools.campaigns.torch_ops import _ops, case, examine  # noqa: E402
from tools.torch_second_derivatives import main  # noqa: E402

NAN = float("nan")


@pytest.mark.parametrize("op", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_first_nan_is_the_extreme_element(op: str, dim: int) -> None:
    x = torch.tensor([[1.0, NAN, 0.0, 5.0], [3.0, 2.0, NAN, NAN], [4.0, 2.0, 7.0, 1.0]])
    found = torch.compile(lambda x: getattr(x, op)(dim), backend="pirkit")(x)
    torch.testing.assert_close(found, getattr(x, op)(dim), equal_nan=True)


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_an_activation_of_nan_is_nan(name: str) -> None:
    function = getattr(torch.nn.functional, name)
    x = torch.tensor([NAN, -4.0, -3.0, 0.5, 3.0, 4.0])
    found = torch.compile(function, backend="pirkit")(x)
    torch.testing.assert_close(found, function(x), equal_nan=True)


def test_zero_to_a_negative_integer_power() -> None:
    same(torch.pow, torch.tensor([0, 0, 2, 1, -1]), torch.tensor([-1, 0, 3, -2, -3]))


def test_a_call_of_torch_with_an_operand_that_has_no_derivative() -> None:
    same(torch.linalg.pinv, torch.randn(3, 4, dtype=torch.float64, requires_grad=True))


def test_a_gradient_that_is_a_cotangent() -> None:
    """An argument and a result of the backward have one name."""
    x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
    same(lambda x, y: x + y.sin() * y.exp(), x, y)


@pytest.mark.parametrize("name", ["softplus", "prod", "logcumsumexp"])
def test_a_slice_of_the_campaign(name: str) -> None:
    number = next(k for k in range(4 * len(_ops(name))) if case(k, name)[1] is torch.float64)
    found: list[Any] = examine(0, number, name)
    assert not [f for f in found if f.kind in SEVERE]


def test_a_slice_of_the_second_derivatives(tmp_path: Path) -> None:
    names = ["erf", "var", "model bn"]
    main(tmp_path / "found", names)
    assert (tmp_path / "found").read_text().split("\n")[:-1] == [f"{n}|True" for n in names]

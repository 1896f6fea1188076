"""Converted control flow: equal to plain Python on numpy arrays, with its derivatives."""

from __future__ import annotations

import pickle
import re
import runpy
import traceback
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import PirkitError, RuntimeFault, TraceError
from pirkit.dialect.operation import span_of
from tests.frontend.static_functions import FUNCTIONS

POINTS: Final = [
    np.array([0.3, 0.7, 1.2]),
    np.array([1.4, -0.6, 0.27]),
    np.array([-1.1, 0.4, -0.8]),
    np.array([0.9, 1.9, -2.3]),
]
CONTROL: Final = ("pd_op.if", "pd_op.while")


def slopes(f: Any, x: Any) -> Any:
    steps = 1e-6 * np.eye(len(x))
    return [(float(f(x + s)) - float(f(x - s))) / 2e-6 for s in steps]


def names(program: Any) -> list[str]:
    return [op.name for op in program.entry(None).block.walk()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_python(name: str) -> None:
    f = FUNCTIONS[name]
    static = pirkit.to_static(f)
    both = pirkit.jit(pirkit.value_and_grad(static))
    for x in POINTS:
        expected = float(f(x))
        np.testing.assert_allclose(static(x), expected, rtol=1e-12)
        value, found = both(x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(found, slopes(f, x), rtol=1e-5, atol=1e-7)
    assert len(static.explain().splitlines()) == 1
    assert any(n in CONTROL for n in names(static.lower(POINTS[0]))) or name in PYTHON_ONLY


PYTHON_ONLY: Final = {"in_order", "smallest"}
"""Functions without a branch in the program."""


def test_there_are_forty() -> None:
    assert len(FUNCTIONS) >= 40


# --- what a converted function is ---


def up_to(x: Any, most: Any, scale: float = 1.0, *, power: int = 2) -> Any:
    for i in range(most):
        if x.sum() > 40:
            break
        x = x * scale + i**power
    return x.sum()


def test_numbers_are_inputs_where_it_is_called() -> None:
    static = pirkit.to_static(up_to)
    for most in (0, 2, 6):
        np.testing.assert_allclose(static(POINTS[0], most), up_to(POINTS[0], most))
    assert len(static.explain().splitlines()) == 1
    np.testing.assert_allclose(static(POINTS[0], 3, 0.5), up_to(POINTS[0], 3, 0.5))


def test_static_arguments_are_python_values() -> None:
    static = pirkit.to_static(up_to, static_argnames=("most", "power"))
    for most in (1, 3):
        found = static(POINTS[0], most=most, power=3)
        np.testing.assert_allclose(found, up_to(POINTS[0], most, power=3))
    assert len(static.explain().splitlines()) == 2
    assert "pd_op.while" not in names(static.lower(POINTS[0], most=3, power=3))


def test_inside_of_every_transform() -> None:
    x, f = POINTS[2], FUNCTIONS["early_return"]
    static = pirkit.to_static(f)
    wanted = slopes(f, x)
    np.testing.assert_allclose(pirkit.grad(static)(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(pirkit.jit(pirkit.grad(static))(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(pirkit.grad(pirkit.jit(static))(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(pirkit.jvp(static, (x,), (x,))[1], np.dot(wanted, x), rtol=1e-6)
    value, pullback = pirkit.vjp(static, x)
    np.testing.assert_allclose(pullback(value)[0], float(f(x)) * np.array(wanted), rtol=1e-6)
    second = np.diag(-4 * np.tanh(x) / np.cosh(x) ** 2)
    np.testing.assert_allclose(pirkit.hessian(static)(x), second, rtol=1e-10)


def test_transforms_inside() -> None:
    @pirkit.to_static
    def descend(x: Any) -> Any:
        def loss(w: Any) -> Any:
            if w[0] > 0:
                return (w * w).sum()
            return (w**4).sum()

        steps = 0
        while abs(pirkit.grad(loss)(x)).max() > 0.5:
            x = x - 0.1 * pirkit.grad(loss)(x)
            steps += 1
        return x, steps

    x, steps = descend(POINTS[0])
    expected, count = POINTS[0], 0
    while abs(2 * expected).max() > 0.5:
        expected, count = expected * 0.8, count + 1
    np.testing.assert_allclose(x, expected)
    assert int(steps) == count


class Base:
    def forward(self, x: Any) -> Any:
        return x * 2.0


class Net(Base):
    def __init__(self, w: Any) -> None:
        self.w = w
        self.__power = 2

    @pirkit.to_static
    def forward(self, x: Any) -> Any:
        y = super().forward(x) * self.w
        if y.sum() > 0:
            y = super().forward(y)
        return y**self.__power


def test_methods_read_their_object_anew() -> None:
    net, other = Net(np.ones(3)), Net(np.full(3, -1.0))
    x = POINTS[0]
    np.testing.assert_allclose(net.forward(x), (x * 4) ** 2)
    np.testing.assert_allclose(other.forward(x), (x * 2) ** 2)
    net.w = np.full(3, 3.0)
    np.testing.assert_allclose(net.forward(x), (x * 12) ** 2)
    assert net.forward is net.forward
    net.note = 1  # pyright: ignore[reportAttributeAccessIssue]
    copied = pickle.loads(pickle.dumps(net))
    np.testing.assert_allclose(copied.forward(-x), (x * 6) ** 2)


def test_closures_are_shared() -> None:
    bound = 1.0

    @pirkit.to_static
    def f(x: Any) -> Any:
        return x.sum() if x.sum() > bound else x.prod()

    np.testing.assert_allclose(f(POINTS[0]), POINTS[0].sum())
    bound = 5.0
    np.testing.assert_allclose(f(POINTS[0]), POINTS[0].prod())


def test_not_recursive() -> None:
    called = FUNCTIONS["early_return"]
    shallow = pirkit.to_static(lambda x: called(x), recursive=False)
    with pytest.raises(TraceError, match="the truth of") as caught:
        shallow(POINTS[0])
    assert "pirkit.to_static" in (caught.value.help or "")
    deep = pirkit.to_static(lambda x: called(x))
    np.testing.assert_allclose(deep(POINTS[0]), called(POINTS[0]))


def test_lambdas_of_one_line_are_told_apart() -> None:
    f, g = (lambda x: x if x[0] > 0 else -x), (lambda x: x * 2 if x[0] > 0 else -x * 2)
    for each, scale in ((f, 1), (g, 2)):
        np.testing.assert_allclose(pirkit.to_static(each)(POINTS[2]), -POINTS[2] * scale)


def test_an_argument_is_not_written() -> None:
    @pirkit.to_static
    def f(state: Any) -> Any:
        if state["h"].sum() > 0:
            state["h"] = state["h"] * 2
        return state

    given = {"h": POINTS[0]}
    np.testing.assert_allclose(f(given)["h"], POINTS[0] * 2)
    assert given["h"] is POINTS[0]


# --- lines ---


def lined(x: Any) -> Any:
    y = x * 1.0  # 1
    if (  # 2
        y.sum() > 0
    ):
        y = np.tanh(y)  # 5
    while y.sum() < 5:  # 6
        y = (  # 7
            y + 1
        )
    for v in y:  # 10
        y = y + v  # 11
    assert y.sum() < 0, "negative"  # 12
    return y


def test_operations_keep_their_lines() -> None:
    program = pirkit.trace(pirkit.to_static(lined), POINTS[0])
    first = lined.__code__.co_firstlineno
    inside: dict[str, set[int]] = {}
    for op in program.entry(None).block.walk():
        span = span_of(op)
        if op.name not in ("pd_op.data", "pir.yield", "pir.shadow_output"):
            assert span is not None
            assert span.file == lined.__code__.co_filename
            inside.setdefault(op.name, set()).add(span.line - first)
    assert inside["pd_op.if"] == {2}
    assert inside["pd_op.tanh"] == {5}
    assert inside["pd_op.while"] == {6, 10}
    assert inside["pd_op.assert"] == {12}
    assert set().union(*inside.values()) <= {1, 2, 3, 5, 6, 7, 8, 10, 11, 12}


def test_errors_name_lines_when_it_runs_and_is_traced() -> None:
    first = lined.__code__.co_firstlineno
    static = pirkit.to_static(lined)
    for f in (static, pirkit.jit(static), pirkit.grad(lambda x: static(x).sum())):
        with pytest.raises(RuntimeFault) as caught:
            f(POINTS[0])
        assert caught.value.span is not None
        assert caught.value.span.line == first + 12


def joined(x: Any) -> Any:
    if x.sum() > 0:
        for v in x:
            x = x + np.concatenate([x, v])  # 3
    return x


def test_errors_of_ops_and_tracebacks_name_lines() -> None:
    with pytest.raises(PirkitError) as caught:
        pirkit.to_static(joined)(POINTS[0])
    line = joined.__code__.co_firstlineno + 3
    assert caught.value.span is not None
    assert caught.value.span.line == line
    frames = [f.lineno for f in traceback.extract_tb(caught.tb) if f.filename == __file__]
    assert frames[-3:] == [line - 2, line - 1, line]


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "to-static.md").read_text()
    script = tmp_path / "page.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    runpy.run_path(str(script), run_name="__main__")

"""What ordinary Python does with a traced value: right by value and derivative, or refused."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any, Final

import numpy as np
import pytest

import pirkit
import pirkit.numpy as pnp
from pirkit import ops
from pirkit.diag.errors import PirkitError, TraceError
from pirkit.dialect.operation import span_of
from pirkit.frontend.files import WRITERS
from pirkit.frontend.traced_value import TracedValue
from pirkit.frontend.tracing import trace

X: Final = np.array([-1.1, -2.3, -3.7])
M: Final = np.arange(12.0).reshape(3, 4) / 7 + 0.3
LISTED: Final = [10.0, 20.0, 30.0]


def _while(x: Any) -> Any:
    s = x.sum()
    while s < 100:
        s = s * -2
    return s


def _break(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v < -3:
            break
        total = total + v * v
    return total


def _in_place(x: Any) -> Any:
    x = x * 1.0
    x += 1
    x *= x
    return x.sum()


def _unpack(x: Any) -> Any:
    a, *rest, b = x
    return a * b * len(rest)


def _swap_largest(x: Any) -> Any:
    return x[x.argmax()] * 2 - x[int(np.argmin(x))]


RIGHT: Final[dict[str, Callable[[Any], Any]]] = {
    # control flow by value
    "if": lambda x: sum(x) if sum(x) > 0 else 2 * sum(x),
    "if not": lambda x: x.sum() if not x[0] > 0 else x[0],
    "and": lambda x: x[0] if (x[0] > 0 and x[1] > 0) else x[1],
    "or": lambda x: x[0] if (x[0] > 0 or x[1] < 0) else x[1],
    "chained": lambda x: x[0] if -2 < x[0] < 0 else x[1],
    "while": _while,
    "break": _break,
    "min": lambda x: min(x) ** 2,
    "max": lambda x: max(x) ** 2,
    "sorted": lambda x: sorted(x)[1] * 3,
    "in": lambda x: x.sum() * 2 if x[1] in x else x.sum(),
    "not in": lambda x: x.sum() * 2 if 5.0 not in x else x.sum(),
    "== None": lambda x: x.sum() if (x == None) is True else 2 * x.sum(),  # noqa: E711
    "is None": lambda x: x.sum() if x is None else 2 * x.sum(),
    "any": lambda x: x.sum() if (x > 0).any() else x.sum() * 4,
    "all": lambda x: x.sum() if all(x < 0) else x.sum() * 4,
    "if a mask": lambda x: x[0] * 5 if (x < 0)[0] else x[0],
    "if a derivative": lambda x: x.sum() if (2 * x).sum() > 0 else -(x * x).sum(),
    # integers
    "int": lambda x: int(x[1]) * x.sum(),
    "index of a list": lambda x: LISTED[np.argmin(x)] * x.sum(),
    "range": lambda x: sum(x[i] for i in range(np.argmin(x))),
    "operator.index": lambda x: operator.index(np.argmax(x)) * x.sum() + x[0],
    "round": lambda x: x[0] * 2 + round(x[1]),
    "len": lambda x: x.sum() * len(x),
    "item of integers": lambda x: x.sum() * np.argmin(x).item(),
    "array of a mask": lambda x: x[np.asarray(x < -2)].sum(),
    # iteration
    "unpack": _unpack,
    "star": lambda x: max(*x) * 2,
    "zip": lambda x: sum(a * b for a, b in zip(x, x[1:], strict=False)),  # noqa: RUF007
    "enumerate": lambda x: sum(i * v for i, v in enumerate(x)),
    "reversed": lambda x: next(iter(reversed(x))) ** 2,
    "sum": sum,
    "map": lambda x: sum(map(np.tanh, x)),
    # indexing
    "[::-1]": lambda x: (x[::-1] * np.array([1.0, 2.0, 3.0])).sum(),
    "[2:0:-1]": lambda x: (x[2:0:-1] * np.array([1.0, 2.0])).sum(),
    "[::-2]": lambda x: (x[::-2] * np.array([1.0, 5.0])).sum(),
    "[-1]": lambda x: x[-1] ** 2,
    "[-5:2]": lambda x: x[-5:2].sum(),
    "[1:1]": lambda x: x.sum() + x[1:1].sum(),
    "[...]": lambda x: x[...].sum() * 2,
    "[None]": lambda x: (x[None] * x[:, None]).sum(),
    "[True]": lambda x: x[True].sum() * x[True].shape[0],
    "[False]": lambda x: x.sum() + x[False].sum(),
    "mask": lambda x: x[x < -2].sum() * 3,
    "list": lambda x: (x[[0, 2, 0]] * np.array([1.0, 2.0, 3.0])).sum(),
    "array": lambda x: x[np.array([[0, 1], [2, 2]])].sum(),
    "argmax": _swap_largest,
    "two arrays": lambda x: np.outer(x, x)[[0, 1], [2, 1]].sum(),
    "np.int64": lambda x: x[np.int64(1)] ** 3,
    # numpy's functions
    "np.sin": lambda x: np.sin(x).sum(),
    "np.sum": lambda x: np.sum(x * x),
    "np.mean": lambda x: np.mean(x * x),
    "np.where": lambda x: np.where(x < -2, x * x, -x).sum(),
    "pirkit.where": lambda x: pirkit.where(x < -2, x * x, 0).sum(),
    "np.concatenate": lambda x: np.concatenate([x, x * x]).sum(),
    "np.stack": lambda x: (np.stack([x, x * x]) * M[:2, :3]).sum(),
    "np.dot": lambda x: np.dot(x, x),
    "np.clip": lambda x: np.clip(x, -3.0, -2.0).sum(),
    "np.maximum.reduce": lambda x: np.maximum.reduce(x) * 2,
    "ndarray @ x": lambda x: (M.T @ x).sum(),
    "ndarray - x": lambda x: (np.ones(3) - x).prod(),
    "np.float64 * x": lambda x: (np.float64(0.1) * x).sum(),
    "int array * x": lambda x: (np.arange(3) * x).sum(),
    "mean(())": lambda x: (x.mean(()) * x).sum(),
    "sum(())": lambda x: (x.sum(()) * x).sum(),
    "max(())": lambda x: (x.max(()) * x).sum(),
    "copy": lambda x: copy(x).sum() * 2,
    "deepcopy": lambda x: (deepcopy({"x": x})["x"] ** 2).sum(),
    # the rest
    "+=": _in_place,
    "f-string": lambda x: x.sum() * len(f"{x[0]:.3f}"),
    "repr": lambda x: x.sum() * (len(repr(x)) < 60),
    "hasattr": lambda x: x.sum() * (1 if hasattr(x, "foo") else 3),
    "getattr": lambda x: getattr(x, "foo", x).sum(),
    "a plain number": lambda x: x.sum() if x[0] > 0 else 2.0,
    "2 ** x": lambda x: (2**x).sum(),
    "x ** 3": lambda x: (x**3).sum(),
    "divmod": lambda x: divmod(x, 2.0)[1].sum(),
    "//": lambda x: (x // 1.0).sum() * x[0],
    "%": lambda x: (x % 2.0).sum(),
    "abs": lambda x: abs(x).sum(),
}

REFUSED: Final[dict[str, tuple[Callable[[Any], Any], str, str]]] = {
    # function, words of the message, words of the help
    "array assignment": (lambda x: operator.setitem(np.zeros(2), 0, x[0]), "float()", ".at[i]"),
    "float": (lambda x: float(x[0]) * x[1], "float()", "pirkit.ops"),
    "complex": (lambda x: complex(x[0]).real * x[1], "complex()", "derivative would be lost"),
    "math.sin": (lambda x: math.sin(x[0]), "float()", "pirkit.ops"),
    "math.floor": (lambda x: math.floor(x[0]) * x[1], "float()", "pirkit.ops"),
    "item": (lambda x: x[0].item() * x[1], "item()", "has_aux"),
    "tolist": (lambda x: sum(x.tolist()) * x[1], "tolist()", "has_aux"),
    "np.asarray": (lambda x: np.asarray(x).sum() * x[0], "numpy array", "pirkit.ops"),
    "np.array of values": (lambda x: np.array([x[0], x[1]]).sum(), "", "pirkit.ops"),
    "np.spacing": (lambda x: np.spacing(x).sum(), "spacing", "pirkit.ops"),
    "np.frexp": (lambda x: np.frexp(x)[0].sum(), "frexp", "pirkit.ops"),
    "out=": (lambda x: np.sin(x, out=np.empty(3)).sum(), "out=", "result"),
    "if many": (lambda x: x.sum() if x > 0 else x, "truth", "any()"),
    "int of many": (lambda x: x.sum() * int(x), "int()", "v[0]"),
    "an index of floats": (lambda x: LISTED[x[0]], "index", "integer"),
    "x[1.5]": (lambda x: x[1.5], "[float]", "integer"),
    "x[7]": (lambda x: x[7], "out of bounds", "integer"),
    "x[-4]": (lambda x: x[-4], "out of bounds", "integer"),
    "x[0, 0]": (lambda x: x[0, 0], "too many indices", "integer"),
    "x['a']": (lambda x: x["a"], "index", "integer"),
    "a short mask": (lambda x: x[np.array([True, False])].sum(), "boolean index", "mask"),
    "::0": (lambda x: x[::0].sum(), "zero", "slice"),
    "assignment": (lambda x: operator.setitem(x, 0, 1.0), "assignment", "pirkit.where"),
    "assignment of elements of a tensor": (
        lambda x: operator.setitem(pirkit.tensor(X), 0, x[0]),
        "assignment",
        "x.at[i].set",
    ),
    "assignment at a traced index": (
        lambda x: operator.setitem(pirkit.tensor(X), x.argmax(), 1.0),
        "assignment",
        "x.at[i].set",
    ),
    "del": (lambda x: operator.delitem(x, 0), "del", "x[1:]"),
    "a key of a dict": (lambda x: {x[0]: 1}[x[0]] * x[0], "hash", "id(v)"),
    "a set": (lambda x: len({x[0], x[1]}) * x[0], "hash", "id(v)"),
    "len of 0-D": (lambda x: len(x[0]), "len()", "size"),
    "iteration over 0-D": (lambda x: sum(x[0]), "iteration", "one number"),
    "a string": (lambda x: x + "a", "str", "number"),
    "axis 1 of a vector": (lambda x: x.sum(axis=1), "axis 1", "axis"),
    "-x of a mask": (lambda x: (-(x > 0)).sum() * x[0], "negative", "astype"),
    "a random number": (
        lambda x: x[0] if ops.bernoulli(abs(x) / 4)[0] > 0 else x[1],
        "random",
        "pirkit.where",
    ),
    "a list of values": (lambda x: (x * [x[0], x[1], x[2]]).sum(), "list", "np.stack"),
    "no attribute": (lambda x: x.foo, "attribute `foo`", "pirkit.ops"),
    "a slip of an attribute": (lambda x: x.Sum(), "attribute `Sum`", "`sum`"),
    "an op as a method": (lambda x: x.softplus(), "`softplus`", "pirkit.ops.softplus"),
    "detach": (lambda x: x.detach(), "`detach`", "stop_gradient"),
    "another shape": (lambda x: (x + np.ones(4)).sum(), "", ""),
}


def _slopes(f: Callable[[Any], Any]) -> Any:
    steps = 1e-5 * np.eye(3)
    return [float((np.asarray(f(X + s)) - np.asarray(f(X - s))) / 2e-5) for s in steps]


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    f = RIGHT[name]
    value, slopes = pirkit.value_and_grad(f)(X)
    np.testing.assert_allclose(value, float(np.asarray(f(X))), rtol=1e-12)
    np.testing.assert_allclose(slopes, _slopes(f), rtol=1e-6, atol=1e-8)


TRANSFORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "jvp": lambda f: pirkit.jvp(f, (X,), (np.array([1.0, 0.0, 0.0]),))[1],
    "vjp": lambda f: pirkit.vjp(f, X)[1](np.array(1.0))[0][0],
    "jacrev": lambda f: pirkit.jacrev(f)(X)[0],
    "jacfwd": lambda f: pirkit.jacfwd(f)(X)[0],
    "jet": lambda f: pirkit.jet(f, (X,), ((np.array([1.0, 0.0, 0.0]),),))[1][0],
    "nested": lambda f: pirkit.grad(lambda x: pirkit.value_and_grad(f)(x)[0])(X)[0],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["if", "while", "sorted", "mask", "[::-1]"])
def test_right_under_every_transform(transform: str, name: str) -> None:
    found = TRANSFORMS[transform](RIGHT[name])
    np.testing.assert_allclose(found, _slopes(RIGHT[name])[0], rtol=1e-6, atol=1e-8)


def test_branches_follow_each_call() -> None:
    f = pirkit.grad(lambda x: x * x if x > 0 else -x)
    assert [float(f(v)) for v in (3.0, -1.0, 2.0)] == [6.0, -1.0, 4.0]


def test_a_branch_on_a_derivative() -> None:
    def f(x: Any) -> Any:
        slope = pirkit.grad(lambda y: (y**3).sum())(x)
        return slope.sum() if slope.sum() < 0 else -slope.sum()

    np.testing.assert_allclose(pirkit.grad(f)(X), -6 * X)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, words, help_ = REFUSED[name]
    with pytest.raises(PirkitError) as caught:
        pirkit.grad(f)(X)
    error = caught.value
    assert words in error.message
    assert help_ in (error.help or "")
    assert error.span is not None
    assert error.span.file == __file__
    if f.__module__ == __name__:
        lines, start = inspect.getsourcelines(f)
        assert start <= error.span.line < start + len(lines)


ABSTRACT: Final[dict[str, Callable[[Any], Any]]] = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "while": _while,
    "int": lambda x: x * int(x[0]),
    "in": lambda x: x * (1.0 in x),
    "sorted": lambda x: sorted(x)[0],
    "index": lambda x: LISTED[x.argmax()] * x,
    "mask": lambda x: x[x > 0],
    "format": lambda x: x * len(f"{x[0]:.2f}"),
}


@pytest.mark.parametrize("name", ABSTRACT)
def test_refused_where_the_arguments_come_later(name: str) -> None:
    with pytest.raises(TraceError) as caught:
        trace(ABSTRACT[name], [X])
    assert "only when the program runs" in f"{caught.value} {caught.value.help}"
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


@pytest.mark.parametrize("f", [lambda x: x[::-1], lambda x: x[x.argmax()], lambda x: x[True]])
def test_indexing_of_inputs_that_come_later(f: Callable[[Any], Any]) -> None:
    found = trace(f, [X])
    outputs = pirkit.compile(found.program).run({"x0": X, **found.captured})
    np.testing.assert_array_equal(outputs["y0"], f(X))


# --- values outside their trace ------------------------------------------------------------------

LEAKS: Final[dict[str, Callable[[Any], Any]]] = {
    "operator": lambda v: v + 1,
    "on the right": lambda v: X * v,
    "eager tensor": lambda v: pirkit.tensor(X) * v,
    "op": lambda v: ops.tanh(v),
    "truth": lambda v: bool(v[0] > 0),
    "numpy": np.sin,
    "method": lambda v: v.sum(),
    "another trace": lambda v: pirkit.grad(lambda x: (x * v).sum())(X),
    "on the left in another trace": lambda v: pirkit.grad(lambda x: (v * x).sum())(X),
    "an op of another trace": lambda v: pirkit.grad(lambda x: ops.add(x, v).sum())(X),
    "the argument of a transform": lambda v: pirkit.grad(lambda x: x.sum())(v),
    "the result of another trace": lambda v: pirkit.vjp(lambda x: v, X),
    "where": lambda v: pirkit.where(True, v, 0.0),
}


@pytest.mark.parametrize("name", LEAKS)
def test_leaks(name: str) -> None:
    held: list[Any] = []
    pirkit.grad(lambda x: held.append(x * 1.5) or x.sum())(X)
    with pytest.raises(TraceError) as caught:
        LEAKS[name](held[0])
    assert caught.value.code == "PK0707"
    assert caught.value.span is not None
    assert caught.value.span.file == __file__
    assert "traced" in repr(held[0]).lower()


def test_a_trace_that_failed_is_over() -> None:
    held: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        pirkit.grad(lambda x: held.append(x) or 1 / 0)(X)
    with pytest.raises(TraceError, match="after its function returned"):
        held[0] + 1


def test_values_from_around_an_inner_transform_are_legal() -> None:
    def f(x: Any) -> Any:
        inner = pirkit.grad(lambda y: (y * y * x).sum())
        return inner(np.array([1.0, 2.0, 3.0])).sum()

    np.testing.assert_allclose(pirkit.grad(f)(X), [2.0, 4.0, 6.0])
    value, slope = pirkit.value_and_grad(lambda x: x * pirkit.grad(lambda y: x * y)(2.0))(3.0)
    assert (float(value), float(slope)) == (9.0, 6.0)


# --- element types -------------------------------------------------------------------------------


def test_scalars_of_numpy_keep_their_precision_and_pythons_are_weak() -> None:
    slope = pirkit.grad(ops.tanh)(np.float64(0.37))
    assert slope.dtype.name == "float64"
    np.testing.assert_allclose(slope, 1 - np.tanh(0.37) ** 2, rtol=1e-15)
    assert pirkit.grad(ops.tanh)(0.37).dtype.name == "float32"
    single = X.astype(np.float32)
    _, (wide, weak, _) = pirkit.value_and_grad(
        lambda x: (x.sum(), (x * np.float64(0.1), x * 0.1, x)), has_aux=True
    )(single)[0]
    assert (wide.dtype.name, weak.dtype.name) == ("float64", "float32")


def test_a_number_that_integers_cannot_hold_is_not_truncated() -> None:
    places = np.array([1, 2, 3])
    np.testing.assert_allclose(ops.multiply(places, 0.5), [0.5, 1.0, 1.5])
    (_, found), _ = pirkit.value_and_grad(
        lambda x: (x.sum(), ops.multiply(ops.cast(x, "int64"), 0.5)), has_aux=True
    )(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, [0.5, 1.0, 1.5])


def test_integers_have_no_derivative() -> None:
    for transform in (pirkit.grad, pirkit.jacrev, pirkit.jacfwd):
        with pytest.raises(PirkitError, match="no derivative with respect to") as caught:
            transform(lambda x: (x * 1.5).sum())(np.array([1, 2]))
        assert "astype" in (caught.value.help or "")


# --- places --------------------------------------------------------------------------------------


def test_operations_name_the_line_that_made_them() -> None:
    def f(x: Any) -> Any:
        y = ops.tanh(x)
        y = y * 2 + x
        return np.sum(y)

    start = inspect.getsourcelines(f)[1]
    module = trace(f, [X]).program.module
    text = WRITERS["mlir-locations"](module)
    for line in (start + 1, start + 2, start + 3):
        assert f'{__file__}":{line}:0' in text


def test_every_operation_keeps_its_line_through_the_pipelines() -> None:
    def f(w: Any, x: Any) -> Any:
        hidden = ops.gelu(x @ w)
        return (ops.softmax(hidden) * hidden**2).mean()

    start = inspect.getsourcelines(f)[1]
    step = pirkit.value_and_grad(f)
    program = trace(lambda w, x: step(w, x), [M, M.T]).program
    for pipeline in ("taylor,expand-gradients", "taylor,expand-gradients,@default"):
        done = pirkit.run_passes(program, pipeline).entry(None)
        spans = [span_of(op) for op in done.block.walk()]
        assert {span.file for span in spans if span is not None} == {__file__}
        assert None not in spans
        assert start + 1 in {span.line for span in spans if span is not None}


def test_an_error_of_an_op_names_the_line_and_the_op() -> None:
    def f(x: Any) -> Any:
        return ops.matmul(x, np.ones((4, 4))).sum()

    with pytest.raises(PirkitError, match="inner dimensions") as caught:
        pirkit.grad(f)(X)
    assert str(caught.value.span) == f"{__file__}:{inspect.getsourcelines(f)[1] + 1}"
    assert "pd_op.matmul" in " ".join(caught.value.notes)


def test_an_unknown_truth_cannot_be_caught() -> None:
    """`except Exception` around an `if` would record what the function does of no value."""

    def f(x: Any) -> Any:
        try:
            if x[0] > 0:
                return x * 2
        except Exception:
            pass
        return x * 3

    x = np.array([1.0, -2.0])
    np.testing.assert_array_equal(pirkit.vjp(f, x)[0].numpy(), x * 2)
    for traced in (pirkit.jit(f), pirkit.jit(lambda x: pirkit.cond(x.sum() > 0, f, f, x))):
        with pytest.raises(TraceError, match="the truth"):
            traced(x)


UNKNOWN_SIZES: Final[dict[str, Callable[[Any], Any]]] = {
    "numpy": lambda n: np.zeros(n), "ours": lambda n: pnp.ones((n, 2)),
    "a bound": lambda n: pirkit.fori_loop(0, n / 2, lambda i, s: s + i, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN_SIZES)
def test_sizes_are_known_integers(name: str) -> None:
    with pytest.raises(TraceError) as caught:
        pirkit.jit(UNKNOWN_SIZES[name])(3)
    assert caught.value.help
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


def test_operators_ask_for_no_attribute_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told of one, with what is like it, takes longer than the operation."""

    def asked(self: Any, name: str) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(TracedValue, "__getattr__", asked)
    x = np.ones(3, np.float32)
    pirkit.trace(lambda a, b: (np.tanh(a + b) * 2.0 - a[0] * b.T).sum(axis=0).mean(), x, x)


@pytest.mark.parametrize(
    "call",
    [lambda v: ops.full(shape=[2], value=v), lambda v: ops.scale(pirkit.tensor(-X), v),
     lambda v: ops.scale(pirkit.tensor(-X), scale=np.float32(v)),
     lambda v: ops.assign_value([2], "float64", [1, v])],
    ids=["full", "scale", "numpy", "list"],
)  # fmt: skip
def test_eager_ops_tell_zeros_of_different_signs(call: Any) -> None:
    for value in (0.0, -0.0, 0.0, -0.0):
        found = np.atleast_1d(call(value).array)[-1]
        assert np.signbit(found) == np.signbit(value)

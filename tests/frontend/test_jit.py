"""Compiled functions: one program for each signature, nothing stale, results of one's own."""

from __future__ import annotations

import re
import runpy
import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import PirkitError, UsageError
from pirkit.frontend import compiled_call
from pirkit.runtime.native import program_session

X: Final = np.array([0.3, -0.7, 1.1])


class Pair(NamedTuple):
    a: Any
    b: Any


@pirkit.tree.register_dataclass
@dataclass
class Layer:
    w: Any
    b: Any


@dataclass
class Scaled:
    x: Any
    factor: int


pirkit.tree.register_dataclass(Scaled, ["x"], ["factor"])


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


pirkit.tree.register(Box, lambda box: ([box.inside], None), lambda _, parts: Box(*parts))


def reasons(f: Any) -> list[str]:
    return f.explain().splitlines()


def eager_and_compiled(f: Any, *args: Any, **kwargs: Any) -> Any:
    expected, compiled = f(*args, **kwargs), pirkit.jit(f)
    for _ in range(3):  # the first call compiles, later ones are quick
        found = compiled(*args, **kwargs)
        pairs = zip(pirkit.tree.leaves(expected), pirkit.tree.leaves(found), strict=True)
        for x, y in pairs:
            np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=1e-12)
        assert pirkit.tree.flatten(found)[1] == pirkit.tree.flatten(expected)[1]
    assert len(reasons(compiled)) == 1
    return compiled


# --- trees ---

TREES: Final[dict[str, Any]] = {
    "array": X,
    "tuple": (X, X),
    "list": [X, [X]],
    "dict": {"b": X, "a": (X,)},
    "keys of several types": {1: X, "a": X, (2, "b"): X, 0.5: X},
    "named tuple": Pair(X, {"c": X}),
    "dataclass": Layer(X, [X]),
    "dataclass with a field apart": Scaled(X, 3),
    "registered class": (Box(X), X),
    "none": (None, X, {"n": None}),
    "ordered": OrderedDict(z=X, a=X),
    "default": defaultdict(list, z=X, a=X),
    "empty": ((), {}, X),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_go_in_and_come_out(name: str) -> None:
    def f(given: Any) -> Any:
        return pirkit.tree.map(lambda v: ops.sin(v) * 2.0, given)

    compiled = eager_and_compiled(f, TREES[name])
    assert type(compiled(TREES[name])) is type(f(TREES[name]))


def test_trees_are_taken_as_jax_takes_them() -> None:
    tree = pirkit.tree
    given = {"b": 1, "a": (2, [3, None])}
    leaves, shape = tree.flatten(given)
    assert (leaves, tree.unflatten(shape, [4, 5, 6])) == ([2, 3, 1], {"a": (4, [5, None]), "b": 6})
    assert tree.structure(given) == shape != tree.structure([1])
    assert tree.map(lambda x, y: (x, y), (1, {"k": 2}), ([5], {"k": None})) == (
        (1, [5]), {"k": (2, None)})  # fmt: skip
    assert tree.map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]
    assert tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
    assert tree.reduce(lambda x, y: x + y, given, 10) == 16
    assert tree.all({"a": True, "b": 1})
    assert not tree.all([1, 0])
    rows = ({"a": 1}, {"a": 2})
    assert tree.transpose(tree.structure((0, 0)), tree.structure({"a": 0}), rows) == {"a": (1, 2)}
    assert tree.leaves_with_path(given) == [("['a'][0]", 2), ("['a'][1][0]", 3), ("['b']", 1)]
    assert tree.map_with_path(lambda path, leaf: f"{path}{leaf}", [7]) == ["[0]7"]
    for count in (2, 4):
        with pytest.raises(UsageError, match="leaves than"):
            tree.unflatten(shape, range(count))


@pytest.mark.parametrize("name", TREES)
def test_gradients_are_trees_like_arguments(name: str) -> None:
    def loss(given: Any) -> Any:
        return sum((v * v).sum() for v in pirkit.tree.leaves(given))

    eager_and_compiled(pirkit.grad(loss), TREES[name])


def test_the_order_of_a_dict_does_not_matter() -> None:
    f = pirkit.jit(lambda p: p["a"] - p["b"])
    np.testing.assert_allclose(f({"a": X, "b": X * 2}), -X)
    np.testing.assert_allclose(f({"b": X * 2, "a": X}), -X)
    assert len(reasons(f)) == 1


def test_keywords_and_defaults() -> None:
    def f(x: Any, *, scale: Any, shift: Any = 1.0) -> Any:
        return x * scale + shift

    eager_and_compiled(f, X, scale=X)
    eager_and_compiled(f, X, shift=X, scale=2.0)


# --- signatures ---


def test_reasons_name_what_changed() -> None:
    f = pirkit.jit(lambda p, n: p["w"] * n, static_argnums=1)
    assert "first call" in f.explain() or "nothing" in f.explain()
    f({"w": X}, 2)
    f({"w": X[:2]}, 2)
    f({"w": X[:2].astype(np.float32)}, 2)
    f({"w": X}, 3)
    f({"w": X, "v": X}, 3)
    found = reasons(f)
    for words, line in zip(
        ["p['w']", "shape (3,) -> (2,)", "dtype float64 -> float32", "2 -> 3", "`p['v']` is new"],
        found,
        strict=True,
    ):
        assert words in line
    for again in ({"w": X}, {"w": X[:2]}):
        f(again, 2)
    assert reasons(f) == found


def test_static_arguments_by_name_and_place() -> None:
    def f(x: Any, mode: str = "sin", times: int = 1) -> Any:
        for _ in range(times):
            x = getattr(ops, mode)(x)
        return x

    by_name = pirkit.jit(f, static_argnames=("mode", "times"))
    np.testing.assert_allclose(by_name(X, "cos", times=2), np.cos(np.cos(X)))
    np.testing.assert_allclose(by_name(X, mode="sin"), np.sin(X))
    np.testing.assert_allclose(by_name(X, True and "sin"), np.sin(X))
    by_place = pirkit.jit(f, static_argnums=(1, 2))
    np.testing.assert_allclose(by_place(X, "cos", 2), np.cos(np.cos(X)))
    np.testing.assert_allclose(by_place(X, times=3), np.sin(np.sin(np.sin(X))))


def test_one_and_true_are_not_the_same_static() -> None:
    f = pirkit.jit(lambda x, flag: x * 2 if flag is True else x, static_argnums=1)
    np.testing.assert_allclose(f(X, True), 2 * X)
    np.testing.assert_allclose(f(X, 1), X)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [(0.0, -0.0), (np.float32(0.0), np.float32(-0.0)), ((1, 0.0), (1, -0.0)), ((1,), (1.0,)),
     (complex(1, 0.0), complex(1, -0.0)), (frozenset([0.0]), frozenset([-0.0]))],
    ids=repr,
)  # fmt: skip
def test_values_that_only_compare_equal_get_programs_of_their_own(
    first: Any, second: Any, fast: bool
) -> None:
    """Static arguments, static data of objects, and captured values."""
    held = [first]
    uses = {
        "static": pirkit.jit(lambda x, s: x + len(repr(s)), static_argnums=1),
        "field": pirkit.jit(lambda m: m.x + len(repr(m.factor))),
        "captured": pirkit.jit(lambda x: x + len(repr(held[0]))),
    }
    for name, f in uses.items():
        for held[0] in [first] * (3 if fast else 1) + [second, first, second]:
            args = {"static": (X, held[0]), "field": (Scaled(X, held[0]),), "captured": (X,)}[name]
            np.testing.assert_allclose(f(*args), X + len(repr(held[0])), err_msg=name)


def test_tensors_arrays_and_lists_of_numbers() -> None:
    f = pirkit.jit(lambda x: x * 2)
    for given in (X, pirkit.tensor(X), np.asfortranarray(X), np.repeat(X, 2)[::2], X):
        np.testing.assert_allclose(f(given), 2 * X)
    assert len(reasons(f)) == 1
    g = pirkit.jit(lambda m: m.T @ m)
    matrix = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(g(matrix), matrix.T @ matrix)
    np.testing.assert_allclose(g(np.asfortranarray(matrix)), matrix.T @ matrix)


def test_numbers_are_inputs() -> None:
    f = pirkit.jit(lambda x, lr: x * lr)
    for lr in (0.5, 0.25, 2.0):
        np.testing.assert_allclose(f(X, lr), X * lr)
    assert len(reasons(f)) == 1


# --- results ---


def test_results_are_the_callers() -> None:
    f = pirkit.jit(lambda x: (x, x * 2))
    same, double = f(X)
    again = f(X)
    double[...] = 0
    same[...] = 0
    np.testing.assert_allclose(again[1], 2 * X)
    np.testing.assert_allclose(f(X)[0], X)
    assert X[0] == 0.3


def test_out_takes_results() -> None:
    f = pirkit.jit(lambda x, y: {"a": x * 2, "b": (x * y).sum()})
    out = {"a": np.empty(3), "b": np.empty(())}
    assert f(X, X, out=out) is out
    np.testing.assert_allclose(out["a"], 2 * X)
    np.testing.assert_allclose(out["b"], (X * X).sum())
    shared = X.copy()
    f(shared, X, out={"a": shared, "b": out["b"]})
    np.testing.assert_allclose(shared, 2 * X)
    np.testing.assert_allclose(out["b"], (X * X).sum())
    tensor = pirkit.tensor(np.zeros(3))
    version = tensor.version
    pirkit.jit(lambda x: x * 2)(X, out=tensor)
    np.testing.assert_allclose(tensor, 2 * X)
    assert tensor.version > version
    frozen = np.empty(3)
    frozen.flags.writeable = False
    repeated = np.lib.stride_tricks.as_strided(np.empty(3), (3,), (0,))
    for wrong in (np.empty(2), np.empty(3, np.float32), (np.empty(3),), frozen, repeated):
        with pytest.raises(UsageError):
            pirkit.jit(lambda x: x * 2)(X, out=wrong)


def test_out_at_each_call_is_the_native_call(monkeypatch: pytest.MonkeyPatch) -> None:
    f = pirkit.jit(lambda x, y: {"a": x + y, "b": (x * y).sum()})
    slow: list[Any] = []
    copied = compiled_call.Compiled._into
    counted = lambda *given: (slow.append(1), copied(*given))[1]  # noqa: E731
    monkeypatch.setattr(compiled_call.Compiled, "_into", counted)
    memory = np.zeros(3 * X.size)
    out = {"a": np.empty_like(X), "b": np.empty(())}
    f(X, X, out=out)
    slow.clear()
    for k in range(3):
        assert f(X + k, X, out=out) is out
        np.testing.assert_array_equal(out["a"], X + k + X)
        np.testing.assert_allclose(out["b"], ((X + k) * X).sum())
    assert not slow
    given, written = memory[: X.size], memory[X.size // 2 :][: X.size]
    given[:] = X
    f(given.reshape(X.shape), X, out={"a": written.reshape(X.shape), "b": out["b"]})
    np.testing.assert_array_equal(written.reshape(X.shape), X + X)
    locked = np.empty_like(X)
    locked.flags.writeable = False
    both = {"a": written.reshape(X.shape), "b": written[:1].reshape(())}
    for wrong in ({**out, "a": locked}, both, {**out, "a": np.empty(9)}):
        with pytest.raises(PirkitError):
            f(X, X, out=wrong)
    assert len(slow) == 4


@pytest.mark.parametrize("shape", [(2,), (2, 2), (1,)])
def test_arrays_made_while_tracing_keep_the_signs_of_zeros(shape: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        held = np.zeros(shape)
        held[-1:] = -0.0
        return x / held

    found = pirkit.jit(f)(np.ones(shape)).array
    expected = np.full(shape, np.inf)
    expected[-1:] = -np.inf
    np.testing.assert_array_equal(found, expected)


def test_donated_memory_holds_results() -> None:
    def step(p: Any, g: Any) -> Any:
        return {k: p[k] - 0.5 * g[k] for k in p}

    f = pirkit.jit(step, donate_argnums=0)
    g = {"w": X, "b": X * 2}
    for _ in range(3):
        p = {"w": np.ones(3), "b": np.zeros(3)}
        held = p["w"]
        found = f(p, g)
        np.testing.assert_allclose(found["w"], 1 - 0.5 * X)
        np.testing.assert_allclose(found["b"], -X)
        assert found["w"].array is held
    shared = np.ones(3)
    found = f({"w": shared, "b": shared}, g)  # the same memory twice is left alone
    np.testing.assert_allclose(found["w"], 1 - 0.5 * X)
    np.testing.assert_allclose(found["b"], 1 - X)
    np.testing.assert_allclose(shared, 1)


@pytest.mark.parametrize("strides", [(16, 16), (0, 8), (8, 8), (-16, 16)])
def test_elements_of_out_in_one_memory_are_refused(strides: tuple[int, int]) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(20)[8:], (2, 3), strides)
    with pytest.raises(UsageError, match="same memory"):
        pirkit.jit(lambda x: x * 2)(np.ones((2, 3)), out=out)


def test_arrays_of_out_may_lie_between_each_other() -> None:
    memory = np.zeros((3, 2, 2))
    out = {"a": memory[..., 0].T, "b": memory[::-1, :, 1].T}
    given = np.arange(6.0).reshape(2, 3)
    pirkit.jit(lambda x: {"a": x * 2, "b": x + 1})(given, out=out)
    np.testing.assert_array_equal(out["a"], given * 2)
    np.testing.assert_array_equal(out["b"], given + 1)


def test_negative_numbers_count_from_the_end_of_the_signature() -> None:
    def f(x: Any, s: Any = None) -> Any:
        return x + 1.0 if s is None else x * s

    x = np.ones(3)
    donating = pirkit.jit(f, donate_argnums=-1)
    for _ in range(3):  # the last argument of the call is not that of the signature
        np.testing.assert_array_equal(donating(x).array, 2 * np.ones(3))
    np.testing.assert_array_equal(x, np.ones(3))
    static = pirkit.jit(f, static_argnums=-1)
    np.testing.assert_array_equal(static(x).array, 2 * np.ones(3))
    np.testing.assert_array_equal(static(x, 3.0).array, 3 * np.ones(3))
    rest = pirkit.jit(lambda x, *rest: x * rest[-1], static_argnums=-1)
    np.testing.assert_array_equal(rest(x, [x], 2.0).array, 2 * x)
    with pytest.raises(UsageError, match="no argument 1"):
        pirkit.jit(lambda x, *, flag: x, static_argnums=1)


def test_donated_memory_is_not_read_under_another_name() -> None:
    """Arrays of one memory need not have a common `base`."""
    f = pirkit.jit(lambda x, y: (x * 2, y + 1), donate_argnums=0)
    memory = bytearray(np.arange(6.0).tobytes())
    x, y = np.frombuffer(memory, count=4), np.frombuffer(memory, count=4, offset=16)
    assert x.base is not y.base
    doubled, more = f(x, y)
    np.testing.assert_array_equal(doubled, [0, 2, 4, 6])
    np.testing.assert_array_equal(more, [3, 4, 5, 6])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


def test_an_argument_that_is_not_read_still_counts() -> None:
    f = pirkit.jit(lambda x, unused: x * 2)
    f(X, X)
    f(X, X[:2])
    assert len(reasons(f)) == 2
    with pytest.raises(UsageError, match="unused"):
        f(X, "text")


def test_a_call_without_arguments() -> None:
    w = np.ones(3)
    f = pirkit.jit(lambda: w * 2)
    np.testing.assert_allclose(f(), np.asarray(f()))


def test_random_ops_draw_at_each_call() -> None:
    f = pirkit.jit(lambda x: x + ops.uniform([3], dtype="float64", min=0.0, max=1.0))
    assert np.abs(np.asarray(f(X)) - np.asarray(f(X))).max() > 0


def test_threads_share_one_compilation() -> None:
    f = pirkit.jit(lambda x: ops.tanh(x) * 2)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(f(X))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for each in found:
        np.testing.assert_allclose(each, np.tanh(X) * 2)
    assert len(reasons(f)) == 1


# --- inside other functions ---


def test_nested_transforms_are_one_program() -> None:
    def loss(p: Any, x: Any) -> Any:
        return (ops.tanh(x @ p["w"] + p["b"]) ** 2).sum()

    @pirkit.jit
    def step(p: Any, x: Any) -> Any:
        value, found = pirkit.value_and_grad(loss)(p, x)
        return value, pirkit.tree.map(lambda v, g: v - 0.1 * g, p, found)

    p = {"w": np.ones((3, 2)) / 3, "b": np.zeros(2)}
    value, after = step(p, np.ones((4, 3)))
    expected, slopes = pirkit.value_and_grad(loss)(p, np.ones((4, 3)))
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(after["w"], p["w"] - 0.1 * np.asarray(slopes["w"]))
    programs = [c.whole for versions in step._compiled.values() for c in versions]
    assert [w.native is not None for w in programs] == [True]


def test_values_of_an_outer_trace_pass_through() -> None:
    np.testing.assert_allclose(
        pirkit.grad(lambda x: pirkit.jit(lambda y: (y * x).sum())(x))(X), 2 * X
    )
    np.testing.assert_allclose(pirkit.grad(lambda x: pirkit.jit(lambda: (x * x).sum())())(X), 2 * X)


def test_methods() -> None:
    class Model:
        @pirkit.jit
        def double(self, x: Any) -> Any:
            return x * 2

    with pytest.raises(UsageError, match="self"):
        Model().double(X)

    class Static:
        def __init__(self) -> None:
            self.factor = 3.0

        def _scaled(self, x: Any) -> Any:
            return x * self.factor

        scaled = pirkit.jit(_scaled, static_argnums=0)

    np.testing.assert_allclose(Static().scaled(X), 3 * X)


# --- trace and compile ---


def test_traced_programs_stand_alone() -> None:
    w = np.full(3, 2.0)
    program = pirkit.trace(lambda p, *, scale: (p["x"] * w * scale).sum(), {"x": X}, scale=X)
    w[:] = 0  # the program has what it was
    exe = pirkit.compile(program)
    found = exe.run({"p.x": X, "scale": X})["y0"]
    np.testing.assert_allclose(found, (X * 2 * X).sum())


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_derivatives_compile(backend: str) -> None:
    exe = pirkit.compile(pirkit.grad(lambda x: (x * x * x).sum()), X, backend=backend)
    np.testing.assert_allclose(exe(x=X)["y0"], 3 * X * X)
    exe = pirkit.compile(pirkit.hessian(lambda x: (x * x * x).sum()), X, backend=backend)
    np.testing.assert_allclose(exe(x=X)["y0"], np.diag(6 * X))


@pytest.mark.parametrize("name", ["jit", "transforms", "optim"])
def test_the_code_of_the_page_runs(name: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / f"{name}.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > (5 if name == "jit" else 0)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    runpy.run_path(str(script), run_name="__main__")


def test_numbers_are_strict_unless_fast_math_is_asked_for() -> None:
    def f(a: Any, b: Any, w: Any) -> Any:
        return ops.tanh(a @ w + b @ w).sum()

    large = np.full((64, 8), 3e38, np.float32)  # a w - a w, where a w overflows
    given = (large, -large, np.ones((8, 2), np.float32))
    strict = pirkit.jit(f)
    assert np.isnan(strict(*given))
    assert pirkit.jit(f, fast_math=True)(*given) == 0
    (compiled,), *_ = strict._compiled.values()
    assert "rows" in compiled.whole.native.summary, "batch rows are in lanes in both"


@pytest.mark.parametrize("number", [0.1, 3, 1j, True], ids=repr)
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int32", "int64", "complex64"])
def test_python_numbers_among_the_arguments_promote_weakly(kind: str, number: Any) -> None:
    """NEP 50: as a number that is written in the function."""
    x = np.arange(1, 4).astype(kind)

    def f(x: Any, s: Any) -> Any:
        return x * s, s + x, pirkit.where(x > 2, x, 0) * s

    found = pirkit.jit(f)(x, number)
    wanted = pirkit.jit(lambda x: f(x, number))(x)
    for a, b, c in zip(found, wanted, (x * number, number + x, np.where(x > 2, x, 0) * number),
                       strict=True):  # fmt: skip
        assert np.asarray(a).dtype == np.asarray(b).dtype == c.dtype
        np.testing.assert_allclose(a, b, rtol=1e-3 if kind == "float16" else 0)


def test_numbers_of_numpy_and_numbers_alone_have_types() -> None:
    scaled = pirkit.jit(lambda x, s: x * s)
    x = np.ones(3, np.float32)
    assert scaled(x, 0.5).dtype.name == "float32"
    assert scaled(x, np.float64(0.5)).dtype.name == "float64"
    assert "a Python float -> a tensor" in scaled.explain()
    assert scaled(x, 0.25).dtype.name == "float32"
    assert len(scaled.explain().splitlines()) == 2
    assert pirkit.jit(lambda s: s * 2)(0.1).dtype.name == "float32"
    slope = pirkit.grad(lambda x, s: (x * s).sum())(np.ones(3), 0.1)
    np.testing.assert_array_equal(slope, 0.1)


@pytest.mark.parametrize("slot", [True, False])
def test_tensors_and_arrays_are_mixed(slot: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without native code that takes arrays out of tensors."""
    if not slot:
        monkeypatch.setattr(compiled_call, "array_slot", lambda: 0)
        monkeypatch.setattr(program_session, "array_slot", lambda: 0)
    else:
        assert program_session.array_slot() > 0
    f = pirkit.jit(lambda x, y: x * y)
    x = np.arange(4.0)
    for a, b in ((x, x), (pirkit.from_numpy(x), x), (x, pirkit.from_numpy(x))):
        np.testing.assert_array_equal(f(a, b), x * x)
    unmade = pirkit.Tensor.__new__(pirkit.Tensor)
    with pytest.raises(AttributeError):
        f(unmade, x)


def test_constants_that_are_transposed_take_no_slow_call() -> None:
    def scaled(x: Any) -> Any:
        return x @ np.asarray(np.arange(6.0).reshape(2, 3)).T

    step, x = pirkit.jit(scaled), np.ones((4, 3))
    for _ in range(3):
        np.testing.assert_array_equal(step(x), scaled(x))
    assert step.__call__ != step._call  # the native function, not the way to it


@pytest.mark.parametrize("donated", [(), (1,)], ids=["kept", "donated"])
def test_arrays_that_are_transposed_take_no_slow_call(
    donated: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments, tensors, arrays in trees and those of closures: they are copied, which is all."""
    base = np.arange(12.0).reshape(3, 4)
    closed = [base.T[:3], base[:, ::2]]

    def scaled(x: Any, y: Any) -> Any:
        return (x[0] @ closed[0] + y) * 2.0 + (x[1] @ closed[1]).sum()

    given = [np.arange(6.0).reshape(3, 2).T, pirkit.DenseTensor(base[:2, :3])]
    plain = [np.asarray(v) for v in given]
    wanted = [scaled(plain, y) for y in (np.ones((2, 3)), np.ones((3, 2)).T)]
    step = pirkit.jit(scaled, donate_argnums=donated)
    step(given, np.ones((2, 3)))
    monkeypatch.setattr(type(step), "_slowly", None)
    for _ in range(3):
        np.testing.assert_array_equal(step(given, np.ones((2, 3))), wanted[0])
        np.testing.assert_array_equal(step(given, np.ones((3, 2)).T), wanted[1])


@pytest.mark.parametrize("zero", [0, 0.0])
def test_a_zero_that_is_added_gives_the_sign_that_numpy_gives(zero: float) -> None:
    x = np.array([-0.0, 0.0, 1.5])
    for f in (lambda x: x + zero, lambda x: zero + x, lambda x: x - zero, lambda x: x + -0.0,
              lambda x: x - -0.0, lambda x: sum([x, x])):  # fmt: skip
        found = np.asarray(pirkit.jit(f)(x))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(f(x)))
    z = np.array([complex(-0.0, -0.0), complex(1.0, -0.0)])
    found = np.asarray(pirkit.jit(lambda z: z + zero)(z))
    np.testing.assert_array_equal(np.signbit(np.imag(found)), np.signbit(np.imag(z + zero)))


@pytest.mark.parametrize(
    ("dtype", "x", "factors"),
    [
        ("float32", 1e38, (1e-30, 1e-30)),
        ("float32", 0.0, (1e30, 1e30)),
        ("float32", 1e-30, (1e30, 1e20)),
        ("float64", 0.0, (1e200, 1e200)),
        ("float64", 1e-200, (1e200, 1e200, 1e-100)),
        ("float16", 0.0, (1000.0, 1000.0)),
        ("float64", 1.0, (1 << 40, 1 << 40)),
        ("float64", 1.0, (0, -5)),
        ("float64", 3.0, (2, 0.25, -1)),
    ],
)
def test_factors_that_follow_each_other(dtype: str, x: float, factors: tuple[float, ...]) -> None:
    """They are joined to one, unless that leaves the range of the element type."""

    def scaled(v: Any) -> Any:
        for factor in factors:
            v = v * factor
        return v

    given = np.array([x], dtype)
    found, want = np.asarray(pirkit.jit(scaled)(given)), scaled(given)
    np.testing.assert_allclose(found, want, rtol=2 * float(np.finfo(dtype).eps))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))

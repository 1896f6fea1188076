"""Passes of one function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.passes import Pass, parse_pipeline, register_pass, rewrite

MODEL = Path(pirkit.__file__).parent / "samples" / "lenet.json"
X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(2, 1, 16, 16)


@rewrite("relu")
def clip(call: Any, *, most: float = 6.0) -> Any:
    """Clip at a number."""
    return call.b.minimum(call.b.relu(call.x), call.b.const(most, call.x.dtype))


def outputs(program: pirkit.Program) -> Any:
    (found,) = pirkit.compile(program).run({"x0": X}).values()
    return np.asarray(found)


def test_operands_and_options_reach_the_rule() -> None:
    program = pirkit.load(MODEL)
    same, found = pirkit.run_passes(program, [clip, "cse"], stats=True)
    assert found.stats["clip"]["rewritten"] == 2
    np.testing.assert_array_equal(outputs(same), outputs(program))
    clipped = pirkit.run_passes(program, [clip(most=0.125)])
    assert not np.array_equal(outputs(clipped), outputs(same))
    assert str(same).count('comp_op_name = "relu"') >= 2


def test_a_rule_may_leave_a_call() -> None:
    @rewrite("relu", "pd_op.add")
    def nothing(call: Any) -> Any:
        return NotImplemented

    program = pirkit.load(MODEL)
    done, found = pirkit.run_passes(program, [nothing], stats=True)
    assert found.stats["nothing"]["rewritten"] == 0
    assert str(done) == str(program)


@rewrite("divide")
def divide_by_root(call: Any) -> Any:
    """Multiply by the reciprocal root."""
    root = call.made_by("y", "sqrt")
    return NotImplemented if root is None else call.b.multiply(call.x, call.b.rsqrt(root.x))


def test_a_pattern_walks_to_the_definition_of_an_operand() -> None:
    def quotients(x: Any, y: Any) -> Any:
        return x / pirkit.ops.sqrt(y), x / pirkit.ops.exp(y), x / y

    x = np.linspace(1, 2, 6, dtype=np.float32)
    program = pirkit.trace(quotients, x, x)
    done, found = pirkit.run_passes(program, [divide_by_root, "dce"], stats=True)
    assert found.stats["divide-by-root"]["rewritten"] == 1
    assert "pd_op.rsqrt" in str(done)
    assert "pd_op.sqrt" not in str(done)
    for a, b in zip(
        pirkit.compile(done).run({"x": x, "y": x}).values(), quotients(x, x), strict=True
    ):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-6)


def test_a_pattern_does_not_read_what_is_written_in_between() -> None:
    def quotient(x: Any, y: Any) -> Any:
        root = pirkit.ops.sqrt(y)
        pirkit.ops.add_(y, x)
        return x / root

    x = np.ones(3, np.float32)
    program = pirkit.trace(quotient, x, x)
    assert "add_" in str(program)
    found = pirkit.run_passes(program, [divide_by_root], stats=True)[1]
    assert found.stats["divide-by-root"]["rewritten"] == 0


@pytest.mark.parametrize(("mark", "times"), [("", 1), (" {stop_gradient = array<i1: true>}", 0)])
def test_a_pattern_does_not_skip_what_stops_gradients(mark: str, times: int) -> None:
    text = f"""pir.program @main(%x "x" : tensor<3xf32>, %y "y" : tensor<3xf32>) {{
      %0 = pd_op.sqrt(%y){mark} : (tensor<3xf32>) -> tensor<3xf32>
      %1 = pd_op.divide(%x, %0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      pir.shadow_output(%1) {{output_name = "z"}} : (tensor<3xf32>) -> () }}"""
    found = pirkit.run_passes(pirkit.loads(text), [divide_by_root], stats=True)[1]
    assert found.stats["divide-by-root"]["rewritten"] == times


def test_a_registered_rule_has_its_place_in_pipelines() -> None:
    from pirkit.passes import PASSES

    try:
        register_pass(clip)
        (found,) = parse_pipeline("clip{most=0.5}")
        assert str(found) == "clip{most=0.5}"
    finally:
        PASSES.pop("clip", None)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (lambda c: c.b.sum(c.x, axis=(0,), keepdim=False), "the rule for `pd_op.relu` gives a "),
        (lambda c: c.y, "`pd_op.relu` has no 'y'"),
        (lambda c: (c.x, c.x), "the rule returns 2 values"),
    ],
)
def test_a_wrong_rule_is_named_with_its_op(result: Any, said: str) -> None:
    @rewrite("relu")
    def wrong(call: Any) -> Any:
        return result(call)

    with pytest.raises(PirkitError, match="pass `wrong` failed") as caught:
        pirkit.run_passes(pirkit.load(MODEL), [wrong])
    assert caught.value.code == "PK0801"
    assert said in str(caught.value)
    assert caught.value.span is not None


def test_wrong_names_and_classes_are_refused() -> None:
    with pytest.raises(PirkitError, match="there is no op `rleu`") as caught:
        rewrite("rleu")
    assert "`relu`" in str(caught.value.help)
    with pytest.raises(PirkitError, match="takes the names of ops"):
        rewrite()
    with pytest.raises(PirkitError, match="a pipeline is made of passes"):
        pirkit.run_passes(pirkit.load(MODEL), [Pass])
    with pytest.raises(PirkitError, match="the pass Nameless has no name"):
        pirkit.run_passes(pirkit.load(MODEL), [Nameless])


class Nameless(Pass):
    def run(self, ctx: Any, module: Any) -> None: ...


@pytest.mark.parametrize("name", ["name", "ops", "rule", "run", "stats"])
def test_an_option_does_not_hide_what_a_pass_has(name: str) -> None:
    held: dict[str, Any] = {}
    exec(f"def f(call, *, {name}=1.0): return call.x", held)
    with pytest.raises(PirkitError, match=f"option `{name}` of `f`"):
        rewrite("relu")(held["f"])


@pytest.mark.parametrize("op", ["multiply", "add", "divide", "subtract", "where"])
def test_an_operand_that_another_broadcasts_is_kept_for_no_sizes(op: str) -> None:
    """Types of unknown sizes are equal where shapes are not: the result had that of the operand."""
    b = pirkit.ProgramBuilder()
    x, like = (b.input(name, (-1, -1), "float32") for name in ("x", "like"))
    x = b.tanh(x)
    neutral = {"multiply": 1.0, "divide": 1.0, "add": -0.0, "subtract": 0.0}.get(op)
    if neutral is None:
        y = b.where(b.greater_than(like, b.const(0.0, like.dtype)), x, x)
    else:
        one = b.full(shape=(1, 1), value=neutral, dtype=x.dtype)
        y = b(f"pd_op.{op}", x, b.expand(one, shape=b.shape64(like)))
    b.output("y", b.exp(y))
    run = pirkit.compile(b.finish(), pipeline="@simplify")
    found = run(x=np.ones((2, 1), np.float32), like=np.ones((2, 4), np.float32))["y"]
    assert found.shape == (2, 4)

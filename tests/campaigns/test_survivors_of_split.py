"""What mutants of the split have shown that no test looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit import ProgramBuilder, tensor
from pirkit.diag.errors import UsageError
from pirkit.dialect.opdef import all_ops, decompose, vjp
from pirkit.dialect.operation import ProgramOp, span_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import UNDEFINED
from pirkit.split import forward_backward, recompute
from pirkit.split.save_or_recompute import MODES
from pirkit.split.split_files import load_parts, save_parts
from tests.execution import parsed
from tests.split.model import Model, op, output, parameter, program, split

T = "tensor<4xf32>"
ATTRS: dict[str, dict[str, Any]] = {
    "floor_divide": {}, "unique": {}, "exp": {},
    "full_like": {"value": 2.0, "dtype": dt.float32, "place": UNDEFINED},
}  # fmt: skip
"""Three ops without a derivative, and one that has one."""


@pytest.mark.parametrize("name", ATTRS)
def test_what_stops_gradients_is_told(name: str) -> None:
    """An op without a derivative lets none through, and a note names it."""
    b = ProgramBuilder()
    x = b.input("x", (4,), "float32")
    a = b.exp(x)
    operands = (a, x) if name == "floor_divide" else (a,)
    made: Any = b(f"pd_op.{name}", *operands, **ATTRS[name])
    b.output("c", a * b.sum(made[0] if name == "unique" else made, (0,)))
    parts = forward_backward(b.finish())
    told = [note.split("`")[1] for note in parts.report.notes]
    assert told == ([] if name == "exp" else [f"pd_op.{name}"])
    ops = [one.name for one in parts.backward.main.walk()]
    assert ("pd_op.add" in ops) == (name == "exp")
    (own,) = [one for one in parts.forward.main.operations if one.name == f"pd_op.{name}"][-1:]
    assert own.stop_gradient == (() if name == "exp" else (True,) * len(own.result_slots))


def test_ops_without_a_rule_have_no_gradient_op_but_random_ones() -> None:
    """So the split need not ask for one before it stops a gradient."""
    ops = {d.name: d for d in all_ops() if d.dialect == "pd_op"}
    bare = [d for d in ops.values() if vjp.get(d) is None and decompose.get(d) is None]
    assert [d.name for d in bare if f"{d.name}_grad" in ops] == ["pd_op.poisson"]
    assert ops["pd_op.poisson"].effects == "random"


@pytest.mark.parametrize("names", [(), ("a", "b")])
def test_what_a_module_holds_instead_of_a_program_is_told(names: tuple[str, ...]) -> None:
    module = ModuleOp([])
    for name in names:
        held = parsed(f'pir.program @{name}(%x "x" : {T}) {{}}')
        (one,) = [one for one in held.ops if isinstance(one, ProgramOp)]
        module.body.block.add_op(one.clone())
    with pytest.raises(UsageError) as caught:
        forward_backward(module)
    told = ", ".join(f"@{name}" for name in names) or "nothing"
    assert caught.value.message.endswith(f"this one holds {told}")


@pytest.mark.parametrize("chain", [("exp_",), ("exp_", "tanh_"), ("scale_", "exp_", "sin_")])
@pytest.mark.parametrize("mode", MODES)
def test_the_end_of_a_chain_in_place_is_what_the_parameter_holds(
    chain: tuple[str, ...], mode: str
) -> None:
    """The backward reads it there, so it is no middle of its own, and nothing is copied."""
    lines = [f"%v{k + 1} = {op(name, f'%v{k}')}" for k, name in enumerate(chain)]
    lines[0] = lines[0].replace("%v0", "%w")
    product = op("multiply", f"%v{len(chain)}", "%x")
    text = program(parameter("w", frozen=True), *lines, f"%m = {product}", output("y", "m"))
    parts = split(text, mode=mode)
    assert (parts.names.fm, parts.names.bp) == (("w",), ("w",))
    assert not parts.report.notes


def test_files_of_splits_tell_where_both_halves_come_from(tmp_path: Path) -> None:
    text = program(f"%e = {op('exp', '%x')}", output("y", "e"))
    parts = split(text)
    save_parts(parts, tmp_path / "parts")
    found = load_parts(tmp_path / "parts")
    for before, after in ((parts.forward, found.forward), (parts.backward, found.backward)):
        told = [span_of(one) for one in before.main.operations]
        known = [k for k, span in enumerate(told) if span is not None]
        again = [span_of(one) for one in after.main.operations]
        assert known
        assert [again[k] for k in known] == [told[k] for k in known]


@pytest.mark.parametrize(("name", "is_alone"), [("exp_", True), ("exp", False)])
def test_runs_whose_backward_reads_what_they_write_do_not_overlap(
    name: str, is_alone: bool
) -> None:
    lines = [f"%a = {op(name, '%w')}", f"%m = {op('multiply', '%a', '%x')}", output("y", "m")]
    parts = split(program(parameter("w", frozen=True), *lines))
    step = Model(parts, {"w": tensor(np.ones((2, 3)))}).step
    halves = step._lowered("reference")  # pyright: ignore[reportPrivateUsage]
    assert halves.training.runs_exclusively == is_alone


@pytest.mark.parametrize(("shape", "is_known"), [((3,), True), ((-1,), False), ((), True)])
def test_statistics_of_unknown_size_have_no_placeholder(
    shape: tuple[int, ...], is_known: bool
) -> None:
    value = ProgramBuilder().input("x", shape, "float32").ssa
    assert recompute._is_known(value) == is_known  # pyright: ignore[reportPrivateUsage]

"""The entry of the split: from a program to a forward and a backward program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from msgspec.structs import replace
from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from pirkit.diag.errors import ArgumentError, UnsupportedError
from pirkit.dialect.kinds import DERIVATIVE, PARAMETER
from pirkit.dialect.operation import PirOp, ProgramOp, declares, describe, span_of
from pirkit.dialect.program import Program
from pirkit.dialect.type_sizes import is_token
from pirkit.passes import run_pipeline
from pirkit.passes.base import PassContext
from pirkit.passes.inplace import update_in_place
from pirkit.passes.pipelines import EXPANSION
from pirkit.split.add_gradients import differentiated
from pirkit.split.backward_reads import demand_of
from pirkit.split.build_halves import backward_half, forward_half, saved_values, wanted_early
from pirkit.split.costs import RecomputeCost, recompute_cost_of
from pirkit.split.joint import Joint, Roles, at, joint_of, roles_by_name
from pirkit.split.labels import Labels, labels_of
from pirkit.split.reorder import floated, reordered
from pirkit.split.save_or_recompute import SAVE_ALL, Choice, Chooser
from pirkit.split.split_result import Saved, SplitNames, SplitParts, SplitReport
from pirkit.split.storage_versions import Contents, Need

FORWARD_LISTS: Final = ("fx", "fp", "fm", "fo")
"""The lists of `SplitNames` that become attributes of the forward program."""


def forward_backward(
    prog: ModuleOp | ProgramOp | Program,
    *,
    mode: str = SAVE_ALL,
    budget: int | None = None,
    roles: Roles | None = None,
    forward_ops: int | None = None,
) -> SplitParts:
    """Split a program into a forward and a backward program; ``prog`` is not changed.

    A joint program contains its gradients. They are identified by ``roles``, or by the names that
    ``autodiff{seeds=true}`` gives (``y_grad`` is an input and ``x_grad`` an output). To any other
    program the gradients of all outputs are appended first. ``forward_ops`` is the number of
    leading operations that are the forward program, where the seeds do not determine it.

    ``mode`` selects what is saved: ``save-all`` everything that the backward reads; ``free`` the
    fewest bytes if only constants, casts, broadcasts and views are recomputed; ``min-cut`` the
    fewest bytes if elementwise work and reductions are recomputed as well. With a ``budget`` in
    bytes, a search minimizes the recomputed work, contractions and regions included.

    Raises PassError (PK0806), naming the op, if a version that the backward needs is overwritten
    and cannot be saved; PassError (PK0807) with the smallest possible budget if ``budget`` is too
    small; UnsupportedError (PK0402) for an op without a derivative; ArgumentError (PK0701) for an
    unknown mode, roles that do not fit, or a module that does not hold exactly one program.
    """
    program = _expanded(prog)
    notes: list[str] = []
    if roles is None:
        roles = roles_by_name(program)
        if not roles.seeds and forward_ops is None:
            try:
                roles, notes = differentiated(program)
            except UnsupportedError as error:
                program = _expanded(prog)
                roles, notes = differentiated(program, paddle_residuals=False)
                notes.append(f"operations are decomposed before: {error.message}")
    if forward_ops is not None:
        roles = replace(roles, forward_ops=forward_ops)
    parts = split(joint_of(program, roles), mode, budget, notes)
    if isinstance(prog, Program):
        parts.forward.params |= {n: prog.params[n] for n in parts.names.fp if n in prog.params}
    return parts


def split(joint: Joint, mode: str, budget: int | None, notes: Sequence[str] = ()) -> SplitParts:
    """Split a joint program, which is changed and must not be used after.

    ``notes`` are put before those of the split in the report. Errors are those of
    `forward_backward`.
    """
    contents = Contents(joint)
    demand = demand_of(joint, contents)
    notes, before = list(notes), joint
    if mode == SAVE_ALL and budget is None:
        joint, moves = reordered(joint, contents, demand)
        notes += moves
    else:
        joint = floated(joint, contents, demand)
    if joint is not before:  # operations have moved, so versions and reads have changed
        contents = Contents(joint)
        demand = demand_of(joint, contents)
    chooser = Chooser(joint, contents, demand)
    choice = chooser.choose(mode, budget)
    taken = saved_values(joint, contents, demand, choice)
    for need in taken:
        if not contents.can_keep(need):
            contents.refuse(need, _reader(need, joint, demand.uses))
        if need.stale:
            notes.append(_copied(need, contents))
    labels = labels_of(joint, contents, demand, taken, choice.saved)
    forward = forward_half(joint, contents, labels, wanted_early(joint, choice, labels))
    backward = backward_half(joint, contents, demand, choice, labels)
    if joint.is_exact:
        update_in_place(forward, PassContext("split", len(joint.forward)))
    _state(forward, labels.names, is_forward=True)
    _state(backward, labels.names, is_forward=False)
    return SplitParts(
        forward=Program(ModuleOp([forward]), {}, "the forward of a split"),
        backward=Program(ModuleOp([backward]), {}, "the backward of a split"),
        names=labels.names,
        saved=tuple(_saved(labels, choice, chooser)),
        report=SplitReport(
            mode=mode if budget is None else f"budget of {budget:,} bytes",
            bytes=choice.bytes,
            recomputed=tuple(
                [
                    op.name
                    for op in choice.again
                    if op not in joint.floating and recompute_cost_of(op) > RecomputeCost.NOTHING
                ]
            ),
            notes=tuple(notes),
        ),
        returns=labels.returns,
    )


def _own_copy(prog: ModuleOp | ProgramOp | Program) -> ProgramOp:
    """A copy of the only program of a module.

    Raises ArgumentError (PK0701) if there are none or several.
    """
    if isinstance(prog, ProgramOp):
        program = prog.clone()
        ModuleOp([program])
        return program
    module = (prog if isinstance(prog, ModuleOp) else prog.module).clone()
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(programs) != 1:
        names = ", ".join(f"@{p.symbol}" for p in programs) or "nothing"
        raise ArgumentError(
            f"a module with one program can be split, this one holds {names}",
            span=span_of(module),
            help="pass the program itself",
        )
    return programs[0]


def _expanded(prog: ModuleOp | ProgramOp | Program) -> ProgramOp:
    """A copy of the program, in which ops that stand for derivatives are expanded."""
    program = _own_copy(prog)
    if any(declares(op, DERIVATIVE) for op in program.operations):
        run_pipeline(cast(ModuleOp, program.parent_op()), EXPANSION, verify=False)
    return program


def _reader(need: Need, joint: Joint, uses: dict[tuple[PirOp, int], Need]) -> PirOp:
    """The operation at which an error about a version points."""
    found = next((op for (op, _), other in uses.items() if other == need), None)
    return found or joint.backward[0]


def _copied(need: Need, contents: Contents) -> str:
    writer = contents.overwriter(need)
    assert writer is not None, "what can be kept is overwritten by something"
    return f"copied {describe(need.value)} before `{writer.name}`{at(writer)}"


def _saved(labels: Labels, choice: Choice, chooser: Chooser) -> list[Saved]:
    """The saved values, by name."""
    found: dict[str, Saved] = {}
    for need, names in labels.taken.items():
        is_data = need in choice.saved
        size = chooser.bytes_of(need) if is_data else 0
        how = _how(need, names[0], labels, is_data) if names else ""
        for name in names:
            found.setdefault(name, Saved(name, size // len(names), how))
    return list(found.values())


def _how(need: Need, name: str, labels: Labels, is_data: bool) -> str:
    if not is_data:
        return "shape"
    if is_token(need.value.type):
        return "stack"
    if need.stale:
        return "copy"
    if name in labels.sources:
        owner = labels.sources[name].owner
        return "param" if declares(owner, PARAMETER) else "input"
    return "output" if name in labels.outputs else "middle"


def _state(program: ProgramOp, names: SplitNames, *, is_forward: bool) -> None:
    """Write the name lists of a program to its attributes; None becomes ``unit``."""
    for key, listed in names.items():
        if (key in FORWARD_LISTS) == is_forward:
            items: list[Attribute] = [
                mlir.UnitAttr() if name is None else mlir.StringAttr(name) for name in listed
            ]
            program.attributes[key] = mlir.ArrayAttr(items)

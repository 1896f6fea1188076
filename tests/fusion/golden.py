"""What becomes of each case, as text; `python -m tests.fusion.golden` writes `cases.golden`."""

from __future__ import annotations

from pathlib import Path

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.kernel_text import print_kernel
from pirkit.dialect.map_expr.verify_kernel import kernel_at
from pirkit.dialect.operation import ProgramOp
from pirkit.index.extent import at
from pirkit.index.extent import names_of as names_of_sizes
from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import DEFAULT, Policy
from pirkit.lowering.fusion.value_names import names_of
from tests.fusion.cases import CASES, built
from tests.fusion.pairs import refusals

PATH = Path(__file__).with_name("cases.golden")
MOST = 3
"""Refusals of a kind that are shown of a case."""
CUT = (
    "c02_seed_unsolvable_is_computed_twice",
    "c08_sum_with_own_transpose",
    "c08_dear_sum_with_own_transpose",
)
NEITHER = Policy(recompute=0, tile=False)
"""Nothing is computed again, nothing held in tiles."""
SILENT = ("pd_op.data", "pir.shadow_output")


def groups(program: ProgramOp) -> list[str]:
    """The ops of each kernel, those that another one computes too in brackets."""
    found: list[str] = []
    made = plan_fusion(program.block, DEFAULT, storage=storage_of(program))
    for group in made.partition.groups:
        names = [f"({u.op.name})" if u.result in group.copies else u.op.name for u in group.ordered]
        runs: list[tuple[str, int]] = []
        for name in names:
            if runs and runs[-1][0] == name:
                runs[-1] = (name, runs[-1][1] + 1)
            else:
                runs.append((name, 1))
        shown = [name.replace("pd_op.", "") + (f" x{n}" if n > 1 else "") for name, n in runs]
        found.append(" ".join(shown))
    return found


def reasons(program: ProgramOp, policy: Policy = DEFAULT) -> list[str]:
    """What is told of the pairs that are in two kernels, but for inputs and outputs."""
    output = [r for _, _, _, r in refusals(program, policy)]
    names = names_of(program)
    found: dict[tuple[str, str], list[str]] = {}
    for refusal in output:
        if refusal is None or any(op.name in SILENT for op in refusal.ops):
            continue
        pair = [f"%{names[op.results[0]]}" for op in refusal.ops]
        text = f"{' '.join(pair)}: {refusal.kind}: {refusal.reason}"
        text += f" [{refusal.remedy}]" if refusal.remedy else ""
        text += f" [{refusal.costs}]" if refusal.costs else ""
        if refusal.path1:
            ends = " and ".join(repr(list(index)) for index in refusal.indices)
            point = ", ".join(f"{i.name} = {n}" for i, n in refusal.witness.items())
            text += f" needs {ends}, which differ where {point}"
        found.setdefault((refusal.kind, refusal.reason), []).append(text)
    return [text for texts in found.values() for text in texts[:MOST]]


def choices(program: ProgramOp) -> list[str]:
    """What was chosen for values that are needed at several indices, and how tiles are told."""
    found = plan_fusion(program.block, DEFAULT, storage=storage_of(program))
    output = [f"choice: {c}" for group in found.partition.groups for c in group.chosen]
    for made in found.kernels:
        heads = (line for line in print_kernel(made.kernel).splitlines() if " tile [" in line)
        output += [f"kept: {line}" for line in heads]
    return output


def plans(program: ProgramOp) -> list[str]:
    """What kernels of open sizes ask of them, and what they read for some."""
    found: list[str] = []
    for made in plan_fusion(program.block, DEFAULT, storage=storage_of(program)).kernels:
        kernel = made.kernel
        if not kernel.is_sized:
            continue
        found += [f"guard: {size}" for size in kernel.sizes]
        text = print_kernel(kernel)
        for sizes in ((6, 6), (1, 6), (6, 1), (2, 3)):
            names = {n: sizes[k % 2] for k, n in enumerate(names_of_sizes(kernel.numbers()))}
            shapes = tuple([tuple([at(n, names) for n in m.shape]) for m in kernel.inputs])
            output = ", ".join(map(str, shapes))
            try:
                plan = kernel_at(text, shapes)
            except ConstraintError as why:
                found.append(f"plan of {output}: refused, as {why.message}")
                continue
            loads = [load for s in plan.statements for load in s.loads()]
            # a kernel that was parsed shares equal loads, one that was built need not
            read = ", ".join(dict.fromkeys(f"x{load.source}{list(load.index)}" for load in loads))
            found.append(f"plan of {output}: {read}")
    return list(dict.fromkeys(found))


def output(name: str) -> str:
    """The section of a case."""
    program = built(name)[1]
    lines = [f"== {name}"]
    lines += [f"kernel: {g}" for g in groups(program)]
    lines += plans(program)
    lines += choices(program)
    lines += reasons(program)
    if name in CUT:
        lines += [f"neither again nor in tiles: {r}" for r in reasons(program, NEITHER)]
    return "\n".join(lines) + "\n"


def pages() -> str:
    """All sections."""
    return "".join(map(output, CASES))


if __name__ == "__main__":
    PATH.write_text(pages(), encoding="utf-8")

"""Sums of generated code and of explanations; `python -m tests.campaigns.generated` writes them.

What a mask, a bound or a limit of the code generator decides shows in few kernels: here are those
of all ops, between two others, and of programs beyond vectors, tiles and blocks, for CPUs of two
vector widths. Each line of ``generated.txt`` names what was compiled, counts kernels, loops and
lines, and has a check sum of the text. Where a change of pirkit alters lines on purpose, write the
file again, and look at which lines are among the difference: only what the change is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_text import parse_kernel
from pirkit.dialect.opdef import RANDOM, OpDef, reference
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.compile import DEFAULT_PIPELINE
from pirkit.lowering.codegen.emit.compile import tiled_draft
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.fusion.explain import Explainer
from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import DEFAULT, Policy
from pirkit.lowering.fusion.value_names import names_of
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from tests.campaigns.decisions import TARGETS, shown
from tests.fusion.random_programs import Maker, Turner
from tests.ops.calls import Call, calls, sample_dtypes, table
from tests.prim.rule_checks import emitted, tensors_of
from tools.campaigns import random_programs

FILE: Final = Path(__file__).with_name("generated.txt")
SEEDS: Final = range(24)
LIMITED: Final = SEEDS[::2]
LIMITS: Final = {
    "ops": range(1, 16), "inputs": range(1, 9), "recompute": (0, 1, 2, 4, 8, 16, 64),
    "small_work": (1, 4, 16, 64, 256, 1024), "parallel_iterations": (1, 4, 16, 64, 1024),
}  # fmt: skip
"""Limits of fusion, and values that programs of some ops lie around."""


def ops() -> list[OpDef]:
    """The ops whose results are functions of their operands."""
    known = [d for d in table() if d.dialect == "pd_op" and d.effects != RANDOM]
    return [d for d in known if reference.get(d) is not None]


def of_op(definition: OpDef) -> Iterator[str]:
    """The kernels of calls of an op, in front of another op and behind one."""
    counts: Counter[str] = Counter()
    for dtype in dict.fromkeys((*sample_dtypes(definition)[:1], *sample_dtypes(definition)[-1:])):
        for call in islice(calls(definition, dtype), 2):
            try:
                counts = summed(counts, of_kernels(kernels_of(between(call), "fuse")))
            except PirkitError:
                counts["refused"] += 1
    if counts:
        yield f"{definition.name}: {shown(counts)}"


def between(call: Call) -> ProgramOp:
    program = ProgramOp.build("case")
    b = Builder(program.block)
    values = [
        b("pd_op.data", name=f"x{k}", shape=a.shape, dtype=dt.of_array(a), place=UNDEFINED)
        for k, a in enumerate(tensors_of(call))
    ]
    for k, value in enumerate(emitted(call, b, [turned(b, v) for v in values])):
        b("pir.shadow_output", turned(b, value), output_name=f"y{k}")
    return program


def turned(b: Builder, x: Value) -> Value:
    if not isinstance(x.any_meta, TensorMeta):
        return x
    if x.dtype.is_float:
        return b("pd_op.scale", x, scale=-1.0)
    return b("pd_op.bitwise_not", x) if x.dtype.is_integer or x.dtype is dt.bool_ else x


def kernels_of(program: ProgramOp, pipeline: str) -> list[MapExpr]:
    """The kernels of a program behind some passes."""
    module = ModuleOp([program.clone()])
    run_pipeline(module, pipeline)
    ops = [op for op in module.walk() if isinstance(op, PirOp)]
    return [parse_kernel(op.attribute("kernel")) for op in ops if op.name == "pir.map_expr"]


def of_kernels(kernels: list[MapExpr]) -> Counter[str]:
    """Counts of the code of kernels for all targets, and sums over its texts."""
    counts: Counter[str] = Counter(kernels=len(kernels))
    for kernel in kernels:
        counts["text"] = crc32(str(kernel).encode(), counts["text"])
        nests = nests_of(kernel)
        for nest in nests if isinstance(nests, tuple) else ():
            made: Any = nest.kernel
            tiled = isinstance(made, TiledNest)
            numbered: Any = made.numbered() if tiled else made
            counts["nests"] += 1
            for target in TARGETS:
                text = (tiled_draft if tiled else generate)(numbered, target).text
                bits = f"v{target.vector_bits}"
                counts[f"{bits} lines"] += text.count("\n")
                counts[bits] = crc32(text.encode(), counts[bits])
    return counts


def summed(one: Counter[str], other: Counter[str]) -> Counter[str]:
    """The counts of both; of two sums over texts a sum."""
    found = one + other
    for name in ("text", *(f"v{t.vector_bits}" for t in TARGETS)):
        if name in found:
            found[name] = crc32(f"{one[name]} {other[name]}".encode())
    return found


class Wide(random_programs.Maker):
    """Programs whose sizes lie beyond vectors, register tiles and blocks."""

    def shape(self) -> tuple[int, ...]:
        self.wide, self.hostile = True, False
        return super().shape()


def of_wide(seed: int) -> Iterator[str]:
    """The kernels of wide programs, which write nothing in place."""

    b = pirkit.ProgramBuilder()
    maker = Wide(seed, b, plain=True)
    for k, value in enumerate(maker.outputs()):
        b.output(f"y{k}", value)
    yield f"wide {seed}: {shown(of_kernels(kernels_of(b.finish().main, DEFAULT_PIPELINE)))}"


def of_reasons(seed: int) -> Iterator[str]:
    """Why ops are not in one kernel with their neighbours, under limits that programs meet."""
    maker = (Maker if seed % 2 else Turner)(seed, depth=8 + seed % 11)
    program, storage = maker.program, storage_of(maker.program)
    for name, policy in {
        "default": DEFAULT, "few ops": Policy(ops=5), "few inputs": Policy(inputs=2),
        "no copies": Policy(recompute=0), "not joined": Policy(horizontal=False),
        "no tiles": Policy(tile=False),
    }.items():  # fmt: skip
        found = plan_fusion(program.block, policy, storage=storage)
        explainer = Explainer(found.equations, found.partition, names_of(program), policy)
        counts: Counter[str] = Counter()
        for one, other in (*pairwise(found.equations.ops), *pairwise(found.equations.ops[::2])):
            refusal = explainer.refusal(one, other)
            counts["together" if refusal is None else refusal.kind] += 1
            counts["text"] = crc32(str(refusal).encode(), counts["text"])
        yield f"reasons {seed} {name}: {shown(dict(sorted(counts.items())))}"


def of_limits(seed: int) -> Iterator[str]:
    """How many kernels and statements there are under each limit around those that are met."""
    maker = (Maker if seed % 2 else Turner)(seed, depth=9 + seed % 9)
    storage = storage_of(maker.program)
    for name, numbers in LIMITS.items():
        counts: list[str] = []
        for number in numbers:
            policy = replace(DEFAULT, **{name: number})
            made = plan_fusion(maker.program.block, policy, storage=storage).kernels
            statements = [s for one in made for s in one.kernel.statements]
            work = sum(s.work * sum(1 for _ in s.nodes()) for s in statements)
            counts.append(f"{len(made)}/{len(statements)}/{work}")
        yield f"limits {seed} {name}: {' '.join(counts)}"


def main() -> None:
    lines = [line for definition in ops() for line in of_op(definition)]
    for seed in SEEDS:
        lines += [*of_wide(seed), *of_reasons(seed)]
    lines += [line for seed in LIMITED for line in of_limits(seed)]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

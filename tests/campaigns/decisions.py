"""What passes decide for many programs, in counts; `python -m tests.campaigns.decisions` writes.

A wrong decision of fusion, of the split or of the memory plan gives the right numbers, only later
or in more memory, so no test of numbers sees it. Each line of ``decisions.txt`` is a program with
what was made of it. Where a change of pirkit alters lines on purpose, write the file again and
look at its difference: fewer kernels, bytes and operations are better.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final, cast
from zlib import crc32

from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PirkitError
from pirkit.dialect.map_expr.kernel_text import parse_kernel
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.text import print_mlir
from pirkit.frontend.compile import DEFAULT_PIPELINE
from pirkit.frontend.files import load
from pirkit.lowering.codegen.emit.compile import tiled_draft
from pirkit.lowering.codegen.emit.generate import generate, stages_of
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import Policy
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime import nodes
from pirkit.runtime.meta import Meta
from pirkit.runtime.native.target import Target
from pirkit.runtime.nodes import Layout
from pirkit.runtime.planning import plan_memory
from pirkit.runtime.session import Draws
from pirkit.split import SplitParts, forward_backward
from pirkit.split.merge import joined
from pirkit.split.save_or_recompute import MODES
from tests.codegen.nests import layer_norm, softmax
from tests.execution import parsed
from tests.fusion.random_programs import Maker, Turner
from tests.split.model import output
from tests.split.reference_tape import grow, text_type
from tests.unit.passes.random_programs import random_program

FILE: Final = Path(__file__).with_name("decisions.txt")
CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
_LARGE: Final = {
    "pinn_2nd_order", "pinn_3rd_order_sin", "gn_mobilenet_v1_narrow", "pointwise_mix",
    "up_and_norms",
}  # fmt: skip
"""Captured programs that take more than a second."""
SPLIT: Final = sorted({p.parent.name for p in CORPUS.glob("*/backward.txt")} - _LARGE)
"""Captured programs that are split in each mode; both halves are fused and planned as well."""
SEEDS: Final = range(24)
POLICIES: Final = {
    "few ops": Policy(ops=4),
    "few inputs": Policy(inputs=2),
    "no recomputation": Policy(recompute=0),
    "some recomputation": Policy(recompute=4, small_work=64),
    "no tiles": Policy(tile=False, parallel_iterations=4),
    "small work": Policy(small_work=16, horizontal=False),
}
_AVX2: Final = "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi2"
_AVX512: Final = f"{_AVX2},+avx512f,+avx512vl,+avx512dq,+avx512bw"
TARGETS: Final = (
    Target("x86_64-unknown-linux-gnu", "x86-64-v3", _AVX2, 256, 1 << 20),
    Target("x86_64-unknown-linux-gnu", "x86-64-v4", _AVX512, 512, 1 << 20),
)
"""CPUs that loops are scheduled for: always the same ones, whatever runs the tests."""
LIBRARY: Final = KernelLibrary("reference")
KERNELS: Final = KernelLibrary("cpu")


def fused(program: ProgramOp) -> str:
    """Counts of the program behind the default pipeline, and of its memory plan."""
    module = ModuleOp([program.clone()])
    run_pipeline(module, DEFAULT_PIPELINE)
    main = next(op for op in module.ops if isinstance(op, ProgramOp))
    ops = [op for op in main.walk() if isinstance(op, PirOp)]
    kernels = [parse_kernel(op.attribute("kernel")) for op in ops if op.name == "pir.map_expr"]
    statements = [s for kernel in kernels for s in kernel.statements]
    counts: dict[str, int] = {
        "ops": len(ops),
        "kernels": len(kernels),
        "statements": len(statements),
        "tiles": sum(bool(s.tile) for s in statements),
        "bytes": sum(kernel.traffic() for kernel in kernels),
        "work": sum(s.work * sum(1 for _ in s.nodes()) for s in statements),
    }
    layout = planned(main, LIBRARY)
    counts |= {"arena": layout.nbytes, "steps": len(layout.nodes), "copies": len(layout.copied)}
    return shown(counts)


def planned(program: ProgramOp, library: KernelLibrary, **options: Any) -> Layout:
    """The memory plan of a program."""
    plan = write_plan(program, library=library)
    bound: dict[int, Meta] = {p.slot: p.meta for p in (*plan.inputs, *plan.params)}
    draws = Draws().generator
    return plan_memory(plan, library, bound, device=library.device, generator=draws, **options)


def shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def of_random(seed: int) -> Iterator[str]:
    """A program of the fuzzers of fusion."""
    maker = (Turner if seed % 3 == 0 else Maker)(seed, depth=4 + seed % 11)
    yield f"random {seed}: {fused(maker.program)}"


def of_policies(seed: int) -> Iterator[str]:
    """A larger program of the fuzzers, fused under limits that it meets."""
    maker = (Maker if seed % 3 == 0 else Turner)(seed, depth=10 + seed % 13)
    block, storage = maker.program.block, storage_of(maker.program)
    for name, policy in POLICIES.items():
        made = plan_fusion(block, policy, storage=storage).kernels
        statements = [s for one in made for s in one.kernel.statements]
        counts = {
            "kernels": len(made),
            "statements": len(statements),
            "tiles": sum(bool(s.tile) for s in statements),
            "stages": sum(s.stage for s in statements),
            "bytes": sum(one.kernel.traffic() for one in made),
            "work": sum(s.work * sum(1 for _ in s.nodes()) for s in statements),
        }
        yield f"random {seed} {name}: {shown(counts)}"


def of_plans(seed: int) -> Iterator[str]:
    """The memory plan of a small program with branches, loops, lists and writes."""
    for number in range(6):
        text = random_program(Random(f"{seed} {number}"))
        for fuses in (True, False):
            (program,) = [op for op in parsed(text).ops if isinstance(op, ProgramOp)]
            layout = planned(program, KERNELS, fuses_launches=fuses)
            counts: Counter[str] = Counter()
            _count(layout.nodes, counts, nodes.__name__)
            sizes = {
                "arena": layout.nbytes, "owned": len(layout.owned), "copied": len(layout.copied),
                "in place": len(layout.in_place), "copies": layout.copies,
                "free": sum(access is not None for access in layout.accesses),
            }  # fmt: skip
            yield f"plan {seed} {number} {fuses}: {shown(sizes | dict(sorted(counts.items())))}"


def of_loops() -> Iterator[str]:
    """Loops over shapes below, at and above widths of vectors, as they are scheduled."""
    for rows, columns in product((1, 3, 16, 500), (1, 7, 64, 1000)):
        kernels = {
            "softmax": softmax(rows, columns),
            "softmax of columns": softmax(rows, columns, axis=0),
            "layer_norm": layer_norm(rows, columns),
            "streamed layer_norm": layer_norm(rows, columns, stream=True),
        }
        for name, kernel in kernels.items():
            yield f"{name} {rows} x {columns}: {scheduled(kernel)}"


def of_kernels(seed: int) -> Iterator[str]:
    """The loops of the kernels of a random program."""
    program = Turner(seed, depth=8 + seed % 5).program
    made = plan_fusion(program.block, Policy(), storage=storage_of(program)).kernels
    for number, one in enumerate(made):
        nests = nests_of(one.kernel)
        for nest in nests if isinstance(nests, tuple) else ():
            yield f"turned {seed} {number}: {scheduled(nest.kernel)}"


def scheduled(kernel: Kernel | TiledNest) -> str:
    """How many nodes of each kind the scheduled loops have, for CPUs of two vector widths."""
    if isinstance(kernel, TiledNest):
        kernel = kernel.numbered()
    found: list[str] = []
    for target in TARGETS:
        counts: Counter[str] = Counter()
        _count(stages_of(kernel, target)[-1].nest, counts)
        tiled = isinstance(kernel, TiledNest)
        text = (tiled_draft(kernel, target) if tiled else generate(kernel, target)).text
        counts["lines"], counts["text"] = text.count("\n"), crc32(text.encode())
        found.append(shown(dict(sorted(counts.items()))))
    return "; ".join(found)


def _count(node: Any, counts: Counter[str], module: str = "") -> None:
    """Nodes by their class (of one module), and the sum of the numbers that stand in them."""
    names: Any = getattr(node, "__struct_fields__", getattr(node, "__dataclass_fields__", ()))
    if names and not isinstance(node, type):
        if module in type(node).__module__:
            counts[type(node).__name__] += 1
            for name in names:
                _count(getattr(node, name), counts, module)
    elif isinstance(node, list | tuple):
        for one in cast("tuple[Any, ...]", node):
            _count(one, counts, module)
    elif isinstance(node, int):
        counts["numbers"] += node


def of_captured(name: str) -> Iterator[str]:
    """A captured program, split in each mode."""
    program = load(CORPUS / name / "program.txt")
    for mode in MODES:
        parts = forward_backward(program, mode=mode)
        halves = (parts.forward.main, parts.backward.main)
        yield f"{name} {mode}: {halved(parts)}"
        if mode == MODES[-1] and "?" not in print_mlir(program.module):
            for part, half in zip(("forward", "backward"), halves, strict=True):
                yield f"{name} {part}: {fused(half)}"


def of_split(seed: int) -> Iterator[str]:
    """Random programs with writes and views, split in each mode."""
    for number in range(3 * seed, 3 * seed + 3):
        module = parsed(grow(number).text)
        for mode in MODES:
            yield f"grown {number} {mode}: {halved(forward_backward(module, mode=mode))}"


def of_joint(seed: int) -> Iterator[str]:
    """Programs with outputs that are inputs, parameters and each other; split halves joined again
    are split anew: where the seeds say, where a number of operations says, and within budgets.
    """
    draw = Random(seed)
    for number in range(3 * seed, 3 * seed + 3):
        grown = grow(number)
        held = [*grown.inputs.items(), *grown.params.items()]
        more = [
            output(f"o{k}", n, text_type(s)) for k, (n, s) in enumerate(draw.choices(held, k=3))
        ]
        again = [line.replace('"}', 'b"}') for line in grown.text.split("\n") if "shadow" in line]
        text = grown.text.rstrip().removesuffix("}") + "\n".join([*more, *again[:2], "}\n"])
        parts = forward_backward(parsed(text), mode=draw.choice(MODES))
        yield f"outputs {number}: {halved(parts)}"
        whole, roles = joined(parts.forward_program, parts.backward_program, parts.names)
        count = len(list(whole.operations))
        ways: tuple[dict[str, Any], ...] = (
            {"roles": roles}, {"roles": roles, "budget": draw.randrange(200)},
            {"roles": roles, "forward_ops": draw.randrange(count)},
        )  # fmt: skip
        for options in ways:
            try:
                found = halved(forward_backward(whole, **options))
            except PirkitError as error:
                found = f"{error.code}, {crc32(error.message.encode())}"
            yield f"joint {number} {list(options)[-1]}: {found}"


def halved(parts: SplitParts) -> str:
    """Counts of both halves and of what is saved, and a sum over the text of the halves, the lists
    of names, and the report, wherever the corpus lies."""
    halves = (parts.forward.main, parts.backward.main)
    texts = "".join(print_mlir(half) for half in halves)
    texts += repr((parts.names, parts.saved, parts.report, parts.returns)).replace(str(CORPUS), "")
    counts = {
        "forward": sum(1 for _ in halves[0].walk()),
        "backward": sum(1 for _ in halves[1].walk()),
        "saved": parts.report.bytes,
        "values": len(parts.saved),
        "recomputed": len(parts.report.recomputed),
        "notes": len(parts.report.notes),
        "shapes": len(parts.names.no_need_buffers),
        "text": crc32(re.sub(r"loc\(.*", "", texts).encode()),
    }
    return shown(counts)


def main() -> None:
    lines = [line for seed in SEEDS for line in (*of_random(seed), *of_policies(seed))]
    lines += [line for seed in SEEDS for line in (*of_plans(seed), *of_split(seed))]
    lines += [line for seed in SEEDS for line in of_joint(seed)]
    lines += [*of_loops(), *(line for seed in SEEDS for line in of_kernels(seed))]
    lines += [line for name in SPLIT for line in of_captured(name)]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""Sums of what fusion and the code generator make of many small programs of all kinds.

`python -m tests.campaigns.mixed` writes them. ``generated.txt`` has programs of some kinds under
some limits; here each program is fused under limits that are drawn with it: programs of known and
of open sizes, with branches, loops, lists and writes, and of any op and element type. A line has
a sum of what fusion decides and says of it, and sums of the code that runs it on CPUs of three
vector widths, kernel by kernel and as the CPU library calls it. Where a change of pirkit alters
lines on purpose, write the file again: only programs that the change is about may differ.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast
from unittest import mock
from zlib import crc32

from msgspec.structs import replace
from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit.diag.errors import InternalError, PirkitError
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_text import parse_kernel
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.program import Program
from pirkit.dialect.text import print_mlir
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import load
from pirkit.frontend.native_compile import Form, plan_with
from pirkit.lowering import native_fused
from pirkit.lowering.codegen.emit.batch_compile import Draft, requested
from pirkit.lowering.codegen.emit.compile import draft_of, tiled_draft
from pirkit.lowering.codegen.emit.cumulative import SCANNED, Cumulative, native_cumulative
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.emit.sanitize import sanitized
from pirkit.lowering.codegen.emit.split_reduction import split_reductions
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.fusion.fuse_pass import Decision, FusePass
from pirkit.lowering.fusion.value_names import names_of
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_calls import layout_of
from pirkit.passes import run_pipeline
from pirkit.passes.base import EnoughRewrites, PassContext
from pirkit.runtime.native import target as targets
from pirkit.runtime.native.target import Target
from pirkit.split import forward_backward
from tests.campaigns.decisions import CORPUS, SPLIT, shown
from tests.campaigns.decisions import TARGETS as WIDE
from tests.campaigns.generated import Wide
from tests.codegen.random_nests import random_nest
from tests.execution import parsed
from tests.fusion.dynamic_programs import OpenMaker
from tests.fusion.pairs import refusals
from tests.fusion.random_programs import Maker, Turner
from tests.unit.passes.random_programs import random_program
from tools.campaigns import random_programs

FILE: Final = Path(__file__).with_name("mixed.txt")
TARGETS: Final = (
    Target("x86_64-unknown-linux-gnu", "x86-64-v2", "+sse4.2", 128, 1 << 20), *WIDE
)  # fmt: skip
SEEDS: Final = range(400)
CAPTURED: Final = SPLIT[::2]
ROOT: Final = Path(__file__).parents[2]
FUSION: Final = "pirkit/lowering/fusion"
CODE: Final = ("pirkit/lowering/codegen/lower", "pirkit/lowering/codegen/emit")
SMALL: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 64)
FORMS: Final[tuple[Form, ...]] = ("segments", "fast", "lanes", "kernels")
SETTINGS: Final = {"PIRKIT_TARGET": "", "PIRKIT_VECTOR_BITS": "", "PIRKIT_NUM_THREADS": "4"}
NESTS: Final = range(0, 1200, 25)
"""Numbers of the first of so many random nests that have one line."""
CALLED: Final = range(144)
"""Programs as the CPU library calls them: with products, convolutions and what goes with them."""


def drawn(seed: int) -> ModuleOp:
    """A module with a program of a kind that the seed chooses."""
    depth = 3 + seed % 17
    match seed % 8:
        case 0 | 1:
            return ModuleOp([Maker(seed, depth).program])
        case 2:
            return ModuleOp([Turner(seed, depth).program])
        case 3 | 4:
            return ModuleOp([OpenMaker(seed, depth).program])
        case 5:
            return parsed(random_program(random.Random(seed)))
        case kind:
            return built(random_programs.Maker if kind == 6 else Wide, seed)


def built(kind: type[random_programs.Maker], seed: int) -> ModuleOp:
    b = pirkit.ProgramBuilder()
    maker = kind(seed, b, plain=seed % 3 > 0)
    for k, value in enumerate(maker.outputs()):
        b.output(f"y{k}", value)
    return b.finish().module


def options(seed: int) -> FusePass:
    """The pass with limits that small programs meet, or with those that it has."""
    pick = random.Random(seed).choice
    if seed % 4 == 0:
        return FusePass(single=bool(seed % 8))
    return FusePass(
        recompute=pick((0, 1, 2, 3, 4, 6, 8, 12, 16, 24)), tile=pick((True, True, False)),
        horizontal=pick((True, True, False)), single=pick((True, False)),
        parallel_iterations=pick((1, 2, 4, 16, 64)), inputs=pick((1, 2, 3, 4, 64)),
        ops=pick((2, 3, 4, 6, 512)), profitable_only=pick((True, False, False)),
        native=pick((True, False, False)), excess_precision=pick((True, False)),
    )  # fmt: skip


def of_fusion(seed: int) -> Iterator[str]:
    """What fusion makes of a program and says of it, and the code of its kernels."""
    module, fuse = drawn(seed), options(seed)
    fuse = dataclasses.replace(fuse, forced=tuple(pairs_of(module, seed)))
    texts: list[str] = []

    def decided(decision: object) -> None:
        found = cast(Decision, decision).found
        texts.extend(f"{op.name}: {reason}" for op, reason in found.equations.opaque.items())
        texts.extend(f"{k.copies} {k.text}" for k in found.kernels)
        texts.append(str(sorted(op.name for op in found.spare)))

    if seed % 2:
        for program in (op for op in module.ops if isinstance(op, ProgramOp)):
            texts += [str(r) for _, _, _, r in refusals(program, fuse.policy)]
    stop = seed // 8 % 4 if seed % 16 == 1 else None
    context = PassContext("fuse", 1 << 20, observers=(decided,), stop_after=stop)
    with small_limits(seed, FUSION) if seed % 3 else nullcontext():
        try:
            fuse.run(context, module)
        except EnoughRewrites:
            texts.append("enough")
    texts += [str(remark) for remark in context.remarks]
    texts += [shown(context.stats), print_mlir(module)]
    ops = [op for op in module.walk() if isinstance(op, PirOp)]
    kernels = [parse_kernel(op.attribute("kernel")) for op in ops if op.name == "pir.map_expr"]
    if seed % 5 == 2:
        texts.append(without_outputs(module, seed))
    with small_limits(seed, *CODE) if seed // 8 % 3 else nullcontext():
        code = of_code(kernels)
    counts = {"kernels": len(kernels), "said": len(context.remarks), "text": summed(texts)}
    yield f"fused {seed}: {shown({**counts, **code})}"


def without_outputs(module: ModuleOp, seed: int) -> str:
    """The program with some outputs less, and what is left of its kernels."""
    outputs = [op for op in module.walk() if op.name == "pir.shadow_output"]
    for op in random.Random(seed).sample(outputs, len(outputs) // 2):
        op.detach()
        op.erase()
    run_pipeline(module, "simplify-kernels")
    return print_mlir(module)


def pairs_of(module: ModuleOp, seed: int) -> Iterator[str]:
    """Pairs of values that are to be in one kernel, of every seventh program: any, and of an op
    that reads several values one with the op's result.
    """
    draw = random.Random(seed)
    for program in (op for op in module.ops if isinstance(op, ProgramOp) and seed % 7 == 3):
        names = names_of(program)
        yield "+".join(f"%{name}" for name in draw.choices(list(names.values()), k=2))
        for op in (op for op in program.walk() if len(op.operands) > 1 and op.results):
            pair = names.get(draw.choice(op.operands)), names.get(op.results[0])
            if None not in pair and draw.random() < 0.4:
                yield "+".join(f"%{name}" for name in pair)


@contextmanager
def small_limits(seed: int, *packages: str) -> Iterator[None]:
    """Limits that are constants of modules are numbers that small programs meet."""
    pick = random.Random(f"limits {seed}").choice
    with ExitStack() as stack:
        for path in (p for name in packages for p in sorted((ROOT / name).glob("*.py"))):
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for name in re.findall(
                r"^(_?[A-Z][A-Z_]+)(?:: Final)? = [^\n]*\d", path.read_text(), re.M
            ):
                held = getattr(module, name)
                if isinstance(held, int | float) and held > 3:
                    new = pick((held, *SMALL, max(1, held // 8)))
                    stack.enter_context(mock.patch.object(module, name, new))
        yield


def summed(texts: Sequence[str]) -> int:
    """A sum over texts, without the files and lines that programs are made in."""
    return crc32(re.sub(r" *loc\(.*|[^\s(]*\.py:[\d, and-]*", "", "\n".join(texts)).encode())


def of_code(kernels: Sequence[MapExpr]) -> dict[str, int]:
    """Sums of the code of kernels, whole and in parts, with and without checks."""
    texts: dict[str, list[str]] = {f"v{t.vector_bits}": [] for t in TARGETS}
    for number, kernel in enumerate(kernels):
        nests = nests_of(kernel)
        for nest in nests if isinstance(nests, tuple) else ():
            for target in TARGETS:
                texts[f"v{target.vector_bits}"] += texts_of(nest.kernel, target, number)
    return {name: summed(of) for name, of in texts.items() if of}


def of_nests(block: int) -> Iterator[str]:
    """The code of random nests, for caches of several sizes."""
    texts: dict[str, list[str]] = {f"v{t.vector_bits}": [] for t in TARGETS}
    for seed in range(block, block + NESTS.step):
        with small_limits(seed, *CODE) if seed % 3 else nullcontext():
            for target in TARGETS:
                smaller = replace(target, l2_bytes=target.l2_bytes >> seed % 3 * 4)
                try:
                    found = texts_of(random_nest(seed), smaller, seed)
                except InternalError as error:  # no well-formed nest
                    found = [str(error)]
                texts[f"v{target.vector_bits}"] += found
    lines = sum(text.count("\n") for found in texts.values() for text in found)
    yield f"nests {block}: {shown({'lines': lines, **{k: summed(v) for k, v in texts.items()}})}"


def of_scans() -> Iterator[str]:
    """The code of cumulative operations, of rows and slices below and beyond those of a group."""
    with on(TARGETS[0]), requested() as found:
        for combine, dtype in product(("add", "mul"), sorted(SCANNED, key=repr)):
            for sizes in ((1, 5, 1), (3, 7, 1), (9, 4, 3), (2, 3, 32), (40, 2, 33), (5, 6, 70)):
                for reverse, exclusive in product((False, True), repeat=2):
                    native_cumulative(Cumulative(combine, dtype, *sizes, reverse, exclusive))
        drafts = [function.write() for function in found]
    texts = [text for draft in drafts for text in parts(draft)]
    yield f"scans: {shown({'functions': len(drafts), 'text': summed(texts)})}"


def texts_of(nest: Kernel | TiledNest, target: Target, number: int) -> list[str]:
    """The code of a nest: whole, with checks by chance, and in the parts of a split reduction."""
    if isinstance(nest, TiledNest):
        whole = nest.numbered()
        drafts = [tiled_draft(whole, target)]
        more = [*map(str, stages_of(whole, target))]
        return [*more, *(text for d in (*drafts, *checked(drafts, number)) for text in parts(d))]
    drafts = [draft_of(nest, target)]
    drafts += checked(drafts, number)
    steps = split_reductions(nest, 2 + number % 5).steps
    drafts += [draft_of(step.kernel, target) for step in steps if len(steps) > 1]
    return [text for draft in drafts for text in parts(draft)]


def checked(drafts: Sequence[Draft], number: int) -> list[Draft]:
    """A third of the functions with checks of each access."""
    return [
        replace(d, text=sanitized(d.text, d.code, "kernel"))
        for k, d in enumerate(drafts)
        if (number + k) % 3 == 0
    ]


def parts(draft: Draft) -> tuple[str, str]:
    return told(draft), draft.text


def told(draft: Draft) -> str:
    """What is known of a function beside its text."""
    code = draft.code
    return f"{code.blocks} {code.scratch} {code.work} {code.sizes} {draft.about} {draft.stages}"


@contextmanager
def on(target: Target) -> Iterator[None]:
    """Code is generated for a CPU, whatever this one is."""
    known = SimpleNamespace(
        get_host_cpu_features=lambda: SimpleNamespace(flatten=lambda: target.features),
        get_host_cpu_name=lambda: target.cpu,
        get_process_triple=lambda: target.triple,
    )
    with (
        mock.patch.multiple(
            native_fused, l3_bytes=lambda: 1 << 24
        ),
        mock.patch.multiple(
            targets, llvm=known, _l2_bytes=lambda: target.l2_bytes,
            _vector_bits=lambda _: target.vector_bits,
        ),
        mock.patch.dict("os.environ", SETTINGS),
    ):  # fmt: skip
        targets.host.cache_clear()
        try:
            yield
        finally:
            targets.host.cache_clear()
    targets.host.cache_clear()


def of_calls(seed: int) -> Iterator[str]:
    """The functions that run a program of any ops, in one of the forms of native code."""
    made = built(Wide if seed % 3 else random_programs.Maker, 10_000 + seed)
    yield f"called {seed}: {called(Program(made), FORMS[seed % 4])}"


def of_captured(name: str) -> Iterator[str]:
    """The functions that run a captured program, and its halves."""
    program = load(CORPUS / name / "program.txt")
    if "?" in print_mlir(program.module):
        return
    parts = forward_backward(program)
    programs = (program, parts.forward, parts.backward)
    for number, (one, form) in enumerate(zip(programs, FORMS, strict=False)):
        yield f"captured {name} {number}: {called(one, form)}"


def called(program: Program, form: Form) -> str:
    counts: Counter[str] = Counter()
    for target in TARGETS:
        with on(target), requested() as found:
            try:
                library = KernelLibrary("cpu")
                plan = plan_with(form, program, "@default", None, library, run_passes)[0]
                layout_of(plan, library)
            except PirkitError:  # an input got another shape in place
                counts["refused"] += 1
            drafts = [function.write() for function in found]
        counts["functions"] += len(drafts)
        drafts += checked(drafts, 0)
        counts[f"v{target.vector_bits}"] = summed([text for d in drafts for text in parts(d)])
    return shown(counts)


def main() -> None:
    lines = [line for seed in SEEDS for line in of_fusion(seed)]
    lines += [*of_scans(), *(line for block in NESTS for line in of_nests(block))]
    lines += [line for seed in CALLED for line in of_calls(seed)]
    lines += [line for name in CAPTURED for line in of_captured(name)]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

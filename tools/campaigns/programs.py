"""Random programs on every way to run them: what differs from the reference by more than rounding.

    python -m tools.campaigns programs --seed 1 --count 20000 --out programs.jsonl

Each case is one program of `random_programs.py` and some of the ways: kernels op by op, `@default`,
native code as one call, as segments and in batch lanes, frozen weights, primitives, passes in
random order, derivatives by all of these and by differences, the split, `jit` and `vmap`. What
rounding explains is measured (`oracle.py`). A finding is reduced to a small program. ``--only`` is
the name of a way, or `gradient`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast
from unittest import mock

import numpy as np
from xdsl.dialects import builtin as mlir
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

import pirkit
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import PirkitError
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import ProgramOp, bodies
from pirkit.dialect.program import Program
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.types import meta_of
from pirkit.dialect.verify import verify_module
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.delta_reduce import reduce
from pirkit.frontend.derivative_check import labels_of
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import PASSES
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native import target as targets
from pirkit.split import RunnableProgram, forward_backward
from pirkit.split.saved_graph import Outputs
from tests.split.running import Halves
from tools.campaigns.driver import Campaign, Found, Hang, limited
from tools.campaigns.oracle import Arrays, Oracle, effect, referred
from tools.campaigns.outcomes import attempt
from tools.campaigns.random_programs import made
from tools.campaigns.rare_steps import FILTERS

Array = np.ndarray[Any, Any]
Way = Callable[[Program, Arrays, random.Random], Arrays]
"""Runs a program on inputs by name: outputs, and what it wrote, by name."""

CALM: Final = 8.0
"""Numbers up to this size are beyond no type after a few steps."""
REDUCING: Final = 10.0
"""Seconds for making a program that shows something smaller."""


def _compiled(**options: Any) -> Way:
    def run(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
        params = {n: np.array(a) for n, a in program.params.items()}
        return effect(compile(program, params=params, **options), inputs)

    return run


_ADDING: Final = frozenset({"autodiff", "split", "hoist-constants"})
_CHANGING: Final = frozenset(
    {"verify-primitive", "convert-dtype", "quantize", "block-channels", "pack-matmuls"}
)


def _small_caches(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    """As for a CPU with 4 KiB of cache: then small programs have tiles, prefetches and blocks."""
    with mock.patch.object(targets, "_l2_bytes", return_value=1 << 12):
        targets.host.cache_clear()
        try:
            return WAYS["default"](program, inputs, draw)
        finally:
            targets.host.cache_clear()


def _passes(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    """Some passes in a random order, then the reference."""
    known = sorted(set(PASSES) - _ADDING - _CHANGING)
    pipeline = ",".join(draw.choice(known) for _ in range(draw.randint(1, 6)))
    try:
        return referred(run_passes(program, pipeline), inputs)
    except PirkitError as error:
        error.notes = (*error.notes, pipeline)
        raise


def _text(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    """Printed and read again."""
    return referred(Program(parse_mlir(print_mlir(program.module)), program.params), inputs)


def _arguments(op: Operation) -> list[SSAValue]:
    """The arguments of the blocks of a branch or a loop."""
    return [] if isinstance(op, ProgramOp) else [a for r in bodies(op) for a in r.block.args]


def _hidden(program: Program, draw: random.Random) -> Program:
    """With inputs of sizes that are known when the program runs, and what follows from them."""
    module = parse_mlir(print_mlir(program.module))
    for value in [v for op in module.walk() for v in (*op.results, *_arguments(op))]:
        type_, owner = value.type, value.owner
        is_input = isinstance(owner, Operation) and owner.name == "pd_op.data"
        is_known = isinstance(owner, Operation) and not owner.operands and not is_input
        if is_known or not isinstance(type_, mlir.TensorType):
            continue
        often = 0.6 if is_input else 1.0
        sizes = [-1 if draw.random() < often else size for size in type_.get_shape()]
        if is_input and isinstance(owner, Operation):
            owner.properties["shape"] = encode("intarray", sizes)
        held = cast("mlir.TensorType[Any]", type_)
        shape = [mlir.DYNAMIC_INDEX if size < 0 else size for size in sizes]
        made = mlir.TensorType(held.element_type, shape, held.encoding)
        Rewriter.replace_value_with_new_type(value, made)
    return run_passes(Program(module, program.params), "infer-meta")


def _dynamic(*ways: str) -> Way:
    def run(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
        return WAYS[draw.choice(ways)](_hidden(program, draw), inputs, draw)

    return run


def _jit(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    return _named(program, pirkit.jit(lambda given: program(**given))(inputs))


def _vmap(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    """Row 0 or 1 of two; the other has other numbers, integers in another order."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    row = draw.randrange(2)

    def both(a: Array) -> Array:
        if a.dtype.kind in "iub":  # which may be indices
            other = rng.permutation(a.ravel()).reshape(a.shape)
        else:
            other = a * rng.uniform(0.5, 1.5, a.shape).astype(a.dtype)
        return np.stack([a, other] if row == 0 else [other, a])

    mapped = pirkit.vmap(lambda given: program(**given))
    mapped = pirkit.jit(mapped) if draw.random() < 0.5 else mapped
    with np.errstate(all="ignore"):
        found = mapped({n: both(a) for n, a in inputs.items()})
    rows = found if isinstance(found, tuple) else (found,)
    return _named(program, tuple([np.asarray(v)[row] for v in rows]))


def _named(program: Program, found: Any) -> Arrays:
    """Outputs by name."""
    names = [o.name for o in write_plan(program.main, library=KernelLibrary("reference")).outputs]
    results = found if isinstance(found, tuple) else (found,)
    return {n: np.asarray(v) for n, v in zip(names, results, strict=True)}


def _split(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    """Forward and backward, which give what the program with both does."""
    parts = forward_backward(program, mode=draw.choice(("save-all", "free", "min-cut")))
    params = {n: np.array(a) for n, a in program.params.items()}
    halves = Halves(parts, params, draw.choice(("", "@default")))
    with np.errstate(all="ignore"):
        outputs = halves.run({n: a.copy() for n, a in inputs.items()})
        seeds: dict[int, Any] = {}
        for output, position in parts.returns:
            if parts.names.bo_g[position] is not None and f"{output}_grad" in inputs:
                # One value may have several names.
                seeds[position] = seeds.get(position, 0) + inputs[f"{output}_grad"]
        grads = halves.gradients(seeds)
    found = {o: np.asarray(a) for (o, _), a in zip(parts.returns, outputs, strict=True)}
    return {**found, **{f"{n}_grad": np.asarray(a) for n, a in grads.items()}}


def _runnable(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
    """The split in the embedder's object, while a run on other numbers waits for its backward."""
    parts = forward_backward(program, mode=draw.choice(("save-all", "free", "min-cut")))
    step = RunnableProgram(parts, pipeline=draw.choice((None, "", "@storage", "@default")))
    names = parts.names

    def forward(numbers: Arrays, held: Mapping[str, Array]) -> Outputs:
        given = [np.array(numbers[n]) for n in names.fx]
        return step.forward(given, [np.array(held[n]) for n in names.fp])

    with np.errstate(all="ignore"):
        waiting = None
        if draw.random() < 0.5:
            with suppress(PirkitError):  # other numbers may be no indices
                waiting = forward({n: a * a for n, a in inputs.items()}, program.params)
        outputs = forward(inputs, program.params)
        if waiting is not None and draw.random() < 0.5:
            step.backward([None] * len(waiting), waiting)
        seeds = [inputs.get(f"{output}_grad") for output, _ in parts.returns]
        gradients = step.backward(seeds, outputs)
    found = {o: a.numpy() for (o, _), a in zip(parts.returns, outputs, strict=True)}
    for sources, computed in zip((names.fx, names.fp), gradients, strict=True):
        pairs = zip(sources, computed, strict=True)
        found |= {f"{n}_grad": a.numpy() for n, a in pairs if a is not None}
    return found


def _saved(*suffixes: str) -> Way:
    """Written to a file, with the weights beside it, and read again."""

    def run(program: Program, inputs: Arrays, draw: random.Random) -> Arrays:
        with TemporaryDirectory() as folder:
            suffix = draw.choice(suffixes)
            if suffix in (".txt", ".json") and _holds_doubles(program):
                suffix = ".mlir"
            path = Path(folder) / f"program{suffix}"
            beside = path.suffix in (".mlir", ".txt") and bool(program.params)
            weights = path.with_suffix(".npz") if beside else None
            pirkit.save(program, path, params=weights)
            return referred(pirkit.load(path, params=weights), inputs)

    return run


def _holds_doubles(program: Program) -> bool:
    """Whether an attribute of kind `f32` is a double, which Paddle's formats round."""
    single = [
        op.properties[name]
        for op in operations(program.main.block)
        for name, kind in op.definition.attr_kinds.items()
        if kind == "f32" and name in op.properties
    ]
    return any(isinstance(a, mlir.FloatAttr) and a.type == mlir.f64 for a in single)


WAYS: Final[dict[str, Way]] = {
    "kernels": _compiled(pipeline=""),
    "segments": _compiled(),
    "default": _compiled(pipeline="@default"),
    "fused": _compiled(pipeline="@fused"),
    "nest": _compiled(pipeline="@default", fused="nest"),
    "interpret": _compiled(pipeline="@fused", fused="interpret"),
    "whole": _compiled(require_native=True),
    "lanes": _compiled(batch_lanes=True),
    "frozen": _compiled(freeze=True),
    "prim": _compiled(prim=True),
    "storage": _compiled(pipeline="@storage"),
    "certified": _compiled(pipeline="@default", certify=True),
    "simplify": _compiled(pipeline="@simplify", backend="reference"),
    "inplace": _compiled(pipeline="@simplify,inplace"),
    "fuse all": _compiled(pipeline="@simplify,functionalize,decompose,fuse{single=true}"),
    "one thread": _compiled(threads=1),
    "small caches": _small_caches,
    "passes": _passes,
    "text": _text,
    "file": _saved(".mlir", ".txt", ".json"),
    "onnx": _saved(".onnx"),
    "dynamic": _dynamic("segments", "default", "fused"),
    "jit": _jit,
    "vmap": _vmap,
    "split": _split,
    "runnable": _runnable,
    "dynamic split": _dynamic("split", "runnable"),
    "dynamic jit": _dynamic("jit"),
}


JOINT: Final = frozenset({"split", "runnable", "dynamic split"})
"""Ways that are compared with the program and its gradients."""
CHOOSY: Final = frozenset(
    {"onnx", "whole", "jit", "vmap", "split", "runnable", "dynamic", "dynamic split", "dynamic jit"}
)
"""Ways that may refuse what the reference computes."""
KINDS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "plain": (10, ()),
    "gradient": (3, ()),
    "split": (2, ("split", "runnable", "dynamic split")),
    "traced": (3, ("jit", "vmap", "dynamic jit")),
}
"""Kinds of cases: how often, and their ways; none is two ways at random, and segments."""


_OF_KINDS: Final = {way for _, ways in KINDS.values() for way in ways}


def examine(seed: int, number: int, only: str = "") -> list[Found]:
    """What is wrong with a case."""
    draw = random.Random(f"{seed} {number}")
    case = draw.randrange(1 << 60)
    (kind,) = draw.choices(list(KINDS), [often for often, _ in KINDS.values()])
    kind = only if only in KINDS else "plain" if only else kind
    several = [n for n in WAYS if n not in _OF_KINDS]
    chosen = KINDS[kind][1] or (*draw.sample(several, 2), "segments")
    chosen = (only,) if only in WAYS else chosen
    program, inputs = made(case, plain=kind in ("traced", "gradient") and draw.random() < 0.8)
    if chosen[-1] == "segments" and any(n.startswith(FILTERS) for n in program.params):
        chosen = (*chosen, "frozen")
    found: list[Found] = []
    if kind == "gradient":
        option = draw.choice(("", "{seeds=true}", "{paddle-residuals=true}"))
        status, both = attempt(partial(run_passes, program, f"autodiff{option}"))
        if status != "values":
            return list(_told(status, both, "autodiff", program))
        if not option and _is_exact(program):
            found += sloped(program, both, inputs, case)
            found += forward_slope(program, both, inputs, case)
        program = both
    return found + list(_compared(f"{kind} ", program, inputs, draw, chosen))


_PARTIAL: Final = frozenset(
    f"pd_op.{name}"
    for name in (
        *("spectral_norm", "unique", "cholesky", "eigh", "eigvalsh"),
        *("yolo_box", "distribute_fpn_proposals", "generate_proposals", "multiclass_nms3"),
    )
)
"""Ops whose gradients take a part or all of what they compute for constant, as Paddle's do, or a
matrix of which they read one triangle for symmetric."""


def _is_exact(program: Program) -> bool:
    """Whether a program rounds to float64 alone, and its gradients are those of its function."""
    metas = [meta_of(r.type) for op in program.module.walk() for r in op.results]
    rounded = {m.dtype for m in metas if isinstance(m, TensorMeta) and not m.dtype.is_integer}
    partial_ops = any(op.name in _PARTIAL for op in program.module.walk())
    return not partial_ops and rounded <= {dt.float64, dt.bool_}


def sloped(program: Program, both: Program, inputs: Arrays, case: int) -> Iterator[Found]:
    """The gradient of a program of float64 along a direction, beside the difference along it.

    What reaches an operand that gets no gradient, as a label, stays as it is.
    """
    given = {**inputs, **program.params}
    labels = labels_of(program.main)
    floats = [n for n, a in given.items() if a.dtype == np.float64 and n not in labels]
    rng = np.random.default_rng(case)
    way = {n: rng.standard_normal(given[n].shape) for n in floats}

    def total(step: float, of: Callable[[Array], Array] = np.asarray) -> float:
        shifted = {n: a + step * way[n] if n in way else a for n, a in given.items()}
        params = {n: shifted[n] for n in program.params}
        found = referred(Program(program.module, params), {n: shifted[n] for n in inputs})
        values = [a for n, a in found.items() if a.dtype == np.float64 and n.startswith("y")]
        return float(sum(of(a).sum() for a in values))

    status, found = attempt(partial(referred, both, inputs))
    if status != "values":
        return
    slope = sum(float((found[f"{n}_grad"] * way[n]).sum()) for n in floats if f"{n}_grad" in found)
    with np.errstate(all="ignore"):
        near = [(total(h) - total(-h)) / (2 * h) for h in (1e-4, 1e-5, 1e-6)]
        near += [(total(1e-5) - total(0)) / 1e-5, (total(0) - total(-1e-5)) / 1e-5]
    size = 1 + abs(near[1])
    lost = 1e-15 * total(0, np.abs) / 1e-6  # to rounding of the sums
    if not np.isfinite(near).all() or np.ptp(near) > 1e-3 * size or lost > 1e-3 * size:
        return  # a kink or a pole, or numbers too large for differences
    if not abs(slope - near[1]) <= 1e-2 * size:
        kind = "wrong" if np.isfinite(slope) else "nan"  # an infinite derivative times 0
        yield Found(kind, print_mlir(program.module), "slope", f"{slope}, not {near[1]}")


def forward_slope(program: Program, both: Program, inputs: Arrays, case: int) -> Iterator[Found]:
    """Forward mode beside the gradient along a direction of the inputs of float64."""
    labels = labels_of(program.main)
    held = calmed(inputs)
    floats = [n for n, a in held.items() if a.dtype == np.float64 and n not in labels]
    rng = np.random.default_rng(case)
    way = {n: rng.standard_normal(held[n].shape) for n in floats}
    given = {n: held[n] for n in floats}

    def outputs(given: Arrays) -> Any:
        found = program(**{**held, **given})
        results = found if isinstance(found, tuple) else (found,)
        return [y for y in results if str(y.dtype) == "float64"]

    status, reverse = attempt(partial(referred, both, held))
    reached, forward = attempt(lambda: pirkit.jvp(outputs, (given,), (way,))[1])
    if reached == "uncoded":
        yield from _told(reached, forward, "jvp", program)
    if status != "values" or reached != "values":
        return
    tangents = [np.asarray(t) for t in forward]
    parts = [reverse[f"{n}_grad"] * way[n] for n in floats if f"{n}_grad" in reverse]
    one, other = (float(sum(p.sum() for p in q)) for q in (tangents, parts))
    size = 1 + sum(float(np.abs(p).sum()) for p in (*tangents, *parts))
    if np.isfinite(size) and abs(one - other) > 1e-6 * size:
        yield Found("wrong", print_mlir(program.module), "jvp", f"{one}, but the gradient {other}")


def _compared(
    what: str, program: Program, inputs: Arrays, draw: random.Random, chosen: Sequence[str]
) -> Iterator[Found]:
    """The reference beside some of the ways."""
    known: Program | None = None
    for name in dict.fromkeys(chosen):
        state = draw.getstate()
        wrong = differs(name, state, program, inputs)
        if wrong is not None:
            kind = wrong[0]
            if kind == "nan" or _is_choice(program, inputs, name, wrong):
                calm = Program(program.module, calmed(program.params)), calmed(inputs)
                kind = kind if differs(name, state, *calm) else "overflow"
            if kind in ("nan", "overflow"):
                yield Found(kind, print_mlir(program.module), what + name, wrong[1][:300])
                continue
            if known is None or not _shows(known, inputs, name, state, wrong[0]):
                known = smaller(program, inputs, name, state, wrong[0])
            yield Found(wrong[0], print_mlir(known.module), what + name, wrong[1][:300])


def _is_choice(program: Program, inputs: Arrays, way: str, wrong: tuple[str, str]) -> bool:
    """Whether integers or bools differ, such as the place of a maximum."""
    output = wrong[1].partition("[")[0]
    status, oracle = _oracle(program, inputs, way in JOINT)
    held = oracle.want.get(output) if status == "values" else None
    return wrong[0] == "wrong" and held is not None and held.dtype.kind in "iub"


def differs(name: str, state: Any, program: Program, inputs: Arrays) -> tuple[str, str] | None:
    """How a way differs from the reference."""
    status, oracle = _oracle(program, inputs, name in JOINT)
    if status == "uncoded":
        return status, f"the reference ends in {type(oracle).__name__}: {oracle}"
    if status == "refused" and name in CHOOSY:
        return None
    draw = random.Random()
    draw.setstate(state)
    given = oracle.inputs if status == "values" else inputs
    reached, found = attempt(partial(WAYS[name], program, given, draw))
    if reached == "refused" and (status == "refused" or name in CHOOSY):
        return None
    if reached != "values":
        return reached, f"{type(found).__name__}: {found}"
    if status != "values":
        # What nothing needs may be left out, and with it the fault that ends the reference.
        dead = run_passes(_joined(program, name in JOINT), "dce")
        status, needed = attempt(partial(Oracle.of, dead, given))
        if status != "values":
            return "refused", f"values, but the reference refuses: {oracle}"
        oracle = needed
    if name in CHOOSY:  # these give outputs alone, not what is written
        return oracle.difference(found, found)
    return oracle.difference(found)


def calmed(arrays: Arrays) -> Arrays:
    """Numbers that no sum or product takes beyond its type; real infinities and NaN stay.

    What differs for other numbers alone differs by the order of sums, by FMA, or by the formula
    for products of complex infinities, and no backend promises these.
    """
    found: Arrays = {}
    for name, array in arrays.items():
        if array.dtype.kind == "c":
            array = np.where(np.isfinite(array) & (np.abs(array) < CALM), array, 1)
        elif array.dtype.kind not in "iub":
            array = np.where(np.isfinite(array), np.clip(array, -CALM, CALM), array)
        found[name] = np.asarray(array).astype(arrays[name].dtype)
    return found


_LATEST: dict[bool, tuple[Program, Arrays, tuple[str, Any]]] = {}


def _oracle(program: Program, inputs: Arrays, joint: bool) -> tuple[str, Any]:
    """What a program may give, or how the reference ended; the ways of a case share it."""
    known = _LATEST.get(joint)
    if known is None or known[0] is not program or known[1] is not inputs:
        status, both = attempt(partial(_joined, program, joint))
        reached = (
            attempt(partial(Oracle.of, both, inputs)) if status == "values" else (status, both)
        )
        known = _LATEST[joint] = program, inputs, reached
    return known[2]


def _joined(program: Program, joint: bool) -> Program:
    return run_passes(program, "autodiff{seeds=true}") if joint else program


def _told(status: str, error: Any, way: str, program: Program) -> Iterator[Found]:
    if status == "uncoded":
        told = f"{type(error).__name__}: {error}"
        yield Found(status, print_mlir(program.module), way, told[:300])


def smaller(program: Program, inputs: Arrays, name: str, state: Any, kind: str) -> Program:
    """A smaller program that differs in the same way."""

    def shows(module: Any) -> bool:
        return _shows(Program(module, program.params), inputs, name, state, kind)

    return Program(reduce(program.module, shows, REDUCING).module, program.params)


def _shows(program: Program, inputs: Arrays, name: str, state: Any, kind: str) -> bool:
    try:
        verify_module(program.module)
        with limited(5):  # a smaller loop may never end
            wrong = differs(name, state, program, inputs)
    except (Exception, Hang):
        return False
    return wrong is not None and wrong[0] == kind


def describe(seed: int, number: int, only: str = "") -> str:
    draw = random.Random(f"{seed} {number}")
    return print_mlir(made(draw.randrange(1 << 60))[0].module)


CAMPAIGN: Final = Campaign("programs", examine, describe, seconds=90, range=100)

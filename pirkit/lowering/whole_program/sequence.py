"""A program of fused kernels as a list of native functions over memory that is planned at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import nests_of
from pirkit.lowering.codegen.gemm import native_product
from pirkit.lowering.codegen.landing import Landing
from pirkit.lowering.codegen.loopnest import (
    Compute,
    Constant,
    Fold,
    Gather,
    Index,
    Kernel,
    Load,
    Operand,
    Stage,
    Store,
)
from pirkit.lowering.codegen.row_blocks import native_rows
from pirkit.lowering.codegen.tile_code import native_tiles
from pirkit.lowering.codegen.tile_turns import TileTurns
from pirkit.lowering.native import large_of, streamed
from pirkit.lowering.native_ops import CONVOLUTIONS, FUSED
from pirkit.lowering.whole_program.convolutions import (
    convolution_of,
    exchanged_of,
    fused_kernel,
)
from pirkit.lowering.whole_program.graph import Refused
from pirkit.lowering.whole_program.products import product_of
from pirkit.lowering.whole_program.row_groups import Group, row_groups
from pirkit.runtime.arena import Arena
from pirkit.runtime.dtype import REAL_OF
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction, NativeSequence
from pirkit.runtime.native.program import NativeProgram, ProgramStep
from pirkit.runtime.plan import Call, Plan

RENAMES: Final = frozenset({
    "pd_op.reshape", "pd_op.squeeze", "pd_op.unsqueeze", "pd_op.flatten", "pd_op.assign",
    "pd_op.share_data",
})  # fmt: skip
"""Ops whose result has the elements of the operand in the same order."""
PURE: Final = (Load, Constant, Index, Compute, Fold, Store, Gather)
"""Statements of nests that need nothing but their operands."""


@dataclass(slots=True)
class _Sequence:
    """Steps over buffers: slots of the plan, then temporaries of kernels."""

    plan: Plan
    steps: list[tuple[NativeFunction, tuple[int, ...]]] = field(
        default_factory=list["tuple[NativeFunction, tuple[int, ...]]"]
    )
    nests: list[Kernel | None] = field(default_factory=list["Kernel | None"])
    """The nest that a step is, None for one that is a part of it."""
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    same: dict[int, int] = field(default_factory=dict[int, int])
    outputs: list[int] = field(default_factory=list[int])
    final: frozenset[int] = frozenset()
    """Slots that are results and that no instruction reads."""
    exchanged: dict[int, int] = field(default_factory=dict[int, int])
    """Slots that nobody writes (see `exchanged_of`)."""

    def buffer(self, slot: int) -> int:
        return self.same.get(slot, slot)

    def temporary(self, nbytes: int) -> int:
        number = len(self.plan.slots) + len(self.sizes)
        self.sizes[number] = nbytes
        return number

    def meta(self, slot: int) -> TensorMeta:
        meta = self.plan.slots[slot]
        if not isinstance(meta, TensorMeta) or not meta.is_static:
            raise Refused("sizes are known only when the program runs")
        return meta

    def kernel(self, kernel: Kernel, buffers: Sequence[int]) -> None:
        found = native(kernel)
        self.functions(found, buffers)
        if len(found.steps) == 1:
            self.nests[-1] = kernel

    def functions(self, found: NativeSequence, buffers: Sequence[int]) -> None:
        own = [self.temporary(size) for size in found.temporaries]
        every = [*buffers, *own]
        for function, places in found.steps:
            self.steps.append((function, tuple([every[k] for k in places])))
            self.nests.append(None)

    def tiles(self, turns: TileTurns, buffers: Sequence[int]) -> None:
        ((function, _),) = native_tiles(turns).steps
        self.steps.append((function, tuple(buffers)))
        self.nests.append(None)

    # --- instructions ---

    def call(self, call: Call) -> None:
        if call.host or call.random is not None or call.is_ordered:
            raise Refused(f"`{call.kernel}` is more than a function of its operands")
        if call.kernel == FUSED:
            self.fused(call)
        elif call.kernel == "pd_op.matmul":
            self.product(call)
        elif call.kernel in CONVOLUTIONS:
            self.convolution(call)
        elif not _renames(call):
            raise Refused(f"`{call.kernel}` has no native form")

    def rename(self, call: Call) -> None:
        out, source = call.outputs[0] if call.outputs else None, call.inputs[:1]
        if _renames(call) and isinstance(out, int) and out != source[0]:
            self.same[out] = self.buffer(cast(int, source[0]))

    def rows(self, group: Group) -> None:
        """Calls that go through blocks of rows together."""
        self.steps.append((native_rows(group.blocks), group.operands))
        self.nests.append(None)

    def fused(self, call: Call) -> None:
        given, results = cast("tuple[int, ...]", call.inputs), call.outputs
        kernel = fused_kernel(call, self.meta)
        written = [
            (k, None if slot in self.exchanged else slot)
            for k, slot in zip(kernel.outputs, results, strict=True)
        ]
        if all(slot is None for _, slot in written):
            return
        kernel = replace(kernel, outputs=tuple([k for k, slot in written if slot is not None]))
        nests = nests_of(kernel)
        if isinstance(nests, str):
            raise Refused(f"a fused kernel has no native form: {nests}")
        where = {k: self.buffer(slot) for k, slot in enumerate(given)}
        for statement, slot in written:
            if isinstance(slot, int):
                where[len(given) + statement] = slot
        last = {k for k, slot in where.items() if slot in self.final}
        for number, nest in enumerate(nests):
            if isinstance(nest.kernel, Landing):
                raise Refused("a fused kernel writes where the data say")
            if not all(isinstance(s, PURE) for s in nest.kernel.statements()):
                raise Refused("a fused kernel checks elements while it runs")
            if isinstance(nest.kernel, Kernel) and not _stores(nest.kernel):
                continue
            for k in nest.arrays:
                if k not in where:
                    meta = kernel.statements[k - len(given)].meta
                    where[k] = self.temporary(meta.numel * meta.dtype.itemsize)
            if isinstance(nest.kernel, TileTurns):
                self.tiles(nest.kernel, [where[k] for k in nest.arrays])
                continue
            read_later = {k for later in nests[number + 1 :] for k in later.arrays}
            made = streamed(nest.kernel, large_of(nest, last - read_later))
            self.kernel(made, [where[k] for k in nest.arrays])

    def product(self, call: Call) -> None:
        x, y = cast("tuple[int, int]", call.inputs)
        out = cast(int, call.outputs[0])
        metas = self.meta(x), self.meta(y), self.meta(out)
        turned = bool(call.attrs["transpose_x"]), bool(call.attrs["transpose_y"])
        made = product_of(*metas, turned)
        buffers = (self.buffer(x), self.buffer(y), out)
        if isinstance(made, Kernel):
            self.kernel(made, buffers)
        else:
            self.steps.append((native_product(made), buffers))
            self.nests.append(None)

    def convolution(self, call: Call) -> None:
        found = convolution_of(call, self.meta, self.exchanged)
        slots = cast("tuple[int, ...]", (*call.inputs, *call.outputs))
        self.functions(found, [self.buffer(self.exchanged.get(s, s)) for s in slots])

    def copy(self, source: int, meta: TensorMeta) -> int:
        """The elements of a buffer in another one."""
        dtype = REAL_OF.get(meta.dtype, meta.dtype)  # a complex number is copied as its parts
        size, nbytes = dtype.itemsize, meta.numel * meta.dtype.itemsize
        operand = Operand(dtype, (size,), (), nbytes)
        body = (Load("x", 0), Store(1, "x"))
        target = self.temporary(nbytes)
        self.kernel(
            Kernel((nbytes // size,), (), (operand, operand), (Stage(body),)), [source, target]
        )
        return target


def _stores(nest: Kernel) -> bool:
    return any(isinstance(s, Store | Gather) for s in nest.statements())


def _renames(call: Call) -> bool:
    return call.kernel in RENAMES and isinstance(call.inputs[0], int)


def sequence_program(plan: Plan) -> NativeProgram:
    """The native program of a plan. Raises Refused for a plan that has none."""
    if plan.written:
        raise Refused(f"the program writes `{plan.written[0]}` in place: functionalize it")
    made = _Sequence(plan)
    read = {slot for i in plan.body if isinstance(i, Call) for slot in i.inputs}
    for instruction in plan.body:
        if not isinstance(instruction, Call):
            raise Refused("the program branches or loops")
        made.rename(instruction)
    groups = row_groups(plan, made.meta, made.same)
    members = {k for group in groups.values() for k in group.members}
    made.exchanged = exchanged_of(plan, made.meta, members)
    results = frozenset(o.source for o in plan.outputs if isinstance(o.source, int))
    made.final = results - read - set(made.exchanged.values())
    for number, instruction in enumerate(plan.body):
        if number in groups:
            made.rows(groups[number])
        elif number not in members:
            made.call(cast(Call, instruction))
    ports = (*plan.inputs, *plan.params)
    made.outputs = [cast(int, o.source) for o in plan.outputs]
    taken = {p.slot for p in ports}
    buffers: list[int] = []
    for output in plan.outputs:
        if not isinstance(output.source, int):
            raise Refused(f"output `{output.name}` is a list")
        source = made.buffer(output.source)
        if source in taken:
            source = made.copy(source, cast(TensorMeta, output.meta))
        taken.add(source)
        buffers.append(source)
    return _planned(made, [p.slot for p in ports], buffers)


def _planned(made: _Sequence, inputs: list[int], results: list[int]) -> NativeProgram:
    """Give all buffers but inputs and results a place in one stretch of memory."""
    number = {slot: k for k, slot in enumerate((*inputs, *results))}
    last = {b: k for k, (_, buffers) in enumerate(made.steps) for b in buffers}
    arena, offsets, steps = Arena(), list[int](), list[ProgramStep]()
    for k, (function, buffers) in enumerate(made.steps):
        for b in buffers:
            if b not in number:
                number[b] = len(inputs) + len(results) + len(offsets)
                offsets.append(arena.take(_bytes(made, b)))
        steps.append(ProgramStep(function, tuple([number[b] for b in buffers])))
        for b in dict.fromkeys(buffers):
            place = number[b] - len(inputs) - len(results)
            if place >= 0 and last[b] == k:
                arena.give(offsets[place], _bytes(made, b))
    plan = made.plan
    ports = (*plan.inputs, *plan.params)
    return NativeProgram(
        tuple([made.meta(slot) for slot in inputs]),
        tuple([cast(TensorMeta, o.meta) for o in plan.outputs]),
        tuple(steps),
        tuple(offsets),
        arena.size,
        (tuple([p.name for p in ports]), tuple([o.name for o in plan.outputs])),
        f"{len(steps)} functions, {arena.size:,} bytes between them",
        frozenset(_in_place(made, inputs, results)),
    )


def _in_place(
    made: _Sequence, inputs: Sequence[int], results: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of a result and an input that may be one array.

    No step behind the one that writes the result reads the input, and that one reads each element
    only where it writes it.
    """
    last = {b: k for k, (_, buffers) in enumerate(made.steps) for b in buffers}
    writers = {b: k for k in reversed(range(len(made.steps))) for b in made.steps[k][1]}
    for number, result in enumerate(results):
        step = writers[result]
        for position, source in enumerate(inputs):
            if made.plan.slots[source] != made.plan.slots[made.outputs[number]]:
                continue
            read = last.get(source, -1)
            if read < step or (read == step and _side_by_side(made, step, result, source)):
                yield number, position


def _side_by_side(made: _Sequence, step: int, result: int, source: int) -> bool:
    """Whether a step is one sweep that reads each element of a buffer where it writes another."""
    nest, buffers = made.nests[step], made.steps[step][1]
    if nest is None or nest.inner or len(nest.stages) != 1:
        return False
    places = {
        (operand.outer, operand.offset)
        for operand, buffer in zip(nest.operands, buffers, strict=True)
        if buffer in (result, source)
    }
    if len(places) != 1:
        return False
    read = {k for k, buffer in enumerate(buffers) if buffer == source}
    written = {k for k, buffer in enumerate(buffers) if buffer == result}
    statements = list(enumerate(nest.statements()))
    loads = [(k, s) for k, s in statements if isinstance(s, Load) and s.operand in read]
    first = min(k for k, s in statements if isinstance(s, Store) and s.operand in written)
    return all(k < first and s.at is None for k, s in loads)


def _bytes(made: _Sequence, buffer: int) -> int:
    if buffer in made.sizes:
        return made.sizes[buffer]
    meta = made.meta(buffer)
    return meta.numel * meta.dtype.itemsize

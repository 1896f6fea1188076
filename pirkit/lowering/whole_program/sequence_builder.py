"""The steps of a kernel sequence: which native functions run each call, and over which buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.gc_pause import imported
from pirkit.dialect.kinds import CONVOLUTION, RESHAPE
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.loopnest import Effect, Kernel, Load, Store
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.codegen.lower.split_scatter import without_scatters
from pirkit.lowering.native_fused import large_results, nests_at, with_streaming_stores
from pirkit.lowering.native_ops import FUSED, MATMUL, PANELS
from pirkit.lowering.whole_program.complex_kernels import complex_nest_of
from pirkit.lowering.whole_program.constants import Array, constant_of
from pirkit.lowering.whole_program.control_flow import ControlFlow, copy_all
from pirkit.lowering.whole_program.conv_kernels import convolution_of
from pirkit.lowering.whole_program.cumulative_kernels import cumulative_of
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.lowering.whole_program.search_kernels import search_of
from pirkit.lowering.whole_program.small_matrices import matrix_batch_of, small_matrices_of
from pirkit.lowering.whole_program.sort_kernels import sort_of
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.data_assertions import DataAssertion
from pirkit.runtime.native.function import (
    Branch,
    Control,
    LibraryCall,
    NativeFunction,
    NativeSequence,
)
from pirkit.runtime.native.records_ir import STACK_BYTES
from pirkit.runtime.plan import Call, Plan, TypedCall, reads, slots_of

if TYPE_CHECKING:
    from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem
    from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm
    from pirkit.lowering.whole_program.attention_groups import RowGroup

_NCHWC: Final = "pir.nchwc_"
"""What the names of ops over blocked channels begin with."""


class SequenceBuilder(Struct):
    """Collects steps over buffers. Buffer numbers are slots of the plan, then temporaries."""

    plan: Plan
    steps: list[tuple[NativeFunction | Control, tuple[int, ...]]] = field(
        default_factory=list["tuple[NativeFunction | Control, tuple[int, ...]]"]
    )
    nests: list[Kernel | None] = field(default_factory=list["Kernel | None"])
    """For each step the nest that it computes; None if it is not exactly one nest."""
    statements: dict[NativeFunction, int] = field(default_factory=dict[NativeFunction, int])
    """About how many statements the function of a nest executes."""
    products: dict[NativeFunction, Gemm] = field(default_factory=dict[NativeFunction, "Gemm"])
    """The matmuls of functions that can add something to their results."""
    convolutions: dict[NativeFunction, ConvProblem | Kernel] = field(
        default_factory=dict[NativeFunction, "ConvProblem | Kernel"]
    )
    """What functions of convolutions compute that can do more with their results."""
    sources: list[tuple[Call, ...]] = field(default_factory=list["tuple[Call, ...]"])
    """For each step the calls that it computes, or computes a part of."""
    current: tuple[Call, ...] = ()
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    aliases: dict[int, int] = field(default_factory=dict[int, int])
    outputs: list[int] = field(default_factory=list[int])
    live_out: frozenset[int] = frozenset()
    """Slots of results that no instruction reads: candidates for non-temporal stores."""
    constants: dict[int, Array] = field(default_factory=dict[int, Array])
    """Read-only buffers whose content is known at compile time."""
    assertions: dict[int, DataAssertion] = field(default_factory=dict[int, DataAssertion])
    """Buffers of one byte that a step sets if its data violate an assertion."""
    transposed: dict[int, int] = field(default_factory=dict[int, int])
    """Slots that are never written; their readers read the source (see `transposed_slots`)."""
    stacks: list[int] = field(default_factory=list[int])
    tokens: dict[int, int] = field(default_factory=dict[int, int])
    calls_libraries: bool = False
    """Whether calls without native code become calls of libraries, to which the program returns."""
    _flow: ControlFlow | None = None

    @property
    def flow(self) -> ControlFlow:
        if self._flow is None:
            self._flow = ControlFlow(self)
        return self._flow

    def buffer(self, slot: int) -> int:
        return self.aliases.get(slot, slot)

    def temporary(self, nbytes: int) -> int:
        number = len(self.plan.slots) + len(self.sizes)
        self.sizes[number] = nbytes
        return number

    def flag(self, call: Call, found: DataAssertion) -> int:
        number = self.temporary(1)
        self.assertions[number] = replace(found, op=call.kernel, span=call.span, origin=call.origin)
        return number

    def meta(self, slot: int) -> TensorMeta:
        meta = self.plan.slots[slot]
        if not isinstance(meta, TensorMeta) or not meta.is_static:
            raise NotNativeError("sizes are known only when the program runs")
        return meta

    def kernel(self, kernel: Kernel | TiledNest, buffers: Sequence[int]) -> None:
        found = native_sequence(kernel)
        self.functions(found, buffers)
        if len(found.steps) == 1:
            count = kernel.iterations * len(list(kernel.statements()))
            self.statements[found.steps[0][0]] = count
            self.nests[-1] = kernel if isinstance(kernel, Kernel) else None

    def functions(self, found: NativeSequence, buffers: Sequence[int]) -> None:
        own = [self.temporary(size) for size in found.temporaries]
        all_buffers = [*buffers, *own]
        for function, places in found.steps:
            self.add_step(function, tuple([all_buffers[k] for k in places]))

    # --- instructions ---

    def call(self, call: Call) -> None:
        if call.host or call.random is not None or call.is_ordered:
            raise NotNativeError(f"`{call.kernel}` draws random numbers, or has another effect")
        for slot in slots_of(call.outputs):
            self.meta(slot)  # buffers need sizes
        self.current = (call,)
        try:
            self.native(call)
        except NotNativeError:
            if not self.calls_libraries or not set(slots_of(call.outputs)).isdisjoint(reads(call)):
                raise
            slots = tuple(slots_of((*call.inputs, *call.outputs)))
            function = LibraryCall(call, tuple(map(self.meta, slots)))
            self.add_step(function, tuple(map(self.buffer, slots)))

    def native(self, call: Call) -> None:
        """Add the native functions of a call. Raises NotNativeError, and has added nothing."""
        if call.kernel == FUSED:
            self.fused(call)
        elif call.kernel == MATMUL:
            self.matmul(call)
        elif call.kernel in PANELS:
            self.panels(call)
        elif has_trait(call.kernel, CONVOLUTION):
            self.convolution(call)
        elif call.kernel.startswith(_NCHWC):
            self.nchwc(call)
        elif not (
            is_reshape(call)
            or self.cumulative(call)
            or self.search(call)
            or self.sort(call)
            or self.matrices(call)
            or self.complex(call)
        ):
            self.constant(call)

    def alias(self, call: Call) -> None:
        out, source = call.outputs[0] if call.outputs else None, call.inputs[:1]
        # contiguous buffers: another shape is the same bytes
        if is_reshape(call) and isinstance(out, int) and out != source[0]:
            self.aliases[out] = self.buffer(cast(int, source[0]))

    def constant(self, call: Call) -> None:
        out = call.outputs[0] if len(call.outputs) == 1 else None
        found = constant_of(call, self.meta(out)) if isinstance(out, int) else None
        if not isinstance(out, int) or found is None:
            raise NotNativeError(f"`{call.kernel}` is in no kernel and has no native form")
        self.constants[out] = found

    def rows(self, group: RowGroup, calls: Sequence[Call]) -> None:
        """Add a group of calls that run together on blocks of rows."""
        self.current = tuple([calls[k] for k in sorted(group.members)])
        rows = imported("pirkit.lowering.codegen.matmul.fused_row_blocks")
        self.add_step(rows.native_rows(group.blocks), group.operands)

    def fused(self, call: Call) -> None:
        """Add the nests of a fused kernel. Values that only its nests exchange get temporaries;
        results whose readers read the source (`transposed`) are not computed.

        Large results that nothing of the program reads later bypass the caches.
        """
        given, results = cast("tuple[int, ...]", call.inputs), call.outputs
        shapes = tuple([self.meta(slot).shape for slot in given])
        kernel, nests = nests_at(call.attrs["kernel"], shapes)
        written = [
            (k, None if slot in self.transposed else slot)
            for k, slot in zip(kernel.outputs, results, strict=True)
        ]
        if all(slot is None for _, slot in written):
            return
        if any(slot is None for _, slot in written):
            kept = tuple([k for k, slot in written if slot is not None])
            kernel = replace(kernel, outputs=kept)
            nests = nests_of(kernel)
        if isinstance(nests, str):
            raise NotNativeError(f"a fused kernel has no native form: {nests}")
        slot_operands = {k: self.buffer(slot) for k, slot in enumerate(given)}
        for statement, slot in written:
            if isinstance(slot, int):
                slot_operands[len(given) + statement] = slot
        # a store that bypasses the caches makes the next reader wait for memory
        last = {k for k, slot in slot_operands.items() if slot in self.live_out}
        values = without_scatters(kernel).kernel.statements
        for number, nest in enumerate(nests):
            if isinstance(nest.kernel, Kernel) and not _stores(nest.kernel):
                continue
            first_flag = len(given) + len(values)
            for k in nest.arrays:
                if k < first_flag and k not in slot_operands:
                    meta = values[k - len(given)].meta
                    slot_operands[k] = self.temporary(meta.numel * meta.dtype.itemsize)
            slot_operands |= {
                k: self.flag(call, d) for k, d in enumerate(nest.assertions, first_flag)
            }
            read_later = {k for later in nests[number + 1 :] for k in later.arrays}
            made = with_streaming_stores(nest.kernel, large_results(nest, last - read_later))
            self.kernel(made, [slot_operands[k] for k in nest.arrays])

    def matmul(self, call: Call) -> None:
        x, y = cast("tuple[int, int]", call.inputs)
        out = cast(int, call.outputs[0])
        metas = self.meta(x), self.meta(y), self.meta(out)
        transposed = bool(call.attrs["transpose_x"]), bool(call.attrs["transpose_y"])
        matmuls = _matmuls()
        made = matmuls.matmul_of(*metas, transposed)
        buffers = (self.buffer(x), self.buffer(y), out)
        if isinstance(made, Kernel):
            self.kernel(made, buffers)
        else:
            self.gemm(made, buffers)

    def panels(self, call: Call) -> None:
        given, out = cast("tuple[int | None, ...]", call.inputs), cast(int, call.outputs[0])
        metas = [None if slot is None else self.meta(slot) for slot in given]
        found, operands = _matmuls().panel_product(metas, self.meta(out))
        slots = cast("list[int]", [(*given, out)[k] for k in operands])
        buffers = tuple(map(self.buffer, slots))
        if isinstance(found, NativeFunction):
            self.add_step(found, buffers)
        else:
            self.gemm(found, buffers)

    def gemm(self, product: Gemm, buffers: tuple[int, ...]) -> None:
        function = imported("pirkit.lowering.codegen.matmul.gemm").native_gemm(product)
        if _matmuls().is_blocked(product):
            self.products[function] = product
        self.add_step(function, buffers)

    def convolution(self, call: Call) -> None:
        found, last = convolution_of(call, self.meta, self.transposed)
        if last is not None:
            self.convolutions[found.steps[-1][0]] = last
        slots = cast("tuple[int, ...]", (*call.inputs, *call.outputs))
        self.functions(found, [self.buffer(self.transposed.get(s, s)) for s in slots])

    def cumulative(self, call: Call) -> bool:
        found = cumulative_of(call, self.meta)
        if found is not None:
            function, (x, *results) = found
            self.add_step(function, (self.buffer(x), *results))
        return found is not None

    def search(self, call: Call) -> bool:
        found = search_of(call, self.meta)
        if found is not None:
            slots = cast("tuple[int, ...]", (*call.inputs, *call.outputs))
            self.kernel(found, [self.buffer(s) for s in slots])
        return found is not None

    def sort(self, call: Call) -> bool:
        found = sort_of(call, self.meta)
        if found is not None:
            # first the place of each element, then for each place the element that belongs there
            x, *results = map(self.buffer, found.slots)
            places = self.temporary(found.place_bytes)
            self.kernel(found.places, (x, x, places))
            self.kernel(found.select, (places, x, *results))
        return found is not None

    def matrices(self, call: Call) -> bool:
        found = small_matrices_of(call, self.meta)
        if found is not None:
            slots = cast("tuple[int, ...]", (*call.inputs, *call.outputs))
            buffers = [self.buffer(slots[k]) for k in found.places]
            self.kernel(found.kernel, [*buffers, *(self.flag(call, a) for a in found.assertions)])
            return True
        in_loops = matrix_batch_of(call, self.meta)
        if in_loops is not None:
            function, slots, refused = in_loops
            flags = [] if refused is None else [self.flag(call, refused)]
            self.add_step(function, (*map(self.buffer, slots), *flags))
        return in_loops is not None

    def complex(self, call: Call) -> bool:
        found = complex_nest_of(call, self.meta)
        if found is not None:
            self.kernel(found.kernel, [self.buffer(s) for s in found.slots])
        return found is not None

    def nchwc(self, call: Call) -> None:
        given, out = cast("tuple[int | None, ...]", call.inputs), cast(int, call.outputs[0])
        metas = [None if slot is None else self.meta(slot) for slot in given]
        kind = "winograd" if "winograd" in call.kernel else "nchwc"
        sizes = getattr(imported("pirkit.lowering.whole_program.nchwc"), f"{kind}_conv_of")
        compiled = getattr(imported("pirkit.lowering.codegen.conv.compile_conv"), f"native_{kind}")
        found = compiled(sizes(metas, self.meta(out), call.attrs))
        self.functions(found, [*(self.buffer(s) for s in given if s is not None), out])

    def source(self, call: Call) -> TypedCall:
        inputs, outputs = (tuple(map(self.meta, slots_of(o))) for o in (call.inputs, call.outputs))
        return TypedCall(call, inputs, outputs)

    def copy(self, source: int, meta: TensorMeta) -> int:
        """Copy a buffer into a new temporary."""
        target = self.temporary(meta.numel * meta.dtype.itemsize)
        copy_all(self, [(source, target, meta)])
        return target

    def add_step(self, function: NativeFunction | Control, buffers: tuple[int, ...]) -> int:
        """Add a step; its number. `backpatch` sets the target of a branch."""
        self.steps.append((function, buffers))
        self.nests.append(None)
        self.sources.append(self.current)
        return len(self.steps) - 1

    def is_made_here(self, buffer: int) -> bool:
        """Whether steps write a buffer: it is no operand of the program and no constant."""
        ports = (*self.plan.inputs, *self.plan.params)
        return buffer not in self.constants and all(p.slot != buffer for p in ports)

    def is_in_place(self, step: int, result: int, source: int) -> bool:
        """Whether a step is one elementwise loop that reads ``source`` only in the iteration that
        writes the same element of ``result``, and before the first store.
        """
        nest, buffers = self.nests[step], self.steps[step][1]
        if nest is None or nest.inner or len(nest.loop_phases) != 1:
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

    def bytes_of(self, buffer: int) -> int:
        if buffer in self.sizes:
            return self.sizes[buffer]
        meta = self.meta(buffer)
        return meta.numel * meta.dtype.itemsize

    def stack(self) -> int:
        """A buffer for a stack, which lives as long as the program and is empty at its start."""
        buffer = self.temporary(STACK_BYTES)
        self.constants[buffer] = np.zeros(STACK_BYTES, np.uint8)
        self.stacks.append(buffer)
        return buffer

    def token(self, slot: int) -> int:
        """The buffer of what a stack is where it is pushed on another one."""
        if slot not in self.tokens:
            self.tokens[slot] = self.temporary(8)
        return self.tokens[slot]

    def backpatch(self, branch: int, target: int | None = None) -> None:
        """Set the target of a branch, which is the next step to come if not another one."""
        function, condition = self.steps[branch]
        assert isinstance(function, Branch)
        to = len(self.steps) if target is None else target
        self.steps[branch] = (replace(function, target=to), condition)


def _stores(nest: Kernel) -> bool:
    return any(isinstance(s, Effect) for s in nest.statements())


def is_reshape(call: Call) -> bool:
    """Whether a call gives its operand another shape, which costs native code nothing."""
    return has_trait(call.kernel, RESHAPE) and isinstance(call.inputs[0], int)


def _matmuls() -> Any:
    """The module of matmuls. Programs without them, or without convolutions, begin faster so."""
    return imported("pirkit.lowering.whole_program.matmul")

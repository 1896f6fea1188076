"""Selects kernels: those of a backend, then decompositions, the CPU, and the reference rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.gc_pause import imported
from pirkit.dialect.gradient_names import forward_of
from pirkit.dialect.infer import infer_metas
from pirkit.dialect.opdef import RANDOM, OpDef, decompose, infer_meta, lookup, reference, require
from pirkit.lowering.native_ops import (
    FUSED,
    NATIVE_KERNELS,
    NESTS,
    REWRITTEN,
    binder,
    loop_interpreter,
    nest_interpreter,
)
from pirkit.lowering.native_ops import NAME as NATIVE
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.convert import HALF_TYPES, in_single, with_arrays
from pirkit.runtime.device import Device
from pirkit.runtime.dtype import DType
from pirkit.runtime.fallback import fallback
from pirkit.runtime.library import Metas
from pirkit.runtime.meta import Meta, is_addressable
from pirkit.runtime.plan import PROGRAMS, REGION, Call, Plan
from pirkit.runtime.registry import (
    ANY,
    CPU,
    KERNELS,
    REFERENCE,
    Choice,
    Kernel,
    KernelKey,
    Registry,
)

LAYOUTS: Final = frozenset({"NCHW", "NHWC", "NCDHW", "NDHWC", "NCL", "NLC"})
"""Values of ``data_format`` for which kernels may differ."""


class KernelLibrary(Struct, frozen=True):
    """Implements :class:`pirkit.runtime.library.Library` over the op table and a registry."""

    backend: str = CPU
    registry: Registry = KERNELS
    falls_back: bool = True
    """False: an op without a kernel on the device is refused instead of run on the CPU."""
    certifies: bool = False
    """True: the certificate of a kernel of fused ops is derived again before each launch."""
    fused: str = NATIVE
    """The executor of fused kernels on the CPU: one of `FUSED_BY`."""
    _choices: dict[tuple[str, DType, str], tuple[Choice, ...]] = field(
        default_factory=dict[tuple[str, DType, str], "tuple[Choice, ...]"]
    )

    @property
    def device(self) -> Device:
        """The device of operands and results."""
        return self.registry.device(self.backend)

    def infer(self, op: str, inputs: Metas, attrs: Mapping[str, Any]) -> Metas:
        """Metas of the results; raises ConstraintError for a call that the op does not allow."""
        if op in PROGRAMS:
            require(inputs == attrs["program"].inputs, "sizes", "they are others than compiled for")
        if op in REWRITTEN:
            return attrs["results"]
        definition = lookup(op)
        metas = infer_metas(definition, infer_meta.of(definition), inputs, attrs)
        for meta in metas:
            require(is_addressable(meta), "size", f"its result {meta} is larger than any memory")
        return metas

    def is_native(self, definition: OpDef) -> bool:
        """True if the op runs on the device of the backend without being decomposed.

        The reference rules are those of the CPU.
        """
        backend = self.registry.backend(self.backend)
        if backend.device == CPU and reference.get(definition) is not None:
            return True
        return any(True for _ in self.registry.kernels(definition.base.name, backend=self.backend))

    def serves(self, definition: OpDef) -> bool:
        """True if there is a kernel for some element type."""
        may_use_cpu = self.falls_back or self.registry.backend(self.backend).device == CPU
        if may_use_cpu and (reference.get(definition) is not None or is_composite(definition)):
            return True
        backends = {self.backend, CPU} if may_use_cpu else {self.backend}
        name = definition.base.name
        return any(True for b in backends for _ in self.registry.kernels(name, backend=b))

    def choices(self, op: str, dtype: DType, attrs: Mapping[str, Any]) -> Sequence[Choice]:
        """The kernels for an op and element type, best first.

        Kernels of the backend and of other libraries on its device come first, then those of the
        CPU (with copies if the device has its own memory), then the reference rule.
        """
        layout = str(attrs.get("data_format", ANY))
        layout = layout if layout in LAYOUTS else ANY
        key = (op, dtype, layout)
        found = self._choices.get(key)
        if found is None:
            if op == REGION:
                found = (self._region(dtype),)
            elif op in REWRITTEN:
                interprets = self.fused == NESTS
                found = (_interpreted_loops(op, dtype) if interprets else _native(op, dtype),)
            else:
                found = tuple(self._find(lookup(op), dtype, layout))
            if self.certifies and op == FUSED:
                from pirkit.lowering.certify import certified  # noqa: PLC0415  seldom

                found = tuple(map(certified, found))
            self._choices[key] = found
        return found

    def _find(self, definition: OpDef, dtype: DType, layout: str) -> Iterator[Choice]:
        name = definition.base.name
        backend = self.registry.backend(self.backend)
        count = 0
        if name in NATIVE_KERNELS and backend.device == CPU and self.backend != REFERENCE:
            if self.fused == NESTS:
                count += 1
                yield _interpreted(dtype) if name == FUSED else _interpreted_loops(name, dtype)
            elif name != FUSED or self.fused == NATIVE:
                count += 1
                yield _native(name, dtype)
        for choice in self.registry.candidates(name, dtype, backend=self.backend, layout=layout):
            count += 1
            yield choice
        # another device prefers a decomposition, whose parts stay there, to copies to the CPU
        if backend.device != CPU:
            for choice in self._composite(definition, dtype, count, self):
                count += 1
                yield choice
            if not self.falls_back:
                return
            why = "serves not every call" if count else "has no kernel"
            for choice in self._on_cpu(definition, dtype, layout):
                reasons = (f"`{self.backend}` {why}: falls back to the CPU", *choice.reasons)
                yield Choice(fallback(choice.kernel, backend, self.device), reasons)
            return
        yield from self._reference(definition, dtype, count)

    def _on_cpu(self, definition: OpDef, dtype: DType, layout: str) -> Iterator[Choice]:
        count = 0
        name = definition.base.name
        for choice in self.registry.candidates(name, dtype, backend=CPU, layout=layout):
            count += 1
            yield choice
        yield from self._reference(definition, dtype, count)

    def _reference(self, definition: OpDef, dtype: DType, others: int) -> Iterator[Choice]:
        rule = reference.get(definition)
        if rule is None:
            # What it has chosen is for this device alone.
            library = self if self.device.name == CPU else replace(self, backend=CPU, _choices={})
            yield from self._composite(definition, dtype, others, library)
            return
        kernel = Kernel(
            op=definition.base.name,
            key=KernelKey(REFERENCE, ANY, dtype),
            bind=_reference(rule, definition.effects == RANDOM, _half(definition, dtype)),
            form="new",
            source=f"{rule.__module__}.{getattr(rule, '__name__', '')}",
        )
        is_requested = self.backend == REFERENCE
        reason = (
            "asked for" if is_requested else "for what no kernel serves" if others else "no kernel"
        )
        yield Choice(kernel, (f"the reference rule: {reason}",))

    def _composite(
        self, definition: OpDef, dtype: DType, others: int, library: KernelLibrary
    ) -> Iterator[Choice]:
        """The decomposition, whose parts run on the kernels of ``library``."""
        if not is_composite(definition):
            return
        from pirkit.lowering.composite import NAME, composite  # noqa: PLC0415  imports the passes

        kernel = Kernel(
            op=definition.base.name,
            key=KernelKey(NAME, ANY, dtype),
            bind=composite(definition, library),
            form="new",
            source="its decomposition",
        )
        reason = "for what no kernel serves" if others else "no kernel"
        yield Choice(kernel, (f"decomposed when its shapes and attributes are known: {reason}",))

    def _region(self, dtype: DType) -> Choice:
        """Native code of loops and branches, with kernels of this library for the calls in it."""
        bind = imported("pirkit.lowering.native_region").region_binder(self)
        source = f"{bind.__module__}.{bind.__name__}"
        key = KernelKey(NATIVE, ANY, dtype)
        kernel = Kernel(op=REGION, key=key, bind=bind, form="out", source=source)
        return Choice(kernel, ("native code of loops and branches, with library calls in it",))

    def grouped(self, plan: Plan, bound_inputs: Mapping[int, Meta]) -> Plan:
        """The plan with the native calls that stand for several, for inputs of these metas."""
        if self.backend != CPU or self.certifies or self.fused not in (NATIVE, NESTS):
            return plan
        kernels = {i.kernel for i in plan.body if isinstance(i, Call)}
        if FUSED not in kernels:
            return plan
        from pirkit.lowering.row_grouping import grouped  # noqa: PLC0415  imports the code generator

        return grouped(plan, self, bound_inputs)

    def overwrites(self, kernel: Kernel) -> Mapping[int, tuple[int, ...]]:
        """For each result, the operands whose memory it may overwrite, all by position."""
        if not kernel.inplace:
            return {}
        definition = lookup(kernel.op)
        operands = [o.name for o in definition.operands if o.kind is None]
        results = [r.name for r in definition.results]
        return {
            results.index(result): tuple([operands.index(n) for n in names])
            for result, names in kernel.inplace.items()
        }


def is_composite(definition: OpDef) -> bool:
    """True if the op, or the pure form of it, may be decomposed."""
    pure = definition.base
    # the rule of gradient ops comes with the passes, which a run of a cached plan does not import
    has_rule = decompose.get(pure) is not None or forward_of(pure) is not None
    return has_rule and pure.effects != RANDOM and not pure.writes


def _native(name: str, dtype: DType) -> Choice:
    bind, (_, reason) = binder(name), NATIVE_KERNELS[name]
    source = f"{bind.__module__}.{bind.__name__}"
    kernel = Kernel(
        op=name, key=KernelKey(NATIVE, ANY, dtype), bind=bind, form="out", source=source
    )
    return Choice(kernel, (reason,))


def _interpreted_loops(name: str, dtype: DType) -> Choice:
    """The interpreter of the loops of native code, where it has loops, such as a matmul."""
    native = _native(name, dtype)
    run = loop_interpreter()

    def bind(b: Binding) -> Step | None:
        return run(native.kernel.bind(b))

    return replace(native, kernel=replace(native.kernel, bind=bind))


def _interpreted(dtype: DType) -> Choice:
    bind = nest_interpreter()
    source = f"{bind.__module__}.{bind.__name__}"
    kernel = Kernel(
        op=FUSED, key=KernelKey(NESTS, ANY, dtype), bind=bind, form="new", source=source
    )
    return Choice(kernel, ("the interpreter of its loop nests: asked for",))


def _half(definition: OpDef, dtype: DType) -> DType | None:
    """The element type, where it is of half precision and the op's rules know only wider ones."""
    is_known = not definition.dtypes or dtype in definition.dtypes
    return dtype if dtype in HALF_TYPES and not is_known else None


def _reference(
    rule: Callable[..., Any], is_random: bool, half: DType | None
) -> Callable[[Binding], Step]:
    def bind(b: Binding) -> Step:
        step = bound(b)
        return with_arrays(step) if half is None else in_single(step, half, b.outputs)

    def bound(b: Binding) -> Step:
        attrs = b.attrs
        if not is_random:
            return partial(rule, **attrs) if attrs else rule
        generator = b.generator
        if generator is None:  # nothing is drawn
            return lambda *operands: rule(*operands, rng=None, **attrs)
        return lambda *operands: rule(*operands, rng=generator(), **attrs)

    return bind

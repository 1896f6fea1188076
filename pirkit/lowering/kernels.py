"""The kernels that a program may be bound to: those of a backend, then the reference rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pirkit.dialect.opdef import RANDOM, OpDef, infer_meta, lookup, reference
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.dtype import DType
from pirkit.runtime.library import Metas
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


@dataclass(frozen=True)
class KernelLibrary:
    """Implements :class:`pirkit.runtime.library.Library` over the op table and a registry."""

    backend: str = CPU
    registry: Registry = KERNELS
    _choices: dict[tuple[str, DType, str], tuple[Choice, ...]] = field(
        default_factory=dict[tuple[str, DType, str], "tuple[Choice, ...]"]
    )

    def infer(self, op: str, inputs: Metas, attrs: Mapping[str, Any]) -> Metas:
        """Metas of the results; raises ConstraintError for a call that the op does not allow."""
        found = infer_meta.of(lookup(op))(*inputs, **attrs)
        return cast(Metas, found if isinstance(found, tuple) else (found,))

    def serves(self, definition: OpDef) -> bool:
        """True if there is a kernel for some element type."""
        if reference.get(definition) is not None:
            return True
        name = definition.base.name
        return any(k.key.backend == self.backend for k in self.registry.kernels(name))

    def choices(self, op: str, dtype: DType, attrs: Mapping[str, Any]) -> Sequence[Choice]:
        """Kernels that may serve the op, best first; the reference rule comes last."""
        layout = str(attrs.get("data_format", ANY))
        layout = layout if layout in LAYOUTS else ANY
        key = (op, dtype, layout)
        found = self._choices.get(key)
        if found is None:
            found = self._choices[key] = tuple(self._find(lookup(op), dtype, layout))
        return found

    def _find(self, definition: OpDef, dtype: DType, layout: str) -> Sequence[Choice]:
        name = definition.base.name
        found = list(self.registry.candidates(name, dtype, backend=self.backend, layout=layout))
        rule = reference.get(definition)
        if rule is not None:
            kernel = Kernel(
                op=name,
                key=KernelKey(REFERENCE, ANY, dtype),
                bind=_reference(rule, definition.effects == RANDOM),
                form="new",
                source=f"{rule.__module__}.{rule.__name__}" if hasattr(rule, "__name__") else "",
            )
            asked = self.backend == REFERENCE
            reason = "asked for" if asked else "no other kernel" if not found else "last resort"
            found.append(Choice(kernel, (f"the reference rule: {reason}",)))
        return found

    def overwrites(self, kernel: Kernel) -> Mapping[int, tuple[int, ...]]:
        """Result -> operands whose memory the kernel may write it to, by position."""
        if not kernel.inplace:
            return {}
        definition = lookup(kernel.op)
        operands = [o.name for o in definition.operands if o.kind is None]
        results = [r.name for r in definition.results]
        return {
            results.index(result): tuple([operands.index(n) for n in names])
            for result, names in kernel.inplace.items()
        }


def _reference(rule: Callable[..., Any], is_random: bool) -> Callable[[Binding], Step]:
    def bind(b: Binding) -> Step:
        attrs = b.attrs
        if not is_random or b.generator is None:
            return lambda *operands: rule(*operands, **attrs)
        generator = b.generator
        return lambda *operands: rule(*operands, rng=generator(), **attrs)

    return bind

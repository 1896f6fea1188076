"""Complete calls of ops: the samples of the op table with every slot and attribute filled in."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import PirkitError
from pirkit.dialect.attrs import decode, encode
from pirkit.dialect.opdef import OpDef, all_ops, infer_meta, reference, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.signature import REQUIRED, Operand
from pirkit.runtime import dtype as dt
from pirkit.runtime import meta as metas
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta

Array = np.ndarray[Any, Any]
Value = Array | list[Array] | None

_GRADIENT = re.compile(r"_grad_?$")

STRUCTURAL: Final = frozenset({"structure", "derivatives", "tensor_array"})
"""The family of ops that have regions, lists or effects instead of a numeric meaning."""


PLENTY = 20
"""Calls of an op that are compared with Paddle, at least."""


def is_gradient(definition: OpDef) -> bool:
    return _GRADIENT.search(definition.name) is not None


def table() -> list[OpDef]:
    """Every op that computes, in-place twins left out (they share the rules of their pure op)."""
    every = (d for d in all_ops() if d.pure is None)
    return [d for d in every if d.family not in STRUCTURAL or samples.get(d) is not None]


def tensor_slots(definition: OpDef) -> list[Operand]:
    """The operands that are tensors and nothing else: those a sample gives by position."""
    return [o for o in definition.operands if o.kind is None]


@dataclass(frozen=True)
class Call:
    """A call with nothing left to defaults: one argument per tensor slot, every attribute."""

    definition: OpDef
    args: tuple[Value, ...]
    attrs: dict[str, Any]

    @property
    def metas(self) -> tuple[Meta | None, ...]:
        return tuple(None if a is None else metas.of_value(a) for a in self.args)

    def infer(self, *args: Meta | None, **attrs: Any) -> tuple[Meta | None, ...]:
        """Result metas, for the given operand metas and with the given attributes replaced."""
        rule = infer_meta.of(self.definition)
        return as_tuple(rule(*(args or self.metas), **{**self.attrs, **attrs}))

    def compute(self, args: tuple[Value, ...] | None = None, *, key: int = 7) -> tuple[Value, ...]:
        """The reference's results; random ops draw from a generator with that key."""
        extra: dict[str, Any] = {}
        if self.definition.effects == "random":
            extra["rng"] = np.random.Generator(np.random.Philox(key=key))
        with np.errstate(all="ignore"):
            rule = reference.of(self.definition)
            return as_tuple(rule(*(self.args if args is None else args), **self.attrs, **extra))

    def __str__(self) -> str:
        args = [str(m) if m else "null" for m in self.metas]
        attrs = [f"{k}={v}" for k, v in self.attrs.items()]
        return f"{self.definition.name}({', '.join([*args, *attrs])})"


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def complete(definition: OpDef, sample: Sample) -> Call:
    """Fill in defaults.

    Raises ValueError if the sample does not fit the signature: it is the op author's mistake.
    """
    slots = tensor_slots(definition)
    args = list(sample.args)
    variadic = bool(slots) and slots[-1].variadic
    if len(args) > len(slots) and not variadic:
        raise ValueError(f"{definition.name}: a sample has {len(args)} tensors for {len(slots)}")
    args += [None] * (len(slots) - len(args))
    for slot, arg in zip(slots, args, strict=False):
        if arg is None and not slot.optional:
            raise ValueError(f"{definition.name}: a sample lacks the tensor `{slot.name}`")
        if arg is not None and isinstance(arg, list) != slot.is_vec:
            raise ValueError(f"{definition.name}: `{slot.name}` is a list or is not")
    attrs: dict[str, Any] = {}
    for item in (*(o for o in definition.operands if o.kind is not None), *definition.attrs):
        value = sample.attrs.get(item.name, item.default)
        if value is REQUIRED:
            raise ValueError(f"{definition.name}: a sample lacks `{item.name}`, which is required")
        attrs[item.name] = decode(item.kind or "", encode(item.kind or "", value))
    strange = set(sample.attrs) - set(attrs)
    if strange:
        raise ValueError(f"{definition.name}: a sample has unknown attributes {sorted(strange)}")
    return Call(definition, tuple(args), attrs)


def sample_dtypes(definition: OpDef) -> tuple[DType, ...]:
    """Element types to draw samples for; an op without tensor operands has its one set."""
    return definition.dtypes or (() if tensor_slots(definition) else (dt.float32,))


def maker(definition: OpDef, dtype: DType, turn: int = 0) -> SampleMaker:
    return SampleMaker(definition, dtype, seed=zlib.crc32(definition.name.encode()) + turn)


def calls(definition: OpDef, dtype: DType, turn: int = 0) -> Iterator[Call]:
    """The samples of an op for one element type, completed; each ``turn`` draws other numbers.

    A boolean attribute with one value in all of them is negated in each that allows it.
    """
    made = [complete(definition, s) for s in samples.of(definition)(maker(definition, dtype, turn))]
    yield from made
    for name in (n for n, kind in definition.attr_kinds.items() if kind == "bool"):
        if len({c.attrs[name] for c in made}) == 1:
            yield from filter(_is_valid, (_negated(c, name) for c in made))


def _negated(call: Call, flag: str) -> Call:
    return replace(call, attrs={**call.attrs, flag: not call.attrs[flag]})


def _is_valid(call: Call) -> bool:
    """True if the reference computes the call."""
    try:
        call.infer()
        call.compute()
    except (PirkitError, ValueError):
        return False
    return True


def plenty(definition: OpDef, dtype: DType) -> Iterator[Call]:
    """The samples, drawn again until the op has twenty over all element types."""
    once = sum(len(list(calls(definition, d))) for d in sample_dtypes(definition))
    for turn in range(-(-PLENTY // max(once, 1))):
        yield from calls(definition, dtype, turn)


def each_array(value: Value, change: Callable[[Array], Array]) -> Value:
    """``value`` with every array in it replaced."""
    if value is None:
        return None
    return [change(a) for a in value] if isinstance(value, list) else change(value)


def arrays(values: tuple[Value, ...]) -> Iterator[Array]:
    """The arrays of an argument or result list, those inside of lists included."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        elif value is not None:
            yield value

"""Binding of a kernel to one instruction.

A kernel is bound once for given shapes, element types and attributes, and returns a *step*, the
callable that runs. Everything that does not depend on the elements is computed while binding (axes,
constants, scratch memory, the choice of a BLAS routine), so a step is only the computation::

    @kernel("pd_op.scale", dtypes=dt.NUMBERS, inplace={"out": "x"})
    def scale(b: Binding) -> Step:
        factor, offset = b.constant("scale"), b.constant("bias")
        def step(x, out):
            np.multiply(x, factor, out)
            np.add(out, offset, out)
        return step

A step of form ``out`` takes the operands and then the results, in order: arrays, lists of arrays,
or None for an absent operand or result. It writes every element of every result, never writes an
operand, and is correct for operands of any strides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta

Array = np.ndarray[Any, Any]
Step = Callable[..., Any]
Bind = Callable[["Binding"], Step | None]
"""Returns the step of an instruction; None if the kernel does not support it."""
Scratch = Callable[[Sequence[int], "np.dtype[Any]"], Array]


KERNEL_FAULTS: Final = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
"""The exceptions that numpy raises for inconsistent arguments of a kernel."""


def _fresh(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    return np.empty(shape, dtype)


class Binding(Struct, frozen=True):
    """The instruction that a kernel is bound to.

    ``inputs`` and ``outputs`` are metas, None for an absent operand or result, a VecMeta for a
    list. Shapes of inputs are static; those of outputs too, unless they depend on data. ``attrs``
    has every attribute by name, including those passed as operands. ``xp`` is the array module.
    ``scratch(shape, dtype)`` allocates memory private to this instruction, which keeps its content
    between calls and is uninitialized at first. ``generator()`` returns the random generator of the
    current call; it is None for an op that draws no random numbers.
    """

    inputs: tuple[Meta | None, ...]
    outputs: tuple[Meta | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    op: str = ""
    """Full name of the op, without the ``_`` of an in-place form."""
    xp: Any = np
    scratch: Scratch = _fresh
    generator: Callable[[], np.random.Generator] | None = None

    def input(self, index: int = 0) -> TensorMeta:
        """The meta of a tensor operand that is present."""
        return cast(TensorMeta, self.inputs[index])

    def output(self, index: int = 0) -> TensorMeta:
        """The meta of a tensor result that is present."""
        return cast(TensorMeta, self.outputs[index])

    def items(self, index: int = 0) -> tuple[TensorMeta, ...]:
        """The metas of a list operand."""
        return cast(VecMeta, self.inputs[index]).items

    @property
    def dtype(self) -> DType:
        """The element type of the first tensor operand, or of the first result if there is none."""
        found = first_dtype(self.inputs) or first_dtype(self.outputs)
        return found if found is not None else dt.float32

    def constant(self, name: str, dtype: DType | None = None) -> Array:
        """A scalar attribute as a 0-D array of ``dtype``, by default that of the call.

        For array modules other than numpy it is a scalar of that type.
        """
        found = constant(self.attrs[name], dtype or self.dtype)
        return found if self.xp is np else found[()]

    def workspace(self, shape: Sequence[int], dtype: DType | None = None) -> Array:
        """Scratch memory private to this instruction."""
        return self.scratch(tuple(shape), (dtype or self.dtype).np)

    def axes(self, name: str = "axis", index: int = 0) -> tuple[int, ...]:
        """The axes of a reduction, non-negative and sorted; all axes for an empty list."""
        rank = self.input(index).rank
        given = self.attrs[name]
        listed = (given,) if isinstance(given, int) else tuple(given or range(rank))
        return tuple(sorted({a + rank if a < 0 else a for a in listed} & set(range(rank))))


class PlacedStep(ABC):
    """A step that can be bound to cells of a list, to run without arguments."""

    @abstractmethod
    def __call__(self, *given: Any) -> None:
        """Run it on arrays, as any step."""

    @abstractmethod
    def at(
        self, values: list[Any], cells: Sequence[int], moving: AbstractSet[int]
    ) -> Callable[[], object]:
        """The step bound to cells of a list, those of operands and then of results.

        Cells outside ``moving`` already hold the array of every run, or None for an absent operand
        or result.
        """


def first_dtype(metas: Sequence[Meta | None]) -> DType | None:
    """The element type of the first tensor, or of the first element of a list."""
    for meta in metas:
        if isinstance(meta, TensorMeta):
            return meta.dtype
        if isinstance(meta, VecMeta) and meta.items:
            return meta.items[0].dtype
    return None


HALF_TYPES = (dt.float16, dt.bfloat16)


def widened(bind: Bind) -> Bind:
    """A kernel for float16 and bfloat16 from one for float32: cast, compute, round once."""

    def widened_bind(b: Binding) -> Step | None:
        inner = replace(
            b,
            inputs=tuple([_wide_meta(m) for m in b.inputs]),
            outputs=tuple([_wide_meta(m) for m in b.outputs]),
        )
        step = bind(inner)
        if step is None:
            return None
        readers = [_reader(b, m) for m in b.inputs]
        targets = [_target(b, m) for m in b.outputs]

        def run(*arrays: Any) -> None:
            given = [read(x) for read, x in zip(readers, arrays, strict=False)]
            outs = arrays[len(readers) :]
            outputs = [o if t is None else t for t, o in zip(targets, outs, strict=True)]
            step(*given, *outputs)
            for target, out in zip(targets, outs, strict=True):
                _round(target, out)

        return run

    return widened_bind


def _wide(meta: TensorMeta) -> TensorMeta:
    return meta.with_dtype(dt.float32) if meta.dtype in HALF_TYPES else meta


def _wide_meta(meta: Meta | None) -> Meta | None:
    if isinstance(meta, VecMeta):
        return VecMeta(tuple(map(_wide, meta.items)))
    return _wide(meta) if isinstance(meta, TensorMeta) else meta


def _reader(b: Binding, meta: Meta | None) -> Callable[[Any], Any]:
    """A function that converts an operand to float32 if it is narrower."""
    if isinstance(meta, VecMeta):
        readers = [_reader(b, m) for m in meta.items]
        return lambda arrays: [read(x) for read, x in zip(readers, arrays, strict=True)]
    if not isinstance(meta, TensorMeta) or meta.dtype not in HALF_TYPES:
        return lambda array: array
    space = b.workspace(meta.shape, dt.float32)

    def read(array: Array) -> Array:
        space[...] = array
        return space

    return read


def _target(b: Binding, meta: Meta | None) -> Any:
    """The float32 buffer for a result; None if the step can write the result itself."""
    if isinstance(meta, VecMeta):
        spaces = [_target(b, m) for m in meta.items]
        return spaces if any(s is not None for s in spaces) else None
    if isinstance(meta, TensorMeta) and meta.dtype in HALF_TYPES:
        return b.workspace(meta.shape, dt.float32)
    return None


def _round(target: Any, out: Any) -> None:
    if target is None or out is None:
        return
    if isinstance(target, list):
        for space, result in zip(cast("list[Any]", target), out, strict=True):
            _round(space, result)
        return
    out[...] = target

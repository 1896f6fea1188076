"""Queries about values for the rules of blocked channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard

from msgspec import Struct, field
from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.dialect.windows import slides
from pirkit.passes.base import PassContext
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta


class Epilogue(Struct):
    """A convolution and its epilogue: biases, residual, activation."""

    chain: list[PirOp]
    """The convolution and the ops that become part of it, in order."""
    biases: list[SSAValue] = field(default_factory=list[SSAValue])
    residual: SSAValue | None = None
    activation: str = "identity"
    rate: SSAValue | None = None
    zero: int = 0
    """The factor before the rounding to bytes, None for 1, and the byte that stands for 0."""
    narrow: bool = False
    """Whether it ends with the rounding to bytes."""


class Layouts(Protocol):
    """The interface of `block-channels` that rules in other files use."""

    block: int
    blocked: dict[SSAValue, Value]
    frozen: dict[SSAValue, bool]
    rules: dict[str, Callable[[PirOp], None]]
    ctx: PassContext

    def takes(self, op: PirOp) -> bool: ...
    def follows(self, value: SSAValue, channels: int) -> bool: ...
    def convolution(self, op: PirOp) -> None: ...
    def builder(self, op: PirOp) -> Builder: ...
    def in_blocks(self, b: Builder, value: SSAValue, block: int = 0) -> Value: ...
    def filled(self, b: Builder, value: Value, *axes: int, block: int = 0) -> Value: ...
    def channel_vector(self, b: Builder, vector: Value) -> Value: ...
    def epilogue(self, op: PirOp, channels: int) -> Epilogue: ...
    def bias(self, b: Builder, end: Epilogue, filters: int) -> Value | None: ...
    def replace_convolution(self, end: Epilogue, b: Builder, made: Value) -> None: ...
    def keep_layout(self, op: PirOp, b: Builder, made: Value) -> None: ...
    def elementwise(self, op: PirOp) -> None: ...


def image_meta(value: SSAValue) -> TensorMeta:
    """The shape and the element type of a value that is known to be a tensor."""
    meta = meta_of(value.type)
    assert isinstance(meta, TensorMeta)
    return meta


def only_user(value: SSAValue) -> PirOp | None:
    """The op that reads a value, if one does and once."""
    uses = list(value.uses)
    user = uses[0].operation if len(uses) == 1 else None
    return user if isinstance(user, PirOp) else None


def maximum_windows(
    op: PirOp, lengths: Sequence[int]
) -> tuple[list[int], list[int], list[int]] | None:
    """Sizes, strides and paddings of the windows of a maximum, if each meets the image."""
    size, strides, paddings = (op.attribute(n) for n in ("kernel_size", "strides", "paddings"))
    known = {"pooling_type": "max", "padding_algorithm": "EXPLICIT", "global_pooling": False,
             "adaptive": False}  # fmt: skip
    if any(op.attribute(name) != value for name, value in known.items()):
        return None
    fitted: list[int] = []
    moves = slides(lengths, size, strides, paddings, "EXPLICIT", (1, 1), "C4")
    for m, n, count in zip(moves, lengths, image_meta(op.results[0]).shape[2:4], strict=True):
        last = (count - 1) * m.stride - m.before
        if m.before >= m.size or last >= n:
            return None
        fitted += [m.before, max(last + m.size - n, 0)]
    return list(size), list(strides), fitted


def is_image(meta: object) -> TypeGuard[TensorMeta]:
    """True for an image that has a blocked form."""
    kinds = (dt.float32, dt.float64, dt.uint8)
    return isinstance(meta, TensorMeta) and meta.is_static and meta.rank == 4 and (
        meta.dtype in kinds and meta.numel > 0
    )  # fmt: skip

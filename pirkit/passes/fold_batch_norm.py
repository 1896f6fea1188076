"""Batch norm in inference, and scales of channels, folded into filters and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.effects import keeps_statistics
from pirkit.analysis.frozen_values import frozen_values
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.block_values import only_user
from pirkit.passes.functionalize import is_overwriting
from pirkit.passes.replace_ops import erase, successor
from pirkit.runtime.meta import TensorMeta

_CONVOLUTIONS: Final = ("pd_op.conv2d", "pd_op.depthwise_conv2d", "pd_op.conv3d")
_TRANSPOSED: Final = ("pd_op.conv2d_transpose", "pd_op.conv3d_transpose")
_SCALES: Final = ("pd_op.multiply", "pd_op.divide", "pd_op.batch_norm")
_SHIFTS: Final = ("pd_op.add", "pd_op.subtract")


class FoldBatchNormPass(Pass):
    """Fold batch norm in inference, and constant scales of channels, into the weights before it.

    A chain that begins with a convolution or a product with a weight, and goes on with batch norm
    by running statistics, with constant factors and summands of channels, is one affine map of the
    convolution's result: its factor becomes part of the filter, its summand one addition. Every
    value of the chain has one use. The new filter is computed from parameters;
    `hoist-constants` moves that out of the program. Results change by rounding. Programs that
    write in place, other than to inputs and parameters at the end, are left alone.

    ::

        %1 = pd_op.conv2d(%0, %w) ...
        %2, ... = pd_op.batch_norm(%1, %mean, %variance, %scale, %bias) {is_test = true, ...}
        // becomes, with %factor = %scale * rsqrt(%variance + epsilon)
        %3 = pd_op.multiply(%w, reshape(%factor))
        %4 = pd_op.conv2d(%0, %3) ...
        %5 = pd_op.add(%4, reshape(%bias - %mean * %factor))
    """

    name = "fold-batch-norm"
    stats = Stats(folded="chains folded into weights")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            if is_overwriting(ctx, program):
                continue
            frozen = frozen_values(program)
            for op in ctx.each(list(program.block.ops)):
                if isinstance(op, PirOp) and op.parent is not None and (root := _root(op, frozen)):
                    chain = root.chain()
                    if chain:
                        ctx.rewrote("batch-norm", op)
                        ctx.count("folded")
                        root.fold(chain)


def _root(op: PirOp, frozen: Mapping[SSAValue, bool]) -> _Root | None:
    """The beginning of a chain: an op whose second operand is a weight with channels."""
    if op.name not in (*_CONVOLUTIONS, *_TRANSPOSED, "pd_op.matmul"):
        return None
    weight, out = op.operands[1], meta_of(op.results[0].type)
    held = meta_of(weight.type)
    if not isinstance(out, TensorMeta) or not isinstance(held, TensorMeta):
        return None
    if weight not in frozen or not out.dtype.is_float or not held.is_static:
        return None
    rank = len(out.shape)
    if op.name == "pd_op.matmul":
        if len(held.shape) != 2 or rank < 2:
            return None
        return _Root(op, frozen, rank - 1, 0 if op.attribute("transpose_y") else 1)
    if op.name in _TRANSPOSED and op.attribute("groups") != 1:
        return None
    axis = 1 if str(op.attribute("data_format")).startswith("NC") else rank - 1
    return _Root(op, frozen, axis, 1 if op.name in _TRANSPOSED else 0)


class _Root(Struct, frozen=True):
    """An op with a weight: the axis of channels of its result, and that of its weight."""

    op: PirOp
    frozen: Mapping[SSAValue, bool]
    axis: int
    weight_axis: int

    @property
    def out(self) -> TensorMeta:
        meta = meta_of(self.op.results[0].type)
        assert isinstance(meta, TensorMeta)
        return meta

    def chain(self) -> list[PirOp]:
        """The ops after that are part of the affine map, up to the last factor."""
        found: list[PirOp] = []
        value: SSAValue = self.op.results[0]
        last = 0
        while (user := only_user(value)) is not None and self.takes(user, value):
            found.append(user)
            if user.name in _SCALES:
                last = len(found)
            value = user.results[0]
        return found[:last]

    def takes(self, user: PirOp, value: SSAValue) -> bool:
        if user.parent is not self.op.parent:
            return False
        if user.name == "pd_op.batch_norm":
            return self.takes_batch_norm(user, value)
        if user.name not in (*_SCALES, *_SHIFTS) or user.results[0].type != value.type:
            return False
        other = user.operands[1] if user.operands[0] is value else user.operands[0]
        ordered = user.name in ("pd_op.divide", "pd_op.subtract")
        if other not in self.frozen or (ordered and user.operands[0] is not value):
            return False
        meta = meta_of(other.type)
        return isinstance(meta, TensorMeta) and meta.dtype is self.out.dtype and self.spreads(meta)

    def takes_batch_norm(self, user: PirOp, value: SSAValue) -> bool:
        rank = len(self.out.shape)
        first = str(user.attribute("data_format")).startswith("NC") or rank == 2
        others = [r for r in user.results[1:] if r.uses]
        return (
            keeps_statistics(user)
            and user.operands[0] is value
            and self.axis == (1 if first else rank - 1)
            and not others
            and all(v in self.frozen and _dtype(v) is self.out.dtype for v in user.operands[1:])
        )

    def spreads(self, meta: TensorMeta) -> bool:
        """True if a tensor has one element, or one for each channel, in the channels' place."""
        lead = len(self.out.shape) - len(meta.shape)
        sizes = {d + lead: n for d, n in enumerate(meta.shape) if n != 1}
        return lead >= 0 and not sizes.keys() - {self.axis}

    def fold(self, chain: list[PirOp]) -> None:
        """Replace the chain: the new ops stand where its last one did."""
        last = chain[-1]
        block = last.parent
        assert block is not None
        b = Builder(block, before=last, location=last.location)
        channels = self.out.shape[self.axis]
        factor: Value | None = None
        summand: Value | None = None
        value: SSAValue = self.op.results[0]
        for op in chain:
            times, plus = self.part(b, op, value, channels)
            if times is not None:
                factor = times if factor is None else b.multiply(factor, times)
                summand = None if summand is None else b.multiply(summand, times)
            if plus is not None:
                summand = plus if summand is None else b.add(summand, plus)
            value = op.results[0]
        assert factor is not None
        weight = b.wrap(self.op.operands[1])
        shape = [1] * weight.rank
        shape[self.weight_axis] = channels
        scaled = b.multiply(weight, b.reshape(factor, shape))
        operands = list(self.op.operand_slots)
        operands[1] = scaled.ssa
        out: Value = b.results(b.insert(successor(self.op, operands)))
        if summand is not None:
            broadcast = (channels, *[1] * (len(self.out.shape) - 1 - self.axis))
            out = b.add(out, b.reshape(summand, broadcast))
        out.ssa.name_hint = last.results[0].name_hint
        last.results[0].replace_all_uses_with(out.ssa)
        for op in (*chain[::-1], self.op):
            erase(op)

    def part(
        self, b: Builder, op: PirOp, value: SSAValue, channels: int
    ) -> tuple[Value | None, Value | None]:
        """Factor and summand of one op, each a vector of the channels; None for none."""
        if op.name == "pd_op.batch_norm":
            _, mean, variance, scale, bias = op.operand_slots
            assert mean is not None
            assert variance is not None
            factor = b.rsqrt(b.wrap(variance) + op.attribute("epsilon"))
            factor = factor if scale is None else b.multiply(factor, b.wrap(scale))
            moved = b.multiply(b.wrap(mean), factor) * -1.0
            return factor, moved if bias is None else b.add(b.wrap(bias), moved)
        other = b.wrap(op.operands[1] if op.operands[0] is value else op.operands[0])
        flat = b.reshape(other, (channels if other.meta.numel != 1 else 1,))
        broadcast = flat if flat.shape == (channels,) else b.expand(flat, shape=(channels,))
        if op.name == "pd_op.divide":
            return b.reciprocal(broadcast), None
        if op.name == "pd_op.multiply":
            return broadcast, None
        return None, broadcast * -1.0 if op.name == "pd_op.subtract" else broadcast


def _dtype(value: SSAValue) -> object:
    meta = meta_of(value.type)
    return meta.dtype if isinstance(meta, TensorMeta) else None

"""Blocked layouts for convolutions of programs whose weights are known, and all between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, SSAValue

from pirkit.analysis.effects import keeps_statistics
from pirkit.analysis.frozen_values import frozen_values
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.operation import PirOp, ProgramOp, create
from pirkit.dialect.types import meta_of
from pirkit.dialect.windows import is_channels_last
from pirkit.passes import block_norms, block_plain, block_quantized, block_winograd
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.block_values import Epilogue, image_meta, is_image, maximum_windows, only_user
from pirkit.passes.functionalize import is_overwriting
from pirkit.passes.replace_ops import erase, semantic_properties
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host

_ACTIVATIONS: Final = {f"pd_op.{name}": name for name in "relu relu6 hardswish".split()}


@dataclass(frozen=True)
class BlockChannelsPass(Pass):
    """Use blocked channel layouts for convolutions with known filters, and between them.

    An image ``[N, C, H, W]`` becomes ``[N, C/b, H, W, b]`` (Liu et al., USENIX ATC 2019), so that
    native code has the channels of a block in the lanes of a register. The last block is
    padded if that adds at most half of the channels. A convolution includes its bias, and a summand
    and an activation after it. Elementwise operations, pooling and
    concatenation of channels keep the layout; others get the plain one back. `hoist-constants`
    takes the packing of filters out of the program.

    Between plain images the changes of layout cost more than blocks save where there are few
    multiplications of an element: such convolutions stay plain, and those of one tap become
    matmuls. A `pad` of height and width in front of a convolution becomes padding of its own.
    Programs that write in place, other than to inputs and parameters at the end, are left alone.

    ::

        %1 = pd_op.conv2d(%0, %w) ... : (tensor<1x16x8x8xf32>, ...) -> tensor<1x32x8x8xf32>
        %2 = pd_op.add(%1, %b)
        %3 = pd_op.relu(%2)
        // becomes, with packed %0, %w and %b
        %3 = pir.nchwc_conv2d(%0, %w, %b) {activation = "relu"} ... -> tensor<1x4x8x8x8xf32>
    """

    name = "block-channels"
    stats = Stats(
        convolutions="convolutions in blocks",
        winograd="those of them in Winograd's domain",
        kept="operations that keep the layout",
        matmuls="plain convolutions of one tap",
    )

    block: int = option(0, "channels of a block; 0 for those that suit this CPU")
    winograd: bool = option(True, "use Winograd's minimal filtering where it pays")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        # At least a cache line, of float32 at most a vector register.
        block = self.block or max(8, host().vector_bits // 32)
        for program in ctx.programs(module):
            if not is_overwriting(ctx, program):
                _Layouts(ctx, program, block, self.winograd).run()


class _Layouts(Struct):
    """One traversal of a program; ``blocked`` holds the blocked form of plain values."""

    ctx: PassContext
    program: ProgramOp
    block: int
    winograd: bool
    blocked: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    frozen: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])
    rules: dict[str, Callable[[PirOp], None]] = field(default_factory=dict[str, Any])

    def run(self) -> None:
        self.frozen = frozen_values(self.program)
        self.rules = {
            "pd_op.conv2d": self.convolution,
            "pd_op.depthwise_conv2d": self.convolution,
            "pd_op.conv3d": partial(block_plain.as_matmul, self),
            "pir.quantized_conv2d": partial(block_quantized.convolution, self),
            "pd_op.cast": partial(block_quantized.cast, self),
            "pd_op.group_norm": partial(block_norms.group_norm, self),
            "pd_op.instance_norm": partial(block_norms.instance_norm, self),
            "pd_op.bilinear_interp": self.interpolation,
            "pd_op.nearest_interp": self.interpolation,
            "pd_op.pad": self.pad,
            "pd_op.pool2d": self.pool,
            "pd_op.concat": self.concat,
            "pd_op.batch_norm": self.batch_norm,
        }
        ops = [o for o in self.program.block.ops if isinstance(o, PirOp)]
        for op in ops:
            if self.rules.get(op.name) == self.convolution:
                block_plain.absorb_padding(self, op)
        for op in self.ctx.each(ops):
            if op.parent is None:
                continue  # it has become part of a convolution
            rule = self.rules.get(op.name)
            if rule is not None:
                rule(op)
            elif op.definition.kind == ELEMENTWISE:
                self.elementwise(op)

    def builder(self, op: PirOp) -> Builder:
        block = op.parent
        assert isinstance(block, Block)
        return Builder(block, before=op, location=op.location)

    def in_blocks(self, b: Builder, value: SSAValue, block: int = 0) -> Value:
        """The blocked form of an image, or one with blocks of another size."""
        found = self.blocked.get(value)
        if found is None:
            size = block or self.block
            given = self.filled(b, b.wrap(value), 1, block=size)
            n, channels, *sides = given.shape
            split = b.reshape(given, (n, channels // size, size, *sides))
            found = b.transpose(split, perm=(0, 1, 3, 4, 2))
            if size == self.block:
                self.blocked[value] = found
        return found

    def fills(self, channels: int) -> bool:
        """Whether padding so many channels to whole blocks adds few."""
        return 2 * (-channels % self.block) <= channels

    def filled(self, b: Builder, value: Value, *axes: int, block: int = 0) -> Value:
        """A tensor with zeros after its elements along axes, up to whole blocks."""
        size = block or self.block
        more = [-n % size if k in axes else 0 for k, n in enumerate(value.shape)]
        if not any(more):
            return value
        paddings = tuple([side for end in more for side in (0, end)])
        return b("pd_op.pad", value, pad_value=0.0, paddings=paddings)

    def replace(self, b: Builder, op: PirOp, made: Value) -> None:
        """Replace an op by its blocked form, and the plain form of that for other readers."""
        n, blocks, *sides, block = made.shape
        plain = made
        if any(side != 1 for side in sides):
            plain = b.transpose(made, perm=(0, 1, 4, 2, 3))
        plain = b.reshape(plain, (n, blocks * block, *sides))
        channels = image_meta(op.results[0]).shape[1]
        if channels < blocks * block:
            plain = b("pd_op.slice", plain, starts=(0,), ends=(channels,), axes=(1,))
        plain.ssa.name_hint = op.results[0].name_hint
        self.blocked[plain.ssa] = made
        op.results[0].replace_all_uses_with(plain.ssa)
        erase(op)

    # --- convolutions ---

    def convolution(self, op: PirOp) -> None:
        x, filter = op.operands
        if not self.takes(op):
            block_plain.as_matmul(self, op)
            return
        channels, filters = image_meta(x).shape[1], image_meta(filter).shape[0]
        end = self.epilogue(op, channels=filters)
        if block_plain.is_better(self, op, end):
            block_plain.as_matmul(self, op)
            return
        b = self.builder(end.chain[-1])
        planar = channels < self.block and op.attribute("groups") == 1 and x not in self.blocked
        made = None if planar or not self.winograd else block_winograd.convolution(self, b, op, end)
        self.replace_convolution(end, b, made or self.direct(b, op, end, planar))

    def direct(self, b: Builder, op: PirOp, end: Epilogue, planar: bool) -> Value:
        """The blocked form of a convolution; the image stays as it is if it is ``planar``."""
        x, filter = op.operands
        channels, filters = image_meta(x).shape[1], image_meta(filter).shape[0]
        groups, size = op.attribute("groups"), self.block
        depthwise = groups > 1 and groups == channels == filters
        operands = [
            b.wrap(x) if planar else self.in_blocks(b, x),
            self.packed_filter(b, filter, planar, depthwise)
            if depthwise or groups == 1 or image_meta(filter).shape[1] % size == 0
            else self.diagonal_filter(b, filter),
            self.bias(b, end, filters),
            None if end.residual is None else self.blocked[end.residual],
        ]
        counted = channels if channels % size and not planar and groups == 1 else 0
        same = {name: op.attribute(name) for name in ("strides", "paddings", "dilations")}
        return b("pir.nchwc_conv2d", *operands, **same, activation=end.activation,
                 channels=counted)  # fmt: skip

    def takes(self, op: PirOp) -> bool:
        """Whether a convolution has a blocked form."""
        x, filter = op.operands
        image, weights = (meta_of(v.type) for v in (x, filter))
        if not is_image(image) or not isinstance(weights, TensorMeta):
            return False
        channels, filters, groups = image.shape[1], weights.shape[0], op.attribute("groups")
        depthwise = groups > 1 and groups == channels == filters
        return (
            filter in self.frozen
            and weights.is_static
            and str(op.attribute("data_format")).startswith("NC")
            and op.attribute("padding_algorithm") == "EXPLICIT"
            and (depthwise or groups == 1 or self.takes_groups(groups, channels, filters))
            and self.fills(filters)
            and (self.fills(channels) or (channels <= self.block and groups == 1))
        )

    def replace_convolution(self, end: Epilogue, b: Builder, made: Value) -> None:
        """Replace a convolution and the operations of its epilogue."""
        self.ctx.rewrote("convolution", end.chain[0])
        self.ctx.count("convolutions")
        self.replace(b, end.chain[-1], made)
        for part in end.chain[-2::-1]:
            erase(part)

    def bias(self, b: Builder, end: Epilogue, filters: int) -> Value | None:
        """The sum of what is added to each channel, as a vector of whole blocks."""
        vectors = [b.reshape(b.wrap(v), (filters,)) for v in end.biases]
        return self.filled(b, reduce(b.add, vectors), 0) if vectors else None

    def packed_filter(self, b: Builder, filter: SSAValue, planar: bool, depthwise: bool) -> Value:
        """The filter with blocks of filters last, and of channels before them."""
        given = self.filled(b, b.wrap(filter), *(0,) if planar or depthwise else (0, 1))
        size, (filters, depth, *sizes) = self.block, given.shape
        if depthwise:
            return b.transpose(b.reshape(given, (filters // size, size, *sizes)), perm=(0, 2, 3, 1))
        inner = depth if planar else size
        split = b.reshape(given, (filters // size, size, depth // inner, inner, *sizes))
        return b.transpose(split, perm=(0, 2, 4, 5, 3, 1))

    def takes_groups(self, groups: int, channels: int, filters: int) -> bool:
        """Whether groups are whole blocks, or blocks whole groups, at most four of them: then a
        filter has zeros for the other groups of its block.
        """
        width = channels // groups
        if width % self.block == 0:
            return filters // groups % self.block == 0
        return channels == filters and self.block % width == 0 and 4 * width >= self.block

    def diagonal_filter(self, b: Builder, filter: SSAValue) -> Value:
        """The filter of groups that are parts of a block, with zeros beside them."""
        given, size = self.filled(b, b.wrap(filter), 0), self.block
        filters, width, *sizes = given.shape
        count = size // width
        split = b.reshape(given, (filters // size, count, width, 1, width, *sizes))
        spread = b.transpose(split, perm=(0, 5, 6, 3, 4, 1, 2))
        same = b.reshape(
            b.integers(np.eye(count, dtype=int).reshape(-1).tolist()), (count, 1, count, 1)
        )
        dense = b.multiply(spread, b.cast(same, given.dtype))
        return b.reshape(dense, (filters // size, 1, *sizes, size, size))

    def epilogue(self, op: PirOp, channels: int) -> Epilogue:
        """The operations after a convolution that become part of it."""
        end = Epilogue([op])
        while (user := only_user(end.chain[-1].results[0])) is not None:
            value = end.chain[-1].results[0]
            if user.parent is not op.parent or [r.type for r in user.results] != [value.type]:
                break
            if user.name in _ACTIVATIONS:
                end.activation = _ACTIVATIONS[user.name]
                end.chain.append(user)
                break
            if user.name != "pd_op.add":
                break
            other = user.operands[1] if user.operands[0] is value else user.operands[0]
            if end.residual is None and self.is_bias(other, channels):
                end.biases.append(other)
            elif end.residual is None and other.type == value.type and other in self.blocked:
                end.residual = other
            else:
                break
            end.chain.append(user)
        return end

    def is_bias(self, value: SSAValue, channels: int) -> bool:
        """True for a vector with one element for each channel, in the channels' place."""
        meta = meta_of(value.type)
        return (
            isinstance(meta, TensorMeta)
            and meta.numel == channels
            and meta.shape[-3:] == (channels, 1, 1)
        )

    # --- what keeps the layout ---

    def elementwise(self, op: PirOp) -> None:
        meta = meta_of(op.results[0].type) if len(op.results) == 1 else None
        if not is_image(meta):
            return
        whole = [v for v in op.operands if v in self.blocked and image_meta(v).shape == meta.shape]
        if not whole or not all(self.follows(v, meta.shape[1]) for v in op.operands):
            return
        b = self.builder(op)
        operands = [None if v is None else self.broadcast_operand(b, v) for v in op.operand_slots]
        self.keep_layout(op, b, _clone_with(b, op, operands))

    def follows(self, value: SSAValue, channels: int) -> bool:
        """True for an operand with a blocked form, and for one number for each channel (of an image
        or of all) or for everything.
        """
        meta = meta_of(value.type)
        if value in self.blocked:
            return True
        if not isinstance(meta, TensorMeta) or not meta.is_static:
            return False
        each = meta.rank in (3, 4) and meta.shape[-3:] == (channels, 1, 1)
        return meta.numel == 1 or each

    def broadcast_operand(self, b: Builder, value: SSAValue) -> Value:
        """An operand of an elementwise op on blocked images."""
        found, given = self.blocked.get(value), b.wrap(value)
        if found is not None or given.meta.numel == 1:
            return found or (b.reshape(given, (1,)) if given.rank > 1 else given)
        channels = given.shape[-3]
        if given.meta.numel == channels:
            return self.channel_vector(b, b.reshape(given, (channels,)))
        filled = self.filled(b, b.reshape(given, (-1, channels)), 1)
        return b.reshape(filled, (given.shape[0], -1, 1, 1, self.block))

    def channel_vector(self, b: Builder, vector: Value) -> Value:
        """One number for each channel, as an operand of ops on blocked images."""
        return b.reshape(self.filled(b, vector, 0), (-1, 1, 1, self.block))

    def pool(self, op: PirOp) -> None:
        """A pool of NHWC images: a block of channels is an image of its own."""
        x = self.blocked.get(op.operands[0])
        if x is None or len(op.operands) > 1 or len(op.results) > 1:
            return
        if is_channels_last(op.attribute("data_format"), "C3"):
            return  # its windows move along channels
        b = self.builder(op)
        windows = maximum_windows(op, x.shape[2:4])
        if windows is not None:
            size, strides, paddings = windows
            owner = x.ssa.owner
            if isinstance(owner, PirOp) and owner.name == "pd_op.cast":
                source = b.wrap(owner.operands[0])
                if source.meta.dtype is dt.uint8:  # the same maxima, in fewer bytes
                    made = b("pir.nchwc_max_pool2d", source, kernel_size=size, strides=strides,
                             paddings=paddings)  # fmt: skip
                    self.keep_layout(op, b, b.cast(made, x.meta.dtype))
                    return
            made = b("pir.nchwc_max_pool2d", x, kernel_size=size, strides=strides,
                     paddings=paddings)  # fmt: skip
            self.keep_layout(op, b, made)
            return
        self.as_images(op, x)

    def interpolation(self, op: PirOp) -> None:
        """One of NHWC images, as pools are."""
        x = self.blocked.get(op.operands[0])
        if x is None or len(op.operands) > 1 or op.attribute("data_format") != "NCHW":
            return
        self.as_images(op, x)

    def as_images(self, op: PirOp, x: Value) -> None:
        """The op on NHWC images: a block of channels is one of its own."""
        b = self.builder(op)
        n, blocks, *rest = x.shape
        last = {"data_format": encode("str", "NHWC")}
        operands = [b.reshape(x, (n * blocks, *rest)), *[None] * (len(op.operand_slots) - 1)]
        made = _clone_with(b, op, operands, last)
        self.keep_layout(op, b, b.reshape(made, (n, blocks, *made.shape[1:])))

    def pad(self, op: PirOp) -> None:
        """A padding of height and width."""
        x, paddings = self.blocked.get(op.operands[0]), op.attribute("paddings")
        if x is None or len(op.operands) > 1 or any(paddings[:4]):
            return
        b = self.builder(op)
        sides = (0, 0, 0, 0, *paddings[4:], 0, 0)
        self.keep_layout(
            op, b, b("pd_op.pad", x, pad_value=op.attribute("pad_value"), paddings=sides)
        )

    def concat(self, op: PirOp) -> None:
        owner = op.operands[0].owner
        if not isinstance(owner, PirOp) or owner.name != "pir.combine" or len(op.operands) > 1:
            return
        axis, rank = op.attribute("axis"), len(image_meta(op.results[0]).shape)
        parts: Sequence[SSAValue] = owner.operands
        if rank != 4 or axis not in (1, -3) or not all(v in self.blocked for v in parts):
            return
        if any(image_meta(v).shape[1] % self.block for v in parts[:-1]):
            return
        b = self.builder(op)
        self.keep_layout(op, b, b.concat([self.blocked[v] for v in parts], axis=1))

    def batch_norm(self, op: PirOp) -> None:
        """A factor and a summand for each channel, where no filter has taken them."""
        x, mean, variance, scale, bias = op.operand_slots
        if x is None or x not in self.blocked or not keeps_statistics(op):
            return
        known = all(v in self.frozen for v in op.operands[1:])
        if not known or any(r.uses for r in op.results[1:]):
            return
        assert mean is not None
        assert variance is not None
        b, image = self.builder(op), self.blocked[x]
        factor = b.rsqrt(b.wrap(variance) + op.attribute("epsilon"))
        factor = factor if scale is None else factor * b.wrap(scale)
        summand = b.wrap(mean) * factor * -1.0
        summand = summand if bias is None else summand + b.wrap(bias)
        scaled = b.multiply(image, self.channel_vector(b, factor))
        self.keep_layout(op, b, b.add(scaled, self.channel_vector(b, summand)))

    def keep_layout(self, op: PirOp, b: Builder, made: Value) -> None:
        self.ctx.rewrote("layout", op)
        self.ctx.count("kept")
        self.replace(b, op, made)


def _clone_with(
    b: Builder, op: PirOp, operands: Sequence[Value | None],
    changed: Mapping[str, Attribute] | None = None,
) -> Value:  # fmt: skip
    """The op on other operands, with its attributes as far as they are not ``changed``."""
    slots = [None if v is None else v.ssa for v in operands]
    properties = semantic_properties(op) | dict(changed or {})
    types = infer_result_types(op.definition, slots, properties)
    return b.results(b.insert(create(op.definition, slots, types, properties)))

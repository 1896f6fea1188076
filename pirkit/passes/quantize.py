"""Weights in 8 or 16 bits, and activations in 8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final, cast

from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.frozen_values import PARAMETER, frozen_values
from pirkit.diag.errors import UsageError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import KEEPS_SIGN, NONNEGATIVE
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.ops.nn.quantized_conv import MAX_TERMS
from pirkit.dialect.ops.nn.quantized_matmul import MAX_DEPTH, STORED, WEIGHT_OPERANDS
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats, option, require_names
from pirkit.passes.functionalize import is_overwriting
from pirkit.passes.replace_ops import erase
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

_LARGEST: Final = 127.0
"""Numbers are quantized to -127 to 127: a type that is symmetric needs no zero points."""
_MIDDLE: Final = 128
"""The zero point of unsigned bytes for values that may be negative."""
CONVOLUTION: Final = "pd_op.conv2d"
_SMALLEST: Final = 1e-30
"""A maximum of 0 counts as this: its scale divides 0 by a number."""


@dataclass(frozen=True)
class QuantizePass(Pass):
    """Store weights in 8 or 16 bits; with `activations`, multiply integers of 8 bits.

    Weights are float32 matrices that no input changes: right operands of `matmul`, and tables of
    `embedding`. In int8 each output channel has a scale, the largest magnitude by 127 (each row, in
    a table); bfloat16 and float16 have none. Products are float32. With `activations=int8` the
    left operand is quantized too, and products are sums of integers: each row by its largest
    magnitude in each run, or by the magnitude that `ranges` states. So are those of `conv2d`. Its
    image becomes uint8, with 128 for 0, or with 0 where no element is negative, such as after
    `relu`. If `ranges` states its magnitude, all readers of the image read the same bytes, also
    after a maximum of windows. Other ops keep their weights, and a remark names each; with
    `activations`, so do those of a program that writes in place, other than at the end.
    The result is for inference: `pir.quantized_matmul` and `pir.quantized_conv2d` have no
    derivative.

    Scales are computed from the weights by ops, which `hoist-constants` takes out of the program;
    `pirkit.quantize` returns a program that holds the small weights.

    ::

        %1 = pd_op.matmul(%0, %w) ... : (tensor<1x64xf32>, tensor<64x96xf32>) -> tensor<1x96xf32>
        // becomes, with %s = max(abs(%w), axis 0) / 127 and %q = cast(round(%w / %s))
        %1 = pir.quantized_matmul(%0, %q, %s) {columns = 96} ... -> tensor<1x96xf32>
    """

    name = "quantize"
    stats = Stats(
        quantized="products and tables with weights of fewer bits",
        kept="operations that keep their weights",
    )

    weights: str = option("int8", "element type of weights: int8, bfloat16 or float16")
    activations: str = option("", "int8 to quantize activations of products as well")
    keep: tuple[str, ...] = option((), "parameters that stay in float32, by name")
    ranges: tuple[str, ...] = option((), "largest magnitudes of activations, as PARAMETER:NUMBER")
    min_elements: int = option(1024, "elements from which on weights are worth it")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        kinds = {d.name: d for d in STORED}
        if self.weights not in kinds:
            raise _refused(f"weights are stored in {', '.join(kinds)}, not in `{self.weights}`")
        if self.activations not in ("", "int8") or (self.activations and self.weights != "int8"):
            raise _refused("activations are int8, beside weights in int8, or nothing")
        ranges = dict(map(_range, self.ranges))
        programs = list(ctx.programs(module))
        known = [name for program in programs for name in inputs_of(program)]
        require_names(known, (*self.keep, *ranges), "parameter")
        for program in programs:
            if self.activations and is_overwriting(ctx, program):
                continue
            made = _Quantization(ctx, program, kinds[self.weights], bool(self.activations), ranges)
            made.run(self.keep, self.min_elements)


def readers(
    program: ProgramOp, keep: tuple[str, ...], least: int, exact: bool
) -> Iterator[tuple[PirOp, str]]:
    """The ops that read known matrices of ``least`` elements or more, and why they keep them:
    ``""`` for ops that the pass quantizes, with integers to multiply if it is ``exact``.
    """
    frozen = frozen_values(program)
    for op in program.block.ops:
        if isinstance(op, PirOp) and not (op.results and all(v in frozen for v in op.results)):
            held = [v for v in op.operands if _is_large(v, least) and v in frozen]
            if held:
                yield op, _reason(op, held, keep, exact)


def _reason(op: PirOp, held: list[SSAValue], keep: tuple[str, ...], exact: bool) -> str:
    types = {cast(TensorMeta, meta_of(v.type)).dtype for v in held} - {dt.float32}
    if types:
        return f"only weights of float32 are quantized, and these are {min(map(str, types))}"
    place = WEIGHT_OPERANDS.get(op.name)
    if place is None:
        return "only matmuls, convolutions and embeddings are quantized"
    if held != [op.operands[place]]:
        return "the weights are its left operand"
    if weights_name(op) in keep:
        return "option `keep` says so"
    if op.name == CONVOLUTION:
        return _reason_of_convolution(op, exact)
    x, weights = (meta_of(v.type) for v in op.operands)
    if not isinstance(x, TensorMeta) or not isinstance(weights, TensorMeta) or weights.rank != 2:
        return "the weights are no matrix"
    if op.name == "pd_op.matmul":
        if x.dtype is not dt.float32 or x.rank < 2 or op.attribute("transpose_x"):
            return f"its left operand is {x}, or transposed"
        depth = weights.shape[1 if op.attribute("transpose_y") else 0]
        if exact and depth > MAX_DEPTH:
            return f"sums of {depth:,} products may leave int32"
    return ""


def _reason_of_convolution(op: PirOp, exact: bool) -> str:
    if not exact:
        return "a convolution is quantized together with its activations"
    plain = op.attribute("groups") == 1 and str(op.attribute("data_format")).startswith("NC")
    if not plain or op.attribute("padding_algorithm") != "EXPLICIT":
        return "it has groups, channels last, or a padding by rule"
    x, weights = (meta_of(v.type) for v in op.operands)
    if not isinstance(x, TensorMeta) or not isinstance(weights, TensorMeta):
        return "its operands are no tensors"
    if x.dtype is not dt.float32 or not x.is_static or not weights.is_static:
        return f"its image is {x}"
    terms = prod(weights.shape[1:])
    return f"sums of {terms:,} products may leave int32" if terms > MAX_TERMS else ""


def weights_name(op: PirOp) -> str:
    """The name of the parameter that the weights of an op are computed from first, or ``""``."""
    value: SSAValue | None = op.operands[WEIGHT_OPERANDS.get(op.name, 1)]
    while value is not None and isinstance(owner := value.owner, PirOp):
        if owner.name == PARAMETER:
            return str(owner.attribute("parameter_name"))
        value = next(iter(owner.operands), None)
    return ""


class _Quantization(Struct):
    """One program; weights and activations that several ops read are quantized once.

    The tables hold what was quantized: numbers and scales, and of an image its zero point.
    """

    ctx: PassContext
    program: ProgramOp
    stored: DType
    exact: bool
    ranges: Mapping[str, float]
    weights: dict[tuple[SSAValue, int, bool], tuple[Value, Value | None]] = field(
        default_factory=dict[tuple[SSAValue, int, bool], "tuple[Value, Value | None]"]
    )
    activations: dict[tuple[SSAValue, float], tuple[Value, Value]] = field(
        default_factory=dict[tuple[SSAValue, float], "tuple[Value, Value]"]
    )
    reader: PirOp | None = None
    images: dict[tuple[SSAValue, float], tuple[Value, Value, int]] = field(
        default_factory=dict[tuple[SSAValue, float], "tuple[Value, Value, int]"]
    )

    def run(self, keep: tuple[str, ...], least: int) -> None:
        found = dict(readers(self.program, keep, least, self.exact))
        for op in self.ctx.each(list(found)):
            if found[op]:
                self.ctx.count("kept")
                self.ctx.remark("missed", f"`{op.name}` keeps its weights: {found[op]}", op)
                continue
            self.ctx.rewrote("quantize", op)
            self.ctx.count("quantized")
            b = Builder(self.program.block, before=op, location=op.location)
            rules = {"pd_op.matmul": self.product, CONVOLUTION: self.convolution}
            made = rules.get(op.name, self.rows)(b, op)
            made.ssa.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(made.ssa)
            erase(op)

    def product(self, b: Builder, op: PirOp) -> Value:
        turned = bool(op.attribute("transpose_y"))
        weights, scales = self.stored_weights(b, op.operands[1], 0, turned)
        columns = weights.shape[1]
        if scales is not None:
            scales = b.reshape(scales, (columns,))
        if not self.exact:
            x = b.wrap(op.operands[0])
            return b("pir.quantized_matmul", x, weights, scales, None, columns=columns)
        largest = self.ranges.get(weights_name(op), 0.0)
        x, x_scales = self.quantized(b, op.operands[0], largest)
        return b("pir.quantized_matmul", x, weights, scales, x_scales, columns=columns)

    def convolution(self, b: Builder, op: PirOp) -> Value:
        """The convolution of an image in uint8, less its zero point times the sum of a filter."""
        self.reader = op
        x, x_scale, zero = self.image(op.operands[0], self.ranges.get(weights_name(op), 0.0))
        filter = b.wrap(op.operands[1])
        largest = b.max(b.abs(filter), axis=(1, 2, 3), keepdim=True)
        scales = _scales(b, largest)
        held = b.cast(b.round(b.divide(filter, scales)), dt.int8)
        how = {name: op.attribute(name) for name in ("strides", "paddings", "dilations")}
        if zero and any(how["paddings"]):
            top, bottom, left, right = _four(how["paddings"])
            sides = (0, 0, 0, 0, top, bottom, left, right)
            x = b("pd_op.pad", x, pad_value=float(zero), paddings=sides)
            how["paddings"] = (0, 0)
        scales = b.multiply(b.reshape(scales, (-1,)), x_scale)
        made = b("pir.quantized_conv2d", x, held, scales, **how)
        if not zero:
            return made
        sums = b.sum(b.cast(held, dt.float32), axis=(1, 2, 3), keepdim=False)
        shift = b.multiply(b.multiply(sums, scales), b.const(-float(zero), dt.float32))
        return b.add(made, b.reshape(shift, (-1, 1, 1)))

    def image(self, value: SSAValue, largest: float) -> tuple[Value, Value, int]:
        """An image in uint8, its scale, and its zero point."""
        key = value, largest
        if key in self.images:
            return self.images[key]
        readers = [u for u in value.uses if u.operation is not self.reader] if largest else []
        b, kind = _behind(self.program, value), dt.float32
        x, zero = b.wrap(value), 0 if _is_positive(value) else _MIDDLE
        steps = _LARGEST if zero else 2 * _LARGEST + 1
        window = _maximum_of_windows(value) if largest else None
        if window is not None:
            # A maximum of bytes is the byte of the maximum.
            inner, scale, zero = self.image(window.operands[0], largest)
            wide = Builder(self.program.block, before=window, location=window.location)
            window.operands[0] = wide.cast(inner, kind).ssa
            found, wide = b.cast(x, dt.uint8), x
        else:
            if largest:
                scale, rate = (b("pd_op.full", shape=(1,), value=v, dtype=kind)
                               for v in (largest / steps, steps / largest))  # fmt: skip
            else:
                every = b.max(b.abs(x), axis=tuple(range(x.rank)), keepdim=False)
                every = b.maximum(b.reshape(every, (1,)), b.const(_SMALLEST, kind))
                scale = b.divide(every, b.const(steps, kind))
                rate = b.divide(b.const(steps, kind), every)
            found = b.round(b.multiply(x, rate))
            found = b.add(found, b.const(float(zero), kind)) if zero else found
            found = b.maximum(found, b.const(0.0, kind))
            found = b.cast(b.minimum(found, b.const(255.0, kind)), dt.uint8)
            wide = b.cast(found, kind) if readers else x
        self.images[key] = found, scale, zero
        if readers:
            # A value that is stored in bytes need not be stored a second time.
            wide = b.subtract(wide, b.const(float(zero), kind)) if zero else wide
            wide = b.multiply(wide, scale)
            for use in readers:
                use.operation.operands[use.index] = wide.ssa
            self.images[wide.ssa, largest] = self.images[key]
        return self.images[key]

    def rows(self, b: Builder, op: PirOp) -> Value:
        """Rows of a table, and their scales, widened."""
        table, scales = self.stored_weights(b, op.operands[1], 1, False)
        how = {"padding_idx": op.attribute("padding_idx"), "sparse": False}
        ids = b.wrap(op.operands[0])
        found = b.cast(b.embedding(ids, table, **how), dt.float32)
        return found if scales is None else b.multiply(found, b.embedding(ids, scales, **how))

    def stored_weights(
        self, b: Builder, value: SSAValue, axis: int, turned: bool
    ) -> tuple[Value, Value | None]:
        """A matrix in fewer bits, and the scales along an axis, which keep the rank."""
        key = value, axis, turned
        if key not in self.weights:
            w = b.transpose(b.wrap(value), perm=(1, 0)) if turned else b.wrap(value)
            if self.stored is dt.int8:
                scales = _scales(b, b.max(b.abs(w), axis=(axis,), keepdim=True))
                self.weights[key] = b.cast(b.round(b.divide(w, scales)), dt.int8), scales
            else:
                self.weights[key] = b.cast(w, self.stored), None
        return self.weights[key]

    def quantized(self, b: Builder, value: SSAValue, largest: float) -> tuple[Value, Value]:
        """Activations in int8 and their scales: each row's own, or one for a known maximum."""
        key = value, largest
        if key not in self.activations:
            x = b.wrap(value)
            if largest:
                scales = b("pd_op.full", shape=(1,), value=largest / _LARGEST, dtype=dt.float32)
                bound = b.const(_LARGEST, dt.float32)
                found = b.round(b.divide(x, scales))
                found = b.maximum(b.minimum(found, bound), b.const(-_LARGEST, dt.float32))
            else:
                scales = _scales(b, b.max(b.abs(x), axis=(-1,), keepdim=True))
                found = b.round(b.divide(x, scales))
            self.activations[key] = b.cast(found, dt.int8), scales
        return self.activations[key]


def _four(paddings: Sequence[int]) -> Sequence[int]:
    """Top, bottom, left and right of a padding that may be the same at both ends."""
    return paddings if len(paddings) == 4 else [p for p in paddings for _ in range(2)]


def _behind(program: ProgramOp, value: SSAValue) -> Builder:
    """A builder directly after the op that makes a value."""
    owner = value.owner
    at = owner.next_op if isinstance(owner, PirOp) else program.block.first_op
    return Builder(program.block, before=at, location=at.location if at else None)


def _is_positive(value: SSAValue) -> bool:
    """Whether no element is negative, whatever the inputs are."""
    op = value.owner
    if not isinstance(op, PirOp):
        return False
    if declares(op, NONNEGATIVE):
        return True
    return declares(op, KEEPS_SIGN) and all(map(_is_positive, op.operands))


def _maximum_of_windows(value: SSAValue) -> PirOp | None:
    """The op that takes a maximum of windows of an image that nothing else reads."""
    op = value.owner
    if not isinstance(op, PirOp) or op.name != "pd_op.pool2d" or len(op.operands) > 1:
        return None
    only = op.attribute("pooling_type") == "max" and len(list(op.operands[0].uses)) == 1
    return op if only else None


def _scales(b: Builder, largest: Value) -> Value:
    return b.divide(
        b.maximum(largest, b.const(_SMALLEST, dt.float32)), b.const(_LARGEST, dt.float32)
    )


def _is_large(value: SSAValue, least: int) -> bool:
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta) or not meta.is_static or not meta.dtype.is_float:
        return False
    return meta.numel >= least and sum(n > 1 for n in meta.shape) > 1  # a vector is no matrix


def _range(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition(":")
    try:
        largest = float(number)
    except ValueError:
        largest = -1.0
    if not name or not 0 <= largest < inf:
        raise _refused(f"`{text}` is no range PARAMETER:NUMBER")
    return name, largest


def _refused(what: str) -> UsageError:
    return UsageError(
        f"`quantize`: {what}", code="PK0703", help="`pirkit-opt --help-pass quantize`"
    )

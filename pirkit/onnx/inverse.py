"""The table from ops to operators of ONNX: element-wise ops, reductions, shapes, indexing, matmul.

A writer takes the `GraphWriter` and the op, adds nodes, and gives the names of the results. It
raises UnsupportedError (PK0402) for a form that ONNX does not have; `inverse_layers` and
`inverse_recurrent` hold the other writers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from pirkit.dialect.operation import PirOp
from pirkit.onnx.element_types import TO_ONNX
from pirkit.onnx.write_model import GraphWriter, meta, writes
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

_SAME: Final = {
    # op: operator, with the same operands and no attributes
    "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "log": "Log",
    "reciprocal": "Reciprocal", "sigmoid": "Sigmoid", "sin": "Sin", "sinh": "Sinh",
    "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "softsign": "Softsign", "abs": "Abs",
    "sign": "Sign", "bitwise_not": "BitwiseNot", "isnan": "IsNaN", "isinf": "IsInf",
    "logical_not": "Not", "ceil": "Ceil", "floor": "Floor", "relu": "Relu",
    "hardswish": "HardSwish", "assign": "Identity", "share_data": "Identity",
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "maximum": "Max",
    "minimum": "Min", "elementwise_pow": "Pow", "equal": "Equal", "greater_than": "Greater",
    "greater_equal": "GreaterOrEqual", "less_than": "Less", "less_equal": "LessOrEqual",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "where": "Where", "bmm": "MatMul",
    "shape64": "Shape", "det": "Det",
}  # fmt: skip

_ATTRIBUTES: Final = {
    # op: (operator, {attribute of the operator: attribute of the op})
    "softmax": ("Softmax", {"axis": "axis"}),
    "log_softmax": ("LogSoftmax", {"axis": "axis"}),
    "leaky_relu": ("LeakyRelu", {"alpha": "negative_slope"}),
    "elu": ("Elu", {"alpha": "alpha"}),
    "celu": ("Celu", {"alpha": "alpha"}),
    "hardsigmoid": ("HardSigmoid", {"alpha": "slope", "beta": "offset"}),
    "transpose": ("Transpose", {"perm": "perm"}),
    "index_select": ("Gather", {"axis": "axis"}),
    "take_along_axis": ("GatherElements", {"axis": "axis"}),
}

_COMBINED: Final = {"assign": "none", "add": "add", "mul": "mul", "multiply": "mul",
                    "amin": "min", "amax": "max"}  # fmt: skip
"""The `reduce` of `put_along_axis` -> the `reduction` of ScatterElements."""

_REDUCED: Final = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax",
                   "min": "ReduceMin", "prod": "ReduceProd", "amax": "ReduceMax",
                   "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp"}  # fmt: skip


_LOGICAL: Final = frozenset({"And", "Or", "Xor", "Not"})
"""Operators that take booleans only; pirkit's ops take any numbers."""


_OF_FLOATS: Final = frozenset({"ReduceMean", "ReduceLogSumExp"})
"""Reductions that are written only if their result is floating."""


_IDENTITY: Final = 20.0
"""Above it softplus is its operand, up to rounding of float32: the default `threshold`."""


def _same(kind: str, w: GraphWriter, op: PirOp) -> Any:
    """One node. Operands are cast to the result's type where ONNX does not convert by itself.

    That is so for numbers as operands of logical operators, and integers of floating results.
    """
    out = meta(op.results[0]).dtype
    if out is dt.bool_:  # ONNX's bitwise operators do not take booleans
        kind = kind.removeprefix("Bitwise")
    converts = kind in _LOGICAL or (out.is_float and kind != "Where")
    if kind in ("Ceil", "Floor") and out.is_integer:
        kind = "Identity"
    return w.node(kind, *(w.cast(w(v), out) if converts else w(v) for v in op.operands))


def _with(kind: str, held: dict[str, str], w: GraphWriter, op: PirOp) -> Any:
    given: dict[str, Any] = {theirs: op.attribute(ours) for theirs, ours in held.items()}
    if given.get("perm") == ():  # of a scalar; ONNX cannot tell the type of an empty list
        return w.node("Identity", w(op.operands[0]))
    return w.node(kind, *(w(v) for v in op.operands), **given)


def _reduced(kind: str, w: GraphWriter, op: PirOp) -> Any:
    axes = w.numbers(op, "axis")
    x = op.operands[0]
    axes = axes or list(range(len(meta(x).shape)))
    if kind in _OF_FLOATS and not meta(op.results[0]).dtype.is_float:
        raise w.unsupported(op, "is of integers")
    name = w.cast(w(x), meta(op.results[0]).dtype)
    return w.node(kind, name, w.integers(axes), keepdims=int(op.attribute("keepdim")))


for _name, _kind in _SAME.items():
    writes(_name)(partial(_same, _kind))
for _name, (_kind, _held) in _ATTRIBUTES.items():
    writes(_name)(partial(_with, _kind, _held))
for _name, _kind in _REDUCED.items():
    writes(_name)(partial(_reduced, _kind))


@writes("cast", "pir.convert_storage")
def _(w: GraphWriter, op: PirOp) -> Any:
    saturates = op.name == "pd_op.cast" or op.attribute("saturate")
    held = {} if saturates else {"saturate": 0}
    return w.node("Cast", w(op.operands[0]), to=TO_ONNX[meta(op.results[0]).dtype], **held)


@writes("gather_nd")
def _(w: GraphWriter, op: PirOp) -> Any:
    index = w.cast(w(op.operands[1]), dt.int64)
    return w.node("GatherND", w(op.operands[0]), index)


@writes("scatter_nd_add")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, index, updates = (w(v) for v in op.operands)
    return w.node("ScatterND", x, w.cast(index, dt.int64), updates, reduction="add")


@writes("put_along_axis")
def _(w: GraphWriter, op: PirOp) -> Any:
    kind = _COMBINED.get(op.attribute("reduce"))
    index, values = meta(op.operands[1]), meta(op.operands[2])
    if kind is None or not op.attribute("include_self") or UNKNOWN in index.shape:
        raise w.unsupported(op, "has no form in ONNX with these attributes")
    x, places, given = (w(v) for v in op.operands)
    if index.shape != values.shape:
        given = w.node("Expand", given, w.integers(index.shape))
    return w.node("ScatterElements", x, places, given,
                  axis=op.attribute("axis"), reduction=kind)  # fmt: skip


@writes("isfinite")
def _(w: GraphWriter, op: PirOp) -> Any:
    x = w(op.operands[0])
    return w.node("Not", w.node("Or", w.node("IsNaN", x), w.node("IsInf", x)))


@writes("trunc")
def _(w: GraphWriter, op: PirOp) -> Any:
    x = w(op.operands[0])
    if meta(op.results[0]).dtype.is_integer:
        return w.node("Identity", x)
    is_below = w.node("Less", x, w.like(0.0, op.operands[0]))
    return w.node("Where", is_below, w.node("Ceil", x), w.node("Floor", x))


@writes("fmax", "fmin")
def _(w: GraphWriter, op: PirOp) -> Any:
    """The operand that is not NaN, if one is NaN; ONNX's Max and Min give NaN."""
    x, y = (w(v) for v in op.operands)
    found = w.node("Max" if op.name == "pd_op.fmax" else "Min", x, y)
    if not meta(op.results[0]).dtype.is_float:
        return found
    found = w.node("Where", w.node("IsNaN", x), y, found)
    return w.node("Where", w.node("IsNaN", y), x, found)


@writes("not_equal")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Not", w.node("Equal", *(w(v) for v in op.operands)))


@writes("nonzero")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Transpose", w.node("NonZero", w(op.operands[0])), perm=[1, 0])


@writes("log1p")
def _(w: GraphWriter, op: PirOp) -> Any:
    """Kahan's form, which loses nothing near 0: log(u) * x / (u - 1) where u = 1 + x is not 1.

    Where u is x, as of infinity, the quotient is left out.
    """
    x, one = w(op.operands[0]), w.like(1.0, op.operands[0])
    u = w.node("Add", x, one)
    ratio = w.node("Div", x, w.node("Sub", u, one))
    ratio = w.node("Where", w.node("Equal", u, x), one, ratio)
    found = w.node("Mul", w.node("Log", u), ratio)
    return w.node("Where", w.node("Equal", u, one), x, found)


@writes("remainder")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, y = (w(v) for v in op.operands)
    if meta(op.operands[0]).dtype.is_integer:
        return w.node("Mod", x, y)
    floor = w.node("Floor", w.node("Div", x, y))
    return w.node("Sub", x, w.node("Mul", floor, y))


@writes("flip")
def _(w: GraphWriter, op: PirOp) -> Any:
    axes = w.numbers(op, "axis")
    first, last, back = ([n] * len(axes) for n in (-1, -(2**63), -1))
    return w.node("Slice", w(op.operands[0]), *map(w.integers, (first, last, axes, back)))


@writes("roll")
def _(w: GraphWriter, op: PirOp) -> Any:
    axes = w.numbers(op, "axis")
    if not axes:
        raise w.unsupported(op, "of all elements in a row has no form in ONNX")
    name = w(op.operands[0])
    if any(meta(op.operands[0]).shape[axis] == UNKNOWN for axis in axes):
        raise w.unsupported(op, "is along a size that is not known")
    for axis, shift in zip(axes, w.numbers(op, "shifts"), strict=True):
        cut = -shift % max(meta(op.operands[0]).shape[axis], 1)
        ends = (0, cut), (cut, 2**63 - 1)
        parts = [w.node("Slice", name, *map(w.integers, ([a], [b], [axis]))) for a, b in ends]
        name = w.node("Concat", parts[1], parts[0], axis=axis)
    return name


@writes("rsqrt")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Reciprocal", w.node("Sqrt", w(op.operands[0])))


@writes("square")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Mul", w(op.operands[0]), w(op.operands[0]))


@writes("silu", "swish")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Mul", w(op.operands[0]), w.node("Sigmoid", w(op.operands[0])))


@writes("relu6")
def _(w: GraphWriter, op: PirOp) -> Any:
    x = op.operands[0]
    return w.node("Clip", w(x), w.like(0.0, x), w.like(6.0, x))


@writes("gelu")
def _(w: GraphWriter, op: PirOp) -> Any:
    kind = "tanh" if op.attribute("approximate") else "none"
    return w.node("Gelu", w(op.operands[0]), approximate=kind)


@writes("softplus")
def _(w: GraphWriter, op: PirOp) -> Any:
    if op.attribute("beta") != 1.0 or op.attribute("threshold") < _IDENTITY:
        raise w.unsupported(op, "has a `beta`, or a low `threshold`")
    return w.node("Softplus", w(op.operands[0]))


@writes("mish")
def _(w: GraphWriter, op: PirOp) -> Any:
    if op.attribute("lambda") < _IDENTITY:
        raise w.unsupported(op, "has a low `lambda`")
    return w.node("Mish", w(op.operands[0]))


@writes("scale")
def _(w: GraphWriter, op: PirOp) -> Any:
    x = op.operands[0]
    if op.operand_named("scale") is not None:
        raise w.unsupported(op, "has `scale` as an operand")
    factor, bias = op.attribute("scale"), op.attribute("bias")
    name = w(x)
    if bias and not op.attribute("bias_after_scale"):
        name = w.node("Add", name, w.like(bias, x))
    if factor != 1:
        name = w.node("Mul", name, w.like(factor, x))
    if bias and op.attribute("bias_after_scale"):
        name = w.node("Add", name, w.like(bias, x))
    return name if name != w(x) else w.node("Identity", name)


@writes("pow")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Pow", w(op.operands[0]), w.like(op.attribute("y"), op.operands[0]))


@writes("round")
def _(w: GraphWriter, op: PirOp) -> Any:
    if op.attribute("decimals"):
        raise w.unsupported(op, "with decimals has no form in ONNX")
    return w.node("Round", w(op.operands[0]))


@writes("clip")
def _(w: GraphWriter, op: PirOp) -> Any:
    x = op.operands[0]
    low, high = ((w(op.operand_named(n)) if op.operand_named(n) is not None
                  else w.like(op.attribute(n), x)) for n in ("min", "max"))  # fmt: skip
    return w.node("Clip", w(x), low, high)


@writes("pir.quantized_matmul")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, weights, scales, x_scales, offsets = op.operand_slots
    held = meta(op.operands[1])
    if held.rank != 2:
        raise w.unsupported(op, "has no form in ONNX for weights in panels")
    if x_scales is not None:
        sums = w.node("MatMulInteger", w(x), w(weights))
        sums = sums if offsets is None else w.node("Add", sums, w(offsets))
        sums = w.node("Cast", sums, to=TO_ONNX[dt.float32])
        return w.node("Mul", w.node("Mul", sums, w(x_scales)), w(scales))
    if held.dtype is dt.int8:
        return w.node("MatMul", w(x), w.node("DequantizeLinear", w(weights), w(scales), axis=1))
    wide = w.node("Cast", w(weights), to=TO_ONNX[dt.float32])
    return w.node("MatMul", w(x), wide if scales is None else w.node("Mul", wide, w(scales)))


@writes("matmul")
def _(w: GraphWriter, op: PirOp) -> Any:
    names: list[str] = []
    for value, flag in zip(op.operands, ("transpose_x", "transpose_y"), strict=True):
        name = w(value)
        rank = len(meta(value).shape)
        if op.attribute(flag) and rank > 1:
            name = w.node("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(name)
    return w.node("MatMul", *names)


def _reshaped(w: GraphWriter, op: PirOp) -> Any:
    """A reshape to known sizes. With ``allowzero`` a 0 is a size, not a copy of the operand's."""
    shape = meta(op.results[0]).shape
    return w.node("Reshape", w(op.operands[0]), w.integers(shape), allowzero=int(0 in shape))


@writes("reshape")
def _(w: GraphWriter, op: PirOp) -> Any:
    if UNKNOWN not in meta(op.results[0]).shape:
        return _reshaped(w, op)
    given = op.operand_named("shape")
    shape = w(given) if given is not None else w.integers(w.numbers(op, "shape"))
    return w.node("Reshape", w(op.operands[0]), shape)


@writes("flatten")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("Reshape", w(op.operands[0]), w.integers(meta(op.results[0]).shape))


@writes("squeeze", "unsqueeze")
def _(w: GraphWriter, op: PirOp) -> Any:
    if UNKNOWN not in meta(op.results[0]).shape:  # Paddle's squeeze leaves axes whose size is not 1
        return _reshaped(w, op)
    kind = "Squeeze" if op.name == "pd_op.squeeze" else "Unsqueeze"
    return w.node(kind, w(op.operands[0]), w.integers(w.numbers(op, "axis")))


@writes("concat", "stack")
def _(w: GraphWriter, op: PirOp) -> Any:
    names: list[str] = w(op.operands[0])
    (axis,) = w.numbers(op, "axis")
    if op.name == "pd_op.stack":
        names = [w.node("Unsqueeze", n, w.integers([axis])) for n in names]
    return w.node("Concat", *names, axis=axis)


@writes("slice", "strided_slice")
def _(w: GraphWriter, op: PirOp) -> Any:
    axes = w.numbers(op, "axes")
    steps = w.numbers(op, "strides") if op.name.endswith("strided_slice") else [1] * len(axes)
    out = w.node("Slice", w(op.operands[0]), w.integers(w.numbers(op, "starts")),
                 w.integers(w.numbers(op, "ends")), w.integers(axes),
                 w.integers(steps))  # fmt: skip
    dropped = [] if op.name.endswith("strided_slice") else w.numbers(op, "decrease_axis")
    return w.node("Squeeze", out, w.integers(dropped)) if dropped else out


@writes("split", "split_with_num")
def _(w: GraphWriter, op: PirOp) -> Any:
    (axis,) = w.numbers(op, "axis")
    if op.name == "pd_op.split_with_num":
        count = int(op.attribute("num"))
        found = w.node("Split", w(op.operands[0]), outputs=count, axis=axis, num_outputs=count)
        return ([found] if count == 1 else list(found),)
    sizes = w.numbers(op, "sections")
    if -1 in sizes:
        raise w.unsupported(op, "has a size that is not stated")
    found = w.node("Split", w(op.operands[0]), w.integers(sizes), outputs=len(sizes), axis=axis)
    return ([found] if len(sizes) == 1 else list(found),)


@writes("expand", "tile")
def _(w: GraphWriter, op: PirOp) -> Any:
    name, kind = ("shape", "Expand") if op.name == "pd_op.expand" else ("repeat_times", "Tile")
    given = op.operand_named(name)
    sizes = w(given) if given is not None else w.integers(
        [1 if n == -1 else n for n in w.numbers(op, name)])  # fmt: skip
    return w.node(kind, w(op.operands[0]), sizes)


@writes("pad")
def _(w: GraphWriter, op: PirOp) -> Any:
    held, x = w.numbers(op, "paddings"), op.operands[0]
    if op.operand_named("pad_value") is not None:
        raise w.unsupported(op, "has `pad_value` as an operand")
    return w.node("Pad", w(x), w.integers([*held[::2], *held[1::2]]),
                  w.like(op.attribute("pad_value"), x))  # fmt: skip


@writes("argmax", "argmin")
def _(w: GraphWriter, op: PirOp) -> Any:
    if op.attribute("flatten"):
        raise w.unsupported(op, "is over all dimensions")
    (axis,) = w.numbers(op, "axis")
    out = w.node("ArgMax" if op.name == "pd_op.argmax" else "ArgMin", w(op.operands[0]),
                 axis=axis, keepdims=int(op.attribute("keepdims")))  # fmt: skip
    return w.cast(out, meta(op.results[0]).dtype)


@writes("cumsum")
def _(w: GraphWriter, op: PirOp) -> Any:
    if op.attribute("flatten"):
        raise w.unsupported(op, "is over all dimensions")
    axis = w.constant(np.asarray(w.numbers(op, "axis")[0], np.int64))
    return w.node("CumSum", w(op.operands[0]), axis, exclusive=int(op.attribute("exclusive")),
                  reverse=int(op.attribute("reverse")))  # fmt: skip


@writes("topk")
def _(w: GraphWriter, op: PirOp) -> Any:
    return w.node("TopK", w(op.operands[0]), w.integers(w.numbers(op, "k")), outputs=2,
                  axis=op.attribute("axis"), largest=int(op.attribute("largest")),
                  sorted=int(op.attribute("sorted")))  # fmt: skip


@writes("gather")
def _(w: GraphWriter, op: PirOp) -> Any:
    index = op.operands[1]
    (axis,) = w.numbers(op, "axis")
    name = w(index)
    if len(meta(index).shape) == 2:  # Paddle takes a column of indices as a vector
        name = w.node("Reshape", name, w.integers([-1]))
    return w.node("Gather", w(op.operands[0]), name, axis=axis)


@writes("embedding")
def _(w: GraphWriter, op: PirOp) -> Any:
    if op.attribute("padding_idx") >= 0:
        raise w.unsupported(op, "has a place without a row")
    return w.node("Gather", w(op.operands[1]), w(op.operands[0]), axis=0)


@writes("dropout")
def _(w: GraphWriter, op: PirOp) -> Any:
    keeps = op.attribute("mode") == "upscale_in_train" or op.attribute("p") == 0.0
    if not op.attribute("is_test") or not keeps:
        raise w.unsupported(op, "is training")
    return w.node("Identity", w(op.operands[0]))

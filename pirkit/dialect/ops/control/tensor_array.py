"""Growing lists of tensors, which loops of Paddle's programs write and read by index.

An array is changed in place: a read finds what was written last. Its ops have no `infer_meta`,
because the type of what is read does not follow from the operands; the program states it. They run
as instructions of the plan, not as calls of kernels.
"""

from __future__ import annotations

from typing import Final

from pirkit.dialect.opdef import WRITE, op

KIND = "structure"


@op
class CreateArray:
    """An empty array for tensors of one element type."""

    name = "pd_op.create_array"
    signature = "; dtype: dtype = float32 -> out"
    effects = WRITE


@op
class ArrayWrite:
    """Puts `x` at place `i` of `array`, which grows if that is its end; `out` is the array."""

    name = "pd_op.array_write_"
    signature = "array, x, i -> out"
    effects = WRITE


@op
class ArrayRead:
    """The tensor at place `i` of `array`.

    Refuses at run time a place that was not written.
    """

    name = "pd_op.array_read"
    signature = "array, i -> out"
    effects = WRITE


@op
class SliceArrayDense:
    """The tensor at place `starts` of an array, counted from the end if negative."""

    name = "pd_op.slice_array_dense"
    signature = "input, starts -> out"
    effects = WRITE


@op
class ArrayLength:
    """The length of `x`, of shape [1]."""

    name = "pd_op.array_length"
    signature = "x -> out"
    effects = WRITE


@op
class ArrayPop:
    """Takes the tensor at place `index` out of `input`, counted from the end if negative."""

    name = "pd_op.array_pop"
    signature = "input ; index: i32 = -1 -> array_out, out"
    effects = WRITE


@op
class ArrayToTensor:
    """All tensors of `x` stacked along a new `axis` (`use_stack`), or joined along one they have.

    `out_index` has the size of each along that axis before it is stacked or joined.
    """

    name = "pd_op.array_to_tensor"
    signature = "x ; axis: i32, use_stack: bool = False -> out, out_index"
    effects = WRITE


@op
class TensorToArray:
    """A new array of the parts of `out_grad`, each of the size of that place of the array `x`.

    The gradient of `pd_op.array_to_tensor` in programs that Paddle differentiated. It has no
    derivative, as in Paddle.
    """

    name = "pd_op.tensor_to_array"
    signature = "x, out_grad ; axis: i32, use_stack: bool = False -> x_grad"
    effects = WRITE


@op
class ArrayAdd:
    """Adds `x` to what place `i` of an array of cotangents holds, or puts it there."""

    name = "pir.array_add"
    signature = "array, x, i ->"
    effects = WRITE


@op
class ArrayAddParts:
    """Adds the parts of `x`, of the given `sizes` along `axis`, to the places of the array.

    With `use_stack` each part has one element along `axis`, which it loses: the reverse of
    `pd_op.array_to_tensor`.
    """

    name = "pir.array_add_parts"
    signature = "array, x, sizes ; axis: i32, use_stack: bool = False ->"
    effects = WRITE


@op
class ArrayClaim:
    """Takes out what place `i` of an array of cotangents holds; `zeros` if nothing is there."""

    name = "pir.array_claim"
    signature = "array, i, zeros -> out"
    effects = WRITE


@op
class ArrayPeek:
    """What place `i` of an array of cotangents holds; `zeros` if nothing is there."""

    name = "pir.array_peek"
    signature = "array, i, zeros -> out"
    effects = WRITE


@op
class ArrayPeekParts:
    """The places of an array of cotangents side by side, each of its size of `sizes` along `axis`.

    A place that holds nothing is that part of `zeros`: the reverse of `pir.array_add_parts`.
    """

    name = "pir.array_peek_parts"
    signature = "array, sizes, zeros ; axis: i32, use_stack: bool = False -> out"
    effects = WRITE


@op
class ArrayOpen:
    """Moves what an array of cotangents holds from place `i` on one place up, which leaves none."""

    name = "pir.array_open"
    signature = "array, i ->"
    effects = WRITE


@op
class ArrayClose:
    """Removes place `i` of an array of cotangents, if there is one: undoes `pir.array_open`."""

    name = "pir.array_close"
    signature = "array, i ->"
    effects = WRITE


_ON_COTANGENTS: Final = frozenset(
    d.name
    for d in (
        ArrayAdd, ArrayAddParts, ArrayClaim, ArrayPeek, ArrayPeekParts, ArrayOpen, ArrayClose
    )
)  # fmt: skip

ARRAY_OPS: Final = _ON_COTANGENTS | {
    d.name
    for d in (
        CreateArray, ArrayWrite, ArrayRead, SliceArrayDense, ArrayLength, ArrayPop, ArrayToTensor,
        TensorToArray,
    )
}  # fmt: skip
"""Ops on arrays, by full name."""

SAME_ARRAY: Final = {"pd_op.array_write_": "out", "pd_op.array_pop": "array_out"}
"""Ops of which a result is the array that they change."""

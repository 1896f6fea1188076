"""Ops that structure programs: parameters, outputs, lists, stacks and control flow.

Paddle's ``builtin`` and ``cf`` dialects are called ``pir`` here, because MLIR has dialects of those
names. Ops with regions keep Paddle's ``pd_op`` names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.kinds import (
    ALIAS,
    BRANCH,
    KEEPS_SIGN,
    LIST,
    LOOP,
    OUTPUT,
    PARAMETER,
    SINK,
    SOURCE,
    STACK,
    TERMINATOR,
    VIEW,
)
from pirkit.dialect.opdef import IO, WRITE, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta, of_array

KIND = "structure"

PADDLE_NAMES: Final = {
    "builtin.parameter": "pir.parameter",
    "builtin.set_parameter": "pir.set_parameter",
    "builtin.shadow_output": "pir.shadow_output",
    "builtin.combine": "pir.combine",
    "builtin.split": "pir.split",
    "builtin.slice": "pir.slice",
    "builtin.constant": "pir.constant",
    "cf.yield": "pir.yield",
    "cf.stack_create": "pir.stack_create",
    "cf.tuple_push": "pir.tuple_push",
    "cf.tuple_pop": "pir.tuple_pop",
    "cf.has_elements": "pir.has_elements",
}
"""Paddle's name of each structural op -> ours."""

OUR_NAMES: Final = {ours: paddle for paddle, ours in PADDLE_NAMES.items()}


@op
class Parameter:
    """A parameter or buffer of the model, by its name in the scope.

    C1: `parameter_name` is not empty.
    """

    name = "pir.parameter"
    traits = (SOURCE, PARAMETER)
    host_name = "parameter_name"
    signature = (
        "; is_distributed: bool[] = [False], is_parameter: bool[] = [True],"
        " need_clip: bool[] = [True], parameter_name: str, persistable: bool[] = [True],"
        " stop_gradient: bool[] = [False], trainable: bool[] = [True] -> out"
    )


@op
class SetParameter:
    """Gives the value's storage a name in the scope (start-up programs)."""

    name = "pir.set_parameter"
    traits = (SINK,)
    host_name = "parameter_name"
    signature = "x ; parameter_name: str ->"
    effects = IO


@op
class ShadowOutput:
    """An output of the program: the host fetches the value by this name."""

    name = "pir.shadow_output"
    traits = (SINK, OUTPUT)
    host_name = "output_name"
    signature = "x ; output_name: str ->"
    effects = IO


@op
class Combine:
    """Makes one list value of several tensors; no data moves, elements are the same storage."""

    name = "pir.combine"
    traits = (ALIAS, KEEPS_SIGN, LIST)
    signature = "*inputs -> out[]"
    dtypes = dt.ANY


@op
class Split:
    """Splits a list value into its elements.

    A result may be absent: Paddle omits the gradient of an element that needs none.
    """

    name = "pir.split"
    kind = VIEW
    traits = (LIST,)
    signature = "input[] -> *outs?"
    dtypes = dt.ANY


@op
class Slice:
    """One element of a list value.

    C1: `index` lies in the list.
    """

    name = "pir.slice"
    kind = VIEW
    traits = (LIST, ALIAS)
    signature = "input[] ; index: i32 -> out"
    dtypes = dt.ANY


@op
class Constant:
    """A constant held in the scope under a name."""

    name = "pir.constant"
    traits = (SOURCE, PARAMETER)
    host_name = "value"
    signature = "; value: str, persistable: bool[] = [True] -> out"


@op
class Yield:
    """Ends a block and passes its values to the enclosing op."""

    name = "pir.yield"
    traits = (TERMINATOR,)
    signature = "*inputs ->"
    effects = IO


@op
class StackCreate:
    """A container in which a branch or loop body saves values for its gradient."""

    name = "pir.stack_create"
    traits = (STACK,)
    signature = "-> stack, inlet, outlet"
    effects = WRITE


@op
class TuplePush:
    """Copies values onto the stack."""

    name = "pir.tuple_push"
    traits = (STACK,)
    signature = "inlet, *inputs ->"
    effects = WRITE


@op
class TuplePop:
    """Pops the values of the last push."""

    name = "pir.tuple_pop"
    traits = (STACK,)
    signature = "outlet -> *outs"
    effects = WRITE


@op
class HasElements:
    """True while the stack is not empty; of shape [1]."""

    name = "pir.has_elements"
    traits = (STACK,)
    signature = "stack -> out"
    effects = WRITE


@op
class If:
    """Runs the first region if `cond` is true, else the second; results are what it yields.

    C1: `cond` is a bool of one element.
    C2: both regions yield values of the types of the results.
    """

    name = "pd_op.if"
    traits = (BRANCH,)
    signature = "cond -> *outs"
    effects = WRITE


@op
class While:
    """Runs its region while the condition holds.

    The region's arguments start as `inputs`; its yield gives the next condition and the next
    arguments. Results are the last arguments.

    C1: `cond` is a bool of one element.
    C2: arguments, yielded values and results agree in type with `inputs`.
    """

    name = "pd_op.while"
    traits = (LOOP,)
    signature = "cond, *inputs -> *outs"
    effects = WRITE


@op
class PyLayer:
    """A user-defined forward, whose gradient is the registered Python function."""

    name = "pd_op.pylayer"
    traits = (BRANCH,)
    signature = "*inputs ; backward_function_id: i32 = -1 -> *outs"
    effects = WRITE


@op
class Data:
    """An input of the program, by name."""

    name = "pd_op.data"
    traits = (SOURCE,)
    host_name = "name"
    signature = "; name: str, shape: intarray, dtype: dtype, place: place = undefined -> out"
    effects = IO


@op
class Feed:
    """An input of an inference program, by name and position."""

    name = "pd_op.feed"
    traits = (SOURCE,)
    host_name = "name"
    signature = "; name: str, col: i32 -> out"
    effects = IO


@op
class Fetch:
    """An output of an inference program, by name and position."""

    name = "pd_op.fetch"
    traits = (SINK, OUTPUT)
    host_name = "name"
    signature = "x ; name: str, col: i32 -> out"
    effects = IO


@op
class Print:
    """Prints the tensor to the standard error and passes it on.

    `summarize` limits the elements; all are shown if it is negative. `first_n` is not counted.
    """

    name = "pd_op.print"
    signature = (
        'in ; first_n: i32 = -1, message: str = "", summarize: i32 = 20,'
        " print_tensor_name: bool = True, print_tensor_type: bool = True,"
        " print_tensor_shape: bool = True, print_tensor_layout: bool = True,"
        " print_tensor_lod: bool = True, print_phase: str = BOTH, is_forward: bool = True -> out"
    )
    effects = IO


@op
class Assert:
    """Stops the program, showing `data`, unless `cond` is true.

    C1: all elements of `cond` are true when the program runs.
    """

    name = "pd_op.assert"
    signature = "cond, data[]? ; summarize: i64 = -1 ->"
    effects = IO


@infer_meta(Data)
def _(*, name: str, shape: tuple[int, ...], dtype: DType | None, place: object) -> TensorMeta:
    del name, place
    return TensorMeta(tuple(UNKNOWN if d < 0 else d for d in shape), dtype or dt.float32)


@infer_meta(Fetch)
def _(x: Meta, *, name: str, col: int) -> Meta:
    del name, col
    return x


@infer_meta(Print)
def _(x: Meta, **attributes: object) -> Meta:
    del attributes
    return x


@reference(Print)
def _(x: Array, *, message: str, summarize: int, **_: object) -> Array:
    sys.stderr.write(f"{message} {of_array(x)} {_shown(x, summarize)}\n".lstrip())
    return x


@infer_meta(Assert)
def _(cond: Meta, data: Meta | None, **attributes: object) -> tuple[()]:
    del cond, data, attributes
    return ()


@reference(Assert)
def _(cond: Array, data: list[Array] | None, *, summarize: int) -> tuple[()]:
    values = ", ".join(_shown(x, summarize) for x in data or ())
    require(bool(cond.all()), "C1", f"the condition does not hold; data: {values or 'none'}")
    return ()


def _shown(x: Array, summarize: int) -> str:
    shown = x.size if summarize < 0 else summarize
    return str(x.reshape(-1)[:shown].tolist()) + (" ..." if shown < x.size else "")


@infer_meta(Combine)
def _(*inputs: Meta) -> VecMeta:
    items = [m for m in inputs if isinstance(m, TensorMeta)]
    if len(items) != len(inputs):
        raise UnsupportedError("a list may hold tensors only", code="PK0403")
    return VecMeta(tuple(items))


@reference(Combine)
def _(*inputs: Array) -> list[Array]:
    return list(inputs)


@samples(Combine)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(0))
    yield s(s.tensor())


@infer_meta(Split)
def _(input: VecMeta) -> tuple[TensorMeta, ...]:
    return input.items


@reference(Split)
def _(input: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(input)


@samples(Split)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3), s.tensor(0)])


@reference(Slice)
def _(input: Sequence[Array], *, index: int) -> Array:
    return input[index]


@samples(Slice)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3), s.tensor(0)], index=1)


@bad_samples(Slice)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(2)], index=1)


@infer_meta(Slice)
def _(input: VecMeta, *, index: int) -> TensorMeta:
    require(0 <= index < len(input), "C1", f"index {index} is outside a list of {len(input)}")
    return input.items[index]


@infer_meta(HasElements)
def _(stack: Meta) -> TensorMeta:
    del stack
    return TensorMeta((1,), dt.bool_)

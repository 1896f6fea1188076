"""Small programs, each for one feature of the code generator, whose lines `suspects.py` compares.

They are chosen to tell files apart: of some hundred candidates these split best, for their time,
the lines that ran for the same programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

from pirkit.dialect.program import Program
from pirkit.frontend.native_compile import Form
from pirkit.frontend.op_functions import attribute
from pirkit.frontend.tracing import trace
from pirkit.frontend.transforms import grad


def _op(name: str) -> Callable[..., Any]:
    return cast("Callable[..., Any]", attribute(name))


def _summed(x: Any, y: Any) -> Any:
    return _op("add")(_op("transpose")(x, [1, 0]), y)


def _blocks(x: Any) -> Any:
    """Reads at quotients and remainders, and under a guard."""
    blocks = _op("transpose")(_op("reshape")(x, [30, 7, 11]), [0, 2, 1])
    return _op("pad")(_op("exp")(blocks), paddings=[0, 0, 0, 5, 0, 0], pad_value=1.0)


def _gathered(x: Any, y: Any) -> Any:
    return _op("gather")(x, _numbers(y), 0)


def _elementwise(x: Any) -> Any:
    return _op("multiply")(_op("tanh")(x), _op("sin")(x))


def _chain(x: Any) -> Any:
    """Common operations in one kernel, with a reduction that the others read."""
    y = _op("divide")(_op("sqrt")(_op("abs")(_op("cos")(x))), _op("add")(_op("exp")(x), 1.0))
    y = _op("subtract")(y, _op("mean")(y, [1], True))
    return _op("maximum")(_op("log")(_op("add")(_op("multiply")(y, y), 0.5)), _op("scale")(x, 0.5))


def _batch_sum(x: Any) -> Any:
    return _op("sum")(_elementwise(x), [0])


def _network(x: Any, first: Any, second: Any) -> Any:
    hidden = _op("add")(_op("matmul")(x, first), _op("sum")(first, [0]))
    return _op("matmul")(_op("tanh")(hidden), second)


def _network_gradient(x: Any, first: Any, second: Any) -> Any:
    def total(weight: Any) -> Any:
        return _op("sum")(_network(x, weight, second))

    return grad(total)(first)


def _conv(x: Any, w: Any, stride: int = 1, padding: int = 1) -> Any:
    return _op("conv2d")(x, w, [stride] * 2, [padding] * 2, "EXPLICIT", [1, 1], 1, "NCHW")


def _conv_gradient(x: Any, w: Any) -> Any:
    def total(image: Any) -> Any:
        return _op("sum")(_conv(image, w))

    return grad(total)(x)


def _filter_gradient(x: Any, w: Any) -> Any:
    def total(filters: Any) -> Any:
        return _op("sum")(_op("tanh")(_conv(x, filters, 2)))

    return grad(total)(w)


def _conv_layer(x: Any, w: Any, bias: Any) -> Any:
    return _op("relu")(_op("add")(_conv(x, w), _op("reshape")(bias, [1, 32, 1, 1])))


def _half(x: Any) -> Any:
    y = _op("cast")(x, "float16")
    return _op("multiply")(y, y)


def _numbers(x: Any) -> Any:
    """Integers that are 0 or 1."""
    return _op("cast")(_op("greater_than")(x, 0.0), "int64")


def _constant(x: Any) -> Any:
    return _op("full_like")(x, 2.0)


def _inverse(x: Any) -> Any:
    return _op("erfinv")(_op("tanh")(x))


def _one_hot(x: Any) -> Any:
    return _op("one_hot")(_numbers(x), 5)


def _largest(x: Any) -> Any:
    return _op("topk")(x, 3, 1, True, True)[0]


def _scattered(x: Any, y: Any, z: Any) -> Any:
    return _op("scatter")(x, _numbers(y), z, False)


def _table_gradient(x: Any, y: Any) -> Any:
    def total(table: Any) -> Any:
        return _op("sum")(_op("tanh")(_op("embedding")(_numbers(y), table, -1, False)))

    return grad(total)(x)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _op("matmul")(_op("softmax")(_op("matmul")(q, k, False, True), -1), v)


class Example(Struct, frozen=True):
    """A program of a function, or of an op by name, for tensors of these shapes and ``others``.

    ``others`` are further arguments, which are no tensors.
    """

    form: Form
    function: Callable[..., Any] | str
    shapes: tuple[tuple[int, ...], ...]
    others: tuple[Any, ...] = ()

    def program(self) -> Program:
        """The program, traced for float32."""
        function = _op(self.function) if isinstance(self.function, str) else self.function
        given = [np.zeros(shape, np.float32) for shape in self.shapes]
        return trace(lambda *tensors: function(*tensors, *self.others), given).program


_IMAGE: Final = ((2, 16, 14, 14), (32, 16, 3, 3))
_LAYER: Final = ((512, 3), (3, 20), (20, 1))
EXAMPLES: Final = (
    Example("segments", "add", ((1024,), (1024,))),
    Example("segments", "scale", ((1003,),), (3.0, 0.0, True)),
    Example("segments", "tanh", ((40, 77),)),
    Example("segments", "exp", ((1024,),)),
    Example("segments", "sin", ((1024,),)),
    Example("segments", "sum", ((30, 77),), ([1],)),
    Example("segments", "max", ((30, 64),), ([1], False)),
    Example("segments", "sum", ((300, 77),), ([0],)),
    Example("segments", _summed, ((40, 48), (48, 40))),
    Example("segments", _blocks, ((30, 77),)),
    Example("segments", _gathered, ((30, 77), (40,))),
    Example("segments", "flip", ((30, 77),), ([1],)),
    Example("segments", _chain, ((30, 64),)),
    Example("segments", "softmax", ((30, 77),), (-1,)),
    Example("segments", "cumsum", ((40, 37),), (0,)),
    Example("segments", "matmul", ((6, 10), (10, 7))),
    Example("segments", "matmul", ((300, 128), (128, 300))),
    Example("segments", _attention, ((2, 3, 130, 24), (2, 3, 140, 24), (2, 3, 140, 16))),
    Example("segments", _conv, _IMAGE),
    Example("segments", _conv_gradient, _IMAGE),
    Example("segments", _constant, ((30, 77),)),
    Example("segments", _half, ((40, 33),)),
    Example("segments", "tile", ((5, 7),), ([2, 3],)),
    Example("segments", "reshape", ((30, 77),), ([77, 30],)),
    Example("segments", "roll", ((30, 77),), ([3], [1])),
    Example("segments", "sum", ((300_000,),)),
    Example("segments", _inverse, ((77,),)),
    Example("segments", _one_hot, ((40,),)),
    Example("segments", _largest, ((40, 37),)),
    Example("segments", _scattered, ((30, 7), (4,), (4, 7))),
    Example("segments", _table_gradient, ((30, 17), (40,))),
    Example("segments", "matmul", ((64, 100), (90, 64)), (True, True)),
    Example("segments", _conv, ((2, 16, 14, 14), (32, 16, 1, 1)), (1, 0)),
    Example("segments", _conv, ((1, 64, 28, 28), (64, 64, 1, 1)), (1, 0)),
    Example("segments", _conv_layer, (*_IMAGE, (32,))),
    Example("segments", _filter_gradient, ((2, 3, 12, 12), (8, 3, 3, 3))),
    Example("fast", _elementwise, ((512, 1),)),
    Example("fast", _batch_sum, ((512, 1),)),
    Example("fast", _network, ((512, 3), (3, 2), (2, 1))),
    Example("fast", _network, _LAYER),
    Example("fast", _network_gradient, _LAYER),
)
"""Each uses a feature of the code generator that most of the others do not use."""

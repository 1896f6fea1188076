"""The cases of fusion that a partitioner has to decide: small programs, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.place import UNDEFINED
from tests.fusion.random_programs import Array


class Case:
    """A program being built: ``case(1, 2)`` is an input of that shape."""

    def __init__(self) -> None:
        self.program = ProgramOp.build("case")
        self.b = Builder(self.program.block)
        self.inputs: dict[str, Array] = {}

    def __call__(self, *shape: int, dtype: DType = dt.float32, below: int = 0) -> Value:
        name = f"x{len(self.inputs)}"
        state = np.random.default_rng(len(self.inputs))
        drawn = state.integers(0, below, shape) if below else state.standard_normal(shape)
        self.inputs[name] = drawn.astype(dtype.np)
        return self.b("pd_op.data", name=name, shape=shape, dtype=dtype, place=UNDEFINED)

    def open(self, *shape: int) -> Value:
        """An input of unknown sizes, given by their negatives."""
        name = f"x{len(self.inputs)}"
        state = np.random.default_rng(len(self.inputs))
        given = tuple(map(abs, shape))
        self.inputs[name] = state.standard_normal(given).astype(np.float32)
        output = tuple(-1 if n < 0 else n for n in shape)
        return self.b("pd_op.data", name=name, shape=output, dtype=dt.float32, place=UNDEFINED)

    def op(self, name: str, *values: Value, **attrs: object) -> Value:
        return self.b(f"pd_op.{name}", *values, **attrs)

    def relu(self, x: Value) -> Value:
        return self.b("pd_op.maximum", x, self.b.const(0.0, x.dtype))

    def sum(self, x: Value, *axes: int, keep: bool = False) -> Value:
        return self.b.sum(x, axes, keepdim=keep)

    def max(self, x: Value, *axes: int, keep: bool = False) -> Value:
        return self.op("max", x, axis=axes, keepdim=keep)

    def t(self, x: Value, *perm: int) -> Value:
        return self.op("transpose", x, perm=perm or (1, 0))

    def softmax(self, x: Value) -> Value:
        e = self.b.exp(x - self.max(x, -1, keep=True))
        return e / self.sum(e, -1, keep=True)


Build = Callable[[Case], tuple[Value, ...]]
CASES: Final[dict[str, tuple[Build, int, str]]] = {}
"""Name -> what builds it and gives its outputs, how many kernels, kinds of refusals."""


def case(kernels: int, refusals: str = "") -> Callable[[Build], Build]:
    def enter(build: Build) -> Build:
        CASES[build.__name__] = (build, kernels, refusals)
        return build

    return enter


@case(1)
def c01_seed_add_and_sum(c: Case) -> tuple[Value, ...]:
    return (c.sum(c(2, 32, 32) + c(2, 32, 32), 0),)


@case(1)
def c02_seed_unsolvable_is_computed_twice(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(8, 1))
    return (x + c.b.reshape(x, (1, 8)),)


@case(1)
def c03_unsolvable_of_an_input_is_read_twice(c: Case) -> tuple[Value, ...]:
    x = c(8, 1)
    return (x + c.b.reshape(x, (1, 8)),)


@case(1)
def c04_chain(c: Case) -> tuple[Value, ...]:
    return (c.relu(c.b.exp(c(64, 128))),)


@case(1)
def c05_of_an_unknown_size(c: Case) -> tuple[Value, ...]:
    x = c.open(-5, 1)
    return (c.b.exp(x) - x,)


@case(1)
def c06_bias(c: Case) -> tuple[Value, ...]:
    return (c.relu(c(4, 16) + c(16)),)


@case(1)
def c07_transposed(c: Case) -> tuple[Value, ...]:
    return (c.b.exp(c.t(c.relu(c(5, 7)))),)


@case(1)
def c08_sum_with_own_transpose(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(8, 8))
    return (x + c.t(x),)


@case(1)
def c08_dear_sum_with_own_transpose(c: Case) -> tuple[Value, ...]:
    x = c.op("tanh", c.b.exp(c(8, 8)))
    return (x + c.t(x),)


@case(1)
def c08_dear_of_no_multiple_of_tiles(c: Case) -> tuple[Value, ...]:
    x = c.op("tanh", c.b.exp(c(3, 70, 70)))
    return x * c.t(x, 0, 2, 1), x


@case(2, "index-conflict")
def c08_dear_sum_with_own_reverse(c: Case) -> tuple[Value, ...]:
    x = c.op("tanh", c.b.exp(c(8, 8)))
    return (x + c.op("flip", x, axis=[0]),)


@case(1)
def c09_input_with_own_transpose(c: Case) -> tuple[Value, ...]:
    x = c(64, 64)
    return (x + c.t(x),)


@case(1)
def c10_batched_transpose_of_equal_extents(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(3, 6, 6))
    return (x + c.t(x, 0, 2, 1),)


@case(1)
def c11_aligned_reshape(c: Case) -> tuple[Value, ...]:
    return (c.b.exp(c.b.reshape(c.relu(c(2, 3, 4)), (6, 4))),)


@case(1)
def c12_reshape_across_axes(c: Case) -> tuple[Value, ...]:
    return (c.b.exp(c.b.reshape(c.relu(c(6, 4)), (3, 8))),)


@case(1)
def c13_unit_axes(c: Case) -> tuple[Value, ...]:
    x = c.b.reshape(c.relu(c(8, 1)), (1, 8))
    return (c.b.exp(c.b.reshape(x, (8,))),)


@case(1)
def c14_row_sum(c: Case) -> tuple[Value, ...]:
    return (c.sum(c.b.exp(c(32, 2048)), -1),)


@case(1)
def c15_sum_in_the_middle(c: Case) -> tuple[Value, ...]:
    return (c.sum(c.b.exp(c(2, 3, 4)), 1),)


@case(1)
def c16_sum_of_the_first_axis(c: Case) -> tuple[Value, ...]:
    return (c.sum(c.b.exp(c(2, 32, 2048)), 0),)


@case(1)
def c17_sum_of_all(c: Case) -> tuple[Value, ...]:
    return (c.b.reshape(c.sum(c.relu(c(4, 8)), 0, 1), (1,)),)


@case(1)
def c18_rows_that_fill_no_block(c: Case) -> tuple[Value, ...]:
    return (c.sum(c.b.exp(c(64, 128)), 1),)


@case(1)
def c19_epilogue_of_a_sum(c: Case) -> tuple[Value, ...]:
    return (c.relu(c.b.exp(c.sum(c(16, 32), -1))),)


@case(1)
def c20_two_reductions_of_one_value(c: Case) -> tuple[Value, ...]:
    a = c.relu(c(128, 64))
    return c.sum(a, 1), c.max(a, 1)


@case(1)
def c21_two_reductions_of_an_input(c: Case) -> tuple[Value, ...]:
    x = c(2048, 64)
    return c.sum(x, 1), c.max(x, 1)


@case(1)
def c21_two_reductions_of_an_input_over_different_axes(c: Case) -> tuple[Value, ...]:
    x = c(2048, 64)
    return c.sum(x, 1), c.max(x, 0)


@case(2, "stage")
def c22_rows_and_columns_of_much(c: Case) -> tuple[Value, ...]:
    a = c.relu(c(512, 512))
    return c.sum(a, 0), c.sum(a, 1)


@case(1)
def c22_rows_and_columns_of_little(c: Case) -> tuple[Value, ...]:
    a = c.relu(c(4, 8))
    return c.sum(a, 0), c.sum(a, 1)


@case(1)
def c23_softmax(c: Case) -> tuple[Value, ...]:
    return (c.softmax(c(32, 64)),)


@case(1)
def c23_softmax_of_a_sum(c: Case) -> tuple[Value, ...]:
    return (c.softmax(c(2048, 64) + c(2048, 64)),)


@case(1)
def c24_layer_norm(c: Case) -> tuple[Value, ...]:
    x = c(2048, 64)
    d = x - c.sum(x, -1, keep=True) * (1 / 64)
    v = c.sum(d * d, -1, keep=True) * (1 / 64)
    return (d * c.b.rsqrt(v + 1e-5) * c(64) + c(64),)


@case(1)
def c25_sum_without_its_axis(c: Case) -> tuple[Value, ...]:
    x = c(2048, 64)
    return (x / c.b.reshape(c.sum(x, -1), (2048, 1)),)


@case(1)
def c26_spread_to_two_shapes(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(8))
    return x + c(4, 8), c.op("matmul", x + c(6, 8), c(8, 8), transpose_x=False, transpose_y=False)


@case(2)
def c26_spread_to_two_levels(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(8))
    product = c.op("matmul", x + c(6, 8), c(8, 8), transpose_x=False, transpose_y=False)
    return x + c(4, 8), product + c.b.cast(c.b("pd_op.greater_than", x, c(8)), dt.float32)


@case(1)
def c27_two_readers_of_an_input(c: Case) -> tuple[Value, ...]:
    x = c(64, 64)
    return c.b.exp(x), c.relu(x)


@case(1)
def c28_slice(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(4, 12))
    cut = c.op("strided_slice", x, axes=[1], starts=[2], ends=[10], strides=[2])
    return (c.b.exp(cut),)


@case(1)
def c28_slice_of_what_is_read_whole(c: Case) -> tuple[Value, ...]:
    x = c.relu(c(4, 12))
    cut = c.op("strided_slice", x, axes=[1], starts=[2], ends=[10], strides=[2])
    return c.b.exp(cut), x


@case(1)
def c29_concat(c: Case) -> tuple[Value, ...]:
    both = c.b.combine([c.relu(c(4, 3)), c.b.exp(c(4, 5))])
    return (c.b.tanh(c.b("pd_op.concat", both, axis=1)),)


@case(1)
def c30_pad(c: Case) -> tuple[Value, ...]:
    return (c.op("pad", c.relu(c(4, 4)), paddings=[1, 1, 2, 0], pad_value=0.0) + 1.0,)


@case(1)
def c31_embedding(c: Case) -> tuple[Value, ...]:
    ids, table = c(16, dtype=dt.int64, below=50), c(50, 8)
    return (c.sum(c.op("embedding", ids, table) * 0.5, -1),)


@case(2, "stage")
def c32_scatter(c: Case) -> tuple[Value, ...]:
    x, places, updates = c(8, 4), c(6, 1, dtype=dt.int64, below=8), c(6, 4)
    return (c.b.exp(c.op("scatter_nd_add", x, places, updates * 2.0)) + 1.0,)


@case(2)
def c33_matmul_between(c: Case) -> tuple[Value, ...]:
    product = c.op("matmul", c.relu(c(8, 8)) + 1.0, c(8, 8), transpose_x=False, transpose_y=False)
    return (c.b.tanh(product + c(8)),)


@case(1)
def c33_softmax_of_a_matmul(c: Case) -> tuple[Value, ...]:
    product = c.op("matmul", c(8, 8), c(8, 8), transpose_x=False, transpose_y=False)
    return (c.softmax(product),)


@case(2)
def c34_cycle_through_a_library_op(c: Case) -> tuple[Value, ...]:
    a = c.b.exp(c(8, 8)) + 1.0
    b = c.op("matmul", a, a, transpose_x=False, transpose_y=False)
    return (c.relu(a + b),)


@case(1)
def c35_two_unknown_sizes(c: Case) -> tuple[Value, ...]:
    return (c.b.exp(c.open(-1, 4) + c.open(-6, 4)),)


@case(1)
def c36_layer_norm_backward(c: Case) -> tuple[Value, ...]:
    x, dy, w, mean, rstd = c(2048, 64), c(2048, 64), c(64), c(2048, 1), c(2048, 1)
    n = (x - mean) * rstd
    g = dy * w
    dx = (g - (c.sum(g, -1, keep=True) + n * c.sum(g * n, -1, keep=True)) * (1 / 64)) * rstd
    return dx, c.sum(dy * n, 0), c.sum(dy, 0)


@case(10, "limit")
def c37_many_inputs(c: Case) -> tuple[Value, ...]:
    total = c(2, 2)
    for _ in range(599):
        total = total + c(2, 2)
    return (total,)


@case(1)
def c38_element_types(c: Case) -> tuple[Value, ...]:
    x, y = c(4, 5, dtype=dt.float16), c(4, 5, dtype=dt.int32, below=3)
    wide = c.b.cast(x, dt.float64) + c.b.cast(y, dt.float64)
    return (c.op("logical_not", c.b.cast(wide * 0.5, dt.bool_)),)


@case(1)
def c38_rank_zero(c: Case) -> tuple[Value, ...]:
    return (c.b.exp(c()) + c(),)


@case(1)
def c38_no_elements(c: Case) -> tuple[Value, ...]:
    return (c.b.exp(c(0, 5)) + 1.0,)


@case(1)
def c38_no_elements_repeated(c: Case) -> tuple[Value, ...]:
    return (c.op("tile", c.b.exp(c(0, 3)), repeat_times=[2, 2]) + 1.0,)


@case(0)
def c39_written_in_place(c: Case) -> tuple[Value, ...]:
    x, y = c.b.exp(c(4, 4)), c(4, 4)
    view = c.op("share_data", x)
    return c.b("pd_op.add_", x, y), c.b.tanh(view)


@case(1)
def c40_spread_along_the_first_axis(c: Case) -> tuple[Value, ...]:
    column = c.b.reshape(c.relu(c(4)), (4, 1))
    return (c.b.exp(c.op("expand", column, shape=(4, 8))),)


def built(name: str) -> tuple[Case, ProgramOp]:
    """A case and its program."""
    c = Case()
    for k, value in enumerate(CASES[name][0](c)):
        c.b("pir.shadow_output", value, output_name=f"y{k}")
    return c, c.program

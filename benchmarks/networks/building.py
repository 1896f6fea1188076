"""What networks are made of, spelt as Paddle's exports spell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import ProgramOp, create
from pirkit.dialect.types import type_of
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import Recorder
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Built:
    """A program with its weights, and inputs by name."""

    program: Program
    inputs: dict[str, Array]


class Net:
    """A program in the making. Values are those of `pirkit.ops`."""

    def __init__(self, seed: int = 0) -> None:
        self.main = ProgramOp.build("main")
        self.b = Recorder(self.main)
        self.random = np.random.default_rng(seed)
        self.params: dict[str, Array] = {}
        self.inputs: dict[str, Array] = {}

    def built(self, *results: Any) -> Built:
        for k, result in enumerate(results):
            self.b("pir.shadow_output", result, output_name=f"y{k}")
        return Built(Program(ModuleOp([self.main]), self.params, "<network>"), self.inputs)

    def input(self, name: str, shape: Sequence[int], below: int | None = None) -> Any:
        """Normal numbers, or integers below a bound."""
        if below is None:
            found = self.random.standard_normal(shape).astype(np.float32)
        else:
            found = self.random.integers(0, below, shape)
        self.inputs[name] = found
        return self.b.input(
            name, TensorMeta(tuple(shape), dt.float32 if below is None else dt.int64)
        )

    def weight(self, shape: Sequence[int], fan: int = 0, middle: float = 0.0) -> Any:
        """A parameter around ``middle``, as wide as ``fan`` elements that are added up allow."""
        values = self.random.standard_normal(shape) * (fan**-0.5 if fan else 0.1) + middle
        return self.parameter(values.astype(np.float32))

    def parameter(self, values: Array) -> Any:
        name = f"w_{len(self.params)}"
        self.params[name] = values
        types = [type_of(TensorMeta(values.shape, dt.float32))]
        properties = {"parameter_name": encode("str", name)}
        return self.b.results(self.b.insert(create("pir.parameter", [], types, properties)))

    def ints(self, *values: int) -> Any:
        return self.b.integers(values)

    def full(self, value: float, dtype: DType = dt.float32) -> Any:
        return self.b("pd_op.full", shape=(1,), value=value, dtype=dtype)

    # --- layers ---

    def conv(
        self, x: Any, out: int, size: Any = 1, stride: Any = 1, pad: Any = None, groups: int = 1,
        bias: bool = False,
    ) -> Any:  # fmt: skip
        (kh, kw), strides = _pair(size), _pair(stride)
        pads = _pair(pad) if pad is not None else (kh // 2, kw // 2)
        depth = x.shape[1] // groups
        w = self.weight((out, depth, kh, kw), depth * kh * kw // 2 or 1)
        op = "pd_op.depthwise_conv2d" if 1 < groups == x.shape[1] else "pd_op.conv2d"
        rest = {"groups": groups, "dilations": (1, 1), "data_format": "NCHW"}
        y = self.b(op, x, w, strides=strides, paddings=pads, padding_algorithm="EXPLICIT", **rest)
        return self.biased(y, out) if bias else y

    def biased(self, y: Any, out: int) -> Any:
        return y + self.b("pd_op.reshape", self.weight((out,)), shape=self.ints(1, -1, 1, 1))

    def upconv(self, x: Any, out: int) -> Any:
        w = self.weight((x.shape[1], out, 2, 2), x.shape[1])
        y = self.b(
            "pd_op.conv2d_transpose", x, w, output_size=self.ints(), strides=(2, 2),
            paddings=(0, 0), output_padding=(), padding_algorithm="EXPLICIT", groups=1,
            dilations=(1, 1), data_format="NCHW",
        )  # fmt: skip
        return self.biased(y, out)

    def norm(self, x: Any) -> Any:
        """Batch norm in inference, as exports have it: it is said to write its statistics."""
        n = x.shape[1]
        wide = self.parameter((self.random.random(n) + 0.5).astype(np.float32))
        statistics = self.weight((n,)), wide
        found = self.b(
            "pd_op.batch_norm_", x, *statistics, self.weight((n,), middle=1.0), self.weight((n,)),
            is_test=True, momentum=0.9, epsilon=1e-5, data_format="NCHW", use_global_stats=True,
            trainable_statistics=False,
        )  # fmt: skip
        return found[0]

    def pool(
        self, x: Any, size: int, stride: int, pad: int = 0, kind: str = "max", ceil: bool = False
    ) -> Any:
        return self._pool(x, size, (stride, stride), (pad, pad), kind, ceil, adaptive=False)

    def _pool(
        self, x: Any, size: int, strides: Any, pads: Any, kind: str, ceil: bool, *, adaptive: bool
    ) -> Any:
        return self.b(
            "pd_op.pool2d", x, kernel_size=self.ints(size, size), strides=strides, paddings=pads,
            ceil_mode=ceil, exclusive=True, data_format="NCHW", pooling_type=kind,
            global_pooling=False, adaptive=adaptive, padding_algorithm="EXPLICIT",
        )  # fmt: skip

    def average(self, x: Any) -> Any:
        """The adaptive pool to one element for each channel."""
        return self._pool(x, 1, (1, 1), (0, 0), "avg", ceil=False, adaptive=True)

    def linear(self, x: Any, out: int) -> Any:
        depth = x.shape[-1]
        y = self.b(
            "pd_op.matmul", x, self.weight((depth, out), depth), transpose_x=False,
            transpose_y=False,
        )  # fmt: skip
        return y + self.weight((out,))

    def dropout(self, x: Any, p: float = 0.1) -> Any:
        kept = {"is_test": True, "mode": "upscale_in_train", "seed": 0, "fix_seed": False}
        return self.b("pd_op.dropout", x, None, p=self.full(p), **kept)[0]

    def head(self, x: Any, classes: int) -> Any:
        """Average, flatten, linear."""
        return self.linear(self.b.flatten(self.average(x), start_axis=1, stop_axis=3), classes)

    def layer_norm(self, x: Any) -> Any:
        n = x.shape[-1]
        rest = {"begin_norm_axis": x.rank - 1, "epsilon": 1e-5}
        return self.b(
            "pd_op.layer_norm", x, self.weight((n,), middle=1.0), self.weight((n,)), **rest
        )[0]

    def embedding(self, tokens: Any, count: int, width: int) -> Any:
        table = self.weight((count, width), middle=0.0)
        return self.b("pd_op.embedding", tokens, table, padding_idx=-1, sparse=False)

    def concat(self, parts: Sequence[Any], axis: int = 1) -> Any:
        return self.b("pd_op.concat", list(parts), axis=self.full(axis, dt.int32))

    def heads(self, x: Any, count: int) -> Any:
        n, length, width = x.shape
        x = self.b("pd_op.reshape", x, shape=self.ints(n, length, count, width // count))
        return self.b.transpose(x, perm=(0, 2, 1, 3))

    def attention(self, x: Any, count: int, memory: Any = None) -> Any:
        """Several heads, with the weights of all of them in one matrix each."""
        n, length, width = x.shape
        source = x if memory is None else memory
        q, k, v = (self.heads(self.linear(s, width), count) for s in (x, source, source))
        scores = self.b.scale(q, scale=(width // count) ** -0.5)
        scores = self.b("pd_op.matmul", scores, k, transpose_x=False, transpose_y=True)
        weights = self.dropout(self.b.softmax(scores, axis=-1))
        y = self.b("pd_op.matmul", weights, v, transpose_x=False, transpose_y=False)
        y = self.b.transpose(y, perm=(0, 2, 1, 3))
        return self.linear(self.b("pd_op.reshape", y, shape=self.ints(n, length, width)), width)

    def lstm(self, x: Any, hidden: int, ways: int = 1) -> Any:
        """Sequences ``[length, batch, width]`` go through a layer, in one direction or both."""
        _, n, width = x.shape
        start = [self.b("pd_op.full", shape=(ways, n, hidden), value=0.0, dtype=dt.float32)] * 2
        shapes = ((4 * hidden, width), (4 * hidden, hidden))
        matrices = [self.weight(s, hidden) for _ in range(ways) for s in shapes]
        biases = [self.weight((4 * hidden,)) for _ in range(2 * ways)]
        return self.b(
            "pd_op.rnn", x, start, [*matrices, *biases], None, self.full(0.0), dropout_prob=0.0,
            is_bidirec=ways == 2, input_size=width, hidden_size=hidden, num_layers=1, mode="LSTM",
            seed=0, is_test=True,
        )[0]  # fmt: skip


def _pair(n: Any) -> tuple[int, int]:
    return (n, n) if isinstance(n, int) else n

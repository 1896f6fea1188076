"""The networks as modules of torch: each op of a program is a call of what users of torch call.

Only what the networks have: another op or attribute is a KeyError. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any, Final

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional as F

import pirkit
from benchmarks.networks.building import Built
from pirkit.dialect.opdef import reference
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of

Emit = Callable[["_Writer", PirOp, list[Any]], Any]
"""From an op and its operands, None where it has none, to its first result."""


def module_of(built: Built) -> fx.GraphModule:
    """A module whose `forward` takes the inputs in the order of ``built.inputs``."""
    program = pirkit.run_passes(built.program, "@simplify")
    writer = _Writer({k: torch.from_numpy(v) for k, v in program.params.items()})
    for name in built.inputs:
        writer.inputs[name] = writer.graph.placeholder(name)
    for op in program.entry(None).operations:
        writer.add(op)
    return fx.GraphModule(writer.root, writer.graph).eval()


class _Writer:
    """A graph of torch in the making; ``values`` are nodes, tuples of them, or Python's numbers."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.root, self.graph, self.weights = nn.Module(), fx.Graph(), weights
        self.inputs: dict[str, fx.Node] = {}
        self.values: dict[Any, Any] = {}

    def call(self, function: Callable[..., Any], *args: Any, **rest: Any) -> fx.Node:
        return self.graph.call_function(function, args, rest)

    def held(self, name: str, tensor: torch.Tensor) -> fx.Node:
        """A tensor of the module."""
        self.root.register_buffer(name, tensor)
        return self.graph.get_attr(name)

    def add(self, op: PirOp) -> None:
        given = [None if v is None else self.values[v] for v in op.operand_slots]
        if op.name == "pir.shadow_output":
            if op.attribute("output_name") == "y0":
                self.graph.output(given[0])
            return
        found = _OPS[op.name](self, op, given)
        first = next(r for r in op.result_slots if r is not None)
        self.values[first] = found


def _parameter(w: _Writer, op: PirOp, _: list[Any]) -> Any:
    name = op.attribute("parameter_name")
    return w.held(name, w.weights[name])


def _constant(w: _Writer, op: PirOp, _: list[Any]) -> Any:
    """A constant, by the rule of the op."""
    values = reference.get(op.definition)(**op.attribute_values())
    return w.held(f"constant_{len(w.values)}", torch.from_numpy(np.asarray(values)))


def _conv(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    name = (F.conv2d, F.conv_transpose2d)["transpose" in op.name]
    pads = tuple(op.attribute("paddings"))
    strides, dilations = tuple(op.attribute("strides")), tuple(op.attribute("dilations"))
    rest = {"groups": op.attribute("groups"), "dilation": dilations}
    return w.call(name, *given[:2], stride=strides, padding=pads, **rest)


def _norm(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    x, mean, variance, scale, bias = given
    epsilon = op.attribute("epsilon")
    return w.call(F.batch_norm, x, mean, variance, scale, bias, training=False, eps=epsilon)


def _pool(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    size, ceil = tuple(op.attribute("kernel_size")), op.attribute("ceil_mode")
    if op.attribute("adaptive"):
        return w.call(F.adaptive_avg_pool2d, given[0], size)
    strides, pads = tuple(op.attribute("strides")), tuple(op.attribute("paddings"))
    if op.attribute("pooling_type") == "max":
        return w.call(F.max_pool2d, given[0], size, strides, pads, ceil_mode=ceil)
    counted = not op.attribute("exclusive")
    return w.call(F.avg_pool2d, given[0], size, strides, pads, ceil, counted)


def _matmul(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    x, y = (
        w.call(torch.transpose, v, -1, -2) if op.attribute(f"transpose_{n}") else v
        for n, v in zip("xy", given, strict=True)
    )
    return w.call(torch.matmul, x, y)


def _layer_norm(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    x, scale, bias = given
    size = meta_of(op.operands[0].type).shape[op.attribute("begin_norm_axis") :]
    return w.call(F.layer_norm, x, size, scale, bias, op.attribute("epsilon"))


def _slice(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    (axis,), (start,), (end,) = (op.attribute(n) for n in ("axes", "starts", "ends"))
    if op.attribute("decrease_axis"):
        return w.call(torch.select, given[0], axis, start)
    return w.call(torch.narrow, given[0], axis, start, end - start)


def _rnn(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    x, states, weights = given[:3]
    cells = len(weights) // 4
    flat = [weights[2 * k + at] for k in range(cells) for at in (0, 1, 2 * cells, 2 * cells + 1)]
    found = w.call(torch.lstm, x, list(states), flat, True, op.attribute("num_layers"), 0.0, False,
                   op.attribute("is_bidirec"), False)  # fmt: skip
    return w.call(getitem, found, 0)


def _interp(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    size = meta_of(op.results[0].type).shape[2:]
    align = op.attribute("align_corners")
    return w.call(F.interpolate, given[0], size, mode="bilinear", align_corners=align)


def _called(function: Callable[..., Any], **names: str) -> Emit:
    """A call with the operands, and attributes by their names in torch."""

    def emit(w: _Writer, op: PirOp, given: list[Any]) -> Any:
        return w.call(function, *given, **{k: op.attribute(a) for k, a in names.items()})

    return emit


def _parts(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    return w.call(torch.chunk, given[0], op.attribute("num"), op.attribute("axis"))


def _item(w: _Writer, op: PirOp, given: list[Any]) -> Any:
    at, items = op.attribute("index"), given[0]
    return items[at] if isinstance(items, tuple) else w.call(getitem, items, at)


_OPS: Final[dict[str, Emit]] = {
    "pir.parameter": _parameter,
    "pd_op.data": lambda w, op, _: w.inputs[op.attribute("name")],
    "pd_op.full": _constant,
    "pd_op.full_int_array": _constant,
    "pir.combine": lambda w, op, given: tuple(given),
    "pir.slice": _item,
    "pd_op.conv2d": _conv,
    "pd_op.depthwise_conv2d": _conv,
    "pd_op.conv2d_transpose": _conv,
    "pd_op.batch_norm_": _norm,
    "pd_op.pool2d": _pool,
    "pd_op.relu": _called(F.relu),
    "pd_op.relu6": _called(F.relu6),
    "pd_op.hardswish": _called(F.hardswish),
    "pd_op.hardsigmoid": _called(F.hardsigmoid),
    "pd_op.tanh": _called(torch.tanh),
    "pd_op.add": _called(torch.add),
    "pd_op.multiply": _called(torch.mul),
    "pd_op.softmax": _called(F.softmax, dim="axis"),
    "pd_op.gelu": lambda w, op, given: w.call(F.gelu, given[0]),
    "pd_op.dropout": lambda w, op, given: given[0],
    "pd_op.scale": lambda w, op, given: w.call(torch.mul, given[0], op.attribute("scale")),
    "pd_op.reshape": lambda w, op, given: w.call(
        torch.reshape, given[0], tuple(op.attribute("shape"))
    ),
    "pd_op.transpose": lambda w, op, given: w.call(
        torch.permute, given[0], tuple(op.attribute("perm"))
    ),
    "pd_op.concat": lambda w, op, given: w.call(torch.cat, list(given[0]), op.attribute("axis")),
    "pd_op.split_with_num": _parts,
    "pd_op.slice": _slice,
    "pd_op.flatten": _called(torch.flatten, start_dim="start_axis", end_dim="stop_axis"),
    "pd_op.mean": lambda w, op, given: w.call(
        torch.mean, given[0], tuple(op.attribute("axis")), op.attribute("keepdim")
    ),
    "pd_op.matmul": _matmul,
    "pd_op.layer_norm": _layer_norm,
    "pd_op.embedding": lambda w, op, given: w.call(F.embedding, *given),
    "pd_op.rnn": _rnn,
    "pd_op.bilinear_interp": _interp,
}


def inputs_of(built: Built) -> Sequence[torch.Tensor]:
    return [torch.from_numpy(v) for v in built.inputs.values()]

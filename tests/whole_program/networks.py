"""Programs as people who solve differential equations write them, and what they should give."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import pirkit
from pirkit import ops
from pirkit.frontend.compile import run_passes
from pirkit.frontend.native_compile import GRADIENTS
from pirkit.frontend.tracing import trace
from pirkit.frontend.tree import flatten
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.choose_form import SEPARATE
from pirkit.lowering.whole_program.op_graph import Graph, graph_of

Array = np.ndarray[Any, Any]


def network(params: Any, x: Any) -> Any:
    for w, b in params[:-1]:
        x = ops.tanh(ops.add(ops.matmul(x, w), b))
    return ops.add(ops.matmul(x, params[-1][0]), params[-1][1])


def beam_loss(params: Any, x: Any, first: Any) -> Any:
    one, zero = ops.full_like(x, 1.0), ops.full_like(x, 0.0)
    u, (u1, u2, _) = pirkit.jet(lambda y: network(params, y), (x,), ((one, zero, zero),))
    return ((u2 + 1.0) ** 2).mean() + (first * (u * u + u1 * u1)).sum()


def step(params: Any, moments: Any, x: Any, first: Any) -> Any:
    """A step of an optimizer: the loss, the gradients, the new weights and moments."""
    loss, gradients = pirkit.value_and_grad(beam_loss)(params, x, first)
    new_params, new_moments = [], []
    for weights, given, held in zip(params, gradients, moments, strict=True):
        made = [m * 0.9 + g * 0.1 for m, g in zip(held, given, strict=True)]
        updates = [m / (ops.sqrt(m * m) + 1e-3) for m in made]
        new_moments.append(made)
        new_params.append([w - u * 1e-2 for w, u in zip(weights, updates, strict=True)])
    return loss, gradients, new_params, new_moments


def step_arguments(points: int, sizes: Sequence[int], dtype: str = "float32") -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    params = [
        (rng.standard_normal((a, b)).astype(dtype) * 0.7, rng.standard_normal(b).astype(dtype))
        for a, b in pairwise(sizes)
    ]
    moments = [tuple(0.1 * rng.standard_normal(w.shape).astype(dtype) for w in p) for p in params]
    x = np.linspace(-1, 1, points, dtype=dtype)[:, None]
    first = np.zeros_like(x)
    first[0] = 1
    return params, moments, x, first


def graph(function: Any, arguments: Sequence[Any]) -> Graph:
    program = run_passes(
        trace(function, arguments).program, f"taylor,expand-gradients,@simplify,{SEPARATE}"
    )
    return graph_of(write_plan(program.entry(None)))


def expected(function: Any, arguments: Sequence[Any]) -> list[Array]:
    """By the reference rules."""
    program = trace(function, arguments).program
    exe = pirkit.compile(program, backend="reference", pipeline=f"{GRADIENTS},@simplify")
    leaves, _ = flatten(tuple(arguments))
    found = exe.run({f"x{k}": v for k, v in enumerate(leaves)})
    return [found[f"y{k}"] for k in range(len(found))]


def leaves_of(arguments: Sequence[Any]) -> list[Array]:
    return [np.ascontiguousarray(leaf) for leaf in flatten(tuple(arguments))[0]]


def assert_close(found: Sequence[Array], wanted: Sequence[Array], tolerance: float) -> None:
    assert len(found) == len(wanted)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), number
        scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0.0)), 1e-3)
        np.testing.assert_allclose(
            a / scale, b / scale, rtol=0, atol=tolerance, err_msg=f"{number}"
        )

"""Linear layers and batch norm, which capture records as one op, where torch does what it knows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.comparing import torch  # isort: skip
from pirkit.torch.capture import capture

linear: Any = torch.nn.functional.linear
batch_norm: Any = torch.nn.functional.batch_norm
DRAW: Any = torch.Generator().manual_seed(5)


def drawn(*shape: int, dtype: Any = torch.float64) -> Any:
    return torch.randn(*shape, generator=DRAW, dtype=torch.float64).to(dtype)


def targets(function: Any, *args: Any) -> list[str]:
    graph = torch.fx.symbolic_trace(function)
    found = capture(graph, args).graph.nodes
    return [str(n.target) for n in found if n.op == "call_function"]


def compared(function: Any, *args: Any) -> None:
    """Values, gradients and second gradients are those of eager."""
    found: list[list[Any]] = []
    for call in (function, torch.compile(function, backend="pirkit")):
        given = [a.clone().requires_grad_() for a in args]
        value = call(*given)
        first = torch.autograd.grad(value.square().sum(), given, create_graph=True)
        total = torch.stack([g.square().sum() for g in first]).sum()
        second = torch.autograd.grad(total, given)
        found.append([value, *first, *second])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


SHAPES = {"matrix": (4, 3), "batch": (2, 4, 3), "images": (2, 2, 4, 3), "vector": (3,)}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    args = [drawn(*shape), drawn(5, 3), *([drawn(5)] if bias else [])]
    compared(linear, *args)


def test_each_is_one_op() -> None:
    x, weight, bias, statistics = drawn(4, 3), drawn(3, 3), drawn(3), drawn(3).abs()

    def call(x: Any, weight: Any, bias: Any) -> Any:
        return batch_norm(linear(x, weight, bias), statistics, statistics)

    names = ["pirkit.linear.default", "pirkit.batch_norm.default"]
    assert targets(call, x, weight, bias) == names


def test_linear_of_strided_operands() -> None:
    compared(lambda x, w: linear(x.transpose(0, 1), w.t()), drawn(2, 4, 3), drawn(3, 5))


@pytest.mark.parametrize("shapes", [((2, 4, 3), (2, 3, 5)), ((2, 2, 4, 3), (2, 2, 3, 5))])
def test_a_product_of_batches_is_one_op(shapes: Any) -> None:
    x, y = (drawn(*shape) for shape in shapes)
    assert targets(lambda x, y: x @ y, x, y) == ["pirkit.matmul.default"]
    compared(lambda x, y: torch.matmul(x, y.transpose(-1, -2).contiguous().mT), x, y)
    compared(lambda x, y: x.transpose(0, 1).transpose(0, 1).matmul(y), x, y)


@pytest.mark.parametrize(
    "shapes", [((2, 4, 3), (3, 5)), ((2, 1, 4, 3), (1, 2, 3, 5)), ((4, 3), (2, 3, 5)), ((3,), (3,))]
)
def test_other_products_are_those_of_torch(shapes: Any) -> None:
    x, y = (drawn(*shape) for shape in shapes)
    assert "pirkit.matmul.default" not in targets(lambda x, y: x @ y, x, y)
    compared(lambda x, y: x @ y, x, y)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_in_inference(affine: bool) -> None:
    mean, variance = drawn(3), drawn(3).abs() + 0.5
    weights = (drawn(3), drawn(3)) if affine else ()
    compared(lambda x, *w: batch_norm(x, mean, variance, *w), drawn(2, 3, 4, 4), *weights)


def test_batch_norm_of_half_precision_and_channels_last() -> None:
    x = drawn(2, 3, 4, 4, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    mean, variance = drawn(3, dtype=torch.float32), drawn(3, dtype=torch.float32).abs() + 0.5
    found = torch.compile(batch_norm, backend="pirkit")(x, mean, variance)
    expected = batch_norm(x, mean, variance)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)


def test_autocast_casts_a_linear_layer() -> None:
    x, weight = drawn(4, 3, dtype=torch.float32), drawn(5, 3, dtype=torch.float32)

    def call(x: Any, weight: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return linear(x, weight)

    found = torch.compile(call, backend="pirkit")(x, weight)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found, call(x, weight), rtol=2e-2, atol=2e-2)


def test_transforms_see_the_parts() -> None:
    x, weight = drawn(4, 3), drawn(5, 3)

    def call(x: Any, weight: Any) -> Any:
        rows = torch.func.vmap(lambda r: linear(r[None], weight).sin().sum())(x)
        return rows + torch.func.grad(lambda w: linear(x, w).sin().sum())(weight).sum()

    compared(call, x, weight)


@pytest.mark.parametrize("weight", [drawn(5, 2), drawn(5, 3, dtype=torch.float32)], ids=str)
def test_what_torch_refuses_is_refused(weight: Any) -> None:
    with pytest.raises(RuntimeError):
        torch.compile(linear, backend="pirkit")(drawn(4, 3), weight)

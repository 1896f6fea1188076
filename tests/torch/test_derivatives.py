"""Derivatives of any order through a compiled function."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import pirkit.torch  # noqa: E402  registers the backend

F64 = torch.float64
FUNCTIONS = {
    "tanh": lambda x: x.tanh(),
    "softmax": lambda x: x.softmax(1),
    "group_norm": lambda x: F.group_norm(x, 2),
    "matmul": lambda x: x @ x.t(),
    "logsumexp": lambda x: x.logsumexp(1),
    "indices": lambda x: x[:, [0, 2]] * x[:, 1:3],
    "where": lambda x: torch.where(x > 0, x.exp(), x * x),
    "norm": lambda x: x.norm(dim=1),
    "torch computes it": lambda x: torch.special.erfcx(x),
    "cat": lambda x: torch.cat([x.sin(), x * x], 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str) -> None:
    compiled = torch.compile(FUNCTIONS[name], backend="pirkit", fullgraph=True)
    x = torch.randn(3, 4, dtype=F64, requires_grad=True)
    found = []
    for function in (FUNCTIONS[name], compiled):
        torch.manual_seed(5)
        y = function(x.sin())
        (g,) = torch.autograd.grad(y, x, torch.rand_like(y), create_graph=True)
        (h,) = torch.autograd.grad(g, x, torch.rand_like(g), create_graph=True)
        (third,) = torch.autograd.grad(h, x, torch.rand_like(h))
        found.append((y, g, h, third))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def _loss(x: Any, w: Any) -> Any:
    (force,) = torch.func.grad(lambda x: (x @ w).tanh().square().sum())(x).sum(0, keepdim=True)
    return force.square().mean() + (x @ w).mean()


def test_loss_computes_its_gradients_at_once() -> None:
    """Gradients of one number are scaled by its cotangent, as often as somebody asks for them."""
    compiled = torch.compile(_loss, backend="pirkit", fullgraph=True)
    x, w = (torch.randn(3, 3, dtype=F64, requires_grad=True) for _ in range(2))
    found = []
    for function in (_loss, compiled):
        y = function(x, w)
        first = torch.autograd.grad(y, (x, w), torch.tensor(3.0, dtype=F64), retain_graph=True)
        held = [g.clone() for g in first]
        for g in first:
            g.zero_()  # as an optimizer may do with what it is given
        again = torch.autograd.grad(-2.0 * y, (x, w), create_graph=True)
        (second,) = torch.autograd.grad(sum(g.square().sum() for g in again), x)
        found.append((y, *held, *again, second))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


class _Clipped(torch.autograd.Function):
    """A derivative that is not linear in the cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clamp(-0.3, 0.3) * g.abs()


@pytest.mark.parametrize(
    ("loss", "dtype"),
    [
        (lambda x: (_Clipped.apply(x) ** 2).sum(), F64),
        (lambda x: (x.conj() * x * x).sum(), torch.complex128),
        (lambda x: (x * x * torch.arange(5) * (1 + 2j)).sum(), F64),
    ],
)
def test_gradients_that_are_not_linear_in_the_cotangent_of_a_loss(loss: Any, dtype: Any) -> None:
    x = torch.randn(5, dtype=dtype, requires_grad=True)
    found = []
    for function in (loss, torch.compile(loss, backend="pirkit")):
        y = function(x)
        factor = torch.tensor(0.3 - 2j if y.is_complex() else -2.3, dtype=y.dtype)
        (first,) = torch.autograd.grad(y, x, factor, create_graph=True)
        (second,) = torch.autograd.grad(first.abs().square().sum(), x)
        found.append((y, first, second))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_second_derivatives_at_what_the_call_overwrites() -> None:
    def wave(x: Any) -> Any:
        x.mul_(2.0)
        x[0].sin_()
        return x.sum()

    a = torch.randn(3, 4, dtype=F64, requires_grad=True)
    found = []
    for function in (wave, torch.compile(wave, backend="pirkit")):
        b = a * 1.0
        y = function(b) * b.sum()
        (first,) = torch.autograd.grad(y, a, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), a)
        found.append((y, b, first, second))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_loss_saves_no_more_than_its_gradients() -> None:
    def deep(x: Any) -> Any:
        for _ in range(6):
            x = x.tanh() * x
        return x.sum()

    (graph,) = pirkit.torch.explain(deep, torch.randn(8, 16, requires_grad=True)).graphs
    assert graph.saved == 8 * 16 * 4
    scaled = torch.randn(8, 16, dtype=torch.float16, requires_grad=True)
    (graph,) = pirkit.torch.explain(deep, scaled).graphs
    assert graph.saved is not None  # a scaled cotangent goes through all of the backward
    assert graph.saved > 8 * 16 * 2


def test_third_derivative_of_layer_norm() -> None:
    """That of its parts; torch's own double backward takes the mean for a constant."""

    def parts(x: Any) -> Any:
        gap = x - x.mean(1, keepdim=True)
        return gap / ((gap * gap).mean(1, keepdim=True) + 1e-5).sqrt()

    x = torch.randn(3, 4, dtype=F64, requires_grad=True)
    found = []
    for function in (parts, torch.compile(lambda x: F.layer_norm(x, (4,)), backend="pirkit")):
        torch.manual_seed(5)
        y = function(x)
        for _ in range(3):
            (y,) = torch.autograd.grad(y, x, torch.rand_like(y), create_graph=True)
        found.append(y)
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)


def test_gradgradcheck() -> None:
    compiled = torch.compile(lambda x, w: (x @ w).tanh().softmax(1), backend="pirkit")
    x, w = (torch.randn(*s, dtype=F64, requires_grad=True) for s in ((2, 3), (3, 3)))
    assert torch.autograd.gradgradcheck(compiled, (x, w))


def test_a_step_on_forces() -> None:
    """An energy by a network, forces as its derivative, a loss on both."""
    nets = [torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
            for _ in range(2)]  # fmt: skip
    nets[1].load_state_dict(nets[0].state_dict())
    places, wanted = torch.randn(5, 3), torch.randn(5, 3)
    for net in nets:
        energy = torch.compile(net, backend="pirkit") if net is nets[1] else net
        x = places.clone().requires_grad_()
        e = energy(x).sum()
        (force,) = torch.autograd.grad(-e, x, create_graph=True)
        (F.mse_loss(force, wanted) + e.square()).backward()
    for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-6)


def test_dropout_has_one_mask_in_all_derivatives() -> None:
    x = torch.randn(20, 3, dtype=F64, requires_grad=True)
    found = []
    for function in (f := lambda x: F.dropout(x**3, 0.5), torch.compile(f, backend="pirkit")):
        torch.manual_seed(7)
        (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.square().sum(), x)
        found.append((g, h))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a)


def test_retain_graph_and_outputs_without_a_cotangent() -> None:
    compiled = torch.compile(lambda x: (x * x, x.sin(), x.sum()), backend="pirkit")
    x = torch.randn(4, requires_grad=True)
    a, b, _ = compiled(x)
    (once,) = torch.autograd.grad(a.sum(), x, retain_graph=True)
    (again,) = torch.autograd.grad(a.sum(), x, retain_graph=True)
    (other,) = torch.autograd.grad(b.sum(), x)
    torch.testing.assert_close(once, 2 * x)
    torch.testing.assert_close(again, once)
    torch.testing.assert_close(other, x.cos())


def test_what_no_used_result_depends_on_gets_no_gradient() -> None:
    """None, not zeros, by which an optimizer would decay a parameter."""
    compiled = torch.compile(lambda x, y: (x.sin(), y * 2, x * y), backend="pirkit")
    x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
    results = compiled(x, y)
    assert torch.autograd.grad(results[0].sum(), (x, y), allow_unused=True)[1] is None
    (_, seen) = torch.autograd.grad(
        compiled(x, y)[1].sum(), (x, y), allow_unused=True, create_graph=True
    )
    torch.testing.assert_close(seen, torch.full((3,), 2.0))
    torch.testing.assert_close(
        torch.autograd.grad(compiled(x, y)[2].sum(), (x, y)), (y.detach(), x.detach())
    )


def test_a_write_between_forward_and_second_derivative_is_refused() -> None:
    compiled = torch.compile(lambda x, w: (x * w).tanh(), backend="pirkit")
    x, w = torch.randn(3, requires_grad=True), torch.randn(3)
    y = compiled(x, w)
    w.add_(1)
    with pytest.raises(Exception, match=r"PK0907|modified by an inplace operation"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_derivatives_of_torch() -> None:
    compiled: Any = torch.compile(
        lambda x: F.gelu(x).softmax(1), backend="pirkit", options={"autograd": "torch"}
    )
    x = torch.randn(3, 4, requires_grad=True)
    (found,) = torch.autograd.grad(compiled(x).square().sum(), x)
    (expected,) = torch.autograd.grad(F.gelu(x).softmax(1).square().sum(), x)
    torch.testing.assert_close(found, expected)


AT_ZEROS = {
    "hypot": torch.hypot,
    "xlogy": lambda x, y: torch.xlogy(x, y.abs() + 1),
    "xlog1py": lambda x, y: torch.special.xlog1py(x, y.abs() + 1),
    "std": lambda x, y: torch.stack([x, y * y]).std(0),
    "std_mean": lambda x, y: torch.std_mean(torch.stack([x * y, x]), 0)[0],
    "logaddexp": torch.logaddexp,
    "fmod": lambda x, y: torch.fmod(x * x + x, y.abs() + 3),
    "norm": lambda x, y: torch.stack([x, y + 1]).norm(dim=0),
}


@pytest.mark.parametrize("name", AT_ZEROS)
def test_derivatives_at_zeros_and_at_equal_operands(name: str) -> None:
    function, found = AT_ZEROS[name], []
    x = torch.tensor([0.0, 0.0, 3.0, -4.0, 2.0], dtype=F64, requires_grad=True)
    y = torch.tensor([1.0, -2.0, 4.0, 0.0, 2.0], dtype=F64, requires_grad=True)
    weights = torch.arange(1.0, 6.0, dtype=F64)
    for called in (function, torch.compile(function, backend="pirkit", fullgraph=True)):
        firsts = torch.autograd.grad(called(x, y), (x, y), weights, create_graph=True)
        total = (firsts[0] * weights).sum() + (firsts[1] * weights).sum() + 0 * (x + y).sum()
        found.append([*firsts, *torch.autograd.grad(total, (x, y))])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("op", [torch.relu, torch.abs, lambda y: y.clamp(0)])
def test_zeros_and_no_gradient_of_second_order(op: Any) -> None:
    """What lies before an op with a slope by parts gets zeros where torch gives them, else None."""
    x, w, b, u = (torch.randn(*s, requires_grad=True) for s in ((3, 4), (6, 4), (6,), (6,)))

    def function(*given: Any) -> Any:
        return op(torch.nn.functional.linear(*given[:3])) + u

    def second(made: Any) -> list[Any]:
        (g,) = torch.autograd.grad(made(x, w, b).sum(), x, create_graph=True)
        return list(torch.autograd.grad(g.square().sum(), (x, w, b, u), allow_unused=True))

    expected, found = second(function), second(torch.compile(function, backend="pirkit"))
    assert [g is None for g in found] == [g is None for g in expected]
    torch.testing.assert_close([g for g in found if g is not None],
                               [g for g in expected if g is not None])  # fmt: skip


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.cos()


class _Saving(torch.autograd.Function):
    """Saves its result, and a value that is no result, which eager takes for a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y, z = x.exp(), x.sinh()
        ctx.save_for_backward(y, z)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        y, z = ctx.saved_tensors
        return g * y.sin() * z


@pytest.mark.parametrize("rule", [_Rounded, _Saving])
def test_a_function_with_its_own_derivative_keeps_it_in_further_derivatives(rule: Any) -> None:
    def function(x: Any) -> Any:
        y = rule.apply(x)
        return y * x + rule.apply(y.square().sin()) * y.sum()

    x = torch.randn(4, dtype=F64, requires_grad=True)
    found = []
    for each in (function, torch.compile(function, backend="pirkit")):
        y = each(x)
        (g,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.square().sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(h.sum(), x)
        found.append((y, g, h, third))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def test_a_second_derivative_reads_a_buffer_that_the_call_has_written() -> None:
    """Power iteration in a spectral norm, or a momentum, moves what the derivative reads."""

    def function(x: Any, buffer: Any) -> Any:
        y = (x * buffer.clone()).sin()
        buffer.mul_(2.0)
        return y * x

    x = torch.randn(4, dtype=F64, requires_grad=True)
    found = []
    for each in (function, torch.compile(function, backend="pirkit")):
        buffer = torch.linspace(0.5, 1.5, 4, dtype=F64)
        (g,) = torch.autograd.grad(each(x, buffer).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.square().sum(), x)
        found.append((g, h, buffer))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_of_all_directions(norm: Any) -> None:
    names = ("fft2", "ifft", "rfft2", "ihfft", "irfft", "hfft", "ifftn", "rfftn", "irfft2", "fft")

    def function(x: Any, z: Any) -> Any:
        given = {True: z, False: x}
        takes_complex = ("irfft", "hfft", "irfft2")
        return [getattr(torch.fft, n)(given[n in takes_complex], norm=norm).abs() for n in names]

    x = torch.randn(2, 6, 5, dtype=F64, requires_grad=True)
    z = torch.randn(2, 4, 5, dtype=torch.complex128, requires_grad=True)
    found = []
    for each in (function, torch.compile(function, backend="pirkit")):
        ys = each(x, z)
        gs = torch.autograd.grad(sum(y.sin().sum() for y in ys), (x, z), create_graph=True)
        hs = torch.autograd.grad(sum(g.abs().square().sum() for g in gs), (x, z))
        found.append((*ys, *gs, *hs))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def test_a_gradient_penalty_by_torch_func_through_a_convolution() -> None:
    """Torch computes the gradient of the input alone, and gives None for the others."""

    def function(x: Any, w: Any) -> Any:
        g = torch.func.grad(lambda x: F.conv2d(x, w).tanh().sum())(x)
        return (g.flatten(1).norm(dim=1) - 1).square().mean()

    x = torch.randn(2, 1, 4, 4, dtype=F64, requires_grad=True)
    w = torch.randn(2, 1, 3, 3, dtype=F64, requires_grad=True)
    found = []
    for each in (function, torch.compile(function, backend="pirkit")):
        y = each(x, w)
        found.append((y, *torch.autograd.grad(y, (x, w))))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def test_gradients_that_are_one_value_depend_on_the_cotangent() -> None:
    """Those of the terms of a sum, where a second derivative goes through the cotangent."""
    x, y = (torch.randn(3, dtype=F64, requires_grad=True) for _ in range(2))
    found = []
    for each in (torch.add, torch.compile(torch.add, backend="pirkit")):
        gs = torch.autograd.grad(each(x, y).sin().sum(), (x, y), create_graph=True)
        hs = torch.autograd.grad(sum(g.square().sum() for g in gs), (x, y))
        found.append((*gs, *hs))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)


class _Doubled(torch.autograd.Function):
    """The sine, whose derivative is said to be twice the cosine."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x.cos()


@torch.compiler.nested_compile_region
def _region(x: Any) -> Any:
    return _Doubled.apply(x) * x


@pytest.mark.parametrize("region", [
    lambda x: checkpoint(_Doubled.apply, x.exp(), use_reentrant=False),
    lambda x: checkpoint(lambda t: checkpoint(_Doubled.apply, t, use_reentrant=False) * t, x,
                         use_reentrant=False),
    lambda x: _region(_region(x)),
])  # fmt: skip
def test_a_custom_function_in_a_region_keeps_its_derivative(region: Any) -> None:
    x = torch.randn(4, dtype=F64, requires_grad=True)
    found = []
    for each in (region, torch.compile(region, backend="pirkit", fullgraph=True)):
        y = each(x)
        (g,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
        found.append((y, g, *torch.autograd.grad(g.square().sum(), x)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)


class _Written(torch.autograd.Function):
    """Writes into its second argument, which is its second result."""

    @staticmethod
    def forward(ctx: Any, a: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        ctx.save_for_backward(a, x.mul_(0.5).exp_())
        return a * x, x

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        a, x = ctx.saved_tensors
        return g * x, (g * a + h) * x * 0.5


def test_a_custom_function_that_writes_its_argument() -> None:
    def function(a: Any, x: Any) -> Any:
        y, z = _Written.apply(a, x.clone())
        return y * z + z.sin()

    a, x = (torch.randn(4, dtype=F64, requires_grad=True) for _ in range(2))
    found = []
    for each in (function, torch.compile(function, backend="pirkit", fullgraph=True)):
        gs = torch.autograd.grad(each(a, x).sin().sum(), (a, x), create_graph=True)
        found.append((*gs, *torch.autograd.grad(sum(g.square().sum() for g in gs), (a, x))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)

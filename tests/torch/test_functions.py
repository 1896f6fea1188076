"""Functions of torch, compiled: what they return, write and differentiate to is what torch does."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

import pirkit.torch  # noqa: E402
from tests.torch.comparing import make, same  # noqa: E402

I64 = torch.int64
INF = float("inf")
nn = torch.nn


def _no_grad(x: Any) -> Any:
    with torch.no_grad():
        y = x * 3
    return x * y, y


def _autocast(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ w).float()


def _flexible(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, lambda s, b, h, i, j: s + (i - j) * 0.1 * h, enable_gqa=True)


def _written(x: Any, i: Any, v: Any) -> Any:
    y = x.clone()
    y[i] = v
    y[:, 1] += 2
    return y.index_put_((i, i), torch.ones(2), accumulate=True)


class Scaled(torch.autograd.Function):
    """A derivative that is not that of its forward, to be told apart."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 5 * x


def _diagonals(x: Any, y: Any, z: Any) -> Any:
    return torch.diagonal_scatter(x, y, 1), torch.diagonal_scatter(x, z, -2, 1, 0)


INDEX = torch.tensor([0, -1, 1])
PLACES = torch.tensor([[0, 1], [1, 1], [3, 2]])
CASES = {
    "diagonals": (_diagonals, [(3, 5)], [(3,)], [(3,)]),
    "counts": (lambda x: (torch.histc(x, 5, -1, 1), torch.histc(x, 4)), [(40,), False]),
    "transposed operands": (
        lambda x, y, z: (x @ y.t(), (z.mT @ x)[0].t() @ x.t()), [(3, 4)], [(5, 4)], [(2, 3, 4)]
    ),
    # writes and aliases
    "writes an input": (lambda x, y: (x.add_(1), y * x)[1], [(3, 4), False], [(3, 4)]),
    "writes a view": (
        lambda x, y: (x[1:].mul_(2), y * x, x[0], x.t())[1:], [(3, 4), False], [(3, 4)]
    ),
    "writes what is no leaf": (lambda x: (x * 2).add_(1).mul_(x), [(3, 4)]),
    "returns views": (lambda x: (lambda y: (y, y[0], y.t()))(x * 2), [(3, 4)]),
    "returns inputs": (lambda x, y: (x, y * 2, x), [(3, 4)], [(3,)]),
    "writes at places": (_written, [(3, 4)], torch.tensor([0, 2]), [(2, 4)]),
    # gradients that stop, or are the user's
    "detach": (lambda x: (x.detach() * 2, x * x.detach()), [(3, 4)]),
    "detached results": (
        lambda x: (x.detach(), x * 2, (x * 2).detach(), (lambda y: (y, y.detach()))(x.sin())),
        [(3, 4)],
    ),
    "no_grad": (_no_grad, [(3, 4)]),
    "autograd.Function": (lambda x: Scaled.apply(x).sin(), [(3, 4)]),
    "func.grad": (lambda x: torch.func.grad(lambda q: (q**3).sum())(x), [(3,)]),
    "vmap": (lambda x, y: torch.func.vmap(torch.dot)(x, y), [(3, 4)], [(3, 4)]),
    # random numbers are those of torch's generator
    "dropout": (lambda x: F.dropout(x, 0.3) * 2, [(30, 4)]),
    "dropout of a transposed tensor": (lambda x: F.dropout(x.t() * 2, 0.3), [(30, 4)]),
    "rand": (lambda x: x * torch.rand_like(x) + torch.randn(4), [(3, 4)]),
    # types
    "integers and masks": (
        lambda x, i: (x[i], i + 1, torch.where(x > 0, x, -x), (i[:, None] > 1) & (x > 0)),
        [(3, 4)], torch.tensor([0, 2, 1]),
    ),
    "promotion": (lambda x, y: (x * y, x + 1, y.int() / 2), [(3, 4)], [(3, 4), True, "float64"]),
    "bfloat16": (lambda x: (x @ x.t()).relu(), [(4, 4), True, "bfloat16"]),
    "float16": (lambda x: (x * 2).exp().sum(0), [(4, 4), True, "float16"]),
    "autocast": (_autocast, [(4, 4)], [(4, 4)]),
    "integer division": (
        lambda x, y: (x // y, x % y, torch.fmod(x, y), x / y, x**2, -x, x.abs(), x.sum(),
                      torch.div(x, y, rounding_mode="trunc"), x.float().mean()),
        torch.tensor([-5, 5, 7, -7]), torch.tensor([3, -3, 2, 2]),
    ),
    # conventions that are not Paddle's
    "ties": (
        lambda x: (torch.maximum(x, x), x.max(1).values, x.amax(1), x.clamp(1, 2), F.hardtanh(x),
                   x.relu(), x.abs(), F.leaky_relu(x), F.relu6(x * 3), x.max(), x.round()),
        torch.tensor([[1.0, 1.0, 0.0], [2.0, -1.0, 2.0]], requires_grad=True),
    ),
    "padding modes": (
        lambda x: (F.pad(x, (1, 2, 1, 1), mode="reflect"), F.pad(x, (1, 2, 2, 1)),
                   F.pad(x, (1, -1)), F.pad(x, (1, 2, 1, 1), mode="replicate")),
        [(1, 2, 4, 5)],
    ),
    "interpolate": (
        lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (7, 9), mode="bilinear")),
        [(1, 2, 4, 5)],
    ),
    "interpolate with antialiasing": (
        lambda x: (
            F.interpolate(x, (7, 3), mode="bilinear", antialias=True),
            F.interpolate(x, scale_factor=0.7, mode="bicubic", antialias=True),
            F.interpolate(x, (2, 9), mode="bicubic", antialias=True, align_corners=True),
        ),
        [(1, 2, 4, 6)],
    ),
    "bicubic grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh() * 1.2, mode="bicubic", align_corners=False),
        [(1, 2, 4, 5)], [(1, 3, 2, 2)],
    ),
    "distances": (
        lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1.0), torch.cdist(x, y, p=INF),
                      torch.pdist(y, 3.0), torch.dist(x, y[:4])),
        [(4, 3)], [(5, 3)],
    ),
    "bilinear": (F.bilinear, [(2, 4, 3)], [(2, 4, 5)], [(6, 3, 5)], [(6,)]),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor([-2.0, 0.0, 3.0])), [(2, 3)]),
    # layouts
    "not in rows": (lambda x: x.sin(), torch.randn(4, 6).t().requires_grad_()),
    "channels last": (
        lambda x: F.relu(x) * 2,
        torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).requires_grad_(),
    ),
    "no elements": (lambda x: (x * 2, x.sum()), [(0, 4)]),
    # families of the table
    "activations": (
        lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.elu(x), F.hardswish(x),
                   F.mish(x), F.softplus(x), F.hardsigmoid(x), F.logsigmoid(x), F.selu(x),
                   F.glu(x)),
        [(3, 4)],
    ),
    "parts": (
        lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y]), *x.unbind(0), *x.chunk(2, 1),
                      x.flip(0), x.roll(1, 1), x.tril(), x.repeat(2, 3), x.expand(2, 3, 4)),
        [(3, 4)], [(3, 4)],
    ),
    "indices": (
        lambda x, i: (x[:, i], x[i, :, i], x[..., 1::2], x[i[:, None], i]), [(3, 3, 5)], INDEX
    ),
    "gather and scatter": (
        lambda x, i: (x.gather(1, i), torch.zeros(3, 4).scatter_add(1, i, x[:, :2]),
                      x.scatter(1, i, 0.0), x.scatter_reduce(1, i, x[:, :2], "amax"),
                      x.scatter_add(1, i[:2], x[:2, 1:3])),
        [(3, 4)], PLACES,
    ),
    "orders": (lambda x: (*x.sort(1), *x.topk(2), x.argmin(1)), [(3, 4)]),
    "reductions": (
        lambda x: (x.var(0), x.std(), x.cumsum(0), x.logsumexp(1), x.prod(1), x.softmax(0),
                   x.log_softmax(1)),
        [(3, 4)],
    ),
    "norms": (
        lambda x: (x.norm(dim=1), *[torch.linalg.vector_norm(x, n, 1)
                                     for n in (0, 1, 3, INF, -1, -0.5)]),
        torch.tensor([[1.0, -2, 2], [0, 0, 0], [-3, 1, 0]], requires_grad=True),
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 2, 5, 4)], [(2, 2, 5, 4)], [(2, 2, 5, 4)],
    ),
    "attention to nothing": (
        lambda q: F.scaled_dot_product_attention(
            q, q, q, attn_mask=torch.tensor([[True, False], [False, False]])
        ) + F.scaled_dot_product_attention(q, q, q, torch.tensor([[0.0, -INF], [-INF, -INF]])),
        [(1, 2, 4)],
    ),
    "pooling": (
        lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 3),
                   F.max_pool2d(x, 3, 2, ceil_mode=True), F.adaptive_max_pool2d(x, 3),
                   F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
        [(2, 3, 8, 8)],
    ),
    "cross entropy": (
        lambda x, y: F.cross_entropy(x, y, ignore_index=1), [(5, 4)], torch.tensor([0, 1, 2, 3, 1])
    ),
    "fake quantization": (
        lambda x, s: (torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7),
                      torch.fake_quantize_per_channel_affine(x, s, s.to(torch.int32), 1, -8, 7)),
        [(6, 4)], torch.tensor([0.5, 1.5, 0.05, 0.3]),
    ),
    "cholesky": (lambda x: [(x @ x.mT + torch.eye(4)).cholesky(u) for u in (False, True)],
                 [(2, 4, 4)]),
    "systems of equations": (
        lambda x, y: (torch.linalg.solve(x, y), torch.linalg.inv(x), torch.linalg.det(x)),
        torch.eye(4).add(0.1).requires_grad_(), [(4, 2)],
    ),
    # complex numbers
    "fft": (
        lambda x: (torch.fft.rfft(x).abs(), torch.fft.fft2(x, norm="ortho").real,
                   torch.fft.irfft(torch.fft.rfft(x) * 1j, norm="forward")),
        [(3, 8)],
    ),
    "complex": (
        lambda x: torch.view_as_real(torch.complex(x, x) * torch.complex(x, 2 * x)), [(3, 4)]
    ),
    "parts of complex numbers": (
        lambda x: (lambda y: (y.imag, torch.view_as_real(y), y.abs()))(torch.fft.fft2(x)),
        [(3, 4)],
    ),
    "conjugate of an input": (
        lambda z: (z.conj().mT, z.real, z.imag * 2),
        torch.randn(2, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(0)),
    ),
    "bags of an embedding": (
        lambda w, p, i, o: (
            F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p),
            F.embedding_bag(i, w, o, mode="mean", include_last_offset=True, padding_idx=3),
            F.embedding_bag(i, w, o, mode="max", padding_idx=3),
        ),
        [(6, 2)], [(5,)], torch.tensor([1, 1, 3, 0, 5]), torch.tensor([0, 2, 3, 3, 5]),
    ),
    # control flow
    "cond": (
        lambda x: torch.cond(x.sum() > 0, lambda q: q.sin(), lambda q: q.cos(), (x,)), [(3, 4)]
    ),
    "while_loop": (
        lambda x: torch._higher_order_ops.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x)
        )[1],
        [(3, 4), False],
    ),
    "branches in a loop": (
        lambda x: torch._higher_order_ops.while_loop(
            lambda i, a: i < 4,
            lambda i, a: (i + 1, torch.cond(a.sum() > 1, torch.cos, lambda q: q * 2 - 1, (a,))),
            (torch.tensor(0), x),
        )[1],
        [(3, 4), False],
    ),
    "flexible attention": (_flexible, *[[(2, n, 9, 4), False] for n in (4, 2, 2)]),
}  # fmt: skip

MODULES = {
    "batch norm": (lambda: nn.BatchNorm2d(3), (6, 3, 5, 5)),
    "batch norm, evaluated": (lambda: nn.BatchNorm2d(3).eval(), (6, 3, 5, 5)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 8)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1, stride=2), (2, 3, 8, 8)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 3, padding=1), (1, 2, 4, 4, 4)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1), (2, 4, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm(8), (2, 3, 8)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "rms norm": (lambda: nn.RMSNorm(8), (2, 3, 8)),
}


def _argument(given: Any) -> Any:
    """A tensor as it is, or one of a shape, whether it wants a gradient, and its type."""
    if isinstance(given, torch.Tensor):
        return given
    shape, grad, dtype = [*given, *[None, True, "float32"][len(given) :]]
    return make(*shape, grad=grad, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    function, *given = CASES[name]
    same(function, *map(_argument, given))


STRICT = (
    "branches in a loop", "flexible attention", "interpolate with antialiasing",
    "bicubic grid_sample", "distances", "bilinear", "ldexp", "fake quantization", "cholesky",
)  # fmt: skip


@pytest.mark.parametrize("name", STRICT)
def test_torch_computes_none_of_it(name: str) -> None:
    function, *given = CASES[name]
    same(function, *map(_argument, given), options={"strict": True})


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    build, shape = MODULES[name]
    same(lambda m, x: m(x), make(*shape), module=build())


def _inferred(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
    return y, x * 3


def test_inference_mode_inside() -> None:
    found = torch.compile(_inferred, backend="pirkit", options={"strict": True})(make(3))
    assert [t.requires_grad for t in found] == [False, True]


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_inputs_that_lie_inside_of_a_storage(dynamic: bool) -> None:
    whole = torch.arange(80.0).reshape(20, 4)
    compiled = torch.compile(lambda x: (x[1:], x * 2), backend="pirkit", dynamic=dynamic)
    for start, end in ((2, 6), (9, 13), (1, 6)):
        part = whole[start:end]
        view, _ = compiled(part)
        assert view.data_ptr() == part[1:].data_ptr()
        torch.testing.assert_close(view, part[1:])


def test_padding_row_of_an_embedding_gets_no_gradient() -> None:
    index = torch.tensor([[0, 2, 1], [1, 1, 0]])
    same(lambda m, i: m(i), index, module=nn.Embedding(4, 6, padding_idx=1))


def test_sizes_that_change_are_symbols() -> None:
    same(lambda x: (x.sum(0), x.view(-1), x * x.shape[0]), make(5, 4), dynamic=True)
    compiled = torch.compile(lambda x: x.sin().sum(1), backend="pirkit", dynamic=True)
    for size in (3, 5, 7, 3):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), x.sin().sum(1))


def test_a_number_that_dynamo_guards_is_one() -> None:
    model = nn.LayerNorm(4, eps=1e-3)
    compiled = torch.compile(model, backend="pirkit", dynamic=True, options={"strict": True})
    x = torch.randn(3, 4)
    for model.eps in (1e-3, 0.5):
        torch.testing.assert_close(compiled(x), model(x))


def test_layout_of_results_is_that_of_torch() -> None:
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    y = torch.compile(lambda x: (x * 2, x.permute(0, 2, 3, 1) + 1), backend="pirkit")(x)
    assert y[0].is_contiguous(memory_format=torch.channels_last)
    assert y[1].is_contiguous()


def test_running_statistics_have_no_gradient() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = torch.compile(model, backend="pirkit")
    for _ in range(2):
        compiled(torch.randn(6, 4)).sum().backward()
    assert not model[1].running_mean.requires_grad


def test_the_optimizer_too() -> None:
    """A training step in one function: gradients by autograd, parameters written in place."""
    models = [nn.Linear(4, 3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(5, 4)
    for model, wrap in zip(models, (lambda f: f, torch.compile), strict=True):
        kwargs = {"backend": "pirkit"} if wrap is torch.compile else {}
        optimizer = torch.optim.Adam(model.parameters(), 0.1)

        def step(model: Any = model, optimizer: Any = optimizer) -> None:
            model(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        run = wrap(step, **kwargs)
        for _ in range(3):
            run()
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(q, p, rtol=1e-4, atol=1e-5)


def test_matmuls_read_transposed_operands_in_place() -> None:
    program = pirkit.torch.export(nn.Linear(4, 5), (torch.randn(3, 4),))
    assert "transpose_y = true" in str(program)  # the op that transposes is dead

"""Small models written with `torch.nn` alone, with arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Forward = Callable[..., Any]
MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}


class Of(nn.Module):
    """A forward function over named layers."""

    def __init__(self, forward: Forward, **layers: Any) -> None:
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self._call = forward

    def forward(self, *args: Any) -> Any:
        return self._call(self, *args)


def model(make: Callable[[], tuple[nn.Module, tuple[Any, ...]]]) -> Any:
    MODELS[make.__name__] = make
    return make


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _mlp(*sizes: int, act: Any = nn.ReLU) -> nn.Sequential:
    layers = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1])


def _conv(inner: int, outer: int, stride: int = 1, groups: int = 1, k: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inner, outer, k, stride, k // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer), nn.ReLU(),
    )  # fmt: skip


@model
def mlp_tiny() -> Any:
    return _mlp(3, 20, 20, 20, 1, act=nn.Tanh), (_randn(256, 3),)


@model
def mlp_wide() -> Any:
    return _mlp(128, 512, 512, 10, act=nn.GELU), (_randn(64, 128),)


@model
def mlp_normed() -> Any:
    body = [nn.Linear(64, 128), nn.BatchNorm1d(128), nn.LeakyReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*body, nn.Linear(128, 10), nn.LogSoftmax(1)), (_randn(64, 64),)


@model
def softmax_regression() -> Any:
    call = lambda m, x, y: F.cross_entropy(m.layer(x), y)  # noqa: E731
    return Of(call, layer=nn.Linear(64, 10)), (_randn(128, 64), torch.randint(0, 10, (128,)))


@model
def highway() -> Any:
    def call(m: Any, x: Any) -> Any:
        for gate, body in zip(m.gates, m.bodies, strict=True):
            g = gate(x).sigmoid()
            x = g * body(x).relu() + (1 - g) * x
        return x

    lists = [nn.ModuleList(nn.Linear(64, 64) for _ in range(3)) for _ in range(2)]
    return Of(call, gates=lists[0], bodies=lists[1]), (_randn(64, 64),)


def _recurrent(kind: Any, **options: Any) -> Any:
    call = lambda m, x: m.head(m.body(x)[0])  # noqa: E731
    return Of(call, body=kind(16, 32, batch_first=True, **options), head=nn.Linear(
        64 if options.get("bidirectional") else 32, 4)), (_randn(4, 16, 16),)  # fmt: skip


@model
def lstm() -> Any:
    return _recurrent(nn.LSTM, num_layers=2)


@model
def lstm_bidirectional() -> Any:
    return _recurrent(nn.LSTM, bidirectional=True)


@model
def gru() -> Any:
    return _recurrent(nn.GRU)


@model
def rnn_cell() -> Any:
    def call(m: Any, x: Any) -> Any:
        h = x.new_zeros(x.shape[0], 32)
        for t in range(x.shape[1]):
            h = m.cell(x[:, t], h)
        return m.head(h)

    return Of(call, cell=nn.GRUCell(16, 32), head=nn.Linear(32, 4)), (_randn(4, 8, 16),)


@model
def unet() -> Any:
    def call(m: Any, x: Any) -> Any:
        a = m.a(x)
        b = m.b(F.max_pool2d(a, 2))
        c = m.c(F.max_pool2d(b, 2))
        b = m.d(torch.cat([m.up1(c), b], 1))
        return m.last(m.e(torch.cat([m.up2(b), a], 1)))

    return Of(call, a=_conv(3, 16), b=_conv(16, 32), c=_conv(32, 64),
              up1=nn.ConvTranspose2d(64, 32, 2, 2), d=_conv(64, 32),
              up2=nn.ConvTranspose2d(32, 16, 2, 2), e=_conv(32, 16),
              last=nn.Conv2d(16, 1, 1)), (_randn(2, 3, 64, 64),)  # fmt: skip


@model
def unet_bilinear() -> Any:
    def call(m: Any, x: Any) -> Any:
        a = m.a(x)
        b = m.b(F.avg_pool2d(a, 2))
        up = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return m.c(torch.cat([up, a], 1))

    return Of(call, a=_conv(3, 16), b=_conv(16, 32), c=_conv(48, 1)), (_randn(2, 3, 48, 48),)


@model
def dcgan_generator() -> Any:
    up = [nn.ConvTranspose2d(64, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    for a, b in ((64, 32), (32, 16)):
        up += [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
    up += [nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()]
    return nn.Sequential(*up), (_randn(4, 64, 1, 1),)


@model
def dcgan_discriminator() -> Any:
    down: list[nn.Module] = []
    for a, b in ((3, 16), (16, 32), (32, 64)):
        down += [nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*down, nn.Conv2d(64, 1, 4), nn.Sigmoid()), (_randn(4, 3, 32, 32),)


@model
def graph_index_add() -> Any:
    def call(m: Any, x: Any, source: Any, target: Any) -> Any:
        for _ in range(3):
            sent = m.message(torch.cat([x[source], x[target]], 1)).relu()
            got = torch.zeros_like(x).index_add(0, target, sent)
            x = m.update(torch.cat([x, got], 1)).tanh()
        return x

    edges = torch.randint(0, 200, (2, 1500))
    return Of(call, message=nn.Linear(64, 32), update=nn.Linear(64, 32)), (
        _randn(200, 32), edges[0], edges[1])  # fmt: skip


@model
def graph_convolution() -> Any:
    call = lambda m, x, a: m.two(a @ m.one(a @ x).relu())  # noqa: E731
    return Of(call, one=nn.Linear(32, 64), two=nn.Linear(64, 7)), (
        _randn(200, 32), (torch.rand(200, 200) < 0.05).float())  # fmt: skip


@model
def graph_attention() -> Any:
    def call(m: Any, x: Any, adjacency: Any) -> Any:
        h = m.lift(x)
        score = F.leaky_relu(m.left(h) + m.right(h).T, 0.2)
        return F.elu(score.masked_fill(adjacency == 0, -1e9).softmax(1) @ h)

    return Of(call, lift=nn.Linear(32, 32), left=nn.Linear(32, 1), right=nn.Linear(32, 1)), (
        _randn(128, 32), ((torch.rand(128, 128) < 0.1) | torch.eye(128).bool()).long())  # fmt: skip


@model
def graph_pooling() -> Any:
    def call(m: Any, x: Any, batch: Any) -> Any:
        h = m.body(x)
        most = h.new_full((8, 32), -1e9).scatter_reduce(0, batch[:, None].expand_as(h), h, "amax")
        return m.head(torch.cat([most, torch.zeros_like(most).index_add(0, batch, h)], 1))

    return Of(call, body=_mlp(16, 32, 32), head=nn.Linear(64, 3)), (
        _randn(200, 16), torch.randint(0, 8, (200,)).sort()[0])  # fmt: skip


@model
def vae() -> Any:
    def call(m: Any, x: Any) -> Any:
        mean, log_var = m.encode(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        return F.binary_cross_entropy_with_logits(m.decode(z), x.sigmoid()) + kl

    return Of(call, encode=_mlp(196, 128, 32), decode=_mlp(16, 128, 196)), (_randn(32, 196),)


@model
def diffusion() -> Any:
    def call(m: Any, x: Any, t: Any) -> Any:
        rates = torch.exp(torch.arange(16) * (-0.5))
        angle = t[:, None].to(x.dtype) * rates.to(x.dtype)
        e = m.time(torch.cat([angle.sin(), angle.cos()], 1))[:, :, None, None]
        h = m.norm(F.silu(m.first(x) + e))
        b, c, height, width = h.shape
        q, k, v = m.qkv(h).reshape(b, 3, c, height * width).unbind(1)
        seen = F.scaled_dot_product_attention(*(a.transpose(1, 2)[:, None] for a in (q, k, v)))
        return m.last(h + seen[:, 0].transpose(1, 2).reshape_as(h))

    return Of(call, time=_mlp(32, 32, 32, act=nn.SiLU), first=nn.Conv2d(3, 32, 3, padding=1),
              norm=nn.GroupNorm(8, 32), qkv=nn.Conv2d(32, 96, 1),
              last=nn.Conv2d(32, 3, 3, padding=1)), (
        _randn(2, 3, 16, 16), torch.tensor([3, 70]))  # fmt: skip


@model
def nerf() -> Any:
    def call(m: Any, rays: Any, depth: Any) -> Any:
        points = rays[:, None, :3] + rays[:, None, 3:] * depth[None, :, None]
        codes = [f(points * 2.0**i) for i in range(4) for f in (torch.sin, torch.cos)]
        sigma, color = m.body(torch.cat([points, *codes], -1)).split([1, 3], -1)
        alpha = 1 - torch.exp(-F.softplus(sigma[..., 0]) * 0.1)
        light = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)
        return ((alpha * light[:, :-1])[..., None] * color.sigmoid()).sum(1)

    return Of(call, body=_mlp(27, 64, 64, 4)), (_randn(64, 6), torch.linspace(1, 3, 16))


@model
def siren() -> Any:
    def call(m: Any, x: Any) -> Any:
        for layer in m.layers:
            x = torch.sin(3.0 * layer(x))
        return m.last(x)

    layers = nn.ModuleList([nn.Linear(2, 64), nn.Linear(64, 64)])
    return Of(call, layers=layers, last=nn.Linear(64, 3)), (_randn(1024, 2),)


@model
def pinn_derivative() -> Any:
    """The residual of u_t - u_xx by `torch.func`."""

    def call(m: Any, x: Any) -> Any:
        def u(point: Any) -> Any:
            return m.body(point)[0]

        first = torch.func.vmap(torch.func.jacrev(u))(x)
        second = torch.func.vmap(torch.func.jacfwd(torch.func.jacrev(u)))(x)
        return first[:, 0] - second[:, 1, 1]

    return Of(call, body=_mlp(2, 20, 20, 1, act=nn.Tanh)), (_randn(64, 2),)


@model
def deep_operator() -> Any:
    call = lambda m, f, y: m.branch(f) @ m.trunk(y).T  # noqa: E731
    return Of(call, branch=_mlp(50, 64, 64), trunk=_mlp(1, 64, 64, act=nn.Tanh)), (
        _randn(32, 50), _randn(100, 1))  # fmt: skip


@model
def fourier_operator() -> Any:
    def call(m: Any, x: Any) -> Any:
        h = m.lift(x)
        kept = torch.einsum(
            "bnc,ncd->bnd", torch.fft.rfft(h, dim=1)[:, :8], torch.view_as_complex(m.weight)
        )
        return m.last(F.gelu(torch.fft.irfft(kept, n=64, dim=1) + h))

    return Of(call, lift=nn.Linear(2, 16), last=nn.Linear(16, 1),
              weight=nn.Parameter(_randn(8, 16, 16, 2))), (_randn(4, 64, 2),)  # fmt: skip


@model
def mixer() -> Any:
    def call(m: Any, x: Any) -> Any:
        x = m.patch(x).flatten(2).transpose(1, 2)
        x = x + m.tokens(m.n1(x).transpose(1, 2)).transpose(1, 2)
        return (x + m.channels(m.n2(x))).mean(1)

    return Of(call, patch=nn.Conv2d(3, 64, 8, 8), n1=nn.LayerNorm(64), n2=nn.LayerNorm(64),
              tokens=_mlp(64, 128, 64, act=nn.GELU), channels=_mlp(64, 128, 64, act=nn.GELU)
              ), (_randn(2, 3, 64, 64),)  # fmt: skip


def _encoder(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@model
def encoder() -> Any:
    return _encoder(), (_randn(4, 32, 64),)


@model
def encoder_prenorm_gelu() -> Any:
    return _encoder(norm_first=True, activation="gelu"), (_randn(4, 32, 64),)


@model
def transformer() -> Any:
    body = nn.Transformer(64, 4, 1, 1, 128, batch_first=True, dropout=0.0)
    return body, (_randn(2, 16, 64), _randn(2, 12, 64))


@model
def attention_causal() -> Any:
    def call(m: Any, x: Any) -> Any:
        q, k, v = (a.unflatten(-1, (4, 16)).transpose(1, 2) for a in m.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return m.out(out.transpose(1, 2).flatten(2))

    return Of(call, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64)), (_randn(2, 64, 64),)


@model
def linear_attention() -> Any:
    def call(m: Any, x: Any) -> Any:
        q, k, v = m.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        held = torch.einsum("bnd,bne->bde", k, v)
        return torch.einsum("bnd,bde->bne", q, held) / (q @ k.sum(1)[..., None])

    return Of(call, qkv=nn.Linear(64, 192)), (_randn(2, 64, 64),)


@model
def text_convolution() -> Any:
    def call(m: Any, ids: Any) -> Any:
        x = m.table(ids).transpose(1, 2)
        return m.head(torch.cat([c(x).relu().amax(2) for c in m.convs], 1))

    convs = nn.ModuleList(nn.Conv1d(32, 16, k) for k in (3, 4, 5))
    return Of(call, table=nn.Embedding(100, 32), convs=convs, head=nn.Linear(48, 4)), (
        torch.randint(0, 100, (8, 40)),)  # fmt: skip


@model
def wavenet() -> Any:
    def call(m: Any, x: Any) -> Any:
        for i, (both, out) in enumerate(zip(m.both, m.out, strict=True)):
            a, b = both(F.pad(x, (2**i, 0))).chunk(2, 1)
            x = x + out(a.tanh() * b.sigmoid())
        return x

    both = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(4))
    out = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(4))
    return Of(call, both=both, out=out), (_randn(2, 16, 256),)


@model
def factorization_machine() -> Any:
    def call(m: Any, ids: Any) -> Any:
        e = m.table(ids)
        pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1)
        return (m.linear(ids).sum((1, 2)) + pairs + m.deep(e.flatten(1))[:, 0]).sigmoid()

    return Of(call, table=nn.Embedding(500, 16), linear=nn.Embedding(500, 1),
              deep=_mlp(160, 64, 1)), (torch.randint(0, 500, (128, 10)),)  # fmt: skip


@model
def two_towers() -> Any:
    def call(m: Any, a: Any, b: Any) -> Any:
        scores = F.normalize(m.a(a), dim=1) @ F.normalize(m.b(b), dim=1).T
        return F.cross_entropy(scores * m.scale.exp(), torch.arange(64))

    return Of(call, a=_mlp(32, 64, 32), b=_mlp(48, 64, 32), scale=nn.Parameter(
        torch.tensor(1.0))), (_randn(64, 32), _randn(64, 48))  # fmt: skip


@model
def mixture_of_experts() -> Any:
    def call(m: Any, x: Any) -> Any:
        best, which = m.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros(x.shape[0], 4, dtype=x.dtype).scatter(1, which, best)
        each = torch.stack([expert(x) for expert in m.experts], 1)
        return (weights[..., None] * each).sum(1)

    experts = nn.ModuleList(_mlp(32, 64, 32) for _ in range(4))
    return Of(call, gate=nn.Linear(32, 4), experts=experts), (_randn(64, 32),)


@model
def point_cloud() -> Any:
    def call(m: Any, x: Any) -> Any:
        near = torch.cdist(x, x).topk(8, largest=False)[1]
        index = near.flatten(1)[..., None].expand(-1, -1, 3)
        edges = torch.gather(x, 1, index).unflatten(1, (64, 8)) - x[:, :, None]
        return m.head(m.body(edges).amax(2).amax(1))

    return Of(call, body=_mlp(3, 32, 32), head=nn.Linear(32, 5)), (_randn(2, 64, 3),)


@model
def spatial_transformer() -> Any:
    def call(m: Any, x: Any) -> Any:
        theta = m.place(x.flatten(1)).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return m.body(F.grid_sample(x, grid, align_corners=False))

    return Of(call, place=nn.Linear(256, 6), body=_conv(1, 8)), (_randn(4, 1, 16, 16),)


@model
def vector_quantization() -> Any:
    def call(m: Any, x: Any) -> Any:
        near = torch.cdist(x, m.codes).argmin(1)
        found = m.codes[near]
        return m.head(x + (found - x).detach()), F.mse_loss(found, x.detach())

    return Of(call, codes=nn.Parameter(_randn(32, 16)), head=nn.Linear(16, 16)), (
        _randn(128, 16),)  # fmt: skip


@model
def depthwise_separable() -> Any:
    body = [_conv(3, 16), _conv(16, 16, 2, 16), _conv(16, 32, k=1), _conv(32, 32, 1, 32)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5)), (
        _randn(2, 3, 48, 48),)  # fmt: skip


@model
def volume_convolution() -> Any:
    body = [nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2)]
    return nn.Sequential(*body, nn.Conv3d(8, 8, 3), nn.AdaptiveAvgPool3d(1)), (
        _randn(2, 1, 12, 12, 12),)  # fmt: skip


@model
def super_resolution() -> Any:
    body = [nn.Conv2d(3, 32, 5, padding=2), nn.PReLU(), nn.Conv2d(32, 12, 3, padding=1)]
    return nn.Sequential(*body, nn.PixelShuffle(2)), (_randn(2, 3, 32, 32),)


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model with random weights, and arguments by position."""
    made, args = MODELS[name]()
    return made, args, {}

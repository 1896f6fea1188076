"""Parts of models in many domains, written with `torch.nn` alone, with arguments of a call.

Recommenders, audio, detection, graphs, sequences, point clouds, optics of gradients: what the other
lists leave out. Each is one function of named layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from graphs.plain_models import Of
from torch import nn

MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}
L = nn.Linear
R = torch.randn


def part(*args: Callable[[], Any], **layers: Callable[[], Any]) -> Any:
    """Declare a function of a module and tensors: what makes its arguments, and its layers."""

    def declare(call: Any) -> Any:
        MODELS[call.__name__] = lambda: (
            Of(call, **{name: make() for name, make in layers.items()}),
            tuple([make() for make in args]),
        )
        return call

    return declare


def rand(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: R(*shape)


def ids(high: int, *shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, high, shape)


def lin(inner: int, outer: int) -> Callable[[], nn.Module]:
    return lambda: L(inner, outer)


def mlp(*sizes: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers = [L(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
        return nn.Sequential(*[m for x in layers for m in (x, nn.ReLU())][:-1])

    return make


def table(count: int, width: int) -> Callable[[], nn.Module]:
    return lambda: nn.Embedding(count, width)


def weight(*shape: int) -> Callable[[], nn.Parameter]:
    return lambda: nn.Parameter(R(*shape) / shape[0] ** 0.5)


# --- recommenders ---


@part(rand(32, 13), ids(50, 32, 6), bottom=mlp(13, 32, 16), table=table(50, 16),
      top=mlp(37, 32, 1))  # fmt: skip
def dlrm(m: Any, dense: Any, sparse: Any) -> Any:
    x = m.bottom(dense)
    t = torch.cat([x[:, None], m.table(sparse)], 1)
    z = torch.bmm(t, t.transpose(1, 2))
    i, j = torch.tril_indices(7, 7, -1)
    return m.top(torch.cat([x, z[:, i, j]], 1)).sigmoid()


@part(rand(32, 24), a=weight(24, 24), b=weight(24), c=weight(24, 24), d=weight(24), last=lin(24, 1))
def deep_cross(m: Any, x: Any) -> Any:
    h = x * (x @ m.a) + m.b + x
    h = x * (h @ m.c) + m.d + h
    return m.last(h).squeeze(-1)


@part(ids(40, 16, 12), ids(40, 16), table=table(40, 16), a=mlp(64, 32, 1), last=mlp(32, 16, 2))
def deep_interest(m: Any, history: Any, target: Any) -> Any:
    h, t = m.table(history), m.table(target)[:, None].expand(-1, 12, -1)
    w = m.a(torch.cat([h, t, h - t, h * t], -1)).masked_fill((history == 0)[..., None], 0)
    return m.last(torch.cat([(w * h).sum(1), t[:, 0]], -1)).log_softmax(-1)


@part(ids(40, 16, 10), table=table(40, 16), gru=lambda: nn.GRUCell(16, 16), out=lin(16, 40))
def gru4rec(m: Any, items: Any) -> Any:
    h = torch.zeros(items.shape[0], 16)
    for t in range(items.shape[1]):
        h = m.gru(m.table(items[:, t]), h)
    return m.out(h).topk(5).values


@part(rand(16, 20), experts=weight(3, 20, 8), gates=weight(2, 20, 3), towers=weight(2, 8, 1))
def mmoe(m: Any, x: Any) -> Any:
    e = torch.einsum("bi,kio->bko", x, m.experts).relu()
    g = torch.einsum("bi,tik->tbk", x, m.gates).softmax(-1)
    return torch.einsum("tbk,bko,tox->tbx", g, e, m.towers).sigmoid()


@part(ids(100, 24), lambda: torch.tensor([0, 5, 5, 11, 20]),
      bag=lambda: nn.EmbeddingBag(100, 8, mode="mean"), out=lin(8, 3))  # fmt: skip
def embedding_bag(m: Any, items: Any, offsets: Any) -> Any:
    return m.out(m.bag(items, offsets))


@part(rand(12, 8), rand(12, 8), a=mlp(8, 16, 8), b=mlp(8, 16, 8))
def contrastive(m: Any, x: Any, y: Any) -> Any:
    u, v = F.normalize(m.a(x), dim=-1), F.normalize(m.b(y), dim=-1)
    logits = u @ v.T / 0.07
    target = torch.arange(12)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


@part(rand(16, 5, 12), q=weight(2, 12, 8), k=weight(2, 12, 8), v=weight(2, 12, 8), r=lin(12, 16))
def autoint(m: Any, x: Any) -> Any:
    q, k, v = (torch.einsum("bfi,hio->bhfo", x, w) for w in (m.q, m.k, m.v))
    a = torch.softmax(q @ k.mT, -1) @ v
    return F.relu(a.permute(0, 2, 1, 3).reshape(16, 5, 16) + m.r(x)).flatten(1)


# --- audio ---


@part(rand(2, 800), mel=weight(33, 20), out=lin(20, 4))
def mel_spectrogram(m: Any, wave: Any) -> Any:
    s = torch.stft(wave, 64, 32, window=torch.hann_window(64), return_complex=True)
    power = s.abs().pow(2.0).transpose(1, 2)
    db = 10 * torch.log10(torch.clamp(power @ m.mel.abs(), min=1e-5))
    return m.out(torch.maximum(db, db.amax((-2, -1), keepdim=True) - 80)).mean(1)


@part(rand(2, 640), mask=mlp(33, 32, 33))
def masked_istft(m: Any, wave: Any) -> Any:
    w = torch.hann_window(64)
    s = torch.stft(wave, 64, 16, window=w, return_complex=True)
    gain = m.mask(s.abs().mT).sigmoid().mT
    return torch.istft(s * gain, 64, 16, window=w, length=640)


@part(rand(2, 1, 400), a=lambda: nn.Conv1d(1, 16, 20, 10, padding=5),
      b=lambda: nn.Conv1d(16, 8, 1), tcn=lambda: nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=8),
      n=lambda: nn.GroupNorm(1, 8), p=lambda: nn.PReLU(),
      c=lambda: nn.ConvTranspose1d(16, 1, 20, 10, padding=5), up=lambda: nn.Conv1d(8, 16, 1))  # fmt: skip
def conv_tasnet(m: Any, x: Any) -> Any:
    w = m.a(x).relu()
    h = m.n(m.p(m.tcn(m.b(w))))
    return m.c(m.up(h).sigmoid() * w)


@part(rand(3, 40, 24), a=lambda: nn.Conv1d(40, 16, 5, dilation=1),
      b=lambda: nn.Conv1d(16, 16, 3, dilation=2), bn=lambda: nn.BatchNorm1d(16), out=lin(32, 6))  # fmt: skip
def x_vector(m: Any, x: Any) -> Any:
    h = m.bn(m.b(m.a(x).relu()).relu())
    return m.out(torch.cat([h.mean(-1), h.std(-1)], 1))


@part(rand(2, 60), out=lin(8, 2))
def biquad_frames(m: Any, x: Any) -> Any:
    frames = x.unfold(-1, 8, 4) * torch.hamming_window(8)
    lag = F.pad(x, (2, 0))[..., :-2]
    energy = (x - 0.97 * lag).square().cumsum(-1).log1p()
    return m.out(frames) + energy[:, None, -1:]


@part(rand(2, 30, 16), q=lin(16, 16), k=lin(16, 16), v=lin(16, 16), pos=weight(59, 8))
def relative_attention(m: Any, x: Any) -> Any:
    q, k, v = (f(x).unflatten(-1, (2, 8)).transpose(1, 2) for f in (m.q, m.k, m.v))
    r = q @ m.pos.T
    b, h, t, n = r.shape
    r = F.pad(r, (1, 0)).view(b, h, n + 1, t)[:, :, 1:].reshape(b, h, t, n)[..., :t]
    return F.dropout((q @ k.mT + r).softmax(-1), 0.1, m.training) @ v


# --- detection and segmentation ---


def _grid(n: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    return torch.stack([x, y], -1).float()


@part(rand(2, 8, 8, 8), head=lambda: nn.Conv2d(8, 3 * 7, 1))
def yolo_head(m: Any, x: Any) -> Any:
    p = m.head(x).view(2, 3, 7, 8, 8).permute(0, 1, 3, 4, 2).contiguous()
    y = p.sigmoid()
    xy = (y[..., 0:2] * 2.0 - 0.5 + _grid(8)) * 8
    wh = (y[..., 2:4] * 2) ** 2 * torch.tensor([[10.0, 13], [16, 30], [33, 23]]).view(3, 1, 1, 2)
    return torch.cat([xy, wh, y[..., 4:]], -1).view(2, -1, 7)


@part(lambda: torch.rand(20, 4) * 10, rand(20), s=lin(4, 4))
def box_iou(m: Any, boxes: Any, scores: Any) -> Any:
    b = m.s(boxes).abs()
    x1y1, x2y2 = b[:, :2], b[:, :2] + b[:, 2:]
    area = b[:, 2] * b[:, 3]
    lt, rb = torch.max(x1y1[:, None], x1y1[None]), torch.min(x2y2[:, None], x2y2[None])
    inter = (rb - lt).clamp(min=0).prod(-1)
    iou = inter / (area[:, None] + area[None] - inter)
    order = scores.argsort(descending=True, stable=True)
    return iou[order][:, order].triu(1).amax(0), torch.where(scores > 0, scores, scores.min())


@part(rand(2, 40, 80), rand(2, 8, 4), box=lin(4, 4))
def focal_giou(m: Any, logits: Any, boxes: Any) -> Any:
    target = F.one_hot(torch.arange(40) % 80, 80).float().expand(2, -1, -1)
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    focal = (0.25 * target + 0.75 * (1 - target)) * ce * (1 - (p * target + (1 - p) * (1 - target))) ** 2
    b = m.box(boxes)
    return focal.sum() / 80 + F.smooth_l1_loss(b, boxes, beta=0.1) + F.l1_loss(b.tanh(), boxes)


@part(rand(1, 8, 16, 16), rand(1, 12, 2), off=lin(8, 8), w=lin(8, 4))
def deformable_attention(m: Any, value: Any, points: Any) -> Any:
    q = F.grid_sample(value, points[:, None].tanh(), align_corners=False)[:, :, 0].mT
    at = (points[:, :, None] + m.off(q).unflatten(-1, (4, 2))).tanh()
    got = F.grid_sample(value, at, mode="bilinear", padding_mode="zeros", align_corners=False)
    return (got * m.w(q).softmax(-1)[:, None]).sum(-1)


@part(rand(1, 8, 16, 16), a=lambda: nn.Conv2d(8, 4, 3, padding=1),
      b=lambda: nn.Conv2d(8, 4, 3, padding=2, dilation=2), p=lambda: nn.Conv2d(8, 4, 1),
      out=lambda: nn.Conv2d(12, 5, 1))  # fmt: skip
def aspp(m: Any, x: Any) -> Any:
    g = F.interpolate(m.p(x.mean((2, 3), keepdim=True)), (16, 16), mode="bilinear")
    h = m.out(torch.cat([m.a(x), m.b(x), g], 1).relu())
    return F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False).argmax(1), h


@part(rand(1, 4, 16, 16), rand(1, 4, 8, 8), rand(1, 4, 4, 4),
      lat=lambda: nn.Conv2d(4, 4, 1), out=lambda: nn.Conv2d(4, 4, 3, padding=1))  # fmt: skip
def feature_pyramid(m: Any, a: Any, b: Any, c: Any) -> Any:
    p3 = m.lat(c)
    p2 = m.lat(b) + F.interpolate(p3, size=b.shape[-2:], mode="nearest")
    p1 = m.lat(a) + F.interpolate(p2, size=a.shape[-2:], mode="nearest")
    return [m.out(p) for p in (p1, p2, p3)] + [F.max_pool2d(p3, 1, 2)]


@part(rand(2, 5, 12, 12), head=lambda: nn.Conv2d(5, 5, 3, padding=1))
def center_net(m: Any, x: Any) -> Any:
    heat = m.head(x).sigmoid().clamp(1e-4, 1 - 1e-4)
    keep = (F.max_pool2d(heat, 3, 1, 1) == heat).float()
    score, index = (heat * keep).flatten(1).topk(6)
    return score, index % 12, (index // 12) % 12


@part(rand(1, 6, 10, 10), e=lambda: nn.Conv2d(6, 8, 1), q=weight(5, 8), mlp=mlp(8, 8, 8))
def mask_former(m: Any, x: Any) -> Any:
    p = m.e(x)
    masks = torch.einsum("qc,bchw->bqhw", m.mlp(m.q), p)
    prob = masks.sigmoid()
    kept = (prob > 0.5).float()
    score = (prob.flatten(2) * kept.flatten(2)).sum(2) / (kept.flatten(2).sum(2) + 1e-6)
    return masks * score[..., None, None]


@part(rand(2, 3, 16, 16), a=lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
      b=lambda: nn.Conv2d(4, 12, 3, padding=1, padding_mode="replicate"),
      c=lambda: nn.Conv2d(12, 12, 3, padding=1, padding_mode="circular"), i=lambda: nn.InstanceNorm2d(4))  # fmt: skip
def style_padding(m: Any, x: Any) -> Any:
    h = F.pixel_shuffle(m.c(m.b(F.leaky_relu(m.i(m.a(x)), 0.2)).relu()), 2)
    return torch.tanh(h), F.pixel_unshuffle(h, 4).flatten(1).norm(dim=1)


# --- graphs ---


def edges(n: int, count: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, n, (2, count))


@part(rand(20, 8), edges(20, 60), w=lin(8, 8))
def gcn_normed(m: Any, x: Any, e: Any) -> Any:
    s, t = torch.cat([e, torch.arange(20).repeat(2, 1)], 1)
    degree = torch.zeros(20).scatter_add_(0, t, torch.ones(t.shape[0]))
    norm = degree.pow(-0.5)
    norm = norm.masked_fill(norm == float("inf"), 0)
    h = m.w(x)[s] * (norm[s] * norm[t])[:, None]
    return torch.zeros(20, 8).index_add_(0, t, h).relu()


@part(rand(20, 8), edges(20, 60), w=lin(8, 16), a=weight(1, 2, 8), b=weight(1, 2, 8))
def gat_softmax(m: Any, x: Any, e: Any) -> Any:
    h = m.w(x).view(-1, 2, 8)
    s, t = e[0], e[1]
    z = F.leaky_relu((h * m.a).sum(-1)[s] + (h * m.b).sum(-1)[t], 0.2)
    index = t[:, None].expand_as(z)
    top = torch.full((20, 2), -math.inf).scatter_reduce(0, index, z.detach(), "amax")
    z = (z - top[t]).exp()
    total = torch.zeros(20, 2).scatter_add(0, index, z)[t]
    out = torch.zeros(20, 2, 8).index_add(0, t, h[s] * (z / (total + 1e-16))[..., None])
    return F.elu(out.flatten(1))


@part(rand(20, 8), edges(20, 60), n=mlp(16, 16, 8))
def edge_conv_max(m: Any, x: Any, e: Any) -> Any:
    z = m.n(torch.cat([x[e[1]], x[e[0]] - x[e[1]]], -1))
    index = e[1][:, None].expand_as(z)
    out = torch.zeros(20, 8).scatter_reduce(0, index, z, "amax", include_self=False)
    return F.log_softmax(out, -1)


@part(rand(20, 8), lambda: torch.arange(20) // 5, g=lin(8, 1), out=lin(24, 2))
def graph_readout(m: Any, x: Any, batch: Any) -> Any:
    total = torch.zeros(4, 8).index_add(0, batch, x * m.g(x).sigmoid())
    mean = torch.zeros(4, 8).scatter_reduce(
        0, batch[:, None].expand(-1, 8), x, "mean", include_self=False)  # fmt: skip
    low = torch.zeros(4, 8).index_reduce(0, batch, x, "amin", include_self=False)
    return m.out(torch.cat([total, mean, low], 1))


@part(rand(12, 3), rand(12, 8), phi=mlp(17, 16, 8), px=mlp(8, 8, 1), ph=mlp(16, 16, 8))
def egnn(m: Any, x: Any, h: Any) -> Any:
    d = x[:, None] - x[None]
    r = d.square().sum(-1, keepdim=True)
    both = torch.cat([h[:, None].expand(-1, 12, -1), h[None].expand(12, -1, -1), r], -1)
    e = m.phi(both) * (1 - torch.eye(12))[..., None]
    x = x + (d / (r.sqrt() + 1) * m.px(e)).mean(1)
    return x, h + m.ph(torch.cat([h, e.sum(1)], -1))


@part(rand(10, 3), emb=weight(10, 8), f=mlp(16, 16, 8), out=lin(8, 1))
def schnet(m: Any, pos: Any) -> Any:
    d = torch.cdist(pos, pos) + torch.eye(10)
    rbf = torch.exp(-10.0 * (d[..., None] - torch.linspace(0, 5, 16)) ** 2)
    cut = 0.5 * (torch.cos(d * math.pi / 5) + 1) * (d < 5)
    h = (m.f(rbf) * cut[..., None] * m.emb[None]).sum(1)
    return (F.softplus(m.out(h)) - math.log(2)).sum()


@part(rand(16, 6), edges(16, 40), a=lin(6, 8), rel=weight(3, 6, 8))
def relational_gcn(m: Any, x: Any, e: Any) -> Any:
    kind = (e[0] + e[1]) % 3
    sent = torch.bmm(x[e[0]][:, None], m.rel[kind])[:, 0]
    count = torch.bincount(e[1], minlength=16).clamp(min=1)
    return F.relu(m.a(x).index_add(0, e[1], sent) / count[:, None])


# --- sequences and language ---


@part(rand(2, 12, 16), qkv=lin(16, 48), o=lin(16, 16))
def rope_complex(m: Any, x: Any) -> Any:
    q, k, v = m.qkv(x).unflatten(-1, (3, 2, 8)).unbind(2)
    f = 1.0 / 100 ** (torch.arange(0, 8, 2).float() / 8)
    turn = torch.polar(torch.ones(12, 4), torch.outer(torch.arange(12).float(), f))

    def rotate(t: Any) -> Any:
        c = torch.view_as_complex(t.float().reshape(*t.shape[:-1], 4, 2)) * turn[:, None]
        return torch.view_as_real(c).flatten(3).type_as(t).transpose(1, 2)

    y = F.scaled_dot_product_attention(rotate(q), rotate(k), v.transpose(1, 2), is_causal=True)
    return m.o(y.transpose(1, 2).flatten(2))


@part(rand(2, 20, 8), a=weight(8, 4), d=lin(8, 8), bc=lin(8, 8), conv=lambda: nn.Conv1d(8, 8, 4, groups=8, padding=3))
def selective_scan(m: Any, x: Any) -> Any:
    u = F.silu(m.conv(x.mT)[..., :20].mT)
    dt = F.softplus(m.d(u))
    b, c = m.bc(u).chunk(2, -1)
    decay = torch.exp(dt[..., None] * -m.a.exp())
    h, ys = torch.zeros(2, 8, 4), []
    for t in range(20):
        h = decay[:, t] * h + (dt[:, t] * u[:, t])[..., None] * b[:, t, None]
        ys.append((h * c[:, t, None]).sum(-1))
    return torch.stack(ys, 1) * F.silu(x)


@part(rand(2, 16, 8), r=lin(8, 8), k=lin(8, 8), v=lin(8, 8), w=weight(8))
def retention(m: Any, x: Any) -> Any:
    n = torch.arange(16)
    d = (n[:, None] - n[None]).float()
    mask = torch.where(d >= 0, 0.9 ** d.clamp(min=0), 0.0)
    s = torch.einsum("bid,bjd->bij", m.r(x), m.k(x)) * mask
    y = s / s.abs().sum(-1, keepdim=True).clamp(min=1).detach() @ m.v(x)
    return F.rms_norm(y, (8,), m.w, 1e-6)


@part(ids(30, 3, 9), table=table(30, 12), lstm=lambda: nn.LSTM(12, 8, 2, batch_first=True, bidirectional=True), out=lin(16, 5), t=weight(5, 5))
def bilstm_crf(m: Any, tokens: Any) -> Any:
    y = m.out(m.lstm(m.table(tokens))[0])
    a = y[:, 0]
    for k in range(1, 9):
        step = torch.logsumexp(a[:, :, None] + m.t + y[:, k, None], 1)
        a = torch.where((tokens[:, k] > 2)[:, None], step, a)
    return a.logsumexp(1)


@part(rand(14, 2, 6), ids(5, 2, 4), w=lin(6, 6))
def ctc(m: Any, x: Any, target: Any) -> Any:
    lengths = torch.full((2,), 14), torch.tensor([4, 3])
    return F.ctc_loss(m.w(x).log_softmax(-1), target % 5 + 1, *lengths)


@part(rand(4, 10, 8), rand(4, 7, 8), a=lin(8, 8), b=lin(8, 8), v=lin(8, 1))
def additive_attention(m: Any, keys: Any, queries: Any) -> Any:
    s = m.v(torch.tanh(m.a(queries)[:, :, None] + m.b(keys)[:, None])).squeeze(-1)
    mask = torch.arange(10)[None] < torch.tensor([10, 4, 7, 1])[:, None]
    w = s.masked_fill(~mask[:, None], torch.finfo(s.dtype).min).softmax(-1)
    return torch.bmm(w, keys), w.argmax(-1)


@part(rand(2, 24, 8), w=lin(8, 8))
def autocorrelation(m: Any, x: Any) -> Any:
    q = torch.fft.rfft(m.w(x), dim=1)
    k = torch.fft.rfft(x, dim=1)
    corr = torch.fft.irfft(q * torch.conj(k), n=24, dim=1).mean(-1)
    weights, delay = torch.topk(corr, 3, dim=-1)
    at = (torch.arange(24)[None, None] + delay[..., None]) % 24
    got = torch.gather(x[:, None].expand(-1, 3, -1, -1), 2, at[..., None].expand(-1, -1, -1, 8))
    return (got * weights.softmax(-1)[..., None, None]).sum(1)


@part(rand(2, 24, 4), s=lin(24, 12), t=lin(24, 12))
def dlinear(m: Any, x: Any) -> Any:
    padded = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
    trend = F.avg_pool1d(padded.mT, 5, 1).mT
    mean = x.mean(1, keepdim=True).detach()
    return (m.s((x - trend).mT) + m.t(trend.mT)).mT + mean


@part(rand(3, 16), w=lin(16, 16))
def gumbel_sinkhorn(m: Any, x: Any) -> Any:
    s = m.w(x).view(3, 4, 4)
    for _ in range(4):
        s = s - s.logsumexp(-1, keepdim=True)
        s = s - s.logsumexp(-2, keepdim=True)
    hard = F.one_hot(s.argmax(-1), 4).to(s.dtype)
    return hard - s.exp().detach() + s.exp()


@part(rand(2, 6, 8), ids(4, 2, 6), e=table(4, 8), n=lambda: nn.LayerNorm(8, bias=False), w=lin(8, 16), o=lin(8, 8))
def gated_unit(m: Any, x: Any, kind: Any) -> Any:
    a, b = m.w(m.n(x + m.e(kind))).chunk(2, -1)
    h = F.glu(torch.cat([a, b], -1)) + F.hardswish(a) * F.mish(b) + F.selu(a) - F.celu(b, 0.7)
    return m.o(F.hardtanh(h, -2, 2) + F.softsign(a) + F.tanhshrink(b) + F.hardsigmoid(a))


@part(rand(4, 32), code=weight(16, 8), a=lin(32, 32), b=lin(32, 32))
def residual_quantizer(m: Any, x: Any) -> Any:
    r = m.a(x).view(4, 4, 8)
    total = torch.zeros_like(r)
    for _ in range(3):
        k = torch.cdist(r, m.code).argmin(-1)
        q = F.embedding(k, m.code)
        total, r = total + q, r - q.detach()
    return m.b(total.flatten(1)), k


# --- geometry, science, control ---


@part(rand(6, 6), a=lin(6, 3))
def rotations(m: Any, x: Any) -> Any:
    a, b = x[:, :3], x[:, 3:]
    e1 = F.normalize(a, dim=-1)
    e2 = F.normalize(b - (e1 * b).sum(-1, keepdim=True) * e1, dim=-1)
    e3 = torch.linalg.cross(e1, e2)
    rot = torch.stack([e1, e2, e3], -1)
    trace = rot.diagonal(dim1=-2, dim2=-1).sum(-1)
    angle = torch.acos(((trace - 1) / 2).clamp(-1 + 1e-6, 1 - 1e-6))
    return (rot @ m.a(x)[..., None]).squeeze(-1), angle, torch.linalg.det(rot)


@part(rand(2, 20, 3), lift=mlp(3, 16, 16))
def point_net_sampling(m: Any, x: Any) -> Any:
    far, at, chosen = torch.full((2, 20), 1e10), torch.zeros(2, dtype=torch.long), []
    for _ in range(5):
        chosen.append(at)
        centre = x[torch.arange(2), at][:, None]
        far = torch.minimum(far, ((x - centre) ** 2).sum(-1))
        at = far.argmax(-1)
    index = torch.stack(chosen, 1)
    return torch.gather(m.lift(x), 1, index[..., None].expand(-1, -1, 16)).amax(1)


@part(lambda: torch.rand(30, 4), sigma=mlp(24, 16, 4))
def volume_rendering(m: Any, rays: Any) -> Any:
    t = torch.linspace(0.1, 1, 8)
    p = rays[:, None, :3] + t[:, None] * rays[:, None, 3:]
    enc = torch.cat([f(2.0**k * math.pi * p) for k in range(4) for f in (torch.sin, torch.cos)], -1)
    raw = m.sigma(enc)
    alpha = 1 - torch.exp(-F.relu(raw[..., 3]) * 0.1)
    light = torch.cumprod(torch.cat([torch.ones(30, 1), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    return ((alpha * light)[..., None] * raw[..., :3].sigmoid()).sum(1)


@part(rand(16, 2), hash=weight(64, 4), out=mlp(4, 8, 1))
def hash_grid(m: Any, x: Any) -> Any:
    p = x.sigmoid() * 15
    low = p.floor().long()
    f = p - low
    total = torch.zeros(16, 4)
    for dx in (0, 1):
        for dy in (0, 1):
            c = low + torch.tensor([dx, dy])
            h = (c[:, 0] * 1 ^ c[:, 1] * 2654435761) % 64
            w = (f[:, 0] if dx else 1 - f[:, 0]) * (f[:, 1] if dy else 1 - f[:, 1])
            total = total + w[:, None] * m.hash[h]
    return m.out(total)


@part(rand(8, 4), f=mlp(4, 16, 4))
def neural_ode(m: Any, x: Any) -> Any:
    for _ in range(3):
        k1 = m.f(x)
        k2 = m.f(x + 0.05 * k1)
        k3 = m.f(x + 0.05 * k2)
        k4 = m.f(x + 0.1 * k3)
        x = x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


@part(rand(1, 2, 16, 16), lift=lambda: nn.Conv2d(2, 6, 1), w=weight(6, 6, 4, 4, 2), out=lambda: nn.Conv2d(6, 1, 1))
def fno_2d(m: Any, x: Any) -> Any:
    h = m.lift(x)
    f = torch.fft.rfft2(h)
    kept = torch.zeros(1, 6, 16, 9, dtype=torch.cfloat)
    kept[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", f[:, :, :4, :4], torch.view_as_complex(m.w))
    return m.out(F.gelu(torch.fft.irfft2(kept, s=(16, 16)) + h))


@part(rand(8, 6), ids(3, 8), rand(8), pi=mlp(6, 16, 3), v=mlp(6, 16, 1))
def ppo_loss(m: Any, state: Any, action: Any, advantage: Any) -> Any:
    logp = m.pi(state).log_softmax(-1)
    chosen = logp.gather(1, action[:, None]).squeeze(1)
    ratio = (chosen - chosen.detach() * 0.9).exp()
    adv = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clip = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    return -clip + F.huber_loss(m.v(state)[:, 0], advantage) + 0.01 * (logp.exp() * logp).sum(-1).mean()


@part(rand(8, 5), mu=lin(5, 2), s=lin(5, 2))
def tanh_gaussian(m: Any, x: Any) -> Any:
    mu, log_std = m.mu(x), m.s(x).clamp(-20, 2)
    d = torch.distributions.Normal(mu, log_std.exp())
    a = torch.tanh(mu)
    logp = d.log_prob(mu + 0.1) - torch.log(1 - a.pow(2) + 1e-6)
    kl = torch.distributions.kl_divergence(d, torch.distributions.Normal(0.0, 1.0))
    return logp.sum(-1), kl.sum(-1), d.entropy().mean()


@part(rand(10, 3), rand(4, 3), ls=weight(3), y=weight(10))
def gaussian_process(m: Any, x: Any, at: Any) -> Any:
    def kernel(a: Any, b: Any) -> Any:
        return torch.exp(-0.5 * torch.cdist(a / m.ls.exp(), b / m.ls.exp()).square())

    chol = torch.linalg.cholesky(kernel(x, x) + 0.1 * torch.eye(10))
    alpha = torch.cholesky_solve(m.y[:, None], chol)
    v = torch.linalg.solve_triangular(chol, kernel(x, at), upper=False)
    nll = 0.5 * (m.y @ alpha)[0] + chol.diagonal().log().sum()
    return (kernel(at, x) @ alpha)[:, 0], 1 - v.square().sum(0), nll


@part(rand(3, 6, 6), s=lin(6, 6))
def spectral_norms(m: Any, x: Any) -> Any:
    a = m.s(x)
    q, r = torch.linalg.qr(a)
    sym = a + a.mT + 6 * torch.eye(6)
    values = torch.linalg.eigvalsh(sym)
    return q.abs() @ r.abs(), values, torch.linalg.matrix_norm(a), torch.linalg.inv(sym)


@part(rand(2, 6, 12, 12), a=lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6), b=lambda: nn.Conv2d(6, 12, 1), c=lambda: nn.Conv2d(12, 6, 1), g=weight(6, 1, 1), sn=lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(6, 4, 3)))
def inverted_block(m: Any, x: Any) -> Any:
    n = F.layer_norm(m.a(x).permute(0, 2, 3, 1), (6,)).permute(0, 3, 1, 2)
    y = x + m.g * m.c(F.gelu(m.b(n), approximate="tanh"))
    return F.adaptive_avg_pool2d(m.sn(y), (3, 5)), F.lp_pool2d(y, 2, 3), F.unfold(y, 3, 2, 1, 2)


@part(rand(2, 4, 8, 8, 8), c=lambda: nn.Conv3d(4, 8, 3, padding=1, stride=2), t=lambda: nn.ConvTranspose3d(8, 4, 2, 2), n=lambda: nn.BatchNorm3d(8))
def volume_unet(m: Any, x: Any) -> Any:
    h = F.elu(m.n(m.c(x)))
    up = m.t(F.dropout3d(h, 0.2, m.training)) + F.interpolate(
        F.avg_pool3d(x, 2), scale_factor=2, mode="trilinear", align_corners=True)  # fmt: skip
    return up, F.adaptive_max_pool3d(h, 2), F.max_pool3d(x, 3, 2, 1)


@part(rand(2, 3, 8, 8), loc=mlp(192, 16, 6))
def affine_warp(m: Any, x: Any) -> Any:
    theta = m.loc(x.flatten(1)).view(2, 2, 3) * 0.1 + torch.eye(2, 3)
    grid = F.affine_grid(theta, [2, 3, 8, 8], align_corners=False)
    near = F.grid_sample(x, grid, mode="nearest", align_corners=False)
    rolled = torch.roll(x, (1, -2), (2, 3)).flip(-1).rot90(1, (2, 3))
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True) + near, rolled


@part(rand(2, 1, 30), ids(4, 2, 30), e=table(4, 6), c=lambda: nn.Conv1d(7, 8, 7, padding="same"), p=lin(8, 2))
def genomics(m: Any, signal: Any, bases: Any) -> Any:
    h = torch.cat([signal, m.e(bases).mT], 1)
    h = F.max_pool1d(F.relu(m.c(h)), 3, ceil_mode=True)
    pooled = F.adaptive_max_pool1d(h, 4) + F.adaptive_avg_pool1d(h, 4)
    return m.p(pooled.mT.sum(1)), h.median(-1).values, h.sort(-1, descending=True).values[..., :3]


@part(rand(5, 8), w=lin(8, 8))
def statistics(m: Any, x: Any) -> Any:
    y = m.w(x)
    v, mu = torch.var_mean(y, 0, correction=0)
    z = (y - mu) / (v + 1e-5).sqrt()
    return (
        z, y.quantile(0.3, 1), y.logcumsumexp(1), y.cummax(1).values, torch.cov(y), y.kthvalue(2, 1).values,
        torch.nan_to_num(y.detach() / 0), y.diff(dim=1), y.renorm(2, 0, 1.0), torch.corrcoef(y),
    )  # fmt: skip


@part(rand(6, 6), ids(6, 4), w=lin(6, 6))
def mutations(m: Any, x: Any, at: Any) -> Any:
    y = m.w(x).clone()
    y[:, 1] = 0
    y[1:4, ::2] += 1.5
    y[at] *= 2
    y.masked_fill_(y < -1, -1).clamp_(max=2).add_(x, alpha=0.5)
    z = torch.zeros(6, 6).scatter_(1, at[None].expand(6, -1), y[:, :4])
    z.diagonal().copy_(y.sum(0))
    z[..., -1].sub_(1)
    return y, z, torch.empty(2, 3).fill_(3.0).mul_(y[0, 0])


@part(rand(4, 6), rand(4, 6), w=lin(6, 6))
def losses(m: Any, x: Any, y: Any) -> Any:
    p, t = m.w(x), torch.tensor([1.0, -1, 1, -1])
    k = torch.tensor([0, 2, -100, 5])
    return torch.stack([
        F.cross_entropy(p, k, label_smoothing=0.1), F.nll_loss(p.log_softmax(1), k), F.kl_div(p.log_softmax(1), y.softmax(1), reduction="batchmean"),
        F.cosine_embedding_loss(p, y, t, 0.2), F.triplet_margin_loss(p, y, x, swap=True), F.margin_ranking_loss(p[:, 0], y[:, 0], t),
        F.hinge_embedding_loss(p[:, 1], t), F.multi_margin_loss(p, k.clamp(min=0)), F.soft_margin_loss(p[:, 2], t), F.gaussian_nll_loss(p, y, x.square() + 1),
        F.poisson_nll_loss(p, y.abs()), F.multilabel_soft_margin_loss(p, (y > 0).float()), F.pairwise_distance(p, y).mean(), F.cosine_similarity(p, y).mean(),
    ])  # fmt: skip


@part(rand(2, 5, 8), h=lambda: nn.MultiheadAttention(8, 2, batch_first=True), e=lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.1, batch_first=True))
def decoder_layer(m: Any, x: Any) -> Any:
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    y, w = m.h(x, x, x, attn_mask=mask, need_weights=True, average_attn_weights=False)
    return m.e(y, x, tgt_mask=mask, tgt_is_causal=True), w


@part(rand(2, 8, 16), wq=lin(16, 16), wk=lin(16, 8), wv=lin(16, 8), cache=lambda: nn.Buffer(torch.zeros(2, 2, 1, 12, 4)))
def grouped_query_cache(m: Any, x: Any) -> Any:
    q = m.wq(x).view(2, 8, 4, 4).transpose(1, 2)
    k, v = (w(x).view(2, 8, 2, 4).transpose(1, 2) for w in (m.wk, m.wv))
    keys = torch.cat([torch.zeros(2, 2, 4, 4), k], 2)
    values = torch.cat([torch.ones(2, 2, 4, 4), v], 2)
    keys, values = (t.repeat_interleave(2, 1) for t in (keys, values))
    mask = torch.ones(8, 12, dtype=torch.bool).tril(4)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=0.3).transpose(1, 2).reshape(2, 8, 16)


@part(ids(200, 4, 10), lambda: torch.rand(4, 10) > 0.3)
def integers(m: Any, x: Any, mask: Any) -> Any:  # noqa: ARG001  a module without layers
    y = (x // 7 + x % 5 - (x << 1)) ^ (x >> 2) & 0xFF | ~x
    pos = mask.cumsum(1) * mask
    return (
        y, pos, x.float().mean(), (x > 3).any(1), (x < 199).all(0), torch.bucketize(x, torch.tensor([10, 50, 100])),
        torch.searchsorted(torch.arange(0, 200, 20), x.contiguous()), torch.isin(x, torch.tensor([1, 2, 3])),
        torch.where(mask, x, -1), x.max(1).indices, x.clamp(5, 100).to(torch.int16), torch.tril(x), x.roll(1, 1), x.argsort(dim=1, stable=True),
    )  # fmt: skip


@part(rand(3, 8, 8), a=lin(8, 8))
def named_views(m: Any, x: Any) -> Any:
    y = m.a(x)
    a, b = y.tensor_split(2, -1)
    return (
        torch.movedim(y, 0, -1), y.swapaxes(0, 1)[::2], torch.stack(y.unbind(0)[::-1]), y.view(3, 2, 4, 8).sum((1, -1)), torch.block_diag(y[0], y[1]),
        a.expand(2, -1, -1, -1).reshape(-1, 4), torch.hstack([a, b]), torch.dstack([a, b]), torch.kron(y[0, :2, :2], y[1, :2, :2]), y.narrow(1, 2, 3),
        torch.cartesian_prod(y[0, 0, :2], y[0, 1, :3]), y.diag_embed().shape[0] * y[0], torch.triu(y, 1), torch.tile(y[0], (2, 1)), y.unfold(1, 3, 2).mean(-1),
    )  # fmt: skip


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model, arguments by position, none by name."""
    made, args = MODELS[name]()
    return made, args, {}

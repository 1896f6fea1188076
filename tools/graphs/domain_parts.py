"""Parts of recommenders, of networks for audio, detection and segmentation, and of graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from graphs.parts import ids, lin, mlp, part, rand, table, weight

# --- recommenders ---


@part(rand(32, 13), ids(50, 32, 6), bottom=mlp(13, 32, 16), table=table(50, 16), top=mlp(37, 32, 1))
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


@part(
    ids(100, 24),
    lambda: torch.tensor([0, 5, 5, 11, 20]),
    bag=lambda: nn.EmbeddingBag(100, 8, mode="mean"),
    out=lin(8, 3),
)
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


@part(
    rand(2, 1, 400),
    a=lambda: nn.Conv1d(1, 16, 20, 10, padding=5),
    b=lambda: nn.Conv1d(16, 8, 1),
    tcn=lambda: nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=8),
    n=lambda: nn.GroupNorm(1, 8),
    p=lambda: nn.PReLU(),
    c=lambda: nn.ConvTranspose1d(16, 1, 20, 10, padding=5),
    up=lambda: nn.Conv1d(8, 16, 1),
)
def conv_tasnet(m: Any, x: Any) -> Any:
    w = m.a(x).relu()
    h = m.n(m.p(m.tcn(m.b(w))))
    return m.c(m.up(h).sigmoid() * w)


@part(
    rand(3, 40, 24),
    a=lambda: nn.Conv1d(40, 16, 5, dilation=1),
    b=lambda: nn.Conv1d(16, 16, 3, dilation=2),
    bn=lambda: nn.BatchNorm1d(16),
    out=lin(32, 6),
)
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
    focal = (
        (0.25 * target + 0.75 * (1 - target))
        * ce
        * (1 - (p * target + (1 - p) * (1 - target))) ** 2
    )
    b = m.box(boxes)
    return focal.sum() / 80 + F.smooth_l1_loss(b, boxes, beta=0.1) + F.l1_loss(b.tanh(), boxes)


@part(rand(1, 8, 16, 16), rand(1, 12, 2), off=lin(8, 8), w=lin(8, 4))
def deformable_attention(m: Any, value: Any, points: Any) -> Any:
    q = F.grid_sample(value, points[:, None].tanh(), align_corners=False)[:, :, 0].mT
    at = (points[:, :, None] + m.off(q).unflatten(-1, (4, 2))).tanh()
    got = F.grid_sample(value, at, mode="bilinear", padding_mode="zeros", align_corners=False)
    return (got * m.w(q).softmax(-1)[:, None]).sum(-1)


@part(
    rand(1, 8, 16, 16),
    a=lambda: nn.Conv2d(8, 4, 3, padding=1),
    b=lambda: nn.Conv2d(8, 4, 3, padding=2, dilation=2),
    p=lambda: nn.Conv2d(8, 4, 1),
    out=lambda: nn.Conv2d(12, 5, 1),
)
def aspp(m: Any, x: Any) -> Any:
    g = F.interpolate(m.p(x.mean((2, 3), keepdim=True)), (16, 16), mode="bilinear")
    h = m.out(torch.cat([m.a(x), m.b(x), g], 1).relu())
    return F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False).argmax(1), h


@part(
    rand(1, 4, 16, 16),
    rand(1, 4, 8, 8),
    rand(1, 4, 4, 4),
    lat=lambda: nn.Conv2d(4, 4, 1),
    out=lambda: nn.Conv2d(4, 4, 3, padding=1),
)
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


@part(
    rand(2, 3, 16, 16),
    a=lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
    b=lambda: nn.Conv2d(4, 12, 3, padding=1, padding_mode="replicate"),
    c=lambda: nn.Conv2d(12, 12, 3, padding=1, padding_mode="circular"),
    i=lambda: nn.InstanceNorm2d(4),
)
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
        0, batch[:, None].expand(-1, 8), x, "mean", include_self=False
    )
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

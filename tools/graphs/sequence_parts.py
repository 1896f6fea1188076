"""Parts of models of sequences and language."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from graphs.parts import ids, lin, part, rand, table, weight

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


@part(
    rand(2, 20, 8),
    a=weight(8, 4),
    d=lin(8, 8),
    bc=lin(8, 8),
    conv=lambda: nn.Conv1d(8, 8, 4, groups=8, padding=3),
)
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


@part(
    ids(30, 3, 9),
    table=table(30, 12),
    lstm=lambda: nn.LSTM(12, 8, 2, batch_first=True, bidirectional=True),
    out=lin(16, 5),
    t=weight(5, 5),
)
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


@part(
    rand(2, 6, 8),
    ids(4, 2, 6),
    e=table(4, 8),
    n=lambda: nn.LayerNorm(8, bias=False),
    w=lin(8, 16),
    o=lin(8, 8),
)
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

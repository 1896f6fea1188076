"""Parts of models in geometry, science and control; ops that few models call."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from graphs.parts import ids, lin, mlp, part, rand, table, weight

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


@part(
    rand(1, 2, 16, 16),
    lift=lambda: nn.Conv2d(2, 6, 1),
    w=weight(6, 6, 4, 4, 2),
    out=lambda: nn.Conv2d(6, 1, 1),
)
def fno_2d(m: Any, x: Any) -> Any:
    h = m.lift(x)
    f = torch.fft.rfft2(h)
    kept = torch.zeros(1, 6, 16, 9, dtype=torch.cfloat)
    kept[:, :, :4, :4] = torch.einsum(
        "bixy,ioxy->boxy", f[:, :, :4, :4], torch.view_as_complex(m.w)
    )
    return m.out(F.gelu(torch.fft.irfft2(kept, s=(16, 16)) + h))


@part(rand(8, 6), ids(3, 8), rand(8), pi=mlp(6, 16, 3), v=mlp(6, 16, 1))
def ppo_loss(m: Any, state: Any, action: Any, advantage: Any) -> Any:
    logp = m.pi(state).log_softmax(-1)
    chosen = logp.gather(1, action[:, None]).squeeze(1)
    ratio = (chosen - chosen.detach() * 0.9).exp()
    adv = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clip = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    return (
        -clip
        + F.huber_loss(m.v(state)[:, 0], advantage)
        + 0.01 * (logp.exp() * logp).sum(-1).mean()
    )


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


@part(
    rand(2, 6, 12, 12),
    a=lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6),
    b=lambda: nn.Conv2d(6, 12, 1),
    c=lambda: nn.Conv2d(12, 6, 1),
    g=weight(6, 1, 1),
    sn=lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(6, 4, 3)),
)
def inverted_block(m: Any, x: Any) -> Any:
    n = F.layer_norm(m.a(x).permute(0, 2, 3, 1), (6,)).permute(0, 3, 1, 2)
    y = x + m.g * m.c(F.gelu(m.b(n), approximate="tanh"))
    return F.adaptive_avg_pool2d(m.sn(y), (3, 5)), F.lp_pool2d(y, 2, 3), F.unfold(y, 3, 2, 1, 2)


@part(
    rand(2, 4, 8, 8, 8),
    c=lambda: nn.Conv3d(4, 8, 3, padding=1, stride=2),
    t=lambda: nn.ConvTranspose3d(8, 4, 2, 2),
    n=lambda: nn.BatchNorm3d(8),
)
def volume_unet(m: Any, x: Any) -> Any:
    h = F.elu(m.n(m.c(x)))
    up = m.t(F.dropout3d(h, 0.2, m.training)) + F.interpolate(
        F.avg_pool3d(x, 2), scale_factor=2, mode="trilinear", align_corners=True
    )
    return up, F.adaptive_max_pool3d(h, 2), F.max_pool3d(x, 3, 2, 1)


@part(rand(2, 3, 8, 8), loc=mlp(192, 16, 6))
def affine_warp(m: Any, x: Any) -> Any:
    theta = m.loc(x.flatten(1)).view(2, 2, 3) * 0.1 + torch.eye(2, 3)
    grid = F.affine_grid(theta, [2, 3, 8, 8], align_corners=False)
    near = F.grid_sample(x, grid, mode="nearest", align_corners=False)
    rolled = torch.roll(x, (1, -2), (2, 3)).flip(-1).rot90(1, (2, 3))
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True) + near, rolled


@part(
    rand(2, 1, 30),
    ids(4, 2, 30),
    e=table(4, 6),
    c=lambda: nn.Conv1d(7, 8, 7, padding="same"),
    p=lin(8, 2),
)
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
        z,
        y.quantile(0.3, 1),
        y.logcumsumexp(1),
        y.cummax(1).values,
        torch.cov(y),
        y.kthvalue(2, 1).values,
        torch.nan_to_num(y.detach() / 0),
        y.diff(dim=1),
        y.renorm(2, 0, 1.0),
        torch.corrcoef(y),
    )


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
    return torch.stack(
        [
            F.cross_entropy(p, k, label_smoothing=0.1),
            F.nll_loss(p.log_softmax(1), k),
            F.kl_div(p.log_softmax(1), y.softmax(1), reduction="batchmean"),
            F.cosine_embedding_loss(p, y, t, 0.2),
            F.triplet_margin_loss(p, y, x, swap=True),
            F.margin_ranking_loss(p[:, 0], y[:, 0], t),
            F.hinge_embedding_loss(p[:, 1], t),
            F.multi_margin_loss(p, k.clamp(min=0)),
            F.soft_margin_loss(p[:, 2], t),
            F.gaussian_nll_loss(p, y, x.square() + 1),
            F.poisson_nll_loss(p, y.abs()),
            F.multilabel_soft_margin_loss(p, (y > 0).float()),
            F.pairwise_distance(p, y).mean(),
            F.cosine_similarity(p, y).mean(),
        ]
    )


@part(
    rand(2, 5, 8),
    h=lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    e=lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.1, batch_first=True),
)
def decoder_layer(m: Any, x: Any) -> Any:
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    y, w = m.h(x, x, x, attn_mask=mask, need_weights=True, average_attn_weights=False)
    return m.e(y, x, tgt_mask=mask, tgt_is_causal=True), w


@part(
    rand(2, 8, 16),
    wq=lin(16, 16),
    wk=lin(16, 8),
    wv=lin(16, 8),
    cache=lambda: nn.Buffer(torch.zeros(2, 2, 1, 12, 4)),
)
def grouped_query_cache(m: Any, x: Any) -> Any:
    q = m.wq(x).view(2, 8, 4, 4).transpose(1, 2)
    k, v = (w(x).view(2, 8, 2, 4).transpose(1, 2) for w in (m.wk, m.wv))
    keys = torch.cat([torch.zeros(2, 2, 4, 4), k], 2)
    values = torch.cat([torch.ones(2, 2, 4, 4), v], 2)
    keys, values = (t.repeat_interleave(2, 1) for t in (keys, values))
    mask = torch.ones(8, 12, dtype=torch.bool).tril(4)
    return (
        F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=0.3)
        .transpose(1, 2)
        .reshape(2, 8, 16)
    )


@part(ids(200, 4, 10), lambda: torch.rand(4, 10) > 0.3)
def integers(m: Any, x: Any, mask: Any) -> Any:
    y = (x // 7 + x % 5 - (x << 1)) ^ (x >> 2) & 0xFF | ~x
    pos = mask.cumsum(1) * mask
    return (
        y,
        pos,
        x.float().mean(),
        (x > 3).any(1),
        (x < 199).all(0),
        torch.bucketize(x, torch.tensor([10, 50, 100])),
        torch.searchsorted(torch.arange(0, 200, 20), x.contiguous()),
        torch.isin(x, torch.tensor([1, 2, 3])),
        torch.where(mask, x, -1),
        x.max(1).indices,
        x.clamp(5, 100).to(torch.int16),
        torch.tril(x),
        x.roll(1, 1),
        x.argsort(dim=1, stable=True),
    )


@part(rand(3, 8, 8), a=lin(8, 8))
def named_views(m: Any, x: Any) -> Any:
    y = m.a(x)
    a, b = y.tensor_split(2, -1)
    return (
        torch.movedim(y, 0, -1),
        y.swapaxes(0, 1)[::2],
        torch.stack(y.unbind(0)[::-1]),
        y.view(3, 2, 4, 8).sum((1, -1)),
        torch.block_diag(y[0], y[1]),
        a.expand(2, -1, -1, -1).reshape(-1, 4),
        torch.hstack([a, b]),
        torch.dstack([a, b]),
        torch.kron(y[0, :2, :2], y[1, :2, :2]),
        y.narrow(1, 2, 3),
        torch.cartesian_prod(y[0, 0, :2], y[0, 1, :3]),
        y.diag_embed().shape[0] * y[0],
        torch.triu(y, 1),
        torch.tile(y[0], (2, 1)),
        y.unfold(1, 3, 2).mean(-1),
    )

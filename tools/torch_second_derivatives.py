"""Second derivatives of compiled ops and models, by `torch.autograd.gradgradcheck` in float64.

``python tools/torch_second_derivatives.py FILE [names]`` adds a line a case to the file; cases that
it holds already are left out.
"""

import sys
import warnings

import torch
import torch.nn.functional as F

import pirkit.torch  # noqa: F401  registers the backend

D = torch.float64
torch.manual_seed(0)


def x(*s):
    return torch.randn(*s, dtype=D).requires_grad_()


def p(*s):
    return (torch.rand(*s, dtype=D) + 0.5).requires_grad_()


ANYWHERE = "sin cos tanh exp sigmoid erf atan sinh asinh expm1 square".split()
POSITIVE = "sqrt rsqrt log log1p reciprocal lgamma".split()
CASES = {n: (lambda a, n=n: getattr(torch, n)(a), (x(2, 3),)) for n in ANYWHERE}
CASES |= {n: (lambda a, n=n: getattr(torch, n)(a), (p(2, 3),)) for n in POSITIVE}
CASES |= {
    n: (lambda a, n=n: getattr(F, n)(a), (x(2, 3),))
    for n in "gelu silu softplus mish elu selu logsigmoid tanhshrink celu softsign".split()
}
CASES |= dict(
    softmax=(lambda a: a.softmax(1), (x(2, 3),)),
    log_softmax=(lambda a: a.log_softmax(1), (x(2, 3),)),
    logsumexp=(lambda a: a.logsumexp(1), (x(2, 3),)),
    mm=(torch.mm, (x(2, 3), x(3, 2))),
    bmm=(torch.bmm, (x(2, 2, 3), x(2, 3, 2))),
    linear=(F.linear, (x(2, 3), x(2, 3), x(2))),
    mul=(torch.mul, (x(2, 3), x(3))),
    div=(torch.div, (x(2, 3), p(3))),
    pow=(torch.pow, (p(2, 3), p(3))),
    atan2=(torch.atan2, (p(2, 3), p(3))),
    prod=(lambda a: a.prod(1), (p(2, 3),)),
    mean=(lambda a: (a * a).mean(1), (x(2, 3),)),
    var=(lambda a: a.var(1), (x(2, 3),)),
    std=(lambda a: a.std(1), (x(2, 3),)),
    norm=(lambda a: a.norm(dim=1), (x(2, 3),)),
    cumsum=(lambda a: (a * a).cumsum(1), (x(2, 3),)),
    cumprod=(lambda a: a.cumprod(1), (p(2, 3),)),
    logcumsumexp=(lambda a: a.logcumsumexp(1), (x(2, 3),)),
    layer_norm=(lambda a, w, b: F.layer_norm(a, (3,), w, b), (x(2, 3), x(3), x(3))),
    group_norm=(lambda a: F.group_norm(a, 2), (x(2, 4, 2),)),
    conv1d=(F.conv1d, (x(1, 2, 5), x(2, 2, 3), x(2))),
    conv2d=(F.conv2d, (x(1, 2, 4, 4), x(2, 2, 3, 3))),
    conv_transpose2d=(F.conv_transpose2d, (x(1, 2, 3, 3), x(2, 2, 2, 2))),
    avg_pool2d=(lambda a: F.avg_pool2d(a * a, 2), (x(1, 1, 4, 4),)),
    mse=(F.mse_loss, (x(3), x(3))),
    bce_logits=(
        lambda a: F.binary_cross_entropy_with_logits(a, torch.full((2, 3), 0.3, dtype=D)),
        (x(2, 3),),
    ),
    ce=(lambda a: F.cross_entropy(a, torch.tensor([1, 0])), (x(2, 3),)),
    huber=(lambda a: F.huber_loss(a, torch.zeros(2, 3, dtype=D)), (x(2, 3),)),
    kl=(lambda a: F.kl_div(a.log_softmax(1), torch.full((2, 3), 1 / 3, dtype=D)), (x(2, 3),)),
    index=(lambda a: a[[0, 1, 1]] ** 2, (x(2, 3),)),
    gather=(lambda a: a.gather(1, torch.tensor([[0, 0], [2, 1]])) ** 2, (x(2, 3),)),
    index_add=(lambda a, b: a.index_add(0, torch.tensor([1, 1]), b) ** 2, (x(2, 3), x(2, 3))),
    cat=(lambda a, b: torch.cat([a * a, b.sin()]), (x(2, 3), x(1, 3))),
    where=(lambda a: torch.where(a > 0, a.exp(), a * a), (x(2, 3),)),
    einsum=(lambda a, b: torch.einsum("ij,kj->ik", a, b), (x(2, 3), x(2, 3))),
    det=(torch.linalg.det, (x(3, 3),)),
    inv=(torch.linalg.inv, (x(3, 3),)),
    solve=(torch.linalg.solve, (x(3, 3), x(3, 2))),
    sdpa=(F.scaled_dot_product_attention, (x(1, 1, 3, 2), x(1, 1, 3, 2), x(1, 1, 3, 2))),
    interpolate=(lambda a: F.interpolate(a * a, scale_factor=2, mode="bilinear"), (x(1, 1, 2, 2),)),
)
N = torch.nn


class Res(N.Module):
    def __init__(self):
        super().__init__()
        self.inner = N.Linear(3, 3)

    def forward(self, a):
        return a + self.inner(a).tanh()


MODELS = dict(
    mlp=(N.Sequential(N.Linear(3, 4), N.Tanh(), N.Linear(4, 1)), (2, 3)),
    siren=(N.Sequential(N.Linear(2, 4), N.Tanh(), N.Linear(4, 2), N.Softplus()), (2, 2)),
    res=(N.Sequential(Res(), Res()), (2, 3)),
    cnn=(N.Sequential(N.Conv2d(1, 2, 3), N.SiLU(), N.Flatten(), N.Linear(8, 1)), (1, 1, 4, 4)),
    norm=(N.Sequential(N.Linear(3, 4), N.LayerNorm(4), N.GELU(), N.Linear(4, 1)), (2, 3)),
    bn=(N.Sequential(N.Linear(3, 2), N.BatchNorm1d(2), N.Tanh()), (3, 3)),
    encoder=(
        N.TransformerEncoderLayer(4, 2, 6, dropout=0.0, activation=F.gelu, batch_first=True),
        (1, 2, 4),
    ),
    gn=(N.Sequential(N.Conv1d(2, 4, 2), N.GroupNorm(2, 4), N.ELU()), (1, 2, 4)),
)
CASES |= {
    "model " + k: (m.double().requires_grad_(False), (x(*s),)) for k, (m, s) in MODELS.items()
}


def main(path, names):
    warnings.simplefilter("ignore")
    with open(path, "a+", encoding="utf-8") as file:
        file.seek(0)
        done = {line.partition("|")[0] for line in file}
        for name, (function, given) in CASES.items():
            if name in done or (names and name not in names):
                continue
            torch._dynamo.reset()
            compiled = torch.compile(function, backend="pirkit")
            try:
                found = torch.autograd.gradgradcheck(compiled, given)
            except Exception as error:  # a case that fails is a line too
                found = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            print(f"{name}|{found}", file=file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

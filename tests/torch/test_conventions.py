"""Derivatives at kinks, bounds, infinities and NaN: those that torch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import pirkit.torch  # noqa: E402, F401  registers the backend

INF, NAN = float("inf"), float("nan")
POINTS: Final = (
    -INF, -50.0, -3.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 20.0, INF, NAN,
)  # fmt: skip

Function = Callable[[Any], Any]


def _pair(x: Any) -> Any:
    return torch.stack([x, torch.ones_like(x)])


def _filled(x: Any, value: float) -> Any:
    return torch.full_like(x, value)


GROUPS: Final[dict[str, dict[str, Function]]] = {
    "bounds": {
        "softshrink": lambda x: F.softshrink(x, 0.5),
        "hardshrink": lambda x: F.hardshrink(x, 0.5),
        "threshold": lambda x: F.threshold(x, 0.5, 7.0),
        "clamp": lambda x: x.clamp(-1, 1),
        "clamp below": lambda x: x.clamp(min=0.5),
        "clamp above": lambda x: x.clamp(max=0.5),
        "clamp to NaN": lambda x: x.clamp(min=NAN),
        "clamp, empty": lambda x: x.clamp(1, -1),
        "clamp to tensors": lambda x: torch.clamp(x, _filled(x, -1), _filled(x, 1)),
        "clamp by x": lambda x: torch.clamp(_filled(x, 0.5), x, x + 1),
        "clamp, empty by x": lambda x: torch.clamp(_filled(x, 0.5), x + 1, x),
        "clamp from x": lambda x: torch.clamp(_filled(x, 0.5), min=x),
        "clamp up to x": lambda x: torch.clamp(_filled(x, 0.5), max=x),
        "nan_to_num": lambda x: x.nan_to_num(1.0, 2.0, 3.0),
        "nansum": lambda x: torch.stack([x, x * 2]).nansum(0),
        "hardtanh": lambda x: F.hardtanh(x, -2.0, 0.5),
        "round": torch.round,
        "sign": torch.sign,
        "frac": torch.frac,
    },
    "activations": {
        "relu": F.relu, "relu6": F.relu6, "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
        "elu": F.elu, "elu, narrow": lambda x: F.elu(x, 0.5), "selu": F.selu,
        "celu": lambda x: F.celu(x, 2.0), "gelu": F.gelu, "silu": F.silu, "mish": F.mish,
        "softplus": F.softplus, "softplus, low": lambda x: F.softplus(x, 2.0, 4.0),
        "softsign": F.softsign, "logsigmoid": F.logsigmoid, "hardswish": F.hardswish,
        "abs": torch.abs, "huber": lambda x: F.huber_loss(x, _filled(x, 1), reduction="none"),
    },
    "others": {
        "maximum": lambda x: torch.maximum(x, _filled(x, 1)),
        "fmax": lambda x: torch.fmax(x, _filled(x, 1)),
        "fmin of NaN": lambda x: torch.fmin(x, _filled(x, NAN)),
        "amax": lambda x: _pair(x).amax(0), "max": lambda x: _pair(x).max(0)[0],
        "logit": torch.logit, "logit, cut": lambda x: torch.logit(x, 0.1),
        "entr": torch.special.entr, "log_ndtr": torch.special.log_ndtr,
        "hypot": lambda x: torch.hypot(x, _filled(x, 0.5)),
        "masked_fill": lambda x: x.masked_fill(x > 1, 3.0),
        "logsumexp": lambda x: _pair(x).logsumexp(0),
        "fmod": lambda x: torch.fmod(x, 0.7),
    },
}  # fmt: skip
EXPLAINED: Final[dict[str, tuple[tuple[int, float], ...]]] = {
    # order and point: torch has half the curve at its threshold
    "softplus": ((2, 20.0),),
    "softplus, low": ((2, 2.0),),
    "hardswish": ((0, -INF), (1, NAN), (2, NAN)),  # torch multiplies an infinity by 0
    # torch's vectors and its rest of elements differ
    **{
        n: ((1, NAN), (2, NAN))
        for n in (
            "softshrink",
            "hardshrink",
            "hardtanh",
            "relu6",
            "elu",
            "elu, narrow",
            "selu",
            "celu",
        )
    },
    # a part of torch's formula is an infinity times 0
    "logit, cut": ((2, -INF), (2, 0.0), (2, -0.0), (2, 1.0), (2, INF)),
    "log_ndtr": ((1, -INF), (2, -INF), (2, NAN)),
}


def _orders(functions: list[Function], x: Any, run: Any) -> list[list[Any]]:
    """Of each function its values, first and second derivatives; None becomes zeros."""
    xs = [x.clone().requires_grad_() for _ in functions]
    found: list[list[Any]] = [[y] for y in run(*xs)]
    for _ in range(2):
        live = [k for k, f in enumerate(found) if f[-1].requires_grad]
        if not live:
            break
        gradients = torch.autograd.grad(
            [found[k][-1] for k in live], [xs[k] for k in live],
            [torch.ones_like(x) for _ in live], create_graph=True, allow_unused=True,
        )  # fmt: skip
        for k, g in zip(live, gradients, strict=True):
            found[k].append(torch.zeros_like(x) if g is None else g)
    return [[*f, *[torch.zeros_like(x)] * (3 - len(f))] for f in found]


@pytest.mark.parametrize("group", GROUPS)
def test_values_and_derivatives_are_torchs_at_every_point(group: str) -> None:
    x = torch.tensor(POINTS, dtype=torch.float64)
    functions = list(GROUPS[group].values())

    def together(*xs: Any) -> Any:
        return tuple([f(x) for f, x in zip(functions, xs, strict=True)])

    expected = _orders(functions, x, together)
    found = _orders(functions, x, torch.compile(together, backend="pirkit", fullgraph=True))
    wrong: list[str] = []
    for name, theirs, ours in zip(GROUPS[group], expected, found, strict=True):
        for order, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            a = torch.zeros_like(x) + a  # torch may give zeros that have no memory
            close = torch.isclose(b, a, rtol=1e-9, atol=1e-9, equal_nan=True)
            wrong += [
                f"{name}, order {order}, at {p}: {u} instead of {v}"
                for p, same, u, v in zip(
                    POINTS, close.tolist(), b.tolist(), a.tolist(), strict=True
                )
                if not same and repr((order, p)) not in map(repr, EXPLAINED.get(name, ()))
            ]
    assert not wrong, "\n".join(wrong)


def test_a_step_gives_gradients_of_zeros() -> None:
    """Not None: an optimizer would treat that differently."""
    x = torch.randn(3, requires_grad=True)
    y = torch.compile(lambda x: x.round(), backend="pirkit")(x)
    (g,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(g, torch.zeros(3))

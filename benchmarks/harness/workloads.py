"""What is measured: names, inputs, the memory that must be moved and the arithmetic to be done."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

Arrays = dict[str, Any]
Call = Callable[[], list[Any]]
"""What is measured: a call that gives its results."""

LEARNING_RATE: Final = 1e-3
BETA1: Final = 0.9
BETA2: Final = 0.999
EPSILON: Final = 1e-8
DECAY: Final = 0.01
VISCOSITY: Final = 0.01 / math.pi

SQUARE: Final = (4096, 4096)
ROWS: Final = (8192, 1024)
IMAGES: Final = (32, 64, 56, 56)
HEADS: Final = (4, 12, 512, 64)
GPT_WIDTH: Final = 768
GPT_BATCH: Final = 4
GPT_LENGTH: Final = 128
GPT_HEADS: Final = 12


@dataclass(frozen=True)
class Workload:
    """``nbytes`` is the least traffic with memory, ``flops`` the least arithmetic, 0 where small.

    ``goal`` is how many times faster than the best peer pirkit is to be, and ``peer`` which one
    that is, if not any.
    """

    name: str
    inputs: Callable[[Any], Arrays]
    tolerance: float = 1e-4
    nbytes: int = 0
    flops: int = 0
    goal: float = 1.0
    peer: str = ""
    short: bool = False


def params_of(arrays: Arrays) -> Arrays:
    """The parameters among the inputs of a training step."""
    return {k: v for k, v in arrays.items() if k not in ("x", "t")}


def operands_of(arrays: Arrays) -> list[Any]:
    """The operands of a function among its arrays, in order: all but the cotangent."""
    return [v for k, v in arrays.items() if k != "g"]


def chain(x: Any, a: Any, b: Any) -> Any:
    """A hundred operations, of any framework's arrays."""
    for _ in range(50):
        x = x * a
        x = x + b
    return x


def _normal(rng: Any, *shape: int, scale: float = 1.0) -> Any:
    return (rng.standard_normal(shape, dtype="float32") * scale).astype("float32", copy=False)


def _arrays(**shapes: tuple[int, ...]) -> Callable[[Any], Arrays]:
    return lambda rng: {k: _normal(rng, *shape) for k, shape in shapes.items()}


def _wide(*shape: int) -> Callable[[Any], Arrays]:
    return lambda rng: {"x": _normal(rng, *shape, scale=3)}


def _adamw(rng: Any) -> Arrays:
    n = 10_000_000
    second = abs(_normal(rng, n, scale=0.1))
    return {
        "p": _normal(rng, n),
        "g": _normal(rng, n),
        "m": _normal(rng, n, scale=0.1),
        "v": second,
    }


def _network(rng: Any, sizes: list[int]) -> Arrays:
    found: Arrays = {}
    for k, (a, b) in enumerate(pairwise(sizes)):
        found[f"w{k}"] = _normal(rng, a, b, scale=math.sqrt(2 / (a + b)))
        found[f"b{k}"] = _normal(rng, b, scale=0.1)
    return found


def _beam(points: int) -> Callable[[Any], Arrays]:
    def made(rng: Any) -> Arrays:
        import numpy as np

        x = np.linspace(0, 1, points, dtype=np.float32)[:, None]
        return {**_network(rng, [1, 20, 20, 20, 1]), "x": x}

    return made


def _burgers(rng: Any) -> Arrays:
    import numpy as np

    x = np.stack([rng.uniform(-1, 1, 10000), rng.uniform(0, 1, 10000)], 1).astype("float32")
    return {**_network(rng, [2, *[20] * 8, 1]), "x": x}


def _gpt(rng: Any) -> Arrays:
    d = GPT_WIDTH
    return {
        "x": _normal(rng, GPT_BATCH, GPT_LENGTH, d),
        "ln1w": 1 + _normal(rng, d, scale=0.1),
        "ln1b": _normal(rng, d, scale=0.1),
        "wqkv": _normal(rng, d, 3 * d, scale=0.02),
        "bqkv": _normal(rng, 3 * d, scale=0.02),
        "wo": _normal(rng, d, d, scale=0.02),
        "bo": _normal(rng, d, scale=0.02),
        "ln2w": 1 + _normal(rng, d, scale=0.1),
        "ln2b": _normal(rng, d, scale=0.1),
        "w1": _normal(rng, d, 4 * d, scale=0.02),
        "b1": _normal(rng, 4 * d, scale=0.02),
        "w2": _normal(rng, 4 * d, d, scale=0.02),
        "b2": _normal(rng, d, scale=0.02),
    }


def _resnet(rng: Any) -> Arrays:
    image, filters = (8, 64, 56, 56), (64, 64, 3, 3)
    found = {"x": _normal(rng, *image), "t": _normal(rng, *image)}
    for k in "12":
        found[f"w{k}"] = _normal(rng, *filters, scale=0.05)
        found[f"g{k}"] = 1 + _normal(rng, 64, scale=0.1)
        found[f"b{k}"] = _normal(rng, 64, scale=0.1)
    return found


def _dispatch(rng: Any) -> Arrays:
    a, b = 1 + _normal(rng, 16, scale=0.01), _normal(rng, 16, scale=0.01)
    return {"x": _normal(rng, 16), "a": a, "b": b}


_SQUARE_BYTES = 2 * 4 * math.prod(SQUARE)
_LONG_BYTES = 2 * 4 * 64 * 50257
_ROW_BYTES = 4 * math.prod(ROWS)
_IMAGE_BYTES = 4 * math.prod(IMAGES)
_HEAD_FLOPS = 4 * 4 * 12 * 512 * 512 * 64
_GPT_FLOPS = (
    6 * 12 * GPT_WIDTH**2 * GPT_BATCH * GPT_LENGTH + 12 * GPT_BATCH * GPT_LENGTH**2 * GPT_WIDTH
)
_RESNET_FLOPS = 12 * 8 * 56 * 56 * 64 * 64 * 9
_norm = _arrays(x=ROWS, w=(1024,), b=(1024,), g=ROWS)
_attention = _arrays(q=HEADS, k=HEADS, v=HEADS, g=HEADS)

_ALL = (
    Workload("gelu_tanh", _arrays(x=SQUARE, b=(4096,)), nbytes=_SQUARE_BYTES, goal=2.5),
    Workload("gelu_erf", _arrays(x=SQUARE, b=(4096,)), nbytes=_SQUARE_BYTES, goal=1.3),
    Workload("softmax_4096", _wide(*SQUARE), nbytes=_SQUARE_BYTES, goal=1.3, short=True),
    Workload("softmax_50257", _wide(64, 50257), nbytes=_LONG_BYTES, goal=1.4),
    Workload("log_softmax_50257", _wide(64, 50257), nbytes=_LONG_BYTES, goal=1.4),
    Workload("ln_fwd", _norm, nbytes=2 * _ROW_BYTES, goal=1.5, short=True),
    Workload("ln_fwdbwd", _norm, nbytes=5 * _ROW_BYTES, goal=1.2),
    Workload(
        "bn_fwdbwd", _arrays(x=IMAGES, w=(64,), b=(64,), g=IMAGES), 3e-4, 8 * _IMAGE_BYTES, goal=1.2
    ),
    Workload("add_reduce0", _arrays(a=SQUARE, b=SQUARE), nbytes=_SQUARE_BYTES, goal=1.5),
    Workload("transpose_add_reduce", _arrays(a=SQUARE, b=SQUARE), nbytes=_SQUARE_BYTES, goal=2),
    Workload("adamw_10m", _adamw, nbytes=7 * 4 * 10_000_000),
    Workload("attn_fwd", _attention, flops=_HEAD_FLOPS, goal=1.5),
    Workload("attn_fwdbwd", _attention, 3e-4, flops=3 * _HEAD_FLOPS, goal=2),
    Workload("gpt_block_step", _gpt, 2e-3, flops=_GPT_FLOPS, goal=1.25, peer="jax"),
    Workload("resnet_block_step", _resnet, 5e-3, flops=_RESNET_FLOPS, peer="torch"),
    Workload("pinn_beam_10", _beam(10), 2e-3, goal=20, peer="jax_jet", short=True),
    Workload("pinn_beam_1000", _beam(1000), 2e-3, goal=10, peer="jax_jet", short=True),
    Workload("pinn_burgers_10k", _burgers, 2e-3, goal=5),
    Workload("dispatch_100", _dispatch, goal=4, short=True),
)
WORKLOADS: Final = {w.name: w for w in _ALL}


def workload_of(name: str) -> Workload:
    """A workload of the table; captured programs move and compute what is not known here."""
    return WORKLOADS.get(name) or Workload(name, lambda _: {})

"""Dropout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pirkit.dialect.opdef import (
    RANDOM,
    bad_samples,
    draws,
    infer_meta,
    op,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.random.random import Rng, in_training
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant, in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "random"


@op
class Dropout:
    """Each element set to 0 with probability `p`, and the mask of the other elements.

    Mode `upscale_in_train` divides the kept elements by `1 - p` and is the identity when
    `is_test`; mode `downgrade_in_infer` keeps them as they are and multiplies by `1 - p` when
    `is_test`. With `is_test` nothing is drawn and the mask is all 1.

    C1: `p` is in [0, 1].
    C2: `mode` is one of the two.
    C3: `x` is a float tensor.
    """

    name = "pd_op.dropout"
    signature = (
        "x, seed_tensor?, p: scalar = 0.5 ; is_test: bool = False, "
        'mode: str = "downgrade_in_infer", seed: i32 = 0, fix_seed: bool = False -> out, mask~'
    )
    dtypes = dt.FLOATS
    inplace = {"out": "x"}
    effects = RANDOM


@infer_meta(Dropout)
def _(
    x: TensorMeta, seed_tensor: TensorMeta | None, *, p: float | None, mode: str, **_: object
) -> tuple[TensorMeta, TensorMeta]:
    require(p is None or 0 <= p <= 1, "C1", f"{p} is no probability")
    require(mode in ("upscale_in_train", "downgrade_in_infer"), "C2", f"mode {mode!r} is unknown")
    require(x.dtype.is_float, "C3", f"not defined for {x.dtype}")
    return x, x.with_dtype(dt.uint8)


draws(Dropout)(in_training)


@in_f32
def _masked(x: Array, mask: Array, factor: Array) -> Any:
    return np.where(mask, x * factor.astype(x.dtype), 0)


@reference(Dropout)
def _(
    x: Array,
    seed_tensor: Array | None,
    *,
    p: float,
    is_test: bool,
    mode: str,
    rng: Rng,
    **_: object,
) -> tuple[Array, Array]:
    upscale = mode == "upscale_in_train"
    if is_test:
        everything = np.ones(x.shape, np.uint8)
        return (x if upscale else _masked(x, everything, constant(1 - p, dt.float64))), everything
    shape: tuple[int, ...] = x.shape
    drawn = np.asarray(rng.random(shape))
    mask = np.asarray(drawn >= p)
    factor = 1 / (1 - p) if upscale and p < 1 else 1.0
    return _masked(x, mask, constant(factor, dt.float64)), mask.astype(np.uint8)


@samples(Dropout)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 5), None, p=0.5, mode="upscale_in_train")
    yield s(s.tensor(4, 5), None, p=0.5, mode="upscale_in_train", is_test=True)
    yield s(s.tensor(4, 5), None, p=0.25, is_test=True)
    yield s(s.tensor(3), None, p=1.0, mode="upscale_in_train")
    yield s(s.tensor(), None, p=0.0)


@bad_samples(Dropout)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), None, p=1.5)
    yield "C2", s(s.tensor(3), None, mode="sometimes")
    yield "C3", s(s.ints((3,), 0, 2), None)

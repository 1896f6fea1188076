"""Sequences that a beam search found, read back from its last step."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "gather"


@op
class GatherTree:
    """Whole sequences of a beam search, from its choices and which beam each came from.

    `ids` and `parents` are `[time, batch, beam]`; `parents` names a beam of the step before. The
    last step of the result is that of `ids`; each earlier one follows the parents.

    C1: both have three dimensions and the same sizes.
    C2: both hold integers of one type.
    C3: each parent is a beam.
    """

    name = "pd_op.gather_tree"
    signature = "ids, parents -> out"
    dtypes = (dt.int32, dt.int64)


@infer_meta(GatherTree)
def _(ids: TensorMeta, parents: TensorMeta) -> TensorMeta:
    agree = ids.rank == parents.rank == 3 and all(map(same_dim, ids.shape, parents.shape))
    require(agree, "C1", f"ids {ids} and parents {parents}")
    require(ids.dtype is parents.dtype and ids.dtype.is_integer, "C2", f"{ids} and {parents}")
    return ids


@reference(GatherTree)
def _(ids: Array, parents: Array) -> Array:
    out = ids.copy()
    beams = ids.shape[2]
    require(not np.any((parents < 0) | (parents >= beams)), "C3", f"a parent outside 0 to {beams}")
    if not ids.size:
        return out
    beam = parents[-1]
    for step in reversed(range(len(ids) - 1)):
        out[step] = np.take_along_axis(ids[step], beam, axis=1)
        beam = np.take_along_axis(parents[step], beam, axis=1)
    return out


@samples(GatherTree)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 2, 3, low=0, high=9), s.tensor(4, 2, 3, low=0, high=2))
    yield s(s.tensor(1, 2, 3, low=0, high=9), s.tensor(1, 2, 3, low=0, high=2))
    yield s(s.tensor(3, 0, 2), s.tensor(3, 0, 2))


@bad_samples(GatherTree)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    ids = s.tensor(2, 2, 2, low=0, high=1)
    yield "C1", s(ids, s.tensor(2, 2, low=0, high=1))
    yield "C2", s(ids.astype(np.float32), ids.astype(np.float32))
    yield "C3", s(ids, s.tensor(2, 2, 2, low=2, high=4))

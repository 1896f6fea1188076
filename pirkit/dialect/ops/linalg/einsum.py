"""Sums of products of tensors, given by an equation of labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import join_dims, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta, VecMeta, vec

KIND = "contraction"

_ELLIPSIS: Final = "..."
_MARK: Final = "."


@op
class Einsum:
    """Multiply the operands and sum over every label that the output does not have.

    Labels are letters; `...` stands for leading dimensions that broadcast, and a dimension of 1
    broadcasts. Without `->` the output has the labels that occur once, in alphabetical order.
    `inner_cache` and `xshape` serve Paddle's gradient kernel; here they carry no data.

    C1: the equation has one term for each operand, of letters and at most one `...`.
    C2: each term has as many labels as its operand has dimensions.
    C3: dimensions with the same label are equal, or 1.
    C4: each label of the output occurs in a term, and only once in the output.
    C5: the operands have the same dtype.
    """

    name = "pd_op.einsum"
    signature = "x[] ; equation: str -> out, inner_cache[]~, xshape[]~"
    dtypes = dt.NUMBERS


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand's dimensions, and those of the output.

    The dimensions under an ellipsis are called ``.0``, ``.1``... from the last. Raises
    ConstraintError as listed at :data:`Einsum`.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    require(
        len(terms) == len(ranks),
        "C1",
        f"{len(terms)} terms in `{equation}` for {len(ranks)} tensors",
    )
    inputs = [_labels(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    seen = [label for term in inputs for label in term]
    hidden = sorted({label for label in seen if label.startswith(_MARK)}, reverse=True)
    if not arrow:
        once = sorted(a for a in set(seen) if seen.count(a) == 1 and not a.startswith(_MARK))
        return inputs, [*hidden, *once]
    before, dots, after = right.partition(_ELLIPSIS)
    output = [*before, *(hidden if dots else []), *after]
    require(
        len(set(output)) == len(output) and set(output) <= set(seen),
        "C4",
        f"output `{right}` repeats a label or has one that no operand has",
    )
    return inputs, output


def _labels(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition(_ELLIPSIS)
    named = before + after
    require(
        all(c.isascii() and c.isalpha() for c in named), "C1", f"`{term}` is no list of letters"
    )
    hidden = rank - len(named)
    require(
        hidden >= 0 if dots else hidden == 0,
        "C2",
        f"term `{term}` has {len(named)} labels for a tensor of rank {rank}",
    )
    return [*before, *(f"{_MARK}{i}" for i in reversed(range(hidden))), *after]


@infer_meta(Einsum)
def _(x: VecMeta, *, equation: str) -> tuple[TensorMeta, VecMeta, VecMeta]:
    inputs, output = parse(equation, [item.rank for item in x.items])
    dtypes = {item.dtype for item in x.items}
    require(len(dtypes) == 1, "C5", f"the operands have dtypes {sorted(d.name for d in dtypes)}")
    sizes: dict[str, int] = {}
    for labels, item in zip(inputs, x.items, strict=True):
        for label, size in zip(labels, item.shape, strict=True):
            sizes[label] = join_dims(
                sizes.get(label, 1),
                size,
                lambda a, b: ConstraintError(
                    "C3",
                    f"a label of `{equation}` has sizes {a} and {b} in "
                    + " and ".join(show(m.shape) for m in x.items),
                    help="axes of one label have one size: transpose an operand, or rename it",
                ),
            )
    out = TensorMeta(tuple(sizes[label] for label in output), x.items[0].dtype)
    return out, vec(TensorMeta((0,), dt.float32) for _ in x.items), x


@reference(Einsum)
def _(x: list[Array], *, equation: str) -> tuple[Array, list[Array], list[Array]]:
    inputs, output = parse(equation, [item.ndim for item in x])
    numbers = {label: i for i, label in enumerate(dict.fromkeys(a for t in inputs for a in t))}
    terms = [[numbers[label] for label in term] for term in inputs]

    def contract(*arrays: Array) -> Array:
        interleaved: list[Any] = [v for pair in zip(arrays, terms, strict=True) for v in pair]
        optimize = len(arrays) > 1
        return np.einsum(*interleaved, [numbers[label] for label in output], optimize=optimize)

    return in_f32(contract)(*x), [np.zeros(0, np.float32) for _ in x], list(x)


@samples(Einsum)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3), s.tensor(3, 4)], equation="ij,jk->ik")
    yield s([s.tensor(2, 5, 3, 4), s.tensor(2, 5, 6, 4)], equation="bhid,bhjd->bhij")
    yield s([s.tensor(3, 4)], equation="ij->ji")
    yield s([s.tensor(3, 4)], equation="ij->")
    yield s([s.tensor(1, 4), s.tensor(3, 4)], equation="ij,ij->ij")
    yield s([s.tensor(2, 3), s.tensor(2, 3)], equation="ij,ij->j")


@bad_samples(Einsum)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(2, 3)], equation="ij,jk->ik")
    yield "C1", s([s.tensor(2, 3)], equation="i1->i")
    yield "C2", s([s.tensor(2, 3)], equation="i->i")
    yield "C3", s([s.tensor(2, 3), s.tensor(4, 5)], equation="ij,jk->ik")
    yield "C4", s([s.tensor(2, 3)], equation="ij->ik")
    yield "C4", s([s.tensor(2, 3)], equation="ij->ii")
    yield "C5", s([s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64)], equation="i,i->i")

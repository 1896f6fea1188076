"""A level of derivatives as a `torch.autograd.Function`, whose backward is the next level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from pirkit.diag.errors import RuntimeFault
from pirkit.torch.levels import Level
from pirkit.torch.libtorch import dynamo, listed, torch


def run(level: Level, tensors: Sequence[Any], written: frozenset[int] = frozenset()) -> Any:
    """The outputs of a level, with gradients where torch records them.

    ``written`` are the indices of inputs that are written after the call.
    """
    if level.is_learning and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        if written:  # a second derivative reads what an input held before, with its history
            before = [i for i in written & level.influences
                      if tensors[i].requires_grad and not tensors[i].is_leaf]  # fmt: skip
            tensors = [t.clone() if i in before else t for i, t in enumerate(tensors)]
            written = written.difference(before)
        active = torch._C._are_functorch_transforms_active()
        apply = Differentiable.apply if active else _APPLY
        return listed(apply(level, written, *tensors))
    return level.inference(tensors)


class Differentiable(torch.autograd.Function):  # pyright: ignore[reportUntypedBaseClass]
    """A level whose backward is the level of its gradients: differentiable to any order."""

    @staticmethod
    def forward(ctx: Any, level: Level, written: frozenset[int], *tensors: Any) -> Any:
        # A missing cotangent stays None: then the input gets no gradient, rather than zeros.
        ctx.set_materialize_grads(False)
        outputs = level.forward(tensors)
        reads, count = level.reads, len(level.outputs)
        made, middles = outputs[:count], outputs[count:]
        primals: Any = tensors
        kept = list(tensors)
        # The backward reads what an input holds now, and the call writes it afterwards.
        for i in written and written & level.influences:
            kept[i] = tensors[i].clone()
        if written:  # for the next derivative: a copy has no history, so what has one stays
            primals = [t if t.requires_grad else k for t, k in zip(tensors, kept, strict=True)]
        held = [kept[i] for i in reads.inputs]
        ctx.level = level
        is_packed = level.forward.packed is not None and reads.middles
        middles = middles if is_packed else [middles[k] for k in reads.middles]
        # Stacks of loops are no tensors, which alone `save_for_backward` takes.
        is_plain = not all(isinstance(k, torch.Tensor) for k in middles)
        ctx.plain = middles if is_plain else []
        ctx.save_for_backward(
            *held, *(made[k] for k in reads.outputs), *(() if is_plain else middles)
        )
        ctx.metas = [(t.shape, t.dtype) for t in made]
        ctx.primals = primals
        ctx.versions = [t._version for t in primals]
        if level.fixed:
            ctx.mark_non_differentiable(*[made[k] for k in level.fixed])
        return tuple(made)

    @staticmethod
    @dynamo.disable
    def backward(ctx: Any, *cotangents: Any) -> Any:
        level: Level = ctx.level
        if torch.is_grad_enabled():  # called with `create_graph=True`
            return (None, None, *_differentiable(ctx, level, cotangents))
        reads = level.reads
        saved = ctx.saved_tensors
        seeds = [_seed(cotangents[k], ctx.metas[k]) for k in reads.seeds]
        found = level.backward([*saved, *ctx.plain, *seeds])
        gradients: list[Any] = [None] * len(level.inputs)
        for i, k, is_shared in level.gives:  # a tensor must not be the gradient of two inputs
            gradients[i] = found[k].clone() if is_shared else found[k]
        for i in level.absent(cotangents):
            gradients[i] = None
        _fill(gradients, ctx, level, cotangents)
        return (None, None, *gradients)


_APPLY: Final[Any] = cast("Any", super(torch.autograd.Function, Differentiable)).apply
"""`apply` without its check for transforms of `torch.func`, which takes a few microseconds."""


def _differentiable(ctx: Any, level: Level, cotangents: tuple[Any, ...]) -> list[Any]:
    """The gradients as outputs of the next level, so that they can be differentiated again.

    Raises RuntimeFault (PK0907) if an input that the next level reads was written after the call.
    """
    gradient, read, seeded, gives = level.gradient
    for i in read:
        if ctx.primals[i]._version != ctx.versions[i]:
            raise RuntimeFault(
                "an input was written after the forward, and a second derivative reads it",
                code="PK0907",
                help="take the derivatives before the write, or pass a copy",
            )
    tensors = [ctx.primals[i] for i in read]
    tensors += [_seed(cotangents[k], ctx.metas[k]) for k in seeded]
    found: Sequence[Any] = run(gradient, tensors) if gives else []
    gradients: list[Any] = [None] * len(level.inputs)
    for i, k in gives:
        gradients[i] = found[k]
    for i in level.absent(cotangents):
        gradients[i] = None
    _fill(gradients, ctx, level, cotangents)
    return gradients


def _fill(gradients: list[Any], ctx: Any, level: Level, cotangents: tuple[Any, ...]) -> None:
    """Put zeros into missing gradients where torch's formulas give them (see `flat_ops`)."""
    for i in level.zero_gradients(cotangents):
        if gradients[i] is None:
            gradients[i] = torch.zeros_like(ctx.primals[i])


def _seed(cotangent: Any, meta: Any) -> Any:
    """A cotangent; zeros if there is none."""
    return torch.zeros(meta[0], dtype=meta[1]) if cotangent is None else cotangent

"""Random numbers of a captured network as inputs, which Paddle draws at each step.

So a network with dropout trains as eager Paddle does after the same `paddle.seed`. Only what is
drawn once a call, of a known shape, is drawn ahead: what loops and branches draw, and what depends
on data (`bernoulli`, `multinomial`), are pirkit's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from pirkit.dialect.build import Builder
from pirkit.dialect.infer import constant_scalar
from pirkit.dialect.operation import PirOp
from pirkit.dialect.program import Program
from pirkit.dialect.types import meta_of
from pirkit.frontend.compile import run_passes
from pirkit.paddle.libpaddle import paddle
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED

Draw = Callable[[], Any]

_MODES: Final = {
    "upscale_in_train": "upscale_in_train", "downgrade_in_infer": "downscale_in_infer",
}  # fmt: skip
"""A mode of the op -> what Paddle's function calls it."""


def draw_ahead(program: Program) -> tuple[Program, dict[str, Draw]]:
    """A program whose random numbers are inputs, and the function that draws each input, in order.

    A dropout becomes a product with a drawn tensor. Draws with a seed of their own stay in the
    program.
    """
    found: dict[str, Draw] = {}
    if not all(_meta(op).is_static for op in _random(program)):
        program = run_passes(program, "constant-fold,infer-meta")
    for op in _random(program):
        meta = _meta(op)
        draw = _RULES[op.name](op, [*meta.shape], meta.dtype.name)
        if not meta.is_static or draw is None:
            continue
        name = f"drawn_{len(found)}"
        b = Builder(program.main.block, op, location=op.location)
        value = b("pd_op.data", name=name, shape=meta.shape, dtype=meta.dtype, place=UNDEFINED)
        if op.name == "pd_op.dropout":
            value = b.wrap(op.operands[0]) * value
        op.results[0].replace_all_uses_with(value.ssa)
        found[name] = draw
    return program, found


def _random(program: Program) -> list[PirOp]:
    return [op for op in cast("list[PirOp]", list(program.main.block.ops)) if op.name in _RULES]


def _meta(op: PirOp) -> TensorMeta:
    return cast(TensorMeta, meta_of(op.results[0].type))


def _dropout(op: PirOp, shape: list[int], dtype: str) -> Draw | None:
    """Draws dropout of ones: 0 or the factor of an element. None in inference, or with a seed."""
    _, seed, rate = op.operand_slots
    p = None if rate is None else constant_scalar(rate)
    is_random = not op.attribute("is_test") and not op.attribute("fix_seed") and seed is None
    if p is None or not is_random or any(True for r in op.results[1:] for _ in r.uses):
        return None
    mode = _MODES[op.attribute("mode")]

    def draw() -> Any:
        return paddle.nn.functional.dropout(paddle.ones(shape, dtype), p, training=True, mode=mode)

    return draw


def _uniform(op: PirOp, shape: list[int], dtype: str) -> Draw | None:
    _, low, high = op.operand_slots
    ends = [None if v is None else constant_scalar(v) for v in (low, high)]
    if None in ends or op.attribute("seed"):
        return None
    return lambda: paddle.uniform(shape, dtype, *ends)


def _gaussian(op: PirOp, shape: list[int], dtype: str) -> Draw | None:
    if op.attribute("seed"):
        return None
    mean, std = op.attribute("mean"), op.attribute("std")
    return lambda: paddle.tensor.random.gaussian(shape, mean, std, dtype=dtype)


_RULES: Final = {"pd_op.dropout": _dropout, "pd_op.uniform": _uniform, "pd_op.gaussian": _gaussian}

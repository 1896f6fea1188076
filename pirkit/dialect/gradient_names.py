"""The roles of operands and results of Paddle's gradient ops, which follow from their names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pirkit.dialect.opdef import OpDef, find
from pirkit.dialect.ops.gradient.gradients import SOURCES, SUFFIX, forward_name


class Spelling:
    """The names that a gradient op uses for the operands and results of its forward op.

    ``operands`` and ``results``: forward name -> operand of the gradient op that holds it.
    ``seeds``: result of the forward op -> operand with its cotangent. ``wanted``: result of the
    gradient op -> operand of the forward op whose cotangent it is.
    """

    def __init__(self, gradient: OpDef, forward: OpDef) -> None:
        free = {o.name for o in gradient.operands} | set(gradient.attr_kinds)
        given = {r.name for r in gradient.results}
        self.operands: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.seeds: dict[str, str] = {}
        self.wanted: dict[str, str] = {}
        for name in (o.name for o in forward.operands):
            for spelled in _spellings(name):
                if spelled + SUFFIX in given and spelled + SUFFIX not in self.wanted:
                    self.wanted[spelled + SUFFIX] = name
                    break
            self._take(free, self.operands, name, _spellings(name))
        for name in (r.name for r in forward.results):
            spellings = [s + ending for s in _spellings(name) for ending in (SUFFIX, "_new_grad")]
            self._take(free, self.seeds, name, spellings)
            self._take(free, self.results, name, _spellings(name))

    @staticmethod
    def _take(free: set[str], table: dict[str, str], name: str, spellings: Sequence[str]) -> None:
        for spelled in spellings:
            if spelled in free:
                free.discard(spelled)
                table[name] = spelled
                return


@cache
def spelling(gradient: OpDef, forward: OpDef) -> Spelling:
    """The `Spelling` of a pair of ops, found once."""
    return Spelling(gradient, forward)


def _spellings(name: str) -> list[str]:
    """The names that Paddle may use for a value in the op one order higher, most specific first."""
    prefixed_grad = [f"grad_{name.removesuffix(SUFFIX)}"] if name.endswith(SUFFIX) else []
    prefixed = [f"fwd_{n}" for n in (*prefixed_grad, name)]
    return [*prefixed, f"{name}_forward", *prefixed_grad, name]


ALONE = {"pd_op.sync_batch_norm_grad": "pd_op.batch_norm"}
"""Gradient ops of ops that communicate with other devices, and their equivalent on one device."""


def forward_of(gradient: OpDef) -> OpDef | None:
    """The forward op of a gradient op."""
    dialect, _, name = gradient.base.name.partition(".")
    forward = forward_name(name)
    if gradient.base.name not in SOURCES:
        return None
    alone = ALONE.get(gradient.base.name, f"{dialect}.{forward}")
    found = find(alone) or find(f"{dialect}.{forward}_")
    return found

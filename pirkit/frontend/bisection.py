"""Finds the first pass of a pipeline, then its first rewrite, that breaks a module.

A module is broken if it is invalid, or computes other numbers than the original one on random
inputs (`numeric_check.NumberCheck`). Commands offer this as ``--bisect``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pirkit.diag.errors import PassError
from pirkit.diag.span import Span
from pirkit.dialect.operation import span_of
from pirkit.frontend.numeric_check import NumberCheck
from pirkit.passes import Pass, run_pipeline


@dataclass(frozen=True)
class Culprit:
    """The rewrite that broke the module: a pass of the pipeline, and its rewrite, counted from 1.

    ``rewrite`` is None if the pass failed as a whole, and 0 if the module was broken before the
    first rewrite of the pass.
    """

    pass_: Pass
    position: int
    """The number of the pass in the pipeline, counted from 1."""
    reason: str
    """What is wrong with the module afterwards."""
    rewrite: int | None = None
    rewrites: int = 0
    """How many rewrites the pass made in all."""
    rule: str = ""
    op: str = ""
    span: Span | None = None

    def __str__(self) -> str:
        lines = [f"pass {self.position}: {self.pass_}"]
        if self.rewrite is None:
            lines.append("rewrite: none; the pass fails as a whole")
        elif self.rewrite == 0:
            lines.append("rewrite: none; the pass changes the program without counting it")
        else:
            where = f" at {self.span}" if self.span else ""
            lines.append(f"rewrite {self.rewrite} of {self.rewrites}: {self.rule}{where}")
            lines.append(f"  of `{self.op}`")
        lines.append(f"breaks: {self.reason}")
        return "\n".join(lines)


def bisect(module: ModuleOp, passes: Sequence[Pass], seed: int = 0) -> Culprit | None:
    """The first pass, and its first rewrite, after which the module is invalid or computes other
    numbers; None if no pass breaks it.

    ``module`` is not changed; its inputs are drawn from ``seed``. Raises VerifyError if it is
    invalid from the beginning, and whatever running it on random inputs raises.
    """
    check = NumberCheck.of(module, seed)
    run_pipeline(module.clone(), ())  # verifies the module
    state = module.clone()
    for position, pass_ in enumerate(passes, 1):
        trial = _Trial(state, pass_, check)
        reason = trial.broken(None)
        if reason is not None:
            return _culprit(trial, position, reason)
        state = trial.result
    return None


class _Trial:
    """Runs one pass on copies of one module, up to a number of rewrites."""

    def __init__(self, before: ModuleOp, pass_: Pass, check: NumberCheck) -> None:
        self.before = before
        self.pass_ = pass_
        self.check = check
        self.result = before
        self.rewrites: list[tuple[str, str, Span | None]] = []
        self.failed = False

    def broken(self, stop_after: int | None) -> str | None:
        """Why the module is broken after that many rewrites, or None if it is not."""
        self.result = self.before.clone()
        self.rewrites = []
        self.failed = False
        try:
            run_pipeline(self.result, [self.pass_], listeners=[self.note], stop_after=stop_after)
        except PassError as error:
            # PK0802 is an invalid result, for which some rewrite is to blame; otherwise the pass
            # itself raised, and fewer rewrites would tell nothing.
            self.failed = error.code != "PK0802"
            return error.message
        found = self.check.difference(self.result)
        return None if found is None else str(found)

    def note(self, rule: str, op: Operation) -> None:
        """Record a rewrite; a listener of `run_pipeline`."""
        self.rewrites.append((rule, op.name, span_of(op)))


def _culprit(trial: _Trial, position: int, reason: str) -> Culprit:
    """Bisect the rewrites: the module is correct after ``low`` of them, broken after ``high``."""
    if trial.failed:
        return Culprit(trial.pass_, position, reason)
    rewrites = list(trial.rewrites)
    if not rewrites or trial.broken(0) is not None:
        return Culprit(trial.pass_, position, reason, 0, len(rewrites))
    low, high = 0, len(rewrites)
    while high - low > 1:
        middle = (low + high) // 2
        found = trial.broken(middle)
        if found is None:
            low = middle
        else:
            high, reason = middle, found
    rule, op, span = rewrites[high - 1]
    return Culprit(trial.pass_, position, reason, high, len(rewrites), rule, op, span)

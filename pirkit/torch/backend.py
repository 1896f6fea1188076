"""The backend of `torch.compile`: ``torch.compile(model, backend="pirkit")``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from pirkit.diag.errors import UsageError
from pirkit.torch.capture import capture
from pirkit.torch.compiled_graph import CompiledGraph
from pirkit.torch.import_graph import Imported
from pirkit.torch.levels import Settings
from pirkit.torch.libtorch import torch

LOG: Final = logging.getLogger("pirkit.torch")
MODES: Final = {"default": {}, "max-autotune": {"fast_math": True, "saved": "min-cut"}}
"""Modes of `torch.compile`, and the options that they stand for."""


@dataclass(frozen=True)
class Options:
    """``options`` of the backend.

    ``strict`` refuses an op without a rule, which torch computes otherwise. ``fast_math`` may
    reorder sums. ``saved`` and ``budget`` say what the forward saves for the backward (see
    `docs/split.md`). ``autograd`` is ``pirkit`` or ``torch``: whose derivatives. ``threads`` limits
    the threads of a call.
    """

    strict: bool = False
    fast_math: bool = False
    saved: str = "free"
    budget: int | None = None
    autograd: str = "pirkit"
    threads: int | None = None

    @classmethod
    def of(cls, mode: str | None, options: Mapping[str, Any] | None) -> Options:
        """Raises UsageError (PK0701) for an unknown mode or option."""
        if mode not in (None, *MODES):
            raise UsageError(
                f"unknown mode {mode!r}", code="PK0701", help=f"modes are {', '.join(MODES)}"
            )
        chosen = {**MODES[mode or "default"], **(options or {})}
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(chosen) - known)
        if unknown:
            raise UsageError(
                f"unknown option {unknown[0]!r}", code="PK0701",
                help=f"options are {', '.join(sorted(known))}",
            )  # fmt: skip
        found = cls(**chosen)
        if found.autograd not in ("pirkit", "torch"):
            raise UsageError(
                f"`autograd` is {found.autograd!r}", code="PK0701",
                help="it is `pirkit` or `torch`",
            )  # fmt: skip
        return found


GRAPHS: Final[list[CompiledGraph]] = []
"""Filled while `explain` or `export` looks on."""
WATCHING: Final[list[bool]] = []


def pirkit(
    graph: Any, inputs: Sequence[Any], *, mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Compile a graph of Dynamo; called by `torch.compile`."""
    chosen = Options.of(mode, options)
    if chosen.autograd == "torch":
        from pirkit.torch.joint_graph import with_torch_autograd  # noqa: PLC0415

        return with_torch_autograd(graph, inputs, chosen, compiled)
    return compiled(graph, inputs, chosen)


def compiled(graph: Any, inputs: Sequence[Any], chosen: Options) -> CompiledGraph:
    """A graph of Dynamo as a function of its inputs, compiled for the sizes that they have."""
    captured = capture(graph, inputs)
    settings = Settings(chosen.fast_math, chosen.saved, chosen.budget, chosen.threads)
    made = CompiledGraph(captured, settings, strict=chosen.strict, report=_report)
    if WATCHING:
        GRAPHS.append(made)
    special = made.special([_sized(given) for given in inputs])
    learns = torch.is_grad_enabled() and any(made.differentiable)
    _ = special.level.forward if learns else special.level.inference
    return made


def _sized(given: Any) -> Any:
    """An example with the sizes that its symbols stand for."""
    return int(given) if isinstance(given, torch.SymInt) else given


def _report(imported: Imported) -> None:
    """One line that says what torch computes, and how often."""
    if imported.fallbacks:
        counts = Counter(f.target for f in imported.fallbacks)
        listed = ", ".join(f"{n} x {name}" for name, n in counts.most_common())
        total = sum(imported.counts.values())
        LOG.warning("torch computes %d of %d ops: %s", counts.total(), total, listed)

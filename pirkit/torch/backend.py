"""The backend of `torch.compile`: ``torch.compile(model, backend="pirkit")``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from pirkit.diag.errors import ArgumentError
from pirkit.diag.gc_pause import uncollected
from pirkit.runtime.native.cores import check_threads
from pirkit.torch.capture import capture
from pirkit.torch.captured_graph import Captured
from pirkit.torch.compiled_graph import LOG, CompiledGraph, Specialized
from pirkit.torch.imported_graph import Fallback, Imported
from pirkit.torch.joint_graph import with_torch_autograd
from pirkit.torch.libtorch import symbolic_shapes, torch
from pirkit.torch.node_error import NodeError
from pirkit.torch.subgraphs import in_pieces
from pirkit.torch.tensor_runner import Settings

MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"fast_math": True, "saved": "min-cut"},
    "max-autotune-no-cudagraphs": {"fast_math": True, "saved": "min-cut"},
}
"""Modes of `torch.compile`, and the options that they stand for."""


@dataclass(frozen=True)
class Options:
    """``options`` of the backend.

    ``strict`` refuses an op without a rule, which torch computes otherwise. ``fast_math`` may
    reorder sums. ``saved`` and ``budget`` (bytes) say what the forward saves for the backward (see
    `docs/split.md`). ``autograd`` says whose derivatives are used: ``pirkit`` or ``torch``.
    ``threads`` limits the threads of a call. ``sizes`` is how many combinations of changing sizes
    are compiled when they are first met; torch runs further ones until they are met often.
    With ``freeze``, calls without gradients take parameters and buffers as constants.
    """

    strict: bool = False
    fast_math: bool = False
    saved: str = "free"
    budget: int | None = None
    autograd: str = "pirkit"
    threads: int | None = None
    sizes: int = 8
    freeze: bool = False

    @classmethod
    def of(cls, mode: str | None, options: Mapping[str, Any] | None) -> Options:
        """Raises ArgumentError (PK0701) for an unknown mode or option."""
        if mode not in (None, *MODES):
            raise ArgumentError(f"unknown mode {mode!r}", help=f"modes are {', '.join(MODES)}")
        chosen: dict[str, Any] = {**MODES[mode or "default"], **(options or {})}
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(chosen) - known)
        if unknown:
            raise ArgumentError(
                f"unknown option {unknown[0]!r}",
                help=f"options are {', '.join(sorted(known))}",
            )  # fmt: skip
        found = cls(**chosen)
        check_threads(found.threads)
        if found.autograd not in ("pirkit", "torch"):
            raise ArgumentError(
                f"`autograd` is {found.autograd!r}",
                help="it is `pirkit` or `torch`",
            )  # fmt: skip
        return found


@dataclass(frozen=True)
class Outside:
    """Nodes of a graph of Dynamo that torch runs between compiled pieces."""

    fallbacks: list[Fallback]


WATCH: Final[ContextVar[list[CompiledGraph | Outside] | None]] = ContextVar("watch", default=None)
"""The list into which compiled graphs go while `explain` or `export` watches."""


@uncollected  # what is made is kept; the collector would walk the objects of torch again and again
def pirkit(
    graph: Any, inputs: Sequence[Any], *, mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Compile a graph of Dynamo; called by `torch.compile`, which calls the result instead.

    Raises ArgumentError (PK0701) for an unknown mode or option. With ``strict`` it raises NodeError
    for a node that no program can hold, and UnsupportedError (PK0409) for an op without a rule.
    """
    chosen = Options.of(mode, options)
    _hold_numbers(graph, known=True)
    if chosen.autograd == "torch":
        return with_torch_autograd(graph, inputs, partial(_finished, chosen))

    def make(piece: Any, examples: Sequence[Any]) -> CompiledGraph:
        try:
            return _finished(chosen, capture(piece, examples), examples)
        except NodeError:  # an op may need a number at compile time, as dropout its rate
            if not _hold_numbers(piece, known=False):
                raise
            return _finished(chosen, capture(piece, examples), examples)

    return make(graph, inputs) if chosen.strict else in_pieces(graph, inputs, make, _report_left)


def _hold_numbers(graph: Any, *, known: bool) -> bool:
    """Replace nodes `item` of a graph by numbers; says whether there are any.

    Dynamo passes Python numbers that may change as tensors, which the graph reads by `item`. With
    ``known`` only numbers on whose value Dynamo has a guard already are replaced, such as the
    ``eps`` of a norm. Otherwise all are whose value it can guard on, and each gets a guard.
    """
    found = False
    for node in graph.graph.nodes:
        value: Any = getattr(node, "meta", {}).get("example_value")
        if (node.op == "call_method" and node.target == "item" and node.users
                and isinstance(value, torch.SymFloat | torch.SymInt)
                and not symbolic_shapes.free_unbacked_symbols(value)
                and (value.node.expr.is_number or not known)):  # fmt: skip
            number = float if isinstance(value, torch.SymFloat) else int
            node.replace_all_uses_with(number(value) if not known else number(value.node.expr))
            found = True
    graph.recompile()
    return found


def _finished(
    chosen: Options, captured: Captured, inputs: Sequence[Any] | None = None
) -> CompiledGraph:
    """A captured graph, compiled for the sizes of its inputs."""
    settings = Settings(
        chosen.fast_math, chosen.saved, chosen.budget, chosen.threads, chosen.sizes, chosen.freeze
    )
    made = CompiledGraph(captured, settings, strict=chosen.strict, report=_report)
    examples = captured.examples if inputs is None else [*inputs, *captured.attributes]
    # Sizes that depend on data have no values yet: then the first call compiles.
    if not any(symbolic_shapes.free_unbacked_symbols(given) for given in examples):
        special = made.special([_sized(given) for given in examples])
        learns = torch.is_grad_enabled() and any(made.differentiable)
        if isinstance(special, Specialized):  # the first sizes have code of their own
            runner = special.level.forward if learns else special.level.inference
            if WATCH.get() is not None:
                special.watched = runner.watched()
    watching = WATCH.get()
    if watching is not None:
        watching.append(made)
    return made


def _sized(given: Any) -> Any:
    """An example with the sizes that its symbols stand for now."""
    if isinstance(given, torch.SymInt):
        return given.node.hint
    if isinstance(given, torch._subclasses.FakeTensor):
        return _Shaped([_sized(n) for n in given.shape])
    return given


@dataclass(frozen=True)
class _Shaped:
    """Stands for a tensor, of which `CompiledGraph.special` reads only the shape."""

    shape: list[int]


def _report(imported: Imported) -> None:
    """One line that says what torch computes inside of programs, and how often."""
    if imported.fallbacks:
        _log(imported.fallbacks, imported.counts.total())


def _report_left(left: list[Fallback], total: int) -> None:
    """One line that says what torch runs between compiled pieces."""
    _log(left, total)
    watching = WATCH.get()
    if watching is not None:
        watching.append(Outside(left))


def _log(fallbacks: list[Fallback], total: int) -> None:
    counts = Counter(f.target for f in fallbacks)
    listed = ", ".join(f"{n} x {name}" for name, n in counts.most_common())
    LOG.warning("torch computes %d of %d ops: %s", counts.total(), total, listed)

"""Programs of torch functions and archives, and what a compiled function consists of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import ArgumentError, ArtifactError, PirkitError
from pirkit.diag.span import Span
from pirkit.frontend.files import Program
from pirkit.runtime.plan import SEGMENT
from pirkit.runtime.trace import Entry
from pirkit.torch.archive_check import check_archive
from pirkit.torch.backend import WATCH, Outside, pirkit
from pirkit.torch.capture import functional_graph
from pirkit.torch.compiled_graph import CompiledGraph, Specialized
from pirkit.torch.decompositions import decompositions
from pirkit.torch.element_types import array_of
from pirkit.torch.import_graph import import_graph
from pirkit.torch.imported_graph import Fallback
from pirkit.torch.libtorch import torch

Array = np.ndarray[Any, Any]

LONGEST: Final = 12
"""Segments and library calls whose time is printed."""


def _watched(function: Callable[..., Any], args: Any, kwargs: Any) -> list[CompiledGraph | Outside]:
    """The graphs that a call compiles, and what torch runs between them."""
    found: list[CompiledGraph | Outside] = []
    token = WATCH.set(found)
    try:
        # a new function, so that Dynamo does not reuse code of earlier calls
        def fresh(*given: Any, **named: Any) -> Any:
            return function(*given, **named)

        torch.compile(fresh, backend=_fresh())(*args, **kwargs)
    finally:
        WATCH.reset(token)
    return found


def _fresh() -> Callable[..., Any]:
    """A new backend function: Dynamo reuses code for the same one."""

    def backend(graph: Any, inputs: Any) -> Any:
        return pirkit(graph, inputs)

    return backend


def export(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any = None) -> Program:
    """The program of a function of tensors, or of a module, for arguments like these.

    Parameters and buffers of modules are inputs, too. Inputs are called ``x0``, ``x1``... by their
    index among those of Dynamo's graph, outputs ``y0``, ``y1``... Raises ArgumentError (PK0701) for
    a function that is not one graph.
    """
    graphs = _watched(function, args, kwargs or {})
    whole = graphs[0] if graphs else None
    if len(graphs) != 1 or not isinstance(whole, CompiledGraph):
        raise ArgumentError(
            f"the function is {len(graphs)} graphs, not one",
            help="`torch.compile(f, fullgraph=True)` says where the graph breaks; "
            "`pirkit.torch.explain` what torch runs between graphs",
        )  # fmt: skip
    (special,) = whole.kinds.values()
    return special.imported.program.copy()


@dataclass(frozen=True)
class GraphReport:
    """One graph of a compiled function.

    ``ops`` counts overloads of ATen. ``fallbacks`` are those that torch computes, each with its
    Python line and the reason. ``segments`` is the number of native segments of the plan, ``calls``
    counts its library calls. ``saved`` is the number of bytes that the forward saves for the
    backward, None without a backward. ``times`` are names and CPU seconds of the segments and
    library calls of the forward, in order; a segment is named by its Python line.
    """

    ops: Counter[str]
    fallbacks: tuple[str, ...]
    segments: int
    calls: Counter[str]
    saved: int | None
    times: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What `explain` found; ``print`` shows it."""

    graphs: tuple[GraphReport, ...]

    def __str__(self) -> str:
        lines = [f"graphs: {len(self.graphs)}"]
        for number, graph in enumerate(self.graphs):
            total = graph.ops.total()
            lines.append(
                f"graph {number}: {total} ops, {graph.segments} native segments,"
                f" {graph.calls.total()} library calls, torch computes {len(graph.fallbacks)}"
            )
            if graph.saved is not None:
                lines.append(f"  saved for the backward: {graph.saved:,} bytes")
            lines += [f"  torch: {line}" for line in graph.fallbacks]
            lines += [f"  library: {n} x {name}" for name, n in graph.calls.most_common()]
            longest = sorted(graph.times, key=lambda t: -t[1])[:LONGEST]
            if longest:
                total_time = sum(seconds for _, seconds in graph.times)
                lines.append(f"  forward: {total_time * 1e3:.3f} ms, longest first")
            lines += [f"    {seconds * 1e3:9.3f} ms {what}" for what, seconds in longest]
            lines += [f"  {n} x {name}" for name, n in graph.ops.most_common()]
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Which ops a function consists of, with their lines, and what runs them.

    The function is compiled and called once.
    """
    graphs = _watched(function, args, kwargs)
    return Explanation(tuple([r for g in graphs for r in _reports(g)]))


def _reports(graph: CompiledGraph | Outside) -> list[GraphReport]:
    if isinstance(graph, CompiledGraph):
        return [_report(graph, special) for special in graph.kinds.values()]
    counts = Counter(f.target for f in graph.fallbacks)
    lines = tuple([_line(f) for f in graph.fallbacks])
    return [GraphReport(counts, lines, 0, Counter(), None)]


def _timed(entries: Sequence[Entry]) -> tuple[tuple[str, float], ...]:
    return tuple([(f"{e.what}{f' at {e.span}' if e.span else ''}", e.seconds)
                  for e in entries if not e.depth])  # fmt: skip


def _line(f: Fallback) -> str:
    return f"{f.target}{f' at {f.span}' if f.span else ''}: {f.reason}"


def _report(graph: CompiledGraph, special: Specialized) -> GraphReport:
    level = special.level
    learns = torch.is_grad_enabled() and any(graph.differentiable)
    # From the trace of this call: the plan for other sizes may have other segments.
    ran = Counter(e.what for e in special.watched if not e.depth)
    return GraphReport(
        Counter(special.imported.counts),
        tuple([_line(f) for f in special.imported.fallbacks]),
        ran.pop(SEGMENT, 0),
        ran,
        level.parts.report.bytes if learns else None,
        _timed(special.watched),
    )  # fmt: skip


def load_archive(path: str | os.PathLike[str]) -> Program:
    """The program of an archive of `torch.export.save`, with its weights.

    Sizes that the archive leaves open are those of the example that it was exported with. Inputs
    are ``x0``, ``x1``... by their place among all inputs of the archive's graph, outputs
    ``y0``, ``y1``...; parameters have their names. Raises ArtifactError for a file that torch does
    not read (PK0506), or with which torch could run code (PK0500): torch reads archives by its own
    code, partly with pickle.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            check_archive(name, file)
            file.seek(0)
            package: Any = import_module("torch.export.pt2_archive._package")  # from torch 2.8 on
            exported = package.load_pt2(file).exported_programs["model"]
    except PirkitError:
        raise
    except Exception as error:  # torch states no type for what damaged archives raise
        raise ArtifactError(
            f"torch cannot read {name}: {error}",
            code="PK0506",
            span=Span(name),
            help="save it again: `torch.export.save(torch.export.export(model, inputs), path)`",
        ) from error
    return program_of_exported(exported, name)


def program_of_exported(exported: Any, name: str = "<torch>") -> Program:
    """The program of an ExportedProgram, with its weights; see `load_archive`."""
    exported = exported.run_decompositions(decompositions())
    module, signature = exported.graph_module, exported.graph_signature
    captured = functional_graph(module, [])
    weights: dict[str, Array] = {}
    stored = {**exported.state_dict, **exported.constants}
    sources = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    symbols: dict[Any, int] = {}
    for i, node in enumerate(captured.placeholders):
        key = sources.get(node.name)
        if key is not None:
            captured.parameters[i] = key
            weights[key] = np.array(array_of(stored[key].detach().contiguous()))
        value = node.meta["val"]
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                env = size.node.shape_env
                known = getattr(env, "backed_var_to_val", None)  # from torch 2.12 on
                known = env.var_to_val if known is None else known
                symbols.update({s: known[s] for s in size.node.expr.free_symbols})
    wanted = [False] * len(captured.placeholders)
    program = import_graph(captured, symbols, wanted).program
    return Program(program.module, weights, name)

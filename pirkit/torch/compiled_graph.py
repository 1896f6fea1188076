"""A compiled graph of Dynamo: from the arguments of a call to its results."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any, Final

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.forks import renewed
from pirkit.diag.once import cached_property
from pirkit.runtime.trace import Entry
from pirkit.torch.autograd_function import run
from pirkit.torch.captured_graph import SOURCE, Captured, Result, View
from pirkit.torch.custom_derivative import has_own_derivative
from pirkit.torch.flat_ops import flat_ops, stepped_inputs
from pirkit.torch.import_graph import import_graph
from pirkit.torch.imported_graph import Imported
from pirkit.torch.levels import Level
from pirkit.torch.libtorch import forward_ad, listed, returned_by, symbolic_shapes, torch
from pirkit.torch.node_error import NodeError
from pirkit.torch.row_blocks import Axes, Blocks, best_block, row_symbol
from pirkit.torch.tensor_runner import Settings, picker

LOG: Final = logging.getLogger("pirkit.torch")
OFTEN: Final = 8
"""Calls after which a combination of sizes is compiled, when `Settings.sizes` others are already.

The number doubles with every `Settings.sizes` further compilations, so their count grows with the
logarithm of the number of calls.
"""


class Specialized:
    """A graph as a program for one choice of its sizes, and how arguments become its inputs."""

    def __init__(self, captured: Captured, imported: Imported, settings: Settings) -> None:
        self.imported = imported
        position = {a: k for k, a in enumerate(imported.inputs)}
        self.level = Level(
            imported.program, imported.names, imported.outputs, settings,
            tuple([wants if wants is not None or k not in imported.cut else False
                   for k, wants in enumerate(captured.learns)]),
            flat_ops(captured, imported.inputs), stepped_inputs(captured, imported.inputs),
            updates=tuple([
                (k, position[i]) for i, k in captured.written
                if i in position and imported.out_orders[k] is None
                and imported.in_orders[position[i]] is None
            ]),
            weights=tuple([position[i] for i in _weights(captured) if i in position]),
            linear=not has_own_derivative(captured),
        )  # fmt: skip
        self.captured = captured
        self.watched: list[Entry] = []
        """While `explain` watches: what the last forward executed, with CPU seconds."""
        # Written arguments, by position among the program's inputs.
        self.written = frozenset([position[i] for i, _ in captured.written if i in position])
        self.constants = [t.contiguous() for t in imported.constants]
        self.orders = list(zip(imported.inputs, imported.in_orders, strict=True))
        self.pick = picker(imported.inputs, len(captured.examples))
        self.is_plain = not any(imported.in_orders) and not imported.draws and not self.constants
        """Whether all inputs are arguments as they are."""
        # The program gives an output with its dimensions in memory order: this is the inverse.
        restored = [
            None if o is None else [o.index(d) for d in range(len(o))] for o in imported.out_orders
        ]
        self.restored = restored if any(restored) else None

    def outputs(self, args: Sequence[Any]) -> Sequence[Any]:
        """The outputs of the graph for these arguments, and for random numbers drawn now."""
        if self.is_plain:
            tensors = self.pick(args)
        else:
            tensors = [args[i] if o is None else args[i].permute(o) for i, o in self.orders]
            tensors += [draw() for draw in self.imported.draws]
            tensors += self.constants
        found = run(self.level, tensors, self.written)
        if self.restored is None:
            return found
        return [t if o is None else t.permute(o) for t, o in zip(found, self.restored, strict=True)]


class CompiledGraph:
    """What Dynamo calls instead of its graph.

    Raises NodeError (PK0406) for a tensor whose size does not follow from the arguments of a call.
    """

    def __init__(
        self, captured: Captured, settings: Settings, *, strict: bool,
        report: Callable[[Imported], None],
    ) -> None:  # fmt: skip
        self.captured = captured
        self.settings = settings
        self.strict = strict
        self.report = report
        self.symbols = _symbols(captured.placeholders)
        _check_sizes(captured, self.symbols.keys())
        self.kinds: dict[tuple[int, ...], Specialized] = {}
        self.differentiable = [
            isinstance(f, torch.Tensor) and f.requires_grad for f in captured.examples
        ]
        self._only: Specialized | None = None
        """The code of a graph without symbols, once it is compiled."""
        self._lock = renewed(threading.Lock())
        self._writes = bool(captured.written) and captured.source is not None
        self._apart: tuple[int, ...] | None = None
        """Addresses of arguments of the last call in which no written one shared memory."""
        self._met: Counter[tuple[int, ...]] = Counter()
        self._told: set[str] = set()
        self._count = len(captured.results)
        self._row = row_symbol(captured, self.symbols) if self.symbols else None
        """The symbol along which rows are independent, so that one code serves all sizes."""
        self._plain = all(r == Result("node", k) for k, r in enumerate(captured.results))
        self._computes = bool(captured.outputs) or captured.source is None

    def __call__(self, *args: Any) -> Any:
        if not self._computes:  # only views, inputs and constants: there is nothing to compile
            return self.captured.source.forward(*args)
        if self._writes and self._overlap((*args, *self.captured.attributes)):
            self.tell("arguments share memory, and one is written: torch runs this call")
            return self.captured.source(*args)
        # Compiled code knows no tangents, and would lose this one.
        if forward_ad._current_level >= 0 and any(map(_has_tangent, args)):
            if self.captured.source is None:
                raise UnsupportedError(
                    "an argument has a tangent of forward mode", code="PK0403",
                    help="use `torch.func.jvp` inside of the compiled function",
                )  # fmt: skip
            self.tell("an argument has a tangent of forward mode: torch runs this call")
            return self.captured.source(*args)
        if self.captured.attributes:
            args = (*args, *self.captured.attributes)
        special = self.special(args)
        if special is None:
            self.tell("more sizes than `sizes`: torch runs calls of sizes that are seldom met")
            return self.captured.source(*args[: len(args) - len(self.captured.attributes)])
        outputs = special.outputs(args)
        if self.captured.written:
            _write(self.captured.written, args, outputs)
        if self._plain:
            return outputs if len(outputs) == self._count else outputs[: self._count]
        sizes = self._sizes(args)
        return [self._result(r, args, outputs, sizes) for r in self.captured.results]

    def special(self, args: Sequence[Any]) -> Specialized | Blocks | None:
        """The code for the sizes of these arguments, compiled when they are first seen.

        If rows are independent, the code for one number of rows computes other numbers in blocks,
        until such a number has been met often. When ``Settings.sizes`` combinations are compiled,
        a further one is compiled only if it is met often; before that, the result is None, and
        torch runs the call.
        """
        if self._only is not None:
            return self._only
        sizes = self._sizes(args)
        key = tuple(sizes.values())
        found = self.kinds.get(key)
        if found is None:
            with self._lock:
                found = self.kinds.get(key)
                if found is None and (blocks := self._in_blocks(sizes)) is not None:
                    return blocks
                if found is None and self._is_seldom(key):
                    return None
                if found is None:
                    found = self.kinds[key] = self.made(sizes)
                    self._only = None if self.symbols else found
        return found

    def _in_blocks(self, sizes: dict[Any, int]) -> Blocks | None:
        """Blocks of the code for another number of rows; None if there is none to use.

        None, too, for a number of rows that is met so often that it gets code of its own.
        """
        if self._row is None:
            return None
        at, key = list(sizes).index(self._row), tuple(sizes.values())
        held = {k[at]: code for k, code in self.kinds.items()
                if (*k[:at], *k[at + 1 :]) == (*key[:at], *key[at + 1 :])}  # fmt: skip
        rows = sizes[self._row]
        best = best_block(rows, [b for b in held if b])
        if best is None:
            return None
        block, is_close = best
        self._met[key] += 1
        if self._met[key] >= OFTEN << (len(held) if is_close else 0):
            return None
        return Blocks(held[block], self._axes, rows, block)

    @cached_property
    def _axes(self) -> Axes:
        return Axes(self.captured, self._row)

    def _is_seldom(self, key: tuple[int, ...]) -> bool:
        at_once = self.settings.sizes
        if len(self.kinds) < at_once or self.captured.source is None:
            return False
        self._met[key] += 1
        rounds = len(self.kinds) // at_once - 1 if at_once else len(self.kinds)
        return self._met[key] < OFTEN << rounds

    def _overlap(self, args: Sequence[Any]) -> bool:
        """Whether an argument that is written shares its storage with another one."""
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        places = tuple([t.data_ptr() for t in tensors])
        if places == self._apart and not self.symbols:
            return False
        held = Counter([t.untyped_storage().data_ptr() for t in tensors if t.numel()])
        for i, _ in self.captured.written:
            if held[args[i].untyped_storage().data_ptr()] > 1:
                return True
        self._apart = places
        return False

    def tell(self, what: str) -> None:
        """Log a warning, each text once."""
        if what not in self._told:
            self._told.add(what)
            LOG.warning(what)

    def made(self, sizes: dict[Any, int]) -> Specialized:
        """The graph, imported and compiled for some sizes."""
        imported = import_graph(self.captured, sizes, self.differentiable, strict=self.strict)
        self.report(imported)
        return Specialized(self.captured, imported, self.settings)

    def _sizes(self, args: Sequence[Any]) -> dict[Any, int]:
        return {s: int(args[i]) if d is None else args[i].shape[d]
                for s, (i, d) in self.symbols.items()}  # fmt: skip

    def _result(
        self, r: Result, args: Sequence[Any], outputs: Sequence[Any], sizes: dict[Any, int]
    ) -> Any:
        """A result of the call: an output, an argument, a view of one, or a number."""
        if r.kind == "constant":
            return _number(r.value, sizes)
        if r.kind == "number":
            return outputs[r.at].item()
        base = args[r.at] if r.kind == "input" else outputs[r.at]
        if r.detached and base.requires_grad:
            base = base.detach()
        return base if r.view is None else _view(base, r.view, sizes)


def _weights(captured: Captured) -> list[int]:
    """The arguments that are parameters and buffers of a module, which the graph does not write."""
    if captured.source is None:
        return []
    written = {i for i, _ in captured.written}
    given = [n for n in captured.source.graph.nodes if n.op == "placeholder"]
    return [i for i, node in enumerate(given)
            if i not in written
            and "_dynamo_static_input_type" in node.meta.get("tensor_dict", ())]  # fmt: skip


def _view(base: Any, view: View, sizes: dict[Any, int]) -> Any:
    size, stride, offset = view.size, view.stride, view.offset
    if not view.is_static:
        size, stride = ([_number(n, sizes) for n in v] for v in (size, stride))
        offset = _number(offset, sizes)
    parts = torch.view_as_real(base) if view.real else base
    return parts.as_strided(size, stride, parts.storage_offset() + offset)


def _number(given: Any, sizes: dict[Any, int]) -> Any:
    """A number for certain sizes of symbols; what is no symbol as it is."""
    if isinstance(given, torch.SymInt):
        return int(given.node.expr.xreplace(sizes))
    if isinstance(given, torch.SymFloat):
        return float(given.node.expr.xreplace(sizes))
    if isinstance(given, torch.SymBool):
        return bool(given.node.expr.xreplace(sizes))
    return given


def _has_tangent(given: Any) -> bool:
    return isinstance(given, torch.Tensor) and forward_ad.unpack_dual(given).tangent is not None


def _write(written: Sequence[tuple[int, int]], args: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Write the new contents of arguments, given as pairs of an argument and an output by index.

    Autograd records the write of a content that requires a gradient, unless the argument is a leaf
    that requires one: torch allows that write under `no_grad` only. Where the output is the
    argument itself, native code has written it, and only its version is counted up.
    """
    done: list[Any] = []
    hidden: list[tuple[Any, Any]] = []
    for i, k in written:
        target, content = args[i], outputs[k]
        if content is target:
            done.append(target)
        elif content.requires_grad and not (target.is_leaf and target.requires_grad):
            target.copy_(content)
        else:
            hidden.append((target, content))
    if done:
        torch.autograd.graph.increment_version(done)
    if hidden:
        with torch.no_grad():
            for target, content in hidden:
                target.copy_(content)


def _check_sizes(captured: Captured, known: Set[Any]) -> None:
    """Raises NodeError (PK0406) for a size, or an offset of a view, with an unknown symbol."""
    for node in captured.graph.nodes:
        for value in listed(node.meta.get("val")):
            if isinstance(value, torch.Tensor):
                _check(value, known, node.meta.get(SOURCE))
    for k, result in enumerate(captured.results):
        if result.view is not None:  # its offset may depend on data
            returned = [] if captured.source is None else returned_by(captured.source.graph)
            view = (*result.view.size, *result.view.stride, result.view.offset)
            _check(view, known, returned[k].name if k < len(returned) else None)


def _check(value: Any, known: Set[Any], source: str | None) -> None:
    unknown = symbolic_shapes.free_symbols(value) - known
    if unknown:
        cause = UnsupportedError(
            f"a size depends on data: {unknown.pop()}", code="PK0406",
            help="let the graph break there (`torch._dynamo.graph_break()`)",
        )  # fmt: skip
        raise NodeError(source, cause)


def _symbols(placeholders: Sequence[Any]) -> dict[Any, tuple[int, int | None]]:
    """Where a call finds the size of each symbol: index of an argument, and a dimension of it.

    The dimension is None for an argument that is the size itself.
    """
    found: dict[Any, tuple[int, int | None]] = {}
    values = [n.meta["val"] for n in placeholders]
    for i, value in enumerate(values):
        if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
            found.setdefault(value.node.expr, (i, None))
    for i, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            continue
        for d, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                found.setdefault(size.node.expr, (i, d))
    return found

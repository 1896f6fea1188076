"""Programs as rows of a table: each operation as it is printed, under names that passes keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.op_form import ARG_ATTRS, OPERAND_SEGMENTS, RESULT_SEGMENTS
from pirkit.dialect.operation import ProgramOp, spans_of
from pirkit.dialect.type_sizes import bytes_of

_MAX_ATTRIBUTES: Final = 160
_MAX_PLACES: Final = 12
_FORM: Final = frozenset({ARG_ATTRS, OPERAND_SEGMENTS, RESULT_SEGMENTS, "stop_gradient"})


class Interned:
    """Distinct items by number, in the order in which they come."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.numbers: dict[Hashable, int] = {}

    def __call__(self, item: Hashable) -> int:
        found = self.numbers.get(item)
        if found is None:
            found = self.numbers[item] = len(self.items)
            self.items.append(item)
        return found


class Snapshots:
    """The rows of all operations that ever were in a module, and the modules as lists of rows.

    A value keeps its name as long as it lives. What replaces it for its readers takes the name
    over, and so does a copy: a value that is computed in the same way from the same inputs. So a
    row that no pass changed has one number, and two modules are compared by these numbers.

    With ``first_places``, for modules that were read from files of their own, operations come from
    where those of the first module with the same results do.
    """

    def __init__(self, *, first_places: bool = False) -> None:
        self._first_places: dict[tuple[str, ...], tuple[tuple[int, int], ...]] | None
        self._first_places = {} if first_places else None
        self.strings, self.files, self.rows = Interned(), Interned(), Interned()
        self.modules: list[list[tuple[str, list[int]]]] = []
        self.row_of: dict[Operation, int] = {}
        """The operations of the latest module, with their rows."""
        self.names: dict[SSAValue, str] = {}
        self._kept: dict[int, list[str]] = {}
        self._read: dict[Operation, tuple[SSAValue, ...]] = {}
        self._texts: dict[Attribute, str] = {}

    def add(self, module: ModuleOp) -> int:
        """Add a module; its number."""
        keys = {v: k for program in programs(module) for v, k in _keys(program, self._text)}
        self._follow_readers(module, keys)
        inherited: defaultdict[int, list[str]] = defaultdict(list)
        for key, held in self._kept.items():
            inherited[key] += held
        live = {v: self.names[v] for v in keys if v in self.names}
        taken = set(live.values())
        for value, key in keys.items():
            if value in live:
                continue
            name = next((n for n in inherited.get(key, ()) if n not in taken), None)
            live[value] = name or _fresh(value.name_hint, taken, len(self.names))
            self.names[value] = live[value]
            taken.add(live[value])
        self._kept = {}
        for value, key in keys.items():
            self._kept.setdefault(key, []).append(live[value])
        self.row_of = {}
        listed = [(p.symbol, [self._row(op, p) for op in operations(p.block)]) for p in
                  programs(module)]  # fmt: skip
        self.modules.append(listed)
        self._read = {op: tuple(op.operands) for op in self.row_of}
        return len(self.modules) - 1

    def _follow_readers(self, module: ModuleOp, live: Mapping[SSAValue, int]) -> None:
        """A new value that a reader has in place of one that is gone takes over its name."""
        taken = {self.names[v] for v in live if v in self.names}
        for program in programs(module):
            for op in operations(program.block):
                before = self._read.get(op, ())
                if len(before) != len(op.operands):
                    continue
                for old, new in zip(before, op.operands, strict=True):
                    name = self.names[old]
                    if old is not new and new not in self.names and name not in taken:
                        self.names[new] = name
                        taken.add(name)

    def name(self, value: SSAValue) -> str:
        """The name of a value, with ``%``."""
        return f"%{self.names[value]}" if value in self.names else "%?"

    def _row(self, op: Operation, program: ProgramOp) -> int:
        types = ", ".join(self._text(r.type) for r in op.results)
        results = tuple([self.names[r] for r in op.results])
        held = self.row_of[op] = self.rows((
            results,
            self.strings(op.name),
            tuple([self.names.get(v, "?") for v in op.operands]),
            self.strings(self._attributes(op)),
            self.strings(types),
            sum(bytes_of(r.type) for r in op.results),
            self._places(op, results),
            _depth(op, program),
        ))  # fmt: skip
        return held

    def _places(self, op: Operation, results: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
        """Number of file, and line, of each place that the operation comes from."""
        if self._first_places is not None and self.modules:
            return self._first_places.get(results, ())
        spans = dict.fromkeys((self.files(s.file), s.line) for s in spans_of(op))
        found = tuple(spans)[:_MAX_PLACES]
        if self._first_places is not None:
            self._first_places[results] = found
        return found

    def _attributes(self, op: Operation) -> str:
        held = [f"{k} = {self._text(v)}" for k, v in op.properties.items() if k not in _FORM]
        text = ", ".join(held)
        if isinstance(op, KernelOp):
            text = op.kernel.name
        return text if len(text) <= _MAX_ATTRIBUTES else f"{text[:_MAX_ATTRIBUTES]}..."

    def _text(self, attribute: Attribute) -> str:
        found = self._texts.get(attribute)
        if found is None:
            found = self._texts[attribute] = str(attribute)
        return found


def programs(module: ModuleOp) -> Iterator[ProgramOp]:
    """The programs of a module."""
    return (op for op in module.ops if isinstance(op, ProgramOp))


def _keys(program: ProgramOp, text: Callable[[Attribute], str]) -> Iterator[tuple[SSAValue, int]]:
    """Value numbers: equal for values that are computed in the same way."""
    found: dict[SSAValue, int] = {}
    for argument, keyword in zip(program.block.args, program.keywords, strict=True):
        found[argument] = hash(keyword)
    for op in operations(program.block):
        attributes = tuple((k, text(v)) for k, v in op.properties.items() if k not in _FORM)
        base = hash((op.name, attributes, tuple([found.get(v, 0) for v in op.operands])))
        for region in op.regions if not isinstance(op, KernelOp) else ():
            for block in region.blocks:
                found |= {v: hash((base, "argument", k)) for k, v in enumerate(block.args)}
        found |= {r: hash((base, k)) for k, r in enumerate(op.results)}
    yield from found.items()


def _fresh(hint: str | None, taken: set[str], number: int) -> str:
    name = hint or str(number)
    while name in taken:
        number += 1
        name = f"{hint}_{number}" if hint else str(number)
    return name


def _depth(op: Operation, program: ProgramOp) -> int:
    found, parent = 0, op.parent_op()
    while parent is not None and parent is not program:
        found, parent = found + 1, parent.parent_op()
    return found

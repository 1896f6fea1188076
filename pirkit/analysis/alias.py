"""Alias classes: which values may share storage, and which operations write it.

Classes are computed over the whole region tree by union-find, in near linear time. A list value has
one class per element. Values that cross the border of a region (captured, yielded, carried by a
loop) alias what they become, whether or not a backend copies them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from xdsl.ir import BlockArgument, Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.kinds import LIST, SINK, SOURCE
from pirkit.dialect.operation import PirOp, ProgramOp, declares
from pirkit.dialect.retyped_storage import storage_of
from pirkit.dialect.types import VecType

Elements = tuple[int, ...]


class AliasClasses(Struct, frozen=True):
    """The alias classes of one program, as of the time of the analysis.

    A value that was created later aliases nothing. Erasing operations keeps the result correct, but
    more conservative than necessary.
    """

    elements: dict[SSAValue, Elements]
    writers: dict[int, list[Operation]]
    """The operations that write storage of a class, in the order of the program."""
    host: frozenset[int]
    """Classes whose storage the host owns or has a name for."""

    def of(self, value: SSAValue) -> Elements:
        """The class of a value; of a list, those of its elements."""
        return self.elements.get(value, ())

    def is_written(self, value: SSAValue) -> bool:
        """True if some operation of the program writes storage of the value."""
        writers = self.writers
        return bool(writers) and any(element in writers for element in self.of(value))


def alias_classes(program: ProgramOp) -> AliasClasses:
    """Compute the alias classes of a program in one traversal."""
    finder = _Finder()
    for argument in program.block.args:
        finder.define(argument)
        finder.host += finder.elements[argument]
    for op in operations(program.block):
        finder.visit(op)
    return finder.classes()


def is_overwritten(value: SSAValue) -> bool:
    """True if an operation may write storage of a value: a walk over the names that it has.

    It serves a few values of a program that changes; for many, `alias_classes` is cheaper.
    """
    seen: set[SSAValue] = set()
    stack = [storage_of(value)[0]]
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        if isinstance(name, BlockArgument) and isinstance(around := name.owner.parent_op(), PirOp):
            stack += (*around.operands, *around.results)
        for op in (use.operation for use in name.uses):
            if not isinstance(op, PirOp):  # a load of a kernel
                continue
            definition = op.definition
            targets = definition.inplace.items() if definition.writes else ()
            if any(op.operand_named(operand) is name for _, operand in targets):
                return True
            if op.name == "pir.yield" and isinstance(around := op.parent_op(), PirOp):
                stack += (*around.results, *(a for r in around.regions for a in r.block.args))
            elif declares(op, LIST) or op.regions:
                stack += (*op.results, *(a for r in op.regions for a in r.block.args))
            else:
                views = [r for r, o in definition.views.items() if op.operand_named(o) is name]
                stack += [v for r in views if (v := op.result_named(r)) is not None]
    return False


class _Finder(Struct):
    parents: list[int] = field(default_factory=list[int])
    elements: dict[SSAValue, Elements] = field(default_factory=dict[SSAValue, Elements])
    joined: bool = False
    """Whether any two classes were merged."""
    written: list[tuple[int, Operation]] = field(default_factory=list[tuple[int, Operation]])
    host: list[int] = field(default_factory=list[int])

    def root(self, element: int) -> int:
        parents = self.parents
        while parents[element] != element:
            # path halving keeps the trees flat
            parents[element] = parents[parents[element]]
            element = parents[element]
        return element

    def join(self, a: SSAValue, b: SSAValue) -> None:
        """Merge the classes of two values; the older one is the root."""
        self.joined = True
        for x, y in zip(self.elements[a], self.elements[b], strict=False):
            older, younger = sorted((self.root(x), self.root(y)))
            self.parents[younger] = older

    def define(self, value: SSAValue) -> None:
        first, type_ = len(self.parents), value.type
        if not isinstance(type_, VecType):
            self.parents.append(first)
            self.elements[value] = (first,)
            return
        count = len(type_.items)
        self.parents += range(first, first + count)
        self.elements[value] = tuple(range(first, first + count))

    def visit(self, op: PirOp) -> None:
        if op.name == "pir.combine":
            parts = [e for v in op.operands for e in self.elements[v]]
            self.elements[op.results[0]] = tuple(parts)
            return
        for result in op.results:
            self.define(result)
        definition = op.definition
        if definition.makes_new_storage:
            return
        if SOURCE in definition.traits or SINK in definition.traits:
            self.host += [e for v in (*op.operands, *op.results) for e in self.elements[v]]
        match op.name:
            case "pir.split":
                self.take_elements(op, self.elements[op.operands[0]])
            case "pir.slice":
                index: int = op.attribute("index")
                self.take_elements(op, self.elements[op.operands[0]][index : index + 1])
            case "pd_op.while":
                block = op.regions[0].block
                for argument in block.args:
                    self.define(argument)
                self.join_all(op.operands[1:], block.args)
                self.join_all(op.results, block.args)
            case "pir.yield":
                self.leave(op)
            case _ if definition.views or definition.writes:
                self.share(op)
            case _:
                pass

    def take_elements(self, op: PirOp, elements: Elements) -> None:
        for result, element in zip(op.result_slots, elements, strict=False):
            if result is not None:
                self.elements[result] = (element,)

    def leave(self, op: PirOp) -> None:
        """A yield: its operands alias the results, or the next arguments, of the enclosing op."""
        around = op.parent_op()
        if around is not None:
            values = op.operands[1:] if around.name == "pd_op.while" else op.operands
            self.join_all(around.results, values)

    def join_all(self, left: Sequence[SSAValue], right: Sequence[SSAValue]) -> None:
        for a, b in zip(left, right, strict=False):
            self.join(a, b)

    def share(self, op: PirOp) -> None:
        """Record the results that the op declares as aliases of operands, and its writes."""
        definition = op.definition
        written: Mapping[str, str] = definition.inplace if definition.writes else {}
        for result_name, operand_name in (*definition.views.items(), *written.items()):
            operand = op.operand_named(operand_name)
            if operand is None:
                continue
            result = op.result_named(result_name)
            if result is not None:
                self.join(operand, result)
            if result_name in written:
                self.written += [(element, op) for element in self.elements[operand]]

    def classes(self) -> AliasClasses:
        elements = self.elements
        if self.joined:
            roots = [self.root(element) for element in range(len(self.parents))]
            elements = {v: tuple([roots[e] for e in some]) for v, some in elements.items()}
        writers: dict[int, list[Operation]] = {}
        for element, op in self.written:
            writers.setdefault(self.root(element), []).append(op)
        return AliasClasses(elements, writers, frozenset(map(self.root, self.host)))

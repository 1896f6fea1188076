"""Compiles routines in a small language, which has the syntax of Python, to LLVM IR.

    def total(header: Header, first: ptr) -> i64:
        found = 0
        for k in range(count):
            found += i64[first, k]
        return found

Types are ``i1``, ``i8``, ``i32``, ``i64``, ``double``, ``ptr`` and the names of structures, which
are pointers. ``i64[p, k]`` is the word ``k`` words after the address ``p``, ``p + n`` the address
``n`` bytes after it, ``p.name`` a field of a structure. A word of the structure ``Header`` is a
name of its own in a routine that has a ``header``: its value when the routine began. ``and`` and
``or`` do not evaluate their second operand where the first one decides.

``below(a, b)`` compares without sign, ``copy(to, source, bytes)`` copies memory, and
``address_of(x)`` is where a variable is. Any other call is that of a routine, of a declared
function, or of an address, whose result has the type that ``results`` gives for its name.

Variables are in memory here, so a module needs the passes of `object_compiler.INLINE`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from pirkit.diag.errors import InternalError
from pirkit.runtime.native.object_compiler import INLINE, QUICK

_Test = Callable[[str, str], None]
"""Goes to one label or the other."""

Struct = Mapping[str, tuple[str, int]]
"""Type and byte offset of each field."""

_TYPES: Final = ("i1", "i8", "i32", "i64", "ptr", "double")
_DECLARATIONS: Final = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @memcmp(ptr, ptr, i64)
"""
_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
}
_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip


class Language(NamedTuple):
    """The names that routines may use."""

    structs: Mapping[str, Struct]
    constants: Mapping[str, int]
    results: Mapping[str, str]
    """Types of the results of functions that are no routines; others have none."""


class _Value(NamedTuple):
    text: str
    type: str
    struct: str = ""
    """The name of the structure that a pointer points to."""


def words(names: Iterable[str], pointers: Collection[str] = ()) -> dict[str, tuple[str, int]]:
    """A structure of words of eight bytes, of which some are pointers."""
    return {n: ("ptr" if n in pointers else "i64", 8 * k) for k, n in enumerate(names)}


class RoutineModule(NamedTuple):
    """Routines, of which only ``exported`` ones can be called from outside."""

    source: str
    language: Language
    exported: tuple[str, ...]
    quick: bool = False
    """Whether a short time to compile counts more than fast code."""

    def text(self) -> str:
        """The module as LLVM IR.

        Raises InternalError where the language has no such thing, and KeyError for unknown names.
        """
        functions = [f for f in ast.parse(self.source).body if isinstance(f, ast.FunctionDef)]
        routines = {f.name: _type_name(f.returns) for f in functions}
        known = self.language._replace(results={**self.language.results, **routines})
        texts = [_Routine(f, known, set(routines)).text(f.name in self.exported) for f in functions]
        return "\n".join([*texts, _DECLARATIONS, INLINE, *([QUICK] if self.quick else ()), ""])


def _type_name(annotation: ast.expr | None) -> str:
    return annotation.id if isinstance(annotation, ast.Name) else "void"


class _Routine:
    """Writes one function."""

    def __init__(self, node: ast.FunctionDef, known: Language, routines: set[str]) -> None:
        self.node, self.known, self.routines = node, known, routines
        self.slots: dict[str, _Value] = {}
        self.bound: dict[str, _Value] = {}
        """Parameters, and words of the header that were used."""
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.targets: list[tuple[str, str]] = []
        """Where `continue` and `break` of the loops around a statement go."""
        self.ended = False
        """Whether the statement before has left the block."""

    def text(self, exported: bool) -> str:
        node = self.node
        parameters: list[str] = []
        for a in node.args.args:
            value = self.typed(_type_name(a.annotation), f"%{a.arg}")
            parameters.append(f"{value.type} %{a.arg}")
            self.bound[a.arg] = value
        self.block(node.body)
        self.line("ret void" if node.returns is None else "unreachable")
        linkage = "" if exported else "private "
        inline = " alwaysinline" if node.decorator_list else ""
        head = f"define {linkage}{_type_name(node.returns)} @{node.name}({', '.join(parameters)})"
        return "\n".join([f"{head}{inline} {{", "entry:", *self.entry, *self.lines, "}"])

    # --- lines, blocks and variables

    def line(self, text: str, ends: bool = False) -> None:
        if not self.ended:
            self.lines.append(f"  {text}")
        self.ended = self.ended or ends

    def name(self, hint: str = "v") -> str:
        """A new name of a value, variable or block."""
        self.count += 1
        return f"%{hint}.{self.count}"

    def define(self, text: str, kind: str, struct: str = "") -> _Value:
        name = self.name()
        self.line(f"{name} = {text}")
        return _Value(name, kind, struct)

    def begin(self, label: str) -> None:
        self.jump(label)
        self.lines.append(f"{label[1:]}:")
        self.ended = False

    def jump(self, label: str) -> None:
        self.line(f"br label {label}", ends=True)

    def typed(self, name: str, text: str) -> _Value:
        return _Value(text, name) if name in _TYPES else _Value(text, "ptr", name)

    def assign(self, name: str, value: _Value) -> None:
        if name not in self.slots:
            slot = self.name(name)
            self.entry.append(f"  {slot} = alloca {value.type}")
            self.slots[name] = value._replace(text=slot)
        if name in self.bound or value.type != self.slots[name].type:
            raise InternalError(f"`{name}` of routine `{self.node.name}` is no {value.type}")
        self.line(f"store {value.type} {value.text}, ptr {self.slots[name].text}")

    # --- statements

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Return(None):
                self.line("ret void", ends=True)
            case ast.Return(ast.expr() as found):
                value = self.value(found, _type_name(self.node.returns))
                self.line(f"ret {value.type} {value.text}", ends=True)
            case ast.Assign([ast.Name(name)], found):
                known = self.slots.get(name)
                self.assign(name, self.value(found, known.type if known else "i64"))
            case ast.AnnAssign(ast.Name(name), annotation, ast.expr() as found):
                typed = self.typed(_type_name(annotation), "")
                self.assign(name, typed._replace(text=self.value(found, typed.type).text))
            case ast.Assign([(ast.Subscript() | ast.Attribute()) as place], found):
                goal = self.place(place)
                value = self.value(found, goal.type)
                self.line(f"store {goal.type} {value.text}, ptr {goal.text}")
            case ast.AugAssign(ast.Name(name) as goal, op, found):
                self.assign(name, self.binary(op, self.value(goal), found))
            case ast.If(test, body, orelse):
                self.branch(test, body, orelse)
            case ast.While(test, body):
                self.loop(lambda inside, behind: self.condition(test, inside, behind), body, [])
            case ast.For(ast.Name(name), ast.Call(_, bounds), body):
                self.counted(name, bounds, body)
            case ast.Continue() | ast.Break():
                self.jump(self.targets[-1][isinstance(node, ast.Break)])
            case ast.Expr(ast.Call() as call):
                self.call(call)
            case _:
                raise _unknown(node)

    def branch(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        yes, no, behind = self.name("yes"), self.name("no"), self.name("behind")
        self.condition(test, yes, no)
        self.begin(yes)
        self.block(body)
        self.jump(behind)
        self.begin(no)
        self.block(orelse)
        self.begin(behind)

    def loop(self, test: _Test, body: list[ast.stmt], step: list[ast.stmt]) -> None:
        again, inside, following, behind = map(self.name, ("again", "inside", "next", "behind"))
        self.begin(again)
        test(inside, behind)
        self.begin(inside)
        self.targets.append((following, behind))
        self.block(body)
        self.targets.pop()
        self.begin(following)
        self.block(step)
        self.jump(again)
        self.begin(behind)

    def counted(self, name: str, bounds: list[ast.expr], body: list[ast.stmt]) -> None:
        """A loop of which the end is evaluated once."""
        first: list[ast.expr] = bounds[:-1] or [ast.Constant(0)]
        end = self.value(bounds[-1])
        self.assign(name, self.value(first[0]))

        def test(inside: str, behind: str) -> None:
            more = self.define(f"icmp slt i64 {self.value(ast.Name(name)).text}, {end.text}", "i1")
            self.line(f"br i1 {more.text}, label {inside}, label {behind}", ends=True)

        step = ast.AugAssign(ast.Name(name), ast.Add(), ast.Constant(1))
        self.loop(test, body, [step])

    def condition(self, test: ast.expr, yes: str, no: str) -> None:
        """Go to one label or the other."""
        match test:
            case ast.BoolOp(op, [first, *others]) if others:
                other, rest = self.name("other"), ast.BoolOp(op, others)
                if isinstance(op, ast.And):
                    self.condition(first, other, no)
                else:
                    self.condition(first, yes, other)
                self.begin(other)
                self.condition(rest, yes, no)
            case ast.BoolOp(_, [last]):
                self.condition(last, yes, no)
            case ast.UnaryOp(ast.Not(), operand):
                self.condition(operand, no, yes)
            case _:
                self.line(f"br i1 {self.value(test).text}, label {yes}, label {no}", ends=True)

    # --- expressions

    def value(self, node: ast.expr, kind: str = "i64") -> _Value:
        """The value of an expression; a constant is of the given type."""
        match node:
            case ast.Constant(None):
                return _Value("null", "ptr")
            case ast.Constant(bool(truth)):
                return _Value(str(truth).lower(), "i1")
            case ast.Constant(int(number)):
                return _Value(str(number), kind)
            case ast.UnaryOp(ast.USub(), ast.Constant(int(number))):
                return _Value(str(-number), kind)
            case ast.Name(name):
                known = self.variable(name)
                return known or _Value(str(self.known.constants[name]), kind)
            case ast.Attribute() | ast.Subscript():
                return self.load(self.place(node))
            case ast.BinOp(left, op, right):
                return self.binary(op, self.value(left, kind), right)
            case ast.Compare(left, [op], [right]):
                first = self.value(left)
                second = self.value(right, first.type)
                how = _COMPARISONS[type(op)]
                return self.define(f"icmp {how} {first.type} {first.text}, {second.text}", "i1")
            case ast.IfExp(test, body, orelse):
                return self.chosen(test, body, orelse, kind)
            case ast.BoolOp() | ast.UnaryOp(ast.Not()):
                return self.chosen(node, ast.Constant(True), ast.Constant(False), "i1")
            case ast.Call():
                return self.call(node)
            case _:
                raise _unknown(node)

    def variable(self, name: str) -> _Value | None:
        """A variable, a parameter, or a word of the header, which is loaded at the beginning."""
        if name in self.slots:
            return self.load(self.slots[name])
        header: Struct = self.known.structs["Header"] if "header" in self.bound else {}
        if name in header and name not in self.bound:
            kind, offset = header[name]
            place, value = self.name("at"), self.name(name)
            self.entry.append(f"  {place} = getelementptr i8, ptr %header, i64 {offset}")
            self.entry.append(f"  {value} = load {kind}, ptr {place}")
            self.bound[name] = _Value(value, kind)
        return self.bound.get(name)

    def chosen(self, test: ast.expr, body: ast.expr, orelse: ast.expr, kind: str) -> _Value:
        name = self.name("chosen")[1:]
        yes, no, behind = self.name("yes"), self.name("no"), self.name("behind")
        self.condition(test, yes, no)
        self.begin(yes)
        self.assign(name, self.value(body, kind))
        self.jump(behind)
        self.begin(no)
        self.assign(name, self.value(orelse, kind))
        self.begin(behind)
        return self.load(self.slots[name])

    def binary(self, op: ast.operator, left: _Value, right: ast.expr) -> _Value:
        if left.type == "ptr":
            offset = self.value(right)
            return self.define(f"getelementptr i8, ptr {left.text}, i64 {offset.text}", "ptr")
        how = _OPERATORS.get(type(op))
        if how is None:
            raise _unknown(op)
        other = self.value(right, left.type)
        return self.define(f"{how} {left.type} {left.text}, {other.text}", left.type)

    def load(self, place: _Value) -> _Value:
        return self.define(f"load {place.type}, ptr {place.text}", place.type, place.struct)

    def place(self, node: ast.Attribute | ast.Subscript) -> _Value:
        """The address of an element or field, with the type of what is there."""
        if isinstance(node, ast.Attribute):
            return self.field(self.value(node.value), node.attr)
        kind = _type_name(node.value)
        if not isinstance(node.slice, ast.Tuple):
            return _Value(self.value(node.slice).text, kind)
        base, index = map(self.value, node.slice.elts)
        address = f"getelementptr {kind}, ptr {base.text}, i64 {index.text}"
        return self.define(address, kind)

    def field(self, base: _Value, name: str) -> _Value:
        kind, offset = self.known.structs[base.struct][name]
        return self.define(f"getelementptr i8, ptr {base.text}, i64 {offset}", kind)

    def call(self, node: ast.Call) -> _Value:
        if isinstance(node.func, ast.Attribute):  # an address in a field
            return self.called(self.value(node.func).text, "void", node.args)
        match _type_name(node.func), node.args:
            case ("i8" | "i32" | "i64") as kind, [(ast.Constant() | ast.UnaryOp()) as number]:
                return self.value(number, kind)
            case ("i8" | "i64") as kind, [operand]:
                value = self.value(operand)
                how = "sext" if value.type == "i32" else "zext"
                return self.define(f"{how} {value.type} {value.text} to {kind}", kind)
            case "below", [left, right]:
                first = self.value(left)
                second = self.value(right, first.type)
                return self.define(f"icmp ult {first.type} {first.text}, {second.text}", "i1")
            case "copy", [to, source, size]:
                goal, origin, count = (self.value(x).text for x in (to, source, size))
                operands = f"ptr {goal}, ptr {origin}, i64 {count}, i1 false"
                self.line(f"call void @llvm.memcpy.p0.p0.i64({operands})")
                return _Value("", "void")
            case "address_of", [ast.Name(name)]:
                return _Value(self.slots[name].text, "ptr")
            case name, operands:
                address = None if name in self.routines else self.variable(name)
                function = address.text if address else f"@{name}"
                return self.called(function, self.known.results.get(name, "void"), operands)

    def called(self, function: str, result: str, operands: list[ast.expr]) -> _Value:
        values = ", ".join(f"{v.type} {v.text}" for v in map(self.value, operands))
        text = f"call {result} {function}({values})"
        if result != "void":
            return self.define(text, result)
        self.line(text)
        return _Value("", "void")


def _unknown(node: ast.AST) -> InternalError:
    return InternalError(f"routines have no `{ast.unparse(node)}`")

"""The lossless text form of a kernel, by which plans, caches and rules identify it.

::

    kernel fn_exp_0_sum_1 rows [32]
    input float32[32, 64]
    op o0 = pd_op.exp(x0, {}, float32[32, 64])
    op o1 = pd_op.sum(o0, {'axis': (1, ), 'keepdim': False, 'dtype': None}, float32[32])
    value float32[32] of o1 stage 0 rows [i0] reduce pd_op.sum [64] {'dtype': None}
      t0 = pd_op.exp(x0[i0, r0], {}, float32)
      give t0
    output v0

``x0...`` are inputs, ``o0...`` the ops of the program that the kernel replaces, ``v0...``
materialized values, ``t0...`` nodes of a tree. Expressions have Python's syntax, where ``//`` is
floor division. ``s0...`` are symbolic sizes, determined by the shapes of inputs; a line
``size s1 = broadcast(s0, s2)`` after the first one derives a size from others. An op rounds its
result to the element type at the end of its line, unless the first line ends in
``excess-precision``: then native code may leave float16 and bfloat16 in float32 until the store.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import inf, nan
from typing import Any, Final, NoReturn, cast

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.kernel import MapExpr, Operand, Origin, Statement
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position
from pirkit.index.expr import (
    Broadcast,
    Expr,
    Floor,
    Iter,
    Read,
    broadcast,
    const,
    floor,
    iterator,
    read,
)
from pirkit.index.extent import is_sized, named
from pirkit.index.index_maps import Guard
from pirkit.index.size_solver import RULES, Derived
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

_DTYPES: Final = {d.name: d for d in vars(dt).values() if isinstance(d, DType)}
_NAMES: Final[dict[str, Any]] = {**_DTYPES, "inf": inf, "nan": nan}


def print_kernel(kernel: MapExpr) -> str:
    """The kernel as text."""
    excess = " excess-precision" if kernel.excess else ""
    lines = [f"kernel {kernel.name} rows {list(kernel.rows)}{excess}"]
    lines += [f"size {size}" for size in kernel.sizes]
    lines += [f"input {_meta(m)}" for m in kernel.inputs]
    count = len(kernel.inputs)
    lines += [f"op o{k} = {_call(o, count)}" for k, o in enumerate(kernel.ops)]
    for s in kernel.statements:
        rows = f" rows [{_list(s.rows, count)}]" if s.rows is not None else ""
        reduce_clause = (
            f" reduce {s.reduction} {list(s.extents)} {_value(s.attrs)}" if s.reduction else ""
        )
        tile = f" tile {list(s.tile)}" if s.tile else ""
        lines.append(
            f"value {_meta(s.meta)} of {_origin(s)} stage {s.stage}{rows}{reduce_clause}{tile}"
        )
        lines += [f"  {line}" for line in _body(s, count)]
    lines += [f"output v{k}" for k in kernel.outputs]
    return "\n".join(lines) + "\n"


def _origin(statement: Statement) -> str:
    return f"o{statement.origin}" if statement.origin >= 0 else statement.op


def _call(origin: Origin, count: int) -> str:
    operands = "".join(f"{_operand(o, count)}, " for o in origin.operands)
    return f"{origin.op}({operands}{_value(dict(origin.attrs))}, {_unread(origin.meta)})"


def _operand(operand: Operand, count: int) -> str:
    if isinstance(operand, tuple):
        return "[" + ", ".join(_operand(o, count) for o in operand) + "]"
    if isinstance(operand, TensorMeta):
        return _unread(operand)
    if operand is None:
        return "None"
    return f"x{operand}" if operand < count else f"o{operand - count}"


def _unread(meta: TensorMeta) -> str:
    """A meta as an expression; a scalar has an empty tuple as its shape."""
    return _meta(meta) if meta.shape else f"{meta.dtype.name}[()]"


def _meta(meta: TensorMeta) -> str:
    return f"{meta.dtype.name}{list(meta.shape)}"


def _list(exprs: Any, count: int) -> str:
    return ", ".join(show(e, count) for e in exprs)


def _index(exprs: Any, count: int) -> str:
    """An index in brackets; that of a scalar is an empty tuple."""
    return f"[{_list(exprs, count)}]" if exprs else "[()]"


def show(expr: Expr, inputs: int) -> str:
    """An index expression as text."""
    parts = [
        f"{_factor(k)} * {_atom(a, inputs)}" if k != 1 else _atom(a, inputs) for a, k in expr.terms
    ]
    if expr.constant or not parts:
        parts.append(_factor(expr.constant))
    return " + ".join(parts)


def _factor(number: int) -> str:
    text = repr(number)
    return f"({text})" if " " in text else text


def _atom(atom: Any, inputs: int) -> str:
    if isinstance(atom, Iter):
        return atom.name
    if isinstance(atom, Floor):
        return f"(({show(atom.inner, inputs)}) // {_factor(atom.by)})"
    if isinstance(atom, Broadcast):
        return f"spread({show(atom.inner, inputs)}, {atom.extent})"
    held = cast(Read, atom)
    place = f"{_source(held.source, inputs)}{_index(held.index, inputs)}"
    return f"read({place}, {held.extent}{'' if held.from_end else ', from_end=False'})"


def _source(source: int, inputs: int) -> str:
    return f"x{source}" if source < inputs else f"v{source - inputs}"


def _value(value: Any) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{k!r}: {_value(v)}" for k, v in pairs) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_value(v)}, " for v in cast("tuple[Any, ...]", value)) + ")"
    if isinstance(value, complex):  # Python's own form has no signs of zeros, inf and nan
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


def _body(statement: Statement, count: int) -> Iterator[str]:
    names: dict[int, str] = {}
    for node in statement.nodes():
        if id(node) in names:
            continue
        if isinstance(node, Load):
            names[id(node)] = f"{_source(node.source, count)}{_index(node.index, count)}"
        elif isinstance(node, Fill):
            names[id(node)] = f"fill({_value(node.value)}, {node.dtype.name})"
        elif isinstance(node, Position):
            names[id(node)] = f"position({show(node.index, count)}, {node.dtype.name})"
        else:
            name = f"t{sum(v.startswith('t') for v in names.values())}"
            if isinstance(node, Choose):
                guards = "".join(f"({show(g.value, count)}, {g.bound}), " for g in node.guards)
                text = f"choose(({guards}), {names[id(node.yes)]}, {names[id(node.no)]})"
            else:
                args = "".join(f"{names[id(a)]}, " for a in node.args)
                text = f"{node.op}({args}{_value(dict(node.attrs))}, {node.dtype.name})"
            yield f"{name} = {text}"
            names[id(node)] = name
    if statement.start is not None:
        yield f"start {names[id(statement.start)]}"
        yield f"at {_index(statement.index, count)}"
    yield f"give {names[id(statement.body)]}"


# --- reading --------------------------------------------------------------------------------------

_HEAD: Final = re.compile(r"kernel (\w+) rows (\[.*\])( excess-precision)?")
_META: Final = r"(\w+)(\[[\w+*, -]*\])"
_VALUE: Final = re.compile(r"([xo])(\d+)")
_NAME: Final = re.compile(r"s\d+")
_SIZE: Final = re.compile(r"size (s\d+) = (\w+)(\(.*\))")
_INPUT: Final = re.compile(rf"input {_META}")
_STATEMENT: Final = re.compile(
    rf"value {_META} of ([\w.]+) stage (\d+)(?: rows (\[.*?\]))?"
    r"(?: reduce ([\w.]+) (\[.*?\]) (.*))?(?: tile (\[.*\]))?"
)
_OP: Final = re.compile(r"op o(\d+) = (.*)")
_OUTPUT: Final = re.compile(r"output v(\d+)")


_KERNELS: Final[dict[str, MapExpr]] = {}
_MAX_KERNELS: Final = 1024


def remember(text: str, kernel: MapExpr) -> None:
    """Enter a kernel and its text, so that `known_kernel` need not parse it."""
    while len(_KERNELS) >= _MAX_KERNELS:  # the one that was entered first
        _KERNELS.pop(next(iter(_KERNELS)), None)
    _KERNELS.setdefault(text, kernel)


def known_kernel(text: str) -> MapExpr:
    """The kernel of a text, parsed unless this process has printed it. Raises as `parse_kernel`.

    Plans and caches know kernels by their texts; only a plan that was read from a file is parsed.
    """
    kernel = _KERNELS.get(text)
    if kernel is None:
        kernel = parse_kernel(text)
        remember(text, kernel)
    return kernel


def parse_kernel(text: str) -> MapExpr:
    """The kernel of a text. Raises ConstraintError (C1) for an invalid text."""
    reader = _Reader(text)
    try:
        return reader.kernel()
    except (AttributeError, LookupError, TypeError, ValueError):  # syntax that says something else
        reader.fail(f"line {reader.at + 1} is not understood")


def _elements(tree: ast.expr) -> list[ast.expr]:
    return cast(ast.List, tree).elts


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = [line.strip() for line in text.splitlines() if line.strip()]
        self.at = 0
        self.inputs: list[TensorMeta] = []
        self.ops: list[Origin] = []
        self.extents: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}

    def kernel(self) -> MapExpr:
        head = self.match(_HEAD)
        if head is None:
            self.fail("it does not start with `kernel`")
        sizes: list[Derived] = []
        while (found := self.match(_SIZE)) is not None and found[2] in RULES:
            args = cast(ast.Tuple, self.tree(found[3])).elts
            sizes.append(Derived(found[1], found[2], tuple(map(self.number, args))))
        while (found := self.match(_INPUT)) is not None:
            self.inputs.append(self.meta(found[1], found[2]))
        while (found := self.match(_OP)) is not None:
            self.ops.append(self.origin(self.tree(found[2])))
        statements: list[Statement] = []
        while (found := self.match(_STATEMENT)) is not None:
            statements.append(self.statement(found))
        outputs: list[int] = []
        while (found := self.match(_OUTPUT)) is not None:
            outputs.append(int(found[1]))
        if self.at < len(self.lines) or any(k >= len(statements) for k in outputs):
            self.fail(f"line {self.at + 1} is not understood")
        rows = self.numbers(head[2])
        inputs, ops = tuple(self.inputs), tuple(self.ops)
        values, shown = tuple(statements), tuple(outputs)
        excess = head[3] is not None
        return MapExpr(head[1], inputs, values, shown, rows, tuple(sizes), ops, excess)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.fullmatch(self.lines[self.at]) if self.at < len(self.lines) else None
        self.at += found is not None
        return found

    def fail(self, why: str) -> NoReturn:
        raise ConstraintError("C1", f"the text of the kernel is not well-formed: {why}")

    def meta(self, dtype: str, shape: str) -> TensorMeta:
        if dtype not in _DTYPES:
            self.fail(f"there is no element type {dtype}")
        return TensorMeta(self.numbers(shape), _DTYPES[dtype])

    def numbers(self, text: str) -> tuple[int, ...]:
        """Sizes in brackets."""
        return tuple(map(self.number, cast(ast.List, self.tree(text)).elts))

    def number(self, tree: ast.expr) -> int:
        found = self.index(tree)
        return found.constant if found.is_constant else self.fail("a size is no index")

    def origin(self, tree: ast.expr) -> Origin:
        match tree:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=dialect), attr=name)):
                *operands, attrs, meta = tree.args
                found = tuple(map(self.operand, operands))
                call_attrs = dict(self.value(attrs))
                return Origin(f"{dialect}.{name}", found, call_attrs, self.shaped(meta))
            case _:
                self.fail(f"`{ast.unparse(tree)}` is no op")

    def operand(self, tree: ast.expr) -> Operand:
        if isinstance(tree, ast.List):
            return tuple([cast("int | TensorMeta", self.operand(e)) for e in tree.elts])
        if isinstance(tree, ast.Constant) and tree.value is None:
            return None
        if isinstance(tree, ast.Name) and (found := _VALUE.fullmatch(tree.id)):
            number = int(found[2])
            if number < (len(self.inputs) if found[1] == "x" else len(self.ops)):
                return number if found[1] == "x" else number + len(self.inputs)
        return self.shaped(tree)

    def shaped(self, tree: ast.expr) -> TensorMeta:
        match tree:
            case ast.Subscript(value=ast.Name(id=name)) if name in _DTYPES:
                held = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
                return TensorMeta(tuple(map(self.number, held)), _DTYPES[name])
            case _:
                self.fail(f"`{ast.unparse(tree)}` is no operand")

    def statement(self, found: re.Match[str]) -> Statement:
        meta = self.meta(found[1], found[2])
        extents = self.numbers(found[7]) if found[7] else ()
        self.extents = {f"i{k}": n for k, n in enumerate(meta.shape)}
        self.extents |= {f"r{k}": n for k, n in enumerate(extents)}
        self.nodes = {}
        rows = None
        if found[5] is not None:
            rows = tuple([self.index(e) for e in cast(ast.List, self.tree(found[5])).elts])
        attrs: dict[str, Any] = self.value(self.tree(found[8])) if found[8] else {}
        while self.at < len(self.lines) and " = " in self.lines[self.at]:
            name, _, text = self.lines[self.at].partition(" = ")
            self.nodes[name] = self.node(self.tree(text))
            self.at += 1
        start = self.after("start ")
        at = None if start is None else self.after("at ")
        body = self.after("give ")
        if body is None or (start is None) != (at is None):
            self.fail(f"line {self.at + 1} is not understood")
        reduction, stage = found[6] or "", int(found[4])
        name, origin = found[3], -1
        if (held := _VALUE.fullmatch(name)) is not None:
            origin = int(held[2])
            if origin >= len(self.ops):
                self.fail(f"there is no op {name}")
            name = self.ops[origin].op
        return Statement(
            meta,
            self.node(body),
            name,
            reduction,
            extents,
            attrs,
            stage,
            rows,
            origin,
            None if start is None else self.node(start),
            () if at is None else tuple([self.index(e) for e in _elements(at)]),
            self.numbers(found[9]) if found[9] else (),
        )

    def after(self, word: str) -> ast.expr | None:
        """The expression after a word at the beginning of the current line; None if it differs."""
        if self.at >= len(self.lines) or not self.lines[self.at].startswith(word):
            return None
        self.at += 1
        return self.tree(self.lines[self.at - 1].removeprefix(word))

    def tree(self, text: str) -> ast.expr:
        try:
            return ast.parse(text, mode="eval").body
        except SyntaxError:
            self.fail(f"`{text}` is no expression")

    def node(self, tree: ast.expr) -> Node:
        match tree:
            case ast.Name(id=name) if name in self.nodes:
                return self.nodes[name]
            case ast.Subscript(value=ast.Name(id=name)):
                return Load(self.source(name), self.indices(tree.slice))
            case ast.Call(func=ast.Name(id="fill"), args=[value, ast.Name(id=name)]):
                return Fill(self.value(value), _DTYPES[name])
            case ast.Call(func=ast.Name(id="position"), args=[value, ast.Name(id=name)]):
                return Position(self.index(value), _DTYPES[name])
            case ast.Call(func=ast.Name(id="choose"), args=[ast.Tuple(elts=held), yes, no]):
                guards = [self.guard(g) for g in held]
                return Choose(tuple(guards), self.node(yes), self.node(no))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=dialect), attr=name)):
                *args, attrs, kind = tree.args
                dtype = self.value(kind)
                nodes = tuple([self.node(a) for a in args])
                return Apply(f"{dialect}.{name}", nodes, dtype, self.value(attrs))
            case _:
                self.fail(f"`{ast.unparse(tree)}` is no node")

    def guard(self, tree: ast.expr) -> Guard:
        value, bound = cast(ast.Tuple, tree).elts
        return Guard(self.index(value), self.number(bound))

    def source(self, name: str) -> int:
        number = int(name[1:])
        return number if name[0] == "x" else number + len(self.inputs)

    def indices(self, tree: ast.expr) -> tuple[Expr, ...]:
        items = tree.elts if isinstance(tree, ast.Tuple) else [tree]
        return tuple([self.index(e) for e in items])

    def index(self, tree: ast.expr) -> Expr:
        match tree:
            case ast.Constant(value=int(number)):
                return const(number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return const(-number)
            case ast.Name(id=name) if name in self.extents:
                return iterator(name, self.extents[name])
            case ast.Name(id=name) if _NAME.fullmatch(name):
                return const(named(name))
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(self.index(left), op, self.index(right))
            case ast.Call(func=ast.Name(id="spread"), args=[value, extent]):
                return broadcast(self.index(value), self.number(extent))
            case ast.Call(
                args=[ast.Subscript(value=ast.Name(id=name)) as held, extent],
                keywords=[]
                | [ast.keyword(arg="from_end", value=ast.Constant(value=False))] as call_attrs,
            ):
                index, from_end = self.indices(held.slice), not call_attrs
                return read(self.source(name), index, self.number(extent), from_end)
            case _:
                self.fail(f"`{ast.unparse(tree)}` is no index")

    def arithmetic(self, left: Expr, op: ast.operator, right: Expr) -> Expr:
        if isinstance(op, ast.Add):
            return left + right
        if isinstance(op, ast.Sub):
            return left - right
        if isinstance(op, ast.Mult) and left.is_constant:
            return right * left.constant
        if isinstance(op, ast.FloorDiv) and right.is_constant:
            by = right.constant
            if is_sized(by) or by > 0:
                return floor(left, by)
        self.fail("an index is no linear combination of floors")

    def value(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Name(id=name) if name in _NAMES:
                return _NAMES[name]
            case ast.Constant():
                return tree.value
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(tree.operand)
            case ast.Call(func=ast.Name(id="complex"), args=[real, imag]):
                return complex(self.value(real), self.value(imag))
            case ast.Tuple():
                return tuple([self.value(e) for e in tree.elts])
            case ast.Dict():
                keys = [cast("ast.Constant", k).value for k in tree.keys]
                return dict(zip(keys, map(self.value, tree.values), strict=True))
            case _:
                self.fail(f"`{ast.unparse(tree)}` is no value")

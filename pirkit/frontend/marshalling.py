"""Generated code that unpacks the arguments of a call, for one structure of arguments.

A compiled call takes a few microseconds, and a generic walk over trees would take most of them. So
each structure gets a function of its own: straight-line code that checks containers, takes the
arrays out in the order in which the native call reads them, and builds the tree of results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field

from pirkit.frontend.generated_code import function_of
from pirkit.frontend.surroundings import Place, kind_of, kinds_in, same
from pirkit.frontend.tree import CONTAINERS, LEAF, Node, Shape
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.tree_call import Results
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import meta_of

Array = np.ndarray[Any, Any]
Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""A call of a compiled function, given its arguments by position and by name."""
Run = Callable[[tuple[Array, ...]], "Sequence[Array] | None"]
"""Runs a program on arrays; returns None, without running, if they do not fit."""
Writes = Callable[["_Code", str], None]
"""Writes the code that runs a program: from an expression for its arrays to its results ``r``."""

Ways = tuple[
    Sequence[Shape],
    Mapping[str, Shape],
    Sequence[tuple[str, type, TensorMeta]],
    Mapping[int | str, Any],
    Sequence[str],
    Mapping[str, Any],
    Mapping[str, Place],
    Sequence[Place],
]
"""The parameters of `caller` from ``positions`` to ``guards``."""

_MISSES: Final = (AttributeError, LookupError, NameError, TypeError, ValueError)


class _Code(Struct):
    """The lines of a function under construction, and the objects that they name."""

    names: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: list[str] = field(default_factory=list[str])
    variables: int = 0
    targets: list[str] = field(default_factory=list[str])
    """The variables of the arrays to write into."""

    def name(self, thing: Any) -> str:
        """A name for an object that the code needs."""
        made = f"k{len(self.names)}"
        self.names[made] = thing
        return made

    def variable(self, expression: str) -> str:
        """A local variable with a value."""
        self.variables += 1
        made = f"v{self.variables}"
        self.lines.append(f"{made} = {expression}")
        return made

    def require(self, condition: str) -> None:
        """Return ``missed`` unless a condition holds."""
        self.lines.append(f"if not ({condition}): return missed")

    def guard(self) -> None:
        """Return ``missed`` if one of the lines so far fails: the structure is another one."""
        misses = self.name(_MISSES)
        lines = [f"    {x}" for x in self.lines]
        self.lines = ["try:", *lines, f"except {misses}: return missed"]


def caller(
    positions: Sequence[Shape],
    keywords: Mapping[str, Shape],
    leaves: Sequence[tuple[str, type, TensorMeta]],
    static: Mapping[int | str, Any],
    order: Sequence[str],
    roots: Mapping[str, Any],
    captured: Mapping[str, Place],
    guards: Sequence[Place],
    packed: Callable[[_Code], str],
    running: Writes,
    unwraps: bool,
    missed: Any,
    out: Shape | None = None,
) -> Call:
    """The function of a call with arguments of these structures; others make it give ``missed``.

    ``positions`` and ``keywords`` are the structures of the arguments that are not ``static``;
    ``static`` has the values of the others, by position or name. ``leaves`` are the name of the
    input, the Python type and the meta of each leaf; ``order`` names the inputs that the program
    reads, in its order. ``captured`` are inputs that are read from places in the surroundings,
    ``guards`` places that must not have changed; their expressions name objects of ``roots``.
    ``running`` writes the code that runs the program (`run_any`, `run_native`) on arrays if
    ``unwraps``, else on tensors as well; ``packed`` writes the code that makes the result (`pack`).
    If the structure ``out`` is given, the call takes an argument ``out`` as well: the arrays to
    write into (`run_into`).
    """
    code = _Code({**roots, "missed": missed})
    tensor = code.name(DenseTensor)
    total = len(positions) + sum(isinstance(s, int) for s in static)
    placed: list[str] = []
    if total:
        placed = _unpacked(code, "args", total)
    else:
        code.require("not args")
    by_name = {*keywords, *[s for s in static if isinstance(s, str)]}
    named = len(by_name) + (out is not None)
    code.require(f"len(kwargs) == {named}" if named else "not kwargs")
    if out is not None:
        _take(code, out, "kwargs['out']", code.targets)
    for where, value in static.items():
        given = placed[where] if isinstance(where, int) else f"kwargs[{where!r}]"
        held = code.variable(given)
        known = code.name(value)
        code.require(f"{held} is {known} or ({_equal(code, held, known, value)})")
    found: list[str] = []
    places = iter([i for i in range(total) if i not in static])
    for shape in positions:
        _take(code, shape, placed[next(places)], found)
    for name in sorted(keywords):
        _take(code, keywords[name], f"kwargs[{name!r}]", found)
    inputs: dict[str, str] = {}
    for variable, (name, kind, meta) in zip(found, leaves, strict=True):
        inputs[name] = variable
        if name not in order:
            like = f"{code.name(is_like)}({variable}, {code.name(kind)}, {code.name(meta)})"
            code.require(like)
            continue
        if kind in (bool, int, float, complex):
            made = f"{code.name(np.array)}({variable}, {code.name(meta.dtype.np)})"
            code.require(f"type({variable}) is {code.name(kind)}")
            code.lines.append(f"{variable} = {made}")
            continue
        if meta.rank == 0:  # a numpy scalar serves as a 0-D array
            scalar, array = code.name(np.generic), code.name(np.asarray)
            code.lines.append(
                f"if isinstance({variable}, {scalar}): {variable} = {array}({variable})"
            )
        if unwraps:
            code.lines.append(f"if type({variable}) is {tensor}: {variable} = {variable}.array")
    for name, place in captured.items():
        if name in order:
            held = inputs[name] = code.variable(place.expression)
            if unwraps:
                code.lines.append(f"if type({held}) is {tensor}: {held} = {held}.array")
    _watch(code, guards)
    code.guard()
    running(code, f"({''.join(inputs[n] + ', ' for n in order)})")
    code.lines.append(f"return {packed(code)}")
    return function_of("call(args, kwargs)", code.lines, code.names)


def _watch(code: _Code, guards: Sequence[Place]) -> None:
    """Lines that check whether places have changed."""
    for place in guards:
        held, known = code.variable(place.expression), code.name(place.value)
        quick = f"{held} is {known}" if place.version is None else "False"
        code.require(f"{quick} or {code.name(same)}({held}, {known}, {place.version})")


def reader(
    roots: Mapping[str, Any], places: Sequence[Place], guards: Sequence[Place]
) -> Callable[[], Any]:
    """The function that gives a tuple of what is at ``places``; None if a guard has changed."""
    code = _Code({**roots, "missed": None})
    found = [code.variable(place.expression) for place in places]
    _watch(code, guards)
    code.guard()
    code.lines.append(f"return ({''.join(f'{v}, ' for v in found)})")
    return function_of("read()", code.lines, code.names)


def builder(shape: Shape, count: int, order: Sequence[int]) -> Results:
    """The functions from ``count`` tensors to their tree; ``order`` as in `pack`."""
    head = f"({', '.join(f't{k}' for k in range(count))})"
    leaves = [f"t{k}" for k in order]
    code, listing = _Code(), _Code()
    built = _built(code, shape, iter(leaves))
    containers: list[tuple[type[Any], int]] = []
    names: list[str] = []
    _listed(listing, shape, iter(leaves), containers, names)
    listing.lines.append(f"return ({''.join(f'{n}, ' for n in names)})")
    return Results(
        function_of(f"build{head}", [f"return {built}"], code.names),
        function_of(f"listed{head}", listing.lines, listing.names),
        containers,
        [order.count(k) for k in range(count)],
    )


def _listed(
    code: _Code, shape: Shape, leaves: Any, found: list[tuple[type[Any], int]], names: list[str]
) -> str:
    """Like `_built`, with a variable for each container, parents first."""
    if shape is None or shape == LEAF:
        return _built(code, shape, leaves)
    kind, extra, shapes = shape
    at = len(names)
    names.append("")
    found.append((kind, len(shapes)))
    parts = iter([_listed(code, s, leaves, found, names) for s in shapes])
    whole = Node(kind, extra, (LEAF,) * len(shapes))
    names[at] = code.variable(_built(code, whole, parts))
    return names[at]


def run_any(code: _Code, arrays: str, run: Run) -> None:
    """Code that calls a function on the arrays."""
    code.lines.append(f"r = {code.name(run)}({arrays})")
    code.require("r is not None")


def run_native(code: _Code, arrays: str, program: NativeProgram) -> None:
    """Code that runs a native program; its results are tensors."""
    # A session serves one call at a time, so concurrent calls take different ones.
    code.lines += [
        f"try: s = {code.name(program.free.pop)}()",
        "except IndexError:",
        f"    try: s = {code.name(program.session)}()",
        "    except MemoryError: return missed",  # the generic call raises it
        f"a = {arrays}",
        "try:",
        "    r = s.tensors(*a)",
        f"    if r is None and (a := {code.name(rows)}(a)): r = s.tensors(*a)",
        f"finally: {code.name(program.free.append)}(s)",
    ]
    code.require("r is not None")


def run_into(code: _Code, arrays: str, program: NativeProgram, order: Sequence[int]) -> None:
    """Code that runs a program into the caller's arrays, which are in the ``order`` of leaves."""
    array = code.name(np.ndarray)
    code.require(" and ".join(f"type({t}) is {array}" for t in code.targets) or "True")
    placed = dict(zip(order, code.targets, strict=True))
    code.lines += [
        f"try: s = {code.name(program.free.pop)}()",
        f"except IndexError: s = {code.name(program.session)}()",
        f"a, r = {arrays}, ({''.join(f'{placed[i]}, ' for i in range(len(placed)))})",
        "try: ran = s.into is not None and not s.into(s.header_address, a, r)",
        f"finally: {code.name(program.free.append)}(s)",
    ]
    code.require("ran")


def rows(arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arrays or tensors, with contiguous copies of those that are not; None if all are.

    A transposed argument costs a copy: without it, the call would take the slow generic path.
    """
    plain = [a.array if type(a) is DenseTensor else a for a in arrays]
    apart = [
        type(a) is np.ndarray and not (a.flags.c_contiguous and a.flags.aligned) for a in plain
    ]
    if not any(apart):
        return None
    return tuple([np.array(a, order="C") if k else a for a, k in zip(plain, apart, strict=True)])


def is_like(leaf: Any, kind: type[Any], meta: TensorMeta) -> bool:
    """Whether an argument that the program does not read is unchanged."""
    if isinstance(leaf, DenseTensor):
        return leaf.meta == meta
    if not isinstance(leaf, np.ndarray):
        return type(leaf) is kind
    array = cast(Array, leaf)
    return meta_of(array.shape, array.dtype) == meta


def _take(code: _Code, shape: Shape, expression: str, found: list[str]) -> None:
    """Add lines that check the structure of an expression, and variables of its leaves."""
    if shape is None:
        code.require(f"{expression} is None")
        return
    held = expression if expression.isidentifier() else code.variable(expression)
    if shape == LEAF:
        found.append(held)
        return
    kind, extra, parts = shape
    if kind is dict:
        code.require(f"type({held}) is dict and len({held}) == {len(parts)}")
        for key, part in zip(extra, parts, strict=True):
            _take(code, part, f"{held}[{_key(code, key)}]", found)
        return
    if kind in (list, tuple) and parts:
        code.require(f"type({held}) is {kind.__name__}")
        for each, part in zip(_unpacked(code, held, len(parts)), parts, strict=True):
            _take(code, part, each, found)
        return
    if issubclass(kind, list | tuple):
        code.require(f"type({held}) is {code.name(kind)} and len({held}) == {len(parts)}")
        for index, part in enumerate(parts):
            _take(code, part, f"{held}[{index}]", found)
        return
    code.require(f"type({held}) is {code.name(kind)}")
    code.variables += 1
    both, other = f"v{code.variables}", f"x{code.variables}"
    code.lines.append(f"{both}, {other} = {code.name(CONTAINERS[kind].flatten)}({held})")
    code.require(_equal(code, other, code.name(extra), extra))
    listed = code.variable(f"list({both})")
    code.require(f"len({listed}) == {len(parts)}")
    for index, part in enumerate(parts):
        _take(code, part, f"{listed}[{index}]", found)


def _equal(code: _Code, held: str, known: str, value: Any) -> str:
    """The condition that a variable equals a known value, also in what `==` does not compare."""
    kinds = kinds_in(value)
    if kinds is kind_of(value):
        return f"type({held}) is type({known}) and {held} == {known}"
    return f"{held} == {known} and {code.name(kinds_in)}({held}) == {code.name(kinds)}"


def _key(code: _Code, key: Any) -> str:
    """Code for a key of a dict."""
    return repr(key) if type(key) in (str, int) else code.name(key)


def _unpacked(code: _Code, held: str, count: int) -> list[str]:
    """Variables for the elements of a list or tuple; the line raises if their number differs."""
    made = [f"v{code.variables + 1 + k}" for k in range(count)]
    code.variables += count
    code.lines.append(f"{', '.join(made)}, = {held}")
    return made


def packer(shape: Shape, metas: Sequence[TensorMeta], order: Sequence[int]) -> Callable[..., Any]:
    """The function from the arrays of a program to the tree of tensors that a call gives."""
    code = _Code()
    code.lines.append(f"return {pack(code, shape, metas, order)}")
    return function_of("pack(r)", code.lines, code.names)


def pack(code: _Code, shape: Shape, metas: Sequence[TensorMeta], order: Sequence[int]) -> str:
    """Add lines that make tensors of the arrays ``r``; returns the expression of their tree.

    ``order`` has the index of the array of each leaf.
    """
    # `__init__` would cost as much as the rest of a small call
    new, tensor = code.name(DenseTensor.__new__), code.name(DenseTensor)
    made: list[str] = []
    for i, m in zip(order, metas, strict=True):
        t = code.variable(f"{new}({tensor})")
        meta = code.name(meta_of(m.shape, m.dtype.np))
        code.lines.append(f"{t}.array = r[{i}]; {t}._meta = {meta}")
        made.append(t)
    return _built(code, shape, iter(made))


def rebuild(code: _Code, shape: Shape, count: int, order: Sequence[int]) -> str:
    """Like `pack`, where ``r`` are ``count`` tensors already."""
    code.lines.append(f"{''.join(f't{k}, ' for k in range(count))} = r" if count else "")
    return _built(code, shape, iter([f"t{k}" for k in order]))


def _built(code: _Code, shape: Shape, leaves: Any) -> str:
    """The expression of a tree, given an iterator over the expressions of its leaves."""
    if shape is None:
        return "None"
    if shape == LEAF:
        return next(leaves)
    kind, extra, shapes = shape
    parts = [_built(code, s, leaves) for s in shapes]
    if kind is dict:
        pairs = zip(extra, parts, strict=True)
        return "{" + ", ".join(f"{_key(code, k)}: {part}" for k, part in pairs) + "}"
    listed = "".join(f"{part}, " for part in parts)
    if kind is list:
        return f"[{listed}]"
    if kind is tuple:
        return f"({listed})"
    if issubclass(kind, tuple):
        return f"{code.name(kind)}({listed})"
    unflatten, known = code.name(CONTAINERS[kind].unflatten), code.name(extra)
    return f"{unflatten}({known}, [{listed}])"

"""Interprets a MapExpr with numpy: each statement over its whole iteration space at once.

Scalar ops are the reference rules of the op table, applied to arrays. The interpreter is the oracle
of the code generators, and runs kernels that have no native code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec.structs import replace

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.map_expr.guarded_nodes import needs
from pirkit.dialect.map_expr.kernel import MapExpr, Statement
from pirkit.dialect.map_expr.specialize import specialised
from pirkit.dialect.map_expr.tree import Apply, Choose, Fill, Load, Node, Position, walk
from pirkit.dialect.opdef import lookup, reference
from pirkit.index.expr import Expr, Floor, Iter, Read
from pirkit.index.index_maps import Guard, Index, space
from pirkit.runtime.lazy_numpy import Array, np


def run(kernel: MapExpr, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a kernel."""
    return run_known(specialised(kernel, [a.shape for a in inputs]), inputs)


def run_known(kernel: MapExpr, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a kernel with static sizes."""
    arrays: list[Array] = list(inputs)
    for statement in kernel.statements:
        arrays.append(_Evaluation(statement, arrays).run())
    return [arrays[len(inputs) + k] for k in kernel.outputs]


class _Evaluation:
    """Evaluates one statement; its iterators are arrays that broadcast over the space."""

    def __init__(self, statement: Statement, arrays: Sequence[Array]) -> None:
        self.statement = statement
        self.arrays = arrays
        outer = statement.meta.shape if statement.start is None else ()
        self.shape = (*outer, *statement.extents)
        iters = (*space(outer), *space(statement.extents, "r"))
        self.axis: dict[Iter, int] = {
            e.iter: axis for axis, e in enumerate(iters) if e.iter is not None
        }
        self.known: dict[int, Array] = {}
        self.needed: Array | None = None
        """The mask of iterations that need the current node; None for all (see guarded_nodes)."""

    def run(self) -> Array:
        statement = self.statement
        with np.errstate(all="ignore"):
            found = self.elements()
            if statement.start is not None:
                found = self.written(found, statement.start)
            elif statement.reduction:
                found = self.reduced(found)
        found = np.ascontiguousarray(found).reshape(statement.meta.shape)
        return found.astype(statement.meta.dtype.np, copy=False)

    def elements(self) -> Array:
        """The body at each point of the space; an empty space reads nothing."""
        if 0 in self.shape:
            return np.empty(self.shape, self.statement.meta.dtype.np)
        clipped = _under_choices(self.statement.body)
        needed = needs(self.statement.body, self)
        for node in walk(self.statement.body):
            self.clips = id(node) in clipped
            self.needed = needed.get(id(node))
            self.known[id(node)] = self.node(node)
        return np.broadcast_to(self.known[id(self.statement.body)], self.shape)

    def written(self, found: Array, start: Node) -> Array:
        """The result of a scatter: elements are applied in the order of the space."""
        statement = self.statement
        plain = replace(statement, body=start, reduction="", extents=(), start=None, index=())
        before = _Evaluation(plain, self.arrays).run()
        if 0 in self.shape:
            return before
        # indices of the writes must be in bounds everywhere, unlike loads under a choice
        self.clips, self.needed = False, None
        index = [np.broadcast_to(self.index(e), self.shape) for e in statement.index]
        places = np.ravel_multi_index(index, before.shape).reshape(-1)
        values = found.reshape(-1).astype(before.dtype, copy=False)
        given = {"axis": 0, "include_self": True, **statement.attrs}
        put = reference.of(lookup(statement.reduction))
        return np.asarray(put(before.reshape(-1), places, values, **given))

    def reduced(self, found: Array) -> Array:
        statement = self.statement
        rank = len(statement.meta.shape)
        definition = lookup(statement.reduction)
        names = {s.name for s in (*definition.operands, *definition.attrs)}
        given: dict[str, Any] = {"keepdim": False, "reduce_all": False}
        given |= {"keepdims": False, "flatten": False, **statement.attrs}
        last = definition.attr_kinds.get("axis") == "i64"
        given["axis"] = rank if last else tuple(range(rank, len(self.shape)))
        held = {name: value for name, value in given.items() if name in names}
        return np.asarray(reference.of(definition)(found, **held))

    def node(self, node: Node) -> Array:
        match node:
            case Load():
                return self.load(node)
            case Fill():
                return np.asarray(node.value).astype(node.dtype.np)
            case Position():
                return self.index(node.index).astype(node.dtype.np)
            case Choose():
                holds = self.guards(node.guards)
                return np.where(holds, self.known[id(node.yes)], self.known[id(node.no)])
            case Apply():
                args = [self.known[id(a)] for a in node.args]
                rule = reference.of(lookup(node.op))
                if self.needed is None:
                    found = rule(*args, **node.attrs)
                    return np.asarray(found).astype(node.dtype.np, copy=False)
                args = np.broadcast_arrays(*args, self.needed)
                found = np.zeros(args[-1].shape, node.dtype.np)
                found[args[-1]] = rule(*(a[args[-1]] for a in args[:-1]), **node.attrs)
                return found

    def holds(self, choice: Choose, needed: Array | None) -> Array:
        self.needed, self.clips = needed, needed is not None
        return self.guards(choice.guards)

    def both(self, first: Array | None, second: Array) -> Array:
        return second if first is None else first & second

    def either(self, first: Array, second: Array) -> Array:
        return first | second

    def negated(self, condition: Array) -> Array:
        return ~condition

    def guards(self, guards: tuple[Guard, ...]) -> Array:
        holds: Array = np.asarray(True)
        for guard in guards:
            value = self.index(guard.value)
            holds = holds & (value >= 0) & (value < guard.bound)
        return holds

    def load(self, load: Load) -> Array:
        array = self.arrays[load.source]
        view = self.view(array, load.index)
        return view if view is not None else self.picked(array, load.index)

    def picked(self, array: Array, index: Index) -> Array:
        """A gather. Indices of nodes under a choice are clipped, as they may be out of bounds."""
        found = [self.index(e) for e in index]
        if self.clips:
            ends = [max(n - 1, 0) for n in array.shape]
            found = [np.clip(e, 0, n) for e, n in zip(found, ends, strict=True)]
        return array[tuple(found)]

    def view(self, array: Array, index: Index) -> Array | None:
        """The load as a strided view; None if an axis is indexed by more than one iterator."""
        slices: list[Any] = []
        order: list[int] = []
        for e, n in zip(index, array.shape, strict=True):
            low, high = e.bounds
            if low < 0 or high >= n or len(e.terms) > 1:
                return None
            if not e.terms:
                slices.append(e.constant)
                continue
            atom, step = e.terms[0]
            if not isinstance(atom, Iter) or self.axis[atom] in order or atom.extent == 0:
                return None
            order.append(self.axis[atom])
            end = e.constant + step * atom.extent
            slices.append(slice(e.constant, end if end >= 0 else None, step))
        found = array[tuple(slices)]
        found = found.transpose(np.argsort(order)) if order else found
        expand = [slice(None) if axis in order else None for axis in range(len(self.shape))]
        return found[tuple(expand)]

    def index(self, expr: Expr) -> Array:
        total: Array = np.asarray(expr.constant, dtype=np.int64)
        for atom, k in expr.terms:
            total = total + k * self.atom(atom)
        return total

    def atom(self, atom: Any) -> Array:
        if isinstance(atom, Iter):
            wide = [1] * len(self.shape)
            wide[self.axis[atom]] = atom.extent
            return np.arange(atom.extent, dtype=np.int64).reshape(wide)
        if isinstance(atom, Floor):
            return self.index(atom.inner) // atom.by
        read = cast(Read, atom)
        found = self.picked(self.arrays[read.source], read.index).astype(np.int64)
        if read.from_end:
            found = np.where(found < 0, found + read.extent, found)
        wrong = (found < 0) | (found >= read.extent)
        if self.needed is not None:
            wrong = wrong & self.needed
        if wrong.any():
            raise ConstraintError("bounds", f"an index does not lie in [0, {read.extent})")
        return np.clip(found, 0, read.extent - 1) if self.clips else found


@lru_cache(maxsize=512)
def _under_choices(root: Node) -> frozenset[int]:
    """The nodes under a choice, whose loads may be out of bounds where they are not needed."""
    found: set[int] = set()
    for node in walk(root):
        if isinstance(node, Choose):
            found |= {id(n) for side in (node.yes, node.no) for n in walk(side)}
    return frozenset(found)

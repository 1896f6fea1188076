"""Loops of converted code: Python's, or a `pd_op.while` where a tensor decides.

A loop runs as Python until its condition is a traced value: each iteration before that is recorded
by itself, and the rest becomes one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, cast

from pirkit.dialect.build import Value
from pirkit.frontend import tree
from pirkit.frontend.bodies import Body
from pirkit.frontend.control_flow import TypesDifferError, lifted, narrowed, truth, typed, while_op
from pirkit.frontend.static.branches import branch, check_allowed, shown
from pirkit.frontend.static.decided import Deciding
from pirkit.frontend.static.iterables import TracedRange, TracedRows, rows_of
from pirkit.frontend.static.jumps import PREFIX
from pirkit.frontend.static.operators import both
from pirkit.frontend.static.sites import Site
from pirkit.frontend.static.variables import UNSET, State, Variables, is_tensor, private
from pirkit.frontend.tracing import Recorder
from pirkit.runtime.meta import TensorMeta

Block = Callable[..., Any]
COUNTER = f"{PREFIX}counter"
"""The variable with the index of a loop over rows."""


def loop(site: Site, test: Block, body: Block, tell: Block) -> None:
    """``while test(): body()``; ``tell`` closes over the variables (`Variables`).

    Where a tensor decides, raises TraceError (PK0708) for a variable that changes its type, and
    (PK0709) if no tensor may decide there.
    """
    while True:
        more = test()
        if isinstance(more, Value):
            _Loop(site, Variables(site, tell), more, test, body).record()
            return
        if not more:
            return
        body()


def iterate(site: Site, items: Any, body: Block, go: Block | None, tell: Block) -> None:
    """``for item in items: body(item)`` while ``go()`` holds, if there is a ``go``.

    Over a tensor, and over a range of traced bounds, it is one recorded loop. Over anything else
    Python iterates; once a tensor decides whether to go on, each further iteration is a branch.
    Raises TraceError as `loop` does, and (PK0709) for such a tensor over an iterator.
    """
    rows = rows_of(items)
    if rows is not None:
        _over_rows(site, rows, body, go, Variables(site, tell))
        return
    for item in cast("Iterable[Any]", items):
        more: Any = True if go is None else go()
        if isinstance(more, Value):
            if not isinstance(items, Sized):
                raise site.refusal(
                    "a tensor ends a loop over an iterator, which may have no end while it is"
                    " traced",
                    "loop over a list, a `range` or a tensor, or write a `while`",
                )
            branch(site, more, lambda item=item: body(item), _nothing, tell)
            continue
        if not more:
            return
        body(item)


def _nothing() -> None:
    return None


def _over_rows(
    site: Site, rows: TracedRange | TracedRows, body: Block, go: Block | None, variables: Variables
) -> None:
    if isinstance(rows, TracedRows) and not rows.count:
        return
    at: list[Any] = [rows.start]

    def test() -> Any:
        more = rows.more(at[0])
        return more if go is None else both(go(), lambda: more, True)

    def iteration() -> None:
        index = at[0]
        body(rows.item(index))
        at[0] = index + rows.step

    more = test()
    if not isinstance(more, Value):  # the flags say already that there is no iteration
        return
    made = _Loop(site, variables, more, test, iteration)
    made.counter = at
    made.record()


class _Loop:
    """A loop that is recorded."""

    def __init__(
        self, site: Site, variables: Variables, more: Value, test: Block, body: Block
    ) -> None:
        self.site = site
        self.variables = variables
        self.more = more
        self.test = test
        self.body = body
        self.counter: list[Any] | None = None
        self.recorder = cast(Recorder, more.b).innermost
        self.fixed: State = {}
        """Variables that are no tensors, which the loop may not change."""

    def record(self) -> None:
        """Record it, and set the variables to what they are afterwards."""
        check_allowed(self.site)
        truth(self.recorder, self.more)
        before = self.variables.read()
        try:
            found = self._recorded(before)
        except BaseException:
            self.variables.write(before)
            raise
        self.variables.write({n: v for n, v in found.items() if n != COUNTER})

    def _recorded(self, before: State) -> State:
        site, b = self.site, self.recorder
        live = site.needed[0]
        # Tensors and numbers are the state of the loop; other Python values have to stay fixed.
        state: State = {}
        for name, value in before.items():
            if value is UNSET:
                if name in live and not name.startswith(PREFIX):
                    raise site.wrong(
                        f"`{name}` has no value before the loop, and is read"
                        f" {'after it' if name in site.after else 'in it'}",
                        f"give `{name}` a value before the loop, of the type that it gets inside",
                        name,
                    )
            elif name in live or name in site.captured or name in site.mutated:
                kept = state if all(map(is_tensor, tree.leaves(value))) else self.fixed
                kept[name] = value
        if self.counter is not None:
            state[COUNTER] = self.counter[0]
        init = {n: tree.mapped(lambda v: lifted(b, v), value) for n, value in state.items()}
        # What is read and still unset is of converted code, such as the returned value.
        ours = [n for n, v in before.items() if v is UNSET and n in live]
        for name, value in (self._probed(init, ours) if ours else {}).items():
            init[name] = value
        structure = {n: tree.flatten(v)[1] for n, v in init.items()}
        owners = [n for n in sorted(init) for _ in tree.leaves(init[n])]
        labels = [p for n in sorted(init) for p in tree.paths(structure[n], n)]

        def iteration(given: State) -> State:
            after = self._iteration(given)
            for name, shape in structure.items():
                self._check_structure(name, shape, after[name])
            return {n: after[n] for n in init}

        def differ(i: int, begun: TensorMeta, ended: TensorMeta) -> Exception:
            label = site.what if labels[i].startswith(PREFIX) else labels[i]
            return site.differ(
                owners[i],
                ended,
                f"`{label}` begins as {begun} before the loop, an iteration makes it {ended}",
                "keep shape and element type: begin with a tensor of that type, or use `astype`",
            )

        for _ in range(len(labels) + 1):
            try:
                return {**self.fixed, **while_op(b, self._test, iteration, init, differ)}
            except TypesDifferError as error:
                # A number has no element type of its own: it takes the one that it is to have.
                numbers = (
                    {error.name} if error.name else {n for n, v in init.items() if _is_float(v)}
                )
                changed = {
                    n: narrowed(b, init[n], error.meta.dtype)
                    for n in numbers & init.keys()
                    if isinstance(init[n], Value) and init[n].weak
                }
                if error.meta.shape or all(init[n].meta == v.meta for n, v in changed.items()):
                    raise
                init |= changed
        raise AssertionError("each number is converted once")

    def _set(self, state: State) -> None:
        if self.counter is not None:
            self.counter[0] = state[COUNTER]
        b = self.recorder.innermost
        own = {n: v for n, v in state.items() if n != COUNTER}
        self.variables.write(private({**self.fixed, **own}, self.site, b.value))

    def _test(self, state: State) -> Any:
        self._set(state)
        return self.test()

    def _iteration(self, state: State) -> State:
        self._set(state)
        with Deciding():
            self.body()
        after = self.variables.read()
        for name, value in self.fixed.items():
            if not _is_same(after[name], value):
                raise self.site.wrong(
                    f"`{name}` changes from {shown(value)} to {shown(after[name])} in a loop"
                    " that a tensor decides",
                    "keep it as it is in the loop, or let it be a tensor or a number from the"
                    " start",
                    name,
                )
        if self.counter is not None:
            after[COUNTER] = self.counter[0]
        return after

    def _check_structure(self, name: str, shape: tree.Shape, value: Any) -> None:
        found = UNSET if value is UNSET else tree.flatten(value)[1]
        if found == shape:
            return
        label = "what the function returns" if name.startswith(PREFIX) else f"`{name}`"
        raise self.site.wrong(
            f"{label} changes from {_kind(shape)} to {_kind(found)} in a loop that a tensor"
            " decides",
            "keep its structure from the start; `pirkit.scan` collects results of iterations, and a"
            " loop over `list(x)` or a Python `range` is recorded iteration by iteration",
            *([] if name.startswith(PREFIX) else [name]),
        )

    def _probed(self, init: State, ours: list[str]) -> State:
        """Zeros for the variables of our own that an iteration sets, such as a returned value."""
        b = self.recorder
        probe = Body(b)
        arguments = {
            n: probe.arguments(tree.flatten(v)[1], [x.meta for x in tree.leaves(v)])
            for n, v in init.items()
        }
        after = probe.record(self._iteration, arguments)
        made: State = {}
        for name in ours:
            value = after[name]
            if value is UNSET:
                continue
            if not all(map(is_tensor, tree.leaves(value))):
                raise self.site.wrong(
                    f"the function returns {shown(value)} from a loop that a tensor decides",
                    "return tensors, numbers, and trees of them",
                )
            made[name] = tree.mapped(lambda v: self._zero(typed(probe, v)), value)
        probe.recorder.is_dynamic = False
        return made

    def _zero(self, like: Value) -> Value:
        return self.recorder.const(0, like.dtype, like.shape)


def _is_same(now: Any, then: Any) -> bool:
    """Whether an iteration has left a fixed variable as it was."""
    if now is then:
        return True
    if now is UNSET:
        return False
    (ours, shape), (theirs, other) = tree.flatten(now), tree.flatten(then)
    if shape != other:
        return False
    return all(x is y or _is_equal(x, y) for x, y in zip(ours, theirs, strict=True))


def _is_float(value: Any) -> bool:
    return isinstance(value, Value) and value.dtype.is_float


def _is_equal(x: Any, y: Any) -> bool:
    return isinstance(x, str | bytes | int | float) and type(x) is type(y) and x == y


def _kind(shape: Any) -> str:
    if shape is UNSET:
        return "no value"
    if shape is None:
        return "None"
    if shape == tree.LEAF:
        return "one tensor"
    return f"a {shape.kind.__name__} of {len(shape.parts)}"

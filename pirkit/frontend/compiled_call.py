"""One compiled signature of a function: from the arguments of a call to its results.

A call takes one of three ways, the fastest first: a native function that unpacks the arguments
itself (`Compiled.native_call`), Python generated for their structure (`Compiled.quick`), and the
general `Compiled.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Final

import numpy as np

from pirkit.diag.once import cached_property
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.frontend import tree
from pirkit.frontend.argument_steps import arguments_of
from pirkit.frontend.compile import compile
from pirkit.frontend.generated_code import value_of
from pirkit.frontend.held_constants import write_constants
from pirkit.frontend.marshalling import (
    Call,
    Ways,
    builder,
    caller,
    pack,
    packer,
    rebuild,
    rows,
    run_any,
    run_into,
    run_native,
)
from pirkit.frontend.surroundings import MOST_BYTES, Place, Surroundings, kind_of
from pirkit.frontend.tracing import Traced, argument, bound_input, leaf_meta
from pirkit.frontend.user_line import wrong_call
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import new_array
from pirkit.runtime.native.object_layout import array_slot
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.tree_call import TreeCall, tree_call
from pirkit.runtime.tensor.buffer import address_of, is_numpy
from pirkit.runtime.tensor.dense import DenseTensor

Array = np.ndarray[Any, Any]

_WORK: Final[Any] = 1000
"""How far to search for an element that two arrays share; beyond it, they count as sharing one."""


@dataclass(eq=False)
class Compiled:
    """A program with the conversions of arguments to its inputs and of its outputs to results.

    ``order`` names the inputs in the program's order, ``captured`` those that are read from the
    function's surroundings, ``held`` arrays that the function made while it was traced.
    """

    whole: Executable
    """The compiled program; its ``native`` is None if it is not one native call."""
    pack: Callable[..., Any]
    order: tuple[str, ...]
    captured: Mapping[str, Place]
    held: Mapping[str, Array]
    surroundings: Surroundings
    metas: tuple[TensorMeta, ...]
    """The metas of the result's leaves."""
    shape: tree.Shape
    outputs: tuple[int, ...]
    """For each leaf the number of the program's result."""
    given: Mapping[int, int]
    """Results of the native call that may lie in the memory of a donated input: the number of the
    input by that of the result."""
    ways: Ways
    """The description of arguments that `marshalling.caller` takes."""
    missed: Any
    """What a fast path returns, without running anything, for a call that it does not serve."""

    @cached_property
    def quick(self) -> Call:
        """The fast path for a call of this signature; for another call it returns ``missed``."""
        native = self.whole.native
        if native is None or self.given:
            packed = partial(pack, shape=self.shape, metas=self.metas, order=self.outputs)
            running = partial(run_any, run=self._attempt)
            return caller(*self.ways, packed, running, True, self.missed)
        count = len(native.results)
        rebuilt = partial(rebuild, shape=self.shape, count=count, order=self.outputs)
        running = partial(run_native, program=native)
        return caller(*self.ways, rebuilt, running, False, self.missed)

    @cached_property
    def quick_into(self) -> Call:
        """The fast path for a call with ``out``; it misses also if a result had to be copied."""
        native, order = self.whole.native, self.outputs
        if native is None or sorted(order) != [*range(len(native.results))]:
            return lambda args, kwargs: self.missed
        running = partial(run_into, program=native, order=order)
        unwraps = not array_slot()
        return caller(
            *self.ways, lambda code: "kwargs['out']", running, unwraps, self.missed, self.shape
        )

    def native_call(self, names: tuple[str, ...], otherwise: TreeCall) -> TreeCall | None:
        """A native function for calls whose keyword arguments have these names, in order.

        It passes every call that it does not serve to ``otherwise``. None if native code cannot
        unpack the arguments.
        """
        native = self.whole.native
        arguments = None if native is None or self.given else arguments_of(self.ways, names)
        if names not in self._native and native is not None and arguments is not None:
            built = builder(self.shape, len(native.results), self.outputs)
            self._native[names] = tree_call(native.session(), arguments, built, otherwise)
        return self._native.get(names)

    @cached_property
    def _native(self) -> dict[tuple[str, ...], TreeCall | None]:
        return {}

    def change(self) -> str | None:
        """Why the program is out of date; None if the function's surroundings have not changed."""
        found = self.surroundings.change(self._read_anew)
        if found is not None:
            return found
        for name, place in self.captured.items():
            then, now = self._kinds[name], leaf_meta(self._now(place))
            if then != now:
                return f"`{place.label}`: {then} -> {now}"
        return None

    def _now(self, place: Place) -> Any:
        return value_of(place.expression, self.surroundings.roots)

    @cached_property
    def _kinds(self) -> dict[str, TensorMeta]:
        """The metas of captured inputs at compilation."""
        return {name: leaf_meta(place.value) for name, place in self.captured.items()}

    @cached_property
    def _read_anew(self) -> frozenset[str]:
        """The expressions of captured arrays, which are read at each call: they may change."""
        return frozenset(p.expression for p in self.captured.values())

    def _attempt(self, arrays: tuple[Array, ...]) -> Sequence[Array] | None:
        """The results for arrays that need no conversion; None for others."""
        native = self.whole.native
        if native is None:
            return self._executed(arrays) if self._fits(arrays) else None
        found = self._run(native, arrays)
        copied = rows(arrays) if found is None else None  # it refuses strided arrays
        return self._run(native, copied) if copied else found

    def _run(self, native: NativeProgram, arrays: tuple[Array, ...]) -> Sequence[Array] | None:
        return native.attempt(arrays, self._donating(arrays) if self.given else None)

    def run(self, leaves: Sequence[Array], out: Any = None) -> Any:
        """Run the program on the array of each leaf; returns the tree of its results.

        They are in new memory, or in the arrays of the tree ``out``. Raises ArgumentError (PK0701)
        for an ``out`` that does not fit.
        """
        arrays = self._arrays(leaves)
        native = self.whole.native
        if out is not None:
            return self._into(arrays, out)
        if native is None:
            return self.pack(self._executed(arrays))
        found = self._attempt(arrays)
        return self.pack(native(*arrays) if found is None else found)

    def _arrays(self, leaves: Sequence[Array]) -> tuple[Array, ...]:
        """All inputs in the program's order: arguments, captured arrays and held ones."""
        by_name: dict[str, Array] = {f"x{i}": a for i, a in enumerate(leaves)} | dict(self.held)
        for name, place in self.captured.items():
            by_name[name] = bound_input(self._now(place))
        return tuple([by_name[n] for n in self.order])

    def _fits(self, arrays: tuple[Array, ...]) -> bool:
        """Whether arrays need no conversion by the executable."""
        pairs = zip(arrays, self._inputs, strict=True)
        return all(is_numpy(a) and a.dtype == d and a.shape == s for a, (d, s) in pairs)

    @cached_property
    def _inputs(self) -> list[tuple[Any, tuple[int, ...]]]:
        ports = {p.name: p.meta for p in self.whole.plan.inputs}
        metas: list[Any] = [ports[n] for n in self.order]
        return [(m.dtype.np, m.shape) for m in metas]

    def _executed(self, arrays: Sequence[Array]) -> list[Array]:
        found = self.whole.run(dict(zip(self.order, arrays, strict=True)))
        return [found[f"y{i}"] for i in range(len(self.metas))]

    def _donating(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Memory for results of a native call: that of donated inputs if nothing else shares it."""
        native = self.whole.native
        assert native is not None
        alone = _alone(arrays)
        return tuple(
            [
                arrays[i]
                if (i := self.given.get(k, -1)) >= 0 and arrays[i].flags.writeable and alone[i]
                else new_array(meta)
                for k, meta in enumerate(native.results)
            ]
        )

    # --- into memory of the caller ---

    def _into(self, arrays: tuple[Array, ...], out: Any) -> Any:
        """Compute into the arrays of ``out`` directly if that is possible, or copy results there.

        It is possible for a native call whose results are all wanted, once each, if no array of
        ``out`` shares memory with an input.
        """
        leaves, shape = tree.flatten(out)
        if shape != self.shape:
            raise wrong_call("`out` has another structure than the result", "take a tree like it")
        targets = [leaf.mutable() if isinstance(leaf, DenseTensor) else leaf for leaf in leaves]
        for name, target, meta in zip(tree.paths(shape, "out"), targets, self.metas, strict=True):
            is_array = is_numpy(target) and target.flags.writeable
            if not is_array or target.shape != meta.shape or target.dtype != meta.dtype.np:
                raise wrong_call(f"`{name}` is no writable array of {meta}", "take `numpy.empty`")
        if any(np.may_share_memory(a, b, _WORK) for a, b in combinations(targets, 2)):
            raise wrong_call(
                "two arrays of `out` lie in the same memory", "take one for each result"
            )
        if any(map(_overlaps_itself, targets)):
            raise wrong_call("elements of an array of `out` lie in the same memory", "take a copy")
        native = self.whole.native
        shared = any(np.may_share_memory(t, a) for t in targets for a in arrays)
        if native is not None and not shared and sorted(self.outputs) == [*range(len(targets))]:
            placed = dict(zip(self.outputs, targets, strict=True))
            given = rows(arrays) or arrays
            if native.attempt(given, tuple([placed[i] for i in range(len(placed))])) is not None:
                return out
        found = tree.leaves(self.pack(native(*arrays) if native else self._executed(arrays)))
        for target, made in zip(targets, found, strict=True):
            np.copyto(target, made.array)
        return out


def _overlaps_itself(array: Array) -> bool:
    """Whether elements of an array lie in the same memory, or whether that is not plain.

    Slices and transposes have axes of which each steps over all that is inside it.
    """
    reach = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, size in sorted(axes) if array.size else ():
        if size > 1 and stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def _alone(arrays: Sequence[Array]) -> list[bool]:
    """For each of some contiguous arrays whether it shares memory with no other one.

    Addresses are compared: arrays of the same memory may have different ``base``, as torch's do.
    """
    alone = [True] * len(arrays)
    if all([a.base is None for a in arrays]) and len({*map(id, arrays)}) == len(arrays):
        return alone
    reached = last = 0
    for low, high, i in sorted(
        (low := address_of(a), low + a.nbytes, i) for i, a in enumerate(arrays)
    ):
        if low < reached:
            alone[i] = alone[last] = False
        if high > reached:
            reached, last = high, i
    return alone


def compiled_call(
    function: Callable[..., Any],
    traced: Traced,
    positional: Sequence[Any],
    by_name: Mapping[str, Any],
    static: Mapping[int | str, Any],
    donated: Sequence[int],
    fast_math: bool | None,
    missed: Any,
) -> Compiled:
    """Compile a traced program, with the conversions of its arguments and results.

    ``positional`` and ``by_name`` are the arguments with which ``function`` was traced, without the
    ``static`` ones, which are by position or name. ``donated`` are numbers of leaves whose memory
    may hold results; ``fast_math`` is that of `jit`; ``missed`` that of `Compiled`.
    """
    surroundings = Surroundings.of(function, most_bytes=MOST_BYTES)
    found = {id(p.value): p for p in surroundings.places if p.is_array}
    captured = {n: found[id(a)] for n, a in traced.captured.items() if id(a) in found}
    held = {
        n: np.array(bound_input(a), order="C")
        for n, a in traced.captured.items()
        if n not in captured
    }
    write_constants(traced.program.main, held)
    whole = compile(traced.program, batch_lanes=True, fast_math=fast_math)
    leaves, shape = tree.flatten((tuple(positional), dict(by_name)))
    names = [f"x{i}" for i in range(len(leaves))]
    metas = {f"y{i}": m for i, m in enumerate(_result_metas(traced))}
    native = whole.native
    inputs, results = native.names if native else (_inputs(whole), tuple(metas))
    surroundings.roots["held"] = held
    read = {p.expression for p in captured.values()}
    guards = [p for p in surroundings.places if not {p.expression, p.array} & read]
    kept = {n: Place(f"held[{n!r}]", n, a) for n, a in held.items()}
    ways: Ways = (
        shape.parts[0].parts,
        dict(zip(shape.parts[1].extra, shape.parts[1].parts, strict=True)),
        [
            (n, kind_of(leaf), leaf_meta(argument(leaf)))
            for n, leaf in zip(names, leaves, strict=True)
        ],
        static,
        inputs,
        surroundings.roots,
        {**captured, **kept},
        guards,
    )
    outputs = tuple([results.index(n) for n in metas])
    of_leaves = tuple(metas.values())
    given: dict[int, int] = {}
    if native is not None:
        wanted = {f"x{i}" for i in donated}
        for result, operand in sorted(native.in_place):
            is_free = result not in given and operand not in given.values()
            fits = native.results[result] == native.inputs[operand]
            if is_free and fits and inputs[operand] in wanted:
                given[result] = operand
    return Compiled(
        whole, packer(traced.shape, of_leaves, outputs), inputs, captured, held, surroundings,
        of_leaves, traced.shape, outputs, given, ways, missed,
    )  # fmt: skip


def _inputs(whole: Executable) -> tuple[str, ...]:
    return tuple([p.name for p in whole.plan.inputs])


def _result_metas(traced: Traced) -> list[TensorMeta]:
    block = traced.program.main.block
    outputs = [op for op in block.ops if isinstance(op, PirOp) and op.name == "pir.shadow_output"]
    found = {op.attribute("output_name"): meta_of(op.operands[0].type) for op in outputs}
    return [_tensor(found[f"y{i}"]) for i in range(len(found))]


def _tensor(meta: Any) -> TensorMeta:
    assert isinstance(meta, TensorMeta)
    return meta

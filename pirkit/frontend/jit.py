"""``jit``: functions that are compiled when they are called, once for each signature.

`Jitted` sorts the arguments of a call and finds or compiles its program; `compiled_call` holds one
compiled program with the conversions of arguments and results. Repeated calls of one signature take
fast paths that skip both.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial, update_wrapper
from threading import RLock
from types import MethodType
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.diag.forks import renewed
from pirkit.diag.gc_pause import imported
from pirkit.diag.unheard_log import log
from pirkit.dialect.build import Value
from pirkit.dialect.program import Program
from pirkit.frontend import tree
from pirkit.frontend.compiled_call import Compiled, compiled_call
from pirkit.frontend.function_programs import parameter_names
from pirkit.frontend.marshalling import Call
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.frontend.python_calls import check_call, numbers_of, parameters_of
from pirkit.frontend.recording import OuterValueError
from pirkit.frontend.surroundings import kind_of, kinds_in
from pirkit.frontend.tracing import Recorder, Traced, argument, bound_input, leaf_meta, trace
from pirkit.frontend.transforms import lifted_in
from pirkit.frontend.unrolled_loops import has_unrolled_loops
from pirkit.frontend.user_line import user_span
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.tensor.dense import DenseTensor

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
Names = str | Sequence[str]
Places = int | Sequence[int]
"""Numbers of arguments, as ``static_argnums`` has them; negative ones count from the end of the
signature, or of the call if the signature has ``*args``."""

VERSIONS: Final = 8
"""Programs cached for one signature, which differ in the values that the function captures."""


def jit(
    function: Function | None = None,
    *,
    static_argnums: Places = (),
    static_argnames: Names = (),
    donate_argnums: Places = (),
    donate_argnames: Names = (),
    fast_math: bool | None = None,
) -> Any:
    """A function that is traced and compiled once for each signature; also a decorator.

    A signature is the structure of the arguments (trees of tensors, arrays and numbers), the shapes
    and element types of the leaves, and the values of static arguments, which have to be hashable.
    Arrays that the function reads from closures, globals and attributes are read at each call; if
    anything else there changes, the function is compiled again. ``explain()`` lists what was
    compiled and why. Each call returns new tensors. With ``out=``, a tree of arrays like the
    result, it writes into these. Results may lie in the memory of donated arguments, which the
    caller must not use again.

    Small networks and their derivatives compute one batch row in each vector lane. ``fast_math``
    may also factor common operands out of sums, which may change NaN, infinities and overflow (see
    `pirkit.compile`); None takes what ``pirkit.config.fast_math`` says at compilation.

    While the function is traced, values are unknown: ``if v`` raises TraceError (PK0706) with the
    line and the remedy. A call inside another traced function is recorded there. Raises
    ArgumentError (PK0701) for arguments that are no tensors, and for static ones that are not
    hashable.
    """
    options = (static_argnums, static_argnames, donate_argnums, donate_argnames, fast_math)
    if function is None:
        return partial(_jitted, options)
    return _jitted(options, function)


class _Call(Struct, frozen=True):
    """The arguments of one call: the traced ones by position and by name, and the static ones."""

    positional: tuple[Any, ...]
    by_name: dict[str, Any]
    static: dict[int | str, Any]
    labels: list[str]
    """The names of the arguments in ``positional``, for messages."""

    def whole(self, positional: Sequence[Any], by_name: Mapping[str, Any]) -> tuple[Any, Any]:
        """The arguments of the function by position and by name, static ones included."""
        given = iter(positional)
        count = len(positional) + sum(isinstance(k, int) for k in self.static)
        args = [self.static[i] if i in self.static else next(given) for i in range(count)]
        named = {k: v for k, v in self.static.items() if isinstance(k, str)}
        return args, {**by_name, **named}


class _Signature(Struct, frozen=True):
    """The key of a program, and what `explain` shows of it."""

    shape: tree.Shape
    metas: tuple[TensorMeta, ...]
    numbers: tuple[type[Any] | None, ...]
    """Python types of leaves that are numbers."""
    static: tuple[tuple[Any, Any, Any], ...]
    """Static arguments: name or number, what `kinds_in` says, value."""
    fixed: Any
    """What `kinds_in` says of the static data in ``shape``."""


def _jitted(options: Any, function: Function) -> Jitted:
    made = Jitted(function, *options)
    made.options = options
    return made


class Jitted:
    """A function that `jit` compiles."""

    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Function
    """In a slot, so that Python calls a native function without one of Python around it."""

    options: tuple[Any, ...]
    """The options of `jit`, for pickled copies."""

    def __reduce__(self) -> Any:
        """Pickle by name, as functions are, or else by the function and the options of `jit`.

        A copy compiles again, or reads from the compile cache, when it is called.
        """
        held: Any = sys.modules.get(self.__module__)
        name: str = getattr(self, "__qualname__", "")
        for part in name.split("."):
            held = getattr(held, part, None)
        return name if held is self else self._by_function()

    def _by_function(self) -> tuple[Any, ...]:
        return _jitted, (self.options, self.function)

    def __deepcopy__(self, memo: Any) -> Jitted:
        """The same object, as for a function."""
        return self

    def __init__(
        self,
        function: Function,
        static: Places,
        static_names: Names,
        donate: Places,
        given: Names,
        fast_math: bool | None,
    ) -> None:
        if not callable(function):
            raise ArgumentError(
                f"`jit` compiles a function, not a {type(function).__name__}",
                help="write `@pirkit.jit`, `pirkit.jit(f)` or `@pirkit.jit(static_argnums=1)`",
            )  # fmt: skip
        update_wrapper(self, function, updated=())
        self.function = function
        self._static = _resolved(function, static, static_names)
        self._donated = _resolved(function, donate, given)
        self._fast_math = fast_math
        self._makes_out = "out" not in parameters_of(function)
        self._compiled: dict[Hashable, list[Compiled]] = {}
        self._signatures: list[tuple[_Signature, list[str]]] = []
        self._reasons: list[str] = []
        self._lock = renewed(RLock())
        self.__call__ = self._call
        self._called_once: Callable[[], Callable[..., Any] | None] | None = None
        """Makes the native function for calls like the last one. The next call does that, as
        compiling code that unpacks arguments does not pay for functions that are called once."""
        self._quick: Call = _missed
        self._quick_into: Call = _missed

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no native function serves: by a fast path in Python, or else in general."""
        make, self._called_once = self._called_once, None
        if make is not None:
            native = make()
            if native is not None:
                self.__call__ = native
                return native(*args, **kwargs)
        found = self._quick(args, kwargs)
        if found is not _MISSED:
            return found
        if "out" in kwargs:
            found = self._quick_into(args, kwargs)
        return found if found is not _MISSED else self._slowly(args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A bound method: the instance is the first argument, which is a tree, or static."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {getattr(self.function, '__name__', self.function)!s}>"

    def explain(self) -> str:
        """A line for each compiled program, with the reason why it was compiled."""
        return "\n".join(self._reasons) or "nothing is compiled yet: the first call does that"

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The `Program` for arguments like these; its inputs are ``x0``, ``x1``... by leaf."""
        call = self._sorted(args, kwargs)
        return self._traced(call).program

    # --- a call that is not as the last one ---

    def _slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = kwargs.pop("out", None) if self._makes_out else None
        call = self._sorted(args, kwargs)
        leaves, shape = tree.flatten((call.positional, call.by_name))
        traced = next((leaf for leaf in leaves if isinstance(leaf, Value)), None)
        if traced is not None:
            return self._recorded(cast(Recorder, traced.b), call)
        try:
            compiled = self._find(call, leaves, shape)
        except OuterValueError as error:  # it takes a value from a function that is being traced
            return self._recorded(cast(Recorder, error.outer), call)
        if out is None:
            self._quick = compiled.quick
        else:
            self._quick_into = compiled.quick_into
        found = compiled.run([bound_input(argument(leaf)) for leaf in leaves], out)
        if out is None:
            self.__call__ = self._call
            self._called_once = partial(compiled.native_call, tuple(kwargs), self._call)
        return found

    def _sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        """Sort the arguments. Raises CallError or ArgumentError (PK0701) if they do not fit."""
        check_call(self.function, args, kwargs)
        names = parameter_names(self.function, len(args))
        static: dict[int | str, Any] = {
            i: a for i, a in enumerate(args) if _is_named(i, names[i], len(args), self._static)
        }
        static |= {k: v for k, v in kwargs.items() if k in self._static[1]}
        for key, value in static.items():
            _require_hashable(names[key] if isinstance(key, int) else key, value)
        return _Call(
            tuple([a for i, a in enumerate(args) if i not in static]),
            {k: v for k, v in kwargs.items() if k not in static},
            static,
            [n for i, n in enumerate(names) if i not in static],
        )

    def _recorded(self, b: Recorder, call: _Call) -> Any:
        """Record the call into a program that is being recorded.

        Values count as unknown even if the outer trace knows them, so that the function does the
        same as when it is compiled.
        """
        positional, by_name = lifted_in(b, (call.positional, call.by_name))
        args, kwargs = call.whole(positional, by_name)
        known, b.known = b.known, None
        try:
            return self.function(*args, **kwargs)
        finally:
            b.known = known

    def _find(self, call: _Call, leaves: list[Any], shape: tree.Shape) -> Compiled:
        """The program of a call's signature, compiled if there is none that is up to date."""
        labels = _leaf_labels(call, shape)
        metas = tuple([_meta_of(n, leaf) for n, leaf in zip(labels, leaves, strict=True)])
        static = tuple([(k, kinds_in(v), v) for k, v in call.static.items()])
        numbers = tuple([kind_of(v) if is_number(v) else None for v in leaves])
        signature = _Signature(shape, metas, numbers, static, kinds_in(tree.static_data(shape)))
        with self._lock:
            versions = self._compiled.setdefault(signature, [])
            change = None
            for compiled in reversed(versions):  # captured values may change back
                change = compiled.change()
                if change is None:
                    return compiled
            reason = change or self._difference(signature, labels)
            traced = self._traced(call)
            remarks = _rerolled(traced.program)
            donated = self._donated_leaves(call, shape)
            compiled = compiled_call(
                self.function, traced, call.positional, call.by_name, call.static, donated,
                self._fast_math, _MISSED,
            )  # fmt: skip
            versions.append(compiled)
            del versions[:-VERSIONS]
            self._signatures.append((signature, labels))
            notes = [f"{len(self._reasons) + 1}: {reason}", *remarks]
            self._reasons.append("\n   ".join(notes))
            log("info", "compiled %r for %s", self, reason)
            return compiled

    def _traced(self, call: _Call) -> Traced:
        """The function, traced with the arguments of a call; static ones are constants."""

        def function(*args: Any, **kwargs: Any) -> Any:
            whole, named = call.whole(args, kwargs)
            return self.function(*whole, **named)

        return trace(function, call.positional, keywords=call.by_name, weak=True)

    def _donated_leaves(self, call: _Call, shape: tree.Shape) -> list[int]:
        """The numbers of the leaves of donated arguments."""
        count = len(call.positional) + sum(isinstance(k, int) for k in call.static)
        at = [i for i in range(count) if i not in call.static]
        parts, found, number = zip(at, shape.parts[0].parts, strict=True), list[int](), 0
        for place, part in parts:
            leaves = len(tree.paths(part))
            label = call.labels[at.index(place)]
            if _is_named(place, label, count, self._donated):
                found += range(number, number + leaves)
            number += leaves
        for name, part in zip(shape.parts[1].extra, shape.parts[1].parts, strict=True):
            leaves = len(tree.paths(part))
            if name in self._donated[1]:
                found += range(number, number + leaves)
            number += leaves
        return found

    def _difference(self, signature: _Signature, labels: list[str]) -> str:
        """Why no compiled program serves: the fewest differences from a signature so far."""
        if not self._signatures:
            shown = zip(labels, signature.metas, strict=True)
            return "first call: " + (", ".join(f"{n} {m}" for n, m in shown) or "no arguments")
        found = [
            (s.shape != signature.shape, _changes(s, n, signature, labels))
            for s, n in reversed(self._signatures)
        ]
        _, changes = min(found, key=lambda change: (change[0], len(change[1])))
        return "; ".join(changes)


def _rerolled(program: Program) -> list[str]:
    """Reroll loops over slices that Python unrolled. Returns why others stay as they are."""
    if not has_unrolled_loops(program.main):
        return []
    reroll = imported("pirkit.frontend.reroll").reroll  # it loads the rules of `vmap`
    # Arrays are read at each call: none may be merged with others or stacked.
    return [*map(str, reroll(program.module, program.main, {}))]


class _Missed:
    """The result of a fast path that does not serve a call."""


_MISSED: Final = _Missed()


def _missed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _MISSED


# --- signatures ----------------------------------------------------------------------------------


def _resolved(
    function: Function, places: Places, names: Names
) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names of parameters that the user gave by position or by name.

    A parameter that can be passed both ways is in both sets. Raises ArgumentError (PK0701) for
    unknown ones.
    """
    numbers = numbers_of(function, places)
    named = {names} if isinstance(names, str) else set(names)
    known = parameters_of(function)
    kinds = [p.kind for p in known.values()]
    unknown = named - known.keys() if inspect.Parameter.VAR_KEYWORD not in kinds else set[str]()
    if known and unknown:
        raise ArgumentError(
            f"the function has no parameter {sorted(unknown)[0]!r}",
            help=f"its parameters are {', '.join(known)}",
        )  # fmt: skip
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    listed = [n for n, p in known.items() if p.kind in (inspect.Parameter.POSITIONAL_ONLY, plain)]
    also = {listed[n] for n in numbers if 0 <= n < len(listed)}
    named |= {n for n in also if known[n].kind is plain}
    return frozenset(numbers), frozenset(named)


def _is_named(
    place: int, name: str, count: int, wanted: tuple[frozenset[int], frozenset[str]]
) -> bool:
    """Whether an argument, one of ``count`` by position, is among those of `_resolved`."""
    numbers, names = wanted
    return place in numbers or place - count in numbers or name in names


def _require_hashable(name: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError as error:
        raise ArgumentError(
            f"static argument `{name}` is a {type(value).__name__}, which is not hashable",
            span=user_span(),
            help="pass a tuple for a list, or let it be an argument that is traced",
        ) from error  # fmt: skip


def _leaf_labels(call: _Call, shape: tree.Shape) -> list[str]:
    """The spelling of each leaf of the arguments, as `tree.flatten` orders them."""
    positional, by_name = shape.parts
    found: list[str] = []
    for name, part in zip(call.labels, positional.parts, strict=True):
        found += tree.paths(part, name)
    for name, part in zip(by_name.extra, by_name.parts, strict=True):
        found += tree.paths(part, name)
    return found


def _meta_of(name: str, leaf: Any) -> TensorMeta:
    """Shape and element type of a leaf. Raises ArgumentError, with its name, for no tensor."""
    if isinstance(leaf, DenseTensor):
        return leaf.meta
    try:
        return leaf_meta(leaf)
    except UsageError as error:
        error.message = f"argument `{name}`: {error.message}"
        raise


def _changes(
    known: _Signature, known_labels: list[str], wanted: _Signature, labels: list[str]
) -> list[str]:
    """How one signature differs from another, in words."""
    if known.shape != wanted.shape:
        more = [n for n in labels if n not in known_labels]
        less = [n for n in known_labels if n not in labels]
        changes = [f"`{n}` is new" for n in more] + [f"`{n}` is gone" for n in less]
        if not changes and len(known.shape.parts[0].parts) != len(wanted.shape.parts[0].parts):
            return ["other arguments are given by name"]
        return changes or ["the containers of the arguments are of other classes"]
    found: list[str] = []
    for name, then, now in zip(labels, known.metas, wanted.metas, strict=True):
        if then.shape != now.shape:
            found.append(f"argument `{name}`: shape {then.shape} -> {now.shape}")
        if then.dtype is not now.dtype:
            found.append(f"argument `{name}`: dtype {then.dtype} -> {now.dtype}")
    pairs = zip(labels, known.numbers, wanted.numbers, strict=True)
    for name, then, now in pairs:
        if then is not now:
            kinds = ["a tensor" if k is None else f"a Python {k.__name__}" for k in (then, now)]
            found.append(f"argument `{name}`: {kinds[0]} -> {kinds[1]}")
    if known.static != wanted.static:
        then, now = ({k: (v, kinds) for k, kinds, v in s.static} for s in (known, wanted))
        pairs = {k: (then.get(k, (None,)), now.get(k, (None,))) for k in {**then, **now}}
        found += [
            f"static argument {k!r}: {a[0]!r} -> {b[0]!r}" for k, (a, b) in pairs.items() if a != b
        ]
    return found or ["what the function reads from around it has changed"]

"""Ops on tensors, computed immediately: ``pirkit.ops.scale(x, scale=2.0, bias=1.0)``.

A call uses the same shape rules and the same registry as a program. The bound kernel is cached by
the metas of the tensors and the attributes, so a repeated call only allocates and computes. A call
with a traced value, which has ``__pirkit_call__``, is recorded instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from importlib import import_module
from inspect import Signature
from math import copysign
from operator import is_
from threading import local
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import ConstraintError, RuntimeFault, UnsupportedError
from pirkit.dialect.kinds import COPY
from pirkit.dialect.opdef import RANDOM, OpDef
from pirkit.frontend.active_trace import ACTIVE
from pirkit.frontend.calls import Arguments, sort_arguments
from pirkit.frontend.python_calls import require
from pirkit.frontend.signatures import signature_of
from pirkit.frontend.surroundings import kinds_in
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import KERNEL_FAULTS, Binding
from pirkit.runtime.convert import convert
from pirkit.runtime.draws import Draws
from pirkit.runtime.given_arrays import given_array
from pirkit.runtime.library import bind_call, call_fault
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.plan import Call
from pirkit.runtime.registry import KERNELS
from pirkit.runtime.run_block import is_of_kernel
from pirkit.runtime.scope.overlap import overlap, refuse_overlap
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import meta_of

Result = Any
Run = Callable[[Any], Result]
"""Computes the results of a call from its tensors, which are given by operand slot."""

REMEMBERED: Final = 1024
"""Bound calls that one op caches in a thread; when there are more, it forgets all of them."""

_SIGNED: Final = frozenset(
    {float, complex, np.float16, np.float32, np.float64, np.complex64, np.complex128}
)
"""Types of numbers that have a negative zero."""

LIBRARY: Final = KernelLibrary()
"""The kernels of eager ops: those of the CPU."""
DRAWS: Final = Draws()
"""The source of random numbers for eager ops."""


def seed(number: int) -> None:
    """Seed the random numbers of eager ops. Raises CallError (PK0701) for what is no integer."""
    require(isinstance(cast(object, number), int | np.integer),
            f"a seed is an integer, not a {type(number).__name__}", "`pirkit.seed(0)`")  # fmt: skip
    DRAWS.begin(number, 0)


class _Calls(local):
    """The calls of an op that a thread has bound: each owns scratch memory for one run."""

    def __init__(self) -> None:
        self.bound: dict[Any, Run] = {}
        """By the metas of the operands and the attributes."""
        self.quick: dict[Any, tuple[Run, tuple[int, ...] | None, Any]] = {}
        """The run for arguments as they were given, which need not be sorted again.

        The key has the identities of metas and the other arguments. The entry has the positions of
        the tensors, None if all arguments are tensors, and the metas, to keep them alive.
        """


class EagerOp:
    """One op as a Python function of tensors.

    Parameters are the op's operands and then its attributes, by position or by name. A numpy array
    counts as a tensor, a number as a 0-D tensor. Returns a tensor, or a tuple of tensors; results
    that only a gradient reads are omitted. Raises ArgumentError (PK0701) for wrong arguments,
    UnsupportedError for tensors that no kernel takes, and RuntimeFault (PK0901), naming the
    constraint, for a call that the op does not allow.
    """

    def __init__(self, definition: OpDef) -> None:
        self.definition = definition
        self.__name__ = self.__qualname__ = definition.name.rpartition(".")[2]
        self.__doc__ = f"{definition.doc}\n\nSignature: {definition.signature_text}"
        self._calls = _Calls()
        self._draws = definition.effects == RANDOM

    @property
    def __signature__(self) -> Signature:
        """The signature for ``inspect``: defaults are those of Paddle's Python functions."""
        return signature_of(self.definition)

    def __call__(self, *args: Any, **keywords: Any) -> Result:
        if self._draws and (records := ACTIVE.get()) is not None:
            return records.call(self.definition, args, keywords)
        key: list[Any] = [
            id(a.meta) if type(a) is DenseTensor else (type(a), _hashable(a)) for a in args
        ]
        if keywords:
            key += [(name, type(v), _hashable(v)) for name, v in keywords.items()]
        try:
            found = self._calls.quick.get(tuple(key))
        except TypeError:  # an array, or a list of tensors
            return self._call(args, keywords, None)
        if found is None:
            return self._call(args, keywords, tuple(key))
        run, at, _ = found
        try:
            return run(args if at is None else [args[i] for i in at])
        except (ConstraintError, RuntimeFault, *KERNEL_FAULTS) as error:
            if not is_of_kernel(error):
                raise
            raise self._fault(error) from error

    def _call(
        self, args: tuple[Any, ...], keywords: dict[str, Any], key: tuple[Any, ...] | None
    ) -> Any:
        """A call that is not cached; it is cached under ``key`` if its tensors are all of
        ``args``, in the order of the operands."""
        for value in _each((*args, *keywords.values())):
            take = getattr(value, "__pirkit_call__", None)
            if take is not None:  # a value that is traced, not computed
                return take(self.definition, args, keywords)
        sorted_ = sort_arguments(self.definition, args, keywords)
        kind = kind_of(sorted_.tensors)
        if kind != DENSE:
            return call_kind(self.definition.base.name, kind, sorted_.tensors, sorted_.attrs)
        tensors = [_tensor(t, sorted_) for t in sorted_.tensors]
        run = self._run(tuple(map(_meta, tensors)), sorted_.attrs)
        at = [i for i, a in enumerate(args) if type(a) is DenseTensor]
        given = [args[i] for i in at]
        present = [t for t in tensors if t is not None]
        in_order = len(given) == len(tensors) == len(present) and all(map(is_, given, tensors))
        if key is not None and in_order and not _lists_floats((*args, *keywords.values())):
            quick = self._calls.quick
            if len(quick) >= REMEMBERED:
                quick.clear()
            first = at == list(range(len(args)))
            quick[key] = (run, None if first else tuple(at), [t.meta for t in given])
        try:
            return run(tensors)
        except (ConstraintError, RuntimeFault, *KERNEL_FAULTS) as error:
            if not is_of_kernel(error):
                raise
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> RuntimeFault:
        """The error (PK0901) for what a kernel raised."""
        call = Call(self.definition.name, (), ())
        if isinstance(error, ConstraintError):
            note = f"constraint {error.constraint}"
            return call_fault(call, error.message, note, error.help)
        if isinstance(error, RuntimeFault):
            return call_fault(call, error.message, None, error.help)
        return call_fault(call, f"{error}", None, None)

    def _run(self, metas: tuple[Meta | None, ...], attrs: dict[str, Any]) -> Run:
        """The cached run of a call, or a new one."""
        key = (metas, tuple(attrs.items()), tuple(map(kinds_in, attrs.values())))
        bound = self._calls.bound
        run = bound.get(key)
        if run is None:
            if len(bound) >= REMEMBERED:
                bound.clear()
            run = bound[key] = bind_eager(self.definition, metas, attrs)
        return run

    def __reduce__(self) -> tuple[Callable[[str], EagerOp], tuple[str]]:
        """Pickle by name: a copy, also one in another process, is the function of the op there."""
        return _function_of, (self.definition.name,)

    def __repr__(self) -> str:
        return f"<op {self.definition.name}({self.definition.signature_text})>"


def _function_of(name: str) -> EagerOp:
    return import_module("pirkit.frontend.op_functions").op_function(name)


def _hashable(value: Any) -> Any:
    """A part of a key; a traced value becomes a list, which is not hashable.

    `==` does not tell 0.0 from -0.0: text stands for a number that may be a negative zero.
    """
    kind: Any = value.__class__
    if kind is float:
        return value if value or copysign(1.0, value) > 0.0 else "-0.0"
    if kind is list:
        return tuple(cast("list[Any]", value))
    if kind in _SIGNED:
        return repr(value)
    return [value] if hasattr(value, "__pirkit_call__") else value


def _lists_floats(values: Iterable[Any]) -> bool:
    """Whether there is a list of numbers whose key does not tell 0.0 from -0.0."""
    lists: list[Any] = [v for v in values if isinstance(v, list | tuple)]
    return not _SIGNED.isdisjoint(map(type, _each(lists)))


def _each(values: Iterable[Any]) -> Iterator[Any]:
    """The arguments of a call, with lists flattened."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from cast("list[Any]", value)
        else:
            yield value


def _tensor(value: Any, arguments: Arguments) -> Any:
    """An operand as a tensor or a list of them; a number takes the type of the first tensor."""
    if value is None or type(value) is DenseTensor:
        return value
    if isinstance(value, list):
        return [_tensor(v, arguments) for v in cast("list[Any]", value)]
    array: Any = given_array(value)
    if isinstance(value, bool | int | float | complex):
        others = (t for t in arguments.tensors if isinstance(t, DenseTensor))
        like = next(others, None)
        if like is not None:
            array = convert(array, like.dtype)
    return DenseTensor(array)


def _meta(value: Any) -> Meta | None:
    if isinstance(value, list):
        return VecMeta(tuple([t.meta for t in cast("list[DenseTensor]", value)]))
    return None if value is None else cast(DenseTensor, value).meta


# --- tensors that are not dense ---


DENSE: Final = DenseTensor.kind


def kind_of(tensors: Iterable[Any]) -> str:
    """The kind of the first tensor that is not dense, else `DENSE`."""
    kinds = (getattr(t, "kind", DENSE) for t in tensors)
    return next((k for k in kinds if k != DENSE), DENSE)


def call_kind(op: str, kind: str, tensors: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Call an op on tensors of which at least one is not dense.

    Raises UnsupportedError, naming the kinds that the op takes, if there is no kernel.
    """
    first = next(t for t in tensors if getattr(t, "kind", DENSE) == kind)
    dtype = getattr(first, "dtype", dt.uint8)
    choice = next(KERNELS.candidates(op, dtype, kind=kind), None)
    step = choice.kernel(Binding((), (), attrs, op=op)) if choice is not None else None
    if step is None:
        kinds = [k for k in KINDS if next(KERNELS.kernels(op, kind=k), None) is not None]
        raise UnsupportedError(
            f"`{op}` takes no {kind} tensor of {dtype}",
            help=f"it takes: {', '.join(kinds) or 'dense'}",
        )
    return step(*tensors)


class KindOp:
    """A function of sparse and other tensors that is no op on dense ones."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        return call_kind(self.name, kind_of(tensors), tensors, attrs)


KINDS: Final = ("dense", "selected_rows", "sparse_coo", "sparse_csr", "string")


# --- binding -------------------------------------------------------------------------------------


def bind_eager(definition: OpDef, metas: tuple[Meta | None, ...], attrs: Mapping[str, Any]) -> Run:
    """Bind the op for tensors of these metas.

    Raises RuntimeFault (PK0901), naming the constraint, if the op does not allow the call;
    UnsupportedError for an op in place that would change the shape or type of what it writes.
    """
    results = definition.results
    is_random = definition.effects == RANDOM
    call = Call(definition.name, (), (), attrs, random=0 if is_random else None)
    try:
        found = LIBRARY.infer(definition.name, metas, attrs)
    except ConstraintError as error:
        note = f"constraint {error.constraint}"
        raise call_fault(call, error.message, note, error.help) from error
    wanted = [i for i, r in enumerate(results) if not r.intermediate] or [0]
    outs = tuple([m if i in wanted else None for i, m in enumerate(found)])
    bound = bind_call(LIBRARY, call, metas, outs, LIBRARY.device, DRAWS.generator(call), attrs)
    if bound is None:
        raise call_fault(call, "the shape of its result is not known", None, None)
    choice, step = bound
    shown = [i for i in wanted if i < len(outs) and outs[i] is not None]
    # By its form, a kernel writes into outputs (`out`), returns new arrays (`new`), or views.
    if definition.writes:
        overwrites = LIBRARY.overwrites(choice.kernel)
        return _in_place(definition, metas, outs, step, choice.kernel.form, overwrites)
    if choice.kernel.form == "out":
        return _writing(metas, outs, step, shown)
    copies = choice.kernel.form == "new" or COPY in definition.traits
    return _returning(step, shown, len(found), copies=copies)


def _arrays(tensors: Any) -> list[Any]:
    return [
        t.array if type(t) is DenseTensor else None if t is None else [each.array for each in t]
        for t in tensors
    ]


def _flat(arrays: list[Any]) -> list[Any]:
    lists = [cast("list[Any]", a) if isinstance(a, list) else [a] for a in arrays]
    return [a for each in lists for a in each]


class _Quiet(local):
    """A context without numpy's warnings, as in programs. Entering it is cheap."""

    def __init__(self) -> None:
        with np.errstate(all="ignore"):
            self.run = copy_context().run


_QUIET: Final = _Quiet()


def _writing(
    metas: tuple[Meta | None, ...], outs: tuple[Meta | None, ...], step: Any, shown: list[int]
) -> Run:
    """A run that computes into new tensors.

    Calls on one, two or several dense tensors with one result are functions of their own, without
    the lists of the general one: on small tensors such overhead takes longer than the kernel.
    """
    plain = all(isinstance(m, TensorMeta) for m in metas)
    if not plain or len(outs) != 1 or not isinstance(outs[0], TensorMeta):

        def run(tensors: Any) -> Result:
            made = [_empty(m) for m in outs]
            _QUIET.run(step, *_arrays(tensors), *made)
            return _shown([_wrapped(made[i]) for i in shown])

        return run
    shape, dtype = outs[0].shape, outs[0].dtype.np
    meta = meta_of(shape, dtype)
    make = LIBRARY.device.maker(shape, dtype)
    quiet = _QUIET

    def unary(tensors: Any) -> Result:
        out = make()
        quiet.run(step, tensors[0].array, out)
        return DenseTensor(out, None, meta)

    def binary(tensors: Any) -> Result:
        out = make()
        quiet.run(step, tensors[0].array, tensors[1].array, out)
        return DenseTensor(out, None, meta)

    def several(tensors: Any) -> Result:
        out = make()
        quiet.run(step, *[t.array for t in tensors], out)
        return DenseTensor(out, None, meta)

    return {1: unary, 2: binary}.get(len(metas), several)


def _returning(step: Any, shown: list[int], count: int, *, copies: bool) -> Run:
    """A run of a kernel that returns ``count`` arrays, or the items of one list of arrays.

    If it ``copies``, results never share memory with an operand; else they are views of the first.
    Nothing is a view of an element of a list.
    """

    def run(tensors: Any) -> Result:
        arrays = _arrays(tensors)
        found = _QUIET.run(step, *arrays)
        results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        if len(results) != count:
            results = (list(results),)
        source = next((t for t in tensors if type(t) is DenseTensor), None)
        operands: list[Any] = [a for a in _flat(arrays) if isinstance(a, np.ndarray)]
        return _shown([_owned(results[i], source, operands, copies) for i in shown])

    return run


def _owned(value: Any, source: DenseTensor | None, operands: list[Any], copies: bool) -> Any:
    """A result as a tensor: a view shares the buffer of its source, others own theirs."""
    if isinstance(value, list | tuple):
        return [_owned(v, source, operands, copies) for v in cast("list[Any]", value)]
    array: Any = np.asarray(value)
    if not copies and source is not None:
        return source.view_of(array)
    shared = any(np.may_share_memory(array, o) for o in operands)
    return DenseTensor(array.copy() if shared else array)


def _in_place(
    definition: OpDef,
    metas: tuple[Meta | None, ...],
    outs: tuple[Meta | None, ...],
    step: Any,
    form: str,
    overwrites: Mapping[int, tuple[int, ...]],
) -> Run:
    """A run of an op that writes operands.

    ``overwrites`` has for each result the operands whose memory the kernel may overwrite with it.
    Other results are computed in new memory and then copied, since a kernel may read an operand
    after it began to write; so are all results if a written operand shares memory with another one.
    Raises UnsupportedError for a write that would change shape or type.
    """
    operands = [o.name for o in definition.operands if o.kind is None]
    pairs = {
        i: operands.index(definition.inplace[r.name])
        for i, r in enumerate(definition.results)
        if r.name in definition.inplace
    }
    written = {o: operands[o] for o in pairs.values()}
    for result, operand in pairs.items():
        if outs[result] is not None and outs[result] != metas[operand]:
            raise UnsupportedError(
                f"`{definition.name}` would make a {metas[operand]} a {outs[result]}",
                help=f"use `{definition.base.name}`, which makes a new tensor",
            )

    def run(tensors: Any) -> Result:
        arrays = _arrays(tensors)
        targets = {
            r: tensors[o]
            for r, o in pairs.items()
            if outs[r] is not None and tensors[o] is not None
        }
        if form == "out":
            apart = _are_apart(tensors, written)
            made = [
                _mutable(targets[i])
                if apart and i in targets and pairs[i] in overwrites.get(i, ())
                else _empty(m)
                for i, m in enumerate(outs)
            ]
            _QUIET.run(step, *arrays, *made)
        else:
            found = _QUIET.run(step, *arrays)
            made = list(cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,)))
        for i, target in targets.items():
            _store(target, made[i])
        present = [i for i, m in enumerate(outs) if m is not None]
        return _shown([targets[i] if i in targets else _wrapped(made[i]) for i in present])

    return run


def _are_apart(tensors: Sequence[Any], written: Mapping[int, str]) -> bool:
    """Whether no written operand shares memory with another one.

    Raises RuntimeFault (PK0908) if two written ones share memory.
    """
    flat = [
        (i, t)
        for i, each in enumerate(tensors)
        for t in (cast("list[Any]", each) if isinstance(each, list) else [each])
        if type(t) is DenseTensor
    ]
    end = 0
    # Buffers that lie apart, as nearly always, need no comparison of their elements.
    for low, size in sorted([(t.buffer.address, t.buffer.nbytes) for _, t in flat]):
        if low < end:
            refuse_overlap([(written[i], t, True) for i, t in flat if i in written])
            return overlap([("", t, i in written) for i, t in flat]) is None
        end = low + size
    return True


def _mutable(target: Any) -> Any:
    if isinstance(target, list):
        return [t.mutable() for t in cast("list[DenseTensor]", target)]
    return target.mutable()


def _store(target: Any, value: Any) -> None:
    if isinstance(target, list):
        for one, each in zip(cast("list[Any]", target), value, strict=True):
            _store(one, each)
    elif value is not target.array:
        np.copyto(target.mutable(), value)


def _empty(meta: Meta | None) -> Any:
    if isinstance(meta, VecMeta):
        return [_empty(m) for m in meta.items]
    empty = LIBRARY.device.empty
    return empty(meta.shape, meta.dtype.np) if isinstance(meta, TensorMeta) else None


def _wrapped(value: Any) -> Any:
    if isinstance(value, list):
        return [_wrapped(v) for v in cast("list[Any]", value)]
    return DenseTensor(value)


def _shown(results: list[Any]) -> Result:
    """What the caller gets: one result, or a tuple of several."""
    return results[0] if len(results) == 1 else tuple(results)

"""Tracing of Python functions of tensors into programs: a function runs once on traced values.

The values are those of :mod:`pirkit.dialect.build`; ``pirkit.ops`` functions, called on one of
them, emit an op. Arrays from the function's closure become inputs of the program, so that their
content is not part of it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from pirkit.diag.errors import ArgumentError, PirkitError, TraceError, UsageError
from pirkit.dialect.build import Number, Value
from pirkit.dialect.kinds import VIEW
from pirkit.dialect.opdef import OpDef, lookup
from pirkit.dialect.operation import PirOp, ProgramOp, bodies
from pirkit.dialect.program import Program
from pirkit.dialect.types import meta_of
from pirkit.frontend import tree
from pirkit.frontend.active_trace import recording_draws
from pirkit.frontend.calls import sort_arguments
from pirkit.frontend.known_values import KnownValues, RunPart
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.frontend.recording import Recording
from pirkit.frontend.traced_value import TracedValue, WeakValue
from pirkit.frontend.user_line import raised_at, user_span
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert
from pirkit.runtime.dtype import DType
from pirkit.runtime.given_arrays import given_array
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import meta_of as array_meta

Array = np.ndarray[Any, Any]


class Recorder(Recording):
    """A builder that records calls of ``pirkit.ops`` functions."""

    value_type = TracedValue

    def __init__(self, program: ProgramOp) -> None:
        super().__init__(program)
        self.captured: dict[str, Any] = {}
        self._captures: dict[int, Value] = {}
        self.inner: Recorder | None = None
        """The body of a branch or loop that is being recorded: ops are emitted into it."""

    @property
    def innermost(self) -> Recorder:
        """The recorder of the body that is recorded now."""
        return self if self.inner is None else self.inner.innermost

    def input(self, name: str, meta: TensorMeta) -> Value:
        """An input of the program."""
        attrs = {"name": name, "shape": meta.shape, "dtype": meta.dtype, "place": UNDEFINED}
        return super().emit(lookup("pd_op.data"), (), attrs)

    def number(self, name: str, given: Any) -> Value:
        """An input for a Python number, which has all of its digits and promotes weakly."""
        wide = self.input(name, leaf_meta(argument(given)))
        return WeakValue(
            wide, self.cast(wide, leaf_meta(given).dtype), cast("type[Any]", type(given))
        )

    def emit(
        self,
        definition: OpDef,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        wanted: Container[str] | None = None,
    ) -> Any:
        """Emit an op into the body that is being recorded."""
        if self.inner is not None:
            return self.inner.emit(definition, operands, attrs, wanted)
        return super().emit(definition, operands, attrs, wanted)

    def own(self, value: Value) -> Value:
        """A value of the body that is being recorded."""
        return super().own(value) if self.inner is None else self.inner.own(value)

    def _operand(self, value: Any) -> SSAValue | None:
        return self.own(value).ssa if isinstance(value, Value) else super()._operand(value)

    def call(self, definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Record a call of an op on values, arrays and numbers.

        Raises UsageError for arguments that do not fit, and for a write to a tensor from outside.
        """
        args, keywords = _computed_by_name(definition, args, keywords)
        attributes = {k: v for k, v in keywords.items() if not isinstance(v, Value)}
        dynamic = {k: v for k, v in keywords.items() if isinstance(v, Value)}
        kinds = {o.name for o in definition.operands if o.kind is not None}
        dynamic_attrs = {k: self.own(v) for k, v in dynamic.items() if k in kinds}
        tensors = {k: v for k, v in dynamic.items() if k not in kinds}
        try:
            sorted_ = sort_arguments(
                definition, args, {**attributes, **tensors}, dynamic=tuple(dynamic_attrs)
            )
        except PirkitError as error:
            error.span = error.span or user_span()
            raise
        targets = _targets(definition, sorted_.tensors) if definition.writes else ()
        typed = next((v for v in _flat(sorted_.tensors) if isinstance(v, Value)), None)
        operands = [self.value(v, typed) for v in sorted_.tensors]
        found = self(definition, *operands, **{**sorted_.attrs, **dynamic_attrs})
        for target in targets:
            for held in (target, self.own(target)):
                names = dict.fromkeys(_names_of(held.ssa), definition.name)
                cast(Recording, held.b).written.update(names)
        results = cast("tuple[Value | None, ...]", found if isinstance(found, tuple) else (found,))
        shown = [
            v
            for v, slot in zip(results, definition.results, strict=False)
            if v is not None and not slot.intermediate
        ]
        values: list[Any] = [
            v if isinstance(v.any_meta, TensorMeta) else list(self.split_vec(v)) for v in shown
        ]
        return values[0] if len(values) == 1 else tuple(values)

    def value(self, given: Any, like: Value | None = None) -> Any:
        """An operand: a value of this program, or an input for an array from outside."""
        if given is None:
            return None
        if isinstance(given, Value):
            return self.own(given)
        if isinstance(given, list | tuple):
            return [self.value(v, like) for v in cast("list[Any]", given)]
        if is_number(given) and like is not None:
            fitting = like.dtype if _fits(given, like.dtype) else _BARE[type(given)]
            return self.const(given, fitting)
        return self.capture(given)

    def const(self, number: Number, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """A constant; a complex number, which no attribute holds, becomes an input."""
        if self.inner is not None:
            return self.inner.const(number, dtype, shape)
        if not isinstance(number, complex):
            return super().const(number, dtype, shape)
        made = self.capture(np.asarray(number, dtype.np))
        return made if not shape else self("pd_op.expand", made, shape=tuple(shape))

    def capture(self, array: Any) -> Value:
        """The input for an array from outside the function: one for each array object."""
        known = self._captures.get(id(array))
        if known is not None:
            return known
        name = f"captured{len(self.captured)}"
        self.captured[name] = array
        made = self._captures[id(array)] = self._captured(name, array)
        return made

    def _captured(self, name: str, array: Any) -> Value:
        return self.input(name, leaf_meta(array))


def _computed_by_name(
    definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a call, from the first attribute that is computed on by name."""
    kinds = [o.kind for o in definition.operands[: len(args)]]
    computed = (i for i, k in enumerate(kinds) if k is not None and isinstance(args[i], Value))
    first, names = (
        next(computed, len(args)),
        [s.name for s in (*definition.operands, *definition.attrs)],
    )
    named = dict(zip(names[first:], args[first:], strict=False))
    if first + len(named) < len(args) or named.keys() & keywords.keys():
        return args, keywords  # too many, or twice
    return args[:first], {**named, **keywords}


def _targets(definition: OpDef, tensors: Sequence[Any]) -> list[Value]:
    """The values that an op writes.

    Raises ArgumentError (PK0701) for a tensor from outside, which the traced function holds as a
    constant.
    """
    slots = [o.name for o in definition.operands if o.kind is None]
    written = [
        (n, t) for n, t in zip(slots, tensors, strict=False) if n in definition.inplace.values()
    ]
    found: list[Value] = []
    for name, given in written:
        for target in _flat([given]):
            if isinstance(target, Value):
                found.append(target)
            elif target is not None:
                raise ArgumentError(
                    f"`{definition.name}` writes `{name}`, a tensor from outside the function",
                    span=user_span(),
                    help="pass this tensor as an argument, and return its new value",
                )
    return found


def _names_of(value: SSAValue) -> set[SSAValue]:
    """A value, and those that would share its memory if the same calls were eager."""
    found: set[SSAValue] = set()
    stack = [value]
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        readers = (use.operation for use in name.uses)
        stack += [r for op in readers if _is_view(op) for r in op.results]
        if isinstance(name.owner, PirOp) and _is_view(name.owner):
            stack.append(name.owner.operands[0])
    return found


def _is_view(op: Operation) -> bool:
    return isinstance(op, PirOp) and op.definition.kind == VIEW and op.name != "pd_op.assign"


_BARE: Final[dict[type, DType]] = {float: dt.float32, complex: dt.complex64}
"""The type of a Python number next to a tensor that cannot represent it, as in Paddle."""


def _fits(number: Any, dtype: DType) -> bool:
    if isinstance(number, complex):
        return dtype.is_complex
    return not isinstance(number, float) or dtype.is_float or dtype.is_complex


def _flat(values: Sequence[Any]) -> list[Any]:
    lists = [cast("list[Any]", x) if isinstance(x, list) else [x] for x in values]
    return [v for each in lists for v in each]


class Traced(Struct, frozen=True):
    """A function as a program: outputs ``y0``, ``y1``... in the order of the result's leaves."""

    program: Program
    captured: dict[str, Any]
    """The arrays from outside the function, by the names of their inputs."""
    shape: tree.Shape
    """The structure of the result."""


def trace(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    run: RunPart | None = None,
    *,
    keywords: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    kind: Callable[[ProgramOp], Recorder] = Recorder,
    weak: bool = False,
) -> Traced:
    """Record a function, called with arguments like these (trees of tensors and arrays).

    Inputs are called ``x0``, ``x1``... in the order of the leaves, unless ``names`` says otherwise.
    Python numbers among the arguments are typed as `leaf_meta` says; with ``weak`` they promote as
    numbers do, and are inputs as `argument` says. With ``run``, which runs a part of the program,
    the program is for these very arguments: the function may ask for the truth of a value, or for
    an integer. ``kind`` is the class of the recorder. Raises ArgumentError (PK0701) if an argument
    or the result holds what is no tensor.
    """
    program = ProgramOp.build("main")
    recorder = kind(program)
    leaves, shape = tree.flatten((tuple(arguments), dict(keywords or {})))
    named = [f"x{i}" for i in range(len(leaves))] if names is None else names
    inputs = [
        recorder.number(n, v) if weak and type(v) in WEAK else recorder.input(n, leaf_meta(v))
        for n, v in zip(named, leaves, strict=True)
    ]
    if run is not None:
        fed = map(argument, leaves) if weak else leaves
        given = ChainMap(dict(zip(named, fed, strict=True)), recorder.captured)
        recorder.known = KnownValues(program, given, bound_input, run)
    try:
        positional, by_name = tree.unflatten(shape, iter(inputs))
        for_later = recording_draws(recorder) if run is None else nullcontext()
        with for_later:
            result = _called(function, positional, by_name)
        recorder.require_decided()
        found, result_shape = tree.flatten(result)
        for i, value in enumerate(found):
            recorder("pir.shadow_output", recorder.value(value), output_name=f"y{i}")
    finally:
        recorder.is_dynamic = False
    module = ModuleOp([program])
    return Traced(Program(module, {}, "<traced>"), recorder.captured, result_shape)


def _called(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call a function; an error of numpy about a traced size or element becomes a TraceError."""
    try:
        return function(*args, **named)
    except ValueError as error:  # `array[0] = v`, in which `float(v)` is refused
        if isinstance(error.__cause__, TraceError):
            raise error.__cause__ from None
        raise
    except TypeError as error:
        if isinstance(error, PirkitError) or "Traced(" not in str(error):
            raise
        raise TraceError(
            f"{error}", span=raised_at(error),
            help="sizes and counts are known before a program runs: give a number, `x.shape[0]`, or"
            " an argument that `jit` takes as static",
        ) from error  # fmt: skip


def leaf_meta(leaf: Any) -> TensorMeta:
    """Shape and element type of an argument. Raises UsageError if it is no tensor."""
    if isinstance(leaf, DenseTensor):
        return leaf.meta
    if isinstance(leaf, np.matrix):
        raise ArgumentError("a matrix is no tensor: its operators are others",
                         span=user_span(), help="take the array: `np.asarray(x)`")  # fmt: skip
    try:
        array = given_array(leaf)
    except UsageError as error:
        error.span = error.span or user_span()
        raise
    if array.dtype.kind in "OSU":
        raise ArgumentError(
            f"{type(leaf).__name__} is no tensor",
            span=user_span(),
            help="arguments and results are tensors, arrays, numbers, and trees of them"
            " (`pirkit.tree.register_dataclass`); `jit` takes others as static arguments",
        )
    if type(leaf) is float:  # a bare number is single precision, as everywhere in Paddle
        array = array.astype(np.float32)
    return array_meta(array.shape, array.dtype)


WEAK: Final = (int, float, complex)
"""Types of Python numbers that promote weakly."""


def argument(leaf: Any) -> Any:
    """An argument as an input: a Python number that promotes weakly, with all of its digits."""
    return np.asarray(leaf) if type(leaf) in WEAK else leaf


def bound_input(leaf: Any) -> Any:
    """The array of an argument, of the type that :func:`leaf_meta` returns."""
    if isinstance(leaf, DenseTensor):
        return leaf.array
    array = np.asarray(leaf)
    return convert(array, leaf_meta(leaf).dtype)


def fingerprint(program: ProgramOp) -> Hashable:
    """Equal for programs with the same operations in the same order, from the same source lines."""
    numbers: dict[SSAValue, int] = {}
    rows: list[Hashable] = []

    def visit(block: Block) -> None:
        for argument in block.args:
            numbers[argument] = len(numbers)
        rows.append(len(block.args))
        for each in block.ops:
            op = cast(PirOp, each)
            for result in op.results:
                numbers[result] = len(numbers)
            operands = tuple([numbers.get(v, -1) for v in op.operands])
            attributes = (*op.call_properties.items(), *op.attributes.items())
            types = tuple([meta_of(r.type) for r in op.results])
            rows.append((op.name, operands, attributes, types, op.location))
            for region in bodies(op):
                visit(region.block)
        rows.append(None)

    visit(program.block)
    return tuple(rows)


__all__ = ["Recorder", "Traced", "argument", "bound_input", "fingerprint", "leaf_meta", "trace"]

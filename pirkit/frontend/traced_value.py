# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
"""A value of a traced function: the interface of an eager tensor, recorded.

Each use of it in Python is recorded, evaluated, or refused with the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any, ClassVar, Final, NoReturn, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from xdsl.ir import SSAValue

from pirkit.diag.errors import MissingAttributeError, TraceError
from pirkit.dialect.build import Value
from pirkit.dialect.opdef import find
from pirkit.dialect.types import meta_of
from pirkit.dialect.value import Arithmetic
from pirkit.frontend.indexing import subscript
from pirkit.frontend.numpy_functions import apply_function
from pirkit.frontend.numpy_rules import FUNCTIONS
from pirkit.frontend.numpy_ufuncs import UFUNCS, apply_ufunc, is_number, weak_kind
from pirkit.frontend.recording import Recording
from pirkit.frontend.user_line import user_span
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.tensor.array_api import lifted
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type
from pirkit.runtime.tensor.methods import TensorMethods

Array = np.ndarray[Any, Any]

REDUCTIONS: Final[dict[np.ufunc, str]] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
}
ACCUMULATIONS: Final[dict[np.ufunc, str]] = {np.add: "cumsum", np.multiply: "cumprod"}


_INSTEAD: Final = {
    "detach": "`pirkit.stop_gradient(v)` has no derivative",
    "backward": "`pirkit.grad(f)` is the function of the derivative",
    "grad": "`pirkit.grad(f)` is the function of the derivative",
    "clone": "values are never written, so none has to be copied",
    "sort": "`np.sort(v)` makes a sorted value; none is written",
    "fill": "`np.full_like(v, number)` makes a value; none is written",
}
"""What to use instead of attributes that tensors of PyTorch, Paddle and numpy have, by name."""


class TracedValue(NDArrayOperatorsMixin, TensorMethods, Value):
    """A tensor of a program under construction.

    Operators and numpy functions are recorded with numpy's element types. Under ``grad`` and the
    other transforms, which trace at every call, ``if v``, ``int(v)`` and an index are evaluated; a
    use that would drop a derivative (``float(v)``, ``math.sin(v)``) raises TraceError.
    """

    __slots__ = ("_meta",)
    __array_priority__: ClassVar[float] = 200.0

    def __init__(self, b: Arithmetic, ssa: SSAValue) -> None:
        self.b = b
        self.ssa = ssa
        self._meta: TensorMeta | None = None

    @property
    def meta(self) -> TensorMeta:
        """Shape and element type, looked up once."""
        meta = self._meta
        if meta is None:
            meta = self._meta = cast(TensorMeta, meta_of(self.ssa.type))
        return meta

    @property
    def recording(self) -> Recording:
        """The builder of its program. Raises TraceError if the trace is over."""
        b = cast(Recording, self.b)
        b.own(self)
        return b

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes; ``UNKNOWN`` for a dynamic dimension."""
        return self.meta.shape

    @property
    def dtype(self) -> DType:
        return self.meta.dtype

    def _apply(self, name: str, *arguments: Any, **options: Any) -> Any:
        return apply_function(self.recording, name, (self, *arguments), options)

    # --- numpy's functions ---

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any
    ) -> Any:
        """Record an operator or ufunc. ``x += y`` creates a new value and binds it to ``x``."""
        if not all([isinstance(x, TracedValue) or _is_operand(x) for x in inputs]):
            return self._without_operand(ufunc, inputs)
        if out and out[0] is not self:
            is_update = out[0] is inputs[0] and len(inputs) == 2
            self._refuse(
                "an update in place by" if is_update else "numpy's `out=`",
                "write `x = x + v` for `x += v`: a tensor or an array cannot hold what is traced"
                if is_update else "use the result of the function",
            )  # fmt: skip
        b = self.recording
        if method == "__call__" and not options:
            if ufunc not in UFUNCS and ufunc.__name__ in FUNCTIONS:
                return apply_function(b, ufunc.__name__, inputs, {})
            if all([weak_kind(x) is not None for x in inputs]):
                return _of_numbers(b, ufunc, inputs)
            return apply_ufunc(b, ufunc, inputs)
        tables: dict[str, dict[np.ufunc, str]] = {"reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}
        name = tables.get(method, {}).get(ufunc)
        if name is None:
            self._refuse(
                f"`numpy.{ufunc.__name__}` with {', '.join(options) or f'`.{method}`'}",
                "compose it of operators and of the functions of `pirkit.ops`",
            )
        options.setdefault("axis", 0)
        axis = options.pop("axis")  # None means all axes, which is the default of the functions
        chosen = {} if axis is None else {"axis": axis}
        return apply_function(b, name, inputs, {**chosen, **options})

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """``pirkit.numpy``. Raises UnsupportedError for an unknown version of the standard."""
        return DenseTensor.__array_namespace__(cast(Any, self), api_version=api_version)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        name = function.__name__
        is_plain = getattr(np, name, None) is function
        shown = name if is_plain else f"{function.__module__.removeprefix('numpy.')}.{name}"
        return apply_function(self.recording, shown, args, kwargs)

    def _without_operand(self, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
        """``v == None`` is false, as everywhere in Python; other operators have no meaning."""
        if ufunc in (np.equal, np.not_equal):
            return ufunc is np.not_equal
        other = next(x for x in inputs if not _is_operand(x))
        if isinstance(other, str | bytes | dict | set | None):
            kind = type(cast(object, other)).__name__
            self._refuse(f"`{ufunc.__name__}` with a {kind}", "take a number or a tensor")
        return NotImplemented

    # --- elements and indices ---

    def __getitem__(self, index: Any) -> TracedValue:
        """Index as numpy does. Raises TraceError for an index out of range."""
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        return cast(TracedValue, subscript(self.recording, self, parts))

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        self._refuse(
            "assignment to elements",
            "values are never written: `x = x.at[i].set(value)` makes a new one, and so does"
            " `x = pirkit.where(mask, value, x)`",
        )

    def updated(self, index: tuple[Any, ...], how: str, value: Any) -> Any:
        """The value with elements updated; see `x.at`."""
        return self._apply("updated", index, how, value)

    def __pirkit_apply__(self, name: str, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a method of a captured tensor that has this value as an argument."""
        b = self.recording
        if name == "subscript":
            tensor, index = given
            return subscript(b, b.value(tensor), index)
        return apply_function(b, name, given, options)

    def __delitem__(self, index: Any) -> NoReturn:
        self._refuse("`del` of elements", "take the elements to keep: `x[1:]`")

    def __len__(self) -> int:
        if not self.rank:
            self._refuse("`len()`", "its `size` is 1")
        if self.shape[0] < 0:
            self._refuse("`len()`", "its size is unknown until it runs; `v.shape[0]` is -1")
        return self.shape[0]

    @property
    def size(self) -> int:
        """Number of elements. Raises TraceError where a size is unknown until it runs."""
        if UNKNOWN in self.shape:
            self._refuse("`size`", "`pirkit.ops.numel(v)` counts elements when it runs")
        return prod(self.shape)

    def __iter__(self) -> Iterator[TracedValue]:
        if not self.rank:
            self._refuse("iteration", "it is one number: use it as it is")
        return (self[i] for i in range(len(self)))

    def __reversed__(self) -> Iterator[TracedValue]:
        return (self[i] for i in reversed(range(len(self))))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def astype(self, dtype: DTypeLike, copy: bool = True) -> TracedValue:
        """The elements converted as Paddle's cast does."""
        return cast(TracedValue, self.recording.cast(self, element_type(dtype)))

    def copy(self) -> TracedValue:
        """The value itself, because values are immutable."""
        return self

    def __copy__(self) -> TracedValue:
        return self

    def __deepcopy__(self, memo: Any) -> TracedValue:
        return self

    # --- Python's numbers ---

    def __bool__(self) -> bool:
        if self.meta.numel != 1:
            self._refuse("the truth", "use `any()` or `all()`")
        try:
            return bool(self._known("the truth", _CHOOSE))
        except TraceError as error:
            cast(Recording, self.b).undecided = error
            raise

    def __int__(self) -> int:
        return int(self._one("`int()`"))

    def __index__(self) -> int:
        if not (self.dtype.is_integer and not self.rank):
            self._refuse("an index", "an index is an integer without dimensions")
        return int(self._one("an index"))

    def __float__(self) -> float:
        return float(self._lossless("`float()`"))

    def __complex__(self) -> complex:
        return complex(self._lossless("`complex()`"))

    def item(self) -> Any:
        """The only element, an integer or a boolean.

        Raises TraceError for floating and complex numbers, whose derivative would be lost.
        """
        return self._lossless("`item()`").item()

    def tolist(self) -> Any:
        """The elements in nested lists. Raises TraceError as `item` does."""
        return self._array("`tolist()`").tolist()

    def numpy(self) -> Array:
        """The elements as an array. Raises TraceError as `item` does."""
        return self._array("`numpy()`")

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Array:
        return np.array(self._array("a numpy array"), dtype=dtype)

    def _one(self, what: str) -> Array:
        if self.meta.numel != 1:
            self._refuse(what, "take one: `v[0]`")
        return self._known(what, "keep the computation in operators and `pirkit.ops`").reshape(())

    def _lossless(self, what: str) -> Array:
        self._keep_derivative(what)
        return self._one(what)

    def _array(self, what: str) -> Array:
        self._keep_derivative(what)
        return self._known(
            what,
            "keep the computation in operators and `pirkit.ops`; of an array of numpy,"
            " `pirkit.from_numpy(array)[v]` takes elements, and `.at[i].set(v)` of it writes them",
        )

    def _keep_derivative(self, what: str) -> None:
        if self.dtype.is_float or self.dtype.is_complex:
            self._refuse(
                what,
                "its derivative would be lost: for functions of `math` and `numpy` take those of"
                " `pirkit.ops`, and `pirkit.numpy.array` for `numpy.array`; for `array[i] = v`"
                " `array = pirkit.from_numpy(array).at[i].set(v)`; to return a number beside the"
                " result use `has_aux=True`",
            )

    def _known(self, what: str, help: str) -> Array:
        known = self.recording.known
        if known is None:
            self._refuse(what, f"it is known only when the program runs: {help}")
        return known.array(self.ssa)

    def _refuse(self, what: str, help: str) -> NoReturn:
        raise TraceError(
            f"{what} {'' if what.endswith(' by') else 'of '}a traced {self.meta}",
            span=user_span(),
            help=help,
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # a protocol that another library looks for
            raise AttributeError(name)
        close = get_close_matches(name, dir(type(self)), n=1)
        help = _INSTEAD.get(name)
        if help is None and find(f"pd_op.{name}") is not None:
            help = f"it is a function: `pirkit.ops.{name}(v)`"
        if help is None and close:
            help = f"did you mean `{close[0]}`?"
        raise MissingAttributeError(
            f"attribute `{name}` of a traced {self.meta}", span=user_span(),
            help=help or "it has numpy's methods, and `pirkit.ops` has functions of tensors",
        )  # fmt: skip

    def __hash__(self) -> int:
        self._refuse(
            "the hash, for a dict or a set,",
            "`==` compares elements; use `id(v)`, or a name of your own, as the key",
        )

    def __repr__(self) -> str:
        return f"Traced({self.any_meta})"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        return format(self._one("a format").item(), spec)


class WeakValue(TracedValue):
    """A traced Python number: an argument, or a result that is computed from such numbers alone.

    By itself it is a float32, int64 or complex64 tensor. Beside another tensor it takes the type
    that a Python number would take, and is converted to it from ``wide``, which is not rounded.
    """

    __slots__ = ("weak", "wide")

    def __init__(self, wide: Value, strong: Value, weak: type[Any]) -> None:
        super().__init__(strong.b, strong.ssa)
        self.wide = wide
        self.weak = weak


def _of_numbers(b: Recording, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """The result of a ufunc of Python numbers and of traced ones."""
    found: Any = apply_ufunc(b, ufunc, [getattr(x, "wide", x) for x in inputs])
    if isinstance(found, tuple):
        return tuple([_as_number(b, v) for v in cast("tuple[Value, ...]", found)])
    return _as_number(b, found)


def _as_number(b: Recording, wide: Value) -> Value:
    alone = _ALONE.get(wide.dtype.np.kind)
    return wide if alone is None else WeakValue(wide, b.cast(wide, alone[1]), alone[0])


_ALONE: Final = {"i": (int, dt.int64), "f": (float, dt.float32), "c": (complex, dt.complex64)}
"""Python's type and the element type of a number that stands beside no tensor, by kind."""

_CHOOSE: Final = (
    "convert the function by `pirkit.to_static`; or choose with `pirkit.where(condition, x, y)` or"
    " `pirkit.cond`, repeat with `pirkit.while_loop`"
)


def _is_operand(value: Any) -> bool:
    """True for operands that operators accept; for others they return NotImplemented."""
    known = isinstance(value, Value | DenseTensor | np.ndarray | np.generic | list | tuple)
    return known or is_number(value) or hasattr(value, "__array__")


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of ``x`` where the condition holds, else of ``y``; the three are broadcast.

    Tensors and arrays are computed; traced values are recorded, with gradients for ``x`` and ``y``.
    The element type is numpy's for the two.
    """
    traced = next((v for v in (condition, x, y) if isinstance(v, TracedValue)), None)
    if traced is not None:
        return apply_function(cast(Recording, traced.b), "where", (condition, x, y), {})
    tensor = next((v for v in (condition, x, y) if isinstance(v, DenseTensor)), None)
    if tensor is not None:
        return lifted(tensor.array_module.where, DenseTensor)(condition, x, y)
    return DenseTensor(np.asarray(cast(Any, np.where(condition, x, y))))

"""The names of ``pirkit.numpy``: the functions of the array API standard, and others of numpy.

A tensor's elements are a numpy array, and numpy 2 conforms to the standard, so on tensors each
function calls numpy's. On a traced value the rule in `numpy_rules` or `numpy_ufuncs` records ops.
``_OWN`` has the functions whose computation differs from numpy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import CallError, UnsupportedError
from pirkit.dialect.build import Builder
from pirkit.frontend import array_types
from pirkit.frontend.array_signatures import OLDER, ROWS, VERSION, signature_of
from pirkit.frontend.numpy_functions import apply_function
from pirkit.frontend.numpy_rules import FUNCTIONS
from pirkit.frontend.numpy_ufuncs import UFUNCS, refused
from pirkit.frontend.traced_value import TracedValue
from pirkit.runtime.place import Place
from pirkit.runtime.tensor import array_api
from pirkit.runtime.tensor.conversion import from_dlpack
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type

CONSTANTS: Final[Mapping[str, Any]] = {n: getattr(np, n) for n in "e inf nan newaxis pi".split()}
"""The constants of the standard."""

DATA_DEPENDENT: Final = {
    "nonzero": "`where(mask, x, 0)` keeps the shape",
    "unique_all": "`sort` keeps the shape",
    "unique_counts": "`sort` keeps the shape",
    "unique_inverse": "`sort` keeps the shape",
    "unique_values": "`sort` keeps the shape",
}
"""Functions whose result shape depends on elements, and what to use instead in a trace."""


class ArrayFunction:
    """A function of the array API. Raises CallError (PK0701) for arguments that it does not take.

    On tensors, arrays and numbers it computes, and raises what numpy raises. On traced values it is
    recorded; it raises TraceError (PK0706) if it has no op, or if the shape of its result depends
    on elements. Arguments that numpy's function of that name takes are accepted as well.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = name.rpartition(".")[2]
        self.__qualname__ = name
        self.__module__ = "pirkit.numpy"
        self.__signature__ = signature_of(name)
        self.__doc__ = f"``{name}{self.__signature__}`` of the array API standard {VERSION}."
        kinds = [p.kind for p in self.__signature__.parameters.values()]
        # A call with exactly these arguments needs no `Signature.bind`, which takes microseconds.
        self._count = kinds.count(Parameter.POSITIONAL_ONLY)
        self._takes_tensor = next(iter(self.__signature__.parameters)) in ("x", "x1", "obj")
        self._defaults = {k: p.default for k, p in self.__signature__.parameters.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != self._count:
            try:
                args, kwargs = self._sorted(args, kwargs)
            except CallError:
                if not _numpy_takes(self.name, args, kwargs):
                    raise
                return NumpyFunction(self.name)(*args, **kwargs)  # `sum(x, 0)`, `std(x, ddof=1)`
        traced = next((v for v in _flat((*args, *kwargs.values())) if _is_traced(v)), None)
        if traced is not None:
            device = kwargs.pop("device", None)
            if device not in (None, "cpu"):
                raise refused(f"`{self.name}` on {device}", "a program has one device")
            return self._recorded(traced.recording, args, kwargs)
        place = kwargs.pop("device", None)
        found = self._computed(args, kwargs)
        if place is None or not isinstance(found, DenseTensor):
            return found
        return found.to(_place(place))

    def _sorted(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the signature has them, without options that have their defaults.

        An option is left out so that rules need not have a parameter for it. Raises CallError.
        """
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise CallError(
                f"`{self.name}`: {error}", help=f"it is `{self.name}{self.__signature__}`"
            ) from error
        defaults = self._defaults
        return bound.args, {k: v for k, v in bound.kwargs.items() if v is not defaults[k]}

    def _computed(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self._takes_tensor and args and isinstance(args[0], str | bytes | dict | set | None):
            raise CallError(
                f"`{self.name}` takes a tensor, not a {type(cast(object, args[0])).__name__}",
                help=f"it is `{self.name}{self.__signature__}`",
            )
        own = _OWN.get(self.name)
        source = next((v for v in _flat(args) if isinstance(v, DenseTensor)), None)
        if own is not None:
            return own(*args, **kwargs)
        function = _of_module(source.array_module if source is not None else np, self.name)
        if kwargs.get("dtype") is not None:
            kwargs["dtype"] = element_type(kwargs["dtype"])
        with np.errstate(all="ignore"):
            found = array_api.lifted(function, DenseTensor)(*args, **kwargs)
        if self.name in _LISTS:
            found = list(found)
        return found if source is None else _viewed(found, source)

    def _recorded(self, b: Builder, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self.name in _TYPES:
            return _OWN[self.name](*args, **kwargs)
        ufunc = getattr(np, self.name, None)
        if self.name not in FUNCTIONS and isinstance(ufunc, np.ufunc):
            return ufunc(*args)  # a traced operand records the call
        if self.name not in FUNCTIONS and self.name in DATA_DEPENDENT:
            raise refused(
                f"`{self.name}` of a traced value: the shape of its result depends on its elements",
                DATA_DEPENDENT[self.name],
            )
        return apply_function(b, self.name, args, kwargs)

    def __repr__(self) -> str:
        return f"<function pirkit.numpy.{self.name}{self.__signature__}>"


class NumpyFunction:
    """A function of numpy that is not in the standard, or called with numpy's parameters.

    On tensors, arrays and numbers it computes, and raises what numpy raises; on traced values it is
    recorded, and raises TraceError (PK0706) for parameters that no op has.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = self.__qualname__ = name
        self.__module__ = "pirkit.numpy"
        self._function = _of_module(cast(Any, np), name)
        self.__doc__ = f"numpy's function `{name}`, on tensors and traced values as well."

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        traced = next((v for v in _flat((*args, *kwargs.values())) if _is_traced(v)), None)
        if traced is None:
            with np.errstate(all="ignore"):
                return array_api.lifted(self._function, DenseTensor)(*args, **kwargs)
        if self.name not in FUNCTIONS:
            return self._function(*args, **kwargs)  # by `__array_function__` of the value
        return apply_function(traced.recording, self.name, args, kwargs)

    def __repr__(self) -> str:
        return f"<function pirkit.numpy.{self.name}, as numpy's>"


@cache
def _numpy_signature(name: str) -> Signature | None:
    try:
        return signature(_of_module(cast(Any, np), name))
    except (AttributeError, TypeError, ValueError):
        return None  # numpy has no such function, or it is C code without a signature


def _numpy_takes(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether numpy's function of that name takes such arguments, by its signature."""
    known = _numpy_signature(name)
    if known is None:
        return False
    try:
        known.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


_LISTS: Final = ("broadcast_arrays", "meshgrid")
"""Functions that give a list by the standard, and a tuple in numpy."""


def _is_traced(value: Any) -> bool:
    return isinstance(value, TracedValue)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(cast("list[Any]", value))
        else:
            yield value


def _viewed(found: Any, source: DenseTensor) -> Any:
    """Results of numpy as tensors; those that are views share the buffer of ``source``.

    Then a write to one of them is a write to the other, as for numpy's views.
    """
    if isinstance(found, DenseTensor):
        return source.view_of(found.array) if found.array.base is not None else found
    if type(found) in (list, tuple):
        items = [_viewed(v, source) for v in cast("list[Any]", found)]
        return items if isinstance(found, list) else tuple(items)
    return found


@cache
def _of_module(module: ModuleType, name: str) -> Callable[..., Any]:
    for part in name.split("."):
        module = getattr(module, part)
    return cast("Callable[..., Any]", module)


def _place(device: Any) -> Place:
    return Place(device) if isinstance(device, str) else device


# --- functions that differ from numpy's ----------------------------------------------------------


def _asarray(obj: Any, *, dtype: DTypeLike | None = None, copy: bool | None = None) -> DenseTensor:
    wanted = None if dtype is None else element_type(dtype).np
    if isinstance(obj, DenseTensor):
        if copy is False and wanted not in (None, obj.dtype.np):
            raise ValueError(f"a {obj.dtype} tensor as {wanted} is a copy, which `copy=False` bars")
        return obj.astype(wanted or obj.dtype) if not copy else DenseTensor(_copied(obj, wanted))
    return DenseTensor(_known(np.array(obj, dtype=wanted, copy=copy)))


def _copied(x: DenseTensor, dtype: Any) -> Any:
    return x.array.astype(dtype or x.array.dtype, copy=True)


def _known(array: Any) -> Any:
    """The array, if tensors have its element type. Raises UnsupportedError otherwise."""
    element_type(array.dtype)
    return array


def _astype(x: Any, dtype: DTypeLike, *, copy: bool = True) -> DenseTensor:
    given = x if isinstance(x, DenseTensor) else _asarray(x)
    found = given.astype(dtype)
    return found.copy() if copy and found is given else found


def _sort(x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True) -> DenseTensor:
    array = np.sort(array_api.unwrap(x), axis=axis, stable=True)
    return DenseTensor(np.flip(array, axis=axis).copy() if descending else array)


def _clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Numpy's function takes both limits, or neither."""
    with np.errstate(all="ignore"):
        return array_api.lifted(np.clip, DenseTensor)(x, min, max)


def _argsort(
    x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> DenseTensor:
    array = np.asarray(array_api.unwrap(x))
    if not descending:
        return DenseTensor(np.argsort(array, axis=axis, stable=True))
    # Sorting the flipped array and flipping back leaves equal elements in their order.
    places = np.argsort(np.flip(array, axis=axis), axis=axis, stable=True)
    return DenseTensor(array.shape[axis] - 1 - np.flip(places, axis=axis))


def _frequencies(name: str) -> Callable[..., DenseTensor]:
    def function(n: int, *, d: float = 1.0, dtype: DTypeLike | None = None) -> DenseTensor:
        found = DenseTensor(getattr(np.fft, name)(n, d))
        return found if dtype is None else found.astype(dtype)

    return function


_TYPES: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(array_types, name)
    for name in ("can_cast", "finfo", "iinfo", "isdtype", "result_type")
}
"""Functions of element types, or of values of which they read the element types alone."""

_OWN: Final[dict[str, Callable[..., Any]]] = {
    **_TYPES,
    "asarray": _asarray,
    "astype": _astype,
    "argsort": _argsort,
    "clip": _clip,
    "fft.fftfreq": _frequencies("fftfreq"),
    "fft.rfftfreq": _frequencies("rfftfreq"),
    "from_dlpack": from_dlpack,
    "sort": _sort,
}


# --- the namespace -------------------------------------------------------------------------------


def _functions(prefix: str) -> dict[str, Any]:
    named = {n.removeprefix(prefix): n for n in ROWS if n.startswith(prefix)}
    return {short: ArrayFunction(name) for short, name in named.items() if "." not in short}


_OTHERS: Final = """
    amax amin argwhere array ascontiguousarray bincount diag_indices flatnonzero frexp fromfunction
    gcd geomspace identity indices intersect1d lcm logspace setdiff1d tri tril_indices triu_indices
    union1d unique
"""
"""Functions of numpy that are neither in the standard nor in `FUNCTIONS`, offered all the same."""


def _aliases(prefix: str) -> dict[str, Any]:
    """The functions of numpy that the standard does not have, under a prefix (``linalg.``, "")."""
    ufuncs = {n for n, f in vars(np).items() if isinstance(f, np.ufunc) and f in UFUNCS}
    every = {*FUNCTIONS, *ufuncs, *_OTHERS.split()}
    named = {n.removeprefix(prefix): n for n in sorted(every) if n.startswith(prefix)}
    known = {s: n for s, n in named.items() if "." not in s and n not in ROWS}
    return {s: NumpyFunction(n) for s, n in known.items() if hasattr(_holder(prefix), s)}


def _holder(prefix: str) -> Any:
    return getattr(np, prefix.removesuffix(".")) if prefix else np


NAMES: Final[dict[str, Any]] = {
    **_aliases(""),
    **_functions(""),
    **CONSTANTS,
    **array_types.DTYPES,
    "__array_api_version__": VERSION,
    "__array_namespace_info__": array_types.NamespaceInfo,
}
"""Every name of the namespace, except those of the extensions."""

EXTENSIONS: Final = {n: {**_aliases(f"{n}."), **_functions(f"{n}.")} for n in ("fft", "linalg")}
"""The names of the extensions ``fft`` and ``linalg``."""


def check_version(version: str | None) -> None:
    """Raise UnsupportedError (PK0400) for an unknown version of the standard; None is any."""
    if version not in (None, *OLDER, VERSION):
        raise UnsupportedError(
            f"version {version} of the array API", help=f"known are {', '.join((*OLDER, VERSION))}"
        )

"""The dense tensor: an array with a meta, a place, and a buffer with a version counter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Final, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from pirkit.diag.errors import (
    ArgumentError,
    RuntimeFault,
    SubscriptError,
    TraceError,
    UnsupportedError,
)
from pirkit.diag.html import listing
from pirkit.runtime.convert import HALF_TYPES, convert, in_f32
from pirkit.runtime.dtype import DType, of_numpy
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import CPU, Place
from pirkit.runtime.tensor import array_api, dlpack
from pirkit.runtime.tensor.buffer import Array, Buffer, address_of, is_numpy, place_of
from pirkit.runtime.tensor.meta_cache import DTypeLike, element_type, meta_of
from pirkit.runtime.tensor.methods import TensorMethods
from pirkit.runtime.tensor.updates import update

_GPU: Final = 2
"""The number that DLPack gives to CUDA devices."""

_WRITABLE: Final = 1
"""The flag of the buffer protocol for memory that is to be written."""


_FAULTS: Final = (IndexError, OverflowError, ValueError, RecursionError, MemoryError)
"""What numpy raises for a bad subscript; the last two for lists that are too deep or too long."""


class DenseTensor(array_api.Wrapped, NDArrayOperatorsMixin, TensorMethods):
    """A dense tensor: elements of one type in the memory of one place.

    Creating one is cheap: meta and buffer are computed on demand. ``array`` is the numpy or cupy
    array that kernels get; a tensor never changes its array. Writes through :meth:`mutable` (as in
    ``t[...] = x`` and ``t += x``) increment ``version``, which views share. Operators have numpy's
    semantics; ``pirkit.ops`` has Paddle's.
    """

    __slots__ = ("__weakref__", "_buffer", "_meta", "array")

    kind: ClassVar[str] = "dense"
    __array_priority__: ClassVar[float] = 100.0

    def __init__(
        self, array: Array, buffer: Buffer | None = None, meta: TensorMeta | None = None
    ) -> None:
        self.array = array
        self._meta = meta
        if buffer is not None:  # most tensors never need it, and creating them has to be cheap
            self._buffer = buffer

    # --- properties ---

    @property
    def meta(self) -> TensorMeta:
        """Shape and element type; equal metas of live tensors are one object."""
        meta = self._meta
        if meta is None:
            meta = self._meta = meta_of(self.array.shape, self.array.dtype)
        return meta

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> DType:
        return self.meta.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.array.size

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes, for each axis."""
        return self.array.strides

    @property
    def place(self) -> Place:
        return place_of(self.array)

    device = place
    """The array API's word for ``place``."""

    @property
    def is_contiguous(self) -> bool:
        """True if the elements are C-contiguous."""
        return self.array.flags.c_contiguous

    # --- memory ---

    @property
    def buffer(self) -> Buffer:
        """The memory that it shares with its views."""
        try:
            return self._buffer
        except AttributeError:
            self._buffer = Buffer.of_array(self.array)
            return self._buffer

    @property
    def address(self) -> int:
        """The address of the first element."""
        return address_of(self.array)

    @property
    def offset(self) -> int:
        """Bytes from the start of the buffer to the first element."""
        return self.address - self.buffer.address

    @property
    def writable(self) -> bool:
        return not is_numpy(self.array) or self.array.flags.writeable

    @property
    def version(self) -> int:
        """The number of writes to its buffer, through it or another tensor."""
        return self.buffer.version

    def mutable(self) -> Array:
        """The array, for writing; counts as one write. Raises RuntimeFault if it is read-only."""
        if not self.writable:
            raise RuntimeFault(
                "a read-only tensor is to be written", help="write to a `copy()` of it"
            )
        self.buffer.version += 1
        return self.array

    def view_of(self, array: Array) -> DenseTensor:
        """A tensor of an array derived from this one's; a view shares the buffer."""
        if not self.array_module.may_share_memory(array, self.array):
            return DenseTensor(array)
        return DenseTensor(array, self.buffer)

    # --- derived tensors ---

    def __getitem__(self, index: Any) -> DenseTensor:
        """Indexing as numpy's; always a tensor, and a view where numpy gives one."""
        key = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        try:
            key = array_api.unwrap(key)
            if not any(part is Ellipsis for part in key):
                key = (*key, Ellipsis)  # without it, numpy returns a single element as a copy
            return self.view_of(self.array[key])
        except TraceError:
            traced = next(_traced(key), None)
            if traced is None:
                raise
            return traced.__pirkit_apply__("subscript", (self, key), {})
        except _FAULTS as error:
            raise self._lacks(error) from error

    def __setitem__(self, index: Any, value: Any) -> None:
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        if (traced := next(_traced((*parts, value)), None)) is not None:
            traced[index] = value  # raises an error with the line and the remedy
        target, index, value = self.mutable(), array_api.unwrap(index), array_api.unwrap(value)
        try:
            target[index] = value
        except (IndexError, OverflowError) as error:
            raise self._lacks(error) from error
        except (TypeError, ValueError) as error:
            raise self._not_stored(error) from error

    def _lacks(self, error: Exception) -> SubscriptError:
        return SubscriptError(
            f"subscript of a {self.meta}: {error}",
            help="a subscript is an integer, a slice, `...`, None, integers in an array, or a mask",
        )

    def _not_stored(self, error: Exception) -> ArgumentError:
        return ArgumentError(
            f"cannot store into a subscript of a {self.meta}: {error}",
            help="a value is a number or an array that broadcasts to the elements it replaces",
        )

    def updated(self, index: tuple[Any, ...], how: str, value: Any) -> Any:
        """A copy with elements updated; see `x.at`."""
        if (traced := next(_traced((*index, value)), None)) is not None:
            return traced.__pirkit_apply__("updated", (self, index, how, value), {})
        given = array_api.unwrap(value)
        try:
            return DenseTensor(update(self.array, array_api.unwrap(index), how, given))
        except (IndexError, OverflowError) as error:
            raise self._lacks(error) from error
        except (TypeError, ValueError) as error:
            raise self._not_stored(error) from error

    def _apply(self, name: str, *arguments: Any, **options: Any) -> Any:
        if (traced := next(_traced((*arguments, *options.values())), None)) is not None:
            return traced.__pirkit_apply__(name, (self, *arguments), options)
        made = array_api.lifted(getattr(self.array_module, name), DenseTensor)(
            self, *arguments, **options
        )
        return self.view_of(made.array)

    def flatten(self, order: Any = "C") -> DenseTensor:
        """A copy of the elements along one axis."""
        return DenseTensor(self.array.flatten(order))

    def copy(self) -> DenseTensor:
        """A copy with memory of its own."""
        return DenseTensor(self.array.copy())

    def contiguous(self) -> DenseTensor:
        """Itself if it is C-contiguous, else a C-contiguous copy."""
        return self if self.is_contiguous else DenseTensor(self.array.copy(order="C"))

    def astype(self, dtype: DTypeLike) -> DenseTensor:
        """The elements converted as by Paddle's `cast`; itself if it has that type already."""
        wanted = element_type(dtype)
        if wanted.np == self.array.dtype:
            return self
        return DenseTensor(convert(self.array, wanted))

    def to(self, place: Place | str) -> DenseTensor:
        """The tensor at a place, or at the first one of a kind: itself if it is there, else a copy.

        Raises UnsupportedError for a place of another kind than ``cpu`` and ``gpu``, and for a GPU
        if cupy is not installed.
        """
        place = Place(place) if isinstance(place, str) else place
        if place == self.place:
            return self
        if place == CPU:
            return DenseTensor(self.array.get())
        cupy = _cupy(place)
        with cupy.cuda.Device(place.device):
            return DenseTensor(cupy.asarray(self.array))

    def to_device(self, device: Place | str, /, *, stream: None = None) -> DenseTensor:
        """The array API's word for :meth:`to`."""
        return self.to(device)

    # --- Python values ---

    def numpy(self) -> Array:
        """The elements as a numpy array, which shares memory on the CPU and is a copy otherwise.

        Writes into the result are not counted.
        """
        return self.to(CPU).array

    def item(self, *index: Any) -> Any:
        """The only element, or that at an index, as a Python number. Raises ValueError if there are
        several."""
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.numpy().tolist()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[DenseTensor]:
        if not self.ndim:
            raise TypeError("a 0-D tensor has nothing to iterate over")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        """Whether an element is equal to a value, as for numpy's arrays."""
        return bool((self == value).any())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return self.numpy().__index__()

    def __repr__(self) -> str:
        shape = list(self.shape)
        elements = np.array2string(self.numpy(), separator=", ", threshold=100, prefix="       ")
        return f"Tensor(shape={shape}, dtype={self.dtype}, place={self.place},\n       {elements})"

    def __format__(self, spec: str) -> str:
        """Format the only element as Python does; without a specification, as `str`."""
        return format(self.item(), spec) if spec and self.size == 1 else format(str(self), spec)

    def block_until_ready(self) -> DenseTensor:
        """The tensor itself, as results are there when a call returns; for programs of JAX."""
        return self

    def _repr_html_(self) -> str:
        elements = np.array2string(self.numpy(), separator=", ", threshold=100)
        return listing(f"Tensor of shape {self.shape}, {self.dtype}, {self.place}", elements)

    def __hash__(self) -> int:
        # `==` is elementwise, so sets and dicts compare tensors by identity.
        return id(self)

    def __copy__(self) -> DenseTensor:
        """As of numpy's arrays, a copy has memory of its own."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied buffer would describe, and keep alive, memory of the original.
        return DenseTensor, (self.array,)

    # --- protocols ---

    def __array__(
        self, dtype: np.dtype[Any] | None = None, *, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if copy is False and not self.place.on_host:
            raise ValueError("a tensor on a GPU cannot become a numpy array without a copy")
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __jax_array__(self) -> Any:
        """What `jax.numpy.asarray` takes, which refuses types that are not numpy's: a copy, as
        arrays of JAX never change.
        """
        return import_module("jax.numpy").array(self.numpy())

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # The interface cannot express the types of `ml_dtypes`; numpy then uses `__array__`.
        if not is_numpy(self.array) or self.array.dtype.kind not in "biufc":
            raise AttributeError("__array_interface__")
        return self.array.__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if is_numpy(self.array):
            raise AttributeError("__cuda_array_interface__")
        return self.array.__cuda_array_interface__

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory for Python's buffer protocol (for Python classes since 3.12).

        A writable buffer counts as a write. Raises BufferError for memory of a GPU, for a writable
        buffer of read-only memory, and for element types that the protocol cannot express.
        """
        if not is_numpy(self.array):
            raise BufferError("the memory of a GPU is no buffer")
        writes = bool(flags & _WRITABLE)
        if writes and not self.writable:
            raise BufferError("the tensor is read-only")
        try:
            view = memoryview(self.array)
        except ValueError as error:
            raise BufferError(f"a buffer cannot hold {self.dtype}") from error
        if writes:
            self.buffer.version += 1
        return view

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule that shares the memory; see ``dlpack.export`` for when it is copied."""
        export = (
            partial(dlpack.export, self.array) if is_numpy(self.array) else self.array.__dlpack__
        )
        return export(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU_DEVICE if self.place == CPU else (_GPU, self.place.device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """``pirkit.numpy``. Raises UnsupportedError for an unknown version of the standard."""
        namespace = import_module("pirkit.numpy")  # it records as well, so it lives far above
        namespace.check_version(api_version)
        return namespace

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any
    ) -> Any:
        """Numpy's functions on tensors return tensors; writes to ``out`` tensors are counted."""
        if not all(_is_operand(value) for value in (*inputs, *out)):
            return NotImplemented
        if out:
            options["out"] = tuple([_mutable(v) for v in out])
        if method == "at":
            _mutable(inputs[0])
        arrays = array_api.unwrap(inputs)
        if float in map(type, arrays):
            arrays = array_api.with_weak_numbers(arrays, (float,))
        apply = getattr(ufunc, method)
        if method in ("reduce", "accumulate") and not out and options.get("dtype") is None:
            apply = in_f32(apply)
        result = apply(*arrays, **array_api.unwrap(options))
        if out:
            if len(out) == 1:
                return out[0]
            made = array_api.wrap(result, DenseTensor)  # also what `out` has no place for
            return tuple([a if b is None else b for a, b in zip(made, out, strict=True)])
        if ufunc is np.matmul and result.dtype == np.float32:
            result = _rounded(result, arrays)
        return array_api.wrap(result, DenseTensor)

    @property
    def array_module(self) -> ModuleType:
        """The array module of its array: numpy or cupy."""
        return np if is_numpy(self.array) else import_module("cupy")


def _rounded(product: Array, arrays: Sequence[Array]) -> Array:
    """A matmul result in the type of its operands, as `ml_dtypes` leaves it in a wider type."""
    left, right = (cast(Any, getattr(a, "dtype", None)) for a in arrays)
    return product.astype(left) if left == right and of_numpy(left) in HALF_TYPES else product


def _traced(given: Any) -> Iterator[Any]:
    """The traced values among arguments or in an index, in lists and slices too."""
    if isinstance(given, slice):
        bounds = cast("slice[Any, Any, Any]", given)
        given = [bounds.start, bounds.stop, bounds.step]
    if isinstance(given, list | tuple):
        for part in cast("list[Any]", given):
            yield from _traced(part)
    elif hasattr(cast(object, given), "__pirkit_apply__"):
        yield given


def _mutable(value: Any) -> Any:
    return value.mutable() if isinstance(value, DenseTensor) else value


def _is_operand(value: Any) -> bool:
    """False for an object with its own ``__array_ufunc__``."""
    known = (np.ndarray.__array_ufunc__, DenseTensor.__array_ufunc__)
    return getattr(cast(Any, type(value)), "__array_ufunc__", known[0]) in known


def _cupy(place: Place) -> Any:
    if place.kind != "gpu":
        raise UnsupportedError(f"a tensor cannot be brought to {place}")
    try:
        return import_module("cupy")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"a tensor cannot be brought to {place} without cupy", help="install the extra `gpu`"
        ) from error


Tensor = DenseTensor
"""The public name, `pirkit.Tensor`."""

"""A stand-in for cupy on a machine without a GPU: numpy, with cupy's refusals.

Arrays of the device are a class of their own. A function that meets one beside an array of the host
raises TypeError, as cupy does; a kernel that computes with the wrong module, or brings a constant
along as an array of numpy's, is found out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

from pirkit.runtime import bessel, special_functions
from pirkit.runtime.gamma import gammaincc

HOST_TAKERS: Final = frozenset({"asarray", "array"})
"""Functions that bring arrays of the host to the device."""


class DeviceArray(np.ndarray):
    """An array of the device."""

    def get(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        return np.array(plain(self))

    def __getitem__(self, key: Any) -> Any:
        refuse_host(key)
        return super().__getitem__(plain(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse_host((key, value))
        super().__setitem__(plain(key), plain(value))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any
    ) -> Any:
        refuse_host((inputs, out))
        if out:
            options["out"] = plain(out)
        found = getattr(ufunc, method)(*plain(inputs), **plain(options))
        if not out:
            return on_device(found)
        return out[0] if len(out) == 1 else out

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        refuse_host((args, kwargs))
        found = func(*plain(args), **plain(kwargs))
        return kwargs["out"] if kwargs.get("out") is not None else on_device(found)


def _names() -> dict[str, frozenset[str]]:
    """The public names of cupy's modules, as its package has them."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("cupy_names.txt").read_text().splitlines()[1:]:
        if line.endswith(":"):
            found[line[:-1]] = names = []
        else:
            names += line.split()
    return {module: frozenset(names) for module, names in found.items()}


NAMES: Final = _names()


def offered(module: str, name: str) -> None:
    """Raise AttributeError, as cupy does, for a name that a module of it has not."""
    within = [known for known in NAMES if known.startswith(f"{module}.")]
    is_known = f"{module}.{name}" in within or any(
        k.startswith(f"{module}.{name}.") for k in within
    )
    if name not in NAMES.get(module, ()) and not is_known:
        raise AttributeError(f"module '{module}' has no attribute '{name}'")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        yield from _leaves(tuple(value.values()))
    else:
        yield value


def refuse_host(values: Any) -> None:
    for value in _leaves(values):
        if type(value) is np.ndarray:
            raise TypeError(f"Unsupported type {np.ndarray} (shape {value.shape})")


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list | tuple):
        changed = [_changed(v, change) for v in value]
        return changed if isinstance(value, list) else tuple(changed)
    if isinstance(value, dict):
        return {k: _changed(v, change) for k, v in value.items()}
    return change(value)


def plain(values: Any) -> Any:
    """Arrays of the device as numpy's, so that numpy computes."""
    return _changed(values, lambda v: v.view(np.ndarray) if isinstance(v, DeviceArray) else v)


def on_device(values: Any) -> Any:
    def taken(value: Any) -> Any:
        is_number = isinstance(value, np.generic)
        is_host = type(value) is np.ndarray or is_number
        return np.asarray(value).view(DeviceArray) if is_host else value

    return _changed(values, taken)


class _Function:
    """A function of numpy's that works on arrays of the device alone."""

    def __init__(self, function: Any, *, takes_host: bool = False) -> None:
        self.function = function
        self.takes_host = takes_host

    def __call__(self, *args: Any, **options: Any) -> Any:
        if not self.takes_host:
            refuse_host((args, options))
        found = self.function(*plain(args), **plain(options))
        return options["out"] if options.get("out") is not None else on_device(found)

    def __getattr__(self, name: str) -> Any:
        return _Function(getattr(self.function, name))


class _Memory:
    """A stretch of memory and an offset in it."""

    def __init__(self, block: Any, offset: int = 0) -> None:
        self.block = block
        self.offset = offset

    def __add__(self, count: int) -> _Memory:
        return _Memory(self.block, self.offset + count)


def _ndarray(shape: Sequence[int], dtype: Any, memory: _Memory) -> DeviceArray:
    return DeviceArray(tuple(shape), dtype, memory.block, memory.offset)


class FakeCupy(ModuleType):
    """The module."""

    def __init__(self) -> None:
        super().__init__("cupy")
        runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=OSError)
        self.cuda = SimpleNamespace(
            runtime=runtime, alloc=lambda n: _Memory(np.empty(n, np.uint8).data)
        )
        self.ndarray = _ndarray

    @staticmethod
    def asnumpy(array: Any) -> Any:
        return np.array(plain(array))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        offered("cupy", name)
        found = getattr(np, name)
        if isinstance(found, ModuleType):
            return _Submodule(found, f"cupy.{name}")
        if not callable(found) or isinstance(found, type):
            return found
        return _Function(found, takes_host=name in HOST_TAKERS)


class _Submodule:
    def __init__(self, module: ModuleType, name: str) -> None:
        self.module, self.name = module, name

    def __getattr__(self, name: str) -> Any:
        offered(self.name, name)
        found = getattr(self.module, name)
        is_module = isinstance(found, ModuleType)
        return _Submodule(found, f"{self.name}.{name}") if is_module else _Function(found)


def fake_cupyx() -> dict[str, Any]:
    """The modules of cupyx that kernels import, by name; the functions are those of the CPU."""
    module, scipy_special = ModuleType("cupyx"), ModuleType("cupyx.scipy.special")
    vars(module)["errstate"] = lambda **_: nullcontext()
    functions: dict[str, Any] = {
        "erf": special_functions.erf,
        "erfinv": bessel.erfinv,
        "gammaln": special_functions.lgamma,
        "digamma": special_functions.digamma,
        "i0e": partial(bessel.bessel_i, order=0, scaled=True),
        "i1e": partial(bessel.bessel_i, order=1, scaled=True),
        "polygamma": lambda n, x: bessel.polygamma(x, order=n),
        "gammaincc": gammaincc,
    }
    for name, function in functions.items():
        offered("cupyx.scipy.special", name)
        vars(scipy_special)[name] = _Function(function)
    return {"cupyx": module, "cupyx.scipy.special": scipy_special}

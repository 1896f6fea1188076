"""The registry of kernels: which callable computes an op, on which device, for which elements.

After Paddle's PHI (`paddle/phi/core/kernel_factory.h`, PR 34425): a kernel is found by its name
and a key of backend, layout and element type. Unlike there, a kernel may be replaced on purpose
(``override=True``), the reason of a choice is kept, and choosing happens once, when a plan is
bound.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Final, Literal

from pirkit.diag.errors import UnsupportedError, UsageError
from pirkit.diag.forks import renewed
from pirkit.diag.gc_pause import imported, is_imported
from pirkit.diag.plugin_additions import Origin, is_again, note_addition
from pirkit.diag.plugins import plugins
from pirkit.runtime.binding import HALF_TYPES, Bind, Binding, Step, widened
from pirkit.runtime.device import HOST, CupyDevice, Device
from pirkit.runtime.dtype import DType

PLUGINS: Final = "pirkit.kernels"
"""Entry point group: each entry is a function that takes the registry and adds to it."""

ANY: Final = "any"
"""The layout of a kernel that serves every layout."""

Form = Literal["out", "view", "new"]
"""How a step gives its results: writes into given arrays, as a view of its first input, or as new
arrays (which may share memory with inputs)."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Kernels that belong together: one library on one device.

    ``priority`` orders the backends of a device: the highest that has a kernel is taken, unless
    another one was asked for. ``load`` names the modules that register its kernels.
    """

    name: str
    device: str
    priority: int = 0
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelKey:
    """What a kernel serves: a backend, a layout (or ``any``), an element type."""

    backend: str
    layout: str
    dtype: DType

    def __str__(self) -> str:
        return f"({self.backend}, {self.layout}, {self.dtype})"


@dataclass(frozen=True, slots=True)
class Argument:
    """Where one operand or result of a kernel has to be, where it differs from the key.

    ``device`` is ``host`` for a tensor that the kernel reads while it is bound or on the CPU;
    ``dtype`` is the element type of a result that does not have the one of the key.
    """

    name: str
    device: str | None = None
    layout: str | None = None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """One registered kernel.

    ``inplace`` maps a result to the operands whose memory it may be given: the step has to be right
    also when both are the same array. ``kind`` is the class of tensors it takes (``dense``,
    ``selected_rows``, ``sparse_coo``, ``sparse_csr``, ``string``).
    """

    op: str
    key: KernelKey
    bind: Bind
    form: Form = "out"
    inplace: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    arguments: tuple[Argument, ...] = ()
    kind: str = "dense"
    portable: bool = False
    """True if the kernel asks ``Binding.xp`` for every function, so that it also serves GPUs."""
    source: str = ""
    """Module and name of the function that binds it."""

    def __call__(self, binding: Binding) -> Step | None:
        return self.bind(binding)


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel and why it was taken: one line for each step of the selection."""

    kernel: Kernel
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernel.op} {self.kernel.key}: {'; '.join(self.reasons)}"


REFERENCE: Final = "reference"
CPU: Final = "cpu"
NATIVE: Final = "native"
GPU: Final = "gpu"

_Slot = tuple[str, str]
"""Op and tensor kind."""


class Registry:
    """Kernels by op and key. One per process is enough (:data:`KERNELS`); tests make their own."""

    def __init__(
        self, backends: Iterable[Backend] = (), devices: Iterable[Device] = (HOST,)
    ) -> None:
        self._devices: dict[str, Device] = {d.name: d for d in devices}
        self._kernels: dict[_Slot, dict[KernelKey, Kernel]] = {}
        self._backends: dict[str, Backend] = {b.name: b for b in backends}
        self._origins: dict[tuple[_Slot, KernelKey], Origin] = {}
        self._loaded: set[str] = set()
        self._plugins_loaded = self._is_extending = False
        self._lock = renewed(RLock())

    # --- filling ---

    def add_device(self, device: Device) -> None:
        """Add a device. Raises ValueError for a name that is taken."""
        if device.name in self._devices:
            raise ValueError(f"there is a device {device.name!r} already")
        self._devices[device.name] = device

    def add_backend(self, backend: Backend) -> None:
        """Add a backend of a device.

        Raises ValueError for a name that is taken and for a device that does not exist.
        """
        if backend.name in self._backends:
            raise ValueError(f"there is a backend {backend.name!r} already")
        if backend.device not in self._devices:
            raise ValueError(f"backend {backend.name!r}: there is no device {backend.device!r}")
        self._backends[backend.name] = backend

    def add(self, kernel: Kernel, *, override: bool = False) -> None:
        """Register a kernel.

        Raises ValueError if another one has its op, key and kind, unless ``override``, and for a
        backend that does not exist.
        """
        if kernel.key.backend not in self._backends:
            raise ValueError(f"{kernel.op}: there is no backend {kernel.key.backend!r}")
        kernels_of_op = self._kernels.setdefault((kernel.op, kernel.kind), {})
        other = kernels_of_op.get(kernel.key)
        origin, slot = note_addition(__name__), ((kernel.op, kernel.kind), kernel.key)
        again = is_again(self._origins.get(slot), origin)
        if other is not None and not override and not again:
            raise ValueError(
                f"{kernel.op} has a kernel for {kernel.key} already: {other.source}; "
                "pass `override=True` to replace it"
            )
        kernels_of_op[kernel.key] = kernel
        self._origins[slot] = origin

    def kernel(
        self,
        *ops: str,
        backend: str = CPU,
        layout: str = ANY,
        dtypes: Sequence[DType],
        form: Form = "out",
        inplace: Mapping[str, str | tuple[str, ...]] | None = None,
        widen: bool = False,
        arguments: Sequence[Argument] = (),
        kind: str = "dense",
        portable: bool = False,
        override: bool = False,
    ) -> Callable[[Bind], Bind]:
        """Decorator: register a binding function for some ops and element types.

        ``widen`` makes the kernels for float16 and bfloat16 compute in float32 and
        round once. Op names without a dialect are those of ``pd_op``.
        """
        pairs = {k: (v,) if isinstance(v, str) else v for k, v in (inplace or {}).items()}

        def register(bind: Bind) -> Bind:
            source = f"{bind.__module__}.{getattr(bind, '__qualname__', type(bind).__name__)}"
            for op in ops:
                for dtype in dtypes:
                    is_widened = widen and dtype in HALF_TYPES
                    made = Kernel(
                        op=op if "." in op else f"pd_op.{op}",
                        key=KernelKey(backend, layout, dtype),
                        bind=widened(bind) if is_widened else bind,
                        form=form,
                        inplace=pairs,
                        arguments=tuple(arguments),
                        kind=kind,
                        portable=portable,
                        source=source,
                    )
                    self.add(made, override=override)
            return bind

        return register

    # --- looking ---

    @property
    def backends(self) -> tuple[Backend, ...]:
        self._load_plugins()
        return tuple(self._backends.values())

    def backend(self, name: str) -> Backend:
        """The backend of that name. Raises UsageError, with those there are, for another name."""
        self._load_plugins()
        found = self._backends.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self._backends, n=1)
            raise UsageError(
                f"there is no backend {name!r}",
                help=f"did you mean {near[0]!r}?"
                if near
                else f"backends are {', '.join(self._backends)}",
            )
        return found

    def device(self, backend: str) -> Device:
        """The device of a backend."""
        return self._devices[self.backend(backend).device]

    def kernels(
        self, op: str | None = None, *, kind: str = "dense", backend: str | None = None
    ) -> Iterator[Kernel]:
        """All kernels, or those of one op or of one backend, in the order of registration."""
        for each in self.backends if backend is None else (self.backend(backend),):
            self._load(each)
        if op is not None:
            groups = [self._kernels.get((op, kind), {})]
        else:
            groups = list(self._kernels.values())
        for kernels_of_op in groups:
            yield from (
                k for k in tuple(kernels_of_op.values()) if backend in (None, k.key.backend)
            )

    def candidates(
        self,
        op: str,
        dtype: DType,
        *,
        backend: str = CPU,
        layout: str = ANY,
        kind: str = "dense",
    ) -> Iterator[Choice]:
        """Kernels for an op on a backend, best first: exact layout, any layout, another library.

        A kernel may turn out not to serve a certain call, so there may be a next one. What follows
        when there is none (decompose the op, go to the CPU) is the caller's decision, since only
        it can see the program.
        """
        requested = self.backend(backend)
        reasons: list[str] = []
        for candidate in self._order(requested):
            self._load(candidate)
            kernels_of_op = self._kernels.get((op, kind), {})
            where = "" if candidate is requested else f" of the library `{candidate.name}`"
            exact = (
                kernels_of_op.get(KernelKey(candidate.name, layout, dtype))
                if layout != ANY
                else None
            )
            generic = kernels_of_op.get(KernelKey(candidate.name, ANY, dtype))
            if exact is not None:
                yield Choice(exact, (*reasons, f"exact layout {layout}{where}"))
            if generic is not None:
                yield Choice(generic, (*reasons, f"serves any layout{where}"))
            if exact is None and generic is None:
                reasons.append(self._missing(op, kind, candidate.name, dtype))

    def _missing(self, op: str, kind: str, backend: str, dtype: DType) -> str:
        others = sorted(
            {
                str(k.key.dtype)
                for k in tuple(self._kernels.get((op, kind), {}).values())
                if k.key.backend == backend
            }
        )
        if others:
            return f"`{backend}` has it for {', '.join(others)}, not for {dtype}"
        return f"`{backend}` has no kernel"

    def _order(self, requested: Backend) -> list[Backend]:
        same_device = [
            b
            for b in self._backends.values()
            if b.device == requested.device and b is not requested
        ]
        if requested.name == REFERENCE:
            return [requested]
        return [requested, *sorted(same_device, key=lambda b: -b.priority)]

    def _load(self, backend: Backend) -> None:
        if backend.name in self._loaded:
            return
        for module in backend.modules:
            imported(module)  # where another thread does so, this one waits for it
        if all(map(is_imported, backend.modules)):  # it is not where a kernel's module asks
            self._loaded.add(backend.name)

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        # they are imported before the lock is taken: an import may wait for one that asks for it
        found: list[Callable[[Registry], None]] = [entry.load() for entry in plugins(PLUGINS)]
        with self._lock:
            if not (self._plugins_loaded or self._is_extending):
                self._extend(found)

    def _extend(self, plugins: Sequence[Callable[[Registry], None]]) -> None:
        """Let plug-ins add to the registry: all of them, or nothing where one is interrupted."""
        self._is_extending = True  # what they ask the registry for is what there is so far
        before = dict(self._devices), dict(self._backends), dict(self._origins)
        kernels = {slot: dict(kernels_of_op) for slot, kernels_of_op in self._kernels.items()}
        try:
            for extend in plugins:
                extend(self)
            self._plugins_loaded = True
        except BaseException:
            self._devices, self._backends, self._origins = before
            self._kernels = kernels
            raise
        finally:
            self._is_extending = False


KERNELS: Final = Registry(
    (
        Backend(CPU, "cpu", priority=10, modules=("pirkit.runtime.kernels.numpy",)),
        Backend(REFERENCE, "cpu", priority=-10),
        Backend(GPU, "gpu", priority=10, modules=("pirkit.runtime.kernels.cupy",)),
    ),
    (HOST, CupyDevice()),
)
"""The kernels of this process."""

kernel: Final = KERNELS.kernel
"""Registers in :data:`KERNELS`; for the CPU unless a backend is given."""


def missing_kernel(op: str, dtype: DType, backend: str, reasons: Sequence[str]) -> UnsupportedError:
    """What to raise for an op that no kernel, library or decomposition serves."""
    return UnsupportedError(
        f"`{op}` has no kernel for {dtype} on `{backend}`",
        code="PK0402",
        notes=tuple(reasons),
        help="register one with `pirkit.runtime.registry.kernel`, or add a `decompose` rule",
    )


__all__ = [
    "ANY",
    "CPU",
    "GPU",
    "KERNELS",
    "REFERENCE",
    "Argument",
    "Backend",
    "Choice",
    "Kernel",
    "KernelKey",
    "Registry",
    "kernel",
    "missing_kernel",
]

"""The registry of kernels: which callable computes an op, on which device, for which elements.

After Paddle's PHI (`paddle/phi/core/kernel_factory.h`, PR 34425): a kernel is selected by its op
and a key of backend, layout and element type. Unlike there, a kernel may be replaced explicitly
(``override=True``), the reasons of a choice are recorded, and selection happens only once, when a
plan is bound.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Final, Literal

from msgspec import Struct, field

from pirkit.diag.errors import UnsupportedError, UsageError
from pirkit.diag.forks import renewed
from pirkit.diag.gc_pause import imported, is_imported
from pirkit.diag.plugin_additions import Origin, is_again, note_addition
from pirkit.diag.plugins import called, loaded, plugins
from pirkit.runtime import foreign_kernel
from pirkit.runtime.binding import HALF_TYPES, Bind, Binding, Step, widened
from pirkit.runtime.device import HOST, CupyDevice, Device
from pirkit.runtime.dtype import DType

PLUGINS: Final = "pirkit.kernels"
"""Entry point group of plug-ins: each entry is a function that extends the registry."""

ANY: Final = "any"
"""The layout of a kernel that supports every layout."""

Form = Literal["out", "view", "new"]
"""How a step returns its results: written into given arrays, as a view of its first input, or as
new arrays (which may share memory with inputs)."""


class Backend(Struct, frozen=True):
    """A library of kernels for one device.

    ``priority`` orders the backends of a device: unless another one is requested, the highest one
    that has a kernel is used. ``modules`` are the modules that register its kernels.
    """

    name: str
    device: str
    priority: int = 0
    modules: tuple[str, ...] = ()


class KernelKey(Struct, frozen=True):
    """The selection key of a kernel: a backend, a layout (or ``any``), an element type."""

    backend: str
    layout: str
    dtype: DType

    def __str__(self) -> str:
        return f"({self.backend}, {self.layout}, {self.dtype})"


class Argument(Struct, frozen=True):
    """Device, layout and element type of an operand or result, where they differ from the key.

    ``device`` is ``host`` for a tensor that the kernel reads during binding or on the CPU;
    ``dtype`` is the element type of a result, if it is not that of the key.
    """

    name: str
    device: str | None = None
    layout: str | None = None
    dtype: DType | None = None


class Kernel(Struct, frozen=True):
    """One registered kernel.

    ``inplace`` maps a result to the operands whose memory it may overwrite: the step must be
    correct if both are the same array. ``kind`` is the kind of tensors that it takes (``dense``,
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
    """True if the kernel uses only functions of ``Binding.xp``, so that it also runs on GPUs."""
    source: str = ""
    """Module and name of the function that binds it."""

    def __call__(self, binding: Binding) -> Step | None:
        if not self.source or self.source.startswith("pirkit."):
            return self.bind(binding)
        return foreign_kernel.bound(self.source, self.bind, binding, returns=self.form != "out")


class Choice(Struct, frozen=True):
    """A kernel and why it was selected: one line for each step of the selection."""

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
    """Kernels by op and key. A process has one (:data:`KERNELS`); tests create their own."""

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

    # --- registration ---

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

        Raises ValueError for an unknown backend, and, unless ``override``, if there is a kernel
        with the same op, key and kind.
        """
        backend = self._backends.get(kernel.key.backend)
        if backend is None:
            raise ValueError(f"{kernel.op}: there is no backend {kernel.key.backend!r}")
        if override:  # the kernel that it replaces must not be registered after it
            self._load(backend)
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

        With ``widen`` the kernels for float16 and bfloat16 compute in float32 and round once. Op
        names without a dialect are in ``pd_op``.
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

    # --- lookup ---

    @property
    def backends(self) -> tuple[Backend, ...]:
        self._load_plugins()
        return tuple(self._backends.values())

    def backend(self, name: str) -> Backend:
        """The backend of a name. Raises UsageError, listing all backends, for an unknown name."""
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
        self, op: str, dtype: DType, *, backend: str = CPU, layout: str = ANY, kind: str = "dense"
    ) -> Iterator[Choice]:
        """Kernels for an op on a backend, best first: exact layout, any layout, another library.

        A kernel may refuse a call when it is bound, so the caller tries the next one. If there is
        none, the caller decides (decomposition, fallback to the CPU), since only it has the
        program.
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
            imported(module)  # waits if another thread is importing it
        if all(map(is_imported, backend.modules)):  # false within the import of a kernel's module
            self._loaded.add(backend.name)

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        # import before taking the lock: an import may wait for a thread that waits for the lock
        found: list[Callable[[Registry], None]] = [loaded(e) for e in plugins(PLUGINS)]
        for backend in tuple(self._backends.values()) if found else ():
            self._load(backend)  # plug-ins may override its kernels
        with self._lock:
            if not (self._plugins_loaded or self._is_extending):
                self._extend(found)

    def _extend(self, plugins: Sequence[Callable[[Registry], None]]) -> None:
        """Run all plug-ins; if one is interrupted, the registry is restored."""
        self._is_extending = True  # plug-ins that use the registry see its current state
        before = dict(self._devices), dict(self._backends), dict(self._origins)
        kernels = {slot: dict(kernels_of_op) for slot, kernels_of_op in self._kernels.items()}
        try:
            for extend in plugins:
                called(extend, self)
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
"""The decorator of :data:`KERNELS`; it registers for the CPU unless a backend is given."""


def missing_kernel(op: str, dtype: DType, backend: str, reasons: Sequence[str]) -> UnsupportedError:
    """The error for an op without a kernel or decomposition."""
    return UnsupportedError(
        f"`{op}` has no kernel for {dtype} on `{backend}`",
        code="PK0402",
        notes=tuple(reasons),
        help="register one with `pirkit.runtime.registry.kernel`, or add a `decompose` rule",
    )


__all__ = [
    "ANY", "CPU", "GPU", "KERNELS", "REFERENCE", "Argument", "Backend", "Choice", "Kernel",
    "KernelKey", "Registry", "kernel", "missing_kernel",
]  # fmt: skip

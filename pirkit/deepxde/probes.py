"""Tensors that record what a model does with them.

A `Probe` has the shape and element type of a tensor and no content. While `Recording` is active,
each torch function that gets one, or a trainable variable, is recorded as operations of pirkit
(`torch_functions.py`); all other calls run in torch, and their results are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast
from weakref import ref

import numpy as np

import pirkit
from pirkit.deepxde.libtorch import overrides, torch
from pirkit.deepxde.programs import NotCovered
from pirkit.dialect.build import Value

Call = Callable[[Any, Any, str, Sequence[Any], Mapping[str, Any]], Any]
"""Records a call: (recording, function, its name, arguments, arguments by name) -> result."""

_IN_PLACE: Final = frozenset(
    "__setitem__ __iadd__ __isub__ __imul__ __itruediv__ __idiv__ __ipow__ __ifloordiv__ __imod__"
    " __iand__ __ior__ __ixor__ __ilshift__ __irshift__".split()
)

Array = np.ndarray[Any, Any]
Rows = tuple[int, int]
"""A range of rows of a tensor: the first one, and the one after the last."""

QUERIES: Final = frozenset(
    "dim size numel ndimension __hash__ __len__ is_floating_point is_complex element_size"
    " __repr__ __format__ is_contiguous stride type has_names get_device".split()
)
"""Functions of shape and type, which torch answers for a probe."""
_MODULE: Final = cast("dict[str, Any]", vars(torch.func))
_OF_GRADIENTS: Final = {"argnums": "argnums"}
_TRANSFORMS: Final[dict[str, dict[str, str]]] = {
    **dict.fromkeys(("grad", "hessian", "jacfwd", "jacrev"), _OF_GRADIENTS),
    "vmap": {"in_dims": "in_axes", "out_dims": "out_axes"},
}
"""Transforms of `torch.func` that pirkit computes: torch's names of arguments, and pirkit's."""
_COMPUTED: Final = frozenset("T mT H mH real imag".split())
"""Properties that are functions of the content."""

_PROPERTIES: Final = frozenset(
    "shape dtype ndim requires_grad is_leaf layout is_sparse is_meta is_quantized"
    " grad_fn names is_cuda is_mps is_nested".split()
)


class Probe(torch.Tensor):
    """A tensor without content, which stands for a value of a program.

    If ``rows`` is given, it stands for these rows of ``value`` only. What the model computes of
    them is computed of all rows, and sums leave the others out. So all points stay one batch.
    """

    value: Value
    rows: Rows | None
    family: list[Any]
    """Weak references to the probes that share memory in torch, shared by all of them."""

    @staticmethod
    def of(value: Value, rows: Rows | None = None) -> Probe:
        """A probe for a value."""
        shape = value.shape if rows is None else (rows[1] - rows[0], *value.shape[1:])
        kind = getattr(torch, np.dtype(value.dtype.np).name)
        blank = torch.empty(shape, dtype=kind, device="meta")
        probe = torch.Tensor._make_subclass(Probe, blank, False)
        probe.value, probe.rows, probe.family = value, rows, []
        return probe

    def shares_with(self, other: Probe) -> None:
        """Note that this probe is a view of another one."""
        if self is not other:
            self.family = other.family = other.family or [ref(other)]
            self.family.append(ref(self))

    @property
    def is_shared(self) -> bool:
        """Whether another tensor that is in use sees what is written into this one."""
        return any(t is not None and t is not self for t in [held() for held in self.family])


class Recording(overrides.TorchFunctionMode):
    """Records calls; ``variables`` are trainable tensors, by their id, with their values."""

    def __init__(self, variables: Mapping[int, Value], count: int, call: Call) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._call = call
        self.variables = variables
        self.count = count
        """The number of points: the rows of the inputs of the network."""
        self.kept: dict[int | tuple[int, Rows], tuple[Any, Any]] = {}
        """Constant tensors that the program reads, each with what it reads of them: by their id,
        or by it and the rows that are extended to all points."""
        self.made: dict[int, Any] = {}
        """Constants that were made while recording, by their id."""
        self.masks: dict[Any, Any] = {}
        """Arrays of masks, so that equal ones are one input."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        name = _name(func)
        if name != "requires_grad_" and not any(map(self.is_recorded, _tensors((args, named)))):
            return self._constants(func, name, args, named)
        if name == "device.__get__":
            return torch.device("cpu")
        if name in QUERIES or name.removesuffix(".__get__") in _PROPERTIES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **named)
        if name.endswith(".__get__") and name[:-8] not in _COMPUTED:
            raise NotCovered(f"`.{name[:-8]}` of a tensor is read")
        if _in_custom_forward():
            raise NotCovered("a `torch.autograd.Function` has a derivative of its own")
        found = self._call(self, func, name, args, named)
        return found if torch.is_grad_enabled() else _stopped(found)

    def _constants(
        self, func: Any, name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """Call a function of constants. Raises NotCovered if it writes into one of the model's."""
        written = named.get("out", args[0] if args and _writes(name) else None)
        if any(id(t) not in self.made for t in _tensors(written)):
            raise NotCovered(f"the model writes into a tensor of its own (`torch.{name}`)")
        found = func(*args, **named)
        self.made.update({id(t): t for t in _tensors(found)})
        return found

    def __enter__(self) -> Any:
        """Record from now on, and replace transforms of `torch.func`, which know no probes."""
        self._theirs = {name: getattr(torch.func, name) for name in ("jvp", *_TRANSFORMS)}
        _MODULE.update({name: partial(self.transformed, name) for name in _TRANSFORMS})
        torch.func.jvp, torch.vmap = self.jvp, torch.func.vmap
        return super().__enter__()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def __exit__(self, *error: Any) -> None:
        _MODULE.update(self._theirs)
        torch.vmap = torch.func.vmap
        super().__exit__(*error)  # pyright: ignore[reportUnknownMemberType]

    def jvp(self, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """``torch.func.jvp`` of a function of one tensor; NotCovered is raised for several."""
        if len(primals) != 1:
            raise NotCovered("`torch.func.jvp` of several tensors is not recorded")
        x, v = self.whole(primals[0]), self.whole(tangents[0])

        def values(value: Value) -> Any:
            return self.whole(f(Probe.of(value)))

        found = pirkit.jvp(values, (x,), (v,))
        return tuple(map(Probe.of, found))

    def transformed(self, name: str, f: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """A transform of ``torch.func`` by pirkit's; torch's own if no argument is recorded."""
        places = _TRANSFORMS[name]
        if not named.keys() <= places.keys() or len(given) > len(places):
            raise NotCovered(f"`torch.func.{name}` with other arguments is not recorded")
        named |= zip(places, given, strict=False)

        def values(*inner: Any) -> Any:
            return pirkit.tree.map(self.whole, f(*pirkit.tree.map(Probe.of, inner)))

        made = getattr(pirkit, name)(values, **{places[k]: v for k, v in named.items()})

        def call(*tensors: Any) -> Any:
            if not any(map(self.is_recorded, _tensors(tensors))):
                return self._theirs[name](f, **named)(*tensors)
            return pirkit.tree.map(Probe.of, made(*map(self.whole, tensors)))

        return call

    def is_recorded(self, tensor: Any) -> bool:
        """True for probes and trainable variables."""
        return isinstance(tensor, Probe) or id(tensor) in self.variables

    # --- operands ---

    def whole(self, given: Any) -> Any:
        """An operand as a value of just the rows that it stands for; numbers stay."""
        if isinstance(given, Probe) and given.rows is not None:
            begin, end = given.rows
            return given.value[begin:end]
        if isinstance(given, list | tuple):
            return [self.whole(v) for v in cast("list[Any]", given)]
        return self.lifted(given)

    def lifted(self, given: Any) -> Any:
        """A tensor as a value, of all rows."""
        if isinstance(given, Probe):
            return given.value
        if isinstance(given, torch.Tensor):
            if id(given) in self.variables:
                return self.variables[id(given)]
            return self._constant(given)
        return cast(Any, given).item() if isinstance(given, np.generic) else given

    def _constant(self, tensor: Any) -> Value:
        if tensor.is_meta:
            raise NotCovered("a tensor without content is read, such as one of `torch.func`")
        if tensor.requires_grad or tensor.layout != torch.strided or tensor.is_cuda:
            raise NotCovered("a tensor with a gradient of its own, or one that is sparse, is read")
        if id(tensor) not in self.kept:
            self.kept[id(tensor)] = (tensor, np.require(tensor.numpy(), requirements="C"))
        return self.captured(self.kept[id(tensor)][1])

    def entries(self, matrix: Any) -> tuple[Array, Array]:
        """Columns and values of the entries of a sparse matrix, by rows of one length (ELLPACK).

        Shorter rows end with zeros, so that sums need no scatter.
        """
        if id(matrix) not in self.kept:
            held = matrix.to_sparse().coalesce()  # of rows or columns, too
            (rows, columns), values = held.indices().numpy(), held.values().numpy()
            counts = np.bincount(rows, minlength=matrix.shape[0])
            within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            found = np.zeros((2, len(counts), counts.max(initial=1)))
            found[0, rows, within], found[1, rows, within] = columns, values
            entries = found[0].astype(np.int64), found[1].astype(values.dtype)
            self.kept[id(matrix)] = (matrix, entries)
        return self.kept[id(matrix)][1]

    def captured(self, array: Any) -> Value:
        """An array as an input of the program."""
        return next(iter(self.variables.values())).b.value(array)

    def padded(self, tensor: Any, rows: Rows) -> Value:
        """A constant of some rows, extended to all points by repeating its first and last row."""
        key = (id(tensor), rows)
        if key not in self.kept:
            if tensor.requires_grad:
                raise NotCovered("a tensor with a gradient of its own is read")
            widths = [(rows[0], self.count - rows[1])] + [(0, 0)] * (tensor.ndim - 1)
            mode: Any = "edge" if len(tensor) else "constant"  # zeros beside no rows at all
            self.kept[key] = (tensor, np.pad(tensor.numpy(), widths, mode=mode))
        return self.captured(self.kept[key][1])

    def mask(self, rows: Rows, like: Value) -> Value:
        """One in some rows, zero in the others, in a shape that broadcasts to ``like``."""
        if rows not in self.masks:
            held = np.zeros((self.count, 1), like.dtype.np)
            held[rows[0] : rows[1]] = 1
            self.masks[rows] = held
        found = self.captured(self.masks[rows])
        if like.rank == 2:
            return found
        return found.b.reshape(found, (self.count, *[1] * (like.rank - 1)))

    def place(self, index: int, count: int, like: Value) -> Value:
        """One at one of several places, zero at the others."""
        key = ("place", index, count)
        if key not in self.masks:
            self.masks[key] = np.eye(count, dtype=like.dtype.np)[index]
        return self.captured(self.masks[key])


def _writes(name: str) -> bool:
    """Whether a function writes into its first argument, as ``add_`` and ``__setitem__`` do."""
    if name.startswith("__"):
        return name in _IN_PLACE
    if "." in name:
        return name == "data.__set__"
    return name.endswith("_") and name != "requires_grad_"


def _in_custom_forward() -> bool:
    """Whether this is the forward of a `torch.autograd.Function`.

    There both reverse and forward mode are off, outside of inference mode.
    """
    return not (
        torch.is_grad_enabled()
        or torch._C._is_fwd_grad_enabled()
        or torch.is_inference_mode_enabled()
    )


def _stopped(found: Any) -> Any:
    """Results under ``torch.no_grad()``: no gradient flows through them."""
    if isinstance(found, Probe):
        return Probe.of(pirkit.stop_gradient(found.value), found.rows)
    if isinstance(found, list | tuple):
        parts = cast("list[Any]", found)
        kind: Any = type(parts)
        return kind(map(_stopped, parts))
    return found


def _name(func: Callable[..., Any]) -> str:
    plain = getattr(func, "__name__", "")
    if plain in ("__get__", "__set__"):
        return ".".join((overrides.resolve_name(func) or "").split(".")[-2:])
    return plain


def _tensors(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for part in cast("dict[Any, Any]", tree).values():
            yield from _tensors(part)
    elif isinstance(tree, list | tuple):
        for part in cast("list[Any]", tree):
            yield from _tensors(part)

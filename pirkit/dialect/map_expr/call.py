"""The call of an op as index rules see it, and the query for an op's index maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from xdsl.ir import SSAValue

from pirkit.dialect.infer import constants_of
from pirkit.dialect.map_expr.symbolic_shapes import Sizes
from pirkit.dialect.map_expr.tree import Load, Opaque, Value
from pirkit.dialect.opdef import PURE, OpDef, decompose, index_maps
from pirkit.dialect.operation import PirOp
from pirkit.dialect.signature import INT_KINDS
from pirkit.dialect.types import meta_of
from pirkit.index.extent import Undecided
from pirkit.index.index_maps import Index, space
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta

UNKNOWN_SIZE: Final = Opaque("a size is known only when the program runs", "guard")
UNKNOWN_ATTRIBUTE: Final = Opaque("an attribute is known only when the program runs")
UNDECLARED: Final = Opaque("nothing is said of its elements")
GRADIENT: Final = Opaque("it is a gradient: `expand-gradients` writes it in other ops")
NO_TENSOR: Final = Opaque("an operand or result is no dense tensor")


class MapCall:
    """Operands, results and attributes of a call; sizes are integers or symbolic.

    ``sizes`` creates symbols for derived sizes. Tensor operands are numbered in order (the
    ``source`` of a load); elements of lists count separately, absent operands do not count.
    """

    def __init__(
        self,
        definition: OpDef,
        operands: Sequence[Meta | None],
        results: Sequence[Meta | None],
        attrs: dict[str, Any],
        sizes: Sizes | None = None,
    ) -> None:
        self.definition = definition
        self.sizes = sizes or Sizes()
        self.attrs = attrs
        self.results = tuple([cast("TensorMeta | None", r) for r in results])
        self._first: dict[str, int | None] = {}
        self._metas: dict[str, tuple[TensorMeta, ...]] = {}
        count = 0
        tensors = [s for s in definition.operands if s.kind is None]
        for slot, meta in zip(tensors, operands, strict=True):
            items = meta.items if isinstance(meta, VecMeta) else (meta,) if meta else ()
            self._metas[slot.name] = cast("tuple[TensorMeta, ...]", items)
            self._first[slot.name] = count if items else None
            count += len(items)
        self.names = [s.name for s in tensors]

    @property
    def is_known(self) -> bool:
        """True if every size is an integer or a symbol."""
        operands = (m for items in self._metas.values() for m in items)
        return all(m is None or m.is_static for m in (*operands, *self.results))

    @property
    def out(self) -> TensorMeta:
        """The first result."""
        return cast(TensorMeta, self.results[0])

    def meta(self, name: str, item: int = 0) -> TensorMeta:
        """The meta of an operand, or of an element of a list."""
        return self._metas[name][item]

    def count(self, name: str) -> int:
        """The number of tensors of an operand."""
        return len(self._metas[name])

    def source(self, name: str, item: int = 0) -> int:
        """The number of a tensor operand."""
        return cast(int, self._first[name]) + item

    def load(self, name: str, index: Index, item: int = 0) -> Load:
        """The element of an operand at an index."""
        return Load(self.source(name, item), index)

    def here(self) -> Index:
        """The canonical iterators of the first result."""
        return space(self.out.shape)


def tensors_of(op: PirOp) -> list[SSAValue]:
    """The tensor operands of an op in the numbering of index rules; lists are expanded."""
    found: list[SSAValue] = []
    slots = op.definition.operands
    for position, value in enumerate(op.operand_slots):
        slot = slots[min(position, len(slots) - 1)]
        if slot.kind is not None or value is None:
            continue
        owner = value.owner
        if isinstance(owner, PirOp) and owner.name == "pir.combine":
            found += list(owner.operands)
        else:
            found.append(value)
    return found


Metas = Callable[[SSAValue], Meta | None]
"""The meta of a value, if known; its sizes may be symbolic."""


def declared(value: SSAValue) -> Meta | None:
    """The meta of a value's declared type."""
    return meta_of(value.type)


Numbers = Callable[[SSAValue], tuple[int, ...] | None]
"""The elements of an integer tensor as sizes; None if one is not known symbolically."""


def no_numbers(value: SSAValue) -> tuple[int, ...] | None:
    """None: the elements of computed tensors are unknown."""
    return None


def call_of(
    op: PirOp,
    operand: Metas = declared,
    result: Metas = declared,
    numbers: Numbers = no_numbers,
    sizes: Sizes | None = None,
) -> MapCall | Opaque:
    """The `MapCall` of an op, or why index rules do not apply to it."""
    definition = op.definition
    operands = [
        None if v is None else operand(v)
        for v, s in zip(op.operand_slots, definition.operands, strict=False)
        if s.kind is None
    ]
    results = [None if r is None else result(r) for r in op.result_slots]
    for position, meta in enumerate((*operands, *results)):
        items = meta.items if isinstance(meta, VecMeta) and position < len(operands) else (meta,)
        if not all(m is None or isinstance(m, TensorMeta) for m in items):
            return NO_TENSOR
    if any(isinstance(v.owner, PirOp) and v.owner.name == "pir.stack" for v in op.operands):
        return NO_TENSOR
    attrs = _attributes(op, numbers)
    if attrs is None:
        return UNKNOWN_ATTRIBUTE
    return MapCall(definition, operands, results, attrs, sizes)


def maps_of(
    op: PirOp,
    operand: Metas = declared,
    result: Metas = declared,
    numbers: Numbers = no_numbers,
    sizes: Sizes | None = None,
) -> tuple[Value | None, ...] | Opaque:
    """The value of each result of an op as an expression tree, or why it has no index maps."""
    definition = op.definition
    rule = index_maps.get(definition)
    if rule is None or definition.writes:
        return why_none(definition)
    call = call_of(op, operand, result, numbers, sizes)
    if isinstance(call, Opaque):
        return call
    if not call.is_known:
        return UNKNOWN_SIZE
    try:
        found = rule(call)
    except Undecided as question:
        return undecided(question)
    if isinstance(found, Opaque):
        return found
    return cast("tuple[Value | None, ...]", found if isinstance(found, tuple) else (found,))


def undecided(question: Undecided) -> Opaque:
    """The reason for an op whose index maps depend on an undecided comparison of sizes."""
    return Opaque(f"only the program's inputs determine whether {question}", "guard")


def _attributes(op: PirOp, numbers: Numbers) -> dict[str, Any] | None:
    """The attribute values, including those passed as operands; None if one is unknown.

    A ``shape`` may be computed from other shapes: index rules take it from the result.
    """
    attrs = op.attribute_values()
    slots = {s.name: s for s in op.definition.operands}
    for name, value in constants_of(op.definition, op.operand_slots, op.call_properties):
        if value is None or (isinstance(value, tuple) and None in value):
            source = op.operand_named(name)
            found = numbers(source) if source is not None and name == "shape" else None
            if source is not None and found is None:
                return None
            attrs[name] = value if source is None else found
        else:
            number = cast(Any, value)
            attrs[name] = int(number) if slots[name].kind in INT_KINDS else number
    return attrs


def why_none(definition: OpDef) -> Opaque:
    """Why an op without index maps has none."""
    if definition.writes:
        return Opaque("it writes in place", "alias")
    if definition.name in OPAQUE:
        return OPAQUE[definition.name]
    if definition.effects != PURE:
        return Opaque(f"it is not a function of its operands: {definition.effects}")
    if decompose.get(definition) is not None:
        return Opaque("it is a composite: run `decompose`")
    if definition.family == "gradients":
        return GRADIENT
    return UNDECLARED


def _because(reason: str, *names: str) -> dict[str, Opaque]:
    return {f"pd_op.{name}": Opaque(reason) for name in names}


LIBRARY: Final = Opaque("a library computes it faster than loops")

OPAQUE: Final[dict[str, Opaque]] = {
    **_because(
        LIBRARY.reason,
        *("conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose"),
        *("fft_c2c", "fft_r2c", "fft_c2r"),
    ),
    "pir.nchwc_conv2d": Opaque("a kernel of its own computes it"),
    "pir.nchwc_max_pool2d": Opaque("a kernel of its own computes it"),
    "pir.nchwc_winograd_conv2d": Opaque("a kernel of its own computes it"),
    "pir.packed_matmul": Opaque("a kernel of its own computes it"),
    "pir.nchwc_quantized_conv2d": Opaque("a kernel of its own computes it"),
    "pir.quantized_conv2d": Opaque("a kernel of its own computes it"),
    "pir.quantized_matmul": Opaque("a kernel of its own computes it"),
    **_because("each element needs the one before it", "cumsum", "cumprod", "cummax", "cummin"),
    **_because("the order of the elements depends on their values", "topk", "argsort"),
    **_because("how many elements there are depends on their values", "nonzero", "unique"),
    **_because(
        "a factorisation",
        *("cholesky", "triangular_solve", "qr", "eigh", "svd", "det"),
        *("slogdet", "slogdet_v2", "inverse", "solve", "lu", "eig"),
    ),
    **_because("an element becomes two, or two become one", "as_complex", "as_real"),
    **_because(
        "an algorithm on boxes",
        *("prior_box", "yolo_box", "distribute_fpn_proposals", "generate_proposals", "nms"),
        *("multiclass_nms3", "matrix_nms"),
    ),
    "pir.non_max_suppression": Opaque("an algorithm on boxes"),
    "pir.convert_storage": Opaque("its element type is only stored, not computed with"),
    **_because("its content is not defined", "empty"),
    **_because("it acts on the world outside", "print", "fetch"),
    **_because("it moves between devices", "memcpy_h2d", "memcpy_d2h"),
    **_because("it searches", "searchsorted", "viterbi_decode", "gather_tree"),
    **_because("it stands in the program as it is", "assign_value", "full_int_array"),
    **_because("it is an input", "data", "feed"),
    **_because("it keeps operations apart", "depend"),
    **_because("control flow", "if", "while", "pylayer", "assert"),
    "pir.gradient": GRADIENT,
    "pir.checkpoint": Opaque("it says what a reverse sweep recomputes"),
    "pir.custom_derivative": Opaque("it stands for a derivative rule of the user"),
    "pir.jet": Opaque("it is a series: `taylor` writes it in other ops"),
    **{
        f"pir.{name}": Opaque("it is part of the program's structure")
        for name in ("parameter", "constant", "combine", "split", "slice", "yield", "map_expr")
    },
}
"""Ops without index maps that no pass decomposes, and the reasons."""

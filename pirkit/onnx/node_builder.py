"""The builder with which rules for operators of ONNX emit ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue

from pirkit.analysis.constants import UNKNOWN_VALUE
from pirkit.analysis.evaluation import call_of, placeholder, results_of
from pirkit.diag.errors import DynamicShapeError, UnsupportedError
from pirkit.dialect import unsigned_words
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Array = np.ndarray[Any, Any]
_SMALL = 16
"""A constant of at most so many elements is an op of the program; a larger one is a parameter."""


class ConstantNeededError(DynamicShapeError):
    """A rule needs at compile time a value that depends on inputs of the graph (PK0406).

    ``sources`` are the names of those inputs.
    """

    sources: tuple[str, ...] = ()


class NodeBuilder(Builder):
    """A builder that knows the node for which it emits, and evaluates constants.

    Many operators take sizes, axes and bounds as tensors. Where a rule must know them at compile
    time, `known` computes them with the reference rules of the ops that define them.
    """

    def __init__(
        self, program: ProgramOp, weights: dict[str, Array], opset: int, path: str = "<onnx>"
    ) -> None:
        super().__init__(program.block)
        self.program = program
        self.weights = weights
        self.opset = opset
        self.path = path
        self.node: Any = None
        self.outputs = 1
        """How many outputs the node has."""
        self._known: dict[SSAValue, Any] = {}
        self.words = False
        """Whether int64 operands of the node stand for uint64."""
        self.quantized: dict[SSAValue, Any] = {}
        """Dequantized tensor -> the integers, scale and zero point that it is computed from
        (`ops.integer_sums.Integers`)."""
        self.unsigned: dict[SSAValue, Value] = {}
        """Tensor of int8 -> the same numbers plus 128, as uint8."""
        self.sums: dict[SSAValue, Any] = {}
        """Result of an integer matmul or convolution -> a function that emits it as float32, times
        a scale (`ops.integer_sums.Sums`)."""
        self.products: dict[SSAValue, Any] = {}
        """Float result of such an op of dequantized tensors -> that function, and the scale."""

    # --- constants ---

    def array(self, array: Array, name: str = "") -> Value:
        """A constant: an op with its elements if there are few, else a parameter of that name."""
        dtype = dt.of_array(array)
        if dtype in dt.HELD_IN and array.size <= _SMALL:
            made = self.cast(self.array(array.astype(dt.HELD_IN[dtype].np)), dtype)
        elif array.ndim == 1 and dtype is dt.int64:
            made = self("pd_op.full_int_array", value=tuple(map(int, array)), dtype=dtype)
        elif array.size == 1 and not dtype.is_complex and _is_exact(array):
            made = self("pd_op.full", shape=array.shape, value=float(array.item()), dtype=dtype)
        elif array.size == 0:
            made = self("pd_op.full", shape=array.shape, value=0.0, dtype=dtype)
        elif array.size <= _SMALL and (dtype.is_integer or dtype is dt.bool_):
            made = self("pd_op.assign_value", shape=array.shape, dtype=dtype,
                        values=tuple(array.ravel().tolist()))  # fmt: skip
        else:
            made = self.weight(name or f"constant_{len(self.weights)}", array)
        self._known[made.ssa] = array
        return made

    def weight(self, name: str, array: Array) -> Value:
        """A parameter of the program; ``_`` is appended to a name that is taken."""
        while name in self.weights:
            name += "_"
        self.weights[name] = array
        return self.parameter(name, TensorMeta(array.shape, dt.of_array(array)))

    def known(self, x: Value | None, what: str = "input") -> Any:
        """The elements of a value that must be constant; None for an input that is left out.

        Raises ConstantNeededError (PK0406), which names the inputs of the graph on which the value
        depends; `load_model` takes their elements as ``values``.
        """
        if x is None:
            return None
        found = self.evaluated(x.ssa)
        if found is None:
            sources = self.sources(x.ssa)
            told = ", ".join(f"`{s}`" for s in sources) or "sizes that are not known"
            error = ConstantNeededError(
                f"the {what} of `{self.node.op_type}` depends on {told}",
                notes=(f"node `{self.node.name}`, operator set {self.opset}",),
                help="`pirkit.onnx.load(path, values={name: array}, sizes={name: number})` makes"
                " an input or a size a constant",
            )  # fmt: skip
            error.sources = tuple(sources)
            raise error
        return found

    def integers_of(self, x: Value | None, what: str = "input") -> list[int] | None:
        """The elements of a constant tensor as Python integers; see `known`."""
        found = self.known(x, what)
        return None if found is None else [int(n) for n in np.ravel(found)]

    def evaluated(self, value: SSAValue) -> Any:
        """The elements of a value, or None if they are not constant."""
        stack = [value]
        while stack:  # operands first: chains of ops are deeper than Python recurses
            at = stack[-1]
            owner = at.owner
            pending = list[SSAValue]()
            if at not in self._known and isinstance(owner, PirOp) and not owner.regions:
                slots, unread = owner.definition.operands, owner.definition.reads_meta_only
                pending = [v for k, v in enumerate(owner.operand_slots)
                           if v is not None and v not in self._known
                           and slots[min(k, len(slots) - 1)].name not in unread]  # fmt: skip
            if pending:
                stack += pending
                continue
            stack.pop()
            if at not in self._known:
                self._known[at] = self._evaluate(at)
        return self._known[value]

    def sources(self, value: SSAValue) -> list[str]:
        """Names of the inputs of the graph that a value is computed from."""
        seen: set[SSAValue] = set()
        names: dict[str, None] = {}
        stack = [value]
        while stack:
            value = stack.pop()
            owner = value.owner
            if value in seen or not isinstance(owner, PirOp):
                continue
            seen.add(value)
            if owner.name == "pd_op.data":
                names[str(owner.attribute("name"))] = None
            stack += list(owner.operands)
        return list(names)

    def _evaluate(self, value: SSAValue) -> Any:
        owner = value.owner
        if not isinstance(owner, PirOp) or owner.regions:
            return None
        if owner.name == "pir.parameter":
            return self.weights.get(cast(str, owner.attribute("parameter_name")))
        if owner.name == "pir.combine":
            parts = [self.evaluated(v) for v in owner.operands]
            return None if any(p is None for p in parts) else parts
        if owner.definition.effects != PURE:
            return None

        def elements(operand: SSAValue, meta_only: bool) -> Any:
            found = placeholder(operand) if meta_only else None
            return self.evaluated(operand) if found is None else found

        def attribute(name: str, kind: str) -> Any:
            operand = owner.operand_named(name)
            if operand is None:
                return owner.attribute(name)
            found = self.evaluated(operand)
            return UNKNOWN_VALUE if found is None else _attribute(found, kind)

        call = call_of(owner, elements, attribute)
        made = results_of(owner, call) if call is not None else None
        for slot_value, array in zip(owner.result_slots, made or (), strict=False):
            if slot_value is not None:
                self._known[slot_value] = array
        return self._known.get(value)

    # --- shapes and types ---

    def unsupported(self, what: str, help: str = "") -> UnsupportedError:
        """The error for a form of an operator that has no rule (PK0410)."""
        return UnsupportedError(
            f"`{self.node.op_type}` {what}", code="PK0410",
            notes=(f"node `{self.node.name}`, operator set {self.opset}",),
            help=help or "export the model with other operators",
        )  # fmt: skip

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front. Raises UnsupportedError (PK0410) for one out of range."""
        if not -rank <= axis < max(rank, 1):
            raise self.unsupported(f"has axis {axis} of a tensor of {rank} dimensions")
        return axis + rank if axis < 0 else axis

    def moved(self, x: Value, source: int, to: int) -> Value:
        """One dimension moved to another place."""
        order = [d for d in range(x.rank) if d != source % x.rank]
        order.insert(to % x.rank, source % x.rank)
        return self.permute(x, order)

    def at(self, x: Value, axis: int, index: int) -> Value:
        """The slice of ``x`` at an index of a dimension, without that dimension."""
        cut = self("pd_op.slice", x, starts=(index,), ends=(index + 1,), axes=(axis,))
        return self.squeezed(cut, (axis,))

    def squeezed(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` without dimensions of size 1."""
        return x if not axes else self("pd_op.squeeze", x, axis=tuple(axes))

    def unsqueezed(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` with further dimensions of size 1."""
        return x if not axes else self("pd_op.unsqueeze", x, axis=tuple(axes))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Values joined along an axis."""
        return values[0] if len(values) == 1 else self("pd_op.concat", list(values), axis=axis)

    def static(self, x: Value, what: str = "a known shape") -> tuple[int, ...]:
        """The shape of ``x``. Raises DynamicShapeError (PK0406) if a size is unknown."""
        if UNKNOWN in x.shape:
            raise DynamicShapeError(
                f"`{self.node.op_type}` needs {what}, not {x.shape}",
                notes=(f"node `{self.node.name}`, operator set {self.opset}",),
                help="`pirkit.onnx.load(path, sizes={name: number})` fixes a size by its name",
            )  # fmt: skip
        return x.shape

    def cast(self, x: Value, dtype: DType, saturate: bool = True) -> Value:
        """``x`` as another element type.

        A type that pirkit only stores (`runtime.dtype.HELD_IN`) is converted from and to the wider
        type in which it is computed.
        """
        if x.dtype is dtype:
            return x
        if x.dtype in dt.HELD_IN:
            held = self("pir.convert_storage", x, dtype=dt.HELD_IN[x.dtype])
            if x.dtype is dt.uint64 and dtype.is_float:
                held = unsigned_words.float_of(self, held)
            return self.cast(held, dtype, saturate)
        if dtype in dt.HELD_IN:
            from_float = dtype is dt.uint64 and x.dtype.is_float
            held = (
                unsigned_words.word_of(self, x) if from_float else self.cast(x, dt.HELD_IN[dtype])
            )
            return self("pir.convert_storage", held, dtype=dtype, saturate=saturate)
        return super().cast(x, dtype)

    def scalar(self, number: float, like: Value) -> Value:
        """A number in the element type of ``like``."""
        return self.const(number, like.dtype)

    def widened(self, x: Value, to: DType = dt.float32) -> Value:
        """``x`` in another type, by default float32, if it is no float or one of 16 bits."""
        narrow = (dt.float16, dt.bfloat16)
        return self.cast(x, to) if x.dtype in narrow or not x.dtype.is_float else x


def _is_exact(array: Array) -> bool:
    """Whether the attribute of `pd_op.full`, a float64, holds the number."""
    number = array.item()
    return not isinstance(number, int) or int(float(number)) == number


def _attribute(found: Any, kind: str) -> Any:
    """The value of an operand that stands for an attribute, as reference rules take it."""
    if kind == "intarray":
        parts = cast("list[Any]", found) if isinstance(found, list) else [found]
        return tuple([int(n) for part in parts for n in np.ravel(part)])
    return np.asarray(found).reshape(-1)[0].item()

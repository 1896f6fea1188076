"""Writes a program in inference form as an ONNX model: the inverse of `import_model`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from xdsl.ir import SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.diag.version import VERSION
from pirkit.dialect.kinds import CONSTANT_LIKE, OUTPUT, PARAMETER, SOURCE
from pirkit.dialect.opdef import decompose, find, reference
from pirkit.dialect.operation import PirOp, declares, host_name, span_of, with_nested
from pirkit.dialect.program import Program
from pirkit.dialect.types import meta_of
from pirkit.frontend.compile import run_passes
from pirkit.onnx.element_types import OF_ONNX, TO_ONNX
from pirkit.onnx.libonnx import checker, defs, helper, numpy_helper, onnx, shape_inference
from pirkit.passes.decompose import DecomposePass
from pirkit.runtime import dtype as dt
from pirkit.runtime.atomic_write import atomic_write
from pirkit.runtime.convert import convert
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Array = np.ndarray[Any, Any]
Write = Callable[["GraphWriter", PirOp], Any]
OPSET: Final = 21
"""The operator set of models that are written."""
IR_VERSION: Final = 10
_OPSETS: Final = [helper.make_opsetid("", OPSET)]
_DECIDING: Final = 1024
"""The number of elements up to which ONNX's shape inference gets a constant's elements."""
_WIDER: Final = {
    dt.bfloat16: dt.float32,
    dt.float16: dt.float32,
    **dict.fromkeys((dt.bool_, dt.int8, dt.uint8, dt.int16), dt.int32),
}
"""Type -> a wider one, in which an operator that does not take it is computed and then rounded."""

WRITES: Final[dict[str, Write]] = {}
"""Name of the op -> a function of the writer and the op that gives the names of the results."""


def writes(*names: str) -> Callable[[Write], Write]:
    """Enter a function as the writer of ops; a name without a dialect is one of `pd_op`.

    It returns the name of the result, or a tuple with one for each result; a list of tensors is a
    list of names.
    """

    def enter(function: Write) -> Write:
        WRITES.update({n if "." in n else f"pd_op.{n}": function for n in names})
        return function

    return enter


def model_of_program(program: Program, entry: str | None = None) -> Any:
    """The ModelProto of a program, checked by `onnx.checker`.

    ``entry`` names the program of a module that has several. Parameters become initializers; one
    without a weight becomes an input. Inputs and outputs keep their names, but an output with the
    name of an input or of another output gets a number as suffix. Writes in place become values,
    constant operands become attributes, and an op without a form in ONNX is decomposed. Raises
    UnsupportedError (PK0402) for an op that has no form even then.
    """
    made = run_passes(program, "functionalize,absorb-attributes,constant-fold,dce")
    refused: set[str] = set()
    reasons: list[_NoFormError] = []
    while True:
        try:
            model = GraphWriter(made).model(entry)
        except _NoFormError as error:
            known = {error.op} | {op.name for op in with_nested(made.entry(entry))}
            fresh = {n for n in known - WRITES.keys() | {error.op} if _decomposes(n)} - refused
            if error.op not in fresh:
                same_line = (e for e in reasons if e.span == error.span)
                error.notes += tuple([f"it is a part of `{e.op}`: {e.message}" for e in same_line])
                raise
            reasons.append(error)
            refused |= fresh
            made = run_passes(made, [DecomposePass(only=tuple(sorted(fresh))), "constant-fold,dce"])
        else:
            checker.check_model(model, full_check=True)
            return model


class _NoFormError(UnsupportedError):
    """The op ``op`` has no form in ONNX with these operands and attributes."""

    op = ""


class _NoTensorError(Exception):
    """A value is not a tensor, but a list of tensors."""


def _decomposes(name: str) -> bool:
    definition = find(name)
    return definition is not None and decompose.get(definition) is not None


def save_model(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program to a file of ONNX, with its weights. See `model_of_program`."""
    data = model_of_program(program).SerializeToString()
    with atomic_write(os.fspath(path)) as file:
        file.write(data)


class GraphWriter:
    """The graph under construction: nodes, initializers, and the name of each value."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.names: dict[SSAValue, Any] = {}
        self.taken: set[str] = set()
        self.types: dict[str, Any] = {}
        """The TypeProto of each name, as far as ONNX infers it."""
        self.small: dict[str, Any] = {}
        """The constants that may determine shapes, by name, as TensorProtos."""
        self.op: PirOp | None = None
        """The op that is being written."""

    @property
    def ports(self) -> list[Any]:
        """The inputs and outputs so far."""
        return [*self.inputs, *self.outputs]

    def model(self, entry: str | None) -> Any:
        """The ModelProto of a program of the module. Raises UnsupportedError (PK0402)."""
        main = self.program.entry(entry)
        outputs = [host_name(op) for op in main.block.ops
                   if isinstance(op, PirOp) and declares(op, OUTPUT)]  # fmt: skip
        self.taken.update(outputs)
        for argument, name in zip(main.block.args, main.keywords, strict=True):
            self.source(argument, name)
        for op in main.block.ops:
            if isinstance(op, PirOp):
                self.visit(op)
        graph = helper.make_graph(self.nodes, main.symbol, self.inputs, self.outputs,
                                  self.initializers)  # fmt: skip
        return helper.make_model(graph, opset_imports=_OPSETS, ir_version=IR_VERSION,
                                 producer_name="pirkit", producer_version=VERSION)  # fmt: skip

    def visit(self, op: PirOp) -> None:
        """Write one op. Ops on lists only add names: ONNX's graph has tensors alone."""
        if declares(op, PARAMETER):
            self.parameter(op)
        elif declares(op, SOURCE):
            self.source(op.results[0], host_name(op))
        elif declares(op, OUTPUT):
            name = host_name(op)
            name = self.fresh(name) if any(v.name == name for v in self.ports) else name
            self.nodes.append(helper.make_node("Identity", [self(op.operands[0])], [name]))
            self.outputs.append(_value_info(name, op.operands[0]))
        elif op.name == "pir.combine":
            self.names[op.results[0]] = [self(v) for v in op.operands]
        elif op.name == "pir.split":
            for result, name in zip(op.results, self(op.operands[0]), strict=True):
                self.names[result] = name
        elif op.name == "pir.slice":
            self.names[op.results[0]] = self(op.operands[0])[op.attribute("index")]
        elif declares(op, CONSTANT_LIKE):
            array = reference.of(op.definition)(**op.attribute_values())
            self.names[op.results[0]] = self.constant(array)
        else:
            self.computed(op)

    def computed(self, op: PirOp) -> None:
        """Write an op by its writer in `WRITES`, and enter the names of its results."""
        write = WRITES.get(op.name)
        if write is None:
            raise self.unsupported(op, "has no form in ONNX")
        self.op = op
        try:
            found = write(self, op)
        except _NoTensorError:
            raise self.unsupported(op, "takes or gives a list") from None
        several: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]
        for slot, name in zip(op.result_slots, several, strict=False):
            if slot is not None:
                self.require_type(op, slot, name)
                self.names[slot] = name
        for slot in op.result_slots[len(several) :]:
            if slot is not None and slot.uses:
                raise self.unsupported(op, "has a result without a form in ONNX")

    def require_type(self, op: PirOp, value: SSAValue, name: Any) -> None:
        """Refuse a form whose element type or shape, as ONNX infers it, is not the program's."""
        want = meta_of(value.type)
        found = self.types.get(name) if isinstance(name, str) else None
        if found is None or not isinstance(want, TensorMeta) or not found.HasField("tensor_type"):
            return
        tensor = found.tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else UNKNOWN for d in tensor.shape.dim]
        pairs = list(zip(sizes, want.shape, strict=False))
        same_rank = not tensor.HasField("shape") or len(sizes) == want.rank
        same_sizes = all(UNKNOWN in pair or len(set(pair)) == 1 for pair in pairs)
        if tensor.elem_type not in (0, TO_ONNX[want.dtype]) or not (same_rank and same_sizes):
            kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
            raise self.unsupported(op, f"gives a {want}, and its form in ONNX {kind}{sizes}")

    def unsupported(self, op: PirOp, what: str) -> UnsupportedError:
        """The error for an op that cannot be written (PK0402)."""
        error = _NoFormError(
            f"`{op.name}` {what}", code="PK0402", span=span_of(op),
            help="`pirkit-opt -p @simplify` may remove it; `pirkit.onnx.writes` adds a form",
        )  # fmt: skip
        error.op = op.name
        return error

    def refusal(self, what: str) -> UnsupportedError:
        """The error for the op that is being written."""
        assert self.op is not None
        return self.unsupported(self.op, what)

    # --- names ---

    def __call__(self, value: SSAValue | None) -> Any:
        """The name of a value, or a list of names; '' for an operand that is left out."""
        return "" if value is None else self.names[value]

    def fresh(self, stem: str) -> str:
        """A name that is not taken."""
        name, number = stem, 0
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name

    def source(self, value: SSAValue, name: str) -> None:
        """Add an input of the graph."""
        self.taken.add(name)
        self.names[value] = name
        self.inputs.append(_value_info(name, value))
        self.types[name] = self.inputs[-1].type

    def parameter(self, op: PirOp) -> None:
        """Add an initializer for a parameter, or an input if it has no weight."""
        name = host_name(op)
        held = self.program.params.get(name)
        if held is None:
            self.source(op.results[0], self.fresh(name))
            return
        own = self.fresh(name)
        self.names[op.results[0]] = own
        self.initialized(own, held)

    def constant(self, array: Any) -> str:
        """The name of a constant."""
        name = self.fresh("constant")
        made = self.initialized(name, array)
        if np.size(array) <= _DECIDING:
            self.small[name] = made
        return name

    def initialized(self, name: str, array: Any) -> Any:
        """Enter an array as the initializer of that name."""
        rows = np.require(array, requirements="C")  # not `ascontiguousarray`: a number has rank 0
        made = numpy_helper.from_array(rows, name)
        self.initializers.append(made)
        self.types[name] = helper.make_tensor_type_proto(made.data_type, rows.shape)
        return made

    def integers(self, values: Sequence[int]) -> str:
        """The name of a vector of int64."""
        return self.constant(np.asarray(list(values), np.int64))

    def like(self, number: float, value: SSAValue) -> str:
        """The name of a constant scalar with the element type of a value.

        Raises UnsupportedError (PK0402) for a number that an integer type does not hold.
        """
        dtype = meta(value).dtype
        made = convert(np.asarray(number), dtype)
        if not (dtype.is_float or dtype.is_complex) and made != number:
            raise self.refusal(f"has the number {number}, which no {dtype} is")
        return self.constant(made)

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; returns the name of its output, or a tuple of names.

        If the operator does not take the element type of an operand, operands are cast to a wider
        one, and results back. Raises UnsupportedError (PK0402) if no wider type helps.
        """
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        if any(self.element(n) is dt.float64 for n in given):
            self._require_single(attributes)
        try:
            self.append(helper.make_node(kind, given, names, **attributes))
        except (shape_inference.InferenceError, checker.ValidationError) as error:
            narrow = next((self.element(n) for n in given if self.element(n) in _WIDER), None)
            if narrow is None:
                problem = str(error).partition("\n")[0]
                raise self.refusal(f"is no {kind} of ONNX: {problem}") from error
            wide = _WIDER[narrow]
            given = [self.cast(n, wide) if self.element(n) is narrow else n for n in given]
            found = self.node(kind, *given, outputs=outputs, **attributes)
            names = [found] if outputs == 1 else found
            names = [self.cast(n, narrow) if self.element(n) is wide else n for n in names]
        return names[0] if outputs == 1 else tuple(names)

    def _require_single(self, attributes: Mapping[str, Any]) -> None:
        """Refuse attributes of ops on float64 that ONNX would round: its attributes are float32."""
        for name, held in attributes.items():
            if isinstance(held, float) and float(np.float32(held)) != held:
                raise self.refusal(f"has `{name}` of {held}, which is no float32")

    def append(self, node: Any) -> None:
        """Add a node, and infer the types of its outputs if those of its inputs are known.

        Raises what ONNX's shape inference raises for operands that do not fit.
        """
        given = [n for n in node.input if n]
        if all(n in self.types for n in given):
            schema = defs.get_schema(node.op_type, OPSET, node.domain)
            types = {n: self.types[n] for n in given}
            small = {n: self.small[n] for n in given if n in self.small}
            self.types |= shape_inference.infer_node_outputs(
                schema, node, types, small, opset_imports=_OPSETS, ir_version=IR_VERSION
            )
        self.nodes.append(node)

    def cast(self, name: str, dtype: DType) -> str:
        """The name of a value converted to an element type."""
        return name if self.element(name) is dtype else self.node("Cast", name, to=TO_ONNX[dtype])

    def element(self, name: str) -> DType | None:
        """The element type of a name, as far as it is known."""
        held = self.types.get(name)
        return None if held is None else OF_ONNX.get(held.tensor_type.elem_type)

    def numbers(self, op: PirOp, name: str) -> list[int]:
        """The integers of an attribute. Raises UnsupportedError (PK0402) for an operand."""
        slots = {slot.name for slot in op.definition.operands}
        if name in slots and op.operand_named(name) is not None:
            raise self.unsupported(op, f"has `{name}` as an operand")
        return [int(n) for n in np.ravel(op.attribute(name))]


def meta(value: SSAValue | None) -> TensorMeta:
    """The meta of a value. Raises _NoTensorError for a list."""
    found = meta_of(value.type) if value is not None else None
    if not isinstance(found, TensorMeta):
        raise _NoTensorError
    return found


def _value_info(name: str, value: SSAValue) -> Any:
    held = meta(value)
    sizes: list[Any] = [f"{name}_{d}" if n == UNKNOWN else n for d, n in enumerate(held.shape)]
    return helper.make_tensor_value_info(name, TO_ONNX[held.dtype], sizes)


def text_of_program(program: Program) -> str:
    """A program in ONNX's text form. Raises what `model_of_program` raises."""
    return str(onnx.printer.to_text(model_of_program(program))) + "\n"

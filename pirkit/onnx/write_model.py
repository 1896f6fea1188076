"""Writes a program as a model of ONNX: the inverse of reading, for programs in inference form."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
from pirkit.onnx.element_types import TO_ONNX
from pirkit.onnx.libonnx import checker, helper, numpy_helper, onnx
from pirkit.passes.decompose import DecomposePass
from pirkit.runtime.atomic_write import atomic_write
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Array = np.ndarray[Any, Any]
Write = Callable[["GraphWriter", PirOp], Any]
OPSET: Final = 21
"""The operator set of models that are written."""
IR_VERSION: Final = 10

WRITES: Final[dict[str, Write]] = {}
"""By the name of the op: a function of the writer and the op, which gives the names of results."""


def writes(*names: str) -> Callable[[Write], Write]:
    """Enter a function as the writer of ops, by default of the dialect `pd_op`."""

    def enter(function: Write) -> Write:
        WRITES.update({n if "." in n else f"pd_op.{n}": function for n in names})
        return function

    return enter


def model_of_program(program: Program, entry: str | None = None) -> Any:
    """The ModelProto of a program, checked by `onnx.checker`.

    Parameters become initializers, inputs and outputs keep their names, but an output that is
    named as an input, or as another output, gets a number after it. A parameter without a weight
    is an input. Writes in place become values, operands that are constants attributes, and an op
    without a form in ONNX is decomposed. Raises UnsupportedError (PK0402) if that does not help.
    """
    made = run_passes(program, "functionalize,absorb-attributes,constant-fold,dce")
    refused: set[str] = set()
    while True:
        try:
            model = GraphWriter(made).model(entry)
        except _NoFormError as error:
            known = {error.op} | {op.name for op in with_nested(made.entry(entry))}
            fresh = {n for n in known - WRITES.keys() | {error.op} if _decomposes(n)} - refused
            if error.op not in fresh:
                raise
            refused |= fresh
            made = run_passes(made, [DecomposePass(only=tuple(sorted(fresh))), "constant-fold,dce"])
        else:
            checker.check_model(model, full_check=True)
            return model


class _NoFormError(UnsupportedError):
    """``op`` has no form in ONNX as it is called."""

    op = ""


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

    @property
    def ports(self) -> list[Any]:
        """Inputs and outputs so far."""
        return [*self.inputs, *self.outputs]

    def model(self, entry: str | None) -> Any:
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
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                                 ir_version=IR_VERSION, producer_name="pirkit",
                                 producer_version=VERSION)  # fmt: skip

    def visit(self, op: PirOp) -> None:
        """Write what an op computes."""
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
        write = WRITES.get(op.name)
        if write is None:
            raise self.unsupported(op, "has no form in ONNX")
        found = write(self, op)
        several: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]
        for slot, name in zip(op.result_slots, several, strict=False):
            if slot is not None:
                self.names[slot] = name
        for slot in op.result_slots[len(several) :]:
            if slot is not None and slot.uses:
                raise self.unsupported(op, "has a result without a form in ONNX")

    def unsupported(self, op: PirOp, what: str) -> UnsupportedError:
        """The error for an op that cannot be written."""
        error = _NoFormError(
            f"`{op.name}` {what}", code="PK0402", span=span_of(op),
            help="`pirkit-opt -p @simplify` may remove it; `pirkit.onnx.writes` adds a form",
        )  # fmt: skip
        error.op = op.name
        return error

    # --- names ---

    def __call__(self, value: SSAValue | None) -> Any:
        """The name of a value; those of a list. An operand that is left out has the name ''."""
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
        self.taken.add(name)
        self.names[value] = name
        self.inputs.append(_value_info(name, value))

    def parameter(self, op: PirOp) -> None:
        name = host_name(op)
        held = self.program.params.get(name)
        if held is None:
            self.source(op.results[0], self.fresh(name))
            return
        own = self.fresh(name)
        self.names[op.results[0]] = own
        self.initializers.append(numpy_helper.from_array(np.require(held, requirements="C"), own))

    def constant(self, array: Any) -> str:
        """The name of a constant."""
        name = self.fresh("constant")
        rows = np.require(array, requirements="C")  # not `ascontiguousarray`: a number has rank 0
        self.initializers.append(numpy_helper.from_array(rows, name))
        return name

    def integers(self, values: Sequence[int]) -> str:
        """The name of a vector of int64."""
        return self.constant(np.asarray(list(values), np.int64))

    def like(self, number: float, value: SSAValue) -> str:
        """The name of a number of the element type of a value."""
        return self.constant(np.asarray(number, meta(value).dtype.np))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; the name of its output, or of each."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(kind, given, names, **attributes))
        return names[0] if outputs == 1 else tuple(names)

    def numbers(self, op: PirOp, name: str) -> list[int]:
        """The integers of an attribute. Raises UnsupportedError if an operand gives them."""
        slots = {slot.name for slot in op.definition.operands}
        if name in slots and op.operand_named(name) is not None:
            raise self.unsupported(op, f"has `{name}` as an operand")
        return [int(n) for n in np.ravel(op.attribute(name))]


def meta(value: SSAValue | None) -> TensorMeta:
    """The meta of a tensor."""
    found = meta_of(value.type) if value is not None else None
    assert isinstance(found, TensorMeta)
    return found


def _value_info(name: str, value: SSAValue) -> Any:
    held = meta(value)
    sizes: list[Any] = [f"{name}_{d}" if n == UNKNOWN else n for d, n in enumerate(held.shape)]
    return helper.make_tensor_value_info(name, TO_ONNX[held.dtype], sizes)


def text_of_program(program: Program) -> str:
    """A program in the textual form of ONNX."""
    return str(onnx.printer.to_text(model_of_program(program))) + "\n"

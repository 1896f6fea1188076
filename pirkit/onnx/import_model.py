"""Imports an ONNX model: each node by its rule, or by the body of the function that defines it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

import pirkit.onnx.ops  # noqa: F401  # pyright: ignore[reportUnusedImport]
from pirkit.diag.errors import ArtifactError, ConstraintError, PirkitError, UnsupportedError
from pirkit.diag.limits import read_whole
from pirkit.diag.span import Span
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp, ProgramOp, location_of
from pirkit.dialect.program import Program
from pirkit.dialect.unused_ops import erase_unused
from pirkit.dialect.verify import verify_module
from pirkit.onnx.control import CONTROL
from pirkit.onnx.element_types import array_of, element_type
from pirkit.onnx.functions import body_of, defaults_of, kinds_of_attributes
from pirkit.onnx.libonnx import AttributeProto, DecodeError, defs, helper, onnx
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import CONTRIBUTED, RULES
from pirkit.onnx.stored_types import computed
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.place import UNDEFINED

Array = np.ndarray[Any, Any]
Scope = dict[str, Any]
"""Values by name; a sequence is a list of values."""
OPSETS: Final = range(1, 29)
"""Operator sets that are read. A spelling of an old one that no rule takes is refused."""

_DOMAINS: Final = ("", "ai.onnx")
_RULES_OF: Final = {"com.microsoft": CONTRIBUTED}
_MISFITS: Final = (
    ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError,
)  # fmt: skip
"""What rules, or numpy inside of them, raise for malformed nodes, which no exporter writes."""


def load_model(
    path: str | os.PathLike[str],
    *,
    values: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Program:
    """The program of a file of ONNX, with its weights. See `program_of_model`.

    Raises ArtifactError (PK0506) for a file that onnx does not read.
    """
    name = os.fspath(path)
    try:
        model = onnx.load_model_from_string(read_whole(name))
    except (OSError, DecodeError) as error:
        raise ArtifactError(
            f"onnx cannot read {name}: {error}", code="PK0506", span=Span(name),
            help="the file was cut, or is no model of ONNX: copy or export it again",
        ) from error  # fmt: skip
    if not model.HasField("graph"):  # as an empty file is read
        raise ArtifactError(
            f"{name} holds no graph", code="PK0506", span=Span(name),
            help="`onnx.checker.check_model` tells what is wrong; export the model again",
        )  # fmt: skip
    return program_of_model(model, name, values=values, sizes=sizes)


def program_of_model(
    model: Any,
    path: str = "<onnx>",
    *,
    values: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Program:
    """The program of a ModelProto, with its weights.

    Inputs and outputs have the names of the graph. Initializers are parameters; those of one
    element or of integers, which are sizes, axes and numbers, are constants. ``values`` makes
    inputs constants, where an operator must know its elements to be compiled. ``sizes`` fixes
    symbolic sizes by name (``{"batch": 8}``); others stay unknown.

    An op is located at the file and the number of its node, and has the node's name as its layer.
    Raises UnsupportedError (PK0410) for an operator or an element type without a rule, and (PK0406)
    for an operator that needs at compile time a value that is known only at run time; and
    ArtifactError (PK0506) for a malformed model.
    """
    return Importer(model, path, values or {}, sizes or {}).run()


class Importer:
    """The import of one model. Errors are those of `program_of_model`."""

    def __init__(
        self, model: Any, path: str, values: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        self.model = model
        self.path = path
        self.values = values
        self.sizes = sizes
        self.opset = {o.domain: o.version for o in model.opset_import}
        self.opset.setdefault("", self.opset.get("ai.onnx", 1))
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.op = ProgramOp.build("main")
        self.weights: dict[str, Array] = {}
        self.b = NodeBuilder(self.op, self.weights, self.opset[""], path)
        self.number = 0

    def run(self) -> Program:
        """The program of the graph, verified."""
        if self.opset[""] not in OPSETS:
            raise UnsupportedError(
                f"{self.path} has operator set {self.opset['']}", code="PK0410",
                span=Span(self.path), help="`onnx.version_converter` converts it to one of"
                f" {OPSETS.start} to {OPSETS.stop - 1}",
            )  # fmt: skip
        module = ModuleOp([self.op])
        graph, b = self.model.graph, self.b
        scope: Scope = {}
        stored = {i.name for i in graph.initializer}
        for given in graph.input:
            if given.name not in stored:
                scope[given.name] = self.input(given)
        results = self.graph(graph, scope)
        seen: set[Any] = set()
        for declared, value in zip(graph.output, results, strict=True):
            if not isinstance(value, Value):
                raise UnsupportedError(
                    f"the output `{declared.name}` is no tensor", code="PK0410",
                    span=Span(self.path), help="return its elements one by one",
                )  # fmt: skip
            owner = value.ssa.owner
            source = isinstance(owner, PirOp) and not owner.operands  # it would lose its name
            if value.ssa in seen or source:
                value = b("pd_op.assign", value)
            seen.add(value.ssa)
            b("pir.shadow_output", value, output_name=declared.name)
        erase_unused(self.op, self.weights)
        verify_module(module)
        return Program(module, self.weights, self.path, is_export=True)

    def input(self, given: Any) -> Value:
        """The value of an input of the graph: an op `data`, or a constant given in ``values``."""
        b = self.b
        if given.name in self.values:
            return b.array(np.asarray(self.values[given.name]), given.name)
        held = given.type
        if not held.HasField("tensor_type"):
            raise UnsupportedError(
                f"the input `{given.name}` is no tensor", code="PK0410", span=Span(self.path),
                help="sequences and optional values are known only inside of a graph",
            )  # fmt: skip
        sizes = [self.size(d) for d in held.tensor_type.shape.dim]
        dtype = element_type(held.tensor_type.elem_type)
        return b("pd_op.data", name=given.name, shape=sizes, dtype=dtype, place=UNDEFINED)

    def size(self, dim: Any) -> int:
        """The size of a dimension: a number, one given for its name, or UNKNOWN."""
        if dim.HasField("dim_value"):
            return int(dim.dim_value)
        return self.sizes.get(dim.dim_param, UNKNOWN)

    def graph(self, graph: Any, scope: Scope) -> list[Any]:
        """Emit a graph into the builder's block, and give its outputs.

        ``scope`` holds the values of outer graphs; those of the graph are added to it.
        """
        for tensor in graph.initializer:
            scope[tensor.name] = self.initializer(tensor)
        for node in graph.node:
            self.visit(node, scope)
        return [self.named(o.name, scope) for o in graph.output]

    def named(self, name: str, scope: Scope) -> Any:
        """The value of a name. Raises ArtifactError (PK0506) for one that nothing computes."""
        if name not in scope:
            raise ArtifactError(f"nothing computes `{name}` before it is read", code="PK0506",
                                span=self.span(),
                                help="nodes come after those whose results they read: export the"
                                " model again, and `onnx.checker.check_model` it")  # fmt: skip
        return scope[name]

    def initializer(self, tensor: Any) -> Value:
        """A constant for integers of at most one dimension, which may be sizes, and for scalars;
        else a parameter."""
        array = array_of(tensor, os.path.dirname(self.path))
        if array.dtype.kind in "iub" and array.size <= 4096 and array.ndim <= 1:
            return self.b.array(array, tensor.name)
        if array.size == 1 and not array.shape:
            return self.b.array(array, tensor.name)
        return self.b.weight(tensor.name, array)

    # --- nodes ---

    def visit(self, node: Any, scope: Scope) -> None:
        """Emit what a node computes, and enter its outputs in ``scope``.

        Raises ArtifactError (PK0506) for names that are not UTF-8.
        """
        b = self.b
        words = (node.op_type, node.domain, node.name, *node.input, *node.output)
        if not all(isinstance(word, str) for word in words):  # protobuf gives bytes for those
            raise ArtifactError(
                f"a node of {self.path} has names that are no UTF-8", code="PK0506",
                span=Span(self.path), help="the file is damaged: export the model again",
            )  # fmt: skip
        held = (b.node, b.location, b.attributes, b.outputs)
        if b.node is None or b.location is None:  # not a node of a body or a subgraph
            self.number += 1
            b.location = location_of(self.path, self.number)
            if node.name or node.doc_string:
                b.attributes = {"struct_name": mlir.StringAttr(node.name or node.doc_string)}
        b.node, b.outputs = node, len(node.output)
        inputs = [self.named(n, scope) if n else None for n in node.input]
        made = self.emit(node, inputs, scope)
        b.node, b.location, b.attributes, b.outputs = held
        several: tuple[Any, ...] = made if isinstance(made, tuple) else (made,)  # pyright: ignore[reportUnknownVariableType]
        for name, value in zip(node.output, several, strict=False):
            if name:
                if value is None:
                    raise b.unsupported(f"has no output `{name}` here")
                scope[name] = value

    def emit(self, node: Any, inputs: Sequence[Any], scope: Scope) -> Any:
        """What a node computes: by control flow, its rule, or the body of its function.

        Functions of the model come before rules. Raises UnsupportedError (PK0410, PK0406), located
        at the node.
        """
        b = self.b
        kind = node.op_type
        standard = node.domain in _DOMAINS
        rules = RULES if standard else _RULES_OF.get(node.domain, {})
        try:
            emit = rules.get(kind)
            local = self.functions.get((node.domain, kind))
            if local is None:
                self.check_attributes(node, "" if standard else node.domain)
            if standard and kind in CONTROL:
                return CONTROL[kind](self, node, inputs, scope)
            if emit is not None and local is None:
                if standard:
                    return computed(b, node, inputs, partial(self.by_rule, emit, node))
                return self.by_rule(emit, node, inputs)
            body = local or body_of(node, self.opset, inputs)
        except ConstraintError as error:
            raise self.located(b.unsupported(f"has a form without a rule: {error.message}")) from (
                error
            )
        except UnsupportedError as error:
            raise self.located(error) from error.__cause__
        except _MISFITS as error:
            if isinstance(error, PirkitError):
                raise
            told = f"has attributes or constants that do not fit together: {error}"
            raise self.located(b.unsupported(told)) from error
        if body is None:
            name = f"{node.domain}.{kind}" if not standard else kind
            raise UnsupportedError(
                f"`{name}` has no rule", code="PK0410", span=self.span(),
                notes=(f"node `{node.name}`, operator set {b.opset}",),
                help="export the model with other operators, or add a rule with"
                " `pirkit.onnx.rule`",
            )  # fmt: skip
        return self.inlined(body, node, inputs)

    def by_rule(self, emit: Any, node: Any, inputs: Sequence[Any]) -> Any:
        """Call a rule. Raises UnsupportedError (PK0410) for arguments that it does not take."""
        attributes = {a.name: decoded(a) for a in node.attribute}
        try:
            bound = inspect.signature(emit).bind(self.b, *inputs, **attributes)
        except TypeError as error:
            raise self.b.unsupported(f"has a form without a rule: {error}") from None
        for name, given in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is not parameter.VAR_KEYWORD:
                several = parameter.kind is parameter.VAR_POSITIONAL
                for value in given if several else (given,):
                    if not _admits(parameter.annotation, value):
                        what = "nothing" if value is None else repr(value)
                        told = f"has {what} as `{name}`, where it takes {parameter.annotation}"
                        raise self.b.unsupported(told)
        return emit(self.b, *inputs, **attributes)

    def check_attributes(self, node: Any, domain: str) -> None:
        """Refuse attributes that the operator has in no version, or of another kind."""
        kinds = kinds_of_attributes(node.op_type, domain)
        if not kinds and not defs.has(node.op_type, domain):
            return
        names = [a.name for a in node.attribute]
        for a in node.attribute:
            if names.count(a.name) > 1:
                raise self.b.unsupported(f"has the attribute `{a.name}` twice")
            if a.name not in kinds:
                listed = ", ".join(f"`{k}`" for k in kinds) or "none"
                told = f"has no attribute `{a.name}`"
                raise self.b.unsupported(told, f"its attributes are {listed}")
            is_whole = a.type == AttributeProto.INT and AttributeProto.FLOAT in kinds[a.name]
            if a.type not in kinds[a.name] and not is_whole:
                name_of = AttributeProto.AttributeType.Name
                taken = " or ".join(map(name_of, sorted(kinds[a.name])))
                told = f"has `{a.name}` as {name_of(a.type)}, where it takes {taken}"
                raise self.b.unsupported(told)

    def inlined(self, body: Any, node: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of a function's body, emitted with the attributes of the node.

        The body is read in the operator sets that the function declares.
        """
        given = defaults_of(node, self.opset)
        given.update({a.name: a for a in [*body.attribute_proto, *node.attribute]})
        most = len(body.input)
        if len(inputs) > most:
            raise self.located(self.b.unsupported(f"has {len(inputs)} inputs, and takes {most}"))
        padded = [*inputs, *[None] * (most - len(inputs))]
        scope: Scope = dict(zip(body.input, padded, strict=True))
        opset, self.opset = self.opset, {**self.opset, **{o.domain: o.version
                                                          for o in body.opset_import}}  # fmt: skip
        outer, self.b.opset = self.b.opset, self.opset.get("", self.b.opset)
        for inner in body.node:
            self.visit(_bound(inner, given), scope)
        self.opset, self.b.opset = opset, outer
        return tuple([scope.get(name) for name in body.output])

    def span(self) -> Span:
        return Span(self.path, self.number)

    def located(self, error: UnsupportedError) -> UnsupportedError:
        """The error, located at the node if it has no span."""
        if error.span is None:
            error.span = self.span()
        return error

    def subgraph(self, graph: Any, block: Block, scope: Scope, given: Sequence[Any]) -> list[Any]:
        """Emit a branch or a loop's body into a block, and give its outputs."""
        inner = {**scope, **{i.name: v for i, v in zip(graph.input, given, strict=True)}}
        with self.b.inside(block):
            return self.graph(graph, inner)


_KINDS: Final = {
    "int": int, "float": int | float, "str": str, "Value": Value, "Sequence[int]": list,
    "Sequence[float]": list,
}  # fmt: skip
"""Annotation of a rule's parameter -> the Python types that it takes; others are not checked."""


def _admits(annotation: Any, value: Any) -> bool:
    """Whether a rule takes a value: files may leave inputs out, and give attributes any type."""
    if not isinstance(annotation, str):
        return True
    kind, *other = annotation.split(" | ")
    return (value is None and "None" in other) or isinstance(value, _KINDS.get(kind, object))


def decoded(attribute: Any) -> Any:
    """An attribute as a Python value: a tensor is an array, bytes are a string."""
    if attribute.type == AttributeProto.TENSOR:
        return array_of(attribute.t)
    found = helper.get_attribute_value(attribute)
    if isinstance(found, bytes):
        return found.decode()
    if isinstance(found, str | int | float):
        return found
    if attribute.type == AttributeProto.STRINGS:
        return [s.decode() for s in found]
    if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
        return list(found)
    return found


def _bound(node: Any, given: Mapping[str, Any]) -> Any:
    """A node of a function's body, with references to the function's attributes replaced."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            made.attribute.add().CopyFrom(a)
        elif a.ref_attr_name in given:
            bound = made.attribute.add()
            bound.CopyFrom(given[a.ref_attr_name])
            bound.name = a.name
    return made

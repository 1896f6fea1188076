"""Kernels of ops that have none: the op's decomposition, compiled as a program of its own.

An op whose shapes and attributes are known at compile time is decomposed by `legalize`. Otherwise
its decomposition is compiled at run time, once for each combination of shapes and attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pirkit.analysis.execution_order import operations
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import infer_result_types
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.operation import ProgramOp, bodies, create, declares
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes.decompose import decompose_op
from pirkit.runtime.binding import Bind, Binding, Step
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.runtime.registry import CPU

NAME = "composite"


def _called(program: ProgramOp) -> Iterator[OpDef]:
    """The ops of a program that need a kernel."""
    for op in operations(program.block):
        if op.definition.dialect != "pir" and not bodies(op) and not declares(op, SOURCE):
            yield op.definition


def composite(definition: OpDef, library: KernelLibrary) -> Bind:
    """A binder for the decomposition of an op, whose parts run on the kernels of ``library``.

    It serves no call with a part that would fall back from the device of the library to the CPU.
    Raises UnsupportedError for a call that its rule cannot decompose.
    """
    take = library.device.take
    may_fall_back = library.falls_back and library.device.name != CPU

    def bind(b: Binding) -> Step | None:
        program = ProgramOp.build(NAME)
        builder = Builder(program.block)
        inputs: list[str] = []
        operands = [_operand(builder, meta, inputs) for meta in b.inputs]
        op = _emit(builder, definition.base, operands, b)
        for index, result in enumerate(op.result_slots):
            if result is not None:
                values = _items(builder, builder.wrap(result))
                for item, value in enumerate(values):
                    builder("pir.shadow_output", value, output_name=f"{index}.{item}")
        if not decompose_op(op):
            return None
        if may_fall_back and not all(library.is_native(d) for d in _called(program)):
            return None
        exe = Executable(write_plan(program, library=library), library)
        shape = [_count(meta) for meta in b.outputs]

        def step(*arrays: Any) -> tuple[Any, ...]:
            given = dict(zip(inputs, _flat(arrays), strict=False))
            found = {name: take(array) for name, array in exe.run(given).items()}
            return tuple(
                [
                    None
                    if count is None
                    else found[f"{i}.0"]
                    if count < 0
                    else [found[f"{i}.{j}"] for j in range(count)]
                    for i, count in enumerate(shape)
                ]
            )

        return step

    return bind


def _emit(b: Builder, definition: OpDef, operands: Sequence[Any], binding: Binding) -> Any:
    """Create the op with the bound attributes and only the results that the binding has."""
    given = iter(operands)
    slots = [next(given, None) if s.kind is None else None for s in definition.operands]
    values = [None if v is None else cast(Value, v).ssa for v in slots]
    kinds = definition.attr_kinds
    properties = {
        name: encode(kinds[name], value)
        for name, value in binding.attrs.items()
        if name in kinds and value is not None
    }
    types = infer_result_types(definition, values, properties)
    wanted = [t if m is not None else None for t, m in zip(types, binding.outputs, strict=True)]
    return b.insert(create(definition, values, wanted, properties))


def _operand(b: Builder, meta: Meta | None, names: list[str]) -> Value | None:
    if meta is None:
        return None
    if isinstance(meta, VecMeta):
        return b.combine([cast(Value, _operand(b, m, names)) for m in meta.items])
    tensor = cast(TensorMeta, meta)
    names.append(f"x{len(names)}")
    return b("pd_op.data", name=names[-1], shape=tensor.shape, dtype=tensor.dtype, place=UNDEFINED)


def _items(b: Builder, value: Value) -> Sequence[Value]:
    return b.split_vec(value) if isinstance(value.any_meta, VecMeta) else (value,)


def _count(meta: Meta | None) -> int | None:
    """The number of elements of a list result; -1 for a tensor, None for an absent result."""
    if meta is None:
        return None
    return len(meta) if isinstance(meta, VecMeta) else -1


def _flat(arrays: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for array in arrays:
        if array is not None:
            found += cast("list[Any]", array) if isinstance(array, list) else [array]
    return found

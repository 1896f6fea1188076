"""Captures a live function of `paddle.jit.to_static` as a program, without a file.

Paddle's own writer serializes the program into memory, and the reader of that format reads it, so
there is one importer. What the format lacks comes from the live operations, which are in the same
order: the line of Python of each, and which values are outputs.
"""

from __future__ import annotations

import os
import re
import tempfile
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import ArgumentError, InternalError, PirkitError
from pirkit.diag.forks import renewed
from pirkit.diag.span import Span
from pirkit.dialect.operation import PirOp, create, location_of
from pirkit.dialect.program import Program
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.params import unfilled_parameters
from pirkit.paddle.captured_loops import differentiable_loops
from pirkit.paddle.custom_layers import custom_layers, insert_custom
from pirkit.paddle.libpaddle import core, paddle, translator
from pirkit.paddle.requested_gradients import insert_gradients, requested
from pirkit.paddle.shared_memory import array_of

_FRAME: Final = re.compile(r'\s*File "([^"]+)", line (\d+)')
"""A line of Paddle's call stack of an operation."""
_TOLD: Final = 500
"""Characters that are kept at both ends of a longer message of Paddle."""

_INTERNAL: Final = (str(Path(paddle.__file__).parent), str(Path(__file__).parent), "<")
"""Beginnings of names of files that are not the user's."""

_CONVERTER: Final = renewed(RLock())
"""Held while Paddle converts: its converter, and what we replace there, are global."""


@dataclass(frozen=True)
class Captured:
    """A live program as one of pirkit's, with what calls of it need."""

    program: Program
    inputs: tuple[str, ...]
    """The names of the inputs, in the order of the tensors among the arguments."""
    tensors: dict[str, Any]
    """Name -> Paddle's tensor, for parameters and buffers."""
    structure: Any
    """What the function returns, with indices of outputs for tensors, and `Constant` for others."""


def from_static(function: Any, inputs: Sequence[Any]) -> Program:
    """The program of a layer, a function, or what `paddle.jit.to_static` made of one.

    ``inputs`` are the arguments: tensors, or `paddle.static.InputSpec` for sizes that vary. Outputs
    are ``output_0``... in the order of `paddle.utils.flatten`, inputs have Paddle's names. Each
    operation has the line of the user's Python that made it. ``program.params`` shares the memory
    of Paddle's parameters and buffers. The layer itself is not changed.

    Raises ArgumentError (PK0701) for what cannot be captured as one program, UnsupportedError
    (PK0401) for an op that pirkit does not know.
    """
    return captured(function, inputs).program


def captured(function: Any, inputs: Sequence[Any]) -> Captured:
    """See `from_static`."""
    with _CONVERTER:
        return _captured(function, inputs)


def _captured(function: Any, inputs: Sequence[Any]) -> Captured:
    static = _static(function)
    with requested() as gradients, custom_layers() as customs, differentiable_loops():
        try:
            if any(isinstance(each, paddle.static.InputSpec) for each in inputs):
                concrete = static.concrete_program_specify_input_spec(list(inputs))
            else:
                concrete, _ = static.get_concrete_program(*inputs)
        except PirkitError:
            raise
        except Exception as error:  # Paddle's converter runs the user's code, which raises anything
            told, span = _told(error)
            raise ArgumentError(
                f"`paddle.jit.to_static` does not convert <{_name_of(function)}>: {told}",
                span=span,
                help="rewrite the line, or run the layer by Paddle, whose message is above",
            ) from error
    # Operations are in one order on both sides, which pairs them.
    module = read_paddle_json(serialized(concrete.main_program), "<paddle>")
    theirs = list(_walk(concrete.main_program.global_block()))
    ours = [op for op in module.walk() if isinstance(op, PirOp)]
    if len(theirs) != len(ours):
        raise InternalError(f"Paddle has {len(theirs)} operations, of which {len(ours)} are read")
    made: dict[int, PirOp] = {}
    location: mlir.LocationAttr = mlir.UnknownLoc()
    for live, op in zip(theirs, ours, strict=True):
        made[live.id()] = op
        # A loop has no call stack: it gets the line of its condition, the op before.
        op.location = location = _location(live) or location
    program = Program(module, {}, f"<{_name_of(function)}>")
    tensors = {each.name: each for each in concrete.parameters[0]}
    program.params.update(unfilled_parameters(module))
    for name, each in tensors.items():
        program.params[name] = array_of(each) if each._is_initialized() else np.empty(0, np.uint8)
    structure = _with_outputs(program, concrete.outputs, made)
    insert_custom(customs, made)
    insert_gradients(gradients, made)
    verify_module(module)
    values = [v for v in paddle.utils.flatten(concrete.inputs) if _is_value(v)]
    names = [made[v.get_defining_op().id()].attribute("name") for v in values]
    return Captured(program, tuple(names), tensors, structure)


def _told(error: Exception) -> tuple[str, Span | None]:
    """What an error of Paddle's converter says, on one line, and the user's line that it is about.

    Its errors in converted code show the frames and their lines first, and the reason last.
    """
    text = str(error)
    frames = [m for m in _FRAME.finditer(text) if not m[1].startswith(_INTERNAL)]
    told = repr(error)
    if text.startswith("In transformed code"):
        told = " ".join(text[max(text.find(f"{type(error).__name__}: "), 0) :].split())
    if len(told) > 2 * _TOLD:  # it may name all elements of a tensor
        told = f"{told[:_TOLD]} ... {told[-_TOLD:]}"
    return told, Span(frames[-1][1], int(frames[-1][2])) if frames else None


def _static(function: Any) -> Any:
    """The static function that captures a function as one program."""
    if isinstance(function, paddle.nn.Layer):
        function = function.forward
    if isinstance(function, translator.ASTStaticFunction):
        return function
    if isinstance(function, translator.StaticFunction):  # it captures pieces of the function
        owner = function.class_instance
        plain = function.dygraph_function
        function = plain if owner is None else types.MethodType(plain, owner)
    if not callable(function):
        raise ArgumentError(
            f"`from_static` takes a layer or a function, not a {type(function).__name__}",
            help="`pirkit.paddle.from_static(layer, [x])`",
        )
    return paddle.jit.to_static(function, full_graph=True)


def _walk(block: Any) -> Iterator[Any]:
    """The operations of a live block, those of regions after their op, as in the written form."""
    for op in block.ops:
        yield op
        for inner in op.blocks():
            yield from _walk(inner)


def _location(live: Any) -> mlir.LocationAttr | None:
    """The innermost line of Python that is neither Paddle's own nor of this room."""
    frames = [match for line in reversed(live.callstack) if (match := _FRAME.match(line))]
    for frame in frames:
        if not frame[1].startswith(_INTERNAL):
            return location_of(frame[1], int(frame[2]))
    return None


def _with_outputs(program: Program, returned: Any, made: dict[int, PirOp]) -> Any:
    """Add the outputs to a program; returns the structure of the result, with their indices."""
    leaves: list[Any] = []
    count = 0
    for leaf in cast("list[Any]", paddle.utils.flatten(returned)):
        if not _is_value(leaf):
            leaves.append(Constant(leaf))
            continue
        op = made[leaf.get_defining_op().id()]
        value = op.result_slots[cast(int, leaf.index())]
        named = {"output_name": mlir.StringAttr(f"output_{count}")}
        output = create("pir.shadow_output", [value], [], named, location=op.location)
        program.main.block.add_op(output)
        leaves.append(count)
        count += 1
    structure = paddle.utils.pack_sequence_as(returned, leaves)
    # Paddle wraps a single result in a list, and unwraps every list of one when it is called.
    is_single = isinstance(returned, list | tuple) and len(cast("list[Any]", returned)) == 1
    return structure[0] if is_single else structure


@dataclass(frozen=True)
class Constant:
    """Something other than a tensor in the result of a function."""

    content: Any


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, paddle.pir.Value)


def _name_of(function: Any) -> str:
    return cast(str, getattr(function, "__name__", type(function).__name__))


def serialized(program: Any) -> bytes:
    """The bytes that Paddle's own writer makes of a program.

    The writer takes a path: it gets that of anonymous memory, or where the system has none, of a
    file that is removed at once.
    """
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("program")
        path = f"/proc/self/fd/{handle}"
    else:
        handle, path = tempfile.mkstemp(suffix=".json")
    try:
        core.serialize_pir_program(program, path, True, False, True)
        with open(path, "rb") as written:
            return written.read()
    finally:
        os.close(handle)
        if not path.startswith("/proc/"):
            os.unlink(path)

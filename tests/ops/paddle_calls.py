"""Calls of ops made with the installed Paddle, which is the measure of what an op means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import paddle  # pyright: ignore[reportMissingImports]
from paddle.base import core  # pyright: ignore[reportMissingImports]

from pirkit.dialect.opdef import OpDef
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from tests.ops.calls import Call, tensor_slots

Array = np.ndarray[Any, Any]

HEADERS: Final = "include/paddle/fluid/pir/dialect/operator/ir"

_CLASS = re.compile(r'return "(pd_op\.\w+)"; \}(?:(?!return "pd_op).)*?static void Build\((.*?)\);')
_PARAMETER = re.compile(
    r"(?:, |^)(?:const )?([\w:<>]+)(?:& | &| )(\w+?)_?(?: ?= ?(?:\{[^}]*\}|[^,{]+))?(?=, |$)"
)

REFUSALS: Final = re.compile(
    r"not registered|Check data type error|is not supported|not support|Unimplemented"
    r"|expected_dtype|only supports? |cannot be cast|doesn't support|must be .*(?:dtype|type)"
    r"|data ?type|must be one of|must be Value, but got Tensor",
    re.IGNORECASE,
)
"""What Paddle says where it has no CPU kernel for an element type, or no eager form of an op."""

_TENSOR_DTYPES: Final = {"intarray": "int64", "i64": "int32", "i32": "int32"}
"""Element types of attributes that Paddle takes as tensors."""

_ARG_REDUCTION: Final = ("x", "axis", "keepdims", "dtype")

PYTHON_ORDERS: Final = {"pd_op.argmax": _ARG_REDUCTION, "pd_op.argmin": _ARG_REDUCTION}
"""Functions of ``paddle._C_ops`` that take the arguments of the public function instead."""

FLATTENED: Final = {"pd_op.argmax": "axis", "pd_op.argmin": "axis"}
"""Arguments of those functions that are None where the op has `flatten`."""

EAGER_TENSORS: Final = {"pd_op.arange": ("start", "end", "step")}
"""Attributes that Paddle's eager functions take only as tensors, its programs as numbers."""


class NotComparable(Exception):
    """Paddle has no such op, or none for this element type on CPU."""


@lru_cache(maxsize=1)
def parameters() -> dict[str, dict[str, bool]]:
    """Op name -> its operands and attributes in the order in which ``paddle._C_ops`` takes them.

    The C++ builders take them in the same order; their declarations are part of the wheel. The
    value is True for a parameter that is always a tensor.
    """
    folder = Path(str(paddle.__file__)).parent / HEADERS
    text = "".join((folder / name).read_text() for name in ("pd_op.h", "manual_op.h"))
    text = re.sub(r"\s+", " ", re.sub(r"//.*", "", text))
    skipped = ("builder", "argument", "attributes")
    found: dict[str, dict[str, bool]] = {}
    for name, declared in _CLASS.findall(text):
        listed = _PARAMETER.findall(declared.strip())
        items = {n: t == "pir::Value" for t, n in listed if n not in skipped}
        found.setdefault(name, items)
    return found


def python_name(definition: OpDef) -> str:
    """The attribute of ``paddle._C_ops`` for an op."""
    bare = definition.name.partition(".")[2]
    for name in (bare, bare.removesuffix("_")):
        if hasattr(paddle._C_ops, name):
            return name
    raise NotComparable(f"paddle._C_ops has no {bare}")


def arguments(
    call: Call, tensors: list[Any], constant: Callable[[list[Any], str], Any]
) -> list[Any]:
    """The arguments of the Paddle function: tensors (or values of a program) and attributes.

    ``constant`` makes a tensor for attributes that Paddle takes only as one.
    """
    definition = call.definition
    declared = parameters().get(definition.name)
    if declared is None:
        raise NotComparable(f"Paddle does not declare {definition.name}")
    slots = dict(zip([s.name for s in tensor_slots(definition)], tensors, strict=True))
    kinds = definition.attr_kinds
    if set(declared) != {*slots, *kinds}:
        raise LookupError(f"{definition.name}: Paddle's arguments are {list(declared)}")
    order = PYTHON_ORDERS.get(definition.name, tuple(declared))
    found: list[Any] = []
    eager_tensors = EAGER_TENSORS.get(definition.name, ()) if paddle.in_dynamic_mode() else ()
    for name in order:
        if name in slots:
            found.append(slots[name])
        elif name == FLATTENED.get(definition.name) and call.attrs["flatten"]:
            found.append(None)
        elif declared[name] or name in eager_tensors:
            found.append(constant(*_as_tensor(call, name)))
        else:
            found.append(attribute(kinds[name], call.attrs[name]))
    return found


def _as_tensor(call: Call, name: str) -> tuple[list[Any], str]:
    """Content and element type of the tensor that stands for an attribute."""
    value, kind = call.attrs[name], call.definition.attr_kinds[name]
    listed = list(value) if isinstance(value, tuple) else [value]
    if kind in _TENSOR_DTYPES:
        return listed, _TENSOR_DTYPES[kind]
    own = call.attrs.get("dtype")
    return listed, own.name if own is not None else "float32"


def attribute(kind: str, value: Any) -> Any:
    """An attribute value as Paddle takes it."""
    if kind == "dtype":
        return core.DataType.UNDEFINED if value is None else getattr(paddle, value.name)
    if kind == "place":
        return core.CPUPlace() if value.kind == "cpu" else core.Place()
    return list(value) if isinstance(value, tuple) else value


def eager(call: Call) -> list[Any]:
    """Results of the op computed by Paddle on CPU; intermediate ones may be left out.

    Raises NotComparable where Paddle cannot.
    """
    function = getattr(paddle._C_ops, python_name(call.definition))
    tensors = [_map(a, to_paddle) for a in call.args]
    try:
        found = function(*arguments(call, tensors, paddle.to_tensor))
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        raise _refusal(error) from error
    listed = list(found) if _several(call.definition, found) else [found]
    if not all(isinstance(t, paddle.Tensor) for t in _flat(listed)):
        raise NotComparable("the op has no eager form")
    return [_map(f, to_numpy) for f in listed]


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        elif value is not None:
            yield value


def _several(definition: OpDef, found: Any) -> bool:
    """True for a tuple of results, False for one result that may itself be a list."""
    if not isinstance(found, list | tuple):
        return False
    return len(visible(definition)) > 1 or isinstance(found, tuple)


def visible(definition: OpDef) -> list[int]:
    """Numbers of the results that Paddle's Python functions return."""
    shown = RETURNED.get(definition.name, ())
    return [i for i, r in enumerate(definition.results) if not r.intermediate or r.name in shown]


RETURNED: Final = {"pd_op.rnn": ("dropout_state_out",)}
"""Results that only gradients need, but that Paddle's Python functions return all the same."""


def static_types(call: Call) -> list[Meta | None]:
    """Result types of the op in a Paddle program with inputs of the sample's sizes.

    Raises NotComparable where Paddle cannot build it.
    """
    return _of_program(call, lambda p: _types_of_last(p, call.definition))


def program_text(call: Call) -> str:
    """The text of a Paddle program that calls the op with inputs of the sample's sizes.

    Raises NotComparable where Paddle cannot build it.
    """
    return _of_program(call, str)


def _of_program(call: Call, found: Callable[[Any], Any]) -> Any:
    """What ``found`` tells of a Paddle program of one call."""
    name = python_name(call.definition)
    paddle.enable_static()
    try:
        with paddle.pir_utils.IrGuard():
            program = paddle.static.Program()
            with paddle.static.program_guard(program):
                numbers = iter(range(1000))
                tensors = [_map(a, lambda x: _input(f"x{next(numbers)}", x)) for a in call.args]
                getattr(paddle._C_ops, name)(*arguments(call, tensors, _constant))
                return found(program)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        raise _refusal(error) from error
    finally:
        paddle.disable_static()


def _input(name: str, x: Array) -> Any:
    return paddle.static.data(name, list(x.shape), dt.of_array(x).name)


def _constant(values: list[Any], dtype: str) -> Any:
    """A tensor in a program; its content does not matter to the types."""
    return paddle.full([len(values)], values[0], dtype)


def _types_of_last(program: Any, definition: OpDef) -> list[Meta | None]:
    wanted = (definition.name, definition.name + "_", definition.name.removesuffix("_"))
    for op in reversed(program.global_block().ops):
        if op.name() in wanted:
            return [_type(v) for v in op.results()]
    raise NotComparable(f"Paddle built no {definition.name}")


def _type(value: Any) -> Meta | None:
    if not value.initialized():
        return None
    held = value.type()
    listed = held.as_vec_type()
    if listed is not None:
        return VecMeta(tuple(_tensor_type(t) for t in listed.as_list()))
    return _tensor_type(held)


def _tensor_type(held: Any) -> TensorMeta:
    return TensorMeta(tuple(held.shape), dt.BY_NAME[str(held.dtype).removeprefix("paddle.")])


def _refusal(error: Exception) -> Exception:
    text = str(error)
    return NotComparable(text[-200:]) if REFUSALS.search(text) else error


def to_paddle(x: Array) -> Any:
    own: DType = dt.of_array(x)
    if own is dt.bfloat16:
        return paddle.to_tensor(x.astype(np.float32), place=paddle.CPUPlace()).astype("bfloat16")
    return paddle.to_tensor(x, place=paddle.CPUPlace())


def to_numpy(x: Any) -> Array | None:
    """The content of a Paddle tensor; None for one that was never computed."""
    if not x._is_initialized():
        return None
    if x.dtype == paddle.bfloat16:
        return x.astype("float32").numpy().astype(dt.bfloat16.np)
    return x.numpy()


def _map(value: Any, change: Any) -> Any:
    if value is None:
        return None
    return [change(v) for v in value] if isinstance(value, list | tuple) else change(value)

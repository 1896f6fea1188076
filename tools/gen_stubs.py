"""Writes ``pirkit/ops.pyi`` and ``pirkit/numpy.pyi``: signatures for type checkers.

python tools/gen_stubs.py            write them
python tools/gen_stubs.py --check    fail if one is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from inspect import Parameter
from keyword import iskeyword
from pathlib import Path
from typing import Any

import numpy as np

from pirkit import ops
from pirkit.dialect.opdef import OpDef, lookup
from pirkit.dialect.signature import Operand
from pirkit.frontend.array_namespace import EXTENSIONS, NAMES, ArrayFunction, NumpyFunction
from pirkit.frontend.signatures import signature_of
from pirkit.runtime.dtype import DType

PACKAGE = Path(__file__).parents[1] / "pirkit"
WIDTH = 100

HEAD = """\
# Made from the op table: `python tools/gen_stubs.py`.

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pirkit.frontend.eager import EagerOp
from pirkit.runtime.place import Place
from pirkit.runtime.tensor.dense import DenseTensor as Tensor
from pirkit.runtime.tensor.meta_cache import DTypeLike

TensorLike: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic[Any] | builtins.complex

def op(name: str) -> EagerOp: ...
"""

KINDS = {
    "bool": "bool",
    "str": "str",
    "layout": "str",
    "dtype": "DTypeLike | None",
    "place": "Place",
    "scalar": "TensorLike",
    "intarray": "Sequence[Any] | TensorLike",
    "i32": "int",
    "i64": "int",
    "f32": "float",
    "f64": "float",
}
"""Kind of an attribute -> its type in Python."""


def ops_stub() -> str:
    """The signatures of ``pirkit.ops``, from the op table."""
    names = [n for n in dir(ops) if n.isidentifier() and not iskeyword(n)]
    return HEAD + "".join(_function(n, lookup(f"pd_op.{n}")) for n in names)


def _function(name: str, definition: OpDef) -> str:
    return _declared(name, list(_parameters(definition)), _result(definition))


def _declared(name: str, parts: list[str], result: str, width: int = WIDTH) -> str:
    line = f"def {name}({', '.join(parts)}) -> {result}: ...\n"
    if len(line) <= width + 1:
        return line
    return f"def {name}(\n" + "".join(f"    {p},\n" for p in parts) + f") -> {result}: ...\n"


def _parameters(definition: OpDef) -> Iterator[str]:
    slots = (*definition.operands, *definition.attrs)
    signature = signature_of(definition)
    has_star = False
    for slot, shown in zip(slots, signature.parameters.values(), strict=True):
        if iskeyword(slot.name):
            yield "**keywords: Any"  # only `**{"lambda": 20.0}` can pass it
            return
        if shown.kind is Parameter.VAR_POSITIONAL:
            has_star = True
            yield f"*{slot.name}: TensorLike"
            continue
        if shown.kind is Parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            yield "*"
        kind, default = _type(slot), shown.default
        if default is None and "None" not in kind:
            kind += " | None"
        yield f"{slot.name}: {kind}" + ("" if default is Parameter.empty else " = ...")


def _type(slot: object) -> str:
    kind = getattr(slot, "kind", None)
    if kind is None:
        is_vec = isinstance(slot, Operand) and slot.is_vec
        return "Sequence[TensorLike]" if is_vec else "TensorLike"
    if kind.endswith("[]"):
        return f"Sequence[{KINDS[kind[:-2]]}] | {KINDS[kind[:-2]]}"
    may_be_tensor = isinstance(slot, Operand) and "TensorLike" not in KINDS[kind]
    return KINDS[kind] + (" | TensorLike" if may_be_tensor else "")


def _result(definition: OpDef) -> str:
    shown = [r for r in definition.results if not r.intermediate]
    if any(r.variadic for r in shown):
        return "Any"
    kinds = ["list[Tensor]" if r.is_vec else "Tensor" for r in shown]
    if any(r.optional for r in shown):  # a call gives those that are there
        return "Any"
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]" if kinds else "None"


# --- pirkit.numpy --------------------------------------------------------------------------------

NUMPY_HEAD = """\
# Made from the tables of the array API: `python tools/gen_stubs.py`.

import builtins
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.dense import DenseTensor as Tensor
from pirkit.runtime.tensor.meta_cache import DTypeLike

ArrayLike: TypeAlias = (
    Tensor | np.ndarray[Any, Any] | np.generic[Any] | builtins.complex | Sequence[Any]
)

def check_version(version: str | None) -> None: ...
"""

PARAMETERS = {
    "x x1 x2 condition indices repeats min max fill_value": "ArrayLike",
    "axis axes": "int | Sequence[Any] | None",
    "keepdims include_initial descending stable copy endpoint full_matrices upper": "builtins.bool",
    "dtype": "DTypeLike | None",
    "shape repetitions": "int | Sequence[int]",
    "arrays": "ArrayLike",
}
"""Parameters of the standard and their types; others are of any type."""

RESULTS = {
    "can_cast isdtype": "builtins.bool",
    "result_type": "DType",
    "nonzero unstack": "tuple[Tensor, ...]",
    "meshgrid broadcast_arrays": "list[Tensor]",
    "finfo iinfo unique_all unique_counts unique_inverse linalg.eigh linalg.qr linalg.slogdet"
    " linalg.svd": "Any",
}
"""Functions that give something else than a tensor."""


def _spread(table: dict[str, str]) -> dict[str, str]:
    return {name: kind for names, kind in table.items() for name in names.split()}


def numpy_stub() -> str:
    """The signatures of ``pirkit.numpy``, from the tables of the array API."""
    constants = [
        f"{name}: Final[{NAMED.get(type(thing), 'Any')}]\n"
        for name, thing in sorted(NAMES.items())
        if not isinstance(thing, ArrayFunction | NumpyFunction)
    ]
    parts = ["\n", *constants, "\n", *_functions(NAMES, WIDTH)]
    for name, members in sorted(EXTENSIONS.items()):
        parts.append(f"\nclass {name}:\n")
        for declared in _functions(members, WIDTH - 4):
            lines = ["@staticmethod", *declared.splitlines()]
            parts += [f"    {line}\n" for line in lines]
    return NUMPY_HEAD + "".join(parts)


NAMED: dict[type, str] = {DType: "DType", float: "float", str: "str", type(None): "None"}


def _functions(members: dict[str, Any], width: int) -> Iterator[str]:
    for name, thing in sorted(members.items()):
        if isinstance(thing, NumpyFunction):
            yield _declared(name, ["*args: Any", "**kwargs: Any"], "Any")
        elif isinstance(thing, ArrayFunction):
            parts = list(_array_parameters(thing))
            result = _spread(RESULTS).get(thing.name, "Tensor")
            yield _declared(name, parts, result, width)


def _array_parameters(function: ArrayFunction) -> Iterator[str]:
    """Those of the standard; besides them numpy's, which depend on the numpy that is installed."""
    takes_more = not isinstance(getattr(np, function.name, None), np.ufunc)
    kinds, previous, has_star = _spread(PARAMETERS), None, False
    for name, p in function.__signature__.parameters.items():
        if previous is Parameter.POSITIONAL_ONLY and p.kind is not previous:
            yield "/"
        if p.kind is Parameter.VAR_POSITIONAL:
            has_star = True
            name = f"*{name}"
        if p.kind is Parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            yield "*args: Any" if takes_more else "*"
        kind = kinds.get(name.lstrip("*"), "Any")
        if p.default is None and kind != "Any" and "None" not in kind:
            kind += " | None"
        yield f"{name}: {kind}" + ("" if p.default is Parameter.empty else " = ...")
        previous = p.kind
    if previous is Parameter.POSITIONAL_ONLY:
        yield "/"
    if takes_more:
        yield from ("**kwargs: Any",) if has_star else ("*args: Any", "**kwargs: Any")


STUBS: dict[Path, Callable[[], str]] = {
    PACKAGE / "ops.pyi": ops_stub,
    PACKAGE / "numpy.pyi": numpy_stub,
}


def main() -> int:
    """Write the stubs, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args().check:
        for path, stub in STUBS.items():
            path.write_text(stub(), encoding="utf-8")
        return 0
    old = [path.name for path, stub in STUBS.items() if path.read_text(encoding="utf-8") != stub()]
    for name in old:
        print(f"{name} is out of date: run `python tools/gen_stubs.py`", file=sys.stderr)
    return len(old)


if __name__ == "__main__":
    sys.exit(main())

"""Writes ``pirkit/ops.pyi``: the signatures of ``pirkit.ops`` for type checkers.

python tools/gen_stubs.py            write it
python tools/gen_stubs.py --check    fail if it is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from inspect import Parameter
from keyword import iskeyword
from pathlib import Path

from pirkit import ops
from pirkit.dialect.opdef import OpDef, lookup
from pirkit.dialect.signature import Operand
from pirkit.frontend.signatures import signature_of

STUB = Path(__file__).parents[1] / "pirkit" / "ops.pyi"
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


def stub() -> str:
    """The text of the stub."""
    names = [n for n in dir(ops) if n.isidentifier() and not iskeyword(n)]
    return HEAD + "".join(_function(n, lookup(f"pd_op.{n}")) for n in names)


def _function(name: str, definition: OpDef) -> str:
    parts = list(_parameters(definition))
    result = _result(definition)
    line = f"def {name}({', '.join(parts)}) -> {result}: ...\n"
    if len(line) <= WIDTH + 1:
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


def main() -> int:
    """Write the stub, or compare it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args().check:
        STUB.write_text(stub(), encoding="utf-8")
        return 0
    if STUB.read_text(encoding="utf-8") == stub():
        return 0
    print("ops.pyi is out of date: run `python tools/gen_stubs.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

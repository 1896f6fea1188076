"""Refuses archives of `torch.export.save` that would make torch run code while it reads them.

torch unpickles example inputs, objects, and weights that are marked so; evaluates sizes as Python;
loads libraries that compilers left in the archive; looks up targets of nodes in all of its modules;
and imports modules that trees of arguments name. An archive of tensors and operators needs none of
that, so an archive that asks for it is refused before torch reads it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
from collections.abc import Iterator
from math import prod
from typing import Any, Final, NoReturn

from pirkit.diag.errors import ArtifactError
from pirkit.diag.limits import check_unpacked
from pirkit.diag.span import Span
from pirkit.torch.libtorch import torch

_RECORDS: Final = re.compile(
    r"archive_format|archive_version|byteorder|version|\.format_version|\.storage_alignment"
    r"|\.data/(serialization_id|version)|models/[^/]+\.json|extra/.+"
    r"|data/(weights/(weight_\d+|[^/]+_weights_config\.json)"
    r"|constants/(tensor_\d+|[^/]+_constants_config\.json)|sample_inputs/[^/]+\.pt)"
)
"""Names of records that hold text, numbers, or what is checked here."""
_SYMBOL: Final = re.compile(r"(s|u|z|zf|zuf)\d+|int_oo|oo|true|false")
_FUNCTIONS: Final = frozenset(
    "FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv RShift"
    " FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat"
    " TruncToInt RoundToInt RoundDecimal ToFloat Identity Max Min Abs Add Mul Integer Rational And"
    " Or Not Equality Unequality LessThan GreaterThan StrictLessThan StrictGreaterThan floor"
    " ceiling Eq Ne Lt Le Gt Ge sqrt".split()
)
"""Functions in sizes: those of torch and a few of sympy."""
_POWERS: Final = frozenset({"LShift", "Pow", "PowByNatural", "FloatPow"})
_LITERALS: Final = {"Symbol": _SYMBOL, "Float": re.compile(r"-?[\d.]+(e[+-]?\d\d?)?")}
"""Functions whose argument is a text, and the texts that are allowed."""
_PLAIN: Final = (
    ast.Expression, ast.Load, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.BinOp,
    ast.UnaryOp, ast.Compare, ast.BoolOp,
)  # fmt: skip
_MOST_DIGITS: Final = 20
_MOST_POWER: Final = 64
_MOST_POWERS: Final = 3
"""How deep powers may be nested."""
_TARGET: Final = re.compile(r"torch\.(ops\.\w+\.\w+(\.\w+)?|sym_\w+)|_operator\.\w+|math\.trunc")
_IMPORTING: Final = re.compile(r"default_factory|__enum__|\bfqn\b")
"""Keys of trees of arguments whose values are names of modules to import."""


def check_archive(name: str, file: Any) -> None:
    """Raise ArtifactError (PK0500) if torch would run code of an archive while it reads it.

    torch's own reader splits the archive, so that the check and torch see the same records.
    """
    span = Span(name)
    reader: Any = torch._C.PyTorchFileReader(file)
    records: list[str] = reader.get_all_records()
    stored = os.fstat(file.fileno()).st_size
    check_unpacked(stored, sum(map(reader.get_record_size, records)), span)
    for record in records:
        if not _RECORDS.fullmatch(record) or records.count(record) > 1:
            _refuse(name, f"the record `{record}`")
        if record.endswith(".json") and not record.startswith("extra/"):
            held = json.loads(reader.get_record(record))
            _check_json(name, held)
            check_unpacked(stored, 8 * sum(map(_elements, held.get("config", {}).values())), span)
        elif record.endswith(".pt") and (held := reader.get_record(record)):
            try:
                torch.load(io.BytesIO(held), weights_only=True)
            except Exception:  # torch documents no type; what it cannot read safely is refused
                _refuse(name, f"objects in `{record}`")


def _elements(payload: Any) -> int:
    """The number of elements of a tensor, which with strides of 0 is more than what is stored."""
    return prod([size.get("as_int", 1) for size in payload["tensor_meta"]["sizes"]])


def _check_json(name: str, value: Any) -> None:
    """Raise ArtifactError (PK0500) for an entry of a JSON record that names code."""
    for key, held in _entries(value):
        if key == "use_pickle" and held:
            _refuse(name, "a pickled tensor")
        if key == "expr_str" and not is_size(held):
            _refuse(name, f"the size `{held}`")
        if key in ("target", "as_operator") and isinstance(held, str) and not _is_operator(held):
            _refuse(name, f"a node that calls `{held}`")
        if key in ("in_spec", "out_spec") and isinstance(held, str) and _IMPORTING.search(held):
            _refuse(name, "a tree of arguments that names a module")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """All keys of objects at any depth, with their values."""
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict):
            yield from inner.items()
            pending += inner.values()
        elif isinstance(inner, list):
            pending += inner


def _is_operator(target: str) -> bool:
    """Whether a target is an operator, and no other function of torch."""
    if not target.startswith(("torch", "_operator", "math", "#")):
        return True  # a name in the graph, which torch does not look up
    if not _TARGET.fullmatch(target) or "__" in target:
        return False
    if not target.startswith("torch.ops."):
        return True
    found: Any = torch.ops
    for part in target.split(".")[2:]:
        found = getattr(found, part, None)
    return found is None or isinstance(
        found, torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator
    )


def is_size(text: Any) -> bool:
    """Whether a text is arithmetic on sizes, of numbers that stay small, and no other Python."""
    if not isinstance(text, str) or len(text) > 10_000:
        return False
    try:
        return _is_arithmetic(ast.parse(text.strip(), mode="eval"), _MOST_POWERS)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_arithmetic(node: ast.AST, powers: int) -> bool:
    """Whether a node is arithmetic on symbols and numbers, of powers nested at most so deep."""
    match node:
        case ast.Name(name):
            return _SYMBOL.fullmatch(name) is not None
        case ast.Constant(value):
            return isinstance(value, int | float) and len(str(value)) <= _MOST_DIGITS
        case ast.BinOp(base, ast.Pow() | ast.LShift(), power):
            return _is_power(base, power, powers)
        case ast.Call(ast.Name(name), [ast.Constant(str() as text)], facts) if name in _LITERALS:
            plain = all(isinstance(f.value, ast.Constant) for f in facts)  # such as positive=True
            return plain and _LITERALS[name].fullmatch(text) is not None
        case ast.Call(ast.Name(name), [base, power], []) if name in _POWERS:
            return _is_power(base, power, powers)
        case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS:
            return all(_is_arithmetic(a, powers) for a in arguments)
        case _:
            inner = ast.iter_child_nodes(node)
            return isinstance(node, _PLAIN) and all(_is_arithmetic(n, powers) for n in inner)


def _is_power(base: ast.AST, power: ast.AST, powers: int) -> bool:
    """Whether a power is arithmetic whose exponent has one number, of at most `_MOST_POWER`."""
    constants: list[Any] = [n.value for n in ast.walk(power) if isinstance(n, ast.Constant)]
    numbers = [v for v in constants if type(v) in (int, float)]
    # Such as `Mul(Integer(-1), Symbol('s0', positive=True))`.
    held = powers > 0 and len(numbers) <= 1 and all(n <= _MOST_POWER for n in numbers)
    return held and all(_is_arithmetic(n, powers - 1) for n in (base, power))


def _refuse(name: str, what: str) -> NoReturn:
    raise ArtifactError(
        f"{name} holds {what}, with which torch could run code",
        code="PK0500", span=Span(name),
        help="archives of tensors and operators are read; if you trust this one, load it with"
        " `torch.export.load` and give what you get to `pirkit.torch.program_of_exported`",
    )  # fmt: skip

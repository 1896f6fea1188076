"""Pages of the site that are made from the code: ops, functions, error codes, release notes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

import pirkit
from pirkit.diag.codes import CODES
from pirkit.diag.errors import PirkitError
from pirkit.dialect.opdef import OpDef, all_ops, decompose, samples, vjp
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.text import print_mlir
from pirkit.frontend.tracing import Recorder
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import of_array

ROOT = Path(__file__).parents[1]
PYTHON_INTRODUCTION = """\
# Python

What `import pirkit` gives, made from signatures and docstrings. `pirkit.numpy` is the
[array API](../array-api.md), `pirkit.ops` has a function for each of the [ops](ops.md).
"""
OPS_INTRODUCTION = """\
# Ops

Every op of the table, made from its record: operands, attributes with types and defaults after the
semicolon, results. C1, C2... are the constraints that the verifier checks. The examples are samples
that the tests run. Gradient ops (`..._grad`) are left out, and in-place forms, which end in `_`.
"""


def pages() -> dict[str, str]:
    """The pages by name."""
    return {
        "reference/python.md": PYTHON_INTRODUCTION + "".join(_functions()),
        "reference/ops.md": OPS_INTRODUCTION + "".join(_families()),
        "reference/codes.md": "# Error codes\n\n" + "".join(_codes()),
        "reference/changes.md": (ROOT / "CHANGELOG.md").read_text(),
    }


def _functions() -> Iterator[str]:
    for name in pirkit.__all__:
        found = getattr(pirkit, name)
        if not callable(found):
            continue
        try:
            signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(found)))
        except ValueError:
            signature = "(...)"
        yield f"\n## {name}\n\n```python\n{name}{signature}\n```\n\n{_doc(found)}\n"


def _doc(found: object) -> str:
    """The docstring in Markdown: two backticks are one, and what follows `::` is code."""
    text = inspect.getdoc(found) or ""
    blocks = re.sub(r"::\n\n((?:    .*\n?|\n)+)", _as_code, text)
    return re.sub(r"``([^`\n]+)``", r"`\1`", blocks)


def _as_code(match: re.Match[str]) -> str:
    return f":\n\n```\n{inspect.cleandoc(match[1])}\n```\n"


def _families() -> Iterator[str]:
    found: dict[str, list[OpDef]] = {}
    for op in all_ops():
        if op.pure is None and "_grad" not in op.name and op.name.startswith(("pd_op.", "pir.")):
            found.setdefault(op.family.replace("_", " "), []).append(op)
    for family in sorted(found):
        yield f"\n## {family.capitalize()}\n"
        yield from (_op(op) for op in sorted(found[family], key=lambda op: op.name))


def _op(op: OpDef) -> str:
    facts = [op.kind] * bool(op.kind)
    facts += [f"in place: `{op.name}_`"] * bool(op.inplace)
    facts += ["decomposes"] * (decompose.get(op) is not None)
    facts += ["has a derivative rule"] * (vjp.get(op) is not None)
    example = _example(op)
    shown = f"\n```mlir\n{example}\n```\n" if example else ""
    doc = re.sub(r"\n+(?=C\d+: )", "\n\n", _doc_text(op.doc))
    return f"\n### {op.name}\n\n`{op.signature_text}`\n\n{doc}\n\n*{', '.join(facts)}*\n{shown}"


def _doc_text(text: str) -> str:
    return re.sub(r"``([^`\n]+)``", r"`\1`", text)


def _example(op: OpDef) -> str | None:
    """The first sample as text, or None if there is none that can be written."""
    rule = samples.get(op)
    if rule is None:
        return None
    dtype = dt.float32 if dt.float32 in op.dtypes or not op.dtypes else op.dtypes[0]
    try:
        sample: Sample = next(iter(rule(SampleMaker(op, dtype))))
        b = Recorder(ProgramOp.build("main"))
        names = iter("xyzuvwabcdefghijklmnopqrst")
        b(op, *[_input(b, value, names) for value in sample.args], **sample.attrs)
        text = print_mlir(ModuleOp([b.block.parent_op()]))
    except (PirkitError, StopIteration, TypeError, ValueError):
        return None
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if re.search(rf"(^|= ){re.escape(op.name)}\(", line)]
    return found[-1] if found and "\n" not in found[-1] else None


def _input(b: Recorder, value: Any, names: Iterator[str]) -> Any:
    if isinstance(value, list):
        return [_input(b, each, names) for each in value]
    return None if value is None else b.input(next(names), of_array(value))


def _codes() -> Iterator[str]:
    yield "| code | what it says |\n|---|---|\n"
    for code, what in CODES.items():
        yield f"| [{code}](../codes/{code}.md) | {getattr(what, 'title', what)} |\n"

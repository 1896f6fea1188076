"""Writes the pages of ``docs/`` that come from docstrings.

python tools/gen_docs.py            write them
python tools/gen_docs.py --check    fail if one is out of date
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pirkit.dialect.opdef import all_ops, reference
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.passes import PIPELINES, Pass, all_passes
from pirkit.passes.laws import LAWS
from pirkit.passes.pipelines import ORDER
from pirkit.runtime.dtype import DType
from pirkit.runtime.registry import KERNELS

DOCS = Path(__file__).parents[1] / "docs"

INTRODUCTION = """\
# Passes

A pass takes a verified program and leaves a verified one with the same results. Passes run in
pipelines, on the command line and in Python:

```sh
pirkit-opt program.txt -p 'infer-meta{bind=x:4x3},@default'
```

```python
program = pirkit.run_passes(program, "constant-fold,cse,dce")
```

This page is made from the passes themselves: `python tools/gen_docs.py`.
"""


def passes_page() -> str:
    """The text of ``docs/passes.md``."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Named pipelines"
    yield ""
    for name, text in PIPELINES.items():
        yield f"- `@{name}`: `{text}`"
    yield ""
    yield "## Order"
    yield ""
    yield "Other orders work, but do less; a remark says so."
    yield ""
    yield from (f"- {rule}" for rule in ORDER)
    for cls in all_passes():
        yield ""
        yield from _pass(cls)
    yield ""
    yield "## Laws of `canonicalize`"
    yield ""
    yield "| op | law |"
    yield "|---|---|"
    yield from (f"| `{law.op}` | {law.equation} |" for law in LAWS)


KERNELS_INTRODUCTION = """\
# Kernels

Which backend computes an op, for which element types. `cpu` are the kernels of the registry (numpy
and BLAS), `reference` the plain statement of the op's meaning in numpy, which runs where no kernel
serves. Half precision is computed in float32 and rounded once. `pirkit-opt -t plan --why-kernel`
tells the choice for every operation of a program.

This page is made from the tables themselves: `python tools/gen_docs.py`.

| op | cpu | reference |
|---|---|---|
"""

KINDS_INTRODUCTION = """
## Tensors that are not dense

Ops called on selected rows (the gradient of an embedding), sparse tensors and strings. Optimizer
steps take the gradient as selected rows.

| op | kinds |
|---|---|
"""


def kernels_page() -> str:
    """The text of ``docs/kernels.md``."""
    rows = []
    for definition in sorted(all_ops(), key=lambda d: d.name):
        if definition.pure is not None or "_grad" in definition.name:
            continue
        kernels = [k.key.dtype for k in KERNELS.kernels(definition.name, backend="cpu")]
        rule = reference.get(definition)
        if not kernels and rule is None:
            continue
        own = (_types(definition.dtypes) or "any") if rule is not None else ""
        rows.append(f"| `{definition.name}` | {_types(kernels)} | {own} |")
    return KERNELS_INTRODUCTION + "\n".join(rows) + "\n" + KINDS_INTRODUCTION + _kinds() + "\n"


def _kinds() -> str:
    """Which ops take tensors that are not dense, as rows of a table."""
    kinds: dict[str, list[str]] = {}
    for kernel in KERNELS.kernels(backend="cpu"):
        found = kinds.setdefault(kernel.op, [])
        if kernel.kind != "dense" and kernel.kind not in found:
            found.append(kernel.kind)
    return "\n".join(
        f"| `{op}` | {' '.join(sorted(kinds[op]))} |" for op in sorted(kinds) if kinds[op]
    )


PRIMITIVES_INTRODUCTION = """\
# Primitives

`pirkit-opt -p decompose` turns a program into these operations, `verify-primitive` proves that it
has. The set is closed: the derivative of a primitive is made of primitives, at any order. An op is
in it if no composition of others computes the same as well: as exactly, for as many inputs, in as
few passes over memory. All operations of dialect `pir` but `pir.gradient` and `pir.jet` belong to it too.

Members of a group without a derivative have results that are discrete, piecewise constant, or about
shapes only.

This page is made from `pirkit/dialect/primitives.py`: `python tools/gen_docs.py`.
"""


def primitives_page() -> str:
    """The text of ``docs/primitives.md``."""
    lines = [PRIMITIVES_INTRODUCTION.rstrip()]
    group = ""
    for primitive in PRIMITIVES.values():
        if primitive.group != group:
            group = primitive.group
            title = f"## {group[0].upper()}{group[1:]}"
            note = "Differentiable." if primitive.differentiable else "Without a derivative."
            lines += ["", title, "", note, "", "| operation | reason |", "|---|---|"]
        lines.append(f"| `{primitive.name}` | {primitive.reason} |")
    return "\n".join(lines) + "\n"


def _types(dtypes: Iterable[DType]) -> str:
    return " ".join(dict.fromkeys(d.short for d in dtypes))


def _pass(cls: type[Pass]) -> Iterator[str]:
    yield f"## `{cls.name}`"
    yield ""
    yield from _markdown(inspect.cleandoc(cls.__doc__ or ""))
    if cls.options():
        yield ""
        yield "| option | default | meaning |"
        yield "|---|---|---|"
        for field in cls.options():
            name = field.name.replace("_", "-")
            yield f"| `{name}` | `{field.default}` | {field.metadata['help']} |"
    yield ""
    yield "| it counts | meaning |"
    yield "|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in cls.stats.items())


def _markdown(doc: str) -> Iterator[str]:
    """A docstring with its example in a fence."""
    text, _, example = doc.partition("\n::\n\n")
    yield text.rstrip()
    if example:
        yield ""
        yield "```mlir"
        yield inspect.cleandoc(example)
        yield "```"


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    stale = 0
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if not check:
            page.write_text(text, encoding="utf-8")
        elif page.read_text(encoding="utf-8") != text:
            print(f"{name} is out of date: run `python tools/gen_docs.py`", file=sys.stderr)
            stale = 1
    return stale


PAGES = {
    "passes.md": passes_page,
    "kernels.md": kernels_page,
    "primitives.md": primitives_page,
}
"""Page -> what makes it."""


if __name__ == "__main__":
    sys.exit(main())

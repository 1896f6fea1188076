"""Writes the files that come from docstrings and tables of ops: pages of ``docs/``, the passes of
``--help``, where ops are declared, and the stubs for type checkers.

python tools/gen_docs.py            write them
python tools/gen_docs.py --check    fail if one is out of date
"""

from __future__ import annotations

import argparse
import csv
import inspect
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from pirkit.cli.passes_help import pass_lines
from pirkit.dialect import ops
from pirkit.dialect.op_index import ROOM, modules
from pirkit.dialect.opdef import all_ops, decompose, lookup, reference, table_entries
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.structure import PADDLE_NAMES
from pirkit.passes import PIPELINES, Pass, all_passes
from pirkit.passes.pipelines import ORDER
from pirkit.passes.rewrite_rules import every_law
from pirkit.runtime.dtype import DType
from pirkit.runtime.kernels.cupy.host_fallback import ON_HOST
from pirkit.runtime.registry import KERNELS

ROOT = Path(__file__).parents[1]

INTRODUCTION = """\
# Passes

A pass takes a verified program and leaves a verified one with the same results. Passes run in
pipelines, on the command line and in Python:

```sh
pirkit-opt pirkit/samples/recurrence.txt -p 'infer-meta{bind=x:3},@default'
```

```python
import pirkit

program = pirkit.load("tests/corpus/paddle/mlp/program.txt")
program = pirkit.run_passes(program, "constant-fold,cse,dce")
```

[guide/write-a-pass.md](guide/write-a-pass.md) shows how to write one and run it among these.
This page is generated from the passes themselves: `python tools/gen_docs.py`.
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
    yield "## Rewrite rules of `canonicalize`"
    yield ""
    yield "| op | rule |"
    yield "|---|---|"
    yield from (
        f"| `{rewrite_rule.op}` | {rewrite_rule.equation} |" for rewrite_rule in every_law()
    )


KERNELS_INTRODUCTION = """\
# Kernels

This page lists which backend computes an op, for which element types. The column `cpu` shows the
kernels of the registry (numpy and BLAS). The column `reference` shows the reference rule, the
definition of the op in plain numpy, which runs where no kernel serves a call: an op has a kernel
only where that is faster than its reference rule. float16 and bfloat16
are computed in float32 and rounded once. Native code is not listed, because it depends on sizes:
`pirkit-opt -t plan --why-kernel` prints the choice for every operation of a program.

The backend `gpu` (cupy) has a kernel for each primitive except those below, which run on the CPU
with copies in both directions. Other ops are decomposed into primitives or run on the CPU as well.
Some kernels do not support every element type or attribute; the CPU computes the rest. All of them
were tested on a substitute for cupy that refuses numpy arrays, and none on a GPU.

{on_host}

This page is generated from the tables: `python tools/gen_docs.py`.

| op | cpu | reference |
|---|---|---|
"""

KINDS_INTRODUCTION = """
## Tensors that are not dense

These ops accept selected rows (the gradient of an embedding), sparse tensors or strings. Optimizer
ops accept the gradient as selected rows.

| op | kinds |
|---|---|
"""


BUILT_IN = ("pd_op.", "pir.", "cf.", "strings.")
"""Dialects of the table; ops of other ones are there if what declares them is imported."""


def kernels_page() -> str:
    """The text of ``docs/kernels.md``."""
    rows = []
    for definition in sorted(all_ops(), key=lambda d: d.name):
        if definition.pure is not None or "_grad" in definition.name:
            continue
        if not definition.name.startswith(BUILT_IN):
            continue
        kernels = [k.key.dtype for k in KERNELS.kernels(definition.name, backend="cpu")]
        rule = reference.get(definition)
        if not kernels and rule is None:
            continue
        own = (_types(definition.dtypes) or "any") if rule is not None else ""
        rows.append(f"| `{definition.name}` | {_types(kernels)} | {own} |")
    introduction = KERNELS_INTRODUCTION.replace("{on_host}", _on_host())
    return introduction + "\n".join(rows) + "\n" + KINDS_INTRODUCTION + _kinds() + "\n"


def _on_host() -> str:
    """The primitives without a device kernel, as a list by reason."""
    reasons: dict[str, list[str]] = {}
    for op, reason in ON_HOST.items():
        reasons.setdefault(reason, []).append(f"`{op}`")
    return "\n".join(f"- {reason}: {', '.join(ops)}" for reason, ops in reasons.items())


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

Primitives are the ops that do not decompose further. `pirkit-opt -p decompose` rewrites a program
to these operations, and `verify-primitive` checks that no others are left. The set is closed under
differentiation: the derivative of a primitive consists of primitives, at any order.

An op is a primitive if no composition of others is as accurate, covers as many inputs, and makes as
few passes over memory; the table gives the reason for each. All operations of the dialect `pir`
except `pir.gradient` and `pir.jet` belong to the set too. Members of a group without a derivative
have results that are discrete, piecewise constant, or depend on shapes only.

`pirkit-opt --list-ops --primitives --json` prints this page in machine-readable form: operands,
attributes, types, kernels and derivatives of each member, and the location of their rules.
[op-classes.md](op-classes.md) lists which ops of real programs are primitive, and which decompose.

This page is generated from `pirkit/dialect/primitives.py`: `python tools/gen_docs.py`.
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


CLASSES_INTRODUCTION = """\
# Classes of ops

Every op that occurs in recorded programs is *primitive* or *composite*; `decompose` rewrites a
composite op to [primitives](primitives.md). None is *opaque*, that is, neither of the two. An
in-place op has the class of its pure twin, because `functionalize` runs first. A gradient op is
decomposed through the derivative of its forward op.

So all programs of the corpus, and all 978 that could be built from GraphNet's 982 graphs, consist
of primitives after `functionalize,decompose`. The corpus is tested (`tests/prim/test_closed.py`);
GraphNet's graphs were measured once: 513,119 operations became 1,285,602.

"""

PADDLE_INTRODUCTION = """
## Paddle

The columns count the programs in which an op occurs: of 982 graphs that GraphNet recorded from
models, and of 90 programs and 74 backward programs that Paddle 3.3.1 generated from networks. The
counts are those of `tools/paddle_ops.csv`.

| op | class | of 982 | of 90 | of 74 |
|---|---|---|---|---|
"""

TORCH_INTRODUCTION = """
## PyTorch

These functions are called by GraphNet's graphs of PyTorch models; `tools/torch_ops.csv` names the
ops that do the same in pirkit. Where there are none, the function computes no tensor: it reads
numbers, calculates sizes or indexes lists.

| function | calls | ops | class |
|---|---|---|---|
"""


def classes_page() -> str:
    """The text of ``docs/op-classes.md``."""
    paddle = [(row, class_of(row["op"])) for row in _rows("paddle_ops.csv")]
    counts = Counter(kind for _, kind in paddle)
    summary = ", ".join(f"{count} are {kind}" for kind, count in sorted(counts.items()))
    lines = [
        f"| `{r['op']}` | {k} | {r['graphs']} | {r['forward']} | {r['backward']} |"
        for r, k in paddle
    ]
    torch = [_torch(row) for row in _rows("torch_ops.csv")]
    return (
        f"{CLASSES_INTRODUCTION}Of Paddle's {len(paddle)} ops below, {summary}.\n"
        + PADDLE_INTRODUCTION
        + "\n".join(lines)
        + "\n"
        + TORCH_INTRODUCTION
        + "\n".join(torch)
        + "\n"
    )


def class_of(name: str) -> str:
    """``primitive``, ``composite`` or ``opaque``. Raises UnsupportedError for an unknown op."""
    definition = lookup(PADDLE_NAMES.get(name, name)).base
    if definition.name in PRIMITIVES or definition.dialect == "pir":
        return "primitive"
    return "opaque" if decompose.get(definition) is None else "composite"


def op_index() -> str:
    """The text of ``op_index.txt``; modules that are new stand at the end."""
    for found in pkgutil.walk_packages(ops.__path__, f"{ROOM}ops."):
        import_module(found.name)
    lines: dict[str, dict[str, None]] = {module: {} for module in modules()}
    for name, module in table_entries():
        if module.startswith(ROOM):
            lines.setdefault(module, {})[name] = None
    return "".join(
        " ".join([module.removeprefix(ROOM), *names]) + "\n"
        for module, names in lines.items()
        if names
    )


def _torch(row: dict[str, str]) -> str:
    names = row["ops"].split()
    kinds = {class_of(f"pd_op.{name}") for name in names}
    kind = next((k for k in ("opaque", "composite", "primitive") if k in kinds), "")
    shown = " ".join(f"`{name}`" for name in names)
    return f"| `{row['name']}` | {row['calls']} | {shown} | {kind} |"


def _rows(file: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


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
    """A docstring with its example in a fenced block."""
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
    sys.path.insert(0, str(ROOT))
    stubs = import_module("tools.gen_stubs").STUBS
    for name, make in [*PAGES.items(), *((str(p.relative_to(ROOT)), s) for p, s in stubs.items())]:
        page, text = ROOT / name, make()
        if not check:
            page.write_text(text, encoding="utf-8")
            modules.cache_clear()  # a new file of ops is in the other pages, too
        elif page.read_text(encoding="utf-8") != text:
            print(f"{name} is out of date: run `python tools/gen_docs.py`", file=sys.stderr)
            stale = 1
    return stale


PAGES = {
    "pirkit/dialect/op_index.txt": op_index,
    "docs/passes.md": passes_page,
    "docs/kernels.md": kernels_page,
    "docs/primitives.md": primitives_page,
    "docs/op-classes.md": classes_page,
    "pirkit/cli/passes.txt": pass_lines,
}
"""File -> the function that writes it."""


if __name__ == "__main__":
    sys.exit(main())

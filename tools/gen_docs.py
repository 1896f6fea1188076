"""Writes the files that come from docstrings and tables of ops: pages of ``docs/``, the passes of
``--help``, where ops are declared, the tables of files in some READMEs, and the stubs for type
checkers.

python tools/gen_docs.py            write them
python tools/gen_docs.py --check    fail if one is out of date
"""

from __future__ import annotations

import argparse
import ast
import csv
import inspect
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from textwrap import fill

from pirkit.cli.listings import pass_lines
from pirkit.dialect import ops
from pirkit.dialect.op_index import ROOM, modules
from pirkit.dialect.opdef import all_ops, decompose, lookup, reference, table_entries
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.structure import PADDLE_NAMES
from pirkit.passes import PIPELINES, Pass, all_passes
from pirkit.passes.pipelines import ORDER
from pirkit.passes.rewrite_rules import all_rewrite_rules
from pirkit.runtime.dtype import DType
from pirkit.runtime.kernels.cupy.host_fallback import ON_HOST
from pirkit.runtime.registry import KERNELS

ROOT = Path(__file__).parents[1]

INTRODUCTION = """\
# Passes

A pass transforms a program without changing its results. A pipeline is a list of passes with their
options. This page is the reference of all passes. Pipelines run on the command line and in Python:

```sh
pirkit-opt pirkit/samples/recurrence.txt -p 'infer-meta{bind=x:3},@default'
```

```python
import pirkit

program = pirkit.load("tests/corpus/paddle/mlp/program.txt")
program = pirkit.run_passes(program, "constant-fold,cse,dce")
```

The verifier runs before the first and after each pass. `--stats` prints the statistics of each
pass, `--remarks` what it changed or left. [guide/write-a-pass.md](guide/write-a-pass.md) shows how
to write a pass. `python tools/gen_docs.py` generates this page from the docstrings of the passes.
"""


def passes_page() -> str:
    """The text of ``docs/passes.md``."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Named pipelines"
    yield ""
    yield "`pirkit-run` and `pirkit.compile` use `@default` on the CPU;"
    yield "[fusion](fusion.md#what-default-does) tells what distinguishes the four."
    yield ""
    simplify = PIPELINES["simplify"]
    for name, text in PIPELINES.items():
        shown = text if name == "simplify" else text.replace(simplify, "@simplify")
        yield f"- `@{name}`: `{shown}`"
    yield ""
    yield "## Order"
    yield ""
    yield "Other orders are allowed, but passes do less in them; a remark says so."
    yield ""
    yield from (f"- {rule}" for rule in ORDER)
    yield ""
    yield "## All passes"
    yield ""
    yield "| pass | what it does |"
    yield "|---|---|"
    yield from (f"| [`{cls.name}`](#{cls.name}) | {cls.summary()} |" for cls in all_passes())
    for cls in all_passes():
        yield ""
        yield from _pass(cls)
    yield ""
    yield "## Rewrite rules of `canonicalize`"
    yield ""
    yield "| op | rule |"
    yield "|---|---|"
    yield from (f"| `{rule.op}` | {rule.equation} |" for rule in all_rewrite_rules())


KERNELS_INTRODUCTION = """\
# Kernels

This page lists the library kernels of each op by backend and element type. Look up here whether an
op runs with a type at all. To see which kernel runs in a given program, native code included, use
`pirkit-opt FILE -t plan --why-kernel`; [native code](native.md) is not listed, because it depends
on sizes. `python tools/gen_docs.py` generates this page from the op table.

- `cpu`: a kernel of the registry, by numpy, BLAS or LAPACK. An op has one only where it is faster
  than the reference rule; the others are [below](#ops-that-run-by-their-reference-rule).
- `reference`: the reference rule, the definition of the op in plain numpy. It runs on the CPU too,
  where no kernel serves a call.

Types are `f32`, `f64`, `f16`, `bf16` (floats), `i8` to `i64` and `u8` (integers), `c64` and `c128`
(complex numbers) and `b` (booleans); `any` is any type. float16 and bfloat16 are computed in
float32 and rounded once.

| op | cpu | reference |
|---|---|---|
"""

KINDS_INTRODUCTION = """
## GPU

The backend `gpu` calls cupy. It has a kernel for each primitive but those of this table, which run
on the CPU with copies in both directions. Other ops are decomposed into primitives, or run on the
CPU. Where a kernel does not support an element type or attribute, the CPU computes the call. The
kernels were tested on a substitute for cupy that refuses numpy arrays, and never on a GPU.

| why on the CPU | primitives |
|---|---|
{on_host}

## Tensors that are not dense

These ops accept selected rows (the gradient of an embedding), sparse tensors or strings. Optimizer
ops accept only the gradient as selected rows.

| op | kinds |
|---|---|
"""


OTHERS_INTRODUCTION = """
## Ops that run by their reference rule

| types | ops |
|---|---|"""


BUILT_IN = ("pd_op.", "pir.", "cf.", "strings.")
"""Dialects of the table; ops of other ones are there if what declares them is imported."""


def kernels_page() -> str:
    """The text of ``docs/kernels.md``."""
    rows: list[str] = []
    others: dict[str, list[str]] = {}
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
        if kernels:
            rows.append(f"| `{definition.name}` | {_types(kernels)} | {own} |")
        else:
            others.setdefault(own, []).append(f"`{definition.name}`")
    rows += [OTHERS_INTRODUCTION]
    rows += [f"| {types} | {', '.join(names)} |" for types, names in others.items()]
    kinds = KINDS_INTRODUCTION.replace("{on_host}", _on_host())
    return KERNELS_INTRODUCTION + "\n".join(rows) + "\n" + kinds + _kinds() + "\n"


def _on_host() -> str:
    """The primitives without a device kernel, as rows of a table by reason."""
    reasons: dict[str, list[str]] = {}
    for op, reason in ON_HOST.items():
        reasons.setdefault(reason, []).append(f"`{op}`")
    return "\n".join(f"| {reason} | {', '.join(ops)} |" for reason, ops in reasons.items())


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

Primitives are the ops that do not decompose further. A backend that runs these ops runs every
program. `pirkit-opt FILE -p decompose` rewrites a program to primitives, and the pass
`verify-primitive` checks that no other op is left. The set is closed under differentiation: the
derivative of a primitive consists of primitives, at any order.

An op is a primitive if no composition of others is as accurate, covers as many inputs, and makes as
few passes over memory. The tables give the reason for each. All operations of the dialect `pir`
except `pir.gradient` and `pir.jet` belong to the set too. The results of ops without a derivative
are discrete, piecewise constant, or depend on shapes only.

`pirkit-opt --list-ops --primitives --json` prints operands, attributes, types, kernels and
derivatives of each primitive, and the location of its rules. [op-classes.md](op-classes.md) lists
which ops of real programs are primitive, and which decompose. `python tools/gen_docs.py` generates
this page from `pirkit/dialect/primitives.py`.
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

This page lists the ops of real Paddle and PyTorch programs, how often they occur, and whether
pirkit treats them as *primitive* or *composite*. The pass `decompose` rewrites a composite op to
[primitives](primitives.md). None of these ops is *opaque*, that is, neither of the two. An in-place
op has the class of its pure twin, because `functionalize` runs first. A gradient op is decomposed
through the derivative of its forward op. `python tools/gen_docs.py` generates this page.

After `functionalize,decompose`, all programs of the corpus consist of primitives
(`tests/prim/test_closed.py`). So do all 978 programs that could be built from GraphNet's 982
graphs: measured once, 513,119 operations became 1,285,602.

"""

PADDLE_INTRODUCTION = """
## Paddle

The columns count the programs in which an op occurs: of 982 graphs that GraphNet recorded from
models, of 90 programs that Paddle 3.3.1 generated from networks, and of 74 backward programs.
`tools/paddle_ops.csv` holds the counts.

| op | class | of 982 | of 90 | of 74 |
|---|---|---|---|---|
"""

TORCH_INTRODUCTION = """
## PyTorch

These functions occur in GraphNet's graphs of PyTorch models; `tools/torch_ops.csv` maps them to ops
of pirkit. A function without ops computes no tensor: it reads numbers, calculates sizes or indexes
lists.

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
    torch = [_torch(row) for row in _rows("torch_ops.csv") if row["ops"]]
    plain = [f"`{r['name']}` {r['calls']}" for r in _rows("torch_ops.csv") if not r["ops"]]
    return (
        f"{CLASSES_INTRODUCTION}Of Paddle's {len(paddle)} ops below, {summary}.\n"
        + PADDLE_INTRODUCTION
        + "\n".join(lines)
        + "\n"
        + TORCH_INTRODUCTION
        + "\n".join(torch)
        + "\n\n"
        + fill(f"Functions without ops, with their calls: {', '.join(plain)}.", 100)
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


DESCRIBED = (
    "cli/report", "dialect/map_expr", "dialect/ops", "dialect/rules", "frontend/paddle",
    "frontend/static", "onnx/ops", "runtime/kernels", "runtime/native", "runtime/scope",
    "runtime/tensor", "stablehlo/ops", "torch/aten",
)  # fmt: skip
"""Folders whose READMEs have a table of files by their docstrings, as all folders in them."""
_ROW = re.compile(r"^\| `\w+\.py` \| .* \|\n", re.M)
"""A file in the table of a README."""


def readme_with_table(readme: Path) -> str:
    """The text of a README whose table lists the files beside it by their docstrings."""
    rows = "".join(
        f"| `{file.name}` | {_first_paragraph(file)} |\n"
        for file in sorted(readme.parent.glob("*.py"))
        if file.stem != "__init__"
    )
    heading, line, rest = readme.read_text(encoding="utf-8").partition("|---|---|\n")
    return heading + line + rows + _ROW.sub("", rest)


def _first_paragraph(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("|", r"\|")


def _readmes() -> Iterator[Path]:
    """The READMEs with a table of files that docstrings describe."""
    for folder in DESCRIBED:
        for readme in sorted((ROOT / "pirkit" / folder).rglob("README.md")):
            if "| file | holds |\n" in readme.read_text(encoding="utf-8"):
                yield readme


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
    counted = "; ".join(f"`{name}`: {meaning}" for name, meaning in cls.stats.items())
    yield f"Statistics: {counted}."


def _markdown(doc: str) -> Iterator[str]:
    """A docstring with its example in a fenced block."""
    text, _, example = doc.partition("\n::\n\n")
    yield text.rstrip().replace("``", "`")
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


PAGES: dict[str, Callable[[], str]] = {
    "pirkit/dialect/op_index.txt": op_index,
    "docs/passes.md": passes_page,
    "docs/kernels.md": kernels_page,
    "docs/primitives.md": primitives_page,
    "docs/op-classes.md": classes_page,
    "pirkit/cli/passes.txt": pass_lines,
    **{str(r.relative_to(ROOT)): partial(readme_with_table, r) for r in _readmes()},
}
"""File -> the function that writes it."""


if __name__ == "__main__":
    sys.exit(main())

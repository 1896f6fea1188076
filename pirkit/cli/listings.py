"""Prints the listings of ``pirkit-opt --list-ops``, ``--list-passes`` and ``--help-pass``."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from inspect import cleandoc
from typing import Final

from pirkit.cli.primitive_manifest import list_primitives
from pirkit.dialect.opdef import (
    OpDef,
    all_ops,
    bad_samples,
    decompose,
    find,
    infer_meta,
    jet,
    lookup,
    reference,
    samples,
    vjp,
)
from pirkit.dialect.rules.taylor.series import LINEAR
from pirkit.dialect.structure import OUR_NAMES
from pirkit.passes import PIPELINES, all_passes, pass_named
from pirkit.runtime.registry import KERNELS, REFERENCE


def print_listing(arguments: argparse.Namespace) -> int:
    """Print the listing that the flags request; the exit code."""
    if arguments.list_ops and arguments.missing:
        return list_missing(arguments.json)
    if arguments.list_ops and arguments.primitives:
        list_primitives(arguments.json)
    elif arguments.list_ops:
        list_ops(arguments.json)
    elif arguments.list_passes:
        list_passes(arguments.json)
    else:
        print(manual(arguments.help_pass))
    return 0


def pass_rows() -> list[tuple[str, str]]:
    """Each pass with the first line of its manual, then each named pipeline with its passes."""
    passes = [(p.name, p.summary()) for p in all_passes()]
    return passes + [(f"@{name}", text) for name, text in PIPELINES.items()]


def list_passes(as_json: bool) -> None:
    """Print the rows of `pass_rows`."""
    rows = pass_rows()
    if as_json:
        print(json.dumps([{"name": name, "help": line} for name, line in rows]))
        return
    print(pass_lines(), end="")


def pass_lines() -> str:
    """The rows of `pass_rows` in columns, one line each."""
    rows = pass_rows()
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {line}\n" for name, line in rows)


def manual(name: str) -> str:
    """The manual page of a pass: its docstring, its options and what it counts.

    Raises UsageError (PK0702) for an unknown pass.
    """
    found = pass_named(name)
    lines = [found.name, "", cleandoc(found.__doc__ or "")]
    options = found.options()
    if options:
        lines += ["", "Options:"]
        lines += [
            f"  {f.name.replace('_', '-')} = {f.default!r}: {f.metadata.get('help', '')}"
            for f in options
        ]
    if found.stats:
        lines += ["", "Counts:"]
        lines += [f"  {key}: {what}" for key, what in found.stats.items()]
    return "\n".join(lines)


CONCERNS: Final = (infer_meta, reference, samples, bad_samples, decompose, vjp, jet)


def _is_port(name: str) -> bool:
    """True for an op that becomes a port of a plan."""
    return bool(lookup(name).host_name)


def kinds() -> list[str]:
    """The kinds of ops in GraphNet's 982 Paddle graphs, most frequent first, by our names."""
    return files("pirkit.dialect").joinpath("graphnet_kinds.txt").read_text().split()


def training_kinds() -> list[str]:
    """Further ops that Paddle's training programs use: optimizers, AMP, losses, random ops."""
    return files("pirkit.dialect").joinpath("training_kinds.txt").read_text().split()


def list_missing(as_json: bool) -> int:
    """Print the ops of real programs that nothing runs; returns 1 if there are any."""
    wanted = dict.fromkeys((*kinds(), *training_kinds()))
    missing = [name for name in wanted if not _runs(name)]
    if as_json:
        print(json.dumps(missing))
    else:
        print("".join(f"{name}\n" for name in missing), end="")
    return 1 if missing else 0


def _runs(name: str) -> bool:
    definition = find(name)
    if definition is None:
        return False
    if name in OUR_NAMES or _is_port(name):
        return True
    return bool(backends_of(definition))


def backends_of(definition: OpDef) -> list[str]:
    """The backends that run an op, the reference rule last."""
    found = dict.fromkeys(k.key.backend for k in KERNELS.kernels(definition.base.name))
    if reference.get(definition) is not None:
        found[REFERENCE] = None
    return list(found)


def list_ops(as_json: bool) -> None:
    """Print one row per op, in-place twins on the row of their pure op, and the totals."""
    rows = [_row(d) for d in all_ops() if d.pure is None]
    if as_json:
        print(json.dumps(rows))
        return
    width = max(len(str(row["name"])) for row in rows)
    head = ["signature", *(c.concern for c in CONCERNS), "kernels", "in-place"]
    print(f"{'op':<{width}}  {'family':<22} {'  '.join(head)}")
    for row in rows:
        rules = (str(row[c.concern]) for c in CONCERNS)
        marks = ["yes", *rules, str(row["kernels"]), str(row["in-place"])]
        cells = "  ".join(f"{m:<{len(h)}}" for m, h in zip(marks, head, strict=True))
        print(f"{row['name']:<{width}}  {row['family']:<22} {cells}".rstrip())
    print("\n".join(_totals()))


def _row(definition: OpDef) -> dict[str, str]:
    marks = {c.concern: "yes" if c.get(definition) is not None else "-" for c in CONCERNS}
    if not definition.results:
        marks["infer_meta"] = "none"  # nothing to infer
    if definition.name.removeprefix("pd_op.") in LINEAR:
        marks["jet"] = "linear"
    return {
        "name": definition.name,
        "family": definition.family,
        "kernels": ",".join(b for b in backends_of(definition) if b != REFERENCE) or "-",
        "in-place": ",".join(f"{r}<-{o}" for r, o in definition.inplace.items()) or "-",
        **marks,
        "signature": definition.signature_text,
    }


def _totals() -> list[str]:
    every = list(all_ops())
    pure = [d for d in every if d.pure is None]
    gradients = [d for d in pure if "_grad" in d.name]
    lines = [
        f"{len(pure)} ops, {len(every) - len(pure)} in-place twins, {len(gradients)} of the ops "
        "are gradients (declared; they run by decomposition)"
    ]
    wanted = [lookup(name) for name in kinds()]
    counts = {"signature": len(wanted)}
    for concern in (infer_meta, reference, samples):
        counts[concern.concern] = sum(concern.get(d) is not None for d in wanted)
    covered = ", ".join(f"{concern} {n} of {len(wanted)}" for concern, n in counts.items())
    lines.append(f"kinds of ops in GraphNet's Paddle graphs: {covered}")
    return lines

"""Lists of passes and pipelines for the command line."""

from __future__ import annotations

import json
from inspect import cleandoc

from pirkit.passes import PIPELINES, all_passes, pass_named


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
            f"  {f.name.replace('_', '-')} = {f.default!r}: {f.metadata['help']}" for f in options
        ]
    if found.stats:
        lines += ["", "Counts:"]
        lines += [f"  {key}: {what}" for key, what in found.stats.items()]
    return "\n".join(lines)

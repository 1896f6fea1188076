"""Reports of a dump, of a measured run, and of a program in Python."""

from __future__ import annotations

import argparse
import json
import tempfile
import webbrowser
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from pirkit.cli.input_files import read_inputs
from pirkit.cli.report.lowered import Measured
from pirkit.cli.report.recording import PartReport
from pirkit.cli.report.snapshots import Snapshots
from pirkit.cli.run_program import compile_as_asked
from pirkit.cli.torch_archives import load_program
from pirkit.diag.errors import ArgumentError
from pirkit.diag.span import Span
from pirkit.diag.version import VERSION
from pirkit.dialect.program import Program
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.files import write_file
from pirkit.frontend.profile import profile
from pirkit.lowering.prim import default_pipeline
from pirkit.passes import PipelineResult, run_pipeline

_RUNS: Final = 20
"""Profiled runs unless `--repeat` says how many."""


def report_dump(arguments: argparse.Namespace) -> int:
    """``pirkit report DIR``: the page of what ``pirkit-opt --dump DIR`` wrote.

    Raises ArgumentError (PK0701) for a folder without a dump.
    """
    folder = Path(arguments.folder)
    try:
        index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        first, rows = index["input"], index["passes"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArgumentError(
            f"{folder} is no dump of a pipeline",
            span=Span(str(folder)),
            help="`pirkit-opt FILE -p PASSES --dump DIR` writes one",
        ) from error
    report = PartReport(Snapshots(first_places=True))
    path = folder / first
    module = parse_mlir(path.read_text(encoding="utf-8"), str(path))
    report.begin(module)
    for row in rows:
        if row["changed"]:
            path = folder / row["file"]
            module = parse_mlir(path.read_text(encoding="utf-8"), str(path))
            report.step(row["pass"], module)
        else:
            report.steps.append({**report.steps[-1], "name": row["pass"]})
    report.end(module)
    target = arguments.output or str(folder / "report.html")
    write_file(target, page(str(folder), [(report, PipelineResult((), {}, ()))]))
    print(target)
    return 0


def report_run(arguments: argparse.Namespace) -> int:
    """``pirkit-run PROGRAM --report HTML``: the page with measured times of each instruction."""
    program = load_program(arguments.paths[0], format=arguments.format, params=arguments.params)
    wanted = arguments.pipeline
    pipeline = default_pipeline(arguments.backend) if wanted is None else wanted
    report, result = _transformed(program, pipeline)
    exe = compile_as_asked(program, arguments, "")
    inputs = read_inputs(arguments.inputs or "", exe, arguments.params)
    found = profile(exe, inputs, arguments.repeat or _RUNS)
    report.end(program.module, Measured(found, exe.plan.name, exe.plan))
    title = f"{arguments.paths[0]}: {pipeline}"
    write_file(arguments.report, page(title, [(report, result)]))
    return 0


def show_program(program: Program, path: str | None, pipeline: str) -> str:
    """Write the page of a program to a file and return its name; see `Program.show`."""
    copy = program.copy()
    report, result = _transformed(copy, pipeline)
    report.end(copy.module)
    target = path
    if target is None:
        target = str(Path(tempfile.mkdtemp(prefix="pirkit-")) / "report.html")
    write_file(target, page(f"{program.source}: {pipeline}", [(report, result)]))
    if path is None:
        webbrowser.open(Path(target).as_uri())
    return target


def _transformed(program: Program, pipeline: str) -> tuple[PartReport, PipelineResult]:
    report = PartReport()
    report.begin(program.module)
    result = run_pipeline(program.module, pipeline, watchers=[report], observers=[report.observe])
    return report, result


_SCRIPTS: Final = (
    "model.js", "layout.js", "graph.js", "code.js", "changes.js", "charts.js", "tables.js",
    "start.js",
)  # fmt: skip


def page(title: str, parts: Sequence[tuple[PartReport, PipelineResult]]) -> str:
    """One self-contained page; it loads nothing."""
    folder = files("pirkit.cli.report").joinpath("assets")
    texts = {
        name: folder.joinpath(name).read_text("utf-8")
        for name in ("report.html", "report.css", *_SCRIPTS)
    }
    data: list[dict[str, Any]] = [report.facts(result) for report, result in parts]
    # `</script>` in a string of the program must not end the script
    facts = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return Template(texts["report.html"]).substitute(
        title=escape(title.encode(errors="backslashreplace").decode()),  # names of files
        version=VERSION,
        style=texts["report.css"],
        script="\n".join(texts[name] for name in _SCRIPTS),
        data=facts,
    )

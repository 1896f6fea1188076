"""Runs the pipeline of ``pirkit-opt`` with the instrumentation that its flags select."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from pirkit.cli.reporting import RemarkFilter, stats_lines, timing_lines
from pirkit.cli.reproducer import Reproducing
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import write_file
from pirkit.frontend.program_diff import diff_programs
from pirkit.passes import PipelineResult, parse_pipeline, pass_named, run_pipeline
from pirkit.passes.base import Pass, RewriteListener
from pirkit.passes.manager import Watcher
from pirkit.passes.rewrite_trace import RewriteTracer

if TYPE_CHECKING:
    from pirkit.cli.report.recording import PartReport


def run_passes(
    module: ModuleOp,
    arguments: argparse.Namespace,
    read_again: Callable[[], ModuleOp],
    report: PartReport | None = None,
) -> PipelineResult:
    """Run the passes in place; remarks, counters and times go to standard error."""
    passes = parse_pipeline(arguments.pipeline)
    is_shown = RemarkFilter(arguments.remarks or "")
    if is_shown.pass_name:
        pass_named(is_shown.pass_name)
    watchers: list[Watcher] = [] if report is None else [report]
    listeners: list[RewriteListener] = []
    if arguments.dump:
        watchers.append(Dump(arguments.dump, module))
    if arguments.trace_rewrites:
        tracer = RewriteTracer(sys.stderr)
        watchers.append(tracer)
        listeners.append(tracer.rewrote)
    check = proof = None
    if arguments.check is not None:
        from pirkit.frontend import numeric_check, proof_check  # noqa: PLC0415  import kernels

        check = numeric_check.NumberCheck.of(module, arguments.seed)
        if arguments.check == "each":
            watchers.append(numeric_check.CheckEach(check))
        if arguments.check == "proof":
            proof = proof_check.CheckProof(module, arguments.seed)
            watchers.append(proof)
    with Reproducing(
        read_again, passes, arguments.seed, check is not None, arguments.load
    ) as reproducing:
        result = run_pipeline(
            module,
            passes,
            verify=not arguments.no_verify_each,
            print_ir=arguments.print_ir,
            stream=sys.stderr,
            watchers=[reproducing, *watchers],
            listeners=listeners,
            observers=() if report is None else (report.observe,),
        )
    if check is not None:
        if arguments.check == "":
            check.require_equal(module, "the pipeline")
        _report_blind(check.blind)
    if proof is not None:
        for proved in (*proof.reports, *proof.bounds()):
            print(proved, file=sys.stderr)
    _report(result, arguments, is_shown)
    return result


def _report(result: PipelineResult, arguments: argparse.Namespace, is_shown: RemarkFilter) -> None:
    lines: list[str] = []
    if arguments.timing == "":
        lines += timing_lines(result.timings)
    if arguments.stats:
        lines += stats_lines(result)
    if arguments.remarks is not None and not arguments.expect_diagnostics:
        lines += [f"remark: {remark}" for remark in result.remarks if is_shown(remark)]
    for line in lines:
        print(line, file=sys.stderr)


def _report_blind(blind: list[str]) -> None:
    for what in blind:
        print(f"note: {what} on random inputs, so the check is inconclusive", file=sys.stderr)


class Dump:
    """A watcher of a pipeline that writes ``NNN_pass.mlir``, its diff, and ``index.json``.

    ``000_input.mlir`` is the program before the first pass. Files are written atomically.
    """

    def __init__(self, folder: str, module: ModuleOp) -> None:
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.text = print_mlir(module)
        self.module = module.clone()
        self.rows: list[dict[str, Any]] = []
        self._write("000_input.mlir", self.text)
        self._index()

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if when != "after":
            return
        before, self.text = self.text, print_mlir(module)
        name = f"{len(self.rows) + 1:03}_{pass_.name}"
        row: dict[str, Any] = {"pass": str(pass_), "changed": self.text != before}
        if row["changed"]:
            row["file"] = f"{name}.mlir"
            self._write(f"{name}.mlir", self.text)
            self._write(f"{name}.diff", diff_programs(self.module, module, ("before", name)).text)
            self.module = module.clone()
        self.rows.append(row)
        self._index()

    def _write(self, name: str, text: str) -> None:
        write_file(os.path.join(self.folder, name), text)

    def _index(self) -> None:
        self._write("index.json", json.dumps({"input": "000_input.mlir", "passes": self.rows}))

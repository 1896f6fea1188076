"""Checks of captured cases: a program of Paddle, its weights and inputs, and Paddle's results.

The folder format is described in ``tests/corpus/paddle/README.md``. A case is checked by running
pirkit on the recorded inputs of two steps and comparing with the recorded results.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pirkit.diag.errors import MismatchError
from pirkit.frontend.captured_case import Case, Tolerance, open_case
from pirkit.frontend.case_steps import SOURCES, Comparison
from pirkit.frontend.python_calls import require
from pirkit.lowering.prim import default_pipeline

Array = np.ndarray[Any, Any]


@dataclass
class Report:
    """The result of checking a case.

    ``status`` is ``pass``, ``FAIL`` or ``skip``, and ``message`` says why it is not ``pass``.
    ``errors`` has the largest error of each group of arrays, as `Tolerance.error` measures it.
    """

    name: str
    status: str = "pass"
    errors: dict[str, float] = field(default_factory=dict[str, float])
    tolerance: float = 0.0
    seconds: float = 0.0
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.status == "FAIL"


def check_case(
    folder: str | Path, source: str, *, pipeline: str | None = None, backend: str = "cpu"
) -> Report:
    """Run one case from ``main``, ``split`` or ``json`` and compare with Paddle's numbers.

    ``main`` is the training program, differentiated by pirkit; ``split`` are Paddle's own forward
    and backward programs; ``json`` is the inference export. Training takes two steps: outputs,
    buffers, gradients and updated parameters are compared. The default ``pipeline`` is that of
    `pirkit.compile` for the backend.

    Numbers that differ are no exception: the report says ``FAIL``. Raises InputError for a damaged
    case, CallError (PK0701) for an unknown source, and whatever compiling or running it raises.
    """
    require(source in SOURCES, f"a case has no programs `{source}`",
            f"a source is one of {', '.join(SOURCES)}")  # fmt: skip
    start = time.perf_counter()
    case = open_case(folder)
    report = Report(case.name, tolerance=case.tolerance.rtol)
    file, steps = SOURCES[source]
    if not os.path.isfile(case.folder / file) and source == "json":
        report.status = "skip"
        report.message = "the case has no inference export"
        return report
    try:
        chosen = default_pipeline(backend) if pipeline is None else pipeline
        for comparison in steps(case, chosen, backend):
            _compare(case, report, comparison)
    except MismatchError as error:
        report.status, report.message = "FAIL", error.message
    report.seconds = time.perf_counter() - start
    return report


def _compare(case: Case, report: Report, comparison: Comparison) -> None:
    """Add the errors of a group to the report.

    Raises MismatchError (PK0601) for an array that is missing or has another shape or dtype.
    """
    group, found = comparison.group, comparison.found
    for name, want in comparison.expected.items():
        if name not in found and not comparison.zero_if_missing:
            raise MismatchError(f"{group} {name} is not computed", code="PK0601")
        have = np.asarray(found[name]) if name in found else np.zeros_like(want)
        if have.shape != want.shape or have.dtype != want.dtype:
            raise MismatchError(
                f"{group} {name}: {have.dtype}{list(have.shape)}, "
                f"expected {want.dtype}{list(want.shape)}",
                code="PK0601",
            )
        error = case.tolerance.error(have, want)
        report.errors[group] = max(report.errors.get(group, 0.0), error)
        if not error <= case.tolerance.rtol:
            report.status = "FAIL"
            report.message = report.message or f"{group} {name}: error {error:.2g}"


__all__ = ["SOURCES", "Case", "Report", "Tolerance", "check_case", "open_case"]

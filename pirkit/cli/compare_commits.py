"""``pirkit-run --compare git:A git:B``: the same program with the pirkit of two commits."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from pirkit.cli.input_files import read_inputs
from pirkit.cli.torch_archives import load_program
from pirkit.diag.errors import ArgumentError
from pirkit.frontend.arrays import read_npz, write_npz
from pirkit.frontend.compile import compile
from pirkit.runtime.bind_inputs import bound_input
from pirkit.runtime.device import HOST

COMMIT: Final = "git:"
"""Begins the name of a commit: ``git:REVISION`` or ``git:REVISION:PIPELINE``."""
_ROOT: Final = Path(__file__).parents[2]
_RUN: Final = "import sys; from pirkit.cli.run import main; sys.exit(main())"
_MEDIAN: Final = re.compile(r"run median ([\d.]+) s")
_FORWARDED: Final = ("format", "backend", "fused", "threads", "entry")


@dataclass(frozen=True)
class Side:
    """The results of one side of a comparison, and its costs."""

    facts: Mapping[str, Any]
    counts: Counter[str]
    outputs: Mapping[str, Any]


def sides_of_commits(arguments: argparse.Namespace, native: str, runs: int) -> list[Side]:
    """Both sides, each in processes of its own on the same inputs.

    A side that names no commit is the pipeline in the code that runs now. Raises UsageError where
    there is no repository or no such commit, and for a commit that does not run the program;
    RuntimeFault (PK0902) if an input is missing.
    """
    with tempfile.TemporaryDirectory(prefix="pirkit-compare-") as folder:
        given = _given(arguments, Path(folder))
        return [
            _side(name, native, given, _code(name, Path(folder, f"code{k}")), Path(folder), runs)
            for k, name in enumerate(arguments.compare)
        ]


def _given(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """The program and its inputs and weights, as arguments that all commits understand."""
    path = arguments.paths[0]
    program = load_program(path, format=arguments.format, params=arguments.params)
    exe = compile(program, backend="reference", entry=arguments.entry)
    inputs, weights = str(folder / "inputs.npz"), str(folder / "weights.npz")
    held = read_inputs(arguments.inputs or "", exe)
    for port in exe.plan.inputs:
        bound_input(port, held.get(port.name), "input", HOST)
    write_npz(inputs, held)
    write_npz(weights, exe.params)
    found = [str(Path(path).resolve()), "--inputs", inputs]
    found += ["--params", weights] * bool(exe.params) + ["--freeze"] * arguments.freeze
    for name in _FORWARDED:
        value = getattr(arguments, name)
        found += [f"--{name}", str(value)] * (value is not None)
    return found


def _code(name: str, folder: Path) -> Path:
    """The folder with the package of a side."""
    if not name.startswith(COMMIT):
        return _ROOT
    revision = name.removeprefix(COMMIT).partition(":")[0]
    folder.mkdir()
    git = ["git", "-C", str(_ROOT)]
    try:
        # A name that begins with a dash is a revision, too, not an option.
        verify = ["rev-parse", "--verify", "--end-of-options", revision + "^{commit}"]
        commit = subprocess.run([*git, *verify], capture_output=True, check=True).stdout.strip()
        archive = [*git, "archive", "--format=zip", commit.decode(), "pirkit"]
        packed = subprocess.run(archive, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        raise ArgumentError(
            f"there is no commit `{revision}` of pirkit: {said or error}",
            help="commits are those of the repository that pirkit was imported from,"
            " as in `--compare git:HEAD~1 git:HEAD`",
        ) from error
    ZipFile(BytesIO(packed)).extractall(folder)
    return folder


def _side(name: str, native: str, given: list[str], code: Path, folder: Path, runs: int) -> Side:
    pipeline = name.removeprefix(COMMIT).partition(":")[2] if name.startswith(COMMIT) else name
    passes = ["-p", pipeline] if pipeline not in ("", native) else []
    outputs = str(folder / "outputs.npz")
    repeated = ["--repeat", str(runs)]
    timed = _run(name, code, [*given, *passes, *repeated, "--timing", "--outputs", outputs])
    rows = json.loads(_run(name, code, [*given, *passes, *repeated, "--profile", "--json"]).stdout)
    median = _MEDIAN.search(timed.stderr)
    counts = Counter(row["instruction"] for row in rows)
    facts = {
        "pipeline": name,
        "run_us": float(median[1]) * 1e6 if median else 0.0,
        "instructions": len(rows),
        "fused kernels": counts["pir.map_expr"],
        "bytes": sum(row["bytes"] for row in rows),
        "flops": sum(row["flops"] for row in rows),
    }
    return Side(facts, counts, read_npz(outputs))


def _run(name: str, code: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        env={**os.environ, "PYTHONPATH": str(code)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ArgumentError(
            f"`{name}` does not run the program",
            notes=tuple(done.stderr.strip().splitlines()[:6]),
            help="its pirkit may not know the program or a pass yet; commits before"
            " `pirkit-run --profile` cannot be compared",
        )
    return done

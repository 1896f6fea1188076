"""Collects ``*.mlir`` files: each RUN line is run in this process, and what it prints is checked.

::

    // RUN: pirkit-opt %s -p 'cse,dce' | filecheck %s
    // RUN: not pirkit-opt %s -p 'infer-meta' | filecheck %s --check-prefix ERROR
    // RUN: pirkit-opt %s -p 'print-alias' --remarks 2>&1 | filecheck %s

Programs are separated by ``// -----``. Every pipeline also runs a second time on its own result,
which must change nothing, and its result must survive being printed and read.
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from pirkit.diag.errors import PirkitError
from pirkit.diag.render import to_text
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.passes import run_pipeline

RUN = re.compile(
    r"^// RUN:\s*(?P<fails>not\s+)?pirkit-opt (?P<opt>.*?)(?P<remarks>\s+--remarks 2>&1)?\s*\|"
    r"\s*filecheck (?P<check>.*)$",
    re.M,
)
SPLIT = re.compile(r"^// -----.*$", re.M)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".mlir":
        return None
    return IrFile.from_parent(parent, path=file_path)


class IrFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        lines = list(RUN.finditer(self.path.read_text(encoding="utf-8")))
        if not lines:
            raise self.CollectError(f"{self.path} has no RUN line")
        for number, line in enumerate(lines, 1):
            yield IrItem.from_parent(self, name=f"run{number}", line=line)


class IrItem(pytest.Item):
    def __init__(self, *, line: re.Match[str], **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.fails = line["fails"] is not None
        self.remarks = line["remarks"] is not None
        self.pipeline = _arguments(line["opt"], "-p").p or ""
        self.prefix = _arguments(line["check"], "--check-prefix").check_prefix or "CHECK"

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        printed = "".join(self.run_one(part) for part in SPLIT.split(text))
        options = Options(str(self.path), check_prefixes=[self.prefix])
        matcher = Matcher(options, FInput("<output>", printed), Parser.from_opts(options))
        matcher.stderr = io.StringIO()
        if matcher.run() != 0:
            pytest.fail(f"{matcher.stderr.getvalue()}\n--- printed ---\n{printed}", pytrace=False)

    def run_one(self, text: str) -> str:
        module = parse_mlir(text, self.path.name)
        if self.fails:
            with pytest.raises(PirkitError) as caught:
                run_pipeline(module, self.pipeline)
            return to_text(caught.value)
        result = run_pipeline(module, self.pipeline)
        printed = print_mlir(module)
        assert print_mlir(parse_mlir(printed)) == printed, "the result does not survive printing"
        run_pipeline(module, self.pipeline)
        assert print_mlir(module) == printed, "a second run changes the program again"
        if self.remarks:
            printed = "".join(f"remark: {remark}\n" for remark in result.remarks) + printed
        return printed

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}: {self.pipeline}"


def _arguments(text: str, flag: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument(flag)
    return parser.parse_args(shlex.split(text))

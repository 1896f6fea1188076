"""``pirkit-opt --dump``: the program after each pass that changed it, in a folder."""

from __future__ import annotations

import json
import os
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import write_file
from pirkit.frontend.program_diff import diff_programs
from pirkit.passes.base import Pass


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

"""Reproducers: one file with everything that is needed to repeat the failure of a pass.

::

    // pirkit reproducer
    // pipeline: canonicalize
    // seed: 0
    // versions: pirkit 0.1.0, xdsl 0.74.0, numpy 2.4.0, python 3.11.9
    // error: PK0801 pass `canonicalize` failed: ...
    pir.program @main ...
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from types import TracebackType

import platformdirs
from xdsl.dialects.builtin import ModuleOp

from pirkit.cli.reproducer_settings import TITLE
from pirkit.diag.errors import ArtifactError, InternalError, PassError, PirkitError
from pirkit.diag.version import VERSION
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import write_file
from pirkit.passes import Pass, run_pipeline


class Reproducing:
    """A context around a pipeline: a failure writes a reproducer, and the error names its file.

    The file holds the module before the pass that failed, and names that pass alone. The context is
    also a watcher of the pipeline, which counts the passes that have begun.
    """

    def __init__(
        self,
        read_again: Callable[[], ModuleOp],
        passes: Sequence[Pass],
        seed: int,
        check: bool,
        loaded: Sequence[str] = (),
    ) -> None:
        self.read_again = read_again
        self.passes = passes
        self.seed = seed
        self.check = check
        self.loaded = loaded
        self.begun = 0

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        self.begun += when == "before"

    def __enter__(self) -> Reproducing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or not self.begun:
            return
        if isinstance(error, PassError | InternalError):
            error.notes = (*error.notes, self.note(f"{error.code} {error.message}"))
        elif not isinstance(error, PirkitError | OSError):
            summary = f"{type(error).__name__}: {error}"
            raise InternalError(
                summary,
                notes=(self.note(summary),),
                help="this is a bug in pirkit: please report it",
            ) from error

    def note(self, summary: str) -> str:
        """Write the file and return a note with its path, or with the reason why there is none."""
        try:
            loads = "".join(f"--load {path} " for path in self.loaded)
            return f"`pirkit-opt {loads}--run-reproducer {self.write(summary)}` does it again"
        except (ArtifactError, OSError) as problem:
            return f"no reproducer could be written: {problem}"

    def write(self, summary: str) -> str:
        """Write the file into the folder of reproducers. Raises ArtifactError if impossible."""
        failed = self.begun - 1
        module = self.read_again()
        # Passes are deterministic: those that went well are run again, instead of keeping a copy
        # of the module before each pass of every run.
        run_pipeline(module, self.passes[:failed], verify=False)
        one_line = " ".join(summary.split())
        versions = ", ".join(f"{name} {version(name)}" for name in ("xdsl", "numpy"))
        text = (
            f"{TITLE}// pipeline: {self.passes[failed]}\n// seed: {self.seed}\n"
            f"// check: {'yes' if self.check else 'no'}\n"
            f"// versions: pirkit {VERSION}, {versions}, python {platform.python_version()}\n"
            f"// error: {one_line}\n{print_mlir(module)}"
        )
        folder = platformdirs.user_cache_path("pirkit") / "reproducers"
        folder.mkdir(parents=True, exist_ok=True)
        path = str(folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.mlir")
        write_file(path, text)
        return path

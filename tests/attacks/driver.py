"""Runs `pirkit-opt` on hostile files, one process each, and measures what they cost.

The driver imports pirkit once and then forks for every file: the processes are real, but the time
of a process is what its file costs, not what Python's start costs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 4.0
"""CPU time that a file may cost: the promised 2 s, doubled for slow machines."""

MEBIBYTES = 300
"""Peak memory that a file may cost."""

_CPU_LIMIT = 30
_MEMORY_LIMIT = 4 << 30


@dataclass(frozen=True)
class Outcome:
    """How one process ended. ``exit_code`` is negative if a signal ended it."""

    exit_code: int
    seconds: float
    mebibytes: float
    output: str
    errors: str

    def check_refused(self, code: str) -> None:
        """Assert a coded refusal within the limits."""
        self.check_cost()
        assert self.exit_code == 1, self.errors
        assert f"error[{code}]" in self.errors

    def check_accepted(self) -> None:
        self.check_cost()
        assert self.exit_code == 0, self.errors
        assert self.errors == ""

    def check_cost(self) -> None:
        assert "Traceback" not in self.errors
        assert self.seconds <= SECONDS
        assert self.mebibytes <= MEBIBYTES


class Driver:
    """The driver process; a context manager."""

    def __enter__(self) -> Driver:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.communicate()

    def run(self, *arguments: str | os.PathLike[str]) -> Outcome:
        """Run `pirkit-opt` with these arguments."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([os.fspath(a) for a in arguments]) + "\n")
        self.process.stdin.flush()
        return Outcome(**json.loads(self.process.stdout.readline()))


def _serve() -> None:
    import pirkit.frontend.files
    from pirkit.cli import opt
    from pirkit.dialect.opdef import all_ops

    assert pirkit.frontend.files
    list(all_ops())
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            child = os.fork()
            if not child:
                sys.argv = ["pirkit-opt", *json.loads(line)]
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT, _CPU_LIMIT))
                resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
                code = opt.main()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            _, status, usage = os.wait4(child, 0)
            for stream in (output, errors):
                stream.seek(0)
            outcome = {
                "exit_code": os.waitstatus_to_exitcode(status),
                "seconds": usage.ru_utime + usage.ru_stime,
                "mebibytes": usage.ru_maxrss / 1024,
                "output": output.read(),
                "errors": errors.read(),
            }
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    _serve()

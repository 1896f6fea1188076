"""How long the command takes as a whole process: to say its version, and to print a program."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from read import dump


def seconds(*arguments: str) -> float:
    """The wall time of `pirkit-opt` with these arguments."""
    command = [str(Path(sys.executable).with_name("pirkit-opt")), *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "small.txt")
        small.write_text(dump(20), encoding="utf-8")
        for name, arguments in (("--version", ["--version"]), ("20 operations", [str(small)])):
            seconds(*arguments)  # the first run compiles Python's modules
            print(f"{name:<16}{median(seconds(*arguments) for _ in range(repeat)):>6.2f} s")


if __name__ == "__main__":
    main()

"""Known vulnerabilities of the packages that CI installs, as `pip-audit` tells them.

The exit status is 1 if there are any. That nothing was asked is told, and the status is 0: without
a network, or where an index of packages stands for PyPI that knows nothing about vulnerabilities.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = ROOT / ".ci/constraints.txt"
OFFLINE: Final = ("ConnectionError", "Max retries", "Failed to resolve", "ServiceError", "Connect")
"""What errors of a service that does not answer say."""


def main() -> int:
    """Run `pip-audit`; the exit status."""
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip"]
    command += ["--progress-spinner", "off", "-r", str(CONSTRAINTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        print("audit: skipped, the database of vulnerabilities does not answer")
        return 0
    said = done.stdout + done.stderr
    pinned = [line for line in CONSTRAINTS.read_text().splitlines() if "==" in line]
    if said.count("could not be audited") >= len(pinned):
        print("audit: skipped, the database knows none of the packages")
        return 0
    print(said, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

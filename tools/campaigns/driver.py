"""What all campaigns share: seeds, counts, hours, processes, a file to go on from, and the table.

A campaign examines numbered cases. A child process serves a range of them under limits of memory
and time, so that a crash or a hang is a finding of the case that it happened in. Findings go to a
file, one JSON object a case, from which the next run goes on. Of four ranges of cases one runs with
sanitized code, where an access beyond a buffer is a crash.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final, NamedTuple

SEVERITY: Final = ("crash", "hang", "wrong", "uncoded", "cost", "refused", "nan", "overflow")
"""Kinds of findings: ``refused`` by one backend only, ``nan`` different at what is no number, and
``overflow`` the same where it needs numbers beyond the type, or complex infinities."""
SEVERE: Final = SEVERITY[:5]
NOTES: Final = ("pieces", "torch", "skipped")
"""Kinds that are no defects: what a campaign says about a case."""

SANITIZED: Final = 1
"""Which of four ranges of cases runs with sanitized code."""


class Found(NamedTuple):
    """What is wrong with a case."""

    kind: str
    case: str
    way: str
    what: str


@dataclass(frozen=True)
class Campaign:
    """Numbered cases, each a function of the seed and its number."""

    name: str
    examine: Callable[[int, int, str], list[Found]]
    """Findings of the case of this seed and number, of the part that ``--only`` names."""
    describe: Callable[[int, int, str], str]
    """The case in a few words, for one that ended its process."""
    seconds: int = 20
    """CPU time after which a case counts as a hang."""
    gibibytes: int = 6
    range: int = 250
    """Cases of one process."""


class Hang(BaseException):
    """A case takes too long."""


@contextmanager
def limited(seconds: float) -> Generator[None]:
    """Raises `Hang` in the body of a ``with`` statement after that much CPU time."""
    before, start = signal.getitimer(signal.ITIMER_PROF)[0], time.process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        left = before - (time.process_time() - start)
        signal.setitimer(signal.ITIMER_PROF, max(left, 0.01) if before else 0)


def main(campaign: Campaign, arguments: list[str] | None = None) -> int:
    """Run a campaign; 1 if it has a finding that counts, else 0."""
    parser = argparse.ArgumentParser(prog=f"campaign {campaign.name}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--hours", type=float, help="stop after that time, whatever the count")
    parser.add_argument("--only", default="", help="a part: ops with this in their names, a way...")
    parser.add_argument("--out", type=Path, help="findings by case; it is continued")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        _serve(campaign, options)
        return 0
    found = dict(_cases(campaign, options))
    print(table({campaign.name: found}))
    print(examples(found))
    return int(any(f.kind in SEVERE for fs in found.values() for f in fs))


def _serve(campaign: Campaign, options: argparse.Namespace) -> None:
    numbers = range(options.start, options.start + options.count)
    for number, found in cases(campaign, options.seed, numbers, options.only):
        os.write(1, f"{json.dumps({'case': number, 'found': found})}\n".encode())


def cases(
    campaign: Campaign, seed: int, numbers: Iterable[int], only: str = ""
) -> Iterator[tuple[int, list[Found]]]:
    """Each case with its findings, in this process, which has limits of memory and time then."""
    limit = campaign.gibibytes << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    for number in numbers:
        # Native code that never returns to Python does not see the first signal.
        used = int(time.process_time()) + 10 * campaign.seconds
        used = used if most == resource.RLIM_INFINITY else min(used, most)
        resource.setrlimit(resource.RLIMIT_CPU, (used, most))
        yield number, served(campaign, seed, number, only)


def served(campaign: Campaign, seed: int, number: int, only: str = "") -> list[Found]:
    """The findings of one case under its limit of time."""

    def stop(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    try:
        with limited(campaign.seconds):
            return campaign.examine(seed, number, only)
    except Hang:
        told = f"more than {campaign.seconds} s of CPU time"
        return [Found("hang", campaign.describe(seed, number, only), "case", told)]
    except MemoryError as error:  # of what compares results: pirkit's own are told by `attempt`
        told = f"the campaign has no memory to compare: {error}"
        return [Found("skipped", campaign.describe(seed, number, only), "case", told)]
    finally:
        signal.signal(signal.SIGPROF, before)


def _cases(campaign: Campaign, options: argparse.Namespace) -> Iterator[tuple[int, list[Found]]]:
    """The findings of every case, those of earlier runs first."""
    first, end = options.start, options.start + options.count
    deadline = time.monotonic() + 3600 * (options.hours or 1e6)
    if options.out and options.out.exists():
        for number, findings in read(options.out).items():
            first = max(first, number + 1)
            yield number, findings
    with (
        TemporaryDirectory() as cache,
        options.out.open("a") if options.out else nullcontext() as out,
    ):
        environment = {**os.environ, "PIRKIT_CACHE_DIR": cache}
        while first < end and time.monotonic() < deadline:
            number, done = divmod(first, campaign.range)
            environment["PIRKIT_SANITIZE"] = str(int(number % 4 == SANITIZED))
            count = min(campaign.range - done, end - first)
            for line in _ranged(campaign, options, first, count, environment):
                print(line, file=out, flush=True) if out else None
                first += 1
                yield _entry(line)
                if time.monotonic() > deadline:
                    return


def _ranged(
    campaign: Campaign, options: argparse.Namespace, first: int, count: int, environment: Any
) -> Iterator[str]:
    """The lines of a range of cases; the last one of a process that died says how."""
    command = [sys.executable, "-m", "tools.campaigns", campaign.name, "--serve"]
    command += ["--seed", str(options.seed), "--start", str(first), "--count", str(count)]
    command += ["--only", options.only]
    with (
        TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as child,
    ):
        try:
            for line in child.stdout or ():
                if line.startswith('{"case"'):
                    first += 1
                    yield line.rstrip()
        except GeneratorExit:
            child.kill()
            raise
        if child.wait():
            errors.seek(0)
            told = errors.read().strip().splitlines()[-1:] or [""]
            kind = "hang" if child.returncode == -signal.SIGXCPU else "crash"
            case = campaign.describe(options.seed, first, options.only)
            lost = Found(kind, case, "process", f"exit {child.returncode} {told[0]}")
            yield json.dumps({"case": first, "found": [lost]})


def _entry(line: str) -> tuple[int, list[Found]]:
    entry = json.loads(line)
    return entry["case"], [Found(*f) for f in entry["found"]]


def read(path: Path) -> dict[int, list[Found]]:
    """The findings by case that a run has written."""
    return dict(map(_entry, path.read_text().splitlines()))


def table(campaigns: dict[str, dict[int, list[Found]]]) -> str:
    """The cases of each campaign, and how many of them have findings of each kind."""
    lines = [
        f"| campaign | cases | {' | '.join(SEVERITY)} |",
        "|---|" + "--:|" * (len(SEVERITY) + 1),
    ]
    for name, found in campaigns.items():
        counts = Counter(kind for fs in found.values() for kind in {f.kind for f in fs})
        numbers = [f"{len(found):,}", *(f"{counts[k]:,}" for k in SEVERITY)]
        lines.append(f"| {name} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def examples(found: dict[int, list[Found]]) -> str:
    """One example of each kind, way and first word of a case, the worst first."""
    chosen: dict[tuple[int, str, str], str] = {}
    for number, findings in found.items():
        for f in (f for f in findings if f.kind not in NOTES):
            key = (SEVERITY.index(f.kind), f.case.partition("(")[0][:40], f.way)
            chosen.setdefault(key, f"{f.kind} {f.way}: case {number}: {f.case}: {f.what}")
    return "\n".join(chosen[key] for key in sorted(chosen))

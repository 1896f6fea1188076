"""Threads, forks, signals and exit: each case is a process of its own, which has to end well.

    python -m tools.campaigns processes --seed 1 --count 200 --out processes.jsonl

`threads`: 16 threads wait at a barrier and call one executable for the first time, with a cold or a
warm cache. `forks`: a process forks while another thread compiles; the children compile and run.
`interrupt`: Ctrl-C at a random moment of import, compilation or run; what comes after gives the
right numbers, and no temporary file stays. `kill`: the process is killed while it writes the cache;
the next one gives the right numbers. `exit`: it ends while threads compute. ``--only`` is one kind.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tools.campaigns.driver import Campaign, Found

SECONDS: Final = 300
"""Wall time after which a process hangs if all its threads sleep; machines are busy."""
LONGEST: Final = 4
"""So many times that long, and it hangs whatever it does."""

_MAKE: Final = """
import os, sys, threading, time
SEED = int(sys.argv[1])
def make():
    import numpy as np, pirkit
    b = pirkit.ProgramBuilder()
    x = b.input("x", (17, 33), "float32")
    w = b.parameter("w", np.linspace(-1, 1, 33 * 8).reshape(33, 8).astype("float32"))
    b.output("y", b.softmax(b.tanh(b.matmul(x, w)) * (1 + SEED % 7), axis=-1))
    given = np.linspace(-2, 2, 17 * 33).reshape(17, 33).astype("float32")
    h = given.astype("float64") @ np.linspace(-1, 1, 33 * 8).reshape(33, 8)
    h = np.tanh(h) * (1 + SEED % 7)
    e = np.exp(h - h.max(-1, keepdims=True))
    want = e / e.sum(-1, keepdims=True)
    program = b.finish()
    def check(found):
        assert np.allclose(found["y"], want, atol=1e-5), "wrong numbers"
    return pirkit, program, given, check
"""
_AGAIN: Final = """
pirkit, program, given, check = make()
check(pirkit.compile(program)(x=given))
print("right")
"""
_THREADS: Final = """
pirkit, program, given, check = make()
exe = pirkit.compile(program)
barrier, errors = threading.Barrier(16), []
def first(k):
    barrier.wait()
    try:
        check((exe if SEED % 2 else pirkit.compile(program))(x=given))
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=first, args=(k,)) for k in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not errors, errors
print("right")
"""
_FORKS: Final = """
import warnings
warnings.simplefilter("ignore")
pirkit, program, given, check = make()
stop = threading.Event()
def compile_on():
    k = 0
    while not stop.is_set():
        k += 1
        f = pirkit.jit(lambda x: pirkit.ops.exp(x * k))
        f(given)
thread = threading.Thread(target=compile_on)
thread.start()
time.sleep(0.05)
for k in range(8):
    child = os.fork()
    if not child:
        code = 1
        try:
            check(pirkit.compile(program, seed=k)(x=given))
            check(pirkit.compile(program, pipeline="@fused")(x=given))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, "a child failed"
    time.sleep(0.01 * (SEED % 5))
stop.set()
thread.join()
print("right")
"""
_INTERRUPT: Final = """
print("ready", flush=True)
try:
    pirkit, program, given, check = make()
    for k in range(50):
        pipeline = ("@default", "@fused", "@simplify")[k % 3]
        pirkit.compile(program, pipeline=pipeline, seed=k)(x=given)
except KeyboardInterrupt:
    pass
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    pirkit, program, given, check = make()
except ImportError as error:  # numpy does not survive an interrupt in the middle of its import
    if "pirkit" in str(error):
        raise
    print("right")
    sys.exit()
check(pirkit.compile(program)(x=given))
check(pirkit.compile(program, pipeline="@fused")(x=given))
check(pirkit.compile(program, backend="reference")(x=given))
print("right")
"""
_EXIT: Final = """
pirkit, program, given, check = make()
exe = pirkit.compile(program)
def on():
    while True:
        exe(x=given)
for _ in range(4):
    threading.Thread(target=on, daemon=True).start()
time.sleep(0.02)
print("right", flush=True)
if SEED % 2:
    raise SystemExit(0)
"""


def _run(code: str, seed: int, folder: str, stop: Callable[[subprocess.Popen[str]], None]) -> str:
    """What is wrong with a process; "" if it is right."""
    environment = {**os.environ, "PIRKIT_CACHE_DIR": folder}
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen(
        [sys.executable, "-c", _MAKE + code, str(seed)], stdout=out, stderr=subprocess.STDOUT,
        text=True, env=environment, start_new_session=True,
    ) as child:  # fmt: skip
        stop(child)
        for turn in range(LONGEST):
            with suppress(subprocess.TimeoutExpired):
                child.wait(SECONDS)
            if child.returncode is not None:
                break
            if turn + 1 == LONGEST or not _runs(child.pid):
                os.killpg(child.pid, signal.SIGKILL)
                return f"hang: more than {SECONDS * (turn + 1)} s"
        status = child.returncode
        out.seek(0)
        told = out.read()
    if status == 0 and told.rstrip().endswith("right"):
        return ""
    return f"exit {status}: {told.strip()[-250:]}"


def _runs(group: int) -> bool:
    """Whether a thread of a group of processes runs, or would if it had a core, within 5 s."""
    for _ in range(50):
        for path in Path("/proc").glob("[0-9]*/task/*/stat"):
            with suppress(OSError):
                state, _, of = path.read_text().rpartition(")")[2].split()[:3]
                if int(of) == group and state in "RD":
                    return True
        time.sleep(0.1)
    return False


def _nothing(child: subprocess.Popen[str]) -> None:
    pass


def _signalled(number: int, draw: random.Random, longest: float) -> Callable[..., None]:
    moment = draw.uniform(0.0, longest)

    def stop(child: subprocess.Popen[str]) -> None:
        time.sleep(moment)
        if child.poll() is None:
            child.send_signal(number)

    return stop


def _threads(draw: random.Random, seed: int, folder: str) -> str:
    if draw.random() < 0.5:
        _run(_AGAIN, seed, folder, _nothing)  # fills the cache
    return _run(_THREADS, seed, folder, _nothing)


def _forks(draw: random.Random, seed: int, folder: str) -> str:
    return _run(_FORKS, seed, folder, _nothing)


def _interrupt(draw: random.Random, seed: int, folder: str) -> str:
    """One that ends by the signal, before Python takes it for an exception, ended well."""
    told = _run(_INTERRUPT, seed, folder, _signalled(signal.SIGINT, draw, 3.0))
    early = told.startswith((f"exit {-signal.SIGINT}", "exit 1")) and "ready" not in told
    return "" if early else told or _left(folder)


def _kill(draw: random.Random, seed: int, folder: str) -> str:
    _run(_AGAIN, seed, folder, _signalled(signal.SIGKILL, draw, 3.0))
    return _run(_AGAIN, seed, folder, _nothing)


def _exit(draw: random.Random, seed: int, folder: str) -> str:
    return _run(_EXIT, seed, folder, _nothing)


def _left(folder: str) -> str:
    left = [p.name for p in Path(folder).rglob(".*") if p.is_file() and not p.name.endswith("lock")]
    return f"left behind: {left}" if left else ""


KINDS: Final = {
    "threads": _threads,
    "forks": _forks,
    "interrupt": _interrupt,
    "kill": _kill,
    "exit": _exit,
}


def examine(seed: int, number: int, only: str = "") -> list[Found]:
    """What is wrong with a case."""
    draw = random.Random(f"{seed} {number}")
    name = only or draw.choice(list(KINDS))
    with tempfile.TemporaryDirectory() as folder:
        told = KINDS[name](draw, seed * 1_000_000 + number, folder)
    if not told:
        return []
    kind = "hang" if told.startswith("hang") else "wrong" if "wrong numbers" in told else "crash"
    return [Found(kind, describe(seed, number, only), name, told)]


def describe(seed: int, number: int, only: str = "") -> str:
    return f"{only or random.Random(f'{seed} {number}').choice(list(KINDS))} of case {number}"


CAMPAIGN: Final = Campaign("processes", examine, describe, seconds=600, range=20)

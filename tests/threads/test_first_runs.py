"""The first runs of a process come from many threads at once, with empty and with full caches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.threads.network import PARTS, write_network

FORMS = {
    "one executable": "[lambda e=pirkit.compile(loaded()): run(e)]",
    "one whole program": "[lambda e=pirkit.compile(loaded(), fast_math=True): run(e)]",
    "one split program": "[lambda s=load_step(): step(s)]",
    "several of each": """[
        lambda: run(pirkit.compile(loaded())),
        lambda: run(pirkit.compile(loaded(), fast_math=True)),
        lambda: step(load_step()), lambda: close(network(x).numpy(), want),
    ]""",
}

SCRIPT = """
import threading

works = {form} * 16
barrier = threading.Barrier(16)
failed = []

def work(call):
    barrier.wait()
    try:
        call()
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=work, args=(call,)) for call in works[:16]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*failed, sep="\\n")
"""


@pytest.mark.parametrize("form", FORMS)
def test_first_runs_at_once(form: str, tmp_path: Path) -> None:
    write_network(tmp_path)
    caches = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    script = PARTS + SCRIPT.format(form=FORMS[form])
    for heat in ("cold", "warm"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            env={**os.environ, **caches, "PIRKIT_NATIVE_CACHE": ""},
            capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout.strip()) == (0, ""), f"{heat}: {done.stderr}"


EAGER = """
import threading
import numpy as np
from pirkit import ops

filters = np.ones((8, 8, 3, 3), "float16")
images = [np.full((2, 8, 24, 24), k, "float16") for k in range(8)]
def convolved(k):
    return ops.conv2d(images[k], filters, paddings=[1, 1]).numpy()
expected = [convolved(k).copy() for k in range(8)]
wrong = []
def work(k):
    wrong.extend(k for _ in range(50) if not np.array_equal(convolved(k), expected[k]))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(wrong))
"""


def test_eager_ops_on_many_threads_share_no_memory() -> None:
    done = subprocess.run([sys.executable, "-c", EAGER], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr

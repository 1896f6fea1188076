"""Forks while other threads compile and run: each child compiles and runs by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import itertools, os, threading, warnings
import numpy as np
from pirkit import compile, ops
from pirkit.frontend.tracing import trace
from pirkit.runtime.native.engine import compile_ir

warnings.simplefilter("ignore")  # of forks with threads
x = np.ones((64, 256), "float32")
program = trace(lambda x: ops.softmax(ops.tanh(x) * 3.0, -1), (x,)).program
shared = compile(program, threads=2)
expected = shared.run({"x0": x})["y0"]
text = "define i64 @f(i64 %a) {{ %b = add i64 %a, {} ret i64 %b }}"
numbers = itertools.count()
stopped = False

def work():
    while not stopped:
        compile_ir(text.format(next(numbers)))
        shared.run({"x0": x})

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
bad = 0
for number in range(200):
    child = os.fork()
    if not child:
        compile_ir(text.format(-number))
        same = np.array_equal(shared.run({"x0": x})["y0"], expected)
        os._exit(0 if same else 1)
    bad += os.waitpid(child, 0)[1] != 0
stopped = True
for thread in threads:
    thread.join()
print(bad)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_hundred_forks_while_others_compile() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


BEFORE_THE_COMPILER = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
from pirkit.runtime.native.llvm import LLVM_LOCK
from pirkit.runtime.native.target import host
assert "pirkit.runtime.native.engine" not in sys.modules
held = threading.Event()
def hold():
    with LLVM_LOCK:
        held.set()
        time.sleep(0.2)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    host()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_llvm_is_asked_before_the_compiler_is_imported() -> None:
    """Found by case 177 of the campaign: the child waited for ever for llvmlite's lock."""
    ended = subprocess.run([sys.executable, "-c", BEFORE_THE_COMPILER], timeout=60, check=False)
    assert ended.returncode == 0


DURING_AN_IMPORT = """
import importlib, os, signal, sys, warnings
warnings.simplefilter("ignore")
import pirkit
assert "pirkit.runtime.native.engine" not in sys.modules
# As another thread would, while the fork waits for a lock.
os.register_at_fork(before=lambda: importlib.import_module("pirkit.runtime.native.engine"))
child = os.fork()
if not child:
    signal.alarm(20)
    from pirkit.runtime.native.engine import compile_ir
    compile_ir("define void @f() { ret void }")
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_the_compiler_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DURING_AN_IMPORT], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


DURING_WHAT_OTHERS_DO = """
import gc, importlib, os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
import pirkit
from pirkit.diag.gc_pause import collection_paused
from pirkit.diag.once import cached_property
begun, go = threading.Event(), threading.Event()
class Shape:
    @cached_property
    def size(self):
        begun.set(); go.wait(); return 3
def computes():
    Shape().size
def pauses():
    with collection_paused():
        begun.set(); go.wait()
class Slow:  # a module of pirkit that is being imported
    def find_spec(self, name, path=None, target=None):
        if name == "pirkit.cli" and not begun.is_set():
            begun.set(); go.wait()
def imports():
    importlib.import_module("pirkit.cli")
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=globals()[sys.argv[1]])
thread.start()
begun.wait()
if sys.argv[1] == "imports":
    threading.Timer(0.2, go.set).start()
child = os.fork()
if not child:
    signal.alarm(20)
    go.set()
    assert Shape().size == 3 and gc.isenabled()
    importlib.import_module("pirkit.cli")
    os._exit(0)
go.set()
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("what", ["computes", "pauses", "imports"])
def test_a_fork_while_another_thread(what: str) -> None:
    """The first was found by the 6th of a hundred forks: the lock of a property stayed locked."""
    done = subprocess.run(
        [sys.executable, "-c", DURING_WHAT_OTHERS_DO, what],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")

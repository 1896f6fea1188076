"""Sanitized code gives the same numbers, and ends where an access leaves its buffer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from pirkit.lowering.codegen.emit.sanitize import sanitized
from pirkit.runtime.native.function import Code, size_from_words

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="forbidden pages are those of POSIX")


def ended(what: str, folder: Path) -> tuple[int, str]:
    """How a process ends that runs `sanitized`, and what it writes."""
    environment = {**os.environ, "PIRKIT_SANITIZE": "1", "PIRKIT_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.codegen.sanitized", what],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_code_that_stays_in_its_buffers_gives_its_numbers(tmp_path: Path) -> None:
    assert ended("", tmp_path) == (0, "")


def test_an_access_beyond_a_buffer_is_named(tmp_path: Path) -> None:
    status, told = ended("planted", tmp_path)
    assert status == -signal.SIGABRT
    pattern = r"PK0910\]: kernel [0-9a-f]{12} \(.*batch_lanes\.py\), `.*masked.*`: \d+ bytes from"
    assert re.search(pattern, told), told


def test_small_matmuls_are_checked(tmp_path: Path) -> None:
    status, told = ended("small", tmp_path)
    assert status == -signal.SIGABRT
    assert re.search(r"small_gemm\.py\), `.*load.*`: \d+ bytes from", told), told


def test_row_kernels_between_matmuls_are_checked(tmp_path: Path) -> None:
    status, told = ended("rows", tmp_path)
    assert status == -signal.SIGABRT
    assert re.search(r"fused_row_blocks\.py\), `.*load.*`: \d+ bytes from", told), told


@pytest.mark.parametrize("action", ["push", "pop"])
def test_stacks_of_loops_are_checked(action: str, tmp_path: Path) -> None:
    status, told = ended(action, tmp_path)
    assert status == -signal.SIGABRT, told
    assert re.search(rf"stack {action}, .*`.*memcpy.*`: 20 bytes from byte -?\d+", told), told


def test_arrays_end_at_a_forbidden_page(tmp_path: Path) -> None:
    assert ended("page", tmp_path)[0] == -signal.SIGSEGV


def test_a_mask_of_64_lanes_is_checked() -> None:
    text = (
        "define void @pirkit_kernel(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {\n"
        "entry:\n  %a = load ptr, ptr %args, align 8\n"
        "  call void @llvm.masked.store.v64i8.p0(<64 x i8> zeroinitializer, ptr %a, i32 1,"
        " <64 x i1> zeroinitializer)\n  ret void\n}\n"
        "declare void @llvm.masked.store.v64i8.p0(<64 x i8>, ptr, i32, <64 x i1>)\n"
    )
    checked = sanitized(text, Code(b"", "pirkit_kernel", 1, 0, 0, (64,)), "kernel")
    llvm.parse_assembly(checked).verify()
    assert "call void @pirkit_lanes" in checked


def test_a_size_that_is_known_late_is_the_word_behind_its_shift() -> None:
    text = (
        "define void @pirkit_kernel(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {\n"
        "entry:\n  %a = load ptr, ptr %args, align 8\n"
        "  store float 0.0, ptr %a, align 4\n  ret void\n}\n"
    )
    checked = sanitized(text, Code(b"", "pirkit_kernel", 1, 0, 0, (-7, 64)), "kernel")
    llvm.parse_assembly(checked).verify()
    number = size_from_words(-7)
    assert f"%pirkit_f0p = getelementptr i64, ptr %pirkit_f0w, i64 {number}\n" in checked
    assert f"%pirkit_s0p = getelementptr i64, ptr %pirkit_s0w, i64 {number + 1}\n" in checked


def test_tables_of_numbers_in_the_code_are_buffers() -> None:
    text = (
        '@numbers0 = private unnamed_addr constant [3 x i8] c"\\01\\02\\03", align 64\n'
        "define void @pirkit_kernel(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {\n"
        "entry:\n  %a = getelementptr i8, ptr @numbers0, i64 %lo\n"
        "  %v = load i8, ptr %a, align 1\n  ret void\n}\n"
    )
    checked = sanitized(text, Code(b"", "pirkit_kernel", 1, 0, 0, (64,)), "kernel")
    llvm.parse_assembly(checked).verify()
    assert "store ptr @numbers0, ptr %pirkit_p2, align 8\n" in checked
    assert "store i64 3, ptr %pirkit_n2, align 8\n" in checked
    assert "i64 1, ptr @numbers0, ptr @pirkit_what0)" in checked  # derived from the table
    assert "%more = icmp ult i64 %k, 3\n" in checked


CODE = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(ptr %args, i64 %slot) {
entry:
  %near = alloca i64
  %t = load ptr, ptr %args
  %m = load ptr, ptr %near
  %d = getelementptr i8, ptr %m, i64 8
  %e = getelementptr i8, ptr %t, i64 16
  call void @llvm.memcpy.p0.p0.i64(ptr %d, ptr %e, i64 24, i1 false)
  %v = load <4 x float>, ptr %e
  store <4 x float> %v, ptr %d
  store i8 1, ptr %near
  call void @g(ptr %args, ptr %e)
  ret void
}
define internal void @g(ptr %args, ptr %moved0) {
entry:
  %x = getelementptr i8, ptr %moved0, i64 4
  %y = load half, ptr %x
  ret void
}
"""
CHECKED = {
    "ptr %d, i64 24": "call void @pirkit_room(ptr %near, ptr %d, i64 24, ptr @pirkit_what0)",
    "ptr %e, i64 24": "call void @pirkit_check(ptr %pirkit_buffers, ptr %e, i64 24, ptr %t,"
    " ptr @pirkit_what0)",
    "ptr %e, i64 16": "call void @pirkit_check(ptr %pirkit_buffers, ptr %e, i64 16, ptr %t,"
    " ptr @pirkit_what1)",
    "ptr %d, i64 16": "call void @pirkit_check(ptr %pirkit_buffers, ptr %d, i64 16, ptr %m,"
    " ptr @pirkit_what2)",
    "ptr %x, i64 2": "call void @pirkit_check(ptr %pirkit_buffers, ptr %x, i64 2, ptr null,"
    " ptr @pirkit_what3)",
}
"""What an access is checked against: the stack of a loop, the buffer that its address is derived
from, or any; memory of the function itself is not checked."""


def test_each_access_is_checked_against_its_own_buffer() -> None:
    text = sanitized(CODE, Code(b"", "f", 1, 64, 0, (32, 48)), "it")
    lines = [line.strip() for line in text.partition("@pirkit_lanes")[0].splitlines()]
    found = [line for line in lines if line.startswith("call void @pirkit_")]
    assert found == [*CHECKED.values()]
    for part, line in CHECKED.items():
        assert part in line
    assert "define internal void @g(ptr %pirkit_buffers, ptr %args, ptr %moved0) {" in lines
    assert "call void @g(ptr %pirkit_buffers, ptr %args, ptr %e)" in lines
    assert "define void @f(ptr %args, i64 %slot) {" in lines
    sizes = [line for line in lines if re.match(r"store i64 \d+, ptr %pirkit_n", line)]
    assert [int(line.split()[2].rstrip(",")) for line in sizes] == [32, 48, 64]

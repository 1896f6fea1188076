"""Code for 64-bit Arm: what each emitter writes must become an object, which is not run here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest

import pirkit
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.conv.compile_conv import native_blocked_conv, native_weight_grad
from pirkit.lowering.codegen.conv.transposed_conv_phases import conv_phases, transposed_conv_phases
from pirkit.lowering.codegen.emit import batch_compile
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.lowering.codegen.math.primitives import TABLE
from pirkit.lowering.codegen.matmul.fused_row_blocks import native_rows
from pirkit.lowering.codegen.matmul.gemm import native_gemm
from pirkit.lowering.codegen.matmul.small_gemm import VARIANTS, native_small_gemm
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.runtime import dtype as dt
from pirkit.runtime.native import target as targets
from pirkit.runtime.native.engine import compile_ir
from pirkit.runtime.native.launch_ir import launch_module
from pirkit.runtime.native.pool_ir import pool_text
from pirkit.runtime.native.program_ir import RUN_MODULE, TENSOR_MODULE
from pirkit.runtime.native.target import host
from tests.codegen import test_blocked_conv as blocks
from tests.codegen import test_conv_weight_grad as correlations
from tests.codegen.nests import layer_norm, softmax
from tests.codegen.test_accumulate import Gathering
from tests.codegen.test_gemm import product_like
from tests.codegen.test_outlined_tiles import group
from tests.codegen.test_primitives import CASTS, OWN_TESTS, cast_nest, nest
from tests.codegen.test_random import Maker
from tests.codegen.test_register_transpose import DTYPES, added
from tests.codegen.test_scatter import landing, put, rows
from tests.codegen.test_tiled_nest import own_transpose, parse_kernel
from tests.whole_program.networks import graph, step, step_arguments
from tests.whole_program.test_attention_groups import attention, heads, normal, with_gradients

LINUX, MACOS = "aarch64-unknown-linux-gnu", "arm64-apple-macosx13.0.0"
SEEDS = 12


class Cpu:
    """What LLVM says of an Arm CPU with NEON, and nothing newer."""

    def __init__(self, triple: str) -> None:
        features = SimpleNamespace(flatten=lambda: "+fp-armv8,+neon,-sve")
        self.get_process_triple = lambda: triple
        self.get_host_cpu_name = lambda: "generic"
        self.get_host_cpu_features = lambda: features


@pytest.fixture(params=[LINUX, MACOS])
def texts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[str]]]:
    """The texts of the functions that are made after this, in a process on such a CPU."""
    for name in ("PIRKIT_TARGET", "PIRKIT_VECTOR_BITS"):
        monkeypatch.delenv(name, raising=False)
    waiting = WeakValueDictionary[str, batch_compile.LazyFunction]()
    compiled: dict[str, batch_compile.LazyFunction] = {}
    monkeypatch.setattr(batch_compile, "_pending", waiting)
    monkeypatch.setattr(batch_compile, "_functions", compiled)
    monkeypatch.setattr(targets, "llvm", Cpu(request.param))
    host.cache_clear()
    yield lambda: [f.write().text for f in (*waiting.values(), *compiled.values())]
    monkeypatch.undo()
    host.cache_clear()


def nests() -> list[Any]:
    sample = [softmax(5, 77), softmax(5, 77, dt.bfloat16), softmax(5, 77, dt.float16)]
    sample += [softmax(70, 9, axis=0), layer_norm(64, 1024, stream=True)]
    sample += [added((130, 70), transposed=1, dtype=dtype) for dtype in DTYPES]
    sample += [Maker(seed).kernel() for seed in range(SEEDS)]
    sample += [Gathering(seed).gathering() for seed in range(SEEDS)]
    return [native_sequence(kernel) for kernel in sample]


def primitives() -> list[Any]:
    bits = {name for name in TABLE if name.startswith("bitwise")}
    kinds = [(bits, dt.int32), (set(TABLE) - OWN_TESTS - bits, dt.float32)]
    made = [native_sequence(nest(name, dtype)) for names, dtype in kinds for name in sorted(names)]
    made += [native_sequence(nest(name, dt.float64)) for name in ("exp", "log", "sin", "tanh")]
    return made


def products() -> list[Any]:
    turns = [(False, False), (True, False), (False, True), (True, True)]
    large = [native_gemm(product_like(70, 90, 300, transposed)) for transposed in turns]
    small = [native_small_gemm(kind, v) for kind in (dt.float32, dt.float64) for v in VARIANTS]
    return [*large, *small]


def convolutions() -> list[Any]:
    found: list[Any] = []
    for case in blocks.CASES.values():
        sizes = blocks.sizes_of(case, dt.float32)
        found += [
            native_blocked_conv(conv_phases(sizes)),
            native_blocked_conv(transposed_conv_phases(sizes)),
        ]
    found += [native_weight_grad(correlations.case(c, dt.float32)) for c in correlations.CASES]
    return found


def landings() -> list[Any]:
    found: list[Any] = []
    for case in (put("add", dt.bfloat16), put("amax", dt.float16), rows(dt.float16)):
        made = nests_of(landing(case)[0])
        assert not isinstance(made, str)
        found += [native_sequence(n.kernel) for n in made if isinstance(n.kernel, Kernel)]
    return found


def tiles() -> list[Any]:
    made = nests_of(parse_kernel(own_transpose((70, 70), (1, 0), (32, 32), "float32")))
    assert not isinstance(made, str)
    found = [native_sequence(n.kernel) for n in made if isinstance(n.kernel, TiledNest)]
    return [*found, native_rows(group(64, 61, 96, 90, dt.float32))]


def programs() -> list[Any]:
    given = heads(131, 130, 17, 9, (2,))
    traced = [
        trace(attention, given).program,
        trace(with_gradients(attention), (normal(2, 131, 9, seed=7), *given)).program,
    ]
    found: list[Any] = [pirkit.compile(program, fast_math=True).native for program in traced]
    found.append(batch_lane_program(graph(step, step_arguments(37, (1, 5, 7, 1)))))
    assert all(found)
    return found


EMITTERS = (nests, primitives, products, convolutions, landings, tiles, programs)


@pytest.mark.parametrize("emitter", EMITTERS, ids=lambda e: e.__name__)
def test_each_emitter_writes_code_for_arm(
    emitter: Callable[[], list[Any]], texts: Callable[[], list[str]]
) -> None:
    with np.errstate(all="ignore"):
        held = emitter()
    found = texts()
    assert held
    assert found
    assert host().vector_bits == 128
    for text in found:
        assert "llvm.x86." not in text
        assert_is_for_arm(compile_ir(text))


def test_casts(texts: Callable[[], list[str]]) -> None:
    held = [native_sequence(cast_nest(source, goal)) for source in CASTS for goal in CASTS]
    assert held
    for text in texts():
        assert_is_for_arm(compile_ir(text))


@pytest.mark.usefixtures("texts")
def test_the_code_of_the_runtime() -> None:
    texts = (
        pool_text(host().triple),
        launch_module(8).text(),
        RUN_MODULE.text(),
        TENSOR_MODULE.text(),
    )
    for text in texts:
        assert "llvm.x86." not in text
        assert_is_for_arm(compile_ir(text))


def assert_is_for_arm(image: bytes) -> None:
    """The header of an ELF file names machine 183; that of a Mach-O file type 12, of 64 bits."""
    is_elf = image[:4] == b"\x7fELF" and image[18:20] == b"\xb7\0"
    is_mach = image[:8] == b"\xcf\xfa\xed\xfe\x0c\0\0\x01"
    assert is_elf or is_mach

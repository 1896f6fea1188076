"""What goes through tiles: right for sizes that are no multiples of them, and nothing outside is
touched."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.dialect.map_expr.interpreter import run
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.verify_kernel import problem_of
from pirkit.lowering.codegen.emit.compile import compiled, tiled_draft
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.interpret import run_nest
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import nests_of
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]
GUARD = 4096


def own_transpose(shape: Sequence[int], perm: Sequence[int], tile: Sequence[int], kind: str) -> str:
    """tanh(x) + its transpose, written where it is, too; tanh(x) is kept in tiles."""
    here = ", ".join(f"i{k}" for k in range(len(shape)))
    there = ", ".join(f"i{list(perm).index(k)}" for k in range(len(perm)))
    made = f"{kind}{list(shape)}"
    return f"""\
kernel k rows []
input {made}
op o0 = pd_op.tanh(x0, {{}}, {made})
op o1 = pd_op.transpose(o0, {{'perm': ({"".join(f"{p}, " for p in perm)})}}, {made})
op o2 = pd_op.add(o0, o1, {{}}, {made})
value {made} of o0 stage 0 tile {list(tile)}
  t0 = pd_op.tanh(x0[{here}], {{}}, {kind})
  give t0
value {made} of o2 stage 1
  t0 = pd_op.add(v0[{here}], v0[{there}], {{}}, {kind})
  give t0
output v1
"""


def only_turned(shape: Sequence[int], tile: Sequence[int]) -> str:
    """A sum of a tensor and what is turned: no images."""
    m, n = shape
    return f"""\
kernel k rows []
input float32[{m}, {n}]
input float32[{n}, {m}]
op o0 = pd_op.tanh(x0, {{}}, float32[{m}, {n}])
op o1 = pd_op.transpose(o0, {{'perm': (1, 0, )}}, float32[{n}, {m}])
op o2 = pd_op.add(x1, o1, {{}}, float32[{n}, {m}])
value float32[{m}, {n}] of o0 stage 0 tile {list(tile)}
  t0 = pd_op.tanh(x0[i0, i1], {{}}, float32)
  give t0
value float32[{n}, {m}] of o2 stage 1
  t0 = pd_op.add(x1[i0, i1], v0[i1, i0], {{}}, float32)
  give t0
output v1
output v0
"""


def check(text: str, inputs: Sequence[Array], bits: int = 0) -> TiledNest:
    """Compare with the interpreter; all that native code writes to has guards around it."""
    assert problem_of(text) is None
    kernel = parse_kernel(text)
    assert print_kernel(kernel) == text
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    (nest,) = nests
    assert isinstance(nest.kernel, TiledNest)
    target = replace(host(), vector_bits=bits) if bits else host()
    code = compiled(tiled_draft(nest.kernel, target), target)
    function = NativeFunction(code)
    sizes = [a.nbytes for a in inputs] + [s.meta.numel * s.meta.dtype.itemsize
                                          for s in kernel.statements]  # fmt: skip
    arrays = [np.full(n + 2 * GUARD, 0x71, np.uint8) for n in (*sizes, code.scratch + 64)]
    places = [a.ctypes.data + GUARD for a in arrays]
    for array, given in zip(arrays, inputs, strict=False):
        array[GUARD : GUARD + given.nbytes] = np.frombuffer(given.tobytes(), np.uint8)
    places[-1] = -(-places[-1] // 64) * 64
    block = (ctypes.c_size_t * (len(nest.arrays) + 1))(
        *[places[k] for k in nest.arrays], places[-1]
    )
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 4)(function.address)
    half = code.blocks // 2
    for low, high in ((half, code.blocks), (0, half)):
        call(ctypes.addressof(block), 0, low, high)
    outside = [*inputs, *([None] * len(kernel.statements))]
    for k, array in enumerate(arrays):
        assert (array[:GUARD] == 0x71).all()
        assert (array[-GUARD:] == 0x71).all()
        is_kept = len(inputs) <= k < len(outside) and k - len(inputs) not in kernel.outputs
        assert not is_kept or (array == 0x71).all()
    for number, want in zip(kernel.outputs, run(kernel, inputs), strict=True):
        held = arrays[len(inputs) + number][GUARD : GUARD + want.nbytes]
        found = np.frombuffer(held.tobytes(), want.dtype).reshape(want.shape)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    return nest.kernel


def drawn(shape: Sequence[int], kind: str = "float32") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)


@pytest.mark.parametrize("bits", [128, 0])
@pytest.mark.parametrize(("size", "edge"), [(1 + 16, 16), (33, 8), (8, 64), (70, 32), (5, 1)])
def test_a_value_and_its_transpose(size: int, edge: int, bits: int) -> None:
    x = drawn((size, size))
    x[0, size - 1], x[size - 1, 1] = np.nan, np.inf
    turns = check(own_transpose(x.shape, (1, 0), (edge, edge), "float32"), [x], bits)
    assert len(turns.images) == 2


def test_an_image_that_is_the_same_tile_is_left_out() -> None:
    """With a single tile the second image is the first one: that is known when code is made."""
    nests = nests_of(parse_kernel(own_transpose((8, 8), (1, 0), (8, 8), "float32")))
    assert not isinstance(nests, str)
    assert isinstance(nests[0].kernel, TiledNest)
    text = tiled_draft(nests[0].kernel, host()).text
    assert not re.search(r"select i1 %\w+, i64 1, i64 0", text)


@pytest.mark.parametrize(
    "text",
    [
        own_transpose((11, 11), (1, 0), (4, 4), "float32"),
        own_transpose((5, 6, 6), (0, 2, 1), (1, 4, 4), "float64"),
        own_transpose((5, 5, 5), (1, 2, 0), (4, 4, 4), "float32"),
        only_turned((7, 9), (4, 4)),
    ],
)
def test_each_stage_of_the_schedule(text: str) -> None:
    """After each rewrite the loops give what the nest gives, and leave no buffer."""
    kernel = parse_kernel(text)
    nests = nests_of(kernel)
    assert not isinstance(nests, str)
    (nest,) = nests
    given = [drawn(m.shape, m.dtype.name) for m in kernel.inputs]
    values = [np.zeros(s.meta.shape, s.meta.dtype.np) for s in kernel.statements]
    want = [[*given, *values][k].copy() for k in nest.arrays]
    run_nest(nest, want)
    stages = stages_of(nest.kernel, host())
    assert {stage.rewrite.split()[0] for stage in stages} >= {"loops", "copy_tile", "vectorize"}
    for stage in stages:
        found = [[*given, *values][k].copy() for k in nest.arrays]
        run_loops(stage.nest, found)
        for x, y in zip(found, want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, err_msg=stage.rewrite)


@pytest.mark.parametrize("kind", ["float64", "float16"])
def test_other_element_types(kind: str) -> None:
    text = own_transpose((19, 19), (1, 0), (8, 8), kind)
    if kind == "float64":
        check(text, [drawn((19, 19), kind)])
        return
    kernel = parse_kernel(text)
    nests = nests_of(kernel)
    assert not isinstance(nests, str)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3)))[1:])
def test_three_axes_in_any_order(perm: tuple[int, ...]) -> None:
    moved = [k for k, p in enumerate(perm) if k != p]
    tile = [4 if k in moved or k == 2 else 1 for k in range(3)]
    check(own_transpose((6, 6, 6), perm, tile, "float32"), [drawn((6, 6, 6))])


@pytest.mark.parametrize(
    ("shape", "tile"), [((5, 9), (4, 4)), ((64, 3), (16, 16)), ((1, 7), (1, 4))]
)
def test_a_value_that_is_only_read_turned(shape: tuple[int, int], tile: tuple[int, int]) -> None:
    text = print_kernel(parse_kernel(only_turned(shape, tile)))
    turns = check(text, [drawn(shape), drawn(shape[::-1])])
    assert len(turns.images) == 1

"""Values larger than any memory: a coded error at once, from every path, and never numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan, prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import LimitError, PirkitError, RuntimeFault
from pirkit.dialect.opdef import infer_meta, lookup
from pirkit.dialect.types import meta_of, type_of
from pirkit.frontend.files import Program, load
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import MAX_ARRAY_BYTES, TensorMeta, VecMeta, is_addressable
from pirkit.runtime.native.workspace import WORKSPACE
from pirkit.runtime.place import CPU
from pirkit.runtime.tensor.allocator import HOST, plain_bytes

ONES: Final = np.ones(2, np.float32)
FAR: Final = 1 << 50
"""Elements that have addresses, but for which no machine has memory."""
BEYOND: Final = 1 << 62

CALLS: Final[dict[str, Callable[[int], Any]]] = {
    "arange": lambda n: ops.arange(0, n, 1, "int64"),
    "empty": lambda n: ops.empty([n], "float32"),
    "eye": lambda n: ops.eye(n, 2, "float32"),
    "full": lambda n: ops.full([n], 1.0, "float32"),
    "gaussian": lambda n: ops.gaussian([n], 0.0, 1.0, 0, "float32"),
    "linspace": lambda n: ops.linspace(0.0, 1.0, n, "float64"),
    "one_hot": lambda n: ops.one_hot(np.array([1]), n),
    "randint": lambda n: ops.randint(low=0, high=3, shape=[n]),
    "sequence_mask": lambda n: ops.sequence_mask(np.array([n]), -1, "int64"),
    "nearest_interp": lambda n: ops.nearest_interp(
        np.ones((1, 1, 2, 2), np.float32), scale=[float(n)] * 2, out_h=-1, out_w=-1
    ),
    "tile": lambda n: ops.tile(ONES, [n]),
    "uniform": lambda n: ops.uniform([n], min=0.0, max=1.0, dtype="float32"),
}


@pytest.mark.parametrize("size", [FAR, BEYOND])
@pytest.mark.parametrize("name", CALLS)
def test_ops_at_once(name: str, size: int) -> None:
    with pytest.raises(RuntimeFault) as caught:
        CALLS[name](size)
    assert caught.value.code == "PK0901"
    assert name in caught.value.message


@pytest.mark.parametrize("scale", [inf, nan])
def test_scales_that_are_no_numbers(scale: float) -> None:
    with pytest.raises(RuntimeFault, match="nearest_interp"):
        ops.nearest_interp(np.ones((1, 1, 2, 2), np.float32), scale=[scale] * 2, out_h=-1, out_w=-1)


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 2**31 - 1), (2**31 - 1, 4)])
def test_counts_are_not_made_by_listing(name: str, rows: int, columns: int) -> None:
    rule = infer_meta.of(lookup(f"pd_op.{name}"))
    sizes = ("rows", "cols") if name == "tril_indices" else ("row", "col")
    found = rule(
        **dict(zip(sizes, (rows, columns), strict=True)), offset=0, dtype=dt.int64, place=CPU
    )
    below = sum(min(row + 1, columns) for row in range(4)) if rows == 4 else 4 * rows - 6
    above = rows * columns - below + 4
    assert found.shape == (2, below if name == "tril_indices" else above)


@pytest.mark.parametrize("end", [inf, -inf, nan, 1e300])
def test_ranges_that_do_not_end(end: float) -> None:
    with pytest.raises(RuntimeFault, match="arange"):
        ops.arange(0.0, end, 1.0, "float64")


@pytest.mark.parametrize(
    ("shape", "dtype", "fits"),
    [
        ((1 << 61,), dt.float32, False),
        (((1 << 61) - 1,), dt.float32, True),
        ((1 << 62,), dt.bool_, True),
        ((1 << 32, 1 << 32), dt.bool_, False),
        ((1 << 62, 0, 1 << 62), dt.float32, False),
        ((-1, 1 << 62), dt.float32, False),
        ((-1, -1), dt.complex128, True),
        ((), dt.float32, True),
    ],
)
def test_what_has_addresses(shape: tuple[int, ...], dtype: dt.DType, fits: bool) -> None:
    meta = TensorMeta(shape, dtype)
    assert is_addressable(meta) == is_addressable(VecMeta((meta,))) == fits
    if fits:
        assert meta_of(type_of(meta)) == meta
        return
    for each in (meta, VecMeta((meta,))):
        with pytest.raises(LimitError, match="bytes") as caught:
            type_of(each)
        assert caught.value.code == "PK0305"


@pytest.mark.parametrize("nbytes", [FAR * 64, MAX_ARRAY_BYTES, MAX_ARRAY_BYTES + 1, 1 << 70])
def test_the_allocators_refuse(nbytes: int) -> None:
    with pytest.raises(MemoryError):
        HOST.empty((nbytes,), np.dtype(np.uint8))
    with pytest.raises(MemoryError):
        plain_bytes(nbytes)


HUGE: Final = """pir.program @main(%x "x" : tensor<1xf32>) {{
  %e = pd_op.expand(%x) {{shape = array<i64: {size}>}} : (tensor<1xf32>) -> tensor<{size}xf32>
  %y = pd_op.exp(%e) : (tensor<{size}xf32>) -> tensor<{size}xf32>
  %z = pd_op.tanh(%y) : (tensor<{size}xf32>) -> tensor<{size}xf32>
  pir.shadow_output(%{out}) {{output_name = "z"}} : (tensor<{size}xf32>) -> ()
}}"""
"""A large value that is stored, or a view that is handed out."""

OPEN: Final = """pir.program @main(%x "x" : tensor<?x1x1xf32>, %y "y" : tensor<?x1xf32>,
    %z "z" : tensor<?xf32>) {
  %a = pd_op.add(%x, %y) : (tensor<?x1x1xf32>, tensor<?x1xf32>) -> tensor<?x?x1xf32>
  %b = pd_op.add(%a, %z) : (tensor<?x?x1xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
  %s = pd_op.sum(%b) {axis = array<i64>, keepdim = false} : (tensor<?x?x?xf32>) -> tensor<f32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<f32>) -> ()
}"""

WAYS: Final[dict[str, Callable[[Program], Any]]] = {
    "reference": lambda p: pirkit.compile(p, backend="reference", pipeline=""),
    "kernels": lambda p: pirkit.compile(p, pipeline="@simplify"),
    "fused": pirkit.compile,
    "whole": partial(pirkit.compile, fast_math=True),
}


def program(text: str, folder: Path) -> Program:
    path = folder / "p.mlir"
    path.write_text(text, encoding="utf-8")
    return load(str(path))


@pytest.mark.parametrize("out", ["e", "z"])
@pytest.mark.parametrize("way", WAYS)
def test_programs_that_need_too_much(way: str, out: str, tmp_path: Path) -> None:
    made = program(HUGE.format(size=FAR, out=out), tmp_path)
    with pytest.raises(PirkitError) as caught:
        WAYS[way](made)(x=np.ones(1, np.float32))
    assert caught.value.code == "PK0901"


@pytest.mark.parametrize("way", WAYS)
def test_sizes_that_runs_bring(way: str, tmp_path: Path) -> None:
    """A sum over 2^66 elements that no kernel stores."""
    shapes = [(1 << 22, 1, 1), (1 << 22, 1), (1 << 22,)]
    assert prod(shape[0] for shape in shapes) > MAX_ARRAY_BYTES
    given = [np.ones(shape, np.float32) for shape in shapes]
    made = program(OPEN, tmp_path)
    with pytest.raises(RuntimeFault) as caught:
        WAYS[way](made)(**dict(zip("xyz", given, strict=True)))
    assert caught.value.code == "PK0901"


def test_scratch_of_compiled_programs() -> None:
    """The images with their padding would be scratch memory; the result is small."""
    far = 1 << 40
    with pytest.raises(RuntimeFault, match="PK0901"):
        WORKSPACE.take(far << 8)


def test_transposed_convolutions_of_huge_strides() -> None:
    """Each phase would be a function: there are as many as positions between two elements."""
    x, w = np.ones((1, 8, 2, 2), np.float32), np.ones((8, 8, 3, 3), np.float32)
    sides = {"strides": (512, 512), "paddings": (0, 0), "dilations": (1, 1), "groups": 1}
    attrs = {**sides, "padding_algorithm": "EXPLICIT", "data_format": "NCHW"}
    found = np.asarray(pirkit.jit(lambda x: ops.conv2d_transpose(x, w, **attrs))(x))
    assert found.shape == (1, 8, 515, 515)
    assert (found.sum(), np.count_nonzero(found)) == (8 * 8 * 9 * 4, 8 * 9 * 4)

"""Signatures of ``pirkit.ops``: for ``inspect``, for type checkers, with the defaults of Paddle."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pirkit import ops
from pirkit.diag.errors import UsageError
from pirkit.dialect.opdef import lookup
from pirkit.frontend.python_defaults import DEFAULTS, SameAs
from tools.gen_stubs import STUBS

ROOT = Path(__file__).parents[2]
IMAGE = np.arange(16.0).reshape(1, 1, 4, 4)


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.name)
def test_the_stub_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == STUBS[path]()


def test_every_function_has_a_signature() -> None:
    for name in dir(ops):
        assert inspect.signature(getattr(ops, name)).parameters is not None
    shown = str(inspect.signature(ops.matmul))
    assert shown == "(x, y, transpose_x=False, transpose_y=False)"
    assert "ceil_mode=False" in str(inspect.signature(ops.pool2d))


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_name_parameters(name: str) -> None:
    definition = lookup(name)
    slots = {s.name for s in (*definition.operands, *definition.attrs)}
    named = {v.name for v in DEFAULTS[name].values() if isinstance(v, SameAs)}
    extra = {"onesided"} if name in ("pd_op.fft_c2c", "pd_op.fft_c2r") else set()
    assert ({*DEFAULTS[name]} | named) - extra <= slots


def test_pooling_asks_for_the_kernel_only() -> None:
    np.testing.assert_array_equal(ops.pool2d(IMAGE, 2), [[[[5.0, 7.0], [13.0, 15.0]]]])
    np.testing.assert_array_equal(ops.pool2d(IMAGE, [2, 2], [1, 1])[0, 0, 0], [5.0, 6.0, 7.0])
    mean = ops.pool2d(IMAGE, kernel_size=4, pooling_type="avg")
    np.testing.assert_array_equal(mean, [[[[7.5]]]])


def test_defaults_of_paddle() -> None:
    np.testing.assert_allclose(ops.softmax(np.zeros((2, 4))), 0.25)
    assert float(ops.prod(np.full((2, 2), 3.0))) == 81.0
    assert [t.shape for t in ops.split(np.zeros((4, 2)), [1, 3])] == [(1, 2), (3, 2)]
    np.testing.assert_array_equal(ops.randperm(4).numpy().sum(), 6)
    x = np.arange(-3.0, 3.0).reshape(2, 3)
    np.testing.assert_array_equal(ops.cumsum(x), np.cumsum(x))
    np.testing.assert_array_equal(ops.flatten(x), x.ravel())
    np.testing.assert_array_equal(ops.median(x, 1), np.median(x, 1))
    np.testing.assert_array_equal(ops.clip(x, 0), np.maximum(x, 0))
    np.testing.assert_array_equal(ops.eye(2), np.eye(2))
    assert int(ops.argmax(x)) == 5
    assert float(ops.leaky_relu(np.float64(-1.0))) == -0.01
    with pytest.raises(UsageError, match="lacks `axis`"):
        ops.cummax(x)


def test_type_checkers_see_misspelled_functions_and_parameters(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    file = tmp_path / "user.py"
    file.write_text(
        "import numpy as np\nimport pirkit.numpy as pnp\nfrom pirkit import ops\n\n"
        "x = np.ones(3)\ny = ops.tanh(x)\nops.tanhh(x)\nops.matmul(x, x, transpose_z=True)\n"
        "z = y.sum() + ops.exp(y)\npnp.tanhh(x)\npnp.tanh(x, y=x)\npnp.linalg.dett(x)\n"
        "w = pnp.sum(x, 0) + pnp.linalg.det(pnp.eye(2, dtype=pnp.float32)) + pnp.pi\n"
        "pnp.where(x > 0, x, 0).sum() + pnp.concat([x, x]).mean() + pnp.fft.fft(x).real\n"
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(file)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    lines = [line for line in found.splitlines() if " - error" in line]
    wrong = ["tanhh", "transpose_z", "tanhh", '"y"', "dett"]
    assert len(lines) == len(wrong), found
    for line, word in zip(lines, wrong, strict=True):
        assert word in line

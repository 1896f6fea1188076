"""The runtime alone, without xDSL: it can be imported, and a saved native program runs."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict

from pirkit import compile, fori_loop, grad, ops
from pirkit.frontend.tracing import trace
from pirkit.runtime.native.program_json import pack_program

CHILD = """
import importlib, json, pkgutil, sys
from base64 import b64decode

class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "xdsl":
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())

import numpy as np
import pirkit.runtime
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.program_json import unpack_program

for module in pkgutil.walk_packages(pirkit.runtime.__path__, "pirkit.runtime."):
    if "cupy" not in module.name:
        importlib.import_module(module.name)
saved = json.load(sys.stdin)
codes = {k: Code(**{**c, "image": b64decode(c["image"])}) for k, c in saved["codes"].items()}
program = unpack_program(saved["program"], lambda key: NativeFunction(codes[key]))
arrays = [np.array(a, "float32") for a in saved["inputs"]]
print(json.dumps([a.tolist() for a in program(*arrays)]))
assert not any(name.partition(".")[0] == "xdsl" for name in sys.modules)
"""


def looping(x: Any, w: Any) -> Any:
    def body(_: Any, carry: Any) -> Any:
        return ops.tanh(ops.matmul(carry, w)) + carry

    return fori_loop(0, 5, body, ops.matmul(x, ops.matmul(w, w, transpose_y=True)))


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "straight": lambda x, w: ops.softmax(ops.tanh(ops.matmul(x, w)), -1),
    "loop": lambda x, w: looping(x, ops.matmul(w, w, transpose_y=True)),
    "gradient": lambda x, w: grad(lambda x: ops.tanh(ops.matmul(x, w)).sum())(x),
    "scatter and scan": lambda x, w: ops.cumsum(
        ops.index_add(x, ops.argmax(x[:3], 1), x[:3], 0), 1
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_saved_program_runs_where_xdsl_cannot_be_imported(name: str) -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype("float32") for s in ((30, 20), (20, 40)))
    program = trace(FUNCTIONS[name], (x, w)).program
    native = compile(program, require_native=True).native
    assert native is not None
    keys = [str(k) for k in range(len(native.steps))]
    codes = {k: asdict(s.function.code) for k, s in zip(keys, native.steps, strict=True)}
    saved = {
        "program": pack_program(native, keys),
        "codes": {k: {**c, "image": b64encode(c["image"]).decode()} for k, c in codes.items()},
        "inputs": [x.tolist(), w.tolist()],
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(saved), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    np.testing.assert_array_equal(np.array(found, "float32"), native(x, w)[0])

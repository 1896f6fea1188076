"""A slice of ONNX's own tests of nodes; `tools/onnx_nodes.py` runs all of them."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from pirkit.onnx.backend import PirkitBackend, as_array
from pirkit.runtime import dtype as dt
from tests.tolerance import tolerance

OPERATORS = (
    "conv", "convtranspose", "maxpool", "averagepool", "batch_normalization", "gemm", "matmul",
    "softmax", "groupnormalization", "reshape", "slice", "gather", "scatternd", "pad", "resize",
    "topk", "reducesum", "where", "clip", "lstm", "if_", "scan", "qlinearconv", "depthtospace",
    "cast", "quantizelinear", "dequantizelinear", "bitwiseor", "mod", "nonmaxsuppression", "dft",
    "stft", "gridsample", "affinegrid", "unique",
)  # fmt: skip
REFUSED = {"test_scan_sum", "test_if_seq", "test_if_opt"}
"""Forms that have no rule: batches of Scan 8, sequences and optional values of branches."""


def cases() -> list[Any]:
    package = import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in OPERATORS:
            import_module(f"onnx.backend.test.case.node.{name}")
    plain = [c for c in package._NodeTestCases if c.model is not None and c.name not in REFUSED]
    return [c for c in plain if not _foreign(c)][::4]


def _foreign(case: Any) -> bool:
    """Order and quotients of uint64, for which int64 does not stand."""
    return any(word in case.name for word in ("uint64", "expanded"))


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_node(case: Any) -> None:
    model = PirkitBackend.prepare(case.model, pipeline="")
    for inputs, outputs in case.data_sets:
        found = model.run(list(inputs))
        for have, wanted in zip(found, outputs, strict=True):
            want = as_array(wanted)
            assert have.dtype == want.dtype
            if have.dtype.kind not in "biuc":  # as those of ml_dtypes
                have, want = have.astype(np.float64), want.astype(np.float64)
            # ONNX draws some inputs anew in each process; its bound is a unit in the last place
            least = tolerance(dt.of_array(as_array(wanted))).atol
            np.testing.assert_allclose(have, want, rtol=case.rtol, atol=max(case.atol, least))

"""Rows times weights of fewer bits in panels, on every vector width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pirkit.dialect.ops.nn.quantized_matmul import QuantizedMatmul
from pirkit.dialect.opdef import REFERENCES
from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.matmul.macrokernel import tile_shape_for
from pirkit.lowering.codegen.matmul.quantized_rows import RowsProduct, rows_product_draft
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.execution import Array

SIZES = [(1, 1, 1), (1, 50, 33), (2, 24, 16), (3, 5, 7), (4, 72, 31), (9, 49, 17), (37, 101, 259)]

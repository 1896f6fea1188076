"""The package onnx, without types, as its own annotations are partial.

All modules of this room import onnx from here. Importing this module raises ImportError if onnx is
not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

onnx: Any = import_module("onnx")
checker: Any = import_module("onnx.checker")
defs: Any = import_module("onnx.defs")
helper: Any = import_module("onnx.helper")
numpy_helper: Any = import_module("onnx.numpy_helper")
printer: Any = import_module("onnx.printer")
shape_inference: Any = import_module("onnx.shape_inference")
TensorProto: Any = onnx.TensorProto
AttributeProto: Any = onnx.AttributeProto
DecodeError: Any = import_module("google.protobuf.message").DecodeError

"""Models of ONNX: read into programs, run as a backend of ONNX, and written."""

from pirkit.onnx.import_model import load_model, program_of_model
from pirkit.onnx.rules import RULES, rule

__all__ = ["RULES", "load_model", "program_of_model", "rule"]

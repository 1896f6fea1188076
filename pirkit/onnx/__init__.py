"""Reads ONNX models into programs, runs them as a backend of ONNX, and writes programs as models.

Importing the modules `inverse*` enters the forms in which ops are written.
"""

import pirkit.onnx.inverse  # pyright: ignore[reportUnusedImport]
import pirkit.onnx.inverse_layers  # pyright: ignore[reportUnusedImport]
import pirkit.onnx.inverse_recurrent  # noqa: F401  # pyright: ignore[reportUnusedImport]
from pirkit.onnx.import_model import load_model, program_of_model
from pirkit.onnx.rules import RULES, rule
from pirkit.onnx.write_model import model_of_program, save_model, text_of_program, writes

__all__ = [
    "RULES", "load_model", "model_of_program", "program_of_model", "rule", "save_model",
    "text_of_program", "writes",
]  # fmt: skip

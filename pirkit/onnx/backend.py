"""pirkit as a backend in the sense of `onnx.backend.base`, which ONNX's own tests call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pirkit.frontend.compile import compile
from pirkit.onnx.element_types import array_of
from pirkit.onnx.import_model import program_of_model
from pirkit.onnx.node_builder import ConstantNeededError
from pirkit.runtime.executor import Executable

Array = np.ndarray[Any, Any]


def as_array(value: Any) -> Array:
    """The array of a TensorProto, a list or an array."""
    return array_of(value) if hasattr(value, "data_type") else np.asarray(value)


class PreparedModel:
    """A model that is compiled when its inputs are known.

    Inputs whose elements an operator must know at compile time, such as the axes of a ReduceSum,
    become constants (``special``); the model is compiled again when their elements or the shapes
    of inputs change.
    """

    def __init__(self, model: Any, pipeline: str | None = None) -> None:
        self.model = model
        self.pipeline = pipeline
        stored = {i.name for i in model.graph.initializer}
        self.names = [i.name for i in model.graph.input if i.name not in stored]
        self.outputs = [o.name for o in model.graph.output]
        self.special: list[str] = []
        self._held: dict[Any, Executable] = {}

    def run(self, inputs: Sequence[Any] | dict[str, Any], **_: Any) -> tuple[Array, ...]:
        """The outputs in the order of the graph, for inputs in their order or by name."""
        given = inputs if isinstance(inputs, dict) else dict(zip(self.names, inputs, strict=False))
        arrays = {name: as_array(value) for name, value in given.items()}
        exe = self.compiled(arrays)
        wanted = {i.name for i in exe.plan.inputs}
        found = exe.run({n: a for n, a in arrays.items() if n in wanted})
        return tuple([found[name] for name in self.outputs])

    def compiled(self, arrays: dict[str, Array]) -> Executable:
        """The executable for inputs of these shapes, and these elements of special inputs.

        A failed import names inputs that must be constant; they become special, and it is retried.
        """
        while True:
            shapes = tuple([(n, a.shape, a.dtype.str) for n, a in arrays.items()])
            key = (shapes, tuple([arrays[n].tobytes() for n in self.special]))
            if key in self._held:
                return self._held[key]
            values = {n: arrays[n] for n in self.special}
            try:
                program = program_of_model(self.model, values=values)
            except ConstantNeededError as error:
                named = [n for n in error.sources if n in arrays and n not in self.special]
                if not named:
                    raise
                self.special += named
                continue
            exe = compile(program, pipeline=self.pipeline)
            self._held[key] = exe
            return exe


class PirkitBackend:
    """`onnx.backend.base.Backend`: ``prepare(model).run(inputs)``."""

    @classmethod
    def prepare(
        cls, model: Any, device: str = "CPU", pipeline: str | None = None, **_: Any
    ) -> PreparedModel:
        return PreparedModel(model, pipeline)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **_: Any) -> tuple[Array, ...]:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **_: Any) -> bool:
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

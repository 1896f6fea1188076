"""Inference with weights as constants: what depends on weights alone is computed once."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from xdsl.ir import SSAValue

from pirkit.analysis.frozen_values import PARAMETER
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder
from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.types import meta_of
from pirkit.frontend.files import Program
from pirkit.frontend.freeze import freeze
from pirkit.passes.replace_ops import erase
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.runtime.trace import Entry
from pirkit.torch.tensor_runner import Runner, Settings


class FrozenRunner:
    """A program as a `Runner` calls it, of whose inputs ``weights`` (names) are constants.

    Blocked and packed weights and the other constants of `frontend.freeze` are made by the first
    call. They are made again by a call for which a weight is another tensor or was written since,
    as far as its version tells; writes through `.data` do not count as such.
    """

    def __init__(
        self, program: Program, inputs: Sequence[str], outputs: Sequence[str], settings: Settings,
        weights: Set[str], updates: Sequence[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        main, constants = freeze(_with_parameters(program, weights), None)
        kept = _parameters_as_inputs(main)
        names = [n for n in inputs if n not in weights]
        self._free = [k for k, n in enumerate(inputs) if n not in weights]
        self._weights = [k for k, n in enumerate(inputs) if n in weights]
        self._kept = [inputs.index(n) for n in kept if n in weights]
        made = [n for n in kept if n not in weights]
        order = [*names, *(inputs[k] for k in self._kept), *made]
        moved = [(k, order.index(inputs[i])) for k, i in updates]
        self._main = Runner(main, order, outputs, settings, updates=moved)
        self._constants: Runner | None = None
        if constants is not None and made:
            read = _parameters_as_inputs(constants)
            self._read = [inputs.index(n) for n in read]
            self._constants = Runner(constants, read, made, settings)
        self._held: tuple[Any, Sequence[Any]] = (None, ())
        self.packed = None

    def __call__(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The results for tensors. Raises what `Runner` raises."""
        given = [tensors[k] for k in (*self._free, *self._kept)]
        return self._main([*given, *self._made(tensors)])

    def watched(self) -> list[Entry]:
        return self._main.watched()

    def _made(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The constants for weights as they are now."""
        if self._constants is None:
            return ()
        weights = [tensors[k] for k in self._weights]
        # Tensors of inference mode have no version: each call makes their constants.
        tracked = not any([t.is_inference() for t in weights])
        marks = [(t.data_ptr(), t._version) for t in weights] if tracked else None
        known, made = self._held
        if marks is None or marks != known:
            made = self._constants([tensors[k] for k in self._read])
            self._held = marks, made
        return made


def _with_parameters(program: Program, names: Set[str]) -> Program:
    """The program with these inputs as parameters."""
    copy = program.copy()
    for name, value in inputs_of(copy.main).items():
        if name in names:
            owner = _owner(value)
            held = {"parameter_name": encode("str", name)}
            made = create(PARAMETER, (), (value.type,), held, location=owner.location)
            copy.main.block.insert_op_before(made, owner)
            _replace(owner, made.results[0])
    return copy


def _parameters_as_inputs(program: Program) -> list[str]:
    """Turn the parameters of a program into inputs; their names."""
    found: list[str] = []
    for op in list(program.main.operations):
        if op.name == PARAMETER:
            meta, name = meta_of(op.results[0].type), str(op.attribute("parameter_name"))
            assert isinstance(meta, TensorMeta)
            b = Builder(program.main.block, before=op, location=op.location)
            made = b("pd_op.data", name=name, shape=meta.shape, dtype=meta.dtype, place=UNDEFINED)
            _replace(op, made.ssa)
            found.append(name)
    return found


def _owner(value: SSAValue) -> PirOp:
    assert isinstance(value.owner, PirOp)
    return value.owner


def _replace(op: PirOp, value: SSAValue) -> None:
    op.results[0].replace_all_uses_with(value)
    erase(op)

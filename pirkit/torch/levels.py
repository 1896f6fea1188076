"""A program with its derivatives of any order, each compiled when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pirkit.diag.once import cached_property
from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.operation import PirOp, declares, host_name
from pirkit.frontend.files import Program
from pirkit.passes.base import PassContext
from pirkit.passes.dce import DcePass
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.split.add_gradients import differentiated
from pirkit.split.partition import forward_backward
from pirkit.split.save_or_recompute import SAVE_ALL
from pirkit.split.split_result import SplitParts
from pirkit.torch.flat_ops import Flat, zero_inputs
from pirkit.torch.frozen_weights import FrozenRunner
from pirkit.torch.tensor_runner import Packed, Runner, Settings
from pirkit.torch.unit_seed import split_of_loss

Array = np.ndarray[Any, Any]


@dataclass
class Level:
    """A program, its forward and backward halves, and the level of its gradients.

    Inputs that need no gradient, and values whose gradient stops, are marked in the program. Inputs
    and outputs are meant by their index in ``inputs`` and ``outputs``.
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    settings: Settings
    learns: tuple[bool | None, ...] = ()
    """Whether each output requires a gradient in torch; None if that is unknown."""
    flats: tuple[Flat, ...] = ()
    """Ops for whose derivative torch gives zeros (see `flat_ops`)."""
    zeros: tuple[frozenset[int], ...] = ()
    """For each output, the inputs that get zeros, not None, where they have no gradient."""
    updates: tuple[tuple[int, int], ...] = ()
    """Pairs of an output and an input into which it is written after the call."""
    weights: tuple[int, ...] = ()
    """The inputs that are parameters and buffers of a module."""
    linear: bool = True
    """Whether gradients are linear in cotangents; those that a user defines need not be."""

    @cached_property
    def is_learning(self) -> bool:
        """Whether an output may require a gradient."""
        return not self.learns or any(wants is not False for wants in self.learns)

    def zero_gradients(self, cotangents: Sequence[Any]) -> frozenset[int]:
        """Inputs that get zeros, if they get no other gradient."""
        used = [z for z, given in zip(self.zeros, cotangents, strict=False) if given is not None]
        return frozenset[int]().union(*used)

    @cached_property
    def inference(self) -> Runner | FrozenRunner:
        """The program alone."""
        if self.settings.freeze and self.weights:
            weights = {self.inputs[i] for i in self.weights}
            return FrozenRunner(self.program, self.inputs, self.outputs, self.settings, weights,
                                self.updates)  # fmt: skip
        return Runner(self.program, self.inputs, self.outputs, self.settings, updates=self.updates)

    @cached_property
    def parts(self) -> SplitParts:
        """The program split into forward and backward; as a loss, if that is no worse."""
        return self._loss or self._usual

    @cached_property
    def _usual(self) -> SplitParts:
        settings = self.settings
        return forward_backward(self.program, mode=settings.saved, budget=settings.budget)

    @cached_property
    def _loss(self) -> SplitParts | None:
        """The split whose forward computes the gradients (`unit_seed`).

        None unless these take no more bytes than the values that the usual split saves.
        """
        settings = self.settings
        if settings.saved == SAVE_ALL or settings.budget is not None or not self.linear:
            return None
        found = split_of_loss(self.program)
        return found if found and found.report.bytes <= self._usual.report.bytes else None

    @cached_property
    def forward(self) -> Runner:
        """The forward half: outputs of the program, then what is saved for the backward."""
        names = self.parts.names
        program = Program(self.parts.forward.module, {}, "<torch>")
        outputs = (*self._outputs, *names.fm)
        lanes = self._loss is not None
        return Runner(program, self.inputs, outputs, self.settings, len(self.outputs), lanes=lanes)

    @property
    def _outputs(self) -> list[str]:
        """Names of the outputs in the forward half, in the order of ``outputs``."""
        position = dict(self.parts.returns)
        return [self.parts.names.fo[position[name]] for name in self.outputs]

    @cached_property
    def reads(self) -> BackwardReads:
        """What the backward half takes."""
        names = self.parts.names
        fx = {name: i for i, name in enumerate(self.inputs)}
        kept = [fx[n] for n in names.bx if n is not None]
        position = dict(self.parts.returns)
        at = {position[name]: k for k, name in enumerate(self.outputs)}
        outs = [at[p] for p, n in enumerate(names.bo) if n is not None]
        seeds = {at[p]: n for p, n in enumerate(names.bo_g) if n is not None}
        middles = [i for i, n in enumerate(names.bm) if n is not None]
        grads = {fx[x]: g for x, g in zip(names.fx, names.bx_g, strict=True) if g is not None}
        arguments = (
            *(n for n in names.bx if n is not None),
            *(n for n in names.bo if n is not None),
            *(n for n in names.bm if n is not None),
            *seeds.values(),
        )
        return BackwardReads(
            tuple(kept), tuple(outs), tuple(middles), tuple(seeds), tuple(grads),
            arguments, tuple(grads.values()),
        )  # fmt: skip

    @cached_property
    def reaching(self) -> dict[int, frozenset[int]]:
        """For each input that gets a gradient, the outputs whose cotangents it depends on."""
        reads, program = self.reads, self.parts.backward.main
        names = reads.arguments[len(reads.arguments) - len(reads.seeds) :]
        sources = inputs_of(program)
        held = {sources[n]: frozenset([k]) for n, k in zip(names, reads.seeds, strict=True)
                if n in sources}  # fmt: skip
        found: dict[str, frozenset[int]] = {}
        for op in program.operations:
            taken = [held[v] for part in op.walk() for v in part.operands if v in held]
            reach = frozenset[int]().union(*taken)
            held.update(dict.fromkeys(op.results, reach))
            if declares(op, OUTPUT):
                found[host_name(op)] = reach
        return {i: found[name] for i, name in zip(reads.gradients, reads.results, strict=True)}

    @cached_property
    def influences(self) -> set[int]:
        """The inputs on which results depend that can have a gradient."""
        fixed = {self.outputs[k] for k in self.fixed}
        needed = set[Any]()
        for op in reversed(list(self.program.main.operations)):
            is_root = declares(op, OUTPUT) and host_name(op) not in fixed
            if is_root or not needed.isdisjoint(op.results):
                needed.update(v for part in op.walk() for v in part.operands)
        sources = inputs_of(self.program.main)
        reached = {i for i, name in enumerate(self.inputs) if sources.get(name) in needed}
        return reached | set(self.reads.inputs)

    def absent(self, cotangents: Sequence[Any]) -> list[int]:
        """Inputs that get no gradient, because no result that depends on them was used."""
        missing = {k for k in self.reads.seeds if cotangents[k] is None}
        if not missing:
            return []
        return [i for i, reach in self.reaching.items() if reach and reach <= missing]

    @cached_property
    def fixed(self) -> tuple[int, ...]:
        """The outputs that require no gradient."""
        known = self.learns or (None,) * len(self.outputs)
        seeds = set(self.reads.seeds)
        return tuple([k for k, wants in enumerate(known)
                      if wants is False or (wants is None and k not in seeds)])  # fmt: skip

    @cached_property
    def backward(self) -> Runner:
        """The backward half."""
        reads = self.reads
        results = tuple(dict.fromkeys(reads.results))
        program = Program(self.parts.backward.module, {}, "<torch>")
        packed, names = self.forward.packed, self.parts.names
        if packed is not None:
            places = {
                n: packed.places[names.fm[i]] for i, n in enumerate(names.bm) if n is not None
            }
            packed = Packed(places, packed.nbytes)
        return Runner(program, reads.arguments, results, self.settings, saved=packed)

    @cached_property
    def gives(self) -> list[tuple[int, int, bool]]:
        """For each gradient its input, its result of `backward`, and whether it is a second use.

        Inputs of equal gradients share a result; the last item is False for the first of them.
        """
        reads, names = self.reads, self.backward.outputs
        at = [names.index(n) for n in reads.results]
        return [
            (i, k, k in at[:n]) for n, (i, k) in enumerate(zip(reads.gradients, at, strict=True))
        ]

    @cached_property
    def gradient(
        self,
    ) -> tuple[Level, tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
        """The level of the gradients: a program of inputs and seeds.

        Also gives the indices of the inputs that it reads, of the outputs whose seeds it reads, and
        of the inputs whose gradients it returns, each with the index of its result: inputs of
        equal gradients share one, because two outputs that are one value have one seed.
        """
        joint = self.program.copy()
        program = joint.main
        roles, _ = differentiated(program, paddle_residuals=False, keep_rules=True)
        values = outputs_of(program)
        labels: dict[Any, str] = {}
        label = {i: labels.setdefault(values[roles.gradients[n]], roles.gradients[n])
                 for i, n in enumerate(self.inputs) if n in roles.gradients}  # fmt: skip
        # The gradients become the only outputs; what does not contribute to them is dropped.
        keep = set(labels.values())
        for op in list(program.operations):
            if declares(op, OUTPUT) and host_name(op) not in keep:
                op.detach()
                op.erase()
        if keep:
            DcePass().run(PassContext("torch", len(list(program.operations))), joint.module)
        sources = inputs_of(program)
        for name, value in list(sources.items()):
            if not value.uses.get_length() and isinstance(value.owner, PirOp):
                value.owner.detach()
                value.owner.erase()
                del sources[name]
        read = [i for i, n in enumerate(self.inputs) if n in sources]
        seeded = [k for k, n in enumerate(self.outputs) if roles.seeds.get(n) in sources]
        outputs = tuple(labels.values())
        gives = tuple([(i, outputs.index(name)) for i, name in label.items()])
        zeros = zero_inputs(self.flats, gives, read, seeded)
        level = Level(
            joint,
            (*(self.inputs[i] for i in read), *(roles.seeds[self.outputs[k]] for k in seeded)),
            outputs,
            self.settings,
            zeros=zeros,
            linear=self.linear,
        )
        return level, tuple(read), tuple(seeded), gives


@dataclass(frozen=True)
class BackwardReads:
    """What a backward half takes and gives, by index.

    It takes ``inputs`` and ``outputs`` of the forward, other saved values (``middles``), and the
    cotangents of the outputs ``seeds``; it gives the gradients of the inputs ``gradients``.
    ``arguments`` and ``results`` are the names in that order.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    middles: tuple[int, ...]
    seeds: tuple[int, ...]
    gradients: tuple[int, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]

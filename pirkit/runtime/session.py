"""A session: the memory of one run at a time, and the callables that run its instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pirkit.runtime.draws import Draws
from pirkit.runtime.library import Library
from pirkit.runtime.meta import Meta
from pirkit.runtime.mode import Counters, Mode
from pirkit.runtime.native.cores import ONE_BLAS_THREAD, at_most
from pirkit.runtime.parallel import dependencies, execute_parallel
from pirkit.runtime.plan import Operand, Plan
from pirkit.runtime.planning import plan_memory
from pirkit.runtime.run_block import execute
from pirkit.runtime.slots import SlotTable
from pirkit.runtime.steps import Env, build


class Session:
    """A slot table and callables, for inputs and parameters of known shapes. Not thread-safe."""

    def __init__(
        self,
        plan: Plan,
        library: Library,
        bound_inputs: Mapping[int, Meta],
        counters: Counters,
        mode: Mode,
        variables: frozenset[int] = frozenset(),
    ) -> None:
        self.draws = Draws()
        fuses_launches = mode.threads == 1 and (mode.fuses_launches or mode.run is execute)
        plan = library.grouped(plan, bound_inputs) if fuses_launches else plan
        self.plan = plan
        """The plan that runs: that for inputs of these shapes."""
        layout = plan_memory(
            plan,
            library,
            bound_inputs,
            device=library.device,
            generator=self.draws.generator,
            reuse=mode.reuse and mode.threads == 1,  # reuse would order what is independent
            variables=variables,
            fuses_launches=fuses_launches,
        )
        self.nbytes = layout.nbytes
        self.owned = layout.owned
        """Slots whose arrays can be given to the caller without a copy."""
        self.copies = layout.copies
        """Number of values that a run copies into variables, instead of computing them there."""
        self.in_place = layout.in_place
        """Variables that are written in place; others must be replaced after the run."""
        self._limit = mode.limit
        self._slot_table = SlotTable(len(plan.slots), layout.nbytes, library.device)
        for slot, place in layout.copied:
            self._slot_table.result_cell(slot, place, [])
        self.places = {slot: self._slot_table.value(slot) for slot, _ in layout.copied}
        """Where small inputs and parameters are copied to."""
        self._mode = mode
        env = Env(
            self._slot_table,
            library.device,
            library,
            self.draws.generator,
            counters,
            mode.run,
            fuses_launches=fuses_launches,
        )
        with at_most(mode.limit):
            self._steps = build(env, layout.nodes, layout.accesses)
        self._graph = dependencies(self._steps.accesses) if mode.threads > 1 else None
        self._varying = tuple(i for i in range(len(plan.slots)) if self._slot_table.is_moving(i))
        counters.sessions += 1

    def feed(self, slots: Sequence[int], values: Sequence[Any]) -> None:
        """Put the values of inputs and parameters into their slots."""
        cells, places = self._slot_table.values, self.places
        for slot, value in zip(slots, values, strict=True):
            place = places.get(slot)
            if place is None:
                cells[slot] = value
            else:
                place[...] = value

    def run(self) -> None:
        """Run all instructions. Raises RuntimeFault for a kernel that refuses its arguments."""
        if self._steps.is_native:
            self._mode.run(self._slot_table, self._steps)
            return
        with np.errstate(all="ignore"), ONE_BLAS_THREAD:
            if self._graph is not None:
                execute_parallel(self._slot_table, self._steps, self._graph, self._mode.threads)
            elif self._limit is None:
                self._mode.run(self._slot_table, self._steps)
            else:
                with at_most(self._limit):  # limits code that the run binds, too
                    self._mode.run(self._slot_table, self._steps)

    def value(self, operand: Operand) -> Any:
        """The value of an operand: an array, a list of them, or None."""
        return self._slot_table.value(operand)

    def forget(self) -> None:
        """Drop all references to arrays of the caller."""
        values = self._slot_table.values
        for slot in self._varying:
            values[slot] = None

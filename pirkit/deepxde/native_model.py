"""Replaces the training step and the losses of a DeepXDE model by native programs.

A program is recorded for a set of points and bound to the memory of the variables; it is recorded
again when the points, the memory, or other values that the model reads have changed.
"""

from __future__ import annotations

import operator
import sys
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pirkit.deepxde.programs import (
    MOST_KINDS,
    Adam,
    Bound,
    Losses,
    NotCovered,
    Programs,
    Record,
    flat,
    tuples,
)
from pirkit.deepxde.watched import State, Watched, user_code
from pirkit.diag.errors import InternalError, PirkitError

Array = np.ndarray[Any, Any]
_POINTS: Final = ("train_x", "test_x", "train_aux_vars", "test_aux_vars")
"""Attributes of DeepXDE's data that their losses read."""
_PACKAGE: Final = str(Path(__file__).parents[1])
_MOST_ROWS: Final = 100_000
_ROWS_OF_A_CALL: Final = 1_000
"""The fixed cost of an evaluation of losses by the framework, as a number of points: its operations
take as long on few rows as on some hundred."""
_MOST_CHANGES: Final = 8
"""Changes of values that a model reads which are always tolerated."""
_STEPS_BETWEEN: Final = 100
"""If what a model reads changes more often than once in so many steps, the framework runs it."""


class NativeModel(ABC):
    """The native programs of a model, in place of its callables; one class for each framework."""

    framework: str
    objects: tuple[type, ...] = ()
    """Types of the framework whose objects are compared by identity, such as its tensors."""
    random_states: Sequence[State] = ()
    """How the states of the framework's generators of random numbers are read and set."""

    def __init__(self, model: Any, variables: list[Any], record: Record) -> None:
        self.model = model
        self.variables = variables
        self.programs = Programs(variables, record, self.memory, self.learns)
        self.refused: str | None = None
        self._places: Any = None
        self._calls = self._changes = 0
        self._rows = Counter[str]()
        self._bound: dict[Hashable, tuple[tuple[Any, ...], Watched, Bound]] = {}
        self._losses, self._tested = model.outputs_losses_train, model.outputs_losses_test
        self._scalars = [np.zeros((), self.memory(variables[0]).dtype) for _ in range(2)]
        self._moments: list[Array] = []
        model.train_step = self._or_theirs(self.train_step, model.train_step)
        model.outputs_losses_train = self._or_theirs(
            lambda *data: self.losses("train", self._losses, data), self._losses
        )
        model.outputs_losses_test = self._or_theirs(
            lambda *data: self.losses("test", self._tested, data), self._tested
        )
        model.accelerated = self

    @abstractmethod
    def memory(self, variable: Any) -> Array:
        """The array over the memory of a variable. Raises NotCovered if there is none."""

    @abstractmethod
    def learns(self, losses: Losses, data: Any) -> list[bool]:
        """Which variables the optimizer gets a gradient for; it leaves others alone."""

    @abstractmethod
    def places(self) -> Any:
        """Where variables are and which of them are trained: a change means other programs."""

    @abstractmethod
    def tensor(self, array: Array) -> Any:
        """The framework's tensor over the memory of an array."""

    @abstractmethod
    def adam(self) -> Adam | None:
        """The settings of the optimizer if a step of it is native; None for others."""

    @abstractmethod
    def moments(self) -> list[Array] | None:
        """First moments of all variables, then second ones; None if they are where they were."""

    @abstractmethod
    def next_step(self, adam: Adam) -> tuple[float, float]:
        """The two numbers that the program of the next step of Adam reads.

        They are the learning rate over 1 - beta1^t, and the square root of 1 - beta2^t.
        """

    @abstractmethod
    def count_step(self, adam: Adam) -> None:
        """Count a step of Adam, once it is done: the framework repeats one that failed."""

    @abstractmethod
    def with_gradients(self, gradients: list[Array | None], losses: Callable[[], Array]) -> None:
        """A step of the framework's optimizer; ``losses()`` computes the loss and the gradients.

        Those of variables that are left alone are None.
        """

    @abstractmethod
    def schedule(self) -> None:
        """A step of the schedule of the learning rate."""

    def _or_theirs(
        self, ours: Callable[..., Any], theirs: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A callable that runs ours until an error occurs, and then, and ever after, theirs."""

        def either(*args: Any) -> Any:
            if self.refused is None:
                try:
                    return ours(*args)
                except Exception as error:  # of the user's code, perhaps on a probe without content
                    self.refuse(_reason(error))
            return theirs(*args)

        return either

    def refuse(self, reason: str) -> None:
        """Let the framework run the model from now on, and print the reason."""
        self.refused = reason
        print(f"pirkit.deepxde: {self.framework} runs this model: {reason}", file=sys.stderr)

    # --- steps ---

    def train_step(self, *data: Any) -> None:
        """One step of the optimizer, and of the schedule of its rate."""
        adam = self.adam()
        if adam is None:
            self._slopes_step(data)
        else:
            self._adam_step(adam, data)
        self.schedule()

    def _adam_step(self, adam: Adam, data: Any) -> None:
        """A step of Adam in native code: losses, gradients, and the update in place."""
        moved = self.moments()
        if moved is not None:
            self._bound.clear()
            self._moments = moved
        bound = self._program(
            ("adam", adam), self._losses, data, lambda: self._updating(adam, data)
        )
        rate, correction = self.next_step(adam)
        self._scalars[0][()], self._scalars[1][()] = rate, correction
        bound.run()
        self.count_step(adam)

    def _updating(self, adam: Adam, data: Any) -> Bound:
        """The program of a step of Adam, which writes variables and moments in place."""
        state = [*self._scalars, *self._moments]
        bound = self.programs.bound(self._losses, data, adam, state)
        places = [*map(self.memory, self.variables), *self._moments]
        return bound.write_to({f"y{i + 2}": a for i, a in enumerate(places)})

    def _slopes_step(self, data: Any) -> None:
        """A step of another optimizer, which gets losses and gradients from native code."""
        bound = self._program("gradients", self._losses, data, lambda: self._with_gradients(data))
        gradients = [
            bound.results[f"y{i + 2}"] if learned else None
            for i, learned in enumerate(bound.learns)
        ]

        def losses() -> Array:
            bound.run()
            return bound.results["y0"].copy()

        self.with_gradients(gradients, losses)

    def _with_gradients(self, data: Any) -> Bound:
        """The program of losses and gradients, with memory for the gradients."""
        bound = self.programs.bound(self._losses, data, None, self._scalars[:1])
        places = [np.zeros_like(self.memory(v)) for v in self.variables]
        return bound.write_to({f"y{i + 2}": a for i, a in enumerate(places)})

    # --- programs by points ---

    def _program(
        self, kind: Hashable, losses: Losses, data: tuple[Any, Any, Any], make: Callable[[], Bound]
    ) -> Bound:
        """The bound program of a kind, recorded by ``make`` if none fits these points.

        One fits if shapes and loss weights are the same, what it read has not changed, and the sets
        of points that DeepXDE's data hold are the same objects. Raises NotCovered if that fails too
        often.
        """
        arrays = flat(data)
        places = self.places()
        if places != self._places:
            self._bound.clear()
            self._places = places
        weights = np.ravel(self.model.loss_weights).tolist()
        key = (kind, *weights, *[a.shape for a in arrays])
        fixed = self._fixed(data)
        held = self._bound.get(key)
        self._calls += 1
        if held is not None and held[1].is_other():
            self._require_few_changes(held[1])
            held = None
        if held is None or len(held[0]) != len(fixed) or not all(map(operator.is_, held[0], fixed)):
            if len(self._bound) >= MOST_KINDS:
                self._bound.clear()
            held = self._bound[key] = (fixed, *self._recorded(losses, make))
        held[2].take(arrays)
        return held[2]

    def _require_few_changes(self, watched: Watched) -> None:
        self._changes += 1
        if self._changes > max(_MOST_CHANGES, self._calls // _STEPS_BETWEEN):
            raise NotCovered(f"what the model reads changes again and again: {watched.change()}")

    def _recorded(self, losses: Losses, make: Callable[[], Bound]) -> tuple[Watched, Bound]:
        watched = Watched(user_code(self.model, losses), self.objects)
        with watched.recording(self.random_states):
            bound = make()
        return watched, bound

    def _fixed(self, data: tuple[Any, Any, Any]) -> tuple[Any, ...]:
        """The objects that a recording may have read besides its inputs; others mean a new one.

        DeepXDE's own data classes read their sets of points, of which the inputs may be batches. A
        user's data class may read anything, so each batch is recorded.
        """
        held = self.model.data
        if not type(held).__module__.startswith("deepxde."):
            return (*tuples(data[0]), *data[1:])
        parts = [held, getattr(held, "pde", None)]
        return tuple([a for d in parts for n in _POINTS for a in tuples(getattr(d, n, None))])

    def losses(self, kind: str, theirs: Losses, data: tuple[Any, Any, Any]) -> Any:
        """Outputs of the network and losses, as tensors, as DeepXDE's `outputs_losses` gives them.

        The framework computes the first evaluations, of up to `_MOST_ROWS` points in all: they take
        about as long as compiling a program would, and most trainings need only a few.
        """
        self._rows[kind] += max(map(len, flat(data))) + _ROWS_OF_A_CALL
        if self._rows[kind] <= _MOST_ROWS:
            return theirs(*data)

        def make() -> Bound:
            return self.programs.bound(theirs, data, None, ()).write_to({})

        bound = self._program(kind, theirs, data, make)
        bound.run()
        return tuple([self.tensor(bound.results[f"y{i}"].copy()) for i in range(2)])


def _reason(error: Exception) -> str:
    """Why the framework runs a model: what an error says, and whether it is a bug of pirkit."""
    told = _first_line(str(getattr(error, "message", error)))
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    *_, (frame, _line) = traceback.walk_tb(first.__traceback__)
    is_coded = isinstance(first, PirkitError | NotCovered)
    within = frame.f_code.co_filename.startswith(_PACKAGE)
    if isinstance(first, InternalError) or (within and not is_coded):
        return f"an internal error of pirkit, please report it: {type(first).__name__}: {told}"
    return told


def _first_line(message: str) -> str:
    """The line that tells the reason: Paddle puts it after the lines of the captured code."""
    lines = message.strip().splitlines() or ["an error without message"]
    return lines[-1 if lines[0].startswith("In transformed code") else 0].strip()

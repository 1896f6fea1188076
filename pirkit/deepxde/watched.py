"""What a recording of a model depends on besides its arguments: numbers, attributes, generators.

The model's own Python runs only once for each set of points. If a value that it read has changed
since then, the model is recorded again. A model that changes such values itself, or draws random
numbers, would need that at every call: it is not recorded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from pirkit.deepxde.programs import NotCovered
from pirkit.frontend.generated_code import function_of
from pirkit.frontend.surroundings import Surroundings

State = tuple[Callable[[], Any], Callable[[Any], Any]]
"""How the state of a generator of random numbers is read and set."""

_GENERATORS: Final = (np.random.Generator, np.random.RandomState)
_OF_DEEPXDE: Final = (".training", ".auxiliary_vars")
"""Attributes of networks that DeepXDE sets before each call."""


def user_code(model: Any, losses: Any) -> list[Any]:
    """The user's functions and objects that losses of a model can reach."""
    data, net = model.data, model.net
    held = [vars(d) for d in (data, getattr(data, "pde", None)) if hasattr(d, "__dict__")]
    parts: list[Any] = [net, *getattr(net, "modules", tuple)()]
    conditions = [b for d in held for b in d.get("bcs") or ()]
    objects = [*held, *map(vars, parts), *map(vars, conditions)]
    found: list[Any] = [losses, *parts, *(v for members in objects for v in members.values())]
    return [each for given in found for each in _of_user(given)]


def _of_user(given: Any) -> Iterator[Any]:
    """The user's callables in what is given; those that a function of DeepXDE's closes over."""
    if isinstance(given, list | tuple):
        for each in cast("list[Any]", given):
            yield from _of_user(each)
    elif isinstance(given, FunctionType) and _is_of_deepxde(given):
        for cell in given.__closure__ or ():
            yield from _of_user(cell.cell_contents)
    elif callable(given):
        yield given


def _is_of_deepxde(function: FunctionType) -> bool:
    return str(function.__globals__.get("__name__")).startswith("deepxde.")


class Watched:
    """The values that a model's Python may read, as they are now.

    ``objects`` are types whose objects are compared by identity, such as tensors.
    """

    def __init__(self, roots: Sequence[Any], objects: tuple[type, ...]) -> None:
        kinds = (*objects, *_GENERATORS)
        self._held = Surroundings.of(partial(tuple, *roots), kinds)
        places = [p for p in self._held.places if not p.expression.endswith(_OF_DEEPXDE)]
        self._held.places = places
        self.generators = [p.value for p in places if isinstance(p.value, _GENERATORS)]
        self.is_other = self._held.checker()
        """A function that tells whether a value has changed."""

    def change(self) -> str | None:
        """A description of what has changed; None if nothing has."""
        return self._held.change(frozenset())

    def restore(self) -> None:
        """Assign the old values to numbers that have changed."""
        for place in self._held.places:
            # An expression with a call is no target of an assignment.
            if "(" not in place.expression and isinstance(place.value, bool | int | float):
                names = {**self._held.roots, "value": place.value}
                with suppress(TypeError):  # an element of a tuple cannot be assigned
                    function_of("put()", [f"{place.expression} = value"], names)()

    @contextmanager
    def recording(self, states: Sequence[State]) -> Generator[None]:
        """While a model is recorded. ``states`` are those of the framework's generators.

        Raises NotCovered if the model changed what it reads, or drew random numbers. Numbers and
        generators are then set back, so that the framework computes what it would have computed.
        """
        known: list[State] = [
            (random.getstate, random.setstate),
            (np.random.get_state, np.random.set_state),
            *map(_state, self.generators),
            *states,
        ]
        before = [read() for read, _ in known]
        yield
        if not all(_equal(read(), old) for (read, _), old in zip(known, before, strict=True)):
            for (_, put), old in zip(known, before, strict=True):
                put(old)
            raise NotCovered("the model draws random numbers at each call")
        if self.is_other():
            changed = self.change()
            self.restore()
            raise NotCovered(f"the model changes what it reads at each call: {changed}")


def _state(generator: Any) -> State:
    if isinstance(generator, np.random.RandomState):
        return generator.get_state, generator.set_state
    bits = generator.bit_generator
    return lambda: bits.state, lambda state: setattr(bits, "state", state)


def _equal(one: Any, other: Any) -> bool:
    """Whether two states, trees of numbers and arrays, are equal."""
    if isinstance(one, dict):
        held = cast("dict[str, Any]", one)
        return held.keys() == other.keys() and all(_equal(v, other[k]) for k, v in held.items())
    if isinstance(one, tuple):
        parts = cast("tuple[Any, ...]", one)
        return len(parts) == len(other) and all(map(_equal, parts, other))
    return bool(np.array_equal(one, other))

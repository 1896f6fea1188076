"""The values that a captured layer depends on besides its inputs, as Python code reads them.

A capture runs the layer's Python once, and eager Paddle reads numbers, modes, hooks and sublayers
at each call. So a change of one of them means another capture.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from msgspec.structs import replace

from pirkit.diag.errors import ArgumentError
from pirkit.frontend.generated_code import value_of
from pirkit.frontend.surroundings import Place, Surroundings
from pirkit.paddle.libpaddle import paddle


def _members(layer: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(layer))


_READ: Final = ("training", "_parameters", "_buffers", "_sub_layers")
_INTERNAL: Final = frozenset(
    n for n in _members(paddle.nn.Layer()) if n not in _READ and not n.endswith("_hooks")
)
"""Attributes that Paddle keeps in each layer for itself."""


class Reads:
    """What the forwards of a layer and its sublayers may read, as it is now."""

    def __init__(self, layer: Any) -> None:
        layers = [layer, *layer.sublayers()]
        roots = [each.forward for each in layers]
        held = Surroundings.of(partial(tuple, *roots), (paddle.Tensor,))
        own = _without_internal(held.places)
        held.places = []
        for each in layers:
            held.watch(type(each).__name__, _members(each))
        held.places = own + _without_internal(held.places)
        self._held, self._own = held, len(own)

    def settle(self) -> Callable[[], bool]:
        """To be called after the capture; gives a function that tells whether a value has changed.

        Attributes of layers that the capture has changed, such as a layout that Paddle chooses at
        the first call, count as they are now. Raises ArgumentError (PK0701) if an attribute holds a
        value of the program, where eager Paddle puts a tensor.
        """
        held = self._held
        for i, place in enumerate(held.places):
            now = value_of(place.expression, held.roots)
            if isinstance(now, paddle.pir.Value):
                raise ArgumentError(
                    f"the forward assigns a tensor to `{place.label}`",
                    help="make it a buffer, and write to it: `paddle.assign(value, self.buffer)`",
                )
            if i >= self._own:
                held.places[i] = replace(place, value=now)
        return held.checker()

    def change(self) -> str | None:
        """A description of what has changed."""
        return self._held.change(frozenset())


def _without_internal(places: list[Place]) -> list[Place]:
    return [p for p in places if _INTERNAL.isdisjoint(_words(p.label))]


def _words(label: str) -> list[str]:
    return label.replace(")", ".").replace("[", ".").split(".")

"""The variables of a branch or loop: cells that blocks share with the function around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CellType
from typing import Any, Final, cast

import numpy as np

from pirkit.dialect.build import Value
from pirkit.frontend import tree
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.frontend.static.sites import Site
from pirkit.runtime.tensor.dense import DenseTensor


class Unset:
    """The content of a variable without a value."""

    def __repr__(self) -> str:
        return "no value"


UNSET: Final = Unset()
State = dict[str, Any]


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf can be a value of a program."""
    return isinstance(leaf, Value | DenseTensor | np.ndarray | np.generic) or is_number(leaf)


class Variables:
    """The variables of a site in one call of the function: the cells of the closure of ``tell``."""

    def __init__(self, site: Site, tell: Callable[[], Any]) -> None:
        function = cast(Any, tell)
        found = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        by_name: Mapping[str, CellType] = dict(found)
        self.cells = {n: by_name[n] for n in site.names}

    def read(self) -> State:
        """Their values."""
        return {n: _content(c) for n, c in self.cells.items()}

    def write(self, state: Mapping[str, Any]) -> None:
        """Set all: those that are missing, or `UNSET`, have no value afterwards."""
        for name, cell in self.cells.items():
            value = state.get(name, UNSET)
            if value is not UNSET:
                cell.cell_contents = value
            elif _content(cell) is not UNSET:
                del cell.cell_contents


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNSET


def private(state: State, site: Site, owned: Callable[[Any], Any]) -> State:
    """Values for a block: containers that it may write are copies, arrays in them are recorded.

    ``owned`` makes an array a value of the program. Raises TraceError (PK0709) for an object that
    the block writes in place and that is no tree.
    """
    made: State = {}
    for name, value in state.items():
        is_written = name in site.mutated and value is not UNSET
        if is_written and not isinstance(value, np.ndarray | DenseTensor | Value):
            if tree.container_of(cast("type[Any]", type(value))) is None:
                raise site.refusal(
                    f"`{name}`, a {type(value).__name__}, is written in place at"
                    f" {site.file}:{site.mutated[name]} where a tensor decides",
                    "keep the state in tensors, lists, tuples and dicts",
                )
        change = owned if is_written else _same
        made[name] = value if value is UNSET else tree.mapped(change, value)
    return made


def _same(leaf: Any) -> Any:
    return leaf

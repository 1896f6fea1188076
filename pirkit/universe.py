"""The dialects and passes of pirkit for xDSL's own tools (``xdsl-opt``, ``xdsl-gui``).

The entry point ``xdsl.universe`` names `PIRKIT_UNIVERSE`. A pass whose name xDSL has already, such
as ``cse``, is offered as ``pirkit-cse``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from pirkit.dialect.text import dialects
from pirkit.passes.base import Pass
from pirkit.passes.manager import run_pipeline
from pirkit.passes.registry import PASSES, pass_named


def _dialect(index: int) -> Dialect:
    return dialects()[index]


def as_module_pass(cls: type[Pass], name: str) -> type[ModulePass]:
    """A pass as xDSL wants it: the same options, run and verified by our manager."""

    def apply(self: Any, ctx: Context, op: ModuleOp) -> None:
        del ctx
        options = {f.name: getattr(self, f.name) for f in cls.options()}
        run_pipeline(op, [cls(**options)])

    made = dataclasses.make_dataclass(
        cls.__name__,
        [(f.name, f.type, dataclasses.field(default=f.default)) for f in cls.options()],
        bases=(ModulePass,),
        namespace={"name": name, "apply": apply, "__doc__": cls.__doc__},
        frozen=True,
    )
    return cast("type[ModulePass]", made)


def _module_pass(name: str, shown: str) -> type[ModulePass]:
    return as_module_pass(pass_named(name), shown)


def _passes() -> dict[str, Callable[[], type[ModulePass]]]:
    taken = get_all_passes()
    offered = {(f"pirkit-{name}" if name in taken else name): name for name in PASSES}
    return {shown: partial(_module_pass, name, shown) for shown, name in offered.items()}


PIRKIT_UNIVERSE: Final = Universe(
    all_dialects={
        "pir": partial(_dialect, 0),
        "pd_op": partial(_dialect, 1),
        "map_expr": partial(_dialect, 2),
    },
    all_passes=_passes(),
)

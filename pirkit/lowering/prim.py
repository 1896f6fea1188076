"""The default pipelines, and the switch that decomposes operators before them.

``PIRKIT_PRIM=1`` enables it for everything that is compiled in the process, as ``PRIM=1`` does for
DeepXDE on Paddle; the values ``forward`` and ``backward`` select one half of a program (Paddle's
``FLAGS_prim_forward`` and ``FLAGS_prim_backward``). ``PIRKIT_PRIM_KEEP=softmax;matmul_grad`` lists
ops that are not decomposed (``FLAGS_prim_forward_blacklist``, ``FLAGS_prim_backward_blacklist``),
``PIRKIT_PRIM_ONLY`` the only ones that are. Arguments of a call take precedence over the
environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.diag.settings import chosen, setting
from pirkit.dialect.opdef import find
from pirkit.runtime.registry import CPU, KERNELS, REFERENCE

SWITCH: Final = "PIRKIT_PRIM"
KEEP: Final = "PIRKIT_PRIM_KEEP"
ONLY: Final = "PIRKIT_PRIM_ONLY"

_DECOMPOSE: Final = frozenset({"@default", "@storage"})

HALF_PIPELINES: Final = {"1": "", "forward": "backward=false", "backward": "forward=false"}
"""For each value of the switch, the option of `decompose`."""


def default_pipeline(backend: str, *, watched: bool = False) -> str:
    """The pipeline of a program that names none; on the CPU it fuses operators into native kernels.

    ``watched`` is for programs whose in-place writes must stay in place. Raises UsageError for an
    unknown backend.
    """
    if KERNELS.backend(backend).device != CPU or backend == REFERENCE:
        return "@simplify"
    return "@storage" if watched else "@default"


def with_prim(pipeline: str, prim: bool | None, keep: Sequence[str] | None) -> str:
    """The pipeline, preceded by a decomposition if the switch is on.

    ``keep`` are names of ops, of which the environment has others. Raises, whether or not the
    switch is on, ArgumentError (PK0701) if they name what is no op, and UsageError (PK0705) if the
    lists of the environment do, or if its switch is not one of 0, 1, forward and backward.
    """
    said = "1" if prim else "0" if prim is not None else chosen(SWITCH) or "0"
    lists = {"keep": _names(KEEP) if keep is None else _checked(keep), "only": _names(ONLY)}
    if said == "0":
        return pipeline
    given = [f"{name}={','.join(ops)}" for name, ops in lists.items() if ops]
    given += [HALF_PIPELINES[said]] if HALF_PIPELINES[said] else []
    options = f"{{{','.join(given)}}}" if given else ""
    first = f"functionalize,decompose{options}"  # in-place twins have no decomposition
    if pipeline in _DECOMPOSE:  # these would decompose again, also the ops in KEEP
        pipeline = "@simplify,fuse{profitable-only=true}"
    return f"{first},{pipeline}" if pipeline else first


def _is_op(name: object) -> bool:
    return isinstance(name, str) and any(map(find, (name, f"pd_op.{name}")))


def _checked(names: Sequence[str]) -> Sequence[str]:
    wrong = names if isinstance(names, str) else next((n for n in names if not _is_op(n)), None)
    if wrong is not None:
        what = "is a list of ops, not" if wrong is names else "names what is no op:"
        told = 'give a list of names, as `["softmax"]`; `pirkit-opt --list-ops` lists all'
        raise ArgumentError(f"`prim_keep` {what} {wrong!r}", help=told)
    return names


def _names(variable: str) -> list[str]:
    names = [name for name in (setting(variable) or "").split(";") if name]
    for name in names:
        if not _is_op(name):
            message = f"{variable} names {name!r}, which is no op"
            told = "names of ops stand between `;`, and `pirkit-opt --list-ops` lists all"
            raise UsageError(message, code="PK0705", help=told)
    return names

"""Which pipeline a program gets that names none, and the switch that decomposes operators first.

``PIRKIT_PRIM=1`` turns it on for everything that is compiled in the process, as ``PRIM=1`` does for
DeepXDE on Paddle; ``forward`` or ``backward`` in the place of 1 for one half of a program (Paddle's
``FLAGS_prim_forward`` and ``FLAGS_prim_backward``). ``PIRKIT_PRIM_KEEP=softmax;matmul_grad`` keeps
those ops whole (``FLAGS_prim_forward_blacklist`` and ``FLAGS_prim_backward_blacklist``),
``PIRKIT_PRIM_ONLY`` all others. Arguments of a call go before the environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from pirkit.diag.errors import UsageError
from pirkit.runtime.registry import CPU, KERNELS, REFERENCE

SWITCH: Final = "PIRKIT_PRIM"
KEEP: Final = "PIRKIT_PRIM_KEEP"
ONLY: Final = "PIRKIT_PRIM_ONLY"

_DECOMPOSE: Final = frozenset({"@default", "@storage"})

HALF_PIPELINES: Final = {"1": "", "forward": "backward=false", "backward": "forward=false"}
"""What the switch says, and the option of `decompose` for it."""


def default_pipeline(backend: str, *, watched: bool = False) -> str:
    """What a program gets that names no pipeline: kernels of fused operators where they are native.

    That is on the CPU. ``watched`` is for those whose writes in place have to stay such. Raises
    UsageError for an unknown backend.
    """
    if KERNELS.backend(backend).device != CPU or backend == REFERENCE:
        return "@simplify"
    return "@storage" if watched else "@default"


def with_prim(pipeline: str, prim: bool | None, keep: Sequence[str] | None) -> str:
    """The pipeline, behind a decomposition if it is asked for.

    Raises UsageError if the environment says something else than 0, 1, forward or backward.
    """
    said = "1" if prim else "0" if prim is not None else os.environ.get(SWITCH) or "0"
    if said == "0":
        return pipeline
    if said not in HALF_PIPELINES:
        raise UsageError(f"{SWITCH} is {said!r}", help=f"it is 0, {', '.join(HALF_PIPELINES)}")
    lists = {"keep": _names(KEEP) if keep is None else keep, "only": _names(ONLY)}
    given = [f"{name}={','.join(ops)}" for name, ops in lists.items() if ops]
    given += [HALF_PIPELINES[said]] if HALF_PIPELINES[said] else []
    options = f"{{{','.join(given)}}}" if given else ""
    first = f"functionalize,decompose{options}"  # a twin that writes cannot be decomposed
    if pipeline in _DECOMPOSE:  # what is to be kept whole stays so
        pipeline = "@simplify,fuse{profitable-only=true}"
    return f"{first},{pipeline}" if pipeline else first


def _names(variable: str) -> list[str]:
    return [name for name in os.environ.get(variable, "").split(";") if name]

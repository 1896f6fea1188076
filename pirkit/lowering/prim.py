"""The switch that takes operators apart before anything else happens to a program.

``PIRKIT_PRIM=1`` turns it on for everything that is compiled in the process, as ``PRIM=1`` does for
DeepXDE on Paddle; ``PIRKIT_PRIM_KEEP=softmax;layer_norm`` keeps those ops whole (Paddle's
``FLAGS_prim_forward_blacklist``). Arguments of a call go before the environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from pirkit.diag.errors import UsageError

SWITCH: Final = "PIRKIT_PRIM"
KEEP: Final = "PIRKIT_PRIM_KEEP"


def with_prim(pipeline: str, prim: bool | None, keep: Sequence[str] | None) -> str:
    """The pipeline, behind a decomposition if it is asked for.

    Raises UsageError if the environment says something else than 0 or 1.
    """
    if prim is None:
        said = os.environ.get(SWITCH, "0")
        if said not in ("0", "1", ""):
            raise UsageError(f"{SWITCH} is {said!r}", help="it is 0 or 1")
        prim = said == "1"
    if not prim:
        return pipeline
    if keep is None:
        keep = [name for name in os.environ.get(KEEP, "").split(";") if name]
    options = f"{{keep={','.join(keep)}}}" if keep else ""
    first = f"functionalize,decompose{options}"  # a twin that writes cannot be taken apart
    return f"{first},{pipeline}" if pipeline else first

"""How an attempt ended: with values, refused with a code, or as it must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import InternalError, PassError, PirkitError

BROKEN: Final = "PK0802"
"""The code of passes that break programs."""


def attempt(run: Callable[[], Any]) -> tuple[str, Any]:
    """``values`` and what it gives, or ``refused`` or ``uncoded`` and the error."""
    try:
        with np.errstate(all="ignore"):
            return "values", run()
    except InternalError as error:
        return "uncoded", error
    except PassError as error:  # which may tell of any error in a pass
        is_coded = isinstance(error.__cause__, PirkitError | None) and error.code != BROKEN
        return "refused" if is_coded else "uncoded", error
    except PirkitError as error:
        return "refused", error
    except Exception as error:
        return "uncoded", error

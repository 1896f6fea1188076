"""How messages show values that users gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_MOST: Final = 200


def shown(value: Any, spelled: Callable[[Any], str] = repr) -> str:
    """A value as messages show it: cut, and its class alone where Python cannot spell it.

    Python spells no integer of more than 4,300 digits, and no list that is nested too deep.
    """
    try:
        text = spelled(value)
    except (ValueError, RecursionError):
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _MOST else f"{text[: _MOST - 4]} ..."

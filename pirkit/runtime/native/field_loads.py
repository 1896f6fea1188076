"""The shorthand ``%x = field TYPE, STEP %base, INDEX`` in templates of LLVM IR.

It loads a value of ``TYPE`` that is ``INDEX`` elements of type ``STEP`` after an address.
"""

from __future__ import annotations

import re
from typing import Final

_FIELD: Final = re.compile(r"^  %([\w.]+) = field (\w+), (\w+) (%[\w.]+), (\S+)$", re.MULTILINE)
_BYTES: Final = {"i8": 1, "i32": 4}


def with_field_loads(text: str) -> str:
    """The text with each `field` as an address and a load."""

    def expanded(found: re.Match[str]) -> str:
        name, kind, step, base, index = found.groups()
        address = f"  %{name}_at = getelementptr {step}, ptr {base}, i64 {index}"
        return f"{address}\n  %{name} = load {kind}, ptr %{name}_at, align {_BYTES.get(kind, 8)}"

    return _FIELD.sub(expanded, text)

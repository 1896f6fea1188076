"""Named pipelines, and which passes should come after which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_DEFAULT: Final = (
    "inline-vec,absorb-attributes,constant-fold,absorb-attributes,canonicalize,cse,dce"
)

PIPELINES: Final[dict[str, str]] = {
    "default": _DEFAULT,
    "fused": f"{_DEFAULT},functionalize,decompose,constant-fold,canonicalize,cse,dce,fuse",
}
"""What ``@name`` stands for. `@default` leaves the results of every program unchanged; `@fused`
takes operators apart and puts them together into kernels, which run in native code."""


@dataclass(frozen=True, slots=True)
class OrderRule:
    """If both passes occur, ``second`` must stand behind the last ``first``.

    A strict rule makes other orders an error, one that is not strict only a remark.
    """

    first: str
    second: str
    why: str
    strict: bool = False

    def holds(self, names: Sequence[str]) -> bool:
        if self.first not in names or self.second not in names:
            return True
        return names[::-1].index(self.second) < names[::-1].index(self.first)

    def __str__(self) -> str:
        return f"`{self.second}` should come after `{self.first}`: {self.why}"


ORDER: Final = (
    OrderRule("functionalize", "decompose", "an operation that writes in place is not taken apart"),
    OrderRule("decompose", "fuse", "an operation that is whole is in no kernel with others"),
    OrderRule("functionalize", "fuse", "programs that write in place are not fused"),
    OrderRule("infer-meta", "constant-fold", "sizes fold once they are known"),
    OrderRule("inline-vec", "absorb-attributes", "a constant may arrive through a list"),
    OrderRule("absorb-attributes", "dce", "absorbed constants are left without users"),
    OrderRule("canonicalize", "cse", "equal operations are found once they look equal"),
    OrderRule("constant-fold", "dce", "folded operands are left without users"),
    OrderRule("canonicalize", "dce", "what a law passes by is left without users"),
)

"""Named pipelines, and the rules for the order of passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_SIMPLIFY: Final = (
    "inline-vec,absorb-attributes,constant-fold,absorb-attributes,canonicalize,cse,dce"
)
_DERIVATIVES: Final = "taylor,reassociate,expand-gradients"
"""The passes that a recorded program needs first; they do not change other programs."""

EXPANSION: Final = f"{_DERIVATIVES}{{last=false}}"
"""The same for a program of which further derivatives will be taken."""

_PARTS: Final = "constant-fold,slice-gathers,cse,dce"
"""Cleanup of decomposed ops; canonicalize is left out because it rarely applies to them."""

_FUSE: Final = (
    f"decompose{{profitable-only=true}},split-complex,{_PARTS},fuse{{profitable-only=true}}"
)

PIPELINES: Final[dict[str, str]] = {
    "default": f"{_DERIVATIVES},{_SIMPLIFY},functionalize,{_FUSE}",
    "storage": f"{_DERIVATIVES},{_SIMPLIFY},{_FUSE}",
    "simplify": f"{_DERIVATIVES},{_SIMPLIFY}",
    "fused": (
        f"{_DERIVATIVES},{_SIMPLIFY},functionalize,decompose,split-complex,constant-fold,"
        "slice-gathers,canonicalize,cse,dce,fuse"
    ),
}
"""The passes of each named pipeline. All expand the derivatives that a traced function requests.
`@simplify` leaves the results of every program unchanged, bit by bit.
`@default` also fuses operators into kernels, which run in native code, decomposes operators where
that pays, and splits complex numbers into real ones. `@storage` is the same for programs whose
storage others see: operators that write in place still do, and nothing after them is fused.
`@fused` decomposes all operators."""


class OrderRule(Struct, frozen=True):
    """If both passes occur, ``second`` must follow the last ``first``.

    Violating a strict rule is an error; violating one that is not strict is only a remark.
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
    OrderRule("functionalize", "decompose", "an operation that writes in place is not decomposed"),
    OrderRule(
        "decompose", "fuse", "an operation that is not decomposed is in no kernel with others"
    ),
    OrderRule("decompose", "split-complex", "only primitive operations are split into parts"),
    OrderRule("autodiff", "fuse", "a kernel has no derivative; use `@simplify` before"),
    OrderRule("split", "fuse", "a kernel has no derivative; use `@simplify` before"),
    OrderRule("functionalize", "fuse", "programs that write in place are not fused"),
    OrderRule("infer-meta", "constant-fold", "sizes fold once they are known"),
    OrderRule("inline-vec", "absorb-attributes", "a constant may arrive through a list"),
    OrderRule("absorb-attributes", "dce", "absorbed constants are left without users"),
    OrderRule("canonicalize", "cse", "equal operations are found once they look equal"),
    OrderRule("constant-fold", "dce", "folded operands are left without users"),
    OrderRule("canonicalize", "dce", "what a rewrite bypasses is left without users"),
)

"""The stable codes: what each means in a few words, and which exception carries it.

Every code has a page of the same name in ``pages/``, which ``pirkit explain`` prints. A code is
never reused for another meaning, and a released one is never removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pirkit.diag.errors import (
    ArgumentError,
    ArtifactError,
    DynamicShapeError,
    InputError,
    InternalError,
    LimitError,
    MismatchError,
    NotNativeError,
    ParseError,
    PassError,
    PirkitError,
    RuntimeFault,
    TraceError,
    UnsupportedError,
    UsageError,
    VerifyError,
)


@dataclass(frozen=True, slots=True)
class Code:
    """A stable code, its title, and the exception class that carries it."""

    code: str
    title: str
    error: type[PirkitError]

    def page(self) -> str:
        """The page of the code, in Markdown."""
        page = Path(__file__).with_name("pages") / f"{self.code}.md"
        return page.read_text(encoding="utf-8")


_TITLES: Final[Mapping[type[PirkitError], Mapping[str, str]]] = {
    InputError: {"PK0100": "input refused"},
    ParseError: {
        "PK0101": "syntax error",
        "PK0102": "unexpected end of input",
        "PK0103": "undefined value",
        "PK0104": "value defined twice",
        "PK0105": "malformed type",
        "PK0106": "malformed attribute",
        "PK0107": "text in a wrong encoding",
    },
    VerifyError: {
        "PK0200": "program breaks a rule of its dialect",
        "PK0201": "value used where it is not defined yet",
        "PK0202": "result type differs from the inferred one",
        "PK0203": "constraint of an op does not hold",
        "PK0204": "wrong number of operands or results",
        "PK0205": "attribute missing, unknown or of a wrong type",
        "PK0206": "terminator missing or misplaced",
        "PK0207": "symbol or name defined twice",
        "PK0208": "illegal in-place write",
        "PK0209": "wrong regions or blocks",
    },
    LimitError: {
        "PK0300": "limit exceeded",
        "PK0301": "nested too deeply",
        "PK0302": "input file too large",
        "PK0303": "too many operations or attributes",
        "PK0304": "literal too long or integer type too wide",
        "PK0305": "too many dimensions, or one too large",
        "PK0306": "constant with too many elements",
        "PK0307": "aliases expand to too much text",
    },
    UnsupportedError: {
        "PK0400": "not supported",
        "PK0401": "unknown op",
        "PK0402": "op without a needed rule",
        "PK0403": "unsupported form of an op",
        "PK0404": "unknown dialect",
        "PK0405": "unknown file format",
        "PK0409": "op of torch without a rule",
        "PK0410": "operator of ONNX without a rule",
        "PK0411": "operation of StableHLO without a rule",
    },
    DynamicShapeError: {"PK0406": "known only when the program runs"},
    NotNativeError: {"PK0407": "not one native call"},
    ArtifactError: {
        "PK0500": "file refused",
        "PK0501": "malformed JSON",
        "PK0502": "JSON of an unexpected structure",
        "PK0503": "wrong magic number or version",
        "PK0504": "parameter file truncated or corrupt",
        "PK0505": "value id dangling or defined twice",
        "PK0506": "file missing or unreadable",
        "PK0507": "malformed npy or npz file",
    },
    MismatchError: {
        "PK0600": "result differs from the expected one",
        "PK0601": "numbers differ",
        "PK0602": "case folder incomplete",
        "PK0603": "diagnostics differ from the expected ones",
    },
    UsageError: {
        "PK0700": "command used wrongly",
        "PK0702": "unknown pass",
        "PK0703": "bad option of a pass",
        "PK0704": "passes in an impossible order",
        "PK0705": "bad value of an environment variable",
        "PK0710": "plug-in that fails",
    },
    ArgumentError: {"PK0701": "wrong arguments"},
    TraceError: {
        "PK0706": "traced value where Python needs a number",
        "PK0707": "traced value used outside its trace",
        "PK0708": "variable of two types where a tensor decides",
        "PK0709": "Python that cannot be a part of a program",
    },
    PassError: {
        "PK0800": "error in a pass",
        "PK0801": "pass failed",
        "PK0802": "pass broke the program",
        "PK0803": "pass does not come to an end",
        "PK0804": "pass changed the numbers",
        "PK0805": "operation outside the primitive set",
        "PK0806": "content overwritten before the backward",
        "PK0807": "budget too small",
    },
    RuntimeFault: {
        "PK0900": "error while running",
        "PK0901": "kernel refused its inputs",
        "PK0902": "input missing",
        "PK0903": "input of a wrong shape or dtype",
        "PK0904": "value read before it was written",
        "PK0905": "loop ran over its budget",
        "PK0906": "used after its release",
        "PK0907": "value overwritten before the backward",
        "PK0908": "written variable shares memory with another",
        "PK0909": "kernel computes wrong numbers",
        "PK0910": "native code leaves its buffer",
    },
    InternalError: {"PK9000": "bug in pirkit"},
}

CODES: Final[Mapping[str, Code]] = {
    code: Code(code, title, error)
    for code, title, error in sorted(
        (code, title, error) for error, titles in _TITLES.items() for code, title in titles.items()
    )
}
"""Every code, in ascending order."""

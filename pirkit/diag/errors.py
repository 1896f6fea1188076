"""The exception tree. Every error that a user can cause is one of these.

::

    PirkitError
    ├── InputError            the program, its weights or its inputs are wrong      exit 1
    │   ├── ParseError        text that is not IR
    │   ├── VerifyError       IR that breaks a rule of the dialect
    │   ├── LimitError        larger than a limit of pirkit.diag.limits
    │   ├── UnsupportedError  legal, but pirkit has no rule for it
    │   │   ├── DynamicShapeError  known only when the program runs
    │   │   └── NotNativeError     not one native call, where that is required
    │   ├── ArtifactError     a damaged or foreign file (JSON model, weights, plan)
    │   └── MismatchError     numbers that differ from the expected ones
    ├── UsageError            wrong flags or arguments                              exit 2
    │   ├── ArgumentError     an argument of a call, or of a command, that does not fit
    │   │   ├── CallError     a call that Python refuses with a TypeError
    │   │   └── SubscriptError  a subscript of a tensor that names no element
    │   └── TraceError        a traced value used where Python needs a number
    ├── PassError             a pass failed; names pass, op and span                exit 3
    ├── RuntimeFault          a kernel refused its inputs at run time               exit 1
    └── InternalError         a bug of pirkit                                       exit 70

``ConstraintError`` is what a rule of the op table raises; the verifier and the executor turn it
into a VerifyError or a RuntimeFault that knows the op and its location.
"""

from __future__ import annotations

from typing import ClassVar

from pirkit.diag.advice import ADVICE
from pirkit.diag.span import Span


class PirkitError(Exception):
    """Base of all errors raised by pirkit.

    ``code`` is stable (``pirkit explain PK0103`` prints its page), ``message`` is one line that
    stands alone, ``span`` the place it is about, ``notes`` further facts, ``help`` what to do.
    """

    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "PK0000"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        span: Span | None = None,
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.span = span
        self.notes = notes
        self.help = help or ADVICE.get(self.code)
        self._added: list[str] = []

    def add_note(self, note: str, /) -> None:
        """Add a line below the error in tracebacks."""
        self._added.append(note)

    @property
    def __notes__(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lines that tracebacks show below the error: its notes, the remedy, and its page."""
        shown = [f"note: {note}" for note in self.notes]
        shown += [f"help: {self.help}"] if self.help else []
        return [*shown, f"`pirkit explain {self.code}` prints its page", *self._added]

    def __str__(self) -> str:
        where = f" ({self.span})" if self.span else ""
        return f"error[{self.code}]: {self.message}{where}"


class InputError(PirkitError):
    """The program, its weights or its inputs are wrong."""

    default_code = "PK0100"


class ParseError(InputError):
    """Text that is not IR."""

    default_code = "PK0101"


class VerifyError(InputError):
    """IR that breaks a rule of its dialect."""

    default_code = "PK0200"


class LimitError(InputError):
    """Something larger than a limit of ``pirkit.diag.limits``; the message names the knob."""

    default_code = "PK0300"


class UnsupportedError(InputError):
    """A legal program for which pirkit has no rule."""

    default_code = "PK0400"


class DynamicShapeError(UnsupportedError):
    """A rule needs an attribute or a size that is known only at run time."""

    default_code = "PK0406"


class NotNativeError(UnsupportedError):
    """A program that is not one native call, where that is required."""

    default_code = "PK0407"


class ArtifactError(InputError):
    """A file that is damaged, missing or of a foreign kind."""

    default_code = "PK0500"


class MismatchError(InputError):
    """Numbers that differ from the expected ones, or a case that lacks them."""

    default_code = "PK0600"


class UsageError(PirkitError):
    """Flags or arguments that make no sense."""

    exit_code = 2
    default_code = "PK0700"


class ArgumentError(UsageError):
    """An argument of a call from Python, or of a command, that does not fit."""

    default_code = "PK0701"


class CallError(ArgumentError, TypeError):
    """A call with arguments that a function does not take; a TypeError, as in Python."""


class SubscriptError(ArgumentError, IndexError):
    """A subscript that a tensor does not have; an IndexError, as in Python."""


class TraceError(UsageError, TypeError):
    """A value of a function that is being traced, used as only a computed one can be.

    It is a TypeError as well, which is what Python's protocols expect of an object without them.
    """

    default_code = "PK0706"


class MissingAttributeError(TraceError, AttributeError):
    """An attribute that traced values do not have; an AttributeError, so that `hasattr` works."""


class PassError(PirkitError):
    """A pass that failed; it names the pass, the op and its place."""

    exit_code = 3
    default_code = "PK0800"


class RuntimeFault(PirkitError):
    """A running program that met inputs it refuses, or its budget."""

    default_code = "PK0900"


class InternalError(PirkitError):
    """A bug of pirkit."""

    exit_code = 70
    default_code = "PK9000"


class ConstraintError(PirkitError):
    """A numbered constraint of an op (``C1``, ``C2``... in its docstring) does not hold."""

    default_code = "PK0203"

    def __init__(self, constraint: str, message: str, *, help: str | None = None) -> None:
        super().__init__(message, help=help)
        self.constraint = constraint

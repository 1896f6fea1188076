"""The builder behind traced values: it knows the user's line and when its trace has ended."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import count
from typing import Any, Final

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue

from pirkit.diag.errors import ConstraintError, PirkitError, TraceError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.operation import PirOp, ProgramOp, span_of
from pirkit.frontend.known_values import KnownValues
from pirkit.frontend.user_line import user_location, user_span

_SERIALS: Final = count()


class OuterValueError(TraceError):
    """A value of an enclosing trace (PK0707): the call is recorded into the outer program."""

    outer: Recording


class Recording(Builder):
    """A builder whose operations carry the user's line, until the traced function has returned."""

    def __init__(self, program: ProgramOp) -> None:
        super().__init__(program.block)
        self.program = program
        self.is_dynamic = True
        """Whether the traced function is still running, so that operations may be added."""
        self.serial = next(_SERIALS)
        """Nesting level: a trace inside another one has a higher number."""
        self.known: KnownValues | None = None
        """Concrete numbers of values; None if the arguments are not available while tracing."""
        self.undecided: TraceError | None = None
        """The error for an unknown truth value that Python code requested."""
        self.written: dict[SSAValue, str] = {}
        """Values that an op has written in place, with its name: they are not read any more."""

    def insert(self, op: PirOp) -> PirOp:
        """Emit an op at the user's line. Raises TraceError if the trace is over."""
        if not self.is_dynamic:
            raise self.leaked()
        if self.location is None:
            op.location = user_location()
        return super().insert(op)

    def place(self) -> LocationAttr:
        """The user's line. Raises TraceError if the trace is over."""
        if not self.is_dynamic:
            raise self.leaked()
        return self.location or user_location()

    def emit(
        self,
        definition: OpDef,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        wanted: Container[str] | None = None,
    ) -> Any:
        """Emit an op; errors carry the user's line."""
        try:
            return super().emit(definition, operands, attrs, wanted)
        except PirkitError as error:
            if error.span is None:
                which = ""
                if isinstance(error, ConstraintError):
                    which = f"constraint {error.constraint} of "
                    if definition.name not in error.message:
                        error.message = f"`{definition.name}`: {error.message}"
                error.span = user_span()
                error.notes = (*error.notes, f"{which}`{definition.name}`")
            raise

    def own(self, value: Value) -> Value:
        """A value of this program. Raises TraceError for one of another program, or overwritten."""
        if value.b is self:
            if value.ssa in self.written:
                raise overwritten(self.written[value.ssa])
            if not self.is_dynamic:
                raise self.leaked(value)
            return value
        other = value.b
        if isinstance(other, Recording) and other.is_dynamic and self.is_dynamic:
            error = OuterValueError(
                "a value of one traced function is used in another",
                code="PK0707",
                span=user_span(),
                help="return it, or pass it as an argument",
            )
            error.outer = min(self, other, key=lambda b: b.serial)
            raise error
        raise (other if isinstance(other, Recording) else self).leaked(value)

    def require_decided(self) -> None:
        """Raise the error for an unknown truth value that an ``except`` clause of the user caught.

        What was recorded after it is wrong: the function does that only while it is traced.
        """
        if self.undecided is not None:
            raise self.undecided

    def leaked(self, value: Value | None = None) -> TraceError:
        """The error for a value whose trace has ended."""
        owner = value.ssa.owner if value is not None else None
        made = span_of(owner) if isinstance(owner, PirOp) else None
        return TraceError(
            "a traced value is used after its function returned, or in another traced function",
            code="PK0707",
            span=user_span(),
            notes=(f"it was made at {made}",) if made else (),
            help="return it from the function (`has_aux=True`), or pass it as an argument",
        )


def overwritten(writer: str) -> TraceError:
    """The error for a read of what an op has written in place.

    Traced values do not share storage as numpy's arrays do: `x * 1` is `x`, and a reshaped value is
    a copy. So what the op wrote is read from its result only.
    """
    return TraceError(
        f"a traced value is read after `{writer}` has written it in place",
        code="PK0706",
        span=user_span(),
        help="read the result of the op: `y = ops.tanh_(x)`, and from then on `y`",
    )

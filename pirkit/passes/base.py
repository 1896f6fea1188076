"""The interface of a pass, and what it may count and report while it runs.

::

    @dataclass(frozen=True)
    class DcePass(Pass):
        '''Remove operations whose results nobody uses.'''

        name = "dce"
        stats = Stats(removed="operations removed")

        def run(self, ctx: PassContext, module: ModuleOp) -> None: ...

Fields of the dataclass are the options of the pass, made with `option`.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, TypeVar, cast

from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pirkit.diag.errors import ArgumentError, PassError, UsageError
from pirkit.diag.limits import current_limits
from pirkit.diag.span import Span
from pirkit.dialect.operation import ProgramOp, span_of

RemarkKind = Literal["passed", "missed", "analysis"]
RewriteListener = Callable[[str, Operation], None]
"""Called with the rule and the operation before each rewrite."""
O = TypeVar("O", bound=Operation)  # noqa: E741
A = TypeVar("A")
R = TypeVar("R")

REMEMBERED: Final = 100
"""How many of the latest rewrites are examined to name the rules that keep firing."""


class Remark(Struct, frozen=True):
    """Something a pass did (``passed``), could not do (``missed``) or found out (``analysis``)."""

    kind: RemarkKind
    pass_name: str
    message: str
    span: Span | None = None

    def __str__(self) -> str:
        where = f" ({self.span})" if self.span else ""
        return f"{self.kind}: {self.pass_name}: {self.message}{where}"


class EnoughRewrites(Exception):
    """Stops a pass after its allowed number of rewrites; the manager catches it."""


class Stats(dict[str, str]):
    """The counters of a pass: name -> meaning."""


def option(default: Any, help: str) -> Any:
    """Declare a field of a pass that users may set in a pipeline string."""
    return dataclasses.field(default=default, metadata={"help": help})


def require_names(known: Iterable[str], names: Iterable[str], what: str) -> None:
    """Raise UsageError (PK0703) for a name in an option that does not occur in the program."""
    held = list(known)
    for name in names:
        if name not in held:
            near = difflib.get_close_matches(name, held, n=1)
            raise UsageError(
                f"the program has no {what} `{name}`",
                code="PK0703",
                help=f"did you mean `{near[0]}`?"
                if near
                else f"it has {', '.join(held) or 'none'}",
            )


class PassContext(Struct):
    """The state of one run of a pass: its counters, remarks and limits."""

    pass_name: str
    ops: int
    """Number of operations of the module before the pass; the rewrite limit is relative to it."""
    stats: Counter[str] = field(default_factory=Counter[str])
    remarks: list[Remark] = field(default_factory=list[Remark])
    current: Operation | None = None
    """The operation that the pass works on, for diagnostics."""
    rewrites: int = 0
    stop_after: int | None = None
    """Number of rewrites after which the pass stops; None for no limit."""
    listeners: tuple[RewriteListener, ...] = ()
    observers: tuple[Callable[[object], None], ...] = ()
    """Called with what the pass reports by `decided`."""
    latest: deque[str] = field(default_factory=lambda: deque[str](maxlen=REMEMBERED))
    """The rules of the latest rewrites."""
    analyses: dict[Any, tuple[int, Any]] = field(default_factory=dict[Any, tuple[int, Any]])
    """Results of analyses, each with the number of rewrites after which it was computed."""

    def analysis(self, compute: Callable[[A], R], subject: A) -> R:
        """``compute(subject)`` of a program or block, cached until the module is rewritten."""
        key = compute, subject
        held = self.analyses.get(key)
        if held is None or held[0] != self.rewrites:
            held = self.analyses[key] = self.rewrites, compute(subject)
        return held[1]

    def each(self, ops: Iterable[O]) -> Iterator[O]:
        """Iterate over operations and record each as the current one."""
        for op in ops:
            self.current = op
            yield op
        self.current = None

    def programs(self, module: ModuleOp) -> Iterator[ProgramOp]:
        """The programs of the module."""
        for op in module.ops:
            if isinstance(op, ProgramOp):
                yield op

    def count(self, stat: str, amount: int = 1) -> None:
        """Add to a counter that the pass declares."""
        self.stats[stat] += amount

    def remark(self, kind: RemarkKind, message: str, op: Operation | None = None) -> None:
        """Report something to the user; `--remarks` shows it."""
        span = span_of(op) if op is not None else None
        self.remarks.append(Remark(kind, self.pass_name, message, span))

    def decided(self, decision: object) -> None:
        """Tell the observers a decision, such as a plan of fusion; they must not change it."""
        for observe in self.observers:
            observe(decision)

    def rewrote(self, rule: str, op: Operation) -> None:
        """Record a rewrite that is about to happen; call this before the program is changed.

        Raises PassError (PK0803), naming the rules that keep firing, when there are more than the
        limit ``rewrites_per_op`` allows for the size of the module, and EnoughRewrites when
        ``stop_after`` of them have happened.
        """
        if self.rewrites == self.stop_after:
            raise EnoughRewrites
        self.rewrites += 1
        for listener in self.listeners:
            listener(rule, op)
        self.latest.append(rule)
        limit = current_limits().rewrites_per_op * max(self.ops, 1)
        if self.rewrites <= limit:
            return
        firing = sorted(name for name, _ in Counter(self.latest).most_common(2))
        rules = " and ".join(f"`{name}`" for name in firing)
        raise PassError(
            f"pass `{self.pass_name}` does not end: {rules} keep firing",
            code="PK0803",
            span=span_of(op),
            notes=(f"{self.rewrites:,} rewrites in a module of {self.ops:,} operations",),
            help="remove one of the two rules, or give one a condition under which it rests",
        )


Places = tuple[tuple[str, Span], ...]
"""Words of a pipeline string, each with its span."""


class Pass(ABC):
    """A transformation of a module; derived classes with options are frozen dataclasses.

    A pass takes a verified module and leaves a verified one with the same results. It does not
    print, read the environment or depend on the iteration order of a set.
    """

    name: ClassVar[str]
    stats: ClassVar[Mapping[str, str]] = Stats()
    reports_rewrites: ClassVar[bool] = False
    """Whether it calls `PassContext.rewrote` before each change, so that cached analyses stay valid
    after a run without rewrites."""
    places: Places = ()
    """Where a pipeline string has the values of the options and, last, the name of the pass; empty
    for a pass that was made in Python."""

    @abstractmethod
    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        """Transform the module."""

    @classmethod
    def options(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The options, as fields with ``help`` in their metadata."""
        return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()

    @classmethod
    def summary(cls) -> str:
        """The first line of the manual page."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((type(self), str(self)))

    def __str__(self) -> str:
        """The pass in pipeline syntax, with only the options that differ from their defaults."""
        held = [(f, getattr(self, f.name)) for f in self.options()]
        shown = [
            f"{f.name.replace('_', '-')}={_spelled(value)}"
            for f, value in held
            if value != f.default
        ]
        return f"{self.name}{{{','.join(shown)}}}" if shown else self.name


PipelineItem = str | Pass | type[Pass]
"""An element of a pipeline given as a list; a class stands for the pass with its defaults."""


def require_name(cls: type[Pass]) -> None:
    """Raise ArgumentError (PK0701) for a class of passes without a name."""
    if not isinstance(getattr(cls, "name", None), str):
        raise ArgumentError(
            f"the pass {cls.__qualname__} has no name",
            help=f'`name = "{cls.__qualname__.lower()}"` in its class gives it one',
        )


_WORD: Final = re.compile(r'[^\s,{}="]+')
"""What needs no quotes in a pipeline string."""


def _spelled(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_spelled, cast("tuple[Any, ...]", value)))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _WORD.fullmatch(text) else f'"{text}"'

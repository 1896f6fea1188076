"""Runs pipelines: order, verification, timing, printing and the report of a failed pass."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO

from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from pirkit.diag.errors import (
    ArgumentError,
    LimitError,
    PassError,
    PirkitError,
    RuntimeFault,
    UsageError,
    VerifyError,
)
from pirkit.diag.gc_pause import uncollected
from pirkit.dialect.operation import bodies, span_of
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.passes.base import (
    EnoughRewrites,
    Pass,
    PassContext,
    PipelineItem,
    Remark,
    RewriteListener,
)
from pirkit.passes.pipeline import order_remarks, passes_of, place_of
from pirkit.passes.registry import pass_named

Watcher = Callable[[str, Pass, ModuleOp], None]
"""Called with ``before`` or ``after``, the pass and the module."""


class Timing(Struct, frozen=True):
    """How long one pass ran and how long the module took to verify after it, in seconds.

    ``start`` is when it began, by ``time.perf_counter``; ``rewrites`` is how many it made.
    """

    pass_name: str
    seconds: float
    verify_seconds: float
    start: float = 0.0
    rewrites: int = 0


class PipelineResult(Struct, frozen=True):
    """The outcome of a pipeline: times in order, counters by pass, remarks in order."""

    timings: tuple[Timing, ...]
    stats: Mapping[str, Mapping[str, int]]
    remarks: tuple[Remark, ...]


def run_pipeline(
    module: ModuleOp,
    pipeline: str | Sequence[PipelineItem],
    *,
    verify: bool = True,
    verify_each: bool = True,
    verified: bool = False,
    print_ir: Sequence[str] = (),
    stream: TextIO | None = None,
    watchers: Sequence[Watcher] = (),
    listeners: Sequence[RewriteListener] = (),
    observers: Sequence[Callable[[object], None]] = (),
    stop_after: int | None = None,
) -> PipelineResult:
    """Run the passes of a pipeline on a module, in place.

    ``verify`` checks the module before the first pass, unless it is ``verified`` already, and after
    each one, or without ``verify_each`` only after the last. ``print_ir`` prints the module to
    ``stream``: ``after-change``, ``all``, ``before:PASS``, ``after:PASS``. ``watchers`` are called
    before and after each pass, ``listeners`` before each rewrite, ``observers`` with the decisions
    that passes report (`PassContext.decided`), such as plans of fusion. ``stop_after`` stops each
    pass after that many rewrites.

    Raises UsageError for a bad pipeline or request, VerifyError for an invalid module, and
    PassError: PK0801 if a pass fails, PK0802 if it leaves an invalid module, PK0803 if it does not
    terminate. RuntimeFault (PK0901) where memory is short.
    """
    passes = passes_of(pipeline)
    watching = (*watchers, *_printers(print_ir, stream))
    run = _Run(
        module, verify and verify_each, watching, tuple(listeners), tuple(observers), stop_after
    )
    for rule in order_remarks(passes):
        run.remarks.append(Remark("analysis", rule.second, str(rule)))
    if verify and not verified:
        verify_module(module)
    for pass_ in passes:
        run.apply(pass_)
    if verify and not verify_each:
        verify_module(module)
    return PipelineResult(
        tuple(run.timings),
        {name: dict(counts) for name, counts in run.stats.items()},
        tuple(run.remarks),
    )


class _Run(Struct):
    module: ModuleOp
    verify: bool
    watchers: Sequence[Watcher]
    listeners: tuple[RewriteListener, ...]
    observers: tuple[Callable[[object], None], ...]
    stop_after: int | None
    timings: list[Timing] = field(default_factory=list[Timing])
    stats: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    remarks: list[Remark] = field(default_factory=list[Remark])
    analyses: dict[Any, tuple[int, Any]] = field(default_factory=dict[Any, tuple[int, Any]])
    """Of the module as it is now (see `PassContext.analysis`)."""

    @uncollected
    def apply(self, pass_: Pass) -> None:
        self.notify("before", pass_)
        ctx = PassContext(pass_.name, _size(self.module))
        ctx.listeners, ctx.stop_after = self.listeners, self.stop_after
        ctx.observers, ctx.analyses = self.observers, self.analyses
        started = time.perf_counter()
        with _Naming(ctx, pass_):
            pass_.run(ctx, self.module)
        ended = time.perf_counter()
        is_known = pass_.reports_rewrites
        self.analyses = {
            k: (0, v) for k, (n, v) in ctx.analyses.items() if is_known and n == ctx.rewrites
        }
        if self.verify:
            self.check(pass_)
        verified = time.perf_counter() - ended
        timing = Timing(pass_.name, ended - started, verified, started, ctx.rewrites)
        self.timings.append(timing)
        counts = self.stats.setdefault(pass_.name, Counter(dict.fromkeys(pass_.stats, 0)))
        counts.update(ctx.stats)
        self.remarks += ctx.remarks
        self.notify("after", pass_)

    def check(self, pass_: Pass) -> None:
        try:
            verify_module(self.module)
        except VerifyError as error:
            raise PassError(
                f"pass `{pass_.name}` broke the program: {error.message}",
                code="PK0802",
                span=error.span,
                notes=(f"the verifier says {error.code}", *error.notes),
                help=f"leave out `{pass_.name}`, and please report it with program and pipeline",
            ) from error

    def notify(self, when: str, pass_: Pass) -> None:
        for watcher in self.watchers:
            watcher(when, pass_, self.module)


class _Naming:
    """Converts any exception of a pass into a PassError that names the pass and its operation.

    EnoughRewrites is not an error; it only stops the pass. A UsageError is about an option.
    """

    def __init__(self, ctx: PassContext, pass_: Pass) -> None:
        self.ctx, self.pass_ = ctx, pass_

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, EnoughRewrites):
            return True
        if isinstance(error, UsageError):
            error.span = error.span or place_of(error, self.pass_.places)
        if not isinstance(error, Exception) or isinstance(
            error, PassError | LimitError | UsageError
        ):
            return False
        op = self.ctx.current
        where = f" at `{op.name}`" if op is not None else ""
        known = isinstance(error, PirkitError)
        cause = error.message if known else f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError):
            raise RuntimeFault(
                f"pass `{self.ctx.pass_name}` needs more memory than there is{where}: {error}",
                code="PK0901",
                span=span_of(op) if op is not None else None,
            ) from error
        raise PassError(
            f"pass `{self.ctx.pass_name}` failed{where}: {cause}",
            code="PK0801",
            span=(error.span if known else None) or (span_of(op) if op is not None else None),
            notes=(f"caused by {error.code}", *error.notes) if known else (_raised_at(trace),),
            help=error.help if known else "this is a bug of the pass: please report it",
        ) from error


def _raised_at(trace: TracebackType | None) -> str:
    frame = traceback.extract_tb(trace)[-1]
    return f"raised in {frame.name}, {frame.filename}:{frame.lineno}"


def _size(module: ModuleOp) -> int:
    return sum(_size_of(region.block) for op in module.ops for region in bodies(op))


def _size_of(block: Block) -> int:
    count, op = 0, block.first_op
    while op is not None:
        count += 1
        if regions := bodies(op):
            count += sum(_size_of(region.block) for region in regions)
        op = op.next_op
    return count


def _printers(requests: Sequence[str], stream: TextIO | None) -> list[Watcher]:
    if not requests:
        return []
    if stream is None:
        raise ArgumentError("printing between passes needs a stream",
                         help="give `stream=sys.stderr`")  # fmt: skip
    return [_Printer(request, stream) for request in requests]


class _Printer:
    """Writes the module under a header line: ``// ---- IR after cse ----``."""

    def __init__(self, request: str, stream: TextIO) -> None:
        self.when, _, self.pass_name = request.partition(":")
        self.stream = stream
        self.seen = ""
        is_alone = self.when in ("all", "after-change") and not self.pass_name
        if not is_alone and not (self.when in ("before", "after") and self.pass_name):
            raise ArgumentError(
                f"cannot print `{request}`",
                help="print `after-change`, `all`, `before:PASS` or `after:PASS`",
            )
        if self.pass_name:
            pass_named(self.pass_name)

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if self.when in ("before", "after"):
            if (when, pass_.name) != (self.when, self.pass_name):
                return
            text = print_mlir(module)
        else:
            text = print_mlir(module)
            unchanged, self.seen = text == self.seen, text
            if self.when == "after-change" and (when == "before" or unchanged):
                return
        self.stream.write(f"// ---- IR {when} {pass_.name} ----\n{text}")

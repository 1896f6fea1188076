"""The results of a pipeline, as readable lines or as a trace for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final, cast

from pirkit.diag.errors import ArgumentError

if TYPE_CHECKING:
    from pirkit.passes import PipelineResult, Remark, Timing

_KINDS: Final = ("passed", "missed", "analysis", "all", "")


def json_text(data: Any, indent: int | None = None) -> str:
    """Data as JSON, which has no other numbers: NaN, infinities and complex numbers as in Paddle's
    models, `"NaN"`, `"INF"` and `"-INF"`, and as pairs.
    """
    try:
        return json.dumps(data, indent=indent, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(_spelled(data), indent=indent)


def _spelled(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _spelled(value) for name, value in cast("dict[str, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [_spelled(value) for value in cast("list[Any]", data)]
    if isinstance(data, complex):
        return [_spelled(data.real), _spelled(data.imag)]
    if isinstance(data, float) and not isfinite(data):
        return "NaN" if isnan(data) else "INF" if data > 0 else "-INF"
    return data


class RemarkFilter:
    """Which remarks to show: ``missed``, ``missed:fuse``, ``:fuse``; empty for all.

    Raises ArgumentError (PK0701) for a kind that does not exist.
    """

    def __init__(self, text: str) -> None:
        self.kind, _, self.pass_name = text.partition(":")
        if self.kind not in _KINDS:
            raise ArgumentError(
                f"there are no `{self.kind}` remarks",
                help="kinds are `passed`, `missed`, `analysis` and `all`: --remarks=missed:cse",
            )

    def __call__(self, remark: Remark) -> bool:
        return self.kind in (remark.kind, "all", "") and self.pass_name in (remark.pass_name, "")


def timing_lines(timings: Sequence[Timing]) -> Iterator[str]:
    """One line per pass: its time, that of the verifier, and its rewrites."""
    for t in timings:
        yield (
            f"timing: {t.pass_name:<20} {t.seconds * 1e3:9.2f} ms"
            f"  verify {t.verify_seconds * 1e3:9.2f} ms  {t.rewrites:,} rewrites"
        )


def stats_lines(result: PipelineResult) -> Iterator[str]:
    """One line per statistic."""
    for name, counts in result.stats.items():
        for key, count in counts.items():
            yield f"stats: {name:<20} {key}: {count}"


def chrome_trace(parts: Sequence[Sequence[Timing]]) -> str:
    """The passes of each part of the input as JSON in Chrome's trace format; a part is a thread."""
    first = min((t.start for timings in parts for t in timings), default=0.0)
    events: list[dict[str, Any]] = []
    for thread, timings in enumerate(parts, 1):
        for t in timings:
            ran: dict[str, Any] = {
                "name": t.pass_name,
                "cat": "pass",
                "args": {"rewrites": t.rewrites},
            }
            verified: dict[str, Any] = {
                "name": f"verify {t.pass_name}",
                "cat": "verify",
                "args": {},
            }
            start = t.start - first
            for event, begin, seconds in (
                (ran, start, t.seconds),
                (verified, start + t.seconds, t.verify_seconds),
            ):
                place = {
                    "ph": "X",
                    "pid": 1,
                    "tid": thread,
                    "ts": begin * 1e6,
                    "dur": seconds * 1e6,
                }
                events.append({**event, **place})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, indent=1) + "\n"

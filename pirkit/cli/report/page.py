"""The page: a template, style and scripts of this folder, and the facts as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from pirkit.cli.report.recording import PartReport
from pirkit.diag.version import VERSION

if TYPE_CHECKING:
    from pirkit.passes import PipelineResult

_SCRIPTS: Final = (
    "model.js", "layout.js", "graph.js", "code.js", "changes.js", "charts.js", "tables.js",
    "start.js",
)  # fmt: skip


def page(title: str, parts: Sequence[tuple[PartReport, PipelineResult]]) -> str:
    """One self-contained page; it loads nothing."""
    folder = files("pirkit.cli.report").joinpath("assets")
    texts = {
        name: folder.joinpath(name).read_text("utf-8")
        for name in ("report.html", "report.css", *_SCRIPTS)
    }
    data: list[dict[str, Any]] = [report.facts(result) for report, result in parts]
    # `</script>` in a string of the program must not end the script
    facts = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return Template(texts["report.html"]).substitute(
        title=escape(title),
        version=VERSION,
        style=texts["report.css"],
        script="\n".join(texts[name] for name in _SCRIPTS),
        data=facts,
    )

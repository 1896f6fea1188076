"""A hook of mkdocs: pages from elsewhere in the repository, and links out of the site."""

from __future__ import annotations

import re
import sys
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
_CODES = "pirkit/diag/pages"
_LITERATE = "from-scratch"
"""A program of docs/ that is a page as well: its comments at the margin are the text."""


def literate(program: str) -> str:
    """Markdown of a program: comments at the margin as text, everything else as blocks of code."""
    parts = re.split(r"((?:^#.*\n)+)", program, flags=re.M)
    code = [f"```python\n{part.strip()}\n```\n" if part.strip() else "" for part in parts[::2]]
    text = [re.sub(r"^# ?", "", part, flags=re.M) for part in parts[1::2]]
    return "\n".join(chain(*zip_longest(code, text, fillvalue="")))


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # noqa: PLC0415  only mkdocs imports this file's hooks

    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    program = (ROOT / "docs" / f"{_LITERATE}.py").read_text()
    files.append(File.generated(config, f"{_LITERATE}.md", content=literate(program)))
    sys.path.insert(0, str(ROOT))
    from tools.site_reference import pages  # noqa: PLC0415  it imports all of pirkit

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    for page in sorted((ROOT / _CODES).glob("*.md")):
        files.append(File.generated(config, f"codes/{page.name}", content=page.read_text()))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Make links to the pages of codes lead into the site; others out of it become plain text."""
    name = page.file.src_uri
    folder = ROOT if name == "index.md" else (ROOT / "docs" / name).parent
    up = "../" * name.count("/")

    def replaced(match: re.Match[str]) -> str:
        label, target = match.groups()
        path, _, anchor = target.partition("#")
        found = (folder / path).resolve().relative_to(ROOT)
        if found.parts[0] == "docs" and found.suffix:
            inside = str(found.relative_to("docs")).replace(f"{_LITERATE}.py", f"{_LITERATE}.md")
        elif str(found.parent) == _CODES:
            inside = f"codes/{found.name}"
        else:
            return label
        return f"[{label}]({up}{inside}{'#' * bool(anchor)}{anchor})"

    return (
        text if name.startswith(("codes/", "reference/", _LITERATE)) else _LINK.sub(replaced, text)
    )

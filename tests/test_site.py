"""The navigation of the site names each page once; with mkdocs, the site builds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_each_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", nav, re.M)
    pages = [str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(["index.md", *pages])


def test_pages_of_the_site_have_their_links(tmp_path: Path) -> None:
    mkdocs = pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    assert mkdocs
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    build(config)
    held = (tmp_path / "index.html").read_text()
    assert "tutorial.html" in held
    assert (tmp_path / "codes" / "PK0203.html").exists()

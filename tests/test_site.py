"""The navigation of the site names each page once; with mkdocs, the site builds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_each_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", nav, re.M)
    pages = [str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(["index.md", "from-scratch.md", *pages])


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
    assert "index equations" in (tmp_path / "from-scratch.html").read_text()


def test_the_core_from_scratch_runs_and_stands_alone() -> None:
    path = ROOT / "docs" / "from-scratch.py"
    text = path.read_text()
    assert text.count("\n") <= 1500
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", text, re.M))
    assert imported - sys.stdlib_module_names == {"llvmlite", "numpy"}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "is needed at two indices at once" in done.stdout
    assert "the second step of the naive split has no 'mean'" in done.stdout


def test_a_literate_program_is_a_page() -> None:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "tools" / "site_pages.py")
    assert spec
    assert spec.loader
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = hook.literate("x = 1\n\n# ## Two\n#\n# Text.\n\ny = 2  # aside\n")
    assert page == "```python\nx = 1\n```\n\n## Two\n\nText.\n\n```python\ny = 2  # aside\n```\n\n"

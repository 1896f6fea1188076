"""The navigation of the site names each page once; with mkdocs, the site builds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pirkit.dialect.opdef import all_ops
from tools.site_reference import pages

ROOT = Path(__file__).parents[1]


def test_each_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", nav, re.M)
    pages = [str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")]
    made = [f"reference/{name}.md" for name in ("python", "ops", "codes", "changes")]
    assert sorted(named) == sorted(["index.md", "from-scratch.md", *made, *pages])


def test_links_and_pictures_of_pages_are_there() -> None:
    """Also where mkdocs, which checks links and anchors, is not installed."""
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
        for target in re.findall(r"\]\((?!https?:|#)([^)\s#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert missing == []


def test_each_op_and_function_has_its_place_in_the_reference() -> None:
    found = pages()
    ops, python = found["reference/ops.md"], found["reference/python.md"]
    assert "### pd_op.softmax\n\n`x ; axis: i32 -> out`" in ops
    assert re.search(r"```mlir\n%\w+ = pd_op.softmax\(%\w+\) \{axis = ", ops)
    listed = set(re.findall(r"^### (\S+)", ops, re.M))
    wanted = {op.name for op in all_ops() if op.pure is None and "_grad" not in op.name}
    assert {name for name in wanted if name.startswith("pd_op.")} <= listed
    assert "## vmap\n" in python
    shown = ops.count("```mlir")
    assert shown > 0.8 * len(listed), f"{shown} of {len(listed)} ops have an example"


def test_pages_of_the_site_have_their_links(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is missing")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    build(config)
    held = (tmp_path / "index.html").read_text()
    assert "tutorial.html" in held
    assert (tmp_path / "codes" / "PK0203.html").exists()
    assert "pd_op.softmax" in (tmp_path / "reference" / "ops.html").read_text()
    assert (tmp_path / "search" / "search_index.js").exists()  # of the offline plug-in
    fetched = r"""(?:src|href)="(?:https?:)?//(?!github|arxiv)[^"]*\.(?:js|css|woff2?)\""""
    assert not [p for p in tmp_path.rglob("*.html") if re.search(fetched, p.read_text())]
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

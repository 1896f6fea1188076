"""The pages that are made from docstrings and tables say what those say."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pirkit.passes import Pass, all_passes
from tools.gen_docs import PAGES, ROOT, readme_with_table


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name]()


@pytest.mark.parametrize("cls", list(all_passes()), ids=lambda cls: cls.name)
def test_a_pass_counts_what_it_declares(cls: type[Pass]) -> None:
    """`--stats` prints a counter of another name without its meaning."""
    counted = re.findall(
        r"ctx\.count\(\s*\"(\w+)\"", inspect.getsource(sys.modules[cls.__module__])
    )
    assert set(counted) <= cls.stats.keys()


def test_the_readme_of_a_family_lists_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text('"""Old ops:\ntheir ``|x|``.\n\nMore."""\n')
    (tmp_path / "new.py").write_text('"""New ops."""\n')
    (tmp_path / "__init__.py").write_text('"""A package."""\n')
    head, rest = "# ops\n\n| file | holds |\n|---|---|\n", "\nEach op is a class.\n"
    readme = tmp_path / "README.md"
    readme.write_text(f"{head}| `old.py` | Old. |\n| `gone.py` | Gone. |\n{rest}")
    rows = "| `new.py` | New ops. |\n| `old.py` | Old ops: their ``\\|x\\|``. |\n"
    assert readme_with_table(readme) == head + rows + rest


def test_a_removed_file_of_ops_leaves_the_index() -> None:
    """`gen_docs.py` runs although the index still names it."""
    code = """
from pirkit.dialect import op_index
stale = {**op_index.modules(), "pirkit.dialect.ops.elementwise.gone": ["pd_op.gone"]}
op_index.modules = lambda: stale
from tools import gen_docs
text = gen_docs.PAGES["pirkit/dialect/op_index.txt"]()
assert "gone" not in text and "ops.elementwise.unary" in text
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)

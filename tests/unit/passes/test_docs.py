"""The pages that are made from docstrings and tables say what those say."""

from __future__ import annotations

import inspect
import re

import pytest

from pirkit.passes import Pass, all_passes
from tools.gen_docs import PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name]()


@pytest.mark.parametrize("cls", list(all_passes()), ids=lambda cls: cls.name)
def test_a_pass_counts_what_it_declares(cls: type[Pass]) -> None:
    """`--stats` prints a counter of another name without its meaning."""
    counted = re.findall(r"ctx\.count\(\s*\"(\w+)\"", inspect.getsource(inspect.getmodule(cls)))
    assert set(counted) <= cls.stats.keys()

"""The pages that are made from docstrings and tables say what those say."""

from __future__ import annotations

import pytest

from tools.gen_docs import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()

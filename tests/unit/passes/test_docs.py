"""The page about passes says what the passes say."""

from __future__ import annotations

from tools.gen_docs import DOCS, passes_page


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "passes.md").read_text(encoding="utf-8") == passes_page()

"""xDSL's terminal user interface with a program of ours and a pass of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pirkit.cli.gui import application
from pirkit.diag.errors import UsageError

PROGRAM = Path(__file__).parents[2] / "corpus" / "paddle" / "if_else" / "program.txt"


def test_a_pass_changes_what_is_shown() -> None:
    pytest.importorskip("textual")
    app = application(str(PROGRAM))
    passes = dict(app.all_passes)

    async def session() -> tuple[str, str]:
        async with app.run_test() as pilot:
            await pilot.pause()
            before = app.output_text_area.text
            app.pass_pipeline = (passes["decompose"](), passes["dce"]())
            await pilot.pause()
            return before, app.output_text_area.text

    before, after = asyncio.run(session())
    assert "pd_op.mean" in before
    assert "pd_op.sum" in after
    assert "pd_op.mean" not in after


def test_without_textual_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xdsl.interactive.app", None)
    with pytest.raises(UsageError, match="needs the package") as caught:
        application(None)
    assert caught.value.help == "pip install 'pirkit[gui]'"

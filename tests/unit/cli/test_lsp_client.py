"""`pirkit-lsp` from the client of pygls, which checks every message against the protocol."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import load
from tests.unit.cli.test_lsp import CORPUS, GOOD

pytest.importorskip("pygls", reason="pygls is missing")
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

OLD, NEW = "file:///old.mlir", "file:///new%20name.mlir"
CODE = "import sys; from pirkit.cli.lsp import main; sys.exit(main())"
PATIENCE = 120.0


class Editor:
    """An editor with one server; diagnostics arrive in the order in which they were sent."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.told: asyncio.Queue[Any] = asyncio.Queue()

        @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params: Any) -> None:
            self.told.put_nowait(params)

    async def diagnostics(self, uri: str) -> list[Any]:
        found = await asyncio.wait_for(self.told.get(), PATIENCE)
        assert found.uri == uri
        return list(found.diagnostics)

    async def open(self, uri: str, text: str) -> list[Any]:
        item = lsp.TextDocumentItem(uri, "pir", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics(uri)

    async def type(self, uri: str, text: str) -> list[Any]:
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        place = lsp.VersionedTextDocumentIdentifier(2, uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(place, [change]))
        return await self.diagnostics(uri)

    async def close(self, uri: str) -> None:
        place = lsp.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(place))
        assert await self.diagnostics(uri) == []

    async def hover(self, uri: str, line: int, character: int) -> str | None:
        place = lsp.TextDocumentIdentifier(uri), lsp.Position(line, character)
        found = await self.client.text_document_hover_async(lsp.HoverParams(*place))
        return found and found.contents.value

    async def definition(self, uri: str, line: int, character: int) -> tuple[str, int] | None:
        place = lsp.TextDocumentIdentifier(uri), lsp.Position(line, character)
        found = await self.client.text_document_definition_async(lsp.DefinitionParams(*place))
        return found and (found.uri, found.range.start.line)


def session(work: Callable[[Editor], Awaitable[None]]) -> None:
    async def run() -> None:
        client = LanguageClient("test", "1")
        editor = Editor(client)
        await client.start_io(sys.executable, "-c", CODE)
        given = lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), process_id=None)
        answer = await asyncio.wait_for(client.initialize_async(given), PATIENCE)
        assert answer.server_info.name == "pirkit-lsp"
        client.initialized(lsp.InitializedParams())
        await asyncio.wait_for(work(editor), PATIENCE)
        await client.shutdown_async(None)
        client.exit(None)
        assert await asyncio.wait_for(client._server.wait(), PATIENCE) == 0
        await client.stop()

    asyncio.run(run())


def test_hover_definition_and_errors_as_one_types() -> None:
    async def work(editor: Editor) -> None:
        assert await editor.open(OLD, GOOD) == []
        assert "operand `x`: `tensor<2x3xf32>`" in str(await editor.hover(OLD, 3, 13))
        assert await editor.hover(OLD, 0, 0) is None
        assert await editor.definition(OLD, 4, 20) == (OLD, 3)
        for end in range(len(GOOD) - 300, len(GOOD) - 200, 25):  # a program is typed
            (error, *_) = await editor.type(OLD, GOOD[:end])
            assert error.code.startswith("PK")
        (error,) = await editor.type(OLD, GOOD.replace("%y, %y", "%y, %yy"))
        assert (error.range.start.line, error.severity) == (4, lsp.DiagnosticSeverity.Error)
        assert await editor.type(OLD, GOOD) == []

    session(work)


def test_a_file_is_renamed() -> None:
    """Editors close the file of the old name and open that of the new one."""

    async def work(editor: Editor) -> None:
        await editor.open(OLD, GOOD)
        await editor.close(OLD)
        assert await editor.open(NEW, GOOD) == []
        assert await editor.definition(NEW, 4, 20) == (NEW, 3)
        with pytest.raises(Exception, match="is not open"):
            await editor.hover(OLD, 3, 13)

    session(work)


@pytest.mark.parametrize(
    "text", ["", "\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), "\0" * 99, "{" * 9999]
)
def test_what_is_odd_or_no_program_has_errors_or_none(text: str) -> None:
    async def work(editor: Editor) -> None:
        found = await editor.open(OLD, text)
        assert all(e.code.startswith("PK") for e in found)
        assert bool(found) == ("tanh" not in text)
        await editor.hover(OLD, 3, 13)
        await editor.definition(OLD, 1 << 20, 1 << 20)

    session(work)


def test_a_big_file() -> None:
    step = "    %{b} = pd_op.tanh(%{a}) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
    lines = GOOD.splitlines(keepends=True)
    made = "".join(step.format(a="y" if n == 0 else f"v{n - 1}", b=f"v{n}") for n in range(5000))
    text = "".join([*lines[:4], made, *lines[4:]])

    async def work(editor: Editor) -> None:
        assert await editor.open(OLD, text) == []
        assert await editor.definition(OLD, 5003, 27) == (OLD, 5002)
        (error,) = await editor.type(
            OLD, text.replace("%v4000 = pd_op.tanh(%v3999)", "%v4000 = pd_op.tanh(%w)")
        )
        assert error.range.start.line == 4004

    session(work)


def test_recorded_programs_are_shown() -> None:
    text = print_mlir(load(CORPUS / "lstm" / "program.txt").module)

    async def work(editor: Editor) -> None:
        assert await editor.open(OLD, text) == []
        shown = [await editor.hover(OLD, line, 12) for line in range(text.count("\n"))]
        assert sum(found is not None for found in shown) > len(shown) // 2

    session(work)

"""A server of the Language Server Protocol: messages of JSON-RPC 2.0 on two streams of bytes.

One thread reads and one answers. Documents are checked when no message waits, so that a fast typist
is not answered key by key. https://microsoft.github.io/language-server-protocol/ has the protocol.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from queue import SimpleQueue
from typing import Any, BinaryIO, Final, cast

from pirkit.cli.language_document import Document
from pirkit.cli.pass_files import load_passes
from pirkit.diag.version import VERSION

Message = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD = -32700, -32600, -32601
INVALID_PARAMS, FAILED = -32602, -32603
"""Codes of errors, as in JSON-RPC."""

CAPABILITIES: Final = {
    "textDocumentSync": {"openClose": True, "change": 1},  # 1: the client sends the whole text
    "hoverProvider": True,
    "definitionProvider": True,
    "referencesProvider": True,
    "documentHighlightProvider": True,
    "documentSymbolProvider": True,
    "completionProvider": {"triggerCharacters": [".", "%", "{", " "]},
}


def serve(arguments: argparse.Namespace) -> int:
    """Answer an editor until it ends the session; 0 if it announced the end, else 1."""
    output = sys.stdout.buffer
    with redirect_stdout(sys.stderr):  # whatever prints must not write into the protocol
        load_passes(arguments)
        return Server(sys.stdin.buffer, output).run()


class Server:
    """One session with one editor."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self.source = source
        self.sink = sink
        self.documents: dict[str, Document] = {}
        self.unchecked: dict[str, None] = {}
        self.messages: SimpleQueue[Message | None] = SimpleQueue()
        self.ending: int | None = None
        """The exit code, once the editor said that it will end the session."""

    def run(self) -> int:
        threading.Thread(target=self._read_all, daemon=True).start()
        while True:
            if self.messages.empty():
                self._publish_all()
            message = self.messages.get()
            if message is None or message.get("method") == "exit":
                return 1 if self.ending is None else self.ending
            self._answer(message)

    def _read_all(self) -> None:
        while (message := self._read()) is not None:
            self.messages.put(message)
            if message.get("method") == "exit":
                return  # a thread that still reads would hold the stream when Python ends
        self.messages.put(None)

    def _read(self) -> Message | None:
        """The next message; one that is no JSON object is answered by an error. None at the end."""
        length = None
        while line := self.source.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value) if value.strip().isdigit() else None
        if length is None:
            return None
        try:
            message: Any = json.loads(self.source.read(length))
        except (ValueError, RecursionError) as error:
            return {"id": None, "wrong": str(error)}
        if not isinstance(message, dict):
            return {"id": None, "wrong": "a message is an object"}
        return cast(Message, message)

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.sink.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.sink.flush()

    def _answer(self, message: Message) -> None:
        number, method = message.get("id"), message.get("method")
        handler = _HANDLERS.get(str(method))
        if "wrong" in message:
            self._fail(None, PARSE_ERROR, message["wrong"])
        elif handler is None:
            if number is not None and method is not None:  # an unknown notification is ignored
                self._fail(number, UNKNOWN_METHOD, f"there is no method `{method}`")
        elif self.ending is not None:
            self._fail(number, INVALID_REQUEST, "the session was shut down")
        else:
            try:
                result = handler(self, message.get("params") or {})
            except _NotOpenError as error:
                self._fail(number, INVALID_PARAMS, str(error))
            except Exception as error:  # a fault in one answer does not end the session
                traceback.print_exc()
                self._fail(number, FAILED, f"{type(error).__name__}: {error}")
            else:
                if number is not None:
                    self._send(id=number, result=result)

    def _fail(self, number: Any, code: int, message: str) -> None:
        self._send(id=number, error={"code": code, "message": message})

    def _publish_all(self) -> None:
        for uri in self.unchecked:
            found = self.documents[uri].diagnostics() if uri in self.documents else []
            self._send(
                method="textDocument/publishDiagnostics", params={"uri": uri, "diagnostics": found}
            )
        self.unchecked.clear()

    def initialize(self, _: Message) -> Message:
        return {
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "pirkit-lsp", "version": VERSION},
        }

    def initialized(self, _: Message) -> None:
        pass

    def shutdown(self, _: Message) -> None:
        self.ending = 0

    def open(self, params: Message) -> None:
        document = params["textDocument"]
        self._set(document["uri"], document["text"])

    def change(self, params: Message) -> None:
        self._set(params["textDocument"]["uri"], params["contentChanges"][-1]["text"])

    def close(self, params: Message) -> None:
        uri = params["textDocument"]["uri"]
        self.documents.pop(uri, None)
        self.unchecked[uri] = None  # an editor shows no errors of a closed file

    def _set(self, uri: str, text: str) -> None:
        self.documents[uri] = Document(uri, text)
        self.unchecked[uri] = None


class _NotOpenError(Exception):
    """The editor asks about a document that it has not opened, or has closed."""


def _of_document(
    answer: Callable[..., Any], *, at: bool = True
) -> Callable[[Server, Message], Any]:
    """A handler that asks a document; with ``at`` it passes on the place of the cursor."""

    def handler(server: Server, params: Message) -> Any:
        uri = params["textDocument"]["uri"]
        if uri not in server.documents:
            raise _NotOpenError(f"{uri} is not open")
        document = server.documents[uri]
        if not at:
            return answer(document)
        place = params["position"]  # the editor may be ahead of the text that it has sent
        return answer(document, min(place["line"], len(document.lines) - 1), place["character"])

    return handler


Handler = Callable[[Server, Message], Any]

_HANDLERS: Final[dict[str, Handler]] = {
    "initialize": Server.initialize,
    "initialized": Server.initialized,
    "shutdown": Server.shutdown,
    "textDocument/didOpen": Server.open,
    "textDocument/didChange": Server.change,
    "textDocument/didClose": Server.close,
    "textDocument/hover": _of_document(Document.hover),
    "textDocument/definition": _of_document(Document.definition),
    "textDocument/references": _of_document(Document.references),
    "textDocument/documentHighlight": _of_document(Document.highlights),
    "textDocument/completion": _of_document(Document.completions),
    "textDocument/documentSymbol": _of_document(Document.symbols, at=False),
}

"""`pirkit-lsp` as an editor sees it: a process, and messages through its pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pirkit.cli.language_document import Document
from pirkit.dialect.text import print_mlir
from pirkit.frontend.files import load

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
URI = "file:///program.mlir"
GOOD = """builtin.module {
  pir.program @main {
    %x = pd_op.data() {dtype = #pir.dtype<float32>, name = "x", place = #pir.place<cpu:0>, \
shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
    %y = pd_op.tanh(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %z = pd_op.add(%y, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    pir.shadow_output(%z) {output_name = "out"} : (tensor<2x3xf32>) -> ()
  }
}
"""


class Editor:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from pirkit.cli.lsp import main; sys.exit(main())"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.count = 0

    def write(self, body: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        length = int(self.process.stdout.readline().partition(b":")[2])
        assert self.process.stdout.readline() == b"\r\n"
        return json.loads(self.process.stdout.read(length))

    def tell(self, method: str, **params: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def ask(self, method: str, **params: Any) -> Any:
        self.count += 1
        message = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.write(json.dumps(message).encode())
        while (answer := self.read()).get("id") != self.count:
            pass
        return answer.get("result", answer.get("error"))

    def at(self, method: str, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", textDocument={"uri": URI}, position=place)


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    editor = Editor()
    assert editor.ask("initialize", capabilities={})["capabilities"]["hoverProvider"] is True
    editor.tell("initialized")
    yield editor
    assert editor.ask("shutdown") is None
    assert editor.ask("textDocument/hover")["code"] == -32600
    editor.tell("exit")
    assert editor.process.wait(60) == 0
    for pipe in (editor.process.stdin, editor.process.stdout):
        assert pipe
        pipe.close()


def opened(editor: Editor, text: str) -> list[dict[str, Any]]:
    editor.tell("textDocument/didOpen", textDocument={"uri": URI, "text": text})
    told = editor.read()
    assert told["method"] == "textDocument/publishDiagnostics"
    assert told["params"]["uri"] == URI
    return told["params"]["diagnostics"]


def test_a_session(editor: Editor) -> None:
    assert opened(editor, GOOD) == []

    hover = editor.at("hover", 3, 13)["contents"]["value"]
    assert hover.startswith("```\npd_op.tanh: ")
    assert "- operand `x`: `tensor<2x3xf32>`" in hover
    value = editor.at("hover", 4, 20)["contents"]["value"]
    assert value.startswith("```pir\n%y : tensor<2x3xf32>\n```")
    assert "result 0 of `pd_op.tanh`, line 4" in value

    target = editor.at("definition", 4, 20)["range"]
    assert target["start"] == {"line": 3, "character": 4}
    found = [r["range"]["start"] for r in editor.at("references", 3, 5)]
    assert found == [{"line": line, "character": c} for line, c in ((3, 4), (4, 19), (4, 23))]
    assert [h["kind"] for h in editor.at("documentHighlight", 3, 5)] == [3, 2, 2]

    (program,) = editor.ask("textDocument/documentSymbol", textDocument={"uri": URI})
    assert program["name"] == "@main"
    assert [c["name"] for c in program["children"]] == ["%x", "%y", "%z"]
    assert program["children"][1]["detail"] == "pd_op.tanh : tensor<2x3xf32>"


def test_edits_are_checked_and_a_closed_file_has_no_errors(editor: Editor) -> None:
    opened(editor, GOOD)
    changes = [{"text": GOOD.replace("pd_op.tanh", "pd_op.tanhh")}]
    editor.tell("textDocument/didChange", textDocument={"uri": URI}, contentChanges=changes)
    (error,) = editor.read()["params"]["diagnostics"]
    assert error["code"] == "PK0401"
    assert "did you mean `pd_op.tanh`" in error["message"]
    assert error["range"]["start"] == {"line": 3, "character": 9}
    assert error["range"]["end"] == {"line": 3, "character": 20}
    editor.tell("textDocument/didClose", textDocument={"uri": URI})
    assert editor.read()["params"] == {"uri": URI, "diagnostics": []}


def test_completion(editor: Editor) -> None:
    opened(editor, GOOD)
    values = [item["label"] for item in editor.at("completion", 4, 20)]
    assert values == ["%x", "%y"]  # not `%z`, which this line defines
    ops = editor.at("completion", 3, 16)
    assert {"pd_op.tan", "pd_op.tanh"} <= {item["label"] for item in ops}
    assert ops[0]["textEdit"]["range"]["start"] == {"line": 3, "character": 9}
    line = GOOD.split("\n")[5]
    attributes = editor.at("completion", 5, line.index("output_name") + 3)
    assert [item["textEdit"]["newText"] for item in attributes] == ["output_name = "]


def test_what_is_no_message_does_not_end_the_session(editor: Editor) -> None:
    editor.write(b"{")
    assert editor.read()["error"]["code"] == -32700
    for text in (b"[]", b"[" * 100_000):  # the second nests deeper than Python's parser
        editor.write(text)
        assert editor.read()["error"]["code"] == -32700
    assert editor.ask("textDocument/rename")["code"] == -32601
    assert editor.ask("textDocument/hover", textDocument={"uri": "file:///x"})["code"] == -32602
    editor.tell("$/setTrace", value="off")
    assert opened(editor, GOOD) == []


def codes(text: str) -> list[tuple[str, int]]:
    found = Document(URI, text).diagnostics()
    return [(d["code"], d["range"]["start"]["line"]) for d in found]


def test_errors_behind_the_first_are_found() -> None:
    text = GOOD.replace("pd_op.tanh", "pd_op.tanhh").replace("(%z)", "(%q)")
    text = text.replace("pd_op.add(%y, %y)", "pd_op.add(%y, %y) {axsi = 1 : i32}")
    assert codes(text) == [("PK0401", 3), ("PK0103", 5), ("PK0205", 4)]


def test_no_error_follows_from_another_one() -> None:
    broken = GOOD.replace("-> tensor<2x3xf32>\n    %z", "-> tensorr<2x3xf32>\n    %z")
    assert [line for _, line in codes(broken)] == [3]
    wrong_type = GOOD.replace("%z = pd_op.add(%y, %y)", "%z = pd_op.add(%y)")
    assert [line for _, line in codes(wrong_type)] == [4]


def test_a_text_that_is_cut_or_empty_has_one_error() -> None:
    assert len(codes(GOOD[:-6])) == 1
    assert codes("") == [("PK0102", 0)]


@pytest.mark.parametrize("case", ["while_tanh", "if_else", "lenet"])
def test_recorded_programs_have_no_errors_and_all_uses_their_definitions(case: str) -> None:
    recorded = (CORPUS / case / "program.txt").read_text()
    module = load(CORPUS / case / "program.txt").module
    forms = (
        print_mlir(module),
        print_mlir(module, generic=True),
        print_mlir(module, locations=True),
    )
    for text in (recorded, *forms):
        document = Document(URI, text)
        assert document.diagnostics() == []
        assert [n.text for n in document.names if n.definition is None] == []
        assert len(document.symbols()) == 1


def test_columns_count_code_units_of_utf_16() -> None:
    text = GOOD.replace('{output_name = "out"}', '{output_name = "\N{MUSICAL SYMBOL G CLEF}"}')
    text = text.replace(
        "(%z) {output_name", '(%z) {note = "\N{MUSICAL SYMBOL G CLEF}", output_name'
    )
    line = text.split("\n")[5]
    column = line.index("output_name") + 1  # one character of two units stands before it
    items = Document(URI, text).completions(5, column + 6)
    assert [item["label"] for item in items] == ["output_name"]
    assert items[0]["textEdit"]["range"]["start"]["character"] == column

"""Hostile text, in our format and in Paddle's: a coded error, soon, in little memory.

The files in ``text/`` are named after the code that refuses them, or ``ok`` if they are only odd.
What is too large or too strange for a file is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.driver import Driver

FILES: Final = sorted(
    path for path in (Path(__file__).parent / "text").iterdir() if path.suffix in (".mlir", ".txt")
)
MEBI: Final = 1 << 20
DEEP: Final = 100_000
MANY: Final = 1_000_000

DATA: Final = (
    '%x = pd_op.data() {name = "x", shape = array<i64: 2>, dtype = #pir.dtype<float32>}'
    " : () -> tensor<2xf32>\n"
)
BRANCH: Final = (
    '%c = pd_op.data() {name = "c", shape = array<i64>, dtype = #pir.dtype<bool>}'
    " : () -> tensor<i1>\n"
)
PADDLE_DATA: Final = (
    '    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[2],'
    "stop_gradient:[true]} : () -> tensor<2xf32>\n"
)
PADDLE_BRANCH: Final = (
    '    (%0) = "pd_op.data" () {dtype:bool,name:"c",place:Place(undefined:0),shape:[],'
    "stop_gradient:[true]} : () -> tensor<b>\n"
)


def mlir(body: str) -> str:
    return "pir.program @main {\n" + body + "}\n"


def with_attribute(value: str) -> str:
    return f"pir.program @main attributes {{a = {value}}} {{\n}}\n"


def paddle(body: str) -> str:
    return "{\n" + body + "}\n"


def with_paddle_attribute(value: str) -> str:
    return paddle(PADDLE_DATA.replace("shape:[2]", f"shape:[2],mine.extra:{value}"))


def nested_branches(depth: int) -> str:
    opens = "pd_op.if(%c) : (tensor<i1>) -> () {\n"
    closes = "pir.yield() : () -> ()\n} else {\npir.yield() : () -> ()\n}\n"
    return mlir(BRANCH + opens * depth + closes * depth)


def nested_paddle_branches(depth: int) -> str:
    opens = '    () = "pd_op.if" (%0) {stop_gradient:[]} ->  {\n'
    ends = '    () = "cf.yield" () {} : () -> \n'
    return paddle(PADDLE_BRANCH + opens * depth + f"{ends}    }} else {{\n{ends}    }}\n" * depth)


def aliases(count: int, spelled: str, *, first: str = "tensor<2xf32>") -> str:
    """Aliases that each stand for ``spelled`` with the previous one in place of ``@``."""
    lines = [f"!a0 = {first}\n"]
    lines += [f"!a{i} = {spelled.replace('@', f'!a{i - 1}')}\n" for i in range(1, count + 1)]
    return "".join(lines) + with_attribute(f"!a{count}")


def ops(count: int, *, chain: bool) -> str:
    names = range(count)
    uses = (f"%{i - 1}" if chain and i else "%x" for i in names)
    lines = (
        f"%{i} = pd_op.relu({used}) : (tensor<2xf32>) -> tensor<2xf32>\n"
        for i, used in zip(names, uses, strict=True)
    )
    return mlir(DATA + "".join(lines))


def paddle_ops(count: int, *, chain: bool) -> str:
    lines = (
        f'(%{i}) = "pd_op.relu" (%{i - 1 if chain else 0}) {{}} : (tensor<f32>) -> b\n'
        for i in range(1, count + 1)
    )
    return paddle(PADDLE_DATA + "".join(lines))


def often_used_alias() -> str:
    definition = "#a = [" + ", ".join(['"x"'] * 10_000) + "]\n"
    uses = (f"pir.program @p{i} attributes {{b = #a}} {{\n}}\n" for i in range(1000))
    return definition + "".join(uses)


def lines_of_one_string() -> str:
    head, _, tail = PADDLE_DATA.partition('"x"')
    return paddle(head + '"' + "x\n" * (MANY // 2) + tail)


def linked_loops(count: int) -> str:
    """Loops that hand on an argument without a type; each tells the one before it."""
    loop = '(%{0}) = "pd_op.while" (cond=%0, inputs=%{1}) {{ \n^%arg_{0} {{}}\n}}\n'
    return paddle(PADDLE_BRANCH + "".join(loop.format(i, i + 1) for i in range(count, 1, -1)))


Make = Callable[[], str | bytes]

MADE: Final[dict[str, tuple[str, Make]]] = {
    "nested-regions.mlir": ("PK0301", lambda: nested_branches(DEEP)),
    "nested-regions.txt": ("PK0301", lambda: nested_paddle_branches(DEEP)),
    "nested-regions-deep-enough.mlir": ("ok", lambda: nested_branches(28)),
    "nested-regions-deep-enough.txt": ("ok", lambda: nested_paddle_branches(28)),
    "nested-lists.mlir": ("PK0301", lambda: with_attribute("[" * DEEP + "]" * DEEP)),
    "nested-lists-deep-enough.mlir": ("ok", lambda: with_attribute("[" * 50 + "]" * 50)),
    "nested-lists-unclosed.mlir": ("PK0301", lambda: with_attribute("[" * DEEP)),
    "nested-lists.txt": ("PK0301", lambda: with_paddle_attribute("[" * DEEP + "]" * DEEP)),
    "nested-lists-deep-enough.txt": ("ok", lambda: with_paddle_attribute("[" * 50 + "]" * 50)),
    "nested-types.mlir": (
        "PK0301",
        lambda: with_attribute("!pir.vec<" * DEEP + "i1" + ">" * DEEP),
    ),
    "nested-types.txt": (
        "PK0301",
        lambda: paddle(PADDLE_DATA.replace("tensor<2xf32>", "vec[" * DEEP + "]" * DEEP)),
    ),
    "nested-types-deep-enough.mlir": (
        "ok",
        lambda: with_attribute("!pir.vec<" * 50 + "i1" + ">" * 50),
    ),
    "nested-parentheses.mlir": ("PK0301", lambda: mlir("%0 = " + "(" * DEEP)),
    "aliases-doubling-18.mlir": ("PK0307", lambda: aliases(18, "!pir.vec<@, @>")),
    "aliases-doubling-over-lines.mlir": ("PK0307", lambda: aliases(30, "!pir.vec<\n@,\n@>")),
    "aliases-doubling-10.mlir": ("ok", lambda: aliases(10, "!pir.vec<@, @>")),
    "aliases-in-chain.mlir": ("PK0301", lambda: aliases(1000, "!pir.vec<@>")),
    "aliases-used-often.mlir": ("PK0307", often_used_alias),
    "blank-lines.mlir": ("PK0102", lambda: "\n" * (MANY - 1)),
    "blank-lines.txt": ("PK0102", lambda: "\n" * (MANY - 1)),
    "blank-lines-with-program.mlir": ("ok", lambda: "\n" * (MANY // 10) + mlir(DATA)),
    "too-many-lines.mlir": ("PK0303", lambda: "//" + "\n" * (63 * MEBI)),
    "too-many-lines.txt": ("PK0303", lambda: "{(" + "\n" * (63 * MEBI)),
    "too-large.mlir": ("PK0302", lambda: " " * (64 * MEBI + 1)),
    "unterminated-string.mlir": ("PK0102", lambda: with_attribute('"\\')),
    "unterminated-string-behind-64-mib.mlir": (
        "PK0102",
        lambda: ("//" + "-" * (MEBI - 3) + "\n") * 63 + with_attribute('"'),
    ),
    "unterminated-string.txt": ("PK0102", lambda: paddle(PADDLE_DATA.replace('"x"', '"x'))),
    "unterminated-string-of-many-lines.txt": ("PK0102", lines_of_one_string),
    "line-of-64-mib.mlir": ("PK0302", lambda: with_attribute('"' + "x" * (63 * MEBI) + '"')),
    "line-of-64-mib.txt": ("PK0302", lambda: paddle("x" * (63 * MEBI))),
    "many-uses.mlir": ("PK0303", lambda: ops(MANY, chain=False)),
    "many-uses.txt": ("PK0303", lambda: paddle_ops(MANY, chain=False)),
    "long-chain.mlir": ("PK0303", lambda: ops(MANY, chain=True)),
    "long-chain.txt": ("PK0303", lambda: paddle_ops(MANY, chain=True)),
    "linked-loops.txt": ("PK0103", lambda: linked_loops(20_000)),
    "brackets-of-dense.mlir": ("PK0301", lambda: with_attribute("dense<" * (MEBI // 8))),
    "huge-hexadecimal-string.mlir": (
        "PK0106",
        lambda: with_attribute(f'dense<"0x{"0" * (MEBI // 2)}"> : tensor<2xf32>'),
    ),
    "long-op-name.mlir": ("PK0401", lambda: mlir(f'"pd_op.{"x" * (MEBI // 2)}"() : () -> ()\n')),
    "long-op-name.txt": (
        "PK0401",
        lambda: paddle(f'() = "pd_op.{"x" * (MEBI // 2)}" () {{}} : () -> \n'),
    ),
    "nul.mlir": ("PK0107", lambda: mlir('"pd_op.re\0lu"() : () -> ()\n')),
    "nul.txt": ("PK0107", lambda: paddle(PADDLE_DATA.replace('"x"', '"x\0"'))),
    "byte-order-mark-twice.mlir": ("PK0107", lambda: "\ufeff\ufeff" + mlir(DATA)),
    "byte-order-mark-inside.mlir": ("PK0107", lambda: mlir(DATA.replace('"x"', '"\ufeffx"'))),
    "carriage-returns.mlir": ("ok", lambda: mlir(DATA).replace("\n", "\r\n").encode()),
    "carriage-returns.txt": ("ok", lambda: paddle(PADDLE_DATA).replace("\n", "\r\n").encode()),
    "lone-surrogate.mlir": (
        "PK0107",
        lambda: mlir(DATA.replace('"x"', '"\ud800"')).encode(errors="surrogatepass"),
    ),
    "lone-surrogate.txt": (
        "PK0107",
        lambda: paddle(PADDLE_DATA.replace('"x"', '"\ud800"')).encode(errors="surrogatepass"),
    ),
    "bidirectional-override.mlir": ("PK0107", lambda: mlir('"pd_op.re\u202elu"() : () -> ()\n')),
    "bidirectional-override.txt": (
        "PK0107",
        lambda: paddle(PADDLE_DATA.replace('"x"', '"\u202ex"')),
    ),
    "letters-of-the-world.mlir": ("ok", lambda: mlir(DATA.replace('"x"', '"größe-大小-μέγεθος"'))),
    "letters-of-the-world.txt": (
        "ok",
        lambda: paddle(PADDLE_DATA.replace('"x"', '"größe-大小-μέγεθος"')),
    ),
    "empty.mlir": ("PK0102", lambda: ""),
    "empty.txt": ("PK0102", lambda: ""),
    "comments.mlir": ("PK0102", lambda: "// nothing\n\n  // more of it"),
    "empty-program.mlir": ("ok", lambda: mlir("")),
    "empty-program.txt": ("ok", lambda: paddle("")),
    "junk.mlir": ("PK0107", lambda: bytes(range(256)) * 16),
    "junk.txt": ("PK0107", lambda: bytes(range(256)) * 16),
    "junk-of-brackets.mlir": ("PK0101", lambda: "}{][)(" * 100),
    "junk-of-text.txt": ("PK0101", lambda: "To be, or not to be\n" * 100),
    "metadata.mlir": ("PK0101", lambda: mlir(DATA) + "{-# dialect_resources: {} #-}\n"),
}  # fmt: skip
"""File name -> the code that refuses it, and what makes it."""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as running:
        yield running


def check(driver: Driver, path: Path, code: str) -> None:
    if code == "ok":
        driver.run("--verify-roundtrip", path).check_accepted()
    else:
        driver.run(path).check_refused(code)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file(driver: Driver, path: Path) -> None:
    check(driver, path, path.name.partition("-")[0])


@pytest.mark.parametrize("name", ["odd-floats", "zero-and-unknown-dimensions", "braces-in-string"])
def test_odd_paddle_text_is_printed_as_it_was(driver: Driver, name: str) -> None:
    path = Path(__file__).parent / "text" / f"ok-{name}.txt"
    assert driver.run("-t", "paddle-text", path).output == path.read_text()


def test_separator_in_string_is_not_one(driver: Driver) -> None:
    path = Path(__file__).parent / "text" / "ok-separator-in-string.mlir"
    outcome = driver.run("--split-input-file", path)
    outcome.check_accepted()
    assert outcome.output == driver.run(path).output


@pytest.mark.parametrize("name", MADE)
def test_made(driver: Driver, tmp_path: Path, name: str) -> None:
    code, make = MADE[name]
    content = make()
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    check(driver, path, code)

"""Sums of what readers of Paddle's files and of weights say of damaged files.

`python -m tests.campaigns.damaged` writes them. Small files of each format, which have every kind
of type, attribute and structure, are damaged in one or two places: a word, a node, a byte is
changed, lost, repeated or exchanged. A line has the outcomes of some damaged files of one source,
and a sum of all that the reader says of them: the text of the program and what it is written as,
or the code, message, place and help of the error. Where a change of pirkit alters lines on
purpose, write the file again: only formats that the change is about may differ.
"""

from __future__ import annotations

import json
import random
import re
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cache, partial
from itertools import count, product, starmap
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from safetensors import SafetensorError
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PirkitError
from pirkit.dialect import attrs
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle import json_attrs, json_types, spelling
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_syntax import Malformed
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.params import (
    parameter_metas,
    read_params,
    unfilled_parameters,
    write_params,
)
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text
from pirkit.frontend.safetensors_files import read_safetensors, write_safetensors
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta, of_array
from tests.campaigns.decisions import CORPUS, shown
from tests.frontend import json_documents as docs
from tests.frontend import test_json_values as values
from tests.frontend import test_paddle_text as texts

FILE: Final = Path(__file__).with_name("damaged.txt")
ROOT: Final = Path(__file__).parents[1]
BLOCK: Final = 20
"""Damaged files of one line."""
NUMBERS: Final = (0, 1, -1, 2, 3, 7, 64, 65, 255, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63)
WORDS: Final = (
    *'{ } ( ) [ ] < > , : = -> " \\ % ^ # x -0 1.5 1e400 inf nan true false null NHWC'.split(),
    *"float32 %0 %1 %arg_0 %9 tensor<2xf32> tensor<-1xi64> vec[ undefined cf.stack".split(),
    *"pd_op.tensor_array< Place(gpu:1) Place(cpu) (1,2) (Float) pd_op.while pd_op.if".split(),
    *"pd_op.tanh cf.yield _kernel) {} } ->".split(),
    *map(str, NUMBERS), '\\"', "<<NULL VALUE>>", "<<NULL TYPE>>", "real:1 imag:2", "\n", "} else {",
)  # fmt: skip
NODES: Final = (
    None, True, False, "", "x", "0.a_i32", "0.a_f64", "0.t_f32", "0.t_vec", "1.tanh", "p", "NULL",
    "float32", "NHWC", "INF", [True], [], {}, 1.5, [1], {"#": 0}, *NUMBERS,
)  # fmt: skip
BYTES: Final = (0, 1, 2, 4, 5, 8, 10, 16, 18, 0x7F, 0x80, 0xFF)
NAMES: Final = (
    "while_tanh/program", "if_else/program", "embedding_ce/program", "nested_outputs/forward",
    "dropout_eval/program", "mlp/backward", "gn_timesnet_3/backward",
)  # fmt: skip


class Source(NamedTuple):
    """A file, how it is damaged, and what is said of it."""

    name: str
    whole: Any
    damage: Callable[[random.Random, Any], Any]
    read: Callable[[Any], str]
    blocks: int


@cache
def sources() -> tuple[Source, ...]:
    dumps = sorted((ROOT / "frontend/dumps").glob("*.txt"))
    dumps = [p.read_text("utf-8") for p in dumps if p.stat().st_size < 4000]
    captured = [(CORPUS / f"{name}.txt").read_text("utf-8") for name in NAMES]
    kinds = [
        f'(%{k}) = "pd_op.feed" () {{col:0,name:"x{k}"}} : () -> {t}'
        for k, t in enumerate(texts.TYPES)
    ]
    items = "1 -7 2.5 -nan [] [[],[1]] [1.5,-inf] [true] Place(gpu:3) <#AttrNull> (1,2) (Float)2"
    held = ",".join(f"a{k}:{v}" for k, v in enumerate([*items.split(), "real:1 imag:2", '"a,]"']))
    several = texts.dump(*kinds, texts.X.replace("%0", "%90").replace("{dtype", f"{{{held},dtype"))
    found = [Source(f"text {k}", text, damaged_text, of_text, 3) for k, text in enumerate(dumps)]
    found += [
        Source(f"captured {k}", text, damaged_text, of_text, 6)
        for k, text in enumerate([several, several, *captured])
    ]
    single = [t for t in [*dumps, *captured[:4]] if t.count("\n}") == 1]
    trees = [json.loads(write_paddle_json(read_paddle_text(t))) for t in single]
    number = count(1)
    whole = docs.document(
        docs.parameter(next(number), "w", 2),
        *(docs.op("1.feed", [], {next(number): t}) for t in values.TYPES[:-1]),
        *(
            docs.op("1.share_data_", [1], {next(number): docs.dense(2)}, [{"N": "a", "AT": a}])
            for a in values.ATTRIBUTES
        ),
    )
    found += [
        Source(f"json {k}", tree, damaged_tree, of_json, 16 if tree is whole else 3)
        for k, tree in enumerate([whole, *trees])
    ]
    found += [Source(f"params {k}", params(k), damaged_bytes, of_params(k), 4) for k in range(4)]
    return (*found, Source("safetensors", header(), damaged_tree, of_safetensors, 3))


# --- damage --------------------------------------------------------------------------------------


def damaged_text(draw: random.Random, text: str) -> str:
    parts = re.findall(r"\w+|\s+|->|.", text)
    for _ in range(draw.choice((1, 1, 1, 2))):
        _damage_list(draw, parts, WORDS)
    return "".join(parts)


def damaged_bytes(draw: random.Random, data: bytes) -> bytes:
    parts = list(data)
    for _ in range(draw.choice((1, 1, 1, 2))):
        _damage_list(draw, parts, BYTES)
    return bytes(parts)


def _damage_list(draw: random.Random, parts: list[Any], pool: tuple[Any, ...]) -> None:
    at, other = draw.randrange(len(parts)), draw.randrange(len(parts))
    match draw.randrange(8):
        case 0:
            del parts[at]
        case 1:
            parts.insert(at, parts[at])
        case 2:
            parts.insert(at, draw.choice(pool))
        case 3:
            parts[at], parts[other] = parts[other], parts[at]
        case 4:
            del parts[at : at + draw.randrange(1, 12)]
        case 5 if draw.random() < 0.3:
            del parts[at + 1 :]
        case _:
            parts[at] = draw.choice(_alike(parts[at], pool))


def _alike(part: Any, pool: tuple[Any, ...]) -> Sequence[Any]:
    """What stands for the same kind of thing, if there is some: a word, a number, a sign."""

    def kind(one: Any) -> object:
        text = one if isinstance(one, str) else ""
        return type(one), text.isdecimal(), text.isidentifier()

    return [one for one in pool if kind(one) == kind(part) and one != part] or pool


def damaged_tree(draw: random.Random, tree: Any) -> Any:
    tree = deepcopy(tree)
    for _ in range(draw.choice((1, 1, 1, 2))):
        places = [*_places(tree)]
        node, key = draw.choice(places)
        other, at = draw.choice(places)
        match draw.randrange(8):
            case 0:
                del node[key]
            case 1:
                node[key] = deepcopy(other[at])
            case 2 if isinstance(node, list):
                node.insert(key, deepcopy(node[key]))
            case 3 if type(node[key]) is int:
                node[key] += draw.choice((-1, 1))
            case 4:
                node[key] = deepcopy(draw.choice(NODES))
            case _:
                node[key] = deepcopy(draw.choice(_alike(node[key], NODES)))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


# --- what is said --------------------------------------------------------------------------------


def said(error: PirkitError) -> str:
    where = error.span and (error.span.line, error.span.column, error.span.length)
    return f"{error.code} {error.message} {where} {error.notes} {error.help}" + (
        error.path if isinstance(error, Malformed) else ""
    )


def attempt(write: Callable[[], str]) -> str:
    try:
        return write()
    except PirkitError as error:
        return said(error)


def of_module(module: ModuleOp) -> str:
    parts = [print_mlir(module, locations=True)]
    parts += [attempt(partial(write, module)) for write in (write_paddle_text, write_paddle_json)]
    parts.append(attempt(partial(held_by, module)))
    return "\n".join(parts)


def held_by(module: ModuleOp) -> str:
    """What a file of weights holds for a program that the verifier lets through."""
    verify_module(module)
    return repr([parameter_metas(module), unfilled_parameters(module)])


def of_text(text: str) -> str:
    return of_module(read_paddle_text(text, "dump"))


def of_json(tree: Any) -> str:
    return of_module(read_paddle_json(json.dumps(tree), "model"))


@cache
def arrays(k: int) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of every element type, and of ranks 0 to 3."""
    rng = np.random.default_rng(k)
    shapes: tuple[tuple[int, ...], ...] = ((), (3,), (2, 0), (1, 2, 130))
    return {f"{d}{s}": rng.integers(0, 2, s).astype(d.np) for d in dt.ALL[k::4] for s in shapes[k:]}


def params(k: int) -> bytes:
    """A file of parameters, with a level of offsets and a packed shape at its end."""
    with tempfile.TemporaryDirectory() as folder:
        write_params(Path(folder) / "w", arrays(k))
        data = (Path(folder) / "w").read_bytes()
    message = bytes([8, dt.float32.code, 18, 2, 2, 1])
    packed = struct.pack("<IQQ8sIi", 0, 1, 8, bytes(8), 0, len(message)) + message
    return data + packed + struct.pack("<2f", 1, 2)


def of_params(k: int) -> Callable[[bytes], str]:
    metas = {name: of_array(a) for name, a in arrays(k).items()}
    metas["~"] = TensorMeta((2, 1), dt.float32)

    def read(data: bytes) -> str:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "w").write_bytes(data)
            return _told(read_params(Path(folder) / "w", metas))

    return read


def _told(found: dict[str, np.ndarray[Any, Any]]) -> str:
    return repr([(n, str(a.dtype), a.shape, a.tobytes()) for n, a in sorted(found.items())])


def header() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        at = str(Path(folder) / "w")
        write_safetensors(at, {"a": np.ones(2, np.float32), "b": np.zeros((1, 3), np.int8)})
        data = Path(at).read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def of_safetensors(tree: Any) -> str:
    """What is said of a file with this header; words of the library itself are left out."""
    text = json.dumps(tree).encode()
    with tempfile.TemporaryDirectory() as folder:
        at = str(Path(folder) / "w")
        Path(at).write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(11)))
        try:
            return _told(read_safetensors(at))
        except PirkitError as error:
            own = not isinstance(error.__cause__, SafetensorError)
            return f"{error.code} {error.message.replace(folder, '') if own else ''}"


# --- each value as each kind ----------------------------------------------------------------------

LARGE: Final = (10**8, 10**9, 10**10, 2**53, 10**20)
TEXTS: Final = (
    *map(str, (*NUMBERS, *(s * (v + d) for s, v, d in product((1, -1), LARGE, (-1, 0, 1))))),
    *"-0 00 01 1. .5 1e5 1e+30 1e-400 1e400 -1e39 3.4e38 16777217.0 inf -inf nan -nan".split(),
    *"x true".split(),
    *"false float32 bool Undefined NHWC ONEDNN Place(cpu) Place(gpu:1) Place(x:1234567890)".split(),
    *"(1,2) (1,x) real:1 (Float)2 (pd_op.IntArray)[3] () (a) [] [1] [[1],[]] [ ]".split(),
    "real:1 imag:-2", "real:inf imag:x", '""', '"a', 'a"', '"', '"a\\"', '"a\\"b"', '"a"b"', "",
    "<#AttrNull>", "<#AttrNotImplemented>", "[" * 70 + "]" * 70, "1" * 5000, "[1,2.5]", '["a"]',
    "[true,1]", "[true,false]", "[float32]", "[9999999999]", "[-nan,(Float)1]",
)  # fmt: skip
DATA: Final = (
    *NUMBERS, 2**53, 2**53 + 1, -(2**53) - 1, 0.5, 1e39, 5e-324, True, False, None, "", "x", "NaN",
    "INF", "float32", "Undefined(ALL_DTYPE)", "complex64", [], [1], [1, 2], [1.5, 2], [1, 2, 3],
    [0, 0, ""], [3, 0, ""], [4, 0, ""], [0, 2**31, ""], [-1, 0, ""], [0, 0, "x"], ["float32", 1.5],
    ["int64", 1], ["bool", True], ["bool", 1], ["complex64", 1, 2.5], ["complex64", 1], ["x", 1],
    ["float32", "1"], ["float32", 1, 2, 3], [{"#": "0.a_i32", "D": 1}], [{"#": "0.a_bool", "D": 1}],
    [{"#": "0.a_f64", "D": 1.5}, {"#": "0.a_i64", "D": 1}], [{"#": "0.a_f64", "D": 0.1}], [{}],
    {"#": "0.t_f32"}, [{"#": "0.t_f32"}], [{"#": "0.t_f32"}, [2, -1], "NCHW", [], 0],
    [{"#": "0.t_f32"}, [2, -2], "NCHW", [], 0], [{"#": "0.t_x"}, [2], "NCHW", [[1]], 0],
    [{"#": "0.t_f32"}, [2], "NCHW"], [{"#": "0.t_f32"}, [1] * 65, "NHWC", [], 0],
    [{"#": "0.t_index"}, [2**63], "", [], 1], [{"#": "NULL"}, [], "NCHW", [], 0],
    *(t["D"] for t in values.TYPES if "D" in t),
)  # fmt: skip
KINDS: Final = tuple("bool i32 i64 f32 f64 str scalar dtype layout place intarray".split())
LISTS: Final = tuple(kind for kind in attrs.KINDS if kind.endswith("[]"))
WORDS_OF_TYPES: Final = (*sorted({t["#"] for t in values.TYPES}), "0.t_x", "9.t_vec", "t")
WORDS_OF_ATTRIBUTES: Final = (
    *sorted({a["#"] for a in values.ATTRIBUTES}), "0.a_x", "9.a_i32", "1.a_i32", "a",
)  # fmt: skip


def _text_value(text: str, kind: str | None) -> str:
    held = spelling.read_value(text, kind)
    return f"{held} {attempt(partial(spelling.write_value, held))}"


def _node_value(node: Any, kind: str | None) -> str:
    held = json_attrs.read_attribute(node, kind)
    return f"{held} {attempt(lambda: json.dumps(json_attrs.write_attribute(held, kind)))}"


def _node_type(node: Any) -> str:
    held = json_types.read_type(node)
    return f"{held} {json.dumps(json_types.write_type(held))}"


def _text_type(text: str) -> str:
    return f"{spelling.read_type(text)} {spelling.write_type(spelling.read_type(text))}"


def _nodes(words: Sequence[str]) -> Iterator[Any]:
    for word in words:
        yield from ({"#": word, "D": data} for data in DATA)
        yield from ({"#": word, "VD": data} for data in DATA[-8::-9])
        yield from ({"#": word}, {"#": word, "D": 1.5, "VD": "NaN"})


def tables() -> Iterator[tuple[str, list[Callable[[], str]]]]:
    """Each value of the text and of JSON, read as each kind."""
    for kind in (None, *KINDS, *LISTS):
        yield f"text as {kind}", [partial(_text_value, text, kind) for text in TEXTS]
        nodes = _nodes(WORDS_OF_ATTRIBUTES)
        yield f"json as {kind}", [partial(_node_value, node, kind) for node in nodes]
    yield "types of json", [partial(_node_type, node) for node in _nodes(WORDS_OF_TYPES)]
    heads = ("tensor<{}>", "vec[{}]", "{}", "pd_op.tensor_array<{}>", "pd_op.x<{}>", "builtin.{}")
    inner = (
        *texts.TYPES, "", "f32", "2xf32", "-2xf32", "?xf32", "2x3x", "index", "x", "2xindex",
        "f32>", "99999999999999999999xi8", "1x" * 65 + "i1", "1x" * 64 + "b", "2xb,b",
        "<<NULL TYPE>>",
    )  # fmt: skip
    yield "types of text", [partial(_text_type, head.format(t)) for head in heads for t in inner]


def of_table(name: str, calls: Sequence[Callable[[], str]]) -> str:
    outcomes: Counter[str] = Counter()
    total = 0
    for call in calls:
        found = attempt(call)
        code = re.match(r"PK\d{4}(?= )", found)
        outcomes[code[0] if code else "read"] += 1
        total = crc32(found.encode(errors="surrogatepass"), total)
    return f"{name}: {shown(dict(sorted(outcomes.items())))}, sum {total}"


def lines_of(source: Source) -> Iterator[str]:
    for block in range(source.blocks):
        draws = [random.Random(f"{source.name} {block} {k}") for k in range(BLOCK)]
        files = [source.damage(draw, source.whole) for draw in draws]
        yield of_table(f"{source.name} {block}", [partial(source.read, file) for file in files])


def main() -> None:
    lines = [line for source in sources() for line in lines_of(source)]
    FILE.write_text("\n".join([*lines, *starmap(of_table, tables())]) + "\n")


if __name__ == "__main__":
    main()

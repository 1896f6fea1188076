"""Mutants of files: a coded error or a right answer, in 5 s of CPU time and bounded memory.

    python -m tools.campaigns files --seed 1 --count 20000 --out files.jsonl

Programs as text (pir, Paddle's, StableHLO), Paddle's JSON, models of ONNX, weights, and entries of
the compile cache are changed by bytes, by words, and as JSON. What still loads runs through
`@default`, and is the same after it was printed and read again. ``--only`` is a format.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import pirkit
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.compile_cache import from_bytes, store
from pirkit.frontend.files import save
from pirkit.frontend.weight_files import load_params, save_params
from pirkit.lowering.plan_writer import write_plan
from pirkit.onnx import save_model
from pirkit.runtime.plan_json import pack_plan, unpack_plan
from tools.campaigns.driver import Campaign, Found, Hang, limited
from tools.campaigns.outcomes import attempt
from tools.campaigns.random_programs import made

ROOT: Final = Path(__file__).parents[2]
CORPUS: Final = ROOT / "tests/corpus/paddle"
SECONDS: Final = 5
MEBIBYTES: Final = 800
"""By how much one file may raise the peak of memory."""
LARGEST: Final = 20_000
"""Bytes of a file that is changed; larger ones say the same more slowly."""

NUMBERS: Final = (
    "0 -1 1 2 3 7 64 65 127 128 255 256 65536 2147483647 2147483648 -2147483648 4294967296"
    " 9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551616 1e308"
    " 1e309 -0.0 nan inf 0x7F800000 00012 1_000 999999999999999999999999"
).split()
_NUMBER: Final = re.compile(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_WORD: Final = re.compile(rb"[A-Za-z_%@#!^][\w.]*")


class Source(NamedTuple):
    """A file to change, and what reads it."""

    name: str
    suffix: str
    data: bytes
    read: Callable[[Path], Any]


# --- what is changed ------------------------------------------------------------------------------


@cache
def sources() -> tuple[Source, ...]:
    """Files of each format; a format is drawn first, then a file of it."""
    found = [
        Source("text", path.suffix, path.read_bytes(), pirkit.load)
        for folder in ("ir", "attacks/text", "corpus/paddle/*")
        for path in sorted((ROOT / "tests").glob(f"{folder}/*"))
        if path.suffix in (".txt", ".mlir") and path.name != "README.txt"
    ]
    found += [Source("json", ".json", p.read_bytes(), pirkit.load) for p in CORPUS.glob("*/*.json")
              if p.name in ("model.json", "program.json")]  # fmt: skip
    found += [Source("stablehlo", ".mlir", p.read_bytes(), pirkit.load)
              for p in sorted((ROOT / "tests/stablehlo/programs").glob("*.mlir"))]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(12):
            found += _written(seed, Path(folder))
    found += _weights()
    return tuple([s for s in found if len(s.data) <= LARGEST])


def _written(seed: int, folder: Path) -> list[Source]:
    """A random program as pirkit writes it."""
    program, _ = made(seed, plain=True)
    found: list[Source] = []
    for name, suffix, write in (
        ("text", ".mlir", lambda to: save(program, str(to))),
        ("json", ".json", lambda to: save(program, str(to))),
        ("onnx", ".onnx", lambda to: save_model(program, to)),
    ):
        path = folder / f"{seed}{suffix}"
        if attempt(partial(write, path))[0] == "values":
            found.append(Source(name, suffix, path.read_bytes(), pirkit.load))
    plan = json.dumps(pack_plan(write_plan(program.main))).encode()
    found.append(Source("plan", ".json", plan, lambda p: unpack_plan(from_bytes(p.read_bytes()))))
    return found


def _weights() -> list[Source]:
    """The weights of a program of the corpus, in each format."""
    path = CORPUS / "mlp"
    module = pirkit.load(str(path / "model.json")).module
    params = load_params(str(path / "model.pdiparams"), module)
    params = {name: a[:4] for name, a in params.items()}
    found = [Source("weights", ".pdiparams", (path / "model.pdiparams").read_bytes(), None)]
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".npz", ".safetensors"):
            to = Path(folder) / f"w{suffix}"
            save_params(str(to), params)
            found.append(Source("weights", suffix, to.read_bytes(), None))
    return [s._replace(read=lambda p: load_params(str(p), module)) for s in found]


# --- changes --------------------------------------------------------------------------------------


def changed(source: Source, draw: random.Random) -> bytes:
    """The file with one to four changes."""
    data = source.data
    if source.suffix == ".json" and draw.random() < 0.6:
        document = json.loads(data)
        for _ in range(draw.randint(1, 3)):
            document = _node(document, draw)
        return json.dumps(document).encode(errors="surrogatepass")
    is_text = source.suffix in (".txt", ".mlir", ".json")
    for _ in range(draw.randint(1, 4)):
        data = draw.choice(TEXTUAL if is_text else BINARY)(data, draw)
    return data


def _flip(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) or 1)
    return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data) or 1)
    return data[:start] + data[start + draw.choice((1, 2, 8, 100, 1 << 30)) :]


def _twice(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data) or 1)
    end = start + draw.choice((1, 4, 16, 200))
    return data[:end] + data[start:end] * draw.choice((1, 2, 50)) + data[end:]


def _length(data: bytes, draw: random.Random) -> bytes:
    """A field of 1, 4 or 8 bytes gets a number that is far too large."""
    size = draw.choice((1, 4, 8))
    at = draw.randrange(max(1, len(data) - size))
    bits = draw.choice((8 * size, 8 * size - 1, 8 * size - 4, 4, 0))
    return data[:at] + ((1 << bits) - 1).to_bytes(size, "little") + data[at + size :]


def _replaced(pattern: re.Pattern[bytes], pool: Callable[[bytes], list[bytes]]) -> Any:
    def change(data: bytes, draw: random.Random) -> bytes:
        hits = list(pattern.finditer(data))
        if not hits:
            return _flip(data, draw)
        hit = draw.choice(hits)
        return data[: hit.start()] + draw.choice(pool(data)) + data[hit.end() :]

    return change


def _lines(data: bytes, draw: random.Random) -> bytes:
    """A line is lost, doubled, or changes its place."""
    lines = data.split(b"\n")
    line = lines.pop(draw.randrange(len(lines)))
    for _ in range(draw.choice((0, 1, 2))):
        lines.insert(draw.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def _node(document: Any, draw: random.Random) -> Any:
    """A random node of a JSON document replaced, dropped, or doubled."""
    if isinstance(document, dict | list) and document and draw.random() < 0.9:
        copy: Any = dict(document) if isinstance(document, dict) else list(document)
        key = draw.choice(list(copy)) if isinstance(copy, dict) else draw.randrange(len(copy))
        chance = draw.random()
        if chance < 0.05:
            del copy[key]
        elif chance < 0.1 and isinstance(copy, list):
            copy.append(copy[key])
        else:
            copy[key] = _node(copy[key], draw)
        return copy
    return draw.choice((
        None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, 1e308,
        float("nan"), float("inf"), "", "pd_op.add", "0", "\ud800", "x" * 5000, [], {}, [[]],
        [None], {"#": 1}, [[[[]]]] * 50, document, str(document),
    ))  # fmt: skip


TEXTUAL: Final = (
    _flip, _cut, _twice, _lines, _lines,
    *[_replaced(_NUMBER, lambda data: [n.encode() for n in NUMBERS])] * 4,
    *[_replaced(_WORD, _WORD.findall)] * 4,
)  # fmt: skip
BINARY: Final = (_flip, _flip, _cut, _twice, _length, _length)


# --- what has to hold -----------------------------------------------------------------------------


def examine(seed: int, number: int, only: str = "") -> list[Found]:
    draw = random.Random(f"{seed} {number}")
    formats = sorted({s.name for s in sources()} | {"cache"})
    name = only or draw.choice(formats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name == "cache":
        found = _cache_entry(draw)
    else:
        source = draw.choice([s for s in sources() if s.name == name])
        found = read(source, changed(source, draw))
    risen = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) >> 10
    if risen > MEBIBYTES:
        found.append(Found("cost", describe(seed, number, only), name, f"{risen} MiB"))
    return found


def read(source: Source, data: bytes) -> list[Found]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{source.suffix}"
        path.write_bytes(data)
        beside = set(os.listdir(folder))
        try:
            with limited(SECONDS):
                status, value = attempt(lambda: _used(source.read(path)))
        except Hang:
            status, value = "hang", f"more than {SECONDS} s"
        if set(os.listdir(folder)) != beside:
            status, value = "uncoded", "it wrote a file"
    if status in ("values", "refused"):
        return []
    told = f"{type(value).__name__}: {value}"[:300]
    return [Found(status, data.decode("latin-1"), source.name, told)]


def _used(program: Any) -> None:
    """What loads is printed, read again, and runs through the passes."""
    if not isinstance(program, pirkit.Program):
        return
    text = print_mlir(program.module)
    if print_mlir(parse_mlir(text)) != text:
        raise AssertionError("printed and read again it is another program")
    run_passes(program, "@default")


def _cache_entry(draw: random.Random) -> list[Found]:
    """A changed entry of the cache is a miss: the result stays, and so does the process."""
    program, inputs = made(draw.randrange(40), plain=True)
    status, want = attempt(lambda: compile(program)(**inputs))
    held = store()
    if held is None or status != "values":
        return []
    entries = [p for p in Path(held.folder).rglob("*") if p.is_file() and p.stat().st_size > 100]
    path = draw.choice(sorted(entries))
    data = path.read_bytes()
    match draw.randrange(4):
        case 0:
            shutil.copy(draw.choice(sorted(entries)), f"{path}.new")
            os.replace(f"{path}.new", path)  # an entry of another key
        case _:
            path.write_bytes(changed(Source("cache", "", data, None), draw))  # pyright: ignore
    status, found = attempt(lambda: compile(program)(**inputs))
    if status == "values":
        with np.errstate(all="ignore"):
            same = all(
                # kind V: bfloat16
                np.array_equal(found[n], want[n], equal_nan=want[n].dtype.kind in "fcV")
                for n in want
            )
        if same:
            return []
        status = "wrong"
    return [Found(status, path.name, "cache", f"{found}"[:300])]


def describe(seed: int, number: int, only: str = "") -> str:
    draw = random.Random(f"{seed} {number}")
    name = only or draw.choice(sorted({s.name for s in sources()} | {"cache"}))
    if name == "cache":
        return "a cache entry"
    source = draw.choice([s for s in sources() if s.name == name])
    return changed(source, draw).decode("latin-1")


CAMPAIGN: Final = Campaign("files", examine, describe, seconds=30, gibibytes=4, range=500)

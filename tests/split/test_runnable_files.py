"""A split that is saved runs in another process; a damaged file is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import ArtifactError, InputError
from pirkit.frontend.captured_case import open_case
from pirkit.frontend.files import load
from pirkit.split import RunnableProgram, forward_backward
from tests.split.paddle_parts import paddle_parts
from tests.split.test_runnable import block, counting, net

CORPUS = Path(__file__).parents[1] / "corpus" / "paddle"

OTHER_PROCESS = """
import sys
import numpy as np
import pirkit

path, arrays, found = sys.argv[1:]
step = pirkit.split.RunnableProgram.load(path)
given = np.load(arrays, allow_pickle=False)
tensors = {name: pirkit.tensor(given[name]) for name in given.files}
outputs = step.forward(
    [tensors[n] for n in step.names.fx], [tensors[n] for n in step.names.fp]
)
gradients = step.backward([tensors.get(f"grad of {i}") for i in range(len(outputs))])
results = [*outputs, *gradients[0], *gradients[1]]
held = {str(i): r.numpy() for i, r in enumerate(results) if r is not None}
np.savez(found, **held)
"""


def test_the_other_process_computes_the_same_bits(tmp_path: Path) -> None:
    folder = CORPUS / "conv_bn_train"
    case = open_case(folder)
    step = RunnableProgram(forward_backward(load(folder / "program.txt"), mode="min-cut"))
    path, arrays, found = (str(tmp_path / name) for name in ("step.json", "in.npz", "out.npz"))
    step.save(path)
    given = {**case.arrays("params.npz"), **case.step("inputs.npz", 1)}
    seeds = {int(i): a for i, a in case.step("output_grads.npz", 1).items()}
    np.savez(arrays, **given, **{f"grad of {i}": a for i, a in seeds.items()})
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, path, arrays, found],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    outputs = step.forward(
        *([given[n] for n in listed] for listed in (step.names.fx, step.names.fp))
    )
    gradients = step.backward([seeds.get(i) for i in range(len(outputs))])
    results = [*outputs, *gradients[0], *gradients[1]]
    with np.load(found, allow_pickle=False) as theirs:
        assert len(theirs.files) == sum(r is not None for r in results)
        for index, ours in enumerate(results):
            if ours is not None:
                np.testing.assert_array_equal(ours.numpy(), theirs[str(index)])


@pytest.mark.parametrize("name", ["while_tanh", "if_else", "output_is_input_and_repeated", "lenet"])
@pytest.mark.parametrize(
    "parts_of", [paddle_parts, lambda f: forward_backward(load(f / "program.txt"))]
)
def test_what_is_read_is_what_was_written(
    parts_of: Callable[[Path], Any], name: str, tmp_path: Path
) -> None:
    parts = parts_of(CORPUS / name)
    RunnableProgram(parts).save(tmp_path / "a.json")
    again = RunnableProgram.load(tmp_path / "a.json")
    assert again.names == parts.names
    assert (again.parts.saved, again.parts.returns) == (parts.saved, parts.returns)
    assert str(again.parts.forward) == str(parts.forward)
    assert str(again.parts.backward) == str(parts.backward)


def test_options_are_those_of_the_object(tmp_path: Path) -> None:
    counting().save(tmp_path / "a.json")
    step = RunnableProgram.load(tmp_path / "a.json", backend="reference", seed=3)
    outputs = step.forward([block(0)], [block(1), block(2)])
    assert len(outputs) == 2
    assert step.seed == 3


def edited(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    path = tmp_path / "a.json"
    net().save(path)
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))
    return path


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (lambda h: h.update(pirkit_split=2), "PK0503", "version 2"),
        (lambda h: h.update(pirkit_split=True), "PK0502", "'pirkit_split' is no int"),
        (lambda h: h.pop("names"), "PK0502", "'names' is no dict"),
        (lambda h: h["names"].pop("bm"), "PK0502", "'bm' is no list"),
        (lambda h: h["names"].update(fx=[None]), "PK0502", "'fx' holds something that is no name"),
        (lambda h: h["names"].update(bx=[3]), "PK0502", "'bx' holds something that is no name"),
        (lambda h: h["names"].update(bx=[]), "PK0502", "not of one length"),
        (lambda h: h["names"].update(fx=["z"]), "PK0502", "'x' of @forward is in none of fx fp"),
        (lambda h: h.update(returns=[["y", 7]]), "PK0502", "output that is none"),
        (lambda h: h.update(saved=[3]), "PK0502", "an object is missing"),
        (lambda h: h.update(forward="builtin.module {"), "PK0102", "a.json:forward"),
        (lambda h: h.update(forward="builtin.module {}"), "PK0502", "holds 0 programs"),
    ],
)
def test_a_damaged_file_is_refused(
    change: Callable[[dict[str, Any]], Any], code: str, text: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=text) as caught:
        RunnableProgram.load(edited(tmp_path, change))
    assert caught.value.code == code
    assert caught.value.span is not None


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b"3"])
def test_what_is_no_split_at_all(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        RunnableProgram.load(path)
    assert caught.value.code in ("PK0501", "PK0502")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        RunnableProgram.load(tmp_path / "none.json")
    assert caught.value.code == "PK0506"
    with pytest.raises(ArtifactError) as caught:
        net().save(tmp_path / "no" / "folder.json")
    assert caught.value.code == "PK0506"

"""`explain`, `export`, archives, options, and what is said about ops that torch computes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pirkit  # noqa: E402
import pirkit.torch  # noqa: E402
from pirkit.cli.torch_archives import is_torch_archive, load_program  # noqa: E402
from pirkit.diag.errors import ArtifactError  # noqa: E402


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.special.erfcx(x.tanh())


def test_explain_tells_lines_of_what_torch_computes() -> None:
    found = pirkit.torch.explain(scaled, torch.randn(3, requires_grad=True))
    (graph,) = found.graphs
    assert graph.ops["aten.special_erfcx.default"] == 1
    (line,) = graph.fallbacks
    assert "special_erfcx" in line
    assert "test_surfaces.py" in line
    assert graph.saved is not None
    assert graph.segments == 1
    assert "library: 1 x torch.call" in str(found)
    assert {what.partition(" at ")[0] for what, _ in graph.times} >= {"torch.call"}
    assert "forward:" in str(found)


def test_one_line_says_what_torch_computes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pirkit.torch"):
        torch.compile(scaled, backend="pirkit")(torch.randn(3))
    assert [r.getMessage() for r in caplog.records if r.name == "pirkit.torch"] == [
        "torch computes 1 of 2 ops: 1 x aten.special_erfcx.default"
    ]


def test_strict_refuses_with_the_line() -> None:
    compiled = torch.compile(scaled, backend="pirkit", options={"strict": True})
    with pytest.raises(Exception, match=r"PK0409.*special_erfcx.*test_surfaces\.py"):
        compiled(torch.randn(3))


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Exception, match=r"PK0701.*strickt"):
        torch.compile(scaled, backend="pirkit", options={"strickt": True})(torch.randn(3))


def test_export_gives_the_program() -> None:
    program = pirkit.torch.export(lambda x: (x.tanh(), x.sum()), (torch.ones(2, 3),))
    found = pirkit.compile(program)(x0=np.full((2, 3), 0.5, np.float32))
    np.testing.assert_allclose(found["y0"], np.tanh(np.full((2, 3), 0.5)), rtol=1e-5)
    np.testing.assert_allclose(found["y1"], 3.0)


def test_archives_are_read_with_their_weights(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).eval()
    x = torch.randn(5, 4)
    path = tmp_path / "no suffix"
    exported = torch.export.export(model, (x,))
    torch.export.save(exported, tmp_path / "model.pt2")
    (tmp_path / "model.pt2").rename(path)
    assert is_torch_archive(str(path))
    program = load_program(str(path))
    exe = pirkit.compile(program)
    (name,) = (p.name for p in exe.plan.inputs)
    (found,) = exe.run({name: x.numpy()}).values()
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/archive_format", "pt2")
    with pytest.raises(ArtifactError, match="torch cannot read"):
        load_program(str(path))


SECOND = """
import torch, pirkit.torch
from pirkit.runtime.native.compile_stats import COMPILE_STATS
x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
f = torch.compile(lambda x: (x.tanh() @ x.t()).softmax(1), backend="pirkit")
f(x).square().sum().backward()
print(COMPILE_STATS.compiled, COMPILE_STATS.read)
"""


def test_a_second_process_compiles_no_native_code(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    env["PIRKIT_NATIVE_CACHE"] = "on"  # the code of whole functions too
    told = [
        subprocess.run(
            [sys.executable, "-c", SECOND], env=env, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    first, second = ([int(n) for n in line.split()] for line in told)
    assert first[0] > 0
    assert second[0] == 0


@pytest.mark.parametrize("name", ["torch_forces", "torch_inference"])
def test_examples(name: str) -> None:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    if name == "torch_forces":
        first, last_loss = (float(word) for word in last.split() if word[0].isdigit())
        assert last_loss < first / 5
    else:
        assert float(last.rsplit(" ", 1)[1]) < 1e-5


def test_code_of_the_page_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    blocks = [b.split("```")[0] for b in text.split("```python\n")[1:]]
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_compiler_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing on the path, first and second derivatives compile."""
    monkeypatch.setenv("PATH", "")
    x = torch.randn(4, 3, requires_grad=True)
    compiled = torch.compile(lambda x: x.tanh().square(), backend="pirkit")
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    y = x.detach().tanh()
    torch.testing.assert_close(second, 2 * (1 - y * y) * (1 - 3 * y * y))

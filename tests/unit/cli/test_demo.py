"""The programs that come with pirkit run, and are packed into the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pirkit.cli.demo import FOLDER, SAMPLES, listing, show
from pirkit.diag.errors import UsageError


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_runs(name: str) -> None:
    shown = show(name)
    assert "<Executable @main(" in shown
    assert "nan" not in shown
    assert SAMPLES[name][0] in listing()


def test_an_unknown_sample_is_refused() -> None:
    with pytest.raises(UsageError, match="no sample program `lenett`") as caught:
        show("lenett")
    assert caught.value.help == "did you mean `lenet`?"


def test_samples_are_in_the_wheel() -> None:
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    data = settings["tool"]["setuptools"]["package-data"]["pirkit"]
    packed = {path for glob in data for path in FOLDER.parent.glob(glob)}
    assert {FOLDER / file for file, _ in SAMPLES.values()} <= packed
    assert {path for path in FOLDER.iterdir()} <= packed

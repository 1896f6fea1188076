"""Packages that extend pirkit are found wherever `importlib.metadata` finds them."""

from __future__ import annotations

import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pirkit.diag import plugins as module
from pirkit.diag.plugins import plugins

GROUP = "pirkit.of_a_test"
TEXT = f"[console_scripts]\na = b:c\n\n[{GROUP}]\nmine = some.module:extend\n"
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1.0\n"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "missing"), ""])
    return tmp_path


def named() -> list[str]:
    found = [entry.value for entry in plugins(GROUP)]
    assert found == [entry.value for entry in entry_points(group=GROUP)]
    return found


@pytest.mark.parametrize("suffix", [".dist-info", ".egg-info", ".DIST-INFO"])
def test_a_package_in_a_folder_is_found(suffix: str, path: Path) -> None:
    assert named() == []
    info = path / f"some_plugin-1.0{suffix}"
    info.mkdir()
    file = "METADATA" if "dist" in suffix.lower() else "PKG-INFO"
    (info / file).write_text(METADATA.format("some-plugin"))
    assert named() == []
    (info / "entry_points.txt").write_text(TEXT)
    assert named() == ["some.module:extend"]


def test_a_package_in_an_archive_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = path / "some_plugin.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("some_plugin-1.0.dist-info/METADATA", METADATA.format("some-plugin"))
        file.writestr("some_plugin-1.0.dist-info/entry_points.txt", TEXT)
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
    assert named() == ["some.module:extend"]


def test_a_finder_of_its_own_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        asked = 0

        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, *_: object) -> list[object]:
            Finder.asked += 1
            return []

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert named() == []
    assert Finder.asked == 2


def test_nothing_is_imported_where_nobody_names_the_group(path: Path) -> None:
    assert not module._may_be_named(GROUP)
    (path / "other-1.0.egg-info").write_text(METADATA.format("other"))  # a file, as distutils has
    assert not module._may_be_named(GROUP)
    (path / "packed.egg").mkdir()
    assert module._may_be_named(GROUP)


def test_paths_that_are_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path])
    assert tuple(plugins("pirkit.nothing")) == ()

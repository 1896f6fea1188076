"""Plug-ins that fail: their errors have a code and name them, and no memory is left unwritten."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import ConstraintError, UsageError
from pirkit.diag.plugins import called, loaded
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.registry import Kernel, KernelKey

X = np.ones(3, np.float32)


def bound(step: Any, *, form: Any = "new", size: int = 3) -> Any:
    """A step of a kernel that a package of somebody else binds."""
    metas = (TensorMeta((size,), dt.float32),)
    key = KernelKey("reference", "any", dt.float32)
    kernel = Kernel("bad.boom", key, lambda _: step, form, source="bad.kernels.boom")
    return kernel(Binding(metas, metas, {}))


def test_other_exceptions_are_told_with_the_kernel() -> None:
    def step(x: Any) -> Any:
        raise NotImplementedError("boom")

    with pytest.raises(ValueError, match=r"`bad.kernels.boom` raised NotImplementedError: boom"):
        bound(step)(X)


def test_refusals_stay_as_they_are() -> None:
    def step(x: Any) -> Any:
        raise ConstraintError("C1", "no")

    with pytest.raises(ConstraintError):
        bound(step)(X)


@pytest.mark.parametrize(
    "give", [lambda x: None, lambda x: x[:1], lambda x: x[None], lambda x: x.astype(np.float64)]
)
@pytest.mark.parametrize("form", ["new", "view"])
def test_results_are_as_inferred(give: Callable[[Any], Any], form: str) -> None:
    """A result of one element was repeated, in place of none stood what the memory held, and
    native code read float64 as float32."""
    with pytest.raises(ValueError, match="is inferred"):
        bound(give, form=form)(X)


def test_results_of_unknown_size() -> None:
    assert bound(lambda x: x[:1], size=UNKNOWN)(X).shape == (1,)
    assert bound(lambda x, out: None, form="out")(X, X) is None
    assert bound(None) is None


def test_packages_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_plug_in.py").write_text("raise RuntimeError('boom')")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint("broken", "broken_plug_in", "pirkit.ops")
    with pytest.raises(UsageError, match="fails: RuntimeError: boom") as told:
        loaded(entry)
    assert told.value.code == "PK0710"


def test_functions_of_packages_that_raise() -> None:
    def extend(registry: object) -> None:
        raise KeyError("boom")

    with pytest.raises(UsageError, match="extend` fails: KeyError: 'boom'"):
        called(extend, None)

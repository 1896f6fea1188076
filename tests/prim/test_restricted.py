"""A device that has kernels for primitives, and for nothing else, runs every program of the corpus.

Operators without a kernel are decomposed while a program is lowered; a fallback to the CPU would
be a warning, which is an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pirkit.dialect.opdef import RANDOM, lookup, reference
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.frontend.cases import check_case
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.device import HostDevice
from pirkit.runtime.fallback import FALLBACKS, FallbackWarning
from pirkit.runtime.plan import Call, instructions
from pirkit.runtime.registry import KERNELS, Backend
from tests.execution import parsed

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CASES: Final = sorted(p for p in CORPUS.iterdir() if p.is_dir())
NAME: Final = "primitive"


class PrimitiveDevice(HostDevice):
    name = NAME


def kernel_of(rule: Callable[..., Any], is_random: bool) -> Callable[[Binding], Step]:
    """A kernel that computes what the rule states."""

    def bind(b: Binding) -> Step:
        attrs, generator = b.attrs, b.generator
        if is_random and generator is not None:
            return lambda *operands: rule(*operands, rng=generator(), **attrs)
        return lambda *operands: rule(*operands, **attrs)

    return bind


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    """The device, as a plug-in would add it; it is gone afterwards."""
    held = list(KERNELS.kernels())  # all are loaded
    assert {k.key.backend for k in held}.isdisjoint({NAME})
    with pytest.MonkeyPatch.context() as patch:
        for table in ("_devices", "_backends"):
            patch.setattr(KERNELS, table, {**getattr(KERNELS, table)})
        kernels = {slot: {**found} for slot, found in KERNELS._kernels.items()}
        patch.setattr(KERNELS, "_kernels", kernels)
        KERNELS.add_device(PrimitiveDevice())
        KERNELS.add_backend(Backend(NAME, NAME))
        for name in PRIMITIVES:
            definition = lookup(name)
            rule = reference.get(definition)
            if rule is not None:
                bind = kernel_of(rule, definition.effects == RANDOM)
                KERNELS.kernel(name, backend=NAME, dtypes=dt.ALL, form="new")(bind)
        yield


@pytest.mark.parametrize("source", ["main", "split"])
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_corpus_runs_on_kernels_of_primitives(case: Path, source: str) -> None:
    """Two steps, forward and backward: pirkit's own, and Paddle's with its gradient ops."""
    fallen = sum(FALLBACKS.values())
    report = check_case(case, source, pipeline="", backend=NAME)
    assert report.status == "pass", report.message
    assert sum(FALLBACKS.values()) == fallen


SILU = """pir.program @main(%x "x" : tensor<2xf32>) {
    %y = pd_op.silu(%x) : (tensor<2xf32>) -> tensor<2xf32>
    pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}"""


def test_the_device_has_primitives_only() -> None:
    library = KernelLibrary(NAME)
    assert {k.op for k in KERNELS.kernels(backend=NAME)} <= PRIMITIVES.keys()
    assert not library.is_native(lookup("pd_op.silu"))
    exe = compile(Program(parsed(SILU), {}, "<test>"), backend=NAME, pipeline="", fallback=False)
    calls = [i.kernel for i in instructions(exe.plan.body) if isinstance(i, Call)]
    assert calls == ["pd_op.sigmoid", "pd_op.multiply"]


def test_a_fallback_would_be_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = {k: v for k, v in KERNELS._kernels.items() if k[0] != "pd_op.sigmoid"}
    monkeypatch.setattr(KERNELS, "_kernels", kernels)
    monkeypatch.setattr("pirkit.lowering.legalize.decompose_op", lambda op, wanted: 0)
    exe = compile(Program(parsed(SILU), {}, "<test>"), backend=NAME, pipeline="")
    with pytest.raises(FallbackWarning, match="silu"):
        exe(x=np.ones(2, np.float32))

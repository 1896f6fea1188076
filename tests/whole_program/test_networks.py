"""Whole networks, as Paddle exports them, are one native call, and give what the rules give."""

from __future__ import annotations

import numpy as np
import pytest

import pirkit
from benchmarks.networks import NETWORKS


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_one_native_call(name: str) -> None:
    network = NETWORKS[name]
    built = network.build(batch=2, **network.small)
    exact = pirkit.compile(built.program, pipeline="", backend="reference").run(built.inputs)
    whole = pirkit.compile(built.program, fast_math=True)
    assert whole.native is not None, whole.reasons
    for found in (whole.run(built.inputs), pirkit.compile(built.program).run(built.inputs)):
        for key, wanted in exact.items():
            scale = float(np.abs(wanted).max())
            np.testing.assert_allclose(found[key], wanted, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v3", "squeezenet", "unet", "crnn"])
def test_a_frozen_network_gives_the_same(name: str) -> None:
    """With channels that fill blocks, batch norm in filters, and constants computed once."""
    network = NETWORKS[name]
    small = network.small | ({"width": 16} if "width" in network.small else {})
    built = network.build(batch=2, **small)
    exact = pirkit.compile(built.program, pipeline="", backend="reference").run(built.inputs)
    frozen = pirkit.compile(built.program, freeze=True)
    assert frozen.native is not None, frozen.reasons
    found = frozen.run(built.inputs)
    for key, wanted in exact.items():
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(found[key], wanted, rtol=1e-4, atol=1e-4 * scale)

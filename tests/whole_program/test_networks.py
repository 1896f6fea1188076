"""Whole networks, as Paddle exports them, are one native call, and give what the rules give."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import pirkit
from benchmarks.networks import NETWORKS
from benchmarks.networks.building import Net
from pirkit.frontend.freeze import freeze


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


@pytest.mark.parametrize(
    "name", ["resnet50", "mobilenet_v3", "squeezenet", "unet", "crnn", "seq2seq"]
)
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


def test_frozen_convolutions_with_groups() -> None:
    """Groups of whole blocks, parts of a block (the last one not full), and others, which are not
    in blocks.
    """
    net = Net()
    x = net.input("x", (2, 104, 9, 8))
    for channels, groups, stride in ((104, 13, 1), (96, 3, 2), (64, 4, 1), (64, 32, 1), (48, 2, 1)):
        x = net.b.relu(net.norm(net.conv(x, channels, 1)))
        x = net.b.relu(net.norm(net.conv(x, channels, 3, stride, groups=groups)))
    built = net.built(net.head(x, 5))
    exact = pirkit.compile(built.program, pipeline="", backend="reference").run(built.inputs)
    frozen = pirkit.compile(built.program, freeze=True)
    assert frozen.native is not None, frozen.reasons
    for key, found in frozen.run(built.inputs).items():
        scale = float(np.abs(exact[key]).max())
        np.testing.assert_allclose(found, exact[key], rtol=1e-4, atol=1e-4 * scale)


def test_frozen_norms_and_interpolation_in_blocks() -> None:
    """Groups within a block and over several, as an op and as ONNX writes them."""
    net = Net()
    b, x = net.b, net.input("x", (2, 3, 8, 10))
    for channels, groups in ((16, 4), (32, 2), (48, 48)):
        x = net.conv(x, channels, 3)
        y = b(
            "pd_op.group_norm", x, net.weight((channels,)), net.weight((channels,)), groups=groups
        )
        lines = b.reshape(y[0] * b.sigmoid(y[0]), (2, groups, -1))
        z = b("pd_op.instance_norm", lines, net.weight((groups,)), net.weight((groups,)))
        x = b.reshape(z[0], x.shape)
    for kind in ("bilinear", "nearest"):
        sizes = {"out_h": x.shape[2] * 2, "out_w": x.shape[3] * 2}
        x = b.relu(b(f"pd_op.{kind}_interp", x, None, None, None, interp_method=kind, **sizes))
    built = net.built(net.head(x, 5))
    exact = pirkit.compile(built.program, pipeline="", backend="reference").run(built.inputs)
    made, _ = freeze(built.program, None)
    assert not any(op.name.endswith(("instance_norm", "group_norm")) for op in made.module.walk())
    for key, found in pirkit.compile(built.program, freeze=True).run(built.inputs).items():
        scale = float(np.abs(exact[key]).max())
        np.testing.assert_allclose(found, exact[key], rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_computes_the_same(name: str) -> None:
    """The modules with which `benchmarks.models` measures torch."""
    torch = pytest.importorskip("torch")
    in_torch = import_module("benchmarks.networks.in_torch")
    built = NETWORKS[name].build(**NETWORKS[name].small)
    with torch.no_grad():
        found = in_torch.module_of(built)(*map(torch.from_numpy, built.inputs.values())).numpy()
    wanted = pirkit.compile(built.program, backend="reference").run(built.inputs)["y0"]
    scale = float(np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * scale)


LAYERS = {
    "LSTM, many steps": {"mode": "LSTM"},
    "two layers, both ways, lengths": {"mode": "GRU", "layers": 2, "ways": 2, "lengths": True},
    "relu": {"mode": "RNN_RELU", "ways": 2},
}


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_are_loops_of_one_native_call(name: str, freeze: bool) -> None:
    """So many steps that they are not written out; weights that are read from panels."""
    given = {"layers": 1, "ways": 1, "lengths": False, **LAYERS[name]}
    mode, layers, ways = given["mode"], given["layers"], given["ways"]
    net, steps, batch, hidden = Net(), 20, 3, 72
    gates = {"LSTM": 4, "GRU": 3}.get(mode, 1) * hidden
    x = net.input("x", (steps, batch, hidden))
    cells = layers * ways
    states = [net.weight((cells, batch, hidden)) for _ in range(1 + (mode == "LSTM"))]
    widths = [hidden * (ways if k >= ways else 1) for k in range(cells)]
    weights = [net.weight((gates, n), n) for width in widths for n in (width, hidden)]
    weights += [net.weight((gates,)) for _ in range(2 * cells)]
    lengths = net.input("lengths", (batch,), steps) if given["lengths"] else None
    found = net.b(
        "pd_op.rnn", x, states, weights, lengths, net.full(0.0), is_bidirec=ways == 2,
        input_size=hidden, hidden_size=hidden, num_layers=layers, mode=mode, is_test=True,
    )  # fmt: skip
    built = net.built(found[0], *net.b.split_vec(found[2]))
    made = pirkit.compile(built.program, freeze=freeze)
    assert made.native is not None, made.reasons
    assert len(made.native.steps) < 16 * cells + 12  # a loop, not a step after the other
    exact = pirkit.compile(built.program, pipeline="", backend="reference").run(built.inputs)
    for key, value in made.run(built.inputs).items():
        np.testing.assert_allclose(value, exact[key], rtol=1e-4, atol=1e-5)

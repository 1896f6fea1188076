"""Networks of attention, of dense layers and of recurrences."""

from __future__ import annotations

from typing import Any

from benchmarks.networks.building import Built, Net
from pirkit.runtime import dtype as dt


def _gelu(net: Net, x: Any) -> Any:
    return net.b.gelu(x, approximate=False)


def _dense(net: Net, x: Any, inner: int) -> Any:
    return net.linear(net.dropout(_gelu(net, net.linear(x, inner))), x.shape[-1])


def _first(net: Net, x: Any) -> Any:
    """The first element of each sequence."""
    ends = {"starts": net.ints(0), "ends": net.ints(1)}
    return net.b("pd_op.slice", x, **ends, axes=(1,), infer_flags=(1,), decrease_axis=(1,))


def bert(
    batch: int = 1, length: int = 128, width: int = 768, heads: int = 12, layers: int = 12,
    vocabulary: int = 30522,
) -> Built:  # fmt: skip
    net = Net()
    tokens = net.input("tokens", (batch, length), vocabulary)
    kinds = net.input("kinds", (batch, length), 2)
    ends = (net.full(v, dt.int64) for v in (0, length, 1))
    places = net.b(
        "pd_op.arange", **dict(zip(("start", "end", "step"), ends, strict=True)), dtype=dt.int64
    )
    x = net.embedding(tokens, vocabulary, width) + net.embedding(kinds, 2, width)
    x = net.dropout(net.layer_norm(x + net.embedding(places, length, width)))
    for _ in range(layers):
        x = net.layer_norm(x + net.dropout(net.attention(x, heads)))
        x = net.layer_norm(x + net.dropout(_dense(net, x, 4 * width)))
    return net.built(net.b.tanh(net.linear(_first(net, x), width)), x)


def _patches(net: Net, batch: int, size: int, patch: int, width: int) -> Any:
    x = net.input("x", (batch, 3, size, size))
    x = net.conv(x, width, patch, patch, 0, bias=True)
    x = net.b.flatten(x, start_axis=2, stop_axis=3)
    return net.b.transpose(x, perm=(0, 2, 1))


def vit(
    batch: int = 1, size: int = 224, patch: int = 16, width: int = 384, heads: int = 6,
    layers: int = 12, classes: int = 1000,
) -> Built:  # fmt: skip
    net = Net()
    x = _patches(net, batch, size, patch, width)
    one = net.b("pd_op.expand", net.weight((1, 1, width)), shape=net.ints(batch, -1, -1))
    x = net.concat([one, x])
    x = net.dropout(x + net.weight((1, x.shape[1], width)))
    for _ in range(layers):
        x = x + net.attention(net.layer_norm(x), heads)
        x = x + _dense(net, net.layer_norm(x), 4 * width)
    return net.built(net.linear(_first(net, net.layer_norm(x)), classes))


def mixer(
    batch: int = 1, size: int = 224, patch: int = 16, width: int = 512, layers: int = 8,
    classes: int = 1000,
) -> Built:  # fmt: skip
    net = Net()
    x = _patches(net, batch, size, patch, width)
    for _ in range(layers):
        y = net.b.transpose(net.layer_norm(x), perm=(0, 2, 1))
        x = x + net.b.transpose(_dense(net, y, width // 2), perm=(0, 2, 1))
        x = x + _dense(net, net.layer_norm(x), 4 * width)
    x = net.b("pd_op.mean", net.layer_norm(x), axis=(1,), keepdim=False)
    return net.built(net.linear(x, classes))


def seq2seq(batch: int = 1, length: int = 32, width: int = 256, vocabulary: int = 8000) -> Built:
    """An encoder and a decoder that is given what it should say, with attention between them."""
    net = Net()
    source, target = (net.input(n, (batch, length), vocabulary) for n in ("source", "target"))
    memory, y = (
        net.lstm(net.b.transpose(net.embedding(t, vocabulary, width), perm=(1, 0, 2)), width)
        for t in (source, target)
    )
    memory, y = (net.b.transpose(v, perm=(1, 0, 2)) for v in (memory, y))
    scores = net.b("pd_op.matmul", y, memory, transpose_x=False, transpose_y=True)
    found = net.b(
        "pd_op.matmul", net.b.softmax(scores, axis=-1), memory, transpose_x=False, transpose_y=False
    )
    return net.built(
        net.linear(net.b.tanh(net.linear(net.concat([y, found], 2), width)), vocabulary)
    )

"""Networks of attention, of dense layers and of recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def gpt_decode(
    capacity: int = 1024, width: int = 768, heads: int = 12, layers: int = 12,
    vocabulary: int = 50257, held: bool = True,
) -> Built:  # fmt: skip
    """One token of GPT-2: the logits after ``token`` at ``place``, and a cache of keys and values.

    If it is ``held``, the program writes the rows of the token to the caches, which are parameters.
    Otherwise caches are inputs, and the rows are outputs: whoever runs it writes them.
    """
    net = Net()
    b, size = net.b, width // heads
    token, place = net.input("token", (1,), vocabulary), net.input("place", (1,), capacity)
    ends = (net.full(v, dt.int64) for v in (0, capacity, 1))
    arange = ("start", "end", "step")
    places = b("pd_op.arange", **dict(zip(arange, ends, strict=True)), dtype=dt.int64)
    # beside the rows that came before, the present one is computed apart where it is not held
    seen = b.less_equal(places, place) if held else b.less_than(places, place)
    first = [net.full(v, dt.int64) for v in (0, heads * capacity, capacity)]
    starts = b("pd_op.arange", **dict(zip(arange, first, strict=True)), dtype=dt.int64)
    x = net.embedding(token, vocabulary, width) + net.embedding(place, capacity, width)
    rows: list[Any] = []
    for layer in range(layers):
        y = net.layer_norm(x)
        q, k, v = (net.linear(y, width) for _ in range(3))
        q, *new = (b("pd_op.reshape", t, shape=net.ints(heads, 1, size)) for t in (q, k, v))
        caches: list[Any] = []
        for name, row in zip(("keys", "values"), new, strict=True):
            if held:
                cache = net.parameter(np.zeros((heads * capacity, size), np.float32))
                flat = b("pd_op.reshape", row, shape=net.ints(heads, size))
                cache = b.scatter_(cache, starts + place, flat, overwrite=True)
                caches.append(b("pd_op.reshape", cache, shape=net.ints(heads, capacity, size)))
            else:
                caches.append(net.input(f"{name}{layer}", (heads, capacity, size)))
        x = x + net.linear(_attend(net, q, caches, new, seen, held), width)
        x = x + _dense(net, net.layer_norm(x), 4 * width)
        rows += new
    depth = width
    logits = net.b("pd_op.matmul", net.layer_norm(x), net.weight((depth, vocabulary), depth),
                   transpose_x=False, transpose_y=False)  # fmt: skip
    return net.built(logits, *([] if held else rows))


def _attend(net: Net, q: Any, caches: Any, new: Any, seen: Any, held: bool) -> Any:
    b, (heads, _, size) = net.b, q.shape
    product = {"transpose_x": False, "transpose_y": False}
    q = b.scale(q, scale=size**-0.5)
    scores = b("pd_op.matmul", q, caches[0], transpose_x=False, transpose_y=True)
    scores = b.where(seen, scores, net.full(-1e9))
    if held:
        y = b("pd_op.matmul", b.softmax(scores, axis=-1), caches[1], **product)
        return b("pd_op.reshape", y, shape=net.ints(1, heads * size))
    length = scores.shape[2]
    own = b("pd_op.matmul", q, new[0], transpose_x=False, transpose_y=True)
    weights = b.softmax(net.concat([scores, own], 2), axis=-1)
    parts = [b("pd_op.slice", weights, starts=net.ints(s), ends=net.ints(e), axes=(2,),
               infer_flags=(1,), decrease_axis=())
             for s, e in ((0, length), (length, length + 1))]  # fmt: skip
    y = b("pd_op.matmul", parts[0], caches[1], **product)
    y = y + b("pd_op.matmul", parts[1], new[1], **product)
    return b("pd_op.reshape", y, shape=net.ints(1, heads * size))

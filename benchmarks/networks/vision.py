"""Networks of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.networks.building import Built, Net

V2: Final = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Stages of MobileNet-v2: growth, channels, blocks, stride of the first."""

V3: Final = (
    (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
    (5, 96, 40, True, "hardswish", 2), (5, 240, 40, True, "hardswish", 1),
    (5, 240, 40, True, "hardswish", 1), (5, 120, 48, True, "hardswish", 1),
    (5, 144, 48, True, "hardswish", 1), (5, 288, 96, True, "hardswish", 2),
    (5, 576, 96, True, "hardswish", 1), (5, 576, 96, True, "hardswish", 1),
)  # fmt: skip
"""Blocks of MobileNet-v3 small: filter, inner channels, channels, squeeze, activation, stride."""


def _image(net: Net, batch: int, size: int) -> Any:
    return net.input("x", (batch, 3, size, size))


def _unit(net: Net, x: Any, out: int, size: Any = 1, stride: Any = 1, groups: int = 1,
          act: str = "relu", pad: Any = None) -> Any:  # fmt: skip
    """Convolution, batch norm, activation."""
    x = net.norm(net.conv(x, out, size, stride, pad, groups))
    return getattr(net.b, act)(x) if act else x


def _stem(net: Net, x: Any, width: int) -> Any:
    return net.pool(_unit(net, x, width, 7, 2), 3, 2, 1)


def _resnet(
    batch: int, size: int, width: int, classes: int, blocks: Sequence[int], wide: bool
) -> Built:
    net = Net()
    x = _stem(net, _image(net, batch, size), width)
    for phase, count in enumerate(blocks):
        inner = width << phase
        out = inner * (4 if wide else 1)
        for k in range(count):
            stride = 2 if phase and not k else 1
            if wide:
                y = _unit(net, _unit(net, _unit(net, x, inner), inner, 3, stride), out, act="")
            else:
                y = _unit(net, _unit(net, x, inner, 3, stride), inner, 3, act="")
            same = stride == 1 and x.shape[1] == out
            x = net.b.relu(y + (x if same else _unit(net, x, out, 1, stride, act="")))
    return net.built(net.head(x, classes))


def resnet18(batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000) -> Built:
    return _resnet(batch, size, width, classes, (2, 2, 2, 2), wide=False)


def resnet50(
    batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000,
    blocks: Sequence[int] = (3, 4, 6, 3),
) -> Built:  # fmt: skip
    return _resnet(batch, size, width, classes, blocks, wide=True)


def vgg16(batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000) -> Built:
    net = Net()
    x = _image(net, batch, size)
    for count, grown in ((2, 1), (2, 2), (3, 4), (3, 8), (3, 8)):
        for _ in range(count):
            x = net.b.relu(net.conv(x, width * grown, 3, bias=True))
        x = net.pool(x, 2, 2)
    x = net.b.flatten(x, start_axis=1, stop_axis=3)
    for _ in range(2):
        x = net.dropout(net.b.relu(net.linear(x, 64 * width)), 0.5)
    return net.built(net.linear(x, classes))


def mobilenet_v2(
    batch: int = 1, size: int = 224, width: int = 32, classes: int = 1000,
    stages: Sequence[Any] = V2,
) -> Built:  # fmt: skip
    net = Net()
    x = _unit(net, _image(net, batch, size), width, 3, 2, act="relu6")
    for growth, out, count, stride in stages:
        for k in range(count):
            inner, step = x.shape[1] * growth, 1 if k else stride
            y = _unit(net, x, inner, act="relu6") if growth > 1 else x
            y = _unit(net, y, inner, 3, step, inner, act="relu6")
            y = _unit(net, y, out, act="")
            x = x + y if step == 1 and x.shape[1] == out else y
    x = _unit(net, x, 40 * width, act="relu6")
    return net.built(net.linear(net.dropout(_flat(net, net.average(x)), 0.2), classes))


def _flat(net: Net, x: Any) -> Any:
    return net.b.flatten(x, start_axis=1, stop_axis=3)


def mobilenet_v3(
    batch: int = 1, size: int = 224, width: int = 16, classes: int = 1000,
    stages: Sequence[Any] = V3,
) -> Built:  # fmt: skip
    net = Net()
    x = _unit(net, _image(net, batch, size), width, 3, 2, act="hardswish")
    for filters, inner, out, squeezes, act, stride in stages:
        y = _unit(net, x, inner, act=act)
        y = _unit(net, y, inner, filters, stride, inner, act)
        if squeezes:
            s = net.b.relu(net.conv(net.average(y), max(inner // 4, 8), bias=True))
            y = y * net.b.hardsigmoid(net.conv(s, inner, bias=True), slope=1 / 6, offset=0.5)
        y = _unit(net, y, out, act="")
        x = x + y if stride == 1 and x.shape[1] == out else y
    x = _flat(net, net.average(_unit(net, x, 6 * x.shape[1], act="hardswish")))
    x = net.dropout(net.b.hardswish(net.linear(x, 64 * width)), 0.2)
    return net.built(net.linear(x, classes))


def _shuffled(net: Net, x: Any) -> Any:
    """Channels of two groups in turn."""
    n, c, h, w = x.shape
    x = net.b("pd_op.reshape", x, shape=net.ints(n, 2, c // 2, h, w))
    x = net.b.transpose(x, perm=(0, 2, 1, 3, 4))
    return net.b("pd_op.reshape", x, shape=net.ints(n, c, h, w))


def shufflenet(
    batch: int = 1, size: int = 224, width: int = 24, classes: int = 1000,
    repeats: Sequence[int] = (4, 8, 4),
) -> Built:  # fmt: skip
    net = Net()
    x = net.pool(_unit(net, _image(net, batch, size), width, 3, 2), 3, 2, 1)
    for phase, count in enumerate(repeats):
        half = 58 * width // 24 << phase
        for k in range(count):
            if k:
                parts = net.b("pd_op.split_with_num", x, axis=net.full(1, net.ints(0).dtype), num=2)
                left, right = net.b.split_vec(parts)
            else:
                left = _unit(net, x, x.shape[1], 3, 2, x.shape[1], act="")
                left, right = _unit(net, left, half), x
            right = _unit(net, right, half)
            right = _unit(net, right, half, 3, 1 if k else 2, half, act="")
            x = _shuffled(net, net.concat([left, _unit(net, right, half)]))
    return net.built(net.head(_unit(net, x, 1024 * width // 24), classes))


def squeezenet(batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000) -> Built:
    net = Net()
    relu = net.b.relu

    def fire(x: Any, out: int) -> Any:
        x = relu(net.conv(x, out // 4, bias=True))
        return net.concat([relu(net.conv(x, out, k, bias=True)) for k in (1, 3)])

    x = relu(net.conv(_image(net, batch, size), width, 3, 2, 0, bias=True))
    for phase in ((1, 1), (2, 2), (3, 3, 4, 4)):
        x = net.pool(x, 3, 2, ceil=True)
        for k in phase:
            x = fire(x, k * width)
    x = relu(net.conv(net.dropout(x, 0.5), classes, bias=True))
    return net.built(_flat(net, net.average(x)))


def googlenet(batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000) -> Built:
    net = Net()

    def inception(x: Any, *each: int) -> Any:
        a, b0, b1, c0, c1, d = (max(1, n * width // 64) for n in each)
        return net.concat([
            _unit(net, x, a), _unit(net, _unit(net, x, b0), b1, 3),
            _unit(net, _unit(net, x, c0), c1, 3), _unit(net, net.pool(x, 3, 1, 1), d),
        ])  # fmt: skip

    x = _stem(net, _image(net, batch, size), width)
    x = net.pool(_unit(net, _unit(net, x, width), 3 * width, 3), 3, 2, 0, ceil=True)
    x = inception(inception(x, 64, 96, 128, 16, 32, 32), 128, 128, 192, 32, 96, 64)
    x = net.pool(x, 3, 2, 0, ceil=True)
    for each in (
        (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
    ):  # fmt: skip
        x = inception(x, *each)
    x = net.pool(x, 2, 2, 0, ceil=True)
    x = inception(inception(x, 256, 160, 320, 32, 128, 128), 384, 192, 384, 48, 128, 128)
    return net.built(net.linear(net.dropout(_flat(net, net.average(x)), 0.2), classes))


def densenet(
    batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000,
    blocks: Sequence[int] = (6, 12, 24, 16),
) -> Built:  # fmt: skip
    net = Net()

    def before(x: Any, out: int, size: int = 1) -> Any:
        """Batch norm, activation, convolution."""
        return net.conv(net.b.relu(net.norm(x)), out, size)

    x = _stem(net, _image(net, batch, size), width)
    for phase, count in enumerate(blocks):
        x = net.pool(before(x, x.shape[1] // 2), 2, 2, kind="avg") if phase else x
        for _ in range(count):
            x = net.concat([x, before(before(x, 2 * width), width // 2, 3)])
    return net.built(net.head(net.b.relu(net.norm(x)), classes))


def unet(
    batch: int = 1, size: int = 256, width: int = 32, depth: int = 4, classes: int = 2
) -> Built:
    net = Net()

    def twice(x: Any, out: int) -> Any:
        return _unit(net, _unit(net, x, out, 3), out, 3)

    x, skipped = twice(_image(net, batch, size), width), list[Any]()
    for k in range(depth):
        skipped.append(x)
        x = twice(net.pool(x, 2, 2), width << (k + 1))
    for k, other in enumerate(reversed(skipped)):
        out = other.shape[1]
        if k:
            x = net.upconv(x, out)
        else:
            wide = {"out_d": -1, "out_h": -1, "out_w": -1, "scale": (2.0, 2.0)}
            how = {"interp_method": "bilinear", "align_corners": False, "align_mode": 0}
            x = net.b(
                "pd_op.bilinear_interp", x, None, None, None, data_format="NCHW", **wide, **how
            )
            x = net.conv(x, out, bias=True)
        x = twice(net.concat([other, x]), out)
    return net.built(net.conv(x, classes, bias=True))


def crnn(
    batch: int = 1, height: int = 32, length: int = 128, width: int = 64, classes: int = 100
) -> Built:
    net = Net()
    x = net.input("x", (batch, 3, height, length))
    for k in range(3):
        x = net.pool(_unit(net, x, width << k, 3), 2, 2)
    n, c, h, w = x.shape
    x = net.b("pd_op.reshape", x, shape=net.ints(n, c * h, w))
    x = net.lstm(net.b.transpose(x, perm=(2, 0, 1)), 4 * width, ways=2)
    return net.built(net.b.softmax(net.linear(x, classes), axis=-1))

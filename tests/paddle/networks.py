"""Layers of Paddle that the tests capture and train."""

# pyright: basic
from __future__ import annotations

import paddle
from paddle import nn


class Branching(nn.Layer):
    """An `if` and a `while` on data."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = paddle.tanh(self.first(x))
        if h.mean() > 0:
            h = h * 1.5
        else:
            h = h - 0.5
        i = paddle.zeros([1], "int64")
        while i < 3:
            h = paddle.tanh(self.again(h))
            i = i + 1
        return self.last(h)


class FromZeros(nn.Layer):
    """A cell in a `while`, whose state starts from zeros, and an `if` inside."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.GRUCell(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = total = paddle.zeros([x.shape[0], 8], x.dtype)
        i = paddle.zeros([1], "int64")
        while i < 5:
            _, h = self.cell(paddle.index_select(x, i, axis=1).squeeze(1), h)
            if h.mean() > 0:
                total = total + h
            else:
                total = total - 0.5 * h
            i = i + 1
        return self.last(total + h)


class Recurrent(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.last = nn.LSTM(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.last(y[:, -1])


class Encoder(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0)
        self.blocks, self.last = nn.TransformerEncoder(block, 2), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(self.blocks(x).mean(1))


class Normed(nn.Layer):
    """Batch norm, whose statistics the step updates in place; a result that is a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1D(8), nn.Linear(8, 3)

    def forward(self, x):
        h = self.norm(self.first(x))
        return {"logits": self.last(h), "hidden": [h, x], "count": 2}


class Configured(nn.Layer):
    """Reads a number, a list from around it, and the mode of a layer inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1D(8), nn.Linear(8, 3)
        self.act, self.scale = nn.LeakyReLU(0.1), 1.0

    def forward(self, x):
        return self.last(self.act(self.norm(self.first(x))) * self.scale + SHIFT[0])


SHIFT = [0.0]


class Scaled(paddle.autograd.PyLayer):
    """A product and a sum, whose derivatives are deliberately others."""

    @staticmethod
    def forward(ctx, x, y, factor=2.0):
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx, of_product, of_sum):
        x, y = ctx.saved_tensor()
        return of_product * y * ctx.factor * 0.5 + of_sum, of_product * x


class OwnDerivative(nn.Layer):
    """A custom layer in a branch and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = self.first(x)
        if h.mean() > -100:
            p, q = Scaled.apply(h, paddle.tanh(h), 3.0)
            h = paddle.tanh(p * q)
        i = paddle.zeros([1], "int32")
        while i < 2:
            p, q = Scaled.apply(h * 0.3, h)
            h = paddle.tanh(p + q)
            i = i + 1
        return self.last(h)


def lenet():
    return paddle.vision.models.LeNet(3)


def resnet18():
    return paddle.vision.models.resnet18(num_classes=3)


class Noisy(nn.Layer):
    """Dropout of elements, of attention and of channels, and noise."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.2)
        self.blocks, self.channels = nn.TransformerEncoder(block, 2), nn.Dropout2D(0.3)
        self.unscaled = nn.Dropout(0.3, mode="downscale_in_infer")
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        h = self.blocks(x + 0.1 * self.unscaled(paddle.randn(x.shape, x.dtype)))
        h = h + paddle.rand(h.shape, h.dtype)
        return self.last(self.channels(h.unsqueeze(-1)).squeeze(-1).mean(1))


class Collecting(nn.Layer):
    """Lists that a `while`, an `if` and a `while` in a `while` append to."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.GRUCell(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = paddle.zeros([x.shape[0], 8], x.dtype)
        i = paddle.zeros([], "int64")
        found = []
        while i < 4:
            inner = []
            j = paddle.zeros([], "int64")
            while j <= i:
                h, _ = self.cell(paddle.index_select(x, j.reshape([1]), axis=1).squeeze(1), h)
                inner.append(h)
                j = j + 1
            if h.mean() > 0:
                found.append(paddle.stack(inner, 0).mean(0) * h.detach())
            else:
                found.append(self.last(h).mean() * inner[-1])
            i = i + 1
        return self.last(paddle.stack(found, 1).sum(1) * found[1] + found[-1])


class LoopResult(nn.Layer):
    """What a `while` that begins with zeros finds is itself the result; half of it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x):
        h = total = paddle.zeros([x.shape[0], 3], x.dtype)
        i = paddle.zeros([1], "int64")
        while i < 5:
            _, h = self.cell(paddle.index_select(x, i, axis=1).squeeze(1), h)
            twice = h * 2
            total = total + h * twice.detach()
            i = i + 1
        return total


class Penalized(nn.Layer):
    """Tensors in a dict, a number, and a gradient with respect to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, tree, weight):
        x = (tree["left"] if "left" in tree else -tree["right"]).detach()
        x.stop_gradient = False
        y = self.net(x)
        slope = paddle.grad(y.sum(), x, create_graph=True)[0]
        return y + weight * (slope * slope).sum(1, keepdim=True)

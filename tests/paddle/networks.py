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


def lenet():
    return paddle.vision.models.LeNet(3)


def resnet18():
    return paddle.vision.models.resnet18(num_classes=3)

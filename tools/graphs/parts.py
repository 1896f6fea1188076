"""How parts of models are declared: a function of named layers, and what makes its arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from graphs.plain_models import Of

MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}
L = nn.Linear
R = torch.randn


def part(*args: Callable[[], Any], **layers: Callable[[], Any]) -> Any:
    """Declare a function of a module and tensors: what makes its arguments, and its layers."""

    def declare(call: Any) -> Any:
        MODELS[call.__name__] = lambda: (
            Of(call, **{name: make() for name, make in layers.items()}),
            tuple([make() for make in args]),
        )
        return call

    return declare


def rand(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: R(*shape)


def ids(high: int, *shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, high, shape)


def lin(inner: int, outer: int) -> Callable[[], nn.Module]:
    return lambda: L(inner, outer)


def mlp(*sizes: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers = [L(a, b) for a, b in itertools.pairwise(sizes)]
        return nn.Sequential(*[m for x in layers for m in (x, nn.ReLU())][:-1])

    return make


def table(count: int, width: int) -> Callable[[], nn.Module]:
    return lambda: nn.Embedding(count, width)


def weight(*shape: int) -> Callable[[], nn.Parameter]:
    return lambda: nn.Parameter(R(*shape) / shape[0] ** 0.5)

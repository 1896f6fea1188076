"""Networks as Paddle exports them, with random weights; sizes are arguments.

``NETWORKS`` has a function of each: called with its defaults it builds the published network, and
`small` has the arguments of one that a test runs in a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.networks import sequences, vision
from benchmarks.networks.building import Built


@dataclass(frozen=True)
class Network:
    """A function that builds a network, and arguments that make it small."""

    build: Callable[..., Built]
    small: dict[str, Any] = field(default_factory=dict[str, Any])


_TINY: Final = {"size": 32, "width": 8, "classes": 10}

NETWORKS: Final = {
    "resnet18": Network(vision.resnet18, _TINY),
    "resnet50": Network(vision.resnet50, {**_TINY, "blocks": (1, 1, 1, 1)}),
    "vgg16": Network(vision.vgg16, _TINY),
    "mobilenet_v2": Network(vision.mobilenet_v2, {**_TINY, "stages": vision.V2[:3]}),
    "mobilenet_v3": Network(vision.mobilenet_v3, {**_TINY, "stages": vision.V3[:4]}),
    "shufflenet": Network(vision.shufflenet, {**_TINY, "repeats": (2, 2)}),
    "squeezenet": Network(vision.squeezenet, {**_TINY, "size": 64}),
    "googlenet": Network(vision.googlenet, {**_TINY, "size": 64}),
    "densenet": Network(vision.densenet, {**_TINY, "blocks": (2, 2)}),
    "unet": Network(vision.unet, {"size": 24, "width": 4, "depth": 2}),
    "crnn": Network(vision.crnn, {"height": 16, "length": 32, "width": 4, "classes": 11}),
    "bert": Network(sequences.bert, {"length": 7, "width": 16, "heads": 2, "layers": 2,
                                     "vocabulary": 31}),
    "vit": Network(sequences.vit, {"size": 16, "patch": 8, "width": 16, "heads": 2, "layers": 2,
                                   "classes": 5}),
    "mixer": Network(sequences.mixer, {"size": 16, "patch": 8, "width": 16, "layers": 2,
                                       "classes": 5}),
    "seq2seq": Network(sequences.seq2seq, {"length": 5, "width": 8, "vocabulary": 13}),
}  # fmt: skip

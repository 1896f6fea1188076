"""Inference by a convolutional network, beside torch's own.

Needs torch: ``python examples/torch_inference.py``.
"""

from __future__ import annotations

import torch
from torch import nn

import pirkit.torch


def main() -> float:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    ).eval()  # fmt: skip
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        compiled = torch.compile(model, backend="pirkit")
        gap = (compiled(images) - model(images)).abs().max()
        print(pirkit.torch.explain(model, images))
    return float(gap)


if __name__ == "__main__":
    print(f"largest difference from torch: {main():.1e}")

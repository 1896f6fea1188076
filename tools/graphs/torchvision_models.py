"""One small model of each family of torchvision, with the size of its images and options."""

from __future__ import annotations

from typing import Any

import torch

from graphs.torchvision_ops import declare

MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "alexnet": (64, {}),
    "vgg11_bn": (32, {}),
    "resnet34": (64, {}),
    "resnext50_32x4d": (64, {}),
    "wide_resnet50_2": (64, {}),
    "squeezenet1_1": (64, {}),
    "densenet161": (64, {}),
    "googlenet": (64, {"aux_logits": False, "init_weights": False}),
    "mobilenet_v2": (64, {}),
    "mobilenet_v3_large": (64, {}),
    "mnasnet0_5": (64, {}),
    "shufflenet_v2_x0_5": (64, {}),
    "efficientnet_b1": (64, {}),
    "efficientnet_v2_s": (64, {}),
    "regnet_y_400mf": (64, {}),
    "regnet_x_400mf": (64, {}),
    "convnext_tiny": (64, {}),
    "vit_b_32": (64, {"image_size": 64}),
    "swin_t": (64, {}),
    "swin_v2_t": (64, {}),
    "segmentation.fcn_resnet50": (64, {"weights_backbone": None}),
    "segmentation.deeplabv3_mobilenet_v3_large": (64, {"weights_backbone": None}),
    "segmentation.lraspp_mobilenet_v3_large": (64, {"weights_backbone": None}),
    "video.r2plus1d_18": (32, {}),
    "video.mc3_18": (32, {}),
    "video.s3d": (64, {}),
    "optical_flow.raft_small": (128, {}),
}  # fmt: skip


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model with random weights, two images (or a clip, or a pair), no options of the call."""
    declare()
    from torchvision import models  # noqa: PLC0415  optional

    size, options = MODELS[name]
    folder, _, function = name.rpartition(".")
    make = getattr(getattr(models, folder) if folder else models, function)
    if folder == "optical_flow":
        pair = torch.randn(1, 3, size, size), torch.randn(1, 3, size, size)
        return make(weights=None), pair, {"num_flow_updates": 2}
    model = make(weights=None, num_classes=10, **options)
    frames = (16,) if folder == "video" else ()
    return model, (torch.randn(2, 3, *frames, size, size),), {}

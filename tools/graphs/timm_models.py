"""One small model of each family of timm, with the size of its images and options."""

from __future__ import annotations

from typing import Any

import torch

from graphs.torchvision_ops import declare

MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "beit_base_patch16_224": (64, {"img_size": 64, "depth": 2, "embed_dim": 96, "num_heads": 3}),
    "bat_resnext26ts": (256, {}),
    "cait_xxs24_224": (64, {"img_size": 64, "depth": 3}),
    "coat_lite_tiny": (64, {"img_size": 64}),
    "coatnet_nano_rw_224": (64, {"img_size": 64}),
    "convit_tiny": (64, {"img_size": 64, "depth": 4}),
    "convnext_atto": (64, {}),
    "convnextv2_atto": (64, {}),
    "cs3darknet_s": (64, {}),
    "darknet17": (64, {}),
    "davit_tiny": (56, {"depths": (1, 1, 2, 1)}),
    "deit_tiny_distilled_patch16_224": (64, {"img_size": 64, "depth": 4}),
    "densenet121": (64, {"block_config": (2, 3, 3, 2)}),
    "dla46_c": (64, {}),
    "dpn48b": (64, {}),
    "edgenext_xx_small": (64, {}),
    "efficientnet_b0": (64, {}),
    "efficientvit_b0": (64, {}),
    "efficientvit_m0": (224, {}),
    "ese_vovnet19b_slim_dw": (64, {}),
    "eva02_tiny_patch14_224": (56, {"img_size": 56, "depth": 3}),
    "fasternet_t0": (64, {}),
    "fastvit_t8": (64, {}),
    "ghostnet_050": (64, {}),
    "gmixer_12_224": (64, {"img_size": 64}),
    "gmlp_ti16_224": (64, {"img_size": 64}),
    "hgnetv2_b0": (64, {}),
    "hiera_tiny_224": (64, {"img_size": 64, "stages": (1, 1, 2, 1)}),
    "hrnet_w18_small": (64, {}),
    "iformer_t": (64, {}),
    "inception_next_atto": (64, {}),
    "inception_v3": (96, {}),
    "lcnet_050": (64, {}),
    "mambaout_femto": (64, {}),
    "maxvit_pico_rw_256": (64, {"img_size": 64}),
    "mixer_s32_224": (64, {"img_size": 64}),
    "mixnet_s": (64, {}),
    "mobilenetv2_050": (64, {}),
    "mobilenetv3_small_100": (64, {}),
    "mobilenetv4_conv_small_050": (64, {}),
    "mobileone_s0": (64, {}),
    "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),
    "nf_regnet_b0": (64, {}),
    "pit_ti_224": (64, {"img_size": 64}),
    "poolformer_s12": (64, {}),
    "pvt_v2_b0": (64, {}),
    "regnetx_002": (64, {}),
    "regnety_002": (64, {}),
    "repvgg_a0": (64, {}),
    "repvit_m0_9": (64, {}),
    "resmlp_12_224": (64, {"img_size": 64}),
    "resnest14d": (64, {}),
    "resnet18": (64, {}),
    "rexnet_100": (64, {}),
    "shvit_s1": (128, {}),
    "skresnet18": (64, {}),
    "starnet_s050": (64, {}),
    "swinv2_tiny_window8_256": (64, {"img_size": 64, "window_size": 4, "depths": (1, 1, 1, 1)}),
    "tnt_s_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "tresnet_m": (64, {"layers": (1, 1, 2, 1)}),
    "twins_pcpvt_small": (64, {"img_size": 64, "depths": (1, 1, 2, 1)}),
    "visformer_tiny": (64, {"img_size": 64}),
    "vit_relpos_small_patch16_224": (64, {"img_size": 64, "depth": 3}),
    "xcit_nano_12_p8_224": (64, {"img_size": 64, "depth": 3}),
    "xception41": (64, {}),
}  # fmt: skip


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model with random weights for ten classes, two images, no options of the call."""
    declare()
    import timm  # noqa: PLC0415  optional

    size, options = MODELS[name]
    model = timm.create_model(name, pretrained=False, num_classes=10, **options)
    return model, (torch.randn(2, 3, size, size),), {}

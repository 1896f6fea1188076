"""Small configurations of models of transformers, with arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphs.torchvision_ops import declare

SMALL: dict[str, Any] = {
    "hidden_size": 128, "d_model": 128, "dim": 128, "embed_dim": 128, "embedding_size": 128,
    "num_hidden_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "n_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_heads": 4, "n_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "intermediate_size": 256, "hidden_dim": 256, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256,
    "d_ff": 256, "d_kv": 32, "head_dim": 32, "vocab_size": 300, "max_position_embeddings": 128,
    "image_size": 64, "patch_size": 16, "layerdrop": 0.0, "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "num_experts": 4, "num_local_experts": 4,
    "moe_intermediate_size": 64, "type_vocab_size": 2, "conv_dim": (64, 64, 64),
    "conv_kernel": (10, 3, 3), "conv_stride": (5, 2, 2), "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
}  # fmt: skip
"""What a configuration becomes, as far as it has an attribute of that name."""

TOWERS = {
    "text_config": {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 300, "eos_token_id": 2, "projection_dim": 64,
        "max_position_embeddings": 64,
    },
    "vision_config": {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "image_size": 64, "patch_size": 16, "projection_dim": 64,
    },
    "projection_dim": 64,
}  # fmt: skip
STAGES = {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]}


def _ids(length: int = 32) -> torch.Tensor:
    return torch.randint(3, 300, (2, length))


def _image() -> torch.Tensor:
    return torch.randn(2, 3, 64, 64)


INPUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "text": lambda: {"input_ids": _ids()},
    "masked": lambda: {
        "input_ids": _ids(), "attention_mask": (torch.arange(32) < 20).long().repeat(2, 1)},
    "long": lambda: {"input_ids": _ids(64)},
    "pair": lambda: {"input_ids": _ids(), "decoder_input_ids": _ids(16)},
    "image": lambda: {"pixel_values": _image()},
    "towers": lambda: {"input_ids": _ids(16), "pixel_values": _image()},
    "wave": lambda: {"input_values": torch.randn(1, 4000)},
    "mel": lambda: {
        "input_features": torch.randn(1, 80, 64), "decoder_input_ids": _ids(8)[:1]},
    "spectrum": lambda: {"input_values": torch.randn(1, 64, 64)},
    "video": lambda: {"pixel_values": torch.randn(1, 4, 3, 64, 64)},
    "series": lambda: {
        "past_values": torch.randn(2, 18), "past_time_features": torch.randn(2, 18, 2),
        "past_observed_mask": torch.ones(2, 18), "future_values": torch.randn(2, 8),
        "future_time_features": torch.randn(2, 8, 2)},
    "acts": lambda: {
        "states": torch.randn(2, 10, 5), "actions": torch.randn(2, 10, 3),
        "rewards": torch.randn(2, 10, 1), "returns_to_go": torch.randn(2, 10, 1),
        "timesteps": torch.arange(10).repeat(2, 1)},
    "steps": lambda: {
        "past_values": torch.randn(2, 64, 3)},
}  # fmt: skip

BLOCKS = {"hidden_sizes": [16, 32, 64, 64], "num_attention_heads": [1, 2, 4, 4]}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: ("text", {})
        for name in (
            "bert distilbert electra mobilebert squeezebert convbert roformer "
            "nystromformer fnet mpnet ibert "
            "gpt2 gpt_neox opt bloom mpt "
            "llama mistral qwen2 qwen3 gemma gemma2 phi phi3 stablelm "
            "cohere glm persimmon mixtral "
            "ctrl xglm openai-gpt esm modernbert rwkv "
            "olmo2 granite starcoder2 nemotron biogpt xlm layoutlm rembert "
            "megatron-bert roc_bert camembert cohere2 helium bitnet smollm3"
        ).split()
    },
    "big_bird": ("long", {"attention_type": "block_sparse", "block_size": 4,
                          "num_random_blocks": 1}),
    "codegen": ("text", {"rotary_dim": 16, "n_ctx": 128, "n_head": 4}),
    "git": ("text", {"vision_config": TOWERS["vision_config"]}),
    "time_series_transformer": ("series", {"prediction_length": 8, "context_length": 16,
                                           "lags_sequence": [1, 2], "num_time_features": 2,
                                           "input_size": 1}),
    "autoformer": ("series", {"prediction_length": 8, "context_length": 16,
                              "lags_sequence": [1, 2], "num_time_features": 2, "input_size": 1,
                              "moving_average": 5}),
    "informer": ("series", {"prediction_length": 8, "context_length": 16,
                            "lags_sequence": [1, 2], "num_time_features": 2, "input_size": 1}),
    "decision_transformer": ("acts", {"state_dim": 5, "act_dim": 3, "n_layer": 2, "n_head": 4}),
    "gptj": ("text", {"rotary_dim": 16}), 
    "falcon": ("text", {"head_dim": ...}),
    "olmoe": ("text", {"num_experts_per_tok": 2}),
    "mamba": ("text", {"conv_kernel": 4, "state_size": 8, "intermediate_size": 256}),
    "roberta": ("masked", {}),
    "albert": ("text", {"embedding_size": 64}),
    "deberta": ("masked", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta-v2": ("masked", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "gpt_neo": ("text", {"attention_types": [[["global", "local"], 1]], "window_size": 16}),
    "gemma3_text": ("text", {"layer_types": ["sliding_attention", "full_attention"]}),
    "gpt_oss": ("text", {"layer_types": ["sliding_attention", "full_attention"]}),
    "mamba2": ("text", {"conv_kernel": 4, "state_size": 16, "n_groups": 1, "num_heads": 8,
                        "head_dim": 32, "chunk_size": 16}),
    "deepseek_v3": ("text", {
        "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2,
        "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16,
        "v_head_dim": 16, "head_dim": 16, "first_k_dense_replace": 1, "num_key_value_heads": 4}),
    "longformer": ("long", {"attention_window": 16}),
    "led": ("pair", {"attention_window": 16}),
    "xlnet": ("text", {
        "d_inner": 256, "n_layer": 2, "n_head": 4, "max_position_embeddings": ...}),
    "reformer": ("long", {
        "attention_head_size": 32, "axial_pos_shape": [8, 8], "axial_pos_embds_dim": [64, 64],
        "attn_layers": ["local", "local"], "local_attn_chunk_length": 16}),
    "canine": ("long", {}),
    **{name: ("pair", {}) for name in (
        "t5 mt5 longt5 switch_transformers bart pegasus pegasus_x marian "
        "").split()},
    **{name: ("image", {}) for name in (
        "vit deit beit dinov2 vit_mae "
        "ijepa dinov2_with_registers siglip_vision_model vit_msn").split()},
    "swinv2": ("image", {
        "embed_dim": 32, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4,
        "patch_size": 4, "num_attention_heads": ..., "num_hidden_layers": ...}),
    "focalnet": ("image", {"embed_dim": 32, "depths": [1, 1], "focal_levels": [2, 2],
                           "focal_windows": [3, 3], "hidden_sizes": [32, 64], "patch_size": 4}),
    "glpn": ("image", {**BLOCKS, "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 4, 4]}),
    "poolformer": ("image", {"hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1],
                             "patch_size": ...}),
    "mobilenet_v1": ("image", {"depth_multiplier": 0.25}),
    "mobilenet_v2": ("image", {"depth_multiplier": 0.25}),
    "levit": ("image", {"hidden_sizes": [64, 96, 128], "num_attention_heads": [2, 3, 4],
                        "depths": [1, 1, 1], "key_dim": [16, 16, 16], "patch_size": 16}),
    "prophetnet": ("pair", {
        "num_hidden_layers": ..., "num_encoder_layers": 2, "num_decoder_layers": 2,
        "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4}),
    "yolos": ("image", {"image_size": [64, 64], "num_detection_tokens": 10}),
    "imagegpt": ("text", {}),
    "resnet": ("image", {**STAGES, "embedding_size": 32, "layer_type": "basic"}),
    "regnet": ("image", {**STAGES, "embedding_size": 32, "groups_width": 16}),
    "swin": ("image", {
        "embed_dim": 32, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4,
        "patch_size": 4, "num_attention_heads": ..., "num_hidden_layers": ...}),
    "mobilevit": ("image", {"patch_size": 2}),
    "segformer": ("image", {**BLOCKS, "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 4, 4]}),
    "pvt": ("image", {**BLOCKS, "depths": [1, 1, 1, 1]}),
    "dpt": ("image", {"backbone_out_indices": [0, 0, 1, 1], "neck_hidden_sizes": [32] * 4,
                      "fusion_hidden_size": 32, "is_hybrid": False}),
    "detr": ("image", {"use_timm_backbone": False, "use_pretrained_backbone": False,
                       "num_queries": 10, "backbone": None, "backbone_config": None}),
    "sam_vision_model": ("image", {"window_size": 2, "output_channels": 32,
                                   "global_attn_indexes": [1]}),
    "clip": ("towers", TOWERS), "altclip": ("towers", TOWERS),
    "blip": ("towers", TOWERS),
    "vilt": ("towers", {}),
    "whisper": ("mel", {"max_source_positions": 32}),
    **{name: ("wave", {"hidden_size": 64}) for name in (
        "wav2vec2 hubert wavlm unispeech sew wav2vec2-conformer data2vec-audio "
        "unispeech-sat").split()},
    "vits": ("text", {"hidden_size": 64, "ffn_dim": 64, "flow_size": 32,
                      "spectrogram_bins": 33, "upsample_initial_channel": 64}),
    "audio-spectrogram-transformer": ("spectrum", {
        "max_length": 64, "num_mel_bins": 64}),
    "videomae": ("video", {"num_frames": 4}),
    "vivit": ("video", {"num_frames": 4, "tubelet_size": [2, 16, 16]}),
    "timesformer": ("video", {"num_frames": 4}),
    "patchtst": ("steps", {"context_length": 64, "num_input_channels": 3, "patch_length": 8,
                           "patch_stride": 8}),
    "patchtsmixer": ("steps", {"context_length": 64, "num_input_channels": 3,
                               "patch_length": 8, "patch_stride": 8}),
}  # fmt: skip


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model with random weights, no positional arguments, arguments by name."""
    declare()
    from transformers import AutoConfig, AutoModel  # noqa: PLC0415  optional

    kind, options = MODELS[name]
    given: Any = AutoConfig.for_model(name)
    small = {k: v for k, v in SMALL.items() if hasattr(given, k)}
    if "hidden_sizes" in options:
        small.pop("hidden_size", None)
    chosen = {k: v for k, v in {**small, **options}.items() if v is not ...}
    config: Any = AutoConfig.for_model(name, **chosen)
    config.return_dict = True
    return AutoModel.from_config(config), (), INPUTS[kind]()

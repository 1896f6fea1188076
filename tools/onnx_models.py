"""Compare models that torch exports with ONNX Runtime: read, run, frozen, and written again.

``python tools/onnx_models.py [NAME...] [--opset N]`` prints a row a model. It needs torch,
transformers, onnx and onnxruntime; the models have random weights and small sizes.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

import pirkit
from pirkit.onnx import model_of_program, program_of_model

try:
    import torchvision  # noqa: F401
except (ImportError, RuntimeError):  # one built for another torch, which breaks transformers
    sys.modules["torchvision"] = None  # type: ignore[assignment]
import transformers as tf

IMAGE = {"image_size": 64}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64}  # fmt: skip
TEXT = {**SMALL, "vocab_size": 99, "max_position_embeddings": 64, "pad_token_id": 0}


class First(nn.Module):
    """The first result of a model of images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.model(pixels)[0]


def image(cls: Any, config: Any, size: int = 64) -> Any:
    return First(cls(config)), (torch.randn(2, 3, size, size),)


class Encoder(nn.Module):
    """A model of text without its mask, as many exporters make it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]


def text(cls: Any, config: Any) -> Any:
    config._attn_implementation = "eager"
    config.use_cache = False
    return Encoder(cls(config)), (torch.randint(1, 98, (2, 12)),)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down(x)
        b = nn.functional.interpolate(self.mid(a), scale_factor=2, mode="bilinear")
        return self.out(torch.cat([a, self.up(b[..., ::2, ::2])], 1))


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cell, self.head = kind(8, 16, 2, bidirectional=True), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x)[0]).log_softmax(-1)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 8, 8)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))
        self.tokens = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.channels = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        for i in range(2):
            x = x + nn.functional.gelu(
                self.tokens[i](self.norms[2 * i](x).transpose(1, 2))
            ).transpose(1, 2)
            x = x + nn.functional.gelu(self.channels[i](self.norms[2 * i + 1](x)))
        return x.mean(1)


MODELS: dict[str, Any] = {
    "mlp": lambda: (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)),
                    (torch.randn(8, 16),)),
    "lenet": lambda: (nn.Sequential(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2),
                                    nn.Conv2d(6, 16, 5), nn.Tanh(), nn.MaxPool2d(2),
                                    nn.Flatten(), nn.Linear(256, 10)),
                      (torch.randn(2, 1, 28, 28),)),
    "unet": lambda: (Unet(), (torch.randn(2, 3, 32, 32),)),
    "lstm": lambda: (Recurrent(nn.LSTM), (torch.randn(7, 2, 8),)),
    "gru": lambda: (Recurrent(nn.GRU), (torch.randn(7, 2, 8),)),
    "mixer": lambda: (Mixer(), (torch.randn(2, 3, 64, 64),)),
    "resnet": lambda: image(tf.ResNetModel, tf.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic")),
    "resnet_bottleneck": lambda: image(tf.ResNetModel, tf.ResNetConfig(
        embedding_size=16, hidden_sizes=[32, 64], depths=[1, 2])),
    "regnet": lambda: image(tf.RegNetModel, tf.RegNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8)),
    "mobilenet_v1": lambda: image(tf.MobileNetV1Model, tf.MobileNetV1Config(
        depth_multiplier=0.25, **IMAGE)),
    "mobilenet_v2": lambda: image(tf.MobileNetV2Model, tf.MobileNetV2Config(
        depth_multiplier=0.25, **IMAGE)),
    "efficientnet": lambda: image(tf.EfficientNetModel, tf.EfficientNetConfig(
        width_coefficient=0.3, depth_coefficient=0.3, hidden_dim=384, **IMAGE)),
    "convnext": lambda: image(tf.ConvNextModel, tf.ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])),
    "poolformer": lambda: image(tf.PoolFormerModel, tf.PoolFormerConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
    "vit": lambda: image(tf.ViTModel, tf.ViTConfig(
        patch_size=16, attn_implementation="eager", **IMAGE, **SMALL)),
    "deit": lambda: image(tf.DeiTModel, tf.DeiTConfig(
        patch_size=16, attn_implementation="eager", **IMAGE, **SMALL)),
    "dinov2": lambda: image(tf.Dinov2Model, tf.Dinov2Config(
        patch_size=16, attn_implementation="eager", hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, **IMAGE)),
    "segformer": lambda: image(tf.SegformerModel, tf.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4])),
    "swin": lambda: image(tf.SwinModel, tf.SwinConfig(
        patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, **IMAGE)),
    "bert": lambda: text(tf.BertModel, tf.BertConfig(**TEXT)),
    "roberta": lambda: text(tf.RobertaModel, tf.RobertaConfig(**TEXT)),
    "distilbert": lambda: text(tf.DistilBertModel, tf.DistilBertConfig(
        vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64)),
    "albert": lambda: text(tf.AlbertModel, tf.AlbertConfig(embedding_size=16, **TEXT)),
    "electra": lambda: text(tf.ElectraModel, tf.ElectraConfig(embedding_size=16, **TEXT)),
    "gpt2": lambda: text(tf.GPT2Model, tf.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "opt": lambda: text(tf.OPTModel, tf.OPTConfig(
        ffn_dim=64, word_embed_proj_dim=32, **TEXT)),
    "llama": lambda: text(tf.LlamaModel, tf.LlamaConfig(num_key_value_heads=2, **TEXT)),
}  # fmt: skip


def exported(model: nn.Module, inputs: tuple[Any, ...], opset: int) -> Any:
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.3)
            module.running_var.uniform_(0.5, 2.0)
    file = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(model, inputs, file, dynamo=False, opset_version=opset)
    return onnx.load_model_from_string(file.getvalue())


def differs(found: list[Any], wanted: list[Any]) -> float:
    """The largest difference, relative to the largest element."""
    return max(
        float(np.abs(f - w).max()) / max(float(np.abs(w).max()), 1e-6)
        for f, w in zip(found, wanted, strict=True)
    )


def compare(name: str, opset: int) -> str:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    proto = exported(model, inputs, opset)
    arrays = {i.name: v.numpy() for i, v in zip(proto.graph.input, inputs, strict=True)}
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, arrays)
    start = time.process_time()
    program = program_of_model(proto)
    read = time.process_time() - start
    plain = list(pirkit.compile(program).run(arrays).values())
    frozen = list(pirkit.compile(program, freeze=True).run(arrays).values())
    try:
        written = model_of_program(program)
        session = onnxruntime.InferenceSession(written.SerializeToString())
        again = f"{differs(session.run(None, arrays), wanted):.1e}"
    except pirkit.PirkitError as error:
        again = str(error)[:60]
    ops = len(list(program.main.block.ops))
    close = f"{differs(plain, wanted):.1e} | {differs(frozen, wanted):.1e} | {again}"
    return f"| {name} | {len(proto.graph.node)} | {ops} | {read:.2f} | {close} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--opset", type=int, default=17)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| model | nodes | ops | read, s | pirkit | frozen | written |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.names:
        try:
            print(compare(name, arguments.opset), flush=True)
        except Exception as error:  # a model that fails is a row of the table
            told = str(error).partition("\n")[0][:120]
            print(f"| {name} | {type(error).__name__}: {told} |", flush=True)


if __name__ == "__main__":
    main()

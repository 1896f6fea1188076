"""Models of torch: seconds to compile and time of a call, eager, with inductor and with pirkit.

``python -m benchmarks.torch_models [names] [--train] [--backends pirkit,inductor] [--rounds N]``

CPU seconds of one process on one thread, compilers that it starts included, caches empty. Calls
are interleaved, and the median counts. Models from transformers or timm are left out where these
are not installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PIRKIT_NATIVE_CACHE", "off")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())

import torch
from torch import nn

import pirkit.torch  # noqa: F401  registers the backend

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def mlp() -> Made:
    layers = [nn.Linear(20, 20) if i else nn.Linear(3, 20) for i in range(3)]
    model = nn.Sequential(*[m for layer in layers for m in (layer, nn.Tanh())], nn.Linear(20, 1))
    return model, (torch.randn(256, 3),), {}


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.body(x)).relu()


def resnet() -> Made:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *[_Block(32) for _ in range(3)], nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    return model, (torch.randn(4, 3, 32, 32),), {}


def encoder() -> Made:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    return (
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        (torch.randn(4, 32, 128),),
        {},
    )


def bert() -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512,
        vocab_size=1000, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config), (), {"input_ids": torch.randint(0, 1000, (2, 64))}


def llama() -> Made:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256,
        vocab_size=1000,
    )  # fmt: skip
    return (
        LlamaModel(config),
        (),
        {"input_ids": torch.randint(0, 1000, (2, 64)), "use_cache": False},
    )


def gpt2() -> Made:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_embd=128, n_layer=4, n_head=4, vocab_size=1000, n_positions=64, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2Model(config), (), {"input_ids": torch.randint(0, 1000, (2, 64)), "use_cache": False}


def _image_model(name: str, size: int, **options: Any) -> Made:
    import timm

    return timm.create_model(name, num_classes=10, **options), (torch.randn(4, 3, size, size),), {}


def vit() -> Made:
    return _image_model("vit_tiny_patch16_224", 64, img_size=64, depth=4)


def convnext() -> Made:
    return _image_model("convnext_tiny", 64, depths=(1, 1, 2, 1), dims=(32, 64, 96, 128))


def swin() -> Made:
    return _image_model(
        "swin_tiny_patch4_window7_224", 56, img_size=56, depths=(2, 2), num_heads=(2, 4),
        embed_dim=48,
    )  # fmt: skip


def mobilenet() -> Made:
    return _image_model("mobilenetv3_small_100", 64)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.pair(3, 16), self.pair(16, 32), self.pair(32, 64)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)]
        )
        self.join = nn.ModuleList([self.pair(64, 32), self.pair(32, 16)])
        self.last = nn.Conv2d(16, 1, 1)

    @staticmethod
    def pair(inner: int, outer: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
            nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held: list[torch.Tensor] = []
        for level, pair in enumerate(self.down):
            x = pair(nn.functional.max_pool2d(x, 2) if level else x)
            held.append(x)
        for up, join, skip in zip(self.up, self.join, held[-2::-1], strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.last(x)


def unet() -> Made:
    return _UNet(), (torch.randn(2, 3, 64, 64),), {}


class _GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(64, 32), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            sent = self.message(torch.cat([x[source], x[target]], 1)).relu()
            got = torch.zeros_like(x).index_add(0, target, sent)
            x = self.update(torch.cat([x, got], 1)).tanh()
        return x


def graphnet() -> Made:
    edges = torch.randint(0, 500, (2, 4000))
    return _GraphNet(), (torch.randn(500, 32), edges[0], edges[1]), {}


MODELS: dict[str, Callable[[], Made]] = {
    f.__name__: f
    for f in (
        mlp,
        resnet,
        encoder,
        bert,
        llama,
        gpt2,
        vit,
        convnext,
        swin,
        mobilenet,
        unet,
        graphnet,
    )
}


def seconds() -> float:
    """CPU seconds of this process and of those that it has started and awaited."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def first_tensor(found: Any) -> torch.Tensor:
    return found if isinstance(found, torch.Tensor) else next(iter(found.values()))


def call_of(model: Any, made: Made, train: bool) -> Callable[[], Any]:
    _, args, kwargs = made

    def infer() -> Any:
        with torch.no_grad():
            return first_tensor(model(*args, **kwargs))

    def step() -> Any:
        loss = first_tensor(model(*args, **kwargs)).square().mean()
        loss.backward()
        return loss.detach()

    return step if train else infer


def measure(name: str, train: bool, backends: list[str], rounds: int) -> list[str]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = MODELS[name]()
    model = made[0].train(train)
    calls = {"eager": call_of(model, made, train)}
    expected = calls["eager"]()
    compiling: dict[str, float] = {"eager": 0.0}
    for backend in backends:
        options = {"threads": 1} if backend == "pirkit" else None
        compiled = torch.compile(model, backend=backend, options=options)
        calls[backend] = call_of(compiled, made, train)
        before = seconds()
        found = calls[backend]()
        compiling[backend] = seconds() - before
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    times: dict[str, list[float]] = {b: [] for b in calls}
    for _ in range(rounds):
        for backend, call in calls.items():
            before = time.process_time()
            call()
            times[backend].append(time.process_time() - before)
    base = statistics.median(times["eager"])
    rows = []
    for backend, found_times in times.items():
        middle = statistics.median(found_times)
        rows.append(
            f"{name:10} {'train' if train else 'infer'} {backend:9}"
            f" compile {compiling[backend]:6.1f} s"
            f"  call {middle * 1e3:9.3f} ms  x{base / middle:.2f}"
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--backends", default="pirkit,inductor")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names:
        try:
            rows = measure(name, arguments.train, arguments.backends.split(","), arguments.rounds)
        except ImportError as error:
            rows = [f"{name:10} left out: {error}"]
        except Exception as error:  # a model that fails is a row too
            rows = [f"{name:10} fails: {str(error).splitlines()[0]}"]
        print("\n".join(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

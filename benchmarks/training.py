"""Training steps of whole networks: time of a step and peak memory, eager, inductor and pirkit.

``python -m benchmarks.training [names] [--engines E...] [--rounds N] [--threads N]``

A step is the loss, its gradient, and an update by AdamW (`torch.optim`, fused), as users of torch
write it. Each engine runs it in a process of its own, and the parent asks them in turn. Printed are
CPU milliseconds of a step, the median of the rounds, the peak memory of the process in MB beyond
what it had before the first step, of the first step, which compiles, and of the later ones, CPU
seconds of the first step, and the loss after all of them, which is the same for all.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.engines import forget_peak, peak_memory
from benchmarks.harness.environment import environment_of

Made = tuple[Any, Callable[[Any], Any]]
"""A module, and the loss of it, or of what it was compiled to."""
ENGINES = ("torch", "inductor", "pirkit")


def _blocks(torch: Any, inner: int, outer: int, stride: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
                nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer),
            )  # fmt: skip
            self.way = nn.Identity() if stride == 1 and inner == outer else nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return (self.body(x) + self.way(x)).relu()

    return Block()


def resnet18(torch: Any) -> Made:
    nn, widths = torch.nn, (64, 64, 128, 256, 512)
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    for k in range(1, 5):
        stem += [_blocks(torch, widths[k - 1], widths[k], 1 if k == 1 else 2),
                 _blocks(torch, widths[k], widths[k], 1)]  # fmt: skip
    model = nn.Sequential(*stem, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    x, y = torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))
    return model, lambda m: nn.functional.cross_entropy(m(x), y)


def unet(torch: Any) -> Made:
    from benchmarks.torch_models import _UNet

    x, y = torch.randn(2, 3, 128, 128), torch.rand(2, 1, 128, 128).round()
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return _UNet(), lambda m: loss(m(x), y)


def bert(torch: Any) -> Made:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(num_hidden_layers=2, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)  # fmt: skip
    x, y = torch.randint(0, 30522, (4, 128)), torch.randint(0, 2, (4,))
    return BertForSequenceClassification(config), lambda m: m(input_ids=x, labels=y).loss


def gpt2(torch: Any) -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    x = torch.randint(0, 50257, (2, 128))
    return GPT2LMHeadModel(config), lambda m: m(input_ids=x, labels=x).loss


NETWORKS = {f.__name__: f for f in (resnet18, unet, bert, gpt2)}


def work(engine: str, name: str, threads: int) -> None:
    """Answer each line of standard input with the CPU seconds of a step, memory and the loss."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, loss_of = NETWORKS[name](torch)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    called = model
    if engine == "inductor":
        called = torch.compile(model)
    elif engine == "pirkit":
        import pirkit.torch  # noqa: F401  registers the backend

        called = torch.compile(model, backend="pirkit", options={"threads": threads})
    before = peak_memory()
    for _ in sys.stdin:
        start = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(called)
        loss.backward()
        optimizer.step()
        taken = time.process_time() - start
        out.write(json.dumps([taken, peak_memory() - before, loss.item()]) + "\n")
        out.flush()
        forget_peak()


class Worker:
    def __init__(self, engine: str, name: str, threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.training", name, "--work", engine]
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **environment_of(engine, threads)}, text=True,
        )  # fmt: skip
        self.first, self.first_peak, _ = self.step()
        self.times: list[float] = []

    def step(self) -> tuple[float, float, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return tuple(json.loads(self.process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", choices=ENGINES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.names[0], given.threads)
        return
    print(f"{'':20}{'ms':>10}{'peak MB':>10}{'first MB':>10}{'first s':>10}{'loss':>12}")
    for name in given.names:
        workers = {engine: Worker(engine, name, given.threads) for engine in given.engines}
        for _ in range(given.rounds):
            for worker in workers.values():
                worker.times.append(worker.step()[0])
        for engine, worker in workers.items():
            _, memory, loss = worker.step()
            taken = statistics.median(worker.times) * 1e3
            row = f"{taken:10.1f}{memory:10.0f}{worker.first_peak:10.0f}{worker.first:10.1f}"
            print(f"{name:11}{engine:9}{row}{loss:12.6f}", flush=True)
            worker.process.terminate()


if __name__ == "__main__":
    main()

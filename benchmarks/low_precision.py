"""Networks with weights of fewer bits beside ONNX Runtime and torch: time and accuracy.

``python -m benchmarks.low_precision [decode] [bert] [resnet18] [resnet50]... [--rounds N]``

`decode` is one token of GPT-2 small with random weights and a cache of 1024 places; a call counts
in tokens per second of CPU time. `bert` is BERT-base with 128 tokens; a call counts in CPU
milliseconds, and so does one of a network of `benchmarks.networks.vision`, whose activations are
quantized by ranges that are known (static), and by those of each run (dynamic). Each is the median
of the rounds; calls of all rows take turns in one process. The signal-to-noise ratio (SNR, in dB)
is that of the first output to the one of the same framework in float32. ONNX Runtime gets the
program that pirkit writes, for int8 through its `quantize_dynamic` (per channel), for images
`quantize_static` (QDQ, per channel, unsigned activations), torch a module with the same sizes, for
int8 through its `quantize_dynamic`.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pirkit
from benchmarks.networks import vision
from benchmarks.networks.building import Built
from benchmarks.networks.sequences import bert, gpt_decode

Array = np.ndarray[Any, Any]
Row = tuple[str, Callable[[], Array], str]
"""A name, a call that gives the first output, and the row to which it is compared."""

DYNAMIC: dict[str, Any] = {"activations": "int8"}
HOW: dict[str, dict[str, Any]] = {
    "bf16 weights": {"weights": "bfloat16"},
    "f16 weights": {"weights": "float16"},
    "int8 weights": {},
    "int8 dynamic": DYNAMIC,
}
HOW_OF_IMAGES = {"int8 dynamic": DYNAMIC, "int8 static": {**DYNAMIC, "static": True}}


def own_rows(built: Built, threads: int, ways: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """pirkit in float32, and each way to quantize."""
    programs = {"f32": built.program}
    for name, how in ways.items():
        programs[name] = pirkit.quantize(built.program, built.inputs if "static" in how else (),
                                         **how)[0]  # fmt: skip
    for name, program in programs.items():
        exe = pirkit.compile(program, freeze=True, threads=threads, in_place=True)
        yield (
            f"pirkit {name}",
            lambda exe=exe: next(iter(exe.run(built.inputs).values())),
            "pirkit f32",
        )


def onnx_rows(built: Built, threads: int, folder: Path, static: bool = False) -> Iterator[Row]:
    """ONNX Runtime in float32, and in int8 with activations quantized in each run, or by ranges."""
    import onnxruntime
    from onnxruntime import quantization as q

    path, small = folder / "model.onnx", folder / "int8.onnx"
    pirkit.save(pirkit.run_passes(built.program, "@simplify"), path)
    if static:

        class Given(q.CalibrationDataReader):
            given = iter([built.inputs])

            def get_next(self) -> Any:
                return next(self.given, None)

        ready = folder / "ready.onnx"  # with batch norm in filters, as ONNX Runtime advises
        q.quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        q.quantize_static(ready, small, Given(), per_channel=True, weight_type=q.QuantType.QInt8,
                          activation_type=q.QuantType.QUInt8)  # fmt: skip
    else:
        q.quantize_dynamic(path, small, per_channel=True, weight_type=q.QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    for name, file in (("f32", path), ("int8 static" if static else "int8 dynamic", small)):
        session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
        known = {i.name for i in session.get_inputs()}
        given = {k: v for k, v in built.inputs.items() if k in known}
        first = session.get_outputs()[0].name

        def call(session: Any = session, given: Any = given, first: str = first) -> Array:
            return session.run(None, given)[[o.name for o in session.get_outputs()].index(first)]

        yield f"onnxruntime {name}", call, "onnxruntime f32"


def torch_rows(built: Built, threads: int) -> Iterator[Row]:
    """torch in float32, bfloat16, and int8 with activations quantized in each run."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = torch_decoder(torch, 1024, 768, 12, 12, 50257).eval()
    token, place = (torch.from_numpy(built.inputs[n]) for n in ("token", "place"))
    models = {
        "f32": model,
        "bf16": torch_decoder(torch, 1024, 768, 12, 12, 50257).eval(),
        "int8 dynamic": torch.ao.quantization.quantize_dynamic(
            model, {torch.nn.Linear}, dtype=torch.qint8
        ),
    }
    models["bf16"].load_state_dict(model.state_dict())
    models["bf16"].bfloat16()
    for name, each in models.items():

        def call(each: Any = each) -> Array:
            with torch.no_grad():
                return each(token, place).float().numpy()

        yield f"torch {name}", call, "torch f32"


def torch_decoder(
    torch: Any, capacity: int, width: int, heads: int, layers: int, vocabulary: int
) -> Any:
    """The network of `gpt_decode`, with caches in buffers."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.qkv = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
            self.out = nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            cache = torch.zeros(heads, capacity, width // heads)
            self.register_buffer("keys", cache)
            self.register_buffer("values", cache.clone())

        def forward(self, x: Any, place: Any, mask: Any) -> Any:
            y = self.norms[0](x)
            q, k, v = (f(y).view(heads, 1, -1) for f in self.qkv)
            self.keys.index_copy_(1, place, k)
            self.values.index_copy_(1, place, v)
            y = nn.functional.scaled_dot_product_attention(
                q[None], self.keys[None], self.values[None], attn_mask=mask
            )
            x = x + self.out(y.reshape(1, width))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.places = nn.Embedding(capacity, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, token: Any, place: Any) -> Any:
            mask = (torch.arange(capacity) <= place)[None, None, None, :]
            x = self.tokens(token) + self.places(place)
            for block in self.blocks:
                x = block(x, place, mask)
            return self.head(self.norm(x))

    return Decoder()


def measure(rows: list[Row], rounds: int, repeats: int) -> dict[str, float]:
    """CPU seconds of a call: the median of rounds in which all rows take turns."""
    times: dict[str, list[float]] = {name: [] for name, *_ in rows}
    for _ in range(rounds):
        for name, call, _ in rows:
            start = time.process_time()
            for _ in range(repeats):
                call()
            times[name].append((time.process_time() - start) / repeats)
    return {name: statistics.median(each) for name, each in times.items()}


def snr(wanted: Array, found: Array) -> float:
    noise = float(np.sum((found.astype(np.float64) - wanted) ** 2))
    return 10 * math.log10(float(np.sum(wanted.astype(np.float64) ** 2)) / noise) if noise else 999


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["decode", "bert", "resnet50"],
                        metavar="decode|bert|NETWORK")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12)
    arguments = parser.parse_args()
    for name in arguments.names:
        decode = name == "decode"
        with tempfile.TemporaryDirectory() as folder:
            if decode:
                built = gpt_decode(layers=arguments.layers)
                plain = gpt_decode(layers=arguments.layers, held=False)
                rows = [*own_rows(built, arguments.threads, HOW)]
                rows += onnx_rows(plain, arguments.threads, Path(folder))
                rows += torch_rows(built, arguments.threads)
            elif name == "bert":
                built = bert(layers=arguments.layers)
                rows = [*own_rows(built, arguments.threads, HOW)]
                rows += onnx_rows(built, arguments.threads, Path(folder))
            else:
                built = getattr(vision, name)()
                rows = [*own_rows(built, arguments.threads, HOW_OF_IMAGES)]
                rows += onnx_rows(built, arguments.threads, Path(folder), static=True)
            results = {label: call() for label, call, _ in rows}
            seconds = measure(rows, arguments.rounds, 5 if decode else 1)
        print(f"{name:28}{'tokens/s' if decode else 'ms':>10}{'SNR, dB':>10}{'same best':>11}")
        for label, _, base in rows:
            speed = 1 / seconds[label] if decode else 1e3 * seconds[label]
            pair = results[base], results[label]
            alike = float(np.mean(pair[0].argmax(-1) == pair[1].argmax(-1)))
            print(f"{label:28}{speed:10.1f}{snr(*pair):10.1f}{alike:11.2f}", flush=True)


if __name__ == "__main__":
    main()

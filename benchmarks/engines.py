"""Inference engines, each in a process of its own: ``python -m benchmarks.engines NAME FOLDER``.

The process answers each line of standard input, a number of seconds, with a burst of calls. What an
engine reads is in the folder, to which `benchmarks.models` writes a network; the interpreter may
be another one, which has numpy and the engine alone (``paddle``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.worker import burst

Inputs = dict[str, np.ndarray[Any, Any]]
Call = Callable[[], Any]
MODEL, PADDLE, NAME = "model.onnx", "paddle.json", "name.json"
"""Files of a network: for its peers, and what pirkit and torch build it from."""


def onnxruntime(folder: Path, threads: int, inputs: Inputs) -> Call:
    import onnxruntime as engine

    options = engine.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    path, providers = str(folder / MODEL), ["CPUExecutionProvider"]
    session: Any = engine.InferenceSession(path, options, providers=providers)
    return lambda: session.run(None, inputs)[0]


def openvino(folder: Path, threads: int, inputs: Inputs) -> Call:
    import openvino as engine

    # By itself it computes in bfloat16 where the CPU has instructions for it.
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", **precision}
    model: Any = engine.Core().compile_model(str(folder / MODEL), "CPU", settings)
    return lambda: model(inputs)[0]


def paddle(folder: Path, threads: int, inputs: Inputs) -> Call:
    """Paddle Inference with oneDNN, on the new executor, which runs programs of PIR."""
    from paddle import inference as engine

    path = folder / PADDLE
    config: Any = engine.Config(str(path), str(path.with_suffix(".pdiparams")))
    config.disable_gpu()
    config.disable_glog_info()
    config.enable_mkldnn()
    config.set_cpu_math_library_num_threads(threads)
    config.enable_new_executor(True)
    config.enable_new_ir(True)
    predictor: Any = engine.create_predictor(config)
    for name in predictor.get_input_names():
        handle = predictor.get_input_handle(name)
        handle.reshape(inputs[name].shape)
        handle.copy_from_cpu(inputs[name])
    out = predictor.get_output_handle(predictor.get_output_names()[0])

    def call() -> Any:
        predictor.run()
        return out.copy_to_cpu()

    return call


def torch(folder: Path, threads: int, inputs: Inputs, compiled: bool = False) -> Call:
    import torch as engine

    from benchmarks.networks.in_torch import module_of

    engine.set_num_threads(threads)
    built = _built(folder)
    module: Any = module_of(built)
    module = engine.compile(module) if compiled else module
    given = [engine.from_numpy(inputs[name]) for name in built.inputs]

    def call() -> Any:
        with engine.inference_mode():
            return module(*given)

    return call


def inductor(folder: Path, threads: int, inputs: Inputs) -> Call:
    if not shutil.which("g++"):
        raise RuntimeError("inductor needs g++")
    return torch(folder, threads, inputs, compiled=True)


def pirkit(folder: Path, threads: int, inputs: Inputs) -> Call:
    import pirkit as engine

    exe = engine.compile(_built(folder).program, freeze=True, threads=threads)
    return lambda: next(iter(exe.run(inputs).values()))


def _built(folder: Path) -> Any:
    from benchmarks.networks import NETWORKS

    name, batch = json.loads((folder / NAME).read_text())
    return NETWORKS[name].build(batch=batch)


ENGINES = {f.__name__: f for f in (onnxruntime, openvino, paddle, torch, inductor, pirkit)}


def peak_memory() -> float:
    """MB that this process had at most; that of `getrusage` counts its parent's too."""
    (line,) = [x for x in Path("/proc/self/status").read_text().split("\n") if "VmHWM" in x]
    return int(line.split()[1]) / 1e3


def forget_peak() -> None:
    """Let `peak_memory` begin anew with the memory that is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Answer requests. The first line says why there is no engine, or is null."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=list(ENGINES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print is no answer

    def say(*values: Any) -> None:
        out.write(json.dumps(values) + "\n")
        out.flush()

    with np.load(given.folder / "inputs.npz") as held:
        inputs = {k: held[k] for k in held.files}
    try:
        call = ENGINES[given.engine](given.folder, given.threads, inputs)
        np.save(given.folder / f"{given.engine}.npy", np.asarray(call()))
    except Exception as error:  # whatever keeps an engine from running is told
        say(f"{type(error).__name__}: {error}".split("\n")[0][:200])
        return
    say(None)
    for line in sys.stdin:
        found = burst(call, float(line))
        say(statistics.median(found["times"]) * 1e3, found["cpu"] * 1e3, peak_memory())


if __name__ == "__main__":
    main()

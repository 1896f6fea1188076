"""How long reading and printing a Paddle program takes, and how that grows with its size."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median

from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text

TENSOR = "tensor<8x16xf32>"
HEAD = (
    '    (%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[8,16],'
    f"stop_gradient:[false]}} : () -> {TENSOR}"
)


def dump(ops: int) -> str:
    """A program of that many operations as Paddle prints it: what layers are made of, in turn."""
    lines = [HEAD]
    for number in range(1, ops - 1):
        last, name = number - 1, f'stop_gradient:[false],struct_name:"/Block_{number // 40}/"'
        match number % 4:
            case 0:
                op = f'"pd_op.add" (%{last}, %0) {{{name}}} : ({TENSOR}, {TENSOR})'
            case 1:
                op = f'"pd_op.relu" (%{last}) {{{name}}} : ({TENSOR})'
            case 2:
                attributes = f"approximate:false,{name}"
                op = f'"pd_op.gelu" (%{last}) {{{attributes}}} : ({TENSOR})'
            case _:
                attributes = f"axis:-1,{name}"
                op = f'"pd_op.softmax" (%{last}) {{{attributes}}} : ({TENSOR})'
        lines.append(f"    (%{number}) = {op} -> {TENSOR}")
    lines.append(
        f'    () = "builtin.shadow_output" (%{ops - 2}) {{output_name:"y"}} : ({TENSOR}) -> '
    )
    return "\n".join(["{", *lines, "}", ""])


def measure(ops: int, repeat: int) -> dict[str, float]:
    """Median seconds of each step."""
    text = dump(ops)
    module = read_paddle_text(text, "<dump>")
    ours, json = print_mlir(module), write_paddle_json(module)

    def read() -> None:
        verify_module(read_paddle_text(text, "<dump>"))

    steps: dict[str, Callable[[], object]] = {
        "read Paddle text, verified": read,
        "verify": lambda: verify_module(module),
        "write Paddle text": lambda: write_paddle_text(module),
        "read own text": lambda: parse_mlir(ours),
        "write own text": lambda: print_mlir(module),
        "read Paddle JSON": lambda: read_paddle_json(json, "<json>"),
        "write Paddle JSON": lambda: write_paddle_json(module),
    }
    return {name: _median(step, repeat) for name, step in steps.items()}


def _median(step: Callable[[], object], repeat: int) -> float:
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()  # what earlier steps left is not to be charged to this one
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=20_000, help="of the smaller program")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    one, two = (measure(n, arguments.repeat) for n in (arguments.ops, 2 * arguments.ops))
    print(f"{'median seconds':<28}{arguments.ops:>10,}{2 * arguments.ops:>10,}{'ratio':>8}")
    for name in one:
        print(f"{name:<28}{one[name]:>10.2f}{two[name]:>10.2f}{two[name] / one[name]:>8.2f}")


if __name__ == "__main__":
    main()

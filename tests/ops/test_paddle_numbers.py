"""Ops whose numbers and gradients are those that Paddle 3.3.1 recorded, on each way to run them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any, Final, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Value
from pirkit.dialect.opdef import lookup
from pirkit.dialect.program import Program
from pirkit.dialect.samples import Sample
from pirkit.frontend.compile import compile, run_passes
from pirkit.runtime import dtype as dt
from pirkit.split import forward_backward
from tests.ops.calls import Call, complete
from tests.ops.paddle_numbers import loaded, recorded
from tests.prim.differentiation import Traced
from tests.prim.rule_checks import program_of, tensors_of
from tests.split.running import Halves
from tests.tolerance import difference

Array = np.ndarray[Any, Any]
Arrays = dict[str, Any]
Line = dict[str, Any]

LINES: Final = recorded()
BEYOND: Final = frozenset({("pd_op.square", t) for t in ("int8", "uint8", "int16")})
"""What Paddle has no kernel for; whatever else it refuses is refused here, too."""
OWN_SLOPES: Final = frozenset({"pd_op.spectral_norm", "pd_op.yolo_loss"})
"""Ops whose gradient is not Paddle's, which is not that of what it computes: docs/derivatives.md"""
SINGLE: Final = frozenset({"pd_op.p_norm", "pd_op.pool2d", "pd_op.yolo_loss"})
"""Ops that Paddle computes in single precision at some place, whatever the element type."""
STEP: Final = 1e-6

numbered: Final = pytest.mark.parametrize(
    "number",
    range(len(LINES)),
    ids=[f"{line['op'].partition('.')[2]}-{n}" for n, line in enumerate(LINES)],
)


@cache
def case_of(number: int) -> Call:
    line = LINES[number]
    return complete(
        lookup(line["op"]), Sample(tuple([loaded(a) for a in line["args"]]), line["attrs"])
    )


@cache
def shown(number: int) -> list[int]:
    """Results that Paddle returns: others only gradients need."""
    slots = lookup(LINES[number]["op"]).results
    return [i for i, r in enumerate(slots) if not r.intermediate]


def flat(value: Any) -> list[Any]:
    return [w for v in value for w in flat(v)] if isinstance(value, list | tuple) else [value]


@cache
def built(number: int) -> Program:
    """The program of a call, whose outputs are what Paddle returns of it."""
    call = case_of(number)
    p = program_of(call)
    left = iter(p.results)
    for i, value in enumerate(call.compute()):
        for k, _ in enumerate(flat(value) if value is not None else ()):
            result = next(left)
            if i in shown(number):
                p.traced.b("pir.shadow_output", result, output_name=f"y{i}_{k}")
    return Program(ModuleOp([p.traced.program]), {})


def inputs_of(number: int) -> Arrays:
    return {f"x{i}": a for i, a in enumerate(tensors_of(case_of(number)))}


def loosest(line: Line, want: Array) -> dt.DType:
    return dt.float32 if line["op"] in SINGLE else dt.of_array(want)


def check(found: Arrays, number: int, what: str) -> None:
    line = LINES[number]
    for i, want in zip(shown(number), line["results"], strict=False):
        for k, one in enumerate(flat(loaded(want)) if want is not None else ()):
            have = np.asarray(found[f"y{i}_{k}"])
            assert have.dtype == one.dtype, what
            wrong = difference(have, one, loosest=loosest(line, one))
            assert wrong is None, f"{what}: result {i}: {wrong}"


@numbered
def test_results_are_those_of_paddle(number: int) -> None:
    line = LINES[number]
    if "refused" in line:
        if (line["op"], line["args"][0]["dtype"]) not in BEYOND:
            with pytest.raises(PirkitError):
                case_of(number).infer()
        return
    computed = case_of(number).compute()
    check({f"y{i}_{k}": a for i in shown(number) for k, a in enumerate(flat(computed[i]))},
          number, "reference")  # fmt: skip
    for pipeline in ("", "@default"):
        with np.errstate(all="ignore"):
            check(compile(built(number), pipeline=pipeline)(**inputs_of(number)), number, pipeline)


def weights_of(number: int) -> dict[str, Array]:
    return {f"y{shown(number)[int(n)]}_0": loaded(w)
            for n, w in LINES[number].get("weights", {}).items()}  # fmt: skip


def slopes(number: int, way: str) -> Arrays:
    """Gradients of the results with Paddle's weights, by the name of the input."""
    program, weights = built(number), weights_of(number)
    with np.errstate(all="ignore"):
        if way == "split":
            halves = Halves(forward_backward(program), {}, "@default")
            halves.run(inputs_of(number))
            seeds = {at: weights[name] for name, at in halves.parts.returns if name in weights}
            return halves.gradients(seeds)
        both = run_passes(program, f"autodiff{{seeds=true,targets={'+'.join(weights)}}}")
        words: Any = {"pipeline": "", "backend": "reference"} if way == "reference" else {}
        seeded = {f"{name}_grad": w for name, w in weights.items()}
        found = compile(both, **words).run({**inputs_of(number), **seeded})
    return {n.removesuffix("_grad"): a for n, a in found.items() if n.endswith("_grad")}


def is_own(number: int) -> bool:
    """True where Paddle's gradient is not that of what it computes, which the last test asks for.

    That of `det` is 0 for each matrix that is singular.
    """
    line = LINES[number]
    return line["op"] in OWN_SLOPES or (line["op"] == "pd_op.det" and is_singular(number))


def is_singular(number: int) -> bool:
    return bool((np.linalg.det(loaded(LINES[number]["args"][0])) == 0).any())


def named(number: int, values: Sequence[Any]) -> Arrays:
    """What stands beside each operand, by the name of the input."""
    there = [i for i, a in enumerate(case_of(number).args) if a is not None]
    return {f"x{there.index(i)}": loaded(v) for i, v in enumerate(values) if v is not None}


DIFFERENTIATED: Final = [n for n, line in enumerate(LINES) if "slopes" in line]


@pytest.mark.parametrize("way", ["reference", "@default", "split"])
@pytest.mark.parametrize("number", DIFFERENTIATED)
def test_gradients_are_those_of_paddle(number: int, way: str) -> None:
    line = LINES[number]
    if line["op"] == "pd_op.slogdet" and is_singular(number):
        with pytest.raises(PirkitError, match="not invertible"):  # where Paddle's is NaN
            slopes(number, way)
        return
    found = slopes(number, way)
    for name, want in named(number, line["slopes"]).items() if not is_own(number) else ():
        have = np.asarray(found[name]) if name in found else np.zeros_like(want)
        if want.dtype.kind == "c" and line["op"] == "pd_op.sign":
            continue  # Paddle's is 0, as for real numbers
        wrong = difference(have, want, loosest=loosest(line, want))
        assert wrong is None, f"{name}: {wrong}"


def is_smooth(number: int) -> bool:
    """False at corners and poles, beside windows of nothing, and where the gradient is another."""
    line = LINES[number]
    words, op = line["attrs"], line["op"].removeprefix("pd_op.")
    given = [loaded(a) for a in line["args"]]
    if any(a is not None and a.dtype in (np.float32, np.complex128) for a in given):
        return False
    corner = op in ("sign", "elu", "selu") or (op == "p_norm" and words["porder"] not in (2.0, 3.0))
    pole = op == "slogdet" and is_singular(number)
    constant = bool(words.get("power_iters") or words.get("fastemit_lambda"))
    numbers = [*given, *[loaded(r) for r in line["results"]]]
    finite = all(a is None or a.dtype.kind in "iu" or (abs(a) < 1e9).all() for a in numbers)
    return finite and not (corner or pole or constant)


@pytest.mark.parametrize("number", [n for n in DIFFERENTIATED if is_smooth(n)])
def test_gradients_are_the_slopes(number: int) -> None:
    """Along one direction, of what the reference computes."""
    line, call, weights = LINES[number], case_of(number), weights_of(number)
    args: list[Any] = [*call.args]
    found, rng = slopes(number, "@default"), np.random.default_rng(number)
    way = [
        rng.standard_normal(a.shape) if a is not None and s is not None else None
        for a, s in zip(args, line["slopes"], strict=True)
    ]

    def total(step: float) -> float:
        moved = [a if w is None else a + step * w for a, w in zip(args, way, strict=True)]
        values: Any = call.compute(tuple(moved))
        return sum(float((values[i] * weights[f"y{i}_0"]).sum()) for i in shown(number)
                   if f"y{i}_0" in weights)  # fmt: skip

    there = [w for a, w in zip(args, way, strict=True) if a is not None]
    slope = sum(float((found[f"x{i}"] * w).sum()) for i, w in enumerate(there)
                if w is not None and f"x{i}" in found)  # fmt: skip
    near = (total(STEP) - total(-STEP)) / (2 * STEP)
    assert abs(slope - near) <= 1e-6 * (1 + abs(near))


@pytest.mark.parametrize("padding", [0, 2, 6])
@pytest.mark.parametrize("length", [1, 2, 12, 13, 25])
def test_the_gradient_of_an_image_of_any_length(length: int, padding: int) -> None:
    """Of windows 12 apart, some of which meet nothing but padding."""
    if length + 2 * padding < 3:
        return
    rng = np.random.default_rng(length)
    x, w = rng.standard_normal((1, 1, length, 1)), rng.standard_normal((1, 1, 3, 1))
    words = {"strides": [12, 1], "paddings": [padding, 0], "dilations": [1, 1], "groups": 1}
    windows = np.pad(x[0, 0, :, 0], padding)
    starts = range(0, len(windows) - 2, 12)
    places = np.concatenate([np.arange(n, n + 3) - padding for n in starts])
    there = (places >= 0) & (places < length)
    slope = np.cos([windows[n : n + 3] @ w[0, 0, :, 0] for n in starts])
    of_x = np.zeros(length)
    of_w = sum(s * windows[n : n + 3] for s, n in zip(slope, starts, strict=True))
    np.add.at(of_x, places[there], np.outer(slope, w[0, 0, :, 0]).ravel()[there])
    for known, pipeline in product((True, False), ("", "@default")):
        t = Traced([x, w], known=known)
        y = t.b.sum(t.b.sin(t.b("pd_op.conv2d", *t.args, **words)), (0, 1, 2, 3))
        grads = dict(zip(("x", "w"), t.grad(y, t.args), strict=True))
        found = t.run({n: cast(Value, g) for n, g in grads.items()}, pipeline)
        np.testing.assert_allclose(found["x"][0, 0, :, 0], of_x, rtol=1e-12)
        np.testing.assert_allclose(found["w"][0, 0, :, 0], of_w, rtol=1e-12, atol=1e-12)

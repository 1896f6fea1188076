"""Cases of branches and loops; numbers are those of docs/split.md."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit import tensor
from pirkit.frontend.compile import compile as compile_program
from pirkit.frontend.files import Program
from tests.execution import parsed
from tests.split.model import Array, Model, T, op, output, parameter, program, split, train

Given = dict[str, Array]
N, C = "tensor<1xi64>", "tensor<1xi1>"
FULL = "{{shape = array<i64: 1>, value = {}.0 : f64, dtype = #pir.dtype<int64>}}"


def number(name: str, value: int) -> str:
    return f"%{name} = pd_op.full() {FULL.format(value)} : () -> {N}"


def less(name: str, a: str, b: str) -> str:
    return f"%{name} = pd_op.less_than(%{a}, %{b}) : ({N}, {N}) -> {C}"


def increased(name: str, by: str) -> str:
    return f"%{name} = pd_op.scale(%{by}) {{scale = 1.0 : f64, bias = 1.0 : f32}} : ({N}) -> {N}"


def loop(name: str, start: str, turns: int, *body: str, result: str, p: str = "") -> list[str]:
    """Repeat a body; `%{p}acc` is what is carried, `result` its next value."""
    return [
        number(f"{p}i", 0),
        number(f"{p}n", turns),
        less(f"{p}c", f"{p}i", f"{p}n"),
        f"%{p}last, %{name} = pd_op.while(%{p}c, %{p}i, %{start}) : "
        f"({C}, {N}, {T}) -> ({N}, {T}) {{",
        f"^bb0(%{p}k : {N}, %{p}acc : {T}):",
        *body,
        increased(f"{p}k2", f"{p}k"),
        less(f"{p}c2", f"{p}k2", f"{p}n"),
        f"pir.yield(%{p}c2, %{p}k2, %{result}) : ({C}, {N}, {T}) -> ()",
        "}",
    ]


def branch(
    name: str, on: str, then: list[str], then_value: str, other: list[str], value: str
) -> list[str]:
    return [
        f"%{name} = pd_op.if(%{on}) : ({C}) -> {T} {{",
        *then,
        f"pir.yield(%{then_value}) : ({T}) -> ()",
        "} else {",
        *other,
        f"pir.yield(%{value}) : ({T}) -> ()",
        "}",
    ]


def test_case_05_a_loop_is_trained() -> None:
    body = [f"%m = {op('multiply', '%acc', '%w')}", f"%t = {op('tanh', '%m')}"]
    text = program(parameter("w"), *loop("y", "x", 3, *body, result="t"), output("y", "y"))

    def eager(given: Given) -> list[Array]:
        acc = given["x"]
        for _ in range(3):
            acc = np.tanh(acc * given["w"])
        return [acc]

    parts = train(text, eager, {"x": (2, 3)}, {"w": (2, 3)})
    assert {s.how for s in parts.saved} >= {"stack"}


def test_case_05_loops_and_branches_in_each_other() -> None:
    inner = loop(
        "deep",
        "u",
        2,
        f"%qm = {op('multiply', '%qacc', '%w')}",
        f"%qs = {op('sin', '%qm')}",
        result="qs",
        p="q",
    )
    then = [f"%u = {op('tanh', '%acc')}", *inner]
    other = [f"%e = {op('multiply', '%acc', '%x')}"]
    body = [number("one", 1), less("first", "k", "one")]
    body += branch("z", "first", then, "deep", other, "e")
    text = program(parameter("w"), *loop("y", "x", 3, *body, result="z"), output("y", "y"))

    def eager(given: Given) -> list[Array]:
        acc = given["x"]
        for turn in range(3):
            if turn < 1:
                acc = np.tanh(acc)
                for _ in range(2):
                    acc = np.sin(acc * given["w"])
            else:
                acc = acc * given["x"]
        return [acc]

    train(text, eager, {"x": (2, 3)}, {"w": (2, 3)})


@pytest.mark.parametrize("marked", [False, True])
def test_case_05b_a_loop_that_starts_from_a_constant(marked: bool) -> None:
    """Paddle marks what such a loop returns as it marks the constant, and so trains nothing."""
    zeros = (
        "%zeros = pd_op.full() {shape = array<i64: 2, 3>, value = 0.0 : f64, "
        "dtype = #pir.dtype<float64>, stop_gradient = array<i1: true>} : () -> " + T
    )
    body = [f"%p = {op('multiply', '%x', '%w')}", f"%s = {op('add', '%acc', '%p')}"]
    text = program(
        parameter("w"), zeros, *loop("y", "zeros", 3, *body, result="s"),
        f"%z = {op('add', '%y', '%x')}", output("z", "z"),
    )  # fmt: skip
    if marked:
        plain = "pd_op.while(%c, %i, %zeros)"
        assert plain in text
        text = text.replace(plain, plain + " {stop_gradient = array<i1: true, true>}")
    train(
        text, lambda given: [3 * given["x"] * given["w"] + given["x"]], {"x": (2, 3)}, {"w": (2, 3)}
    )


JOINT = f"""
pir.program @main(%x "x" : {T}, %c "c" : {C}, %g "y_grad" : {T}) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> {T}
  %a = pd_op.multiply(%x, %w) : ({T}, {T}) -> {T}
  %b = pd_op.share_data(%a) : ({T}) -> {T}
  %y = pd_op.add(%a, %x) : ({T}, {T}) -> {T}
  pir.shadow_output(%y) {{output_name = "y"}} : ({T}) -> ()
  %ga, %gx = pd_op.add_grad(%a, %x, %g) {{axis = -1 : i32}} : ({T}, {T}, {T}) -> ({T}, {T})
  MORE
  pir.shadow_output(%r) {{output_name = "x_grad"}} : ({T}) -> ()
}}
"""


@pytest.mark.parametrize(
    ("more", "lent"),
    [
        ("%r = pd_op.multiply(%g, %gx) : (T, T) -> T", ("x", "middle_0")),
        # case 6: the value is also captured by a region
        (
            "%r = pd_op.if(%c) : (C) -> T {\n"
            "%i = pd_op.multiply(%g, %a) : (T, T) -> T\n pir.yield(%i) : (T) -> ()\n"
            "} else {\n pir.yield(%g) : (T) -> ()\n}",
            ("x",),
        ),
        # case 7: it is needed under another name
        ("%r = pd_op.multiply(%g, %b) : (T, T) -> T", ("x",)),
        # a region that reads only its shape does not need it
        (
            "%r = pd_op.if(%c) : (C) -> T {\n"
            "%i, %j = pd_op.add_grad(%a, %x, %g) {axis = -1 : i32} : (T, T, T) -> (T, T)\n"
            "pir.yield(%i) : (T) -> ()\n} else {\n pir.yield(%g) : (T) -> ()\n}",
            ("x", "middle_0"),
        ),
    ],
    ids=["case_06_plain", "case_06_captured", "case_07_alias", "case_06_shape_in_a_region"],
)  # fmt: skip
def test_cases_06_07_of_what_only_the_shape_is_read(more: str, lent: tuple[str, ...]) -> None:
    filled = more.replace("(T", f"({T}").replace(" T)", f" {T})").replace("-> T", f"-> {T}")
    filled = filled.replace(", T,", f", {T},").replace("(C)", f"({C})")
    parts = split(JOINT.replace("MORE", filled))
    assert parts.names.no_need_buffers == lent
    assert all(s.bytes == 0 for s in parts.saved if s.name in lent)


def test_case_18_a_value_that_only_a_region_of_the_backward_reads() -> None:
    more = (
        f"%r = pd_op.if(%c) : ({C}) -> {T} {{\n%s = pd_op.if(%c) : ({C}) -> {T} {{\n"
        f"%i = {op('multiply', '%g', '%a')}\n pir.yield(%i) : ({T}) -> ()\n}} else {{\n"
        f"pir.yield(%gx) : ({T}) -> ()\n}}\npir.yield(%s) : ({T}) -> ()\n}} else {{\n"
        f"pir.yield(%ga) : ({T}) -> ()\n}}"
    )
    text = JOINT.replace("MORE", more).replace(
        "pd_op.add_grad(%a, %x, %g)", "pd_op.add_grad(%x, %x, %g)"
    )
    parts = split(text)
    assert parts.names.fm == ("middle_0",)
    assert parts.names.bx == ("x", "c")
    model = Model(parts, {"w": tensor(np.full((2, 3), 3.0))})
    x, g = np.full((2, 3), 2.0), np.ones((2, 3))
    for condition, want in ((True, 6.0), (False, 1.0)):
        outputs = model.forward({"x": tensor(x), "c": tensor(np.array([condition]))})
        assert (model.backward([g], outputs)["x"] == want).all()


def test_case_19_what_the_gradient_puts_in_front_belongs_to_the_forward() -> None:
    body = [f"%t = {op('sin', '%acc')}"]
    parts = split(program(*loop("y", "x", 2, *body, result="t"), output("y", "y")))
    forward = [op.name for op in parts.forward_program.operations]
    backward = [op.name for op in parts.backward_program.operations]
    assert forward.count("pir.stack_create") == 1
    assert "pir.stack_create" not in backward
    assert forward.index("pir.stack_create") < forward.index("pd_op.while")


@pytest.mark.parametrize("condition", [True, False])
def test_case_31_a_buffer_that_a_branch_writes(condition: bool) -> None:
    text = program(
        parameter("buf", frozen=True),
        f"pd_op.if(%c) : ({C}) -> () {{",
        f"%h = {op('scale_', '%buf', attrs='scale = 0.5 : f64')}",
        "pir.yield() : () -> ()",
        "} else {",
        "pir.yield() : () -> ()",
        "}",
        f"%s = {op('add', '%x', '%buf')}",
        f"%y = {op('tanh', '%s')}",
        output("y", "y"),
        inputs={"x": T, "c": C},
    )

    def eager(given: Given) -> list[Array]:
        if condition:
            given["buf"] = given["buf"] * 0.5
        return [np.tanh(given["x"] + given["buf"])]

    given = {"x": (2, 3), "c": np.array([condition])}
    train(text, eager, given, {"buf": (2, 3)}, frozen=["buf"])


def test_case_31_a_buffer_that_a_loop_writes() -> None:
    body = [
        f"%h = {op('scale_', '%buf', attrs='scale = 0.5 : f64')}",
        f"%t = {op('add', '%acc', '%buf')}",
    ]
    text = program(
        parameter("buf", frozen=True), *loop("s", "x", 3, *body, result="t"), output("s", "s")
    )

    def eager(given: Given) -> list[Array]:
        acc = given["x"]
        for _ in range(3):
            given["buf"] = given["buf"] * 0.5
            acc = acc + given["buf"]
        return [acc]

    train(text, eager, {"x": (2, 3)}, {"buf": (2, 3)}, frozen=["buf"])


@pytest.mark.parametrize("condition", [True, False])
def test_case_31_a_buffer_that_is_read_before_a_branch_writes_it(condition: bool) -> None:
    text = program(
        parameter("buf", frozen=True),
        f"%y = {op('multiply', '%x', '%buf')}",
        f"pd_op.if(%c) : ({C}) -> () {{",
        f"%h = {op('scale_', '%buf', attrs='scale = 0.5 : f64')}",
        "pir.yield() : () -> ()",
        "} else {",
        "pir.yield() : () -> ()",
        "}",
        f"%z = {op('multiply', '%y', '%buf')}",
        output("z", "z"),
        inputs={"x": T, "c": C},
    )

    def eager(given: Given) -> list[Array]:
        y = given["x"] * given["buf"]
        if condition:
            given["buf"] = given["buf"] * 0.5
        return [y * given["buf"]]

    given = {"x": (2, 3), "c": np.array([condition])}
    parts = train(text, eager, given, {"buf": (2, 3)}, frozen=["buf"])
    assert "copy" in {s.how for s in parts.saved}


def test_case_30_threads_keep_the_order_of_writes() -> None:
    body = [
        f"%h = {op('scale_', '%buf', attrs='scale = 0.5 : f64')}",
        f"%p = {op('multiply', '%acc', '%buf')}",
        f"%q = {op('add_', '%buf', '%p')}",
        f"%t = {op('add', '%acc', '%buf')}",
    ]
    text = program(
        parameter("buf", frozen=True), *loop("s", "x", 5, *body, result="t"), output("s", "s")
    )
    rng = np.random.default_rng(0)
    x, buf = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    found: set[bytes] = set()
    for threads in (1, 4, 4, 4, 4):
        exe = compile_program(Program(parsed(text)), params={"buf": buf.copy()}, threads=threads)
        found.add(exe(x=x)["s"].tobytes() + exe.params["buf"].tobytes())
    assert len(found) == 1

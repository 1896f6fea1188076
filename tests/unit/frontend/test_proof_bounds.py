"""Accesses of loop nests are proved to stay in their buffers; planted bugs are refuted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import pirkit
from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import run_passes
from pirkit.lowering.codegen.ir.loop_ir import Block, CallRows, Count, Loop, Nest, Node
from pirkit.lowering.codegen.ir.loop_tree import changed
from pirkit.lowering.codegen.ir.loopnest import Constant, Load

pytest.importorskip("z3", reason="proofs need z3-solver")
import z3

from pirkit.frontend import proof_kernels
from pirkit.frontend.proof_bounds import prove_bounds
from pirkit.frontend.proof_kernels import KernelBounds, kernel_bounds
from pirkit.frontend.proof_questions import Accesses


def module_of(build: Callable[[Any], Any]) -> Any:
    b = pirkit.ProgramBuilder()
    b.output("y", build(b))
    return run_passes(b.finish(), "@default").module


def nests_of(build: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> list[Nest]:
    """The scheduled nests of a program, all of which are proved."""
    seen: list[Nest] = []

    def noted(solver: Any, nest: Nest) -> Accesses:
        seen.append(nest)
        return prove_bounds(solver, nest)

    with monkeypatch.context() as patch:
        patch.setattr(proof_kernels, "prove_bounds", noted)
        found: list[KernelBounds] = list(kernel_bounds(z3, module_of(build)))
    assert found
    assert all(f.proved and not f.why for f in found), found
    return seen


def flat(b: Any) -> Any:
    return b.tanh(b.input("x", (1003,), "float32")) * 2.0


def padded(b: Any) -> Any:
    wide = b("pd_op.pad", b.input("x", (37, 19), "float32"), paddings=[3, 2, 1, 5], pad_value=1.0)
    return b.tanh(wide) * 2.0


def gathered(b: Any) -> Any:
    x, index = b.input("x", (37, 19), "float32"), b.input("i", (53,), "int64")
    return b.tanh(b("pd_op.gather", b.exp(x), index, axis=0))


def mirrored(b: Any) -> Any:
    x = b.input("x", (513, 513), "float32")
    return x + b("pd_op.transpose", x, perm=[1, 0])


def product(b: Any) -> Any:
    x, w = b.input("x", (200, 300), "float32"), b.input("w", (300, 170), "float32")
    return b.matmul(x, w)


def small(b: Any) -> Any:
    """Small matmuls: columns in place, strided, and fewer than a vector has; a batch."""
    x, w = b.input("x", (6, 7), "float32"), b.input("w", (7, 39), "float32")
    y = b.matmul(b.tanh(x) * 2.0, w) + b.input("c", (39,), "float32")
    v, u = b.input("v", (37, 39), "float32"), b.input("u", (3, 2, 37, 2), "float32")
    z = b.matmul(b.exp(y), v, transpose_y=True)
    return b.tanh(b.matmul(b.exp(z), u)) * 2.0


def attention(b: Any) -> Any:
    """A row kernel between two matmuls: blocks of rows, the last one shorter, of two batch axes."""
    q, k = b.input("q", (2, 5, 130, 24), "float32"), b.input("k", (2, 5, 140, 24), "float32")
    scores = b.matmul(q, k, transpose_y=True) * 0.25
    return b.matmul(b.softmax(scores, axis=-1), b.input("v", (2, 5, 140, 17), "float32"))


def columns(b: Any) -> Any:
    return b.softmax(b.input("x", (37, 103), "float32"), axis=0)


def rows(b: Any) -> Any:
    return b.softmax(b.input("x", (37, 1003), "float32"), axis=-1)


def norm(b: Any) -> Any:
    x = b.input("x", (5, 17, 9, 33), "float32")
    return b("pd_op.mean", b.exp(x), axis=[1, 3])


@pytest.mark.parametrize(
    "build", [flat, padded, gathered, mirrored, product, small, attention, columns, rows, norm]
)
def test_kernels_are_proved(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nests_of(build, monkeypatch)


def longer(bound: Any) -> Any:
    """A bound that is one iteration too large behind the last whole block."""
    if isinstance(bound, Count):
        return replace(bound, extent=bound.extent + 1)
    return bound


def tail(node: Node) -> Any:
    """The mask of the tail has one lane more."""
    if isinstance(node, Loop) and node.kind == "vector" and isinstance(node.stop, Count):
        return [replace(node, stop=longer(node.stop))]
    return None


def remainder(node: Node) -> Any:
    """The last tile is as large as the others."""
    if isinstance(node, Loop) and isinstance(node.stop, Count) and node.kind != "vector":
        return [replace(node, stop=node.stop.size // node.stop.multiple * node.stop.multiple)]
    return None


def guard(node: Node) -> Any:
    """The guard of a padding lets one more column through."""
    if not isinstance(node, Block):
        return None
    wrong = [
        replace(s, value=s.value + 1) if isinstance(s, Constant) and s.value == 19 else s
        for s in node.statements
    ]
    return [Block(tuple(wrong))]


def offset(node: Node) -> Any:
    """A gather is clamped one element further on."""
    if not isinstance(node, Block):
        return None
    wrong = [
        replace(s, limit=s.limit + 19) if isinstance(s, Load) and s.at is not None else s
        for s in node.statements
    ]
    return [Block(tuple(wrong))]


def whole_tile(node: Node) -> Any:
    """The last tile begins where the one before ends."""
    is_last = isinstance(node, Loop) and node.moved_back
    return [replace(node, moved_back=False)] if is_last else None


def row_too_many(node: Node) -> Any:
    """A row kernel between matmuls runs for one row more than a block has."""
    if not isinstance(node, CallRows) or not isinstance(node.count, Count):
        return None
    return [replace(node, count=replace(node.count, size=node.count.size + 1))]


PLANTED = {"tail mask": (flat, tail), "tile remainder": (mirrored, remainder),
           "pad guard": (padded, guard), "gather offset": (gathered, offset),
           "tile moved back": (small, whole_tile), "last rows": (attention, remainder),
           "row kernel": (attention, row_too_many)}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, change = PLANTED[name]
    found: list[Accesses] = []
    for nest in nests_of(build, monkeypatch):
        wrong = replace(nest, body=changed(nest.body, change))
        if build is not small:
            assert wrong.body != nest.body
        found.append(prove_bounds(z3, wrong))
    told = [f.outside for f in found if f.outside is not None]
    assert told, "the planted bug was proved"
    assert told[0].begin < 0 or told[0].begin + told[0].size > told[0].limit
    assert told[0].at


@pytest.mark.parametrize("build", [product, columns, mirrored, attention])
def test_a_panel_that_is_too_small_is_refuted(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refuted = 0
    for nest in nests_of(build, monkeypatch):
        for k, buffer in enumerate(nest.buffers):
            if buffer.space == "scratch" and buffer.size > 1024:
                less = replace(buffer, size=buffer.size * 3 // 4)
                wrong = replace(nest, buffers=(*nest.buffers[:k], less, *nest.buffers[k + 1 :]))
                refuted += prove_bounds(z3, wrong).outside is not None
    assert refuted or not any(b.space == "scratch" for b in nest.buffers)


def test_a_counterexample_names_kernel_access_and_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(solver: Any, nest: Nest) -> Accesses:
        return prove_bounds(solver, replace(nest, body=changed(nest.body, tail)))

    monkeypatch.setattr(proof_kernels, "prove_bounds", wrong)
    with pytest.raises(RuntimeFault, match="leaves a buffer") as caught:
        list(kernel_bounds(z3, module_of(flat)))
    assert caught.value.code == "PK0910"
    assert "load b0" in str(caught.value)
    assert "4 bytes from byte 4,012 on of buffer 0, which has 4,012 bytes" in str(caught.value)
    assert "lane of" in str(caught.value)


def test_what_z3_gives_up_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are the calls of a routine whose numbers it does not find."""

    class Unsure(z3.Solver):
        def check(self, *assumptions: Any) -> Any:
            asks_for_bounds = self.assertions() and z3.is_or(self.assertions()[0])
            return super().check(*assumptions) if asks_for_bounds else z3.unknown

    def product(b: Any) -> Any:
        x, w = b.input("x", (70, 300), "float32"), b.input("w", (300, 200), "float32")
        return b.matmul(x, w)

    monkeypatch.setattr(z3, "Solver", Unsure)
    (found,) = kernel_bounds(z3, module_of(product))
    assert "gives up on the numbers" in found.why

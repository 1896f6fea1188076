"""Alias classes and the order of operations, on programs small enough to see the answer."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import pirkit
from pirkit import ops
from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.execution_order import operations, order_of
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.types import VecType
from pirkit.passes import run_pipeline
from tests.execution import parsed
from tests.unit.passes.random_programs import random_program

F = "tensor<1xf32>"


class Facts:
    """A program with its alias classes; values by the names they have in the text."""

    def __init__(self, body: str) -> None:
        module: ModuleOp = parsed(
            f'pir.program @main(%c "c" : tensor<i1>, %x "x" : {F}) {{\n{body}\n}}'
        )
        (self.program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
        self.classes: AliasClasses = alias_classes(self.program)
        self.ops: list[PirOp] = list(operations(self.program.block))
        values: list[SSAValue] = [
            *self.program.block.args,
            *(r for o in self.ops for r in o.results),
        ]
        values += [a for o in self.ops for region in o.regions for a in region.block.args]
        self.values = {value.name_hint: value for value in values}

    def same(self, a: str, b: str) -> bool:
        return self.classes.of(self.values[a]) == self.classes.of(self.values[b])

    def written(self, name: str) -> bool:
        return self.classes.is_written(self.values[name])


def test_views_and_writes_share_storage_and_copies_do_not() -> None:
    facts = Facts(f"""
        %v = pd_op.share_data(%x) : ({F}) -> {F}
        %w = pd_op.relu_(%v) : ({F}) -> {F}
        %a = pd_op.assign(%x) : ({F}) -> {F}""")
    assert facts.same("x", "v")
    assert facts.same("x", "w")
    assert not facts.same("x", "a")
    assert facts.written("x")
    assert not facts.written("a")


def test_a_list_has_a_class_for_each_element() -> None:
    facts = Facts(f"""
        %y = pd_op.exp(%x) : ({F}) -> {F}
        %l = pir.combine(%x, %y) : ({F}, {F}) -> !pir.vec<{F}, {F}>
        %s = pir.slice(%l) {{index = 1 : i32}} : (!pir.vec<{F}, {F}>) -> {F}
        %t = pir.split(%l) : (!pir.vec<{F}, {F}>) -> (none, {F})
        %w = pd_op.relu_(%s) : ({F}) -> {F}""")
    assert facts.same("s", "y")
    assert facts.same("t", "y")
    assert facts.written("l")
    assert not facts.written("x")


def test_a_list_that_an_op_makes_has_a_class_for_each_element() -> None:
    facts = Facts(f"""
        %m = pd_op.full() {{shape = array<i64: 2, 1>, value = 0.5 : f64,
            dtype = #pir.dtype<float32>}} : () -> tensor<2x1xf32>
        %l = pd_op.unbind(%m) {{axis = 0 : i32}} : (tensor<2x1xf32>) -> !pir.vec<{F}, {F}>
        %s, %t = pir.split(%l) : (!pir.vec<{F}, {F}>) -> ({F}, {F})
        %w = pd_op.relu_(%s) : ({F}) -> {F}""")
    assert facts.written("l")
    assert facts.written("s")
    assert not facts.written("t")


def test_values_keep_their_class_across_the_border_of_a_region() -> None:
    facts = Facts(f"""
        %y = pd_op.exp(%x) : ({F}) -> {F}
        %r = pd_op.if(%c) : (tensor<i1>) -> {F} {{
          pir.yield(%y) : ({F}) -> ()
        }} else {{
          %z = pd_op.sin(%x) : ({F}) -> {F}
          pir.yield(%z) : ({F}) -> ()
        }}
        %q = pd_op.while(%c, %r) : (tensor<i1>, {F}) -> {F} {{
        ^bb0(%s : {F}):
          %w = pd_op.relu_(%s) : ({F}) -> {F}
          pir.yield(%c, %w) : (tensor<i1>, {F}) -> ()
        }}""")
    assert all(facts.same("y", other) for other in ("r", "z", "s", "w", "q"))
    assert facts.written("y")
    assert not facts.written("x")


def test_a_loop_may_end_with_what_it_began_with() -> None:
    """Without an iteration its result is the initial value, whatever iterations yield."""
    facts = Facts(f"""
        %y = pd_op.sin(%x) : ({F}) -> {F}
        %q = pd_op.while(%c, %y) : (tensor<i1>, {F}) -> {F} {{
        ^bb0(%s : {F}):
          %e = pd_op.exp(%s) : ({F}) -> {F}
          pir.yield(%c, %e) : (tensor<i1>, {F}) -> ()
        }}""")
    assert facts.same("y", "s")
    assert facts.same("y", "q")


def test_the_host_owns_inputs_and_sees_what_has_a_name() -> None:
    facts = Facts(f"""
        %y = pd_op.exp(%x) : ({F}) -> {F}
        %z = pd_op.exp(%x) : ({F}) -> {F}
        %v = pd_op.share_data(%y) : ({F}) -> {F}
        pir.shadow_output(%v) {{output_name = "y"}} : ({F}) -> ()""")
    host = facts.classes.host
    assert set(facts.classes.of(facts.values["x"])) <= host
    assert set(facts.classes.of(facts.values["y"])) <= host
    assert not set(facts.classes.of(facts.values["z"])) & host


def test_what_stands_behind_a_read_in_a_loop_runs_before_it_in_the_next_turn() -> None:
    facts = Facts(f"""
        %a = pd_op.exp(%x) : ({F}) -> {F}
        %q = pd_op.while(%c, %a) : (tensor<i1>, {F}) -> {F} {{
        ^bb0(%s : {F}):
          %b = pd_op.exp(%x) : ({F}) -> {F}
          %d = pd_op.exp(%x) : ({F}) -> {F}
          %w = pd_op.sin(%x) : ({F}) -> {F}
          pir.yield(%c, %b) : (tensor<i1>, {F}) -> ()
        }}
        %e = pd_op.cos(%x) : ({F}) -> {F}""")
    order = order_of(facts.program)
    op = {name: value.owner for name, value in facts.values.items()}

    def between(first: str, middle: str, last: str) -> bool:
        return order.may_come_between(op[first], [order.positions[op[middle]]], op[last])

    assert between("a", "w", "b")
    assert not between("b", "w", "d")
    assert between("b", "d", "w")
    assert not between("a", "e", "b")
    assert between("a", "w", "e")


def test_what_a_loop_carries_has_a_class_for_each_place() -> None:
    """The condition, which is the first operand of the loop and of its yield, is no place."""
    facts = Facts(f"""
        %p = pd_op.exp(%x) : ({F}) -> {F}
        %q = pd_op.tanh(%x) : ({F}) -> {F}
        %r, %s = pd_op.while(%c, %p, %q) : (tensor<i1>, {F}, {F}) -> ({F}, {F}) {{
        ^body(%a : {F}, %b : {F}):
          %m = pd_op.sin(%a) : ({F}) -> {F}
          %n = pd_op.cos(%b) : ({F}) -> {F}
          pir.yield(%c, %m, %n) : (tensor<i1>, {F}, {F}) -> ()
        }}""")
    for one, other in (("p", "a"), ("q", "b"), ("r", "a"), ("s", "b"), ("m", "r"), ("n", "s")):
        assert facts.same(one, other)
    assert not facts.same("r", "s")
    assert not facts.same("c", "r")


def test_an_element_of_a_list_is_the_one_of_its_index() -> None:
    facts = Facts(f"""
        %p = pd_op.exp(%x) : ({F}) -> {F}
        %q = pd_op.tanh(%x) : ({F}) -> {F}
        %l = pir.combine(%p, %q, %x) : ({F}, {F}, {F}) -> !pir.vec<{F}, {F}, {F}>
        %s = pir.slice(%l) {{index = 0 : i32}} : (!pir.vec<{F}, {F}, {F}>) -> {F}
        %t = pir.slice(%l) {{index = 2 : i32}} : (!pir.vec<{F}, {F}, {F}>) -> {F}""")
    assert facts.same("s", "p")
    assert facts.same("t", "x")
    assert not facts.same("s", "t")


LISTS = f"""
        %m = pd_op.full() {{shape = array<i64: 2, 1>, value = 0.5 : f64,
            dtype = #pir.dtype<float32>}} : () -> tensor<2x1xf32>
        %l = pd_op.unbind(%m) {{axis = 0 : i32}} : (tensor<2x1xf32>) -> !pir.vec<{F}, {F}>
        %k = pir.combine(%x, %x) : ({F}, {F}) -> !pir.vec<{F}, {F}>
        %q, %n = pd_op.while(%c, %l, %x) : (tensor<i1>, !pir.vec<{F}, {F}>, {F})
            -> (!pir.vec<{F}, {F}>, {F}) {{
        ^bb0(%a : !pir.vec<{F}, {F}>, %b : {F}):
          %s, %t = pir.split(%a) : (!pir.vec<{F}, {F}>) -> ({F}, {F})
          %e = pd_op.exp(%b) : ({F}) -> {F}
          %w = pd_op.relu_(%t) : ({F}) -> {F}
          %o = pir.combine(%w, %e) : ({F}, {F}) -> !pir.vec<{F}, {F}>
          pir.yield(%c, %o, %s) : (tensor<i1>, !pir.vec<{F}, {F}>, {F}) -> ()
        }}
        %d = pir.slice(%q) {{index = 1 : i32}} : (!pir.vec<{F}, {F}>) -> {F}"""


def test_classes_of_lists_in_loops_are_those_of_a_search() -> None:
    facts = Facts(LISTS)
    assert_found(facts.program)
    assert facts.written("d")


@pytest.mark.parametrize("seed", range(40))
def test_classes_of_random_programs_are_those_of_a_search(seed: int) -> None:
    (program,) = [o for o in parsed(random_program(Random(seed))).ops if isinstance(o, ProgramOp)]
    assert_found(program)


Place = tuple[SSAValue, int]


def assert_found(program: ProgramOp) -> None:
    """Two elements share a class exactly if a path of equations connects them."""
    classes, edges = alias_classes(program), equations_of(program)
    groups: dict[int, set[Place]] = {}
    for value, elements in classes.elements.items():
        assert len(elements) == sizes_of(value)
        for k, element in enumerate(elements):
            groups.setdefault(element, set()).add((value, k))
    left = set[Place]().union(*groups.values())
    for group in groups.values():
        found, pending = set[Place](), [next(iter(group))]
        while pending:
            if (place := pending.pop()) not in found:
                found.add(place)
                pending += edges.get(place, ())
        assert found == group
        left -= found
    assert not left


def sizes_of(value: SSAValue) -> int:
    return len(value.type.items) if isinstance(value.type, VecType) else 1


def equations_of(program: ProgramOp) -> dict[Place, list[Place]]:
    """Which elements of values are the same storage, by each op alone; in both directions."""
    edges: dict[Place, list[Place]] = {}

    def same(one: SSAValue, other: SSAValue, at: int = 0, there: int = 0) -> None:
        for a, b in (((one, at), (other, there)), ((other, there), (one, at))):
            edges.setdefault(a, []).append(b)

    def whole(one: SSAValue, other: SSAValue) -> None:
        for k in range(sizes_of(one)):
            same(one, other, k, k)

    for op in operations(program.block):
        around = op.parent_op()
        if op.name == "pir.combine":
            for k, value in enumerate(op.operands):
                same(op.results[0], value, k)
        elif op.name == "pir.slice":
            same(op.results[0], op.operands[0], 0, op.attribute("index"))
        elif op.name == "pir.split":
            for k, value in enumerate(op.result_slots):
                if value is not None:
                    same(value, op.operands[0], 0, k)
        elif op.name == "pd_op.while":
            for k, result in enumerate(op.results):
                for other in (op.operands[k + 1], op.regions[0].block.args[k]):
                    whole(result, other)
        elif op.name == "pir.yield" and around is not None:
            first = int(around.name == "pd_op.while")
            for k, result in enumerate(around.results):
                whole(result, op.operands[k + first])
        else:
            pairs = op.definition.views.items() | (
                op.definition.inplace.items() if op.definition.writes else set()
            )
            for name, operand in pairs:
                one, other = op.result_named(name), op.operand_named(operand)
                if one is not None and other is not None:
                    whole(one, other)
    return edges


def test_a_list_is_written_if_one_of_its_elements_is() -> None:
    facts = Facts(f"""
        %y = pd_op.exp(%x) : ({F}) -> {F}
        %l = pir.combine(%x, %y) : ({F}, {F}) -> !pir.vec<{F}, {F}>
        %w = pd_op.relu_(%y) : ({F}) -> {F}""")
    assert facts.written("l")
    assert not facts.written("x")


def test_the_loads_of_a_kernel_write_nothing() -> None:
    """One result of the op is its operand, which asks whether a result is overwritten."""
    x, y = np.linspace(0.1, 1, 12).reshape(3, 4), np.array([[1], [0], [3]])
    call = partial(ops.cross_entropy_with_softmax, use_softmax=False)
    program = pirkit.trace(lambda x, y: [np.exp(r) * 2 for r in call(x, y)], x, y)
    run_pipeline(program.module, "fuse,decompose")
    assert sum(op.name == "pir.map_expr" for op in program.module.walk()) == 2

"""Alias classes and the order of operations, on programs small enough to see the answer."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.execution_order import operations, order_of
from pirkit.dialect.operation import PirOp, ProgramOp
from tests.execution import parsed

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

"""Kernels as regions of dialect `map_expr`: conversion, text, locations, verifier, laziness."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from copy import deepcopy
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import builtin as mlir
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import Rewriter

import pirkit
from pirkit.diag.errors import ParseError, PirkitError, VerifyError
from pirkit.dialect.map_expr import kernel_op, kernel_text
from pirkit.dialect.map_expr.affine import index_map, indices_of, sizes_map, sizes_of
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.map_expr.kernel_ops import StatementOp
from pirkit.dialect.map_expr.kernel_text import parse_kernel, print_kernel
from pirkit.dialect.map_expr.region_reader import kernel_of
from pirkit.dialect.map_expr.region_writer import region_of
from pirkit.dialect.map_expr.scalar_ops import ApplyOp, LoadOp
from pirkit.dialect.operation import ProgramOp, span_of
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.index.expr import Expr, broadcast, const, floor, iterator, read
from pirkit.index.extent import named
from pirkit.passes import run_pipeline
from tests.fusion.dynamic_programs import OpenMaker
from tests.fusion.random_programs import Maker
from tests.fusion.test_random import fused

PROGRAM = """
pir.program @main(%x "x" : tensor<4x5xf32>, %w "w" : tensor<5xf32>) {
  %e = pd_op.exp(%x) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %a = pd_op.add(%e, %w) : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  %s = pd_op.sum(%a) {axis = array<i64: 1>, keepdim = false} : (tensor<4x5xf32>) -> tensor<4xf32>
  pir.shadow_output(%s) {output_name = "y"} : (tensor<4xf32>) -> ()
}
"""


def kernels(program: ProgramOp) -> Iterator[KernelOp]:
    return (op for op in program.operations if isinstance(op, KernelOp))


def fused_text() -> str:
    module = parse_mlir(PROGRAM, "model.mlir")
    run_pipeline(module, "fuse")
    return print_mlir(module)


FUSED = fused_text()


def only_kernel(module: mlir.ModuleOp) -> KernelOp:
    return next(op for op in module.walk() if isinstance(op, KernelOp))


# --- round trips ----------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_random_kernels_survive_the_region_and_both_texts(seed: int, is_dynamic: bool) -> None:
    maker = OpenMaker if is_dynamic else Maker
    program, _ = fused(maker(seed, depth=6).program, single=True)
    for op in kernels(program):
        kernel = op.kernel
        held = op.properties.get("loops")
        again = kernel_of(kernel.name, cast("mlir.AffineMapAttr | None", held), region_of(kernel))
        assert print_kernel(again) == op.attribute("kernel")
    module = cast(mlir.ModuleOp, program.parent_op())
    for options in ({}, {"generic": True}, {"locations": True}):
        printed = print_mlir(module, **options)
        read_back = parse_mlir(printed)
        verify_module(read_back)
        found = [
            op.attribute("kernel") for p in read_back.ops for op in kernels(cast(ProgramOp, p))
        ]
        assert found == [op.attribute("kernel") for op in kernels(program)]
        if "locations" not in options:
            assert print_mlir(read_back, **options) == printed


S0, S1 = named("s0"), named("s1")
LEAVES = st.sampled_from([
    *(iterator(f"i{k}", n) for k, n in enumerate((4, 7, S0, S0 * S1))),
    read(0, (iterator("i0", 4),), 9), const(3), const(S0 * 2 + 1),
])  # fmt: skip
FACTORS = st.sampled_from([-3, -1, 2, 5, S0, S1 * 2, S0 * S1 + 1])
DIVISORS = st.sampled_from([2, 3, 8, S0, S1 * 4])
EXPRS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, k: a * k, inner, FACTORS),
        st.builds(floor, inner, DIVISORS),
        st.builds(lambda a, n: a % n, inner, st.sampled_from([2, 8])),
        st.builds(broadcast, inner, st.sampled_from([S0, S1])),
    ),
    max_leaves=6,
)


@given(st.lists(EXPRS, max_size=3))
@settings(max_examples=150, deadline=None)
def test_an_index_is_its_affine_map(index: list[Expr]) -> None:
    attribute, atoms = index_map(tuple(index))
    dims = [const(0)] * len(atoms)
    for k, atom in enumerate(atoms):
        (dims[k],) = [e for e in _singles(index) if e.terms[0][0] is atom]
    assert all(a is b for a, b in zip(indices_of(attribute, dims), index, strict=True))
    spelled = parse_mlir(f"pir.program @p attributes {{my.map = {attribute}}} {{}}")
    (program,) = spelled.ops
    assert program.attributes["my.map"] == attribute


def _singles(index: list[Expr]) -> list[Expr]:
    """The expressions that are one iterator or one data-dependent index."""
    leaves = [iterator(f"i{k}", n) for k, n in enumerate((4, 7, S0, S0 * S1))]
    return [*leaves, read(0, (iterator("i0", 4),), 9)]


def test_sizes_are_maps_without_dimensions() -> None:
    assert str(sizes_map((4, S0 * S1 * 2 + 1))) == (
        "affine_map<()[s0, s1] -> (4, (((s0 * s1) * 2) + 1))>"
    )
    assert sizes_of(sizes_map((4, S0 * S1 * 2 + 1))) == (4, S0 * S1 * 2 + 1)


def test_the_text_of_a_kernel_is_read_as_its_region() -> None:
    module = parse_mlir(FUSED)
    quoted = only_kernel(module).attribute("kernel").replace("\n", "\\0A").replace('"', '\\"')
    before, _, rest = FUSED.partition("pir.map_expr @")
    tail = rest.partition("map_expr.output")[2].partition("}\n")[2]
    types = "(tensor<4x5xf32>, tensor<5xf32>) -> tensor<4xf32>"
    old = f'{before}pir.map_expr(%x, %w) {{kernel = "{quoted}"}} : {types}\n{tail}'
    assert print_mlir(parse_mlir(old)) == FUSED


# --- locations ------------------------------------------------------------------------------------


def test_what_is_inside_has_the_line_of_the_op_that_it_comes_from() -> None:
    module = parse_mlir(PROGRAM, "model.mlir")
    run_pipeline(module, "fuse")
    op = only_kernel(module)
    assert isinstance(op.location, mlir.FusedLoc)
    assert str(span_of(op)) == "model.mlir:5:3"  # of several the last
    lines = {o.op.data: span_of(o) for o in op.walk() if isinstance(o, ApplyOp)}
    assert {name: str(span) for name, span in lines.items()} == {
        "pd_op.exp": "model.mlir:3:3",
        "pd_op.add": "model.mlir:4:3",
    }
    (statement,) = [o for o in op.walk() if isinstance(o, StatementOp)]
    assert str(span_of(statement)) == "model.mlir:5:3"
    again = parse_mlir(print_mlir(module, locations=True), "other.mlir")
    assert print_mlir(again, locations=True).count("model.mlir") == print_mlir(
        module, locations=True
    ).count("model.mlir")


# --- one source: the region -----------------------------------------------------------------------


def test_a_kernel_is_derived_again_only_after_its_region_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived: list[str] = []

    def counted(name: str, *rest: object, **more: object) -> object:
        derived.append(name)
        return kernel_of(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(kernel_op, "kernel_of", counted)
    op = only_kernel(parse_mlir(FUSED))
    assert "pd_op.exp" in op.attribute("kernel")
    assert op.attribute("kernel") is op.attribute("kernel")
    assert len(derived) == 1
    (exp,) = [o for o in op.walk() if isinstance(o, ApplyOp) and o.op.data == "pd_op.exp"]
    exp.properties["op"] = mlir.StringAttr("pd_op.sin")
    assert "t0 = pd_op.sin(x0[i0, r0], {}, float32)" in op.attribute("kernel")
    exp.results[0].replace_all_uses_with(exp.args[0])
    Rewriter.erase_op(exp)
    assert "pd_op.sin" not in op.attribute("kernel").partition("value")[2]
    assert len(derived) == 3


def test_compiling_writes_no_region_and_parses_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setenv("PIRKIT_NATIVE_CACHE", "objects")
    monkeypatch.setattr(kernel_op, "region_of", never)
    monkeypatch.setattr(kernel_text, "parse_kernel", never)
    x = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)
    program = pirkit.Program(parse_mlir(PROGRAM.replace("@main", "@fresh")))
    got = pirkit.compile(program)(x=x, w=x[0])["y"]
    np.testing.assert_allclose(got, (np.exp(x) + x[0]).sum(1), rtol=1e-5)


def test_a_copy_of_a_kernel_is_independent() -> None:
    for looked_at in (False, True):
        module = parse_mlir(PROGRAM)
        run_pipeline(module, "fuse")
        op = only_kernel(module)
        assert len(op.regions) == 1 or not looked_at
        copy = only_kernel(module.clone())
        (load, *_) = [o for o in copy.walk() if isinstance(o, LoadOp)]
        load.properties["index"] = mlir.AffineMapAttr(AffineMap.from_callable(lambda a, b: (b, a)))
        assert "x0[i0, r0]" in op.attribute("kernel")
        assert "x0[r0, i0]" in copy.attribute("kernel")


def test_programs_are_copied_and_described_without_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    program = pirkit.run_passes(pirkit.Program(parse_mlir(PROGRAM)), "fuse")
    with monkeypatch.context() as patch:
        patch.setattr(kernel_op, "region_of", None)
        copies = [program.copy(), deepcopy(program)]
        assert "@main of 2 ops" in repr(program)
    copies.append(pickle.loads(pickle.dumps(program)))
    assert [str(c) for c in copies] == [str(program)] * 3
    assert "@main of 2 ops" in repr(program)  # a kernel is one, also when its region is there


def test_a_pass_over_the_program_does_not_look_inside() -> None:
    module = parse_mlir(FUSED)
    run_pipeline(module, "canonicalize,cse,constant-fold,dce,functionalize,infer-meta,fuse")
    assert print_mlir(module) == FUSED


# --- verifier -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("%x0[%i0, %r0] : f32", "%x0[%i0] : f32", "1 indices for 2 axes"),
        ("%x0[%i0, %r0] : f32", "%x0[%i0, %r0] : f64", "an element is a f32, not f64"),
        ("%x0[%i0, %r0] : f32", "%x0[%i0, %r0 + 1] : f32", "reads outside of"),
        ("%x0[%i0, %r0] : f32", "%x0[%i0, %r0 * %i0] : f32", "is no size"),
        ("%x0[%i0, %r0] : f32", "%x0[%i0, %r0 floordiv 0] : f32", "an index is divided by 0"),
        ("%x0[%i0, %r0] : f32", "%o0[%i0, %r0] : f32", "reads what is neither an input"),
        ("%x0[%i0, %r0] : f32", "%x[%i0, %r0] : f32", "reads what is neither an input"),
        ("map_expr.iteration [%i0]", "map_expr.iteration []", "0 rows of 1"),
        ("map_expr.iteration [%i0]", "map_expr.output %o0", "must be the last operation"),
        ("phase 0 reduce", "phase 0 tile [3] reduce", "expected"),
        ('reduce "pd_op.sum" [5]', 'reduce "pd_op.sum" [5, 2]', "its iterators are 1 of the value"),
        ('reduce "pd_op.sum" [5]', 'reduce "pd_op.sum" [1000000000000]', "reads outside of"),
        ('reduce "pd_op.sum" [5]', f'reduce "pd_op.sum" [{2**62}]', "more than 2^63 - 1"),
        ('reduce "pd_op.sum" [5]', 'reduce "pd_op.max" [5]', "it is reduced in another way"),
        ('apply "pd_op.exp"', 'apply "pd_op.sin"', "pd_op.exp is missing"),
        ("statement of %o2", "statement of %o1", "a statement has the type of its origin"),
        ("%x0: tensor<4x5xf32>", "%x0: tensor<?x5xf32>", "of which size each axis is"),
        ("%t0 = map_expr.apply", "%t0 = pd_op.exp(%0) : (f32) -> f32\n %t9 = map_expr.apply",
         "`f32` is no type of a program's values"),
        ("map_expr.output %v0", "map_expr.output %x0", "returns an input"),
        ("loops [4]", "loops [s]", "is no size"),
        ("map_expr.iteration", "map_expr.nothing", "unknown op `map_expr.nothing`"),
    ],
)  # fmt: skip
def test_a_region_that_is_no_kernel_is_refused(old: str, new: str, why: str) -> None:
    assert old in FUSED
    with pytest.raises(PirkitError) as caught:
        verify_module(parse_mlir(FUSED.replace(old, new, 1)))
    assert why in caught.value.message
    assert caught.value.span is not None


def test_a_scalar_may_not_be_used_before_its_definition_nor_outside() -> None:
    lines = FUSED.splitlines()
    (load,) = [k for k, line in enumerate(lines) if "map_expr.load %x0" in line]
    swapped = [*lines[:load], lines[load + 1], lines[load], *lines[load + 2 :]]
    with pytest.raises(ParseError):
        parse_mlir("\n".join(swapped))
    module = parse_mlir(FUSED)
    op = only_kernel(module)
    (first, *_) = [o for o in op.walk() if isinstance(o, LoadOp)]
    first.detach()
    (statement,) = [o for o in op.walk() if isinstance(o, StatementOp)]
    last = statement.body.block.last_op
    assert last is not None
    statement.body.block.insert_op_before(first, last)
    with pytest.raises(VerifyError, match="a scalar that is not defined above it"):
        verify_module(module)


@pytest.mark.parametrize(
    "index", ["-" * 5000 + "1", "1" + " + 1" * 5000, "(" * 90 + "1" + ")" * 90]
)
def test_the_text_of_an_index_is_bounded(index: str) -> None:
    with pytest.raises(PirkitError):
        verify_module(parse_mlir(FUSED.replace("%x0[%i0, %r0]", f"%x0[%i0, {index}]")))


def test_the_text_form_is_still_parsed() -> None:
    op = only_kernel(parse_mlir(FUSED))
    assert print_kernel(parse_kernel(op.attribute("kernel"))) == op.attribute("kernel")


def test_a_clone_of_a_module_reads_its_own_region() -> None:
    """xDSL sets the operands of everything in a clone, so that regions have to be written."""
    module = parse_mlir(PROGRAM)
    run_pipeline(module, "@fused")
    (program,) = module.clone().ops
    (op,) = kernels(cast(ProgramOp, program))
    blocks = [b for inner in op.walk() for r in inner.regions for b in r.blocks]
    own = {*(a for b in blocks for a in b.args), *(r for i in op.walk() for r in i.results)}
    assert all(v in own for inner in op.walk() if inner is not op for v in inner.operands)

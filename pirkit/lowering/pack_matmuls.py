"""Weights of matmuls in panels, for programs whose weights are known."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.frozen_values import frozen_values
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.types import meta_of
from pirkit.lowering.codegen.matmul.gemm import Gemm
from pirkit.lowering.codegen.matmul.macrokernel import tile_shape_for
from pirkit.lowering.codegen.matmul.quantized_rows import product_tile
from pirkit.lowering.whole_program.matmul import QUANTIZED, matmul_of
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.replace_ops import erase
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host


@dataclass(frozen=True)
class PackMatmulsPass(Pass):
    """Pack known right operands of matmuls into the panels that native code multiplies.

    A matrix ``[K, N]`` becomes panels ``[P, K, n]`` of n columns, the last one filled up with
    zeros. Only matmuls that native code runs in blocks are changed: a product of few rows reads its
    matrix once, which packing would not make faster. `hoist-constants` takes the packing out of the
    program.

    ::

        %1 = pd_op.matmul(%0, %w) ... : (tensor<64x96xf32>, tensor<96x80xf32>) -> tensor<64x80xf32>
        // becomes
        %2 = pd_op.pad(%w) {paddings = array<i32: 0, 0, 0, 16>} ... -> tensor<96x96xf32>
        %3 = pd_op.reshape(%2, ...) ... -> tensor<96x4x24xf32>
        %4 = pd_op.transpose(%3) {perm = array<i32: 1, 0, 2>} ... -> tensor<4x96x24xf32>
        %1 = pir.packed_matmul(%0, %4) {columns = 80} ... -> tensor<64x80xf32>
    """

    name = "pack-matmuls"
    stats = Stats(packed="matmuls with a packed operand")

    panel: int = option(0, "columns of a panel; 0 for those that suit this CPU")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            self.pack(ctx, program)

    def pack(self, ctx: PassContext, program: ProgramOp) -> None:
        frozen = frozen_values(program)
        done: dict[tuple[SSAValue, bool], Value] = {}
        for op in ctx.each([o for o in program.block.ops if isinstance(o, PirOp)]):
            if op.name == QUANTIZED and op.operands[1] in frozen:
                self.pack_quantized(ctx, program, op)
                continue
            if op.name != "pd_op.matmul" or op.operands[1] not in frozen:
                continue
            found = _in_blocks(op)
            if found is None:
                continue
            b = Builder(program.block, before=op, location=op.location)
            weights, turned = op.operands[1], bool(op.attribute("transpose_y"))
            columns = self.panel or tile_shape_for(found.dtype, host()).columns
            panels = done.get((weights, turned))
            if panels is None:
                panels = _packed(b, b.wrap(weights), turned, columns)
                done[weights, turned] = panels
            made = b("pir.packed_matmul", b.wrap(op.operands[0]), panels, columns=found.columns)
            made.ssa.name_hint = op.results[0].name_hint
            ctx.rewrote("matmul", op)
            ctx.count("packed")
            op.results[0].replace_all_uses_with(made.ssa)
            erase(op)

    def pack_quantized(self, ctx: PassContext, program: ProgramOp, op: PirOp) -> None:
        """Put the weights `[K, N]` of a product into panels; those of pairs for one of integers."""
        x, weights, scales, x_scales = op.operand_slots
        held, exact = meta_of(op.operands[1].type), x_scales is not None
        if not isinstance(held, TensorMeta) or held.rank != 2 or not held.is_static:
            return
        assert x is not None
        assert weights is not None
        b = Builder(program.block, before=op, location=op.location)
        columns = self.panel or product_tile(host(), exact).columns
        panels = _packed(b, b.wrap(weights), False, columns, 2 if exact else 1)
        others = [None if v is None else b.wrap(v) for v in (scales, x_scales)]
        made = b(QUANTIZED, b.wrap(x), panels, *others, columns=held.shape[1])
        made.ssa.name_hint = op.results[0].name_hint
        ctx.rewrote("quantized", op)
        ctx.count("packed")
        op.results[0].replace_all_uses_with(made.ssa)
        erase(op)


def _in_blocks(op: PirOp) -> Gemm | None:
    """The sizes of a matmul of rows by one matrix that runs in blocks; None for another one."""
    metas = [meta_of(v.type) for v in (*op.operands, op.results[0])]
    static = [m for m in metas if isinstance(m, TensorMeta) and m.is_static]
    if len(static) < 3 or static[1].rank != 2 or op.attribute("transpose_x"):
        return None
    x, y, out = static
    if not x.dtype == y.dtype == out.dtype:
        return None
    try:
        found = matmul_of(x, y, out, (False, bool(op.attribute("transpose_y"))))
    except NotNativeError:
        return None
    return found if isinstance(found, Gemm) else None


def _packed(b: Builder, weights: Value, turned: bool, columns: int, group: int = 1) -> Value:
    """Panels of a matrix, which is ``turned`` if its rows are columns of the product.

    With a ``group``, so many rows of a column are together.
    """
    if turned:
        weights = b.transpose(weights, perm=(1, 0))
    depth, width = weights.meta.shape
    more, rest = -depth % group, -width % columns
    if more or rest:
        weights = b("pd_op.pad", weights, pad_value=0.0, paddings=(0, more, 0, rest))
    count = (width + rest) // columns
    if group == 1:
        return b.transpose(b.reshape(weights, (depth, count, columns)), perm=(1, 0, 2))
    split = b.reshape(weights, ((depth + more) // group, group, count, columns))
    return b.transpose(split, perm=(2, 0, 3, 1))

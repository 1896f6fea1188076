"""Weights of matmuls in panels, for programs whose weights are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.analysis.frozen_values import frozen_values
from pirkit.diag.errors import UsageError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.types import meta_of
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm
from pirkit.lowering.codegen.matmul.quantized_rows import DIRECT_ROWS, exact_group, product_tile
from pirkit.lowering.native_ops import QUANTIZED
from pirkit.lowering.whole_program.matmul import MAX_THIN_EXTENT, matmul_of
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.replace_ops import erase
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host

MIN_WEIGHTS: Final = 1 << 14
"""Elements of a matrix from which on it pays to read it from panels."""


@dataclass(frozen=True)
class PackMatmulsPass(Pass):
    """Pack known right operands of matmuls into the panels that native code multiplies.

    A matrix ``[K, N]`` becomes panels ``[P, K, n]`` of n columns, the last one filled up with
    zeros. Only matmuls that native code runs in blocks are changed, and products of up to 128 rows
    in float32, which read large matrices at the rate of memory from panels; and
    `pir.quantized_matmul`, for integers with 2 rows together, ``[P, K / 2, n, 2]``, or 4 for VNNI.
    `hoist-constants` takes the packing out of the program.

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
    group: int = option(0, "rows of integers together, 2 or 4; 0 for those that suit this CPU")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        if self.panel < 0 or self.group not in (0, 2, 4):
            raise UsageError(
                f"`pack-matmuls` takes no `panel={self.panel},group={self.group}`: a panel has "
                "0 columns or more, and a group 0, 2 or 4 rows",
                code="PK0703",
                help="`pirkit-opt --help-pass pack-matmuls`",
            )
        for program in ctx.programs(module):
            self.pack(ctx, program)

    def pack(self, ctx: PassContext, program: ProgramOp) -> None:
        frozen = frozen_values(program)
        done: dict[tuple[SSAValue, bool, int], Value] = {}
        for op in ctx.each(list(operations(program.block))):
            quantized = op.name == QUANTIZED and _rank(op.operands[1]) == 2
            if not (quantized or _suits(op)) or op.operands[1] not in frozen:
                continue
            b = Builder(cast(Block, op.parent), before=op, location=op.location)
            x, weights, *others = [None if v is None else b.wrap(v) for v in op.operand_slots]
            assert x is not None
            assert weights is not None
            exact = x.dtype in (dt.int8, dt.uint8)
            group = (self.group or exact_group(host())) if exact else 1
            transposed = bool(not quantized and op.attribute("transpose_y"))
            width = weights.shape[0 if transposed else 1]
            kind = dt.float32 if exact else x.dtype
            columns = self.panel or product_tile(host(), exact, width, kind).columns
            panels = done.get((weights.ssa, transposed, group))
            if panels is None:
                # before the loops around the matmul
                top = Builder(program.block, _outermost(op, program.block), location=op.location)
                panels = _packed(top, weights, transposed, columns, group)
                done[weights.ssa, transposed, group] = panels
            name = QUANTIZED if quantized else "pir.packed_matmul"
            made = b(name, x, panels, *others, columns=width)
            made.ssa.name_hint = op.results[0].name_hint
            ctx.rewrote("matmul", op)
            ctx.count("packed")
            op.results[0].replace_all_uses_with(made.ssa)
            erase(op)


def _outermost(op: Operation, block: Block) -> Operation:
    """The op of a block in whose regions an op is, or the op itself."""
    found: Operation | None = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


def _rank(value: SSAValue) -> int:
    meta = meta_of(value.type)
    return meta.rank if isinstance(meta, TensorMeta) else 0


def _suits(op: PirOp) -> bool:
    """Whether an op is a matmul of rows by one matrix that runs in blocks, or of some rows in
    float32 by a large matrix.
    """
    if op.name != "pd_op.matmul" or op.attribute("transpose_x"):
        return False
    metas = [meta_of(v.type) for v in (*op.operands, op.results[0])]
    static = [m for m in metas if isinstance(m, TensorMeta) and m.is_static]
    if len(static) < 3 or static[0].rank < 2 or static[1].rank != 2:
        return False
    x, y, out = static
    if not x.dtype == y.dtype == out.dtype:
        return False
    rows, columns = out.numel // max(out.shape[-1], 1), out.shape[-1]
    large = y.numel >= MIN_WEIGHTS and columns >= MAX_THIN_EXTENT
    if x.dtype is dt.float32 and 0 < rows <= DIRECT_ROWS and large:
        return True
    try:
        found = matmul_of(x, y, out, (False, bool(op.attribute("transpose_y"))))
    except NotNativeError:
        return False
    return isinstance(found, Gemm)


def _packed(b: Builder, weights: Value, transposed: bool, columns: int, group: int = 1) -> Value:
    """Panels of a matrix, which is ``transposed`` if its rows are columns of the product.

    With a ``group``, so many rows of a column are together.
    """
    if transposed:
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

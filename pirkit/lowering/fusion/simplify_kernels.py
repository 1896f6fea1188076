"""The pass `simplify-kernels`: rewrites the operations inside of fused kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.traits import Pure

from pirkit.analysis.execution_order import operations
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.map_expr.kernel_ops import OriginOp, StatementOp
from pirkit.dialect.map_expr.kernel_text import print_kernel
from pirkit.dialect.map_expr.specialize import sizes_at, with_sizes
from pirkit.dialect.map_expr.verify_kernel import problem_of
from pirkit.dialect.types import meta_of
from pirkit.index.extent import is_sized
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import replace
from pirkit.runtime.meta import UNKNOWN, TensorMeta


class SimplifyKernelsPass(Pass):
    """Merge equal scalars of fused kernels, drop unused ones, and write known sizes for symbols.

    Scalars of one statement are equal if the same op is applied to the same scalars, or the same
    element is read. A statement goes if no other one reads it and its result is not used outside.
    Sizes are known where the operands have static types. Indices stay those of the replaced ops,
    so that the certificate of the kernel still holds.

    ::

        %t0 = map_expr.apply "pd_op.exp"(%0) : f32
        %t1 = map_expr.apply "pd_op.exp"(%0) : f32
        %t2 = map_expr.apply "pd_op.add"(%t0, %t1) : f32
        // becomes
        %t0 = map_expr.apply "pd_op.exp"(%0) : f32
        %t1 = map_expr.apply "pd_op.add"(%t0, %t0) : f32
    """

    name = "simplify-kernels"
    stats = Stats(
        merged="scalars merged",
        unused="scalars, statements and results without use",
        specialized="kernels with known sizes in place of symbols",
    )

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        patterns: list[RewritePattern] = [_MergeEqual(ctx), _DropUnused(ctx)]
        walker = PatternRewriteWalker(GreedyRewritePatternApplier(patterns), walk_reverse=True)
        for program in ctx.programs(module):
            for op in list(operations(program.block)):
                if isinstance(op, KernelOp):
                    ctx.current = op
                    _specialize(op, ctx)
                    walker.rewrite_region(_without_unused_results(op, ctx).regions[0])
        ctx.current = None


def _specialize(op: KernelOp, ctx: PassContext) -> None:
    """Replace the symbols whose value the operand types determine."""
    kernel = op.kernel
    if not kernel.is_sized:
        return
    shapes = [cast(TensorMeta, meta_of(v.type)).shape for v in op.operands]
    found = sizes_at(kernel, shapes).items()
    sizes = {name: n for name, n in found if n != UNKNOWN and not is_sized(n)}
    found = with_sizes(kernel, sizes)
    # an axis of one element is indexed by 0, which does not always follow from the replaced ops
    if sizes and problem_of(print_kernel(found)) is None:
        ctx.rewrote("specialize", op)
        ctx.count("specialized")
        op.replace_kernel(found)


def _without_unused_results(op: KernelOp, ctx: PassContext) -> KernelOp:
    """The kernel, or what replaces it: the same without the results that nobody uses."""
    used = [k for k, result in enumerate(op.results) if result.first_use]
    if len(used) in (0, len(op.results)):  # `dce` erases a kernel without any use
        return op
    ctx.rewrote("unused-result", op)
    ctx.count("unused", len(op.results) - len(used))
    region = op.detach_region(op.regions[0])
    last = cast(Operation, region.block.last_op)
    last.operands = [last.operands[k] for k in used]
    new = op.create(
        operands=op.operands,
        result_types=[op.results[k].type for k in used],
        properties=op.properties,
        attributes={k: v for k, v in op.attributes.items() if not isinstance(v, DenseArrayBase)},
        location=op.location,
        regions=[region],
    )
    fresh = iter(new.results)
    replace(op, [next(fresh) if k in used else None for k in range(len(op.results))], [new])
    return new


@dataclass
class _MergeEqual(RewritePattern):
    """Merges the equal scalars and indices of a statement."""

    ctx: PassContext

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StatementOp, rewriter: PatternRewriter) -> None:
        known: dict[tuple[object, ...], Operation] = {}
        for inner in op.body.block.ops:
            if not inner.has_trait(Pure):
                continue
            # by spelling: 0.0 and -0.0 are equal attributes
            held = tuple((k, str(v)) for k, v in sorted(inner.properties.items()))
            key = (inner.name, tuple(inner.operands), held, inner.results[0].type)
            first = known.setdefault(key, inner)
            if first is not inner:
                self.ctx.rewrote("merge", inner)
                self.ctx.count("merged")
                rewriter.replace(inner, [], first.results)


@dataclass
class _DropUnused(RewritePattern):
    """Erases scalars, statements and replaced ops that nothing uses."""

    ctx: PassContext

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        may_go = op.has_trait(Pure) or isinstance(op, StatementOp | OriginOp)
        if may_go and not any(r.first_use for r in op.results):
            self.ctx.rewrote("unused", op)
            self.ctx.count("unused")
            rewriter.erase(op)

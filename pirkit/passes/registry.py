"""The table of passes; a pass is imported at its first use."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from pirkit.diag.errors import UsageError
from pirkit.diag.gc_pause import imported
from pirkit.diag.span import Span
from pirkit.passes.base import Pass
from pirkit.passes.pipelines import PIPELINES

PASSES: Final[dict[str, str]] = {
    "absorb-attributes": "pirkit.passes.absorb_attributes:AbsorbAttributesPass",
    "autodiff": "pirkit.passes.differentiate:AutodiffPass",
    "block-channels": "pirkit.passes.block_channels:BlockChannelsPass",
    "canonicalize": "pirkit.passes.canonicalize:CanonicalizePass",
    "constant-fold": "pirkit.passes.constant_fold:ConstantFoldPass",
    "convert-dtype": "pirkit.passes.convert_dtype:ConvertDtypePass",
    "cse": "pirkit.passes.cse:CsePass",
    "dce": "pirkit.passes.dce:DcePass",
    "decompose": "pirkit.passes.decompose:DecomposePass",
    "expand-gradients": "pirkit.passes.expand_gradients:ExpandGradientsPass",
    "fold-batch-norm": "pirkit.passes.fold_batch_norm:FoldBatchNormPass",
    "fuse": "pirkit.lowering.fusion.fuse_pass:FusePass",
    "functionalize": "pirkit.passes.functionalize:FunctionalizePass",
    "hoist-constants": "pirkit.passes.hoist_constants:HoistConstantsPass",
    "infer-meta": "pirkit.passes.infer_meta:InferMetaPass",
    "inline-vec": "pirkit.passes.inline_vec:InlineVecPass",
    "inplace": "pirkit.passes.inplace:InplacePass",
    "print-alias": "pirkit.passes.print_alias:PrintAliasPass",
    "print-origins": "pirkit.passes.print_origins:PrintOriginsPass",
    "simplify-kernels": "pirkit.lowering.fusion.simplify_kernels:SimplifyKernelsPass",
    "split": "pirkit.split.split_pass:SplitPass",
    "taylor": "pirkit.passes.taylor:TaylorPass",
    "verify-primitive": "pirkit.passes.verify_primitive:VerifyPrimitivePass",
}
"""Name of each pass -> its module and class. Other packages may add theirs."""

_OWN: Final = (dict(PASSES), dict(PIPELINES))


def are_own() -> bool:
    """True if all passes and named pipelines are pirkit's own."""
    return (PASSES, PIPELINES) == _OWN


def pass_named(name: str, span: Span | None = None) -> type[Pass]:
    """The pass class of that name. Raises UsageError (PK0702) with the nearest names."""
    package = PASSES.get(name)
    if package is None:
        near = difflib.get_close_matches(name, PASSES)
        near.sort(key=lambda other: other[0] != name[:1])  # few people mistype the first letter
        raise UsageError(
            f"unknown pass `{name}`",
            code="PK0702",
            span=span,
            help=f"did you mean `{near[0]}`?" if near else f"passes are {', '.join(PASSES)}",
        )
    module, _, cls = package.partition(":")
    return getattr(imported(module), cls)


def all_passes() -> Iterator[type[Pass]]:
    """Every pass class, by name."""
    return (pass_named(name) for name in sorted(PASSES))

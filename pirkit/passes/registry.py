"""The table of passes; a pass is imported at its first use.

Other packages name theirs in the entry points of the group ``pirkit.passes``::

    [project.entry-points."pirkit.passes"]
    my-pass = "my_package.my_pass:MyPass"

or register a class with `register_pass`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final, TypeVar

from pirkit.diag.errors import PirkitError, UsageError
from pirkit.diag.gc_pause import imported
from pirkit.diag.once import once
from pirkit.diag.plugins import plugins
from pirkit.diag.span import Span
from pirkit.passes.base import Pass, require_name
from pirkit.passes.pipelines import PIPELINES

P = TypeVar("P", bound=type[Pass])

GROUP: Final = "pirkit.passes"

PASSES: Final[dict[str, str | type[Pass]]] = {
    "absorb-attributes": "pirkit.passes.absorb_attributes:AbsorbAttributesPass",
    "autodiff": "pirkit.passes.differentiate:AutodiffPass",
    "block-channels": "pirkit.passes.block_channels:BlockChannelsPass",
    "canonicalize": "pirkit.passes.canonicalize:CanonicalizePass",
    "constant-fold": "pirkit.passes.constant_fold:ConstantFoldPass",
    "convert-dtype": "pirkit.passes.convert_dtype:ConvertDtypePass",
    "convolve-transposed": "pirkit.passes.transposed_convs:ConvolveTransposedPass",
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
    "pack-matmuls": "pirkit.lowering.pack_matmuls:PackMatmulsPass",
    "print-alias": "pirkit.passes.print_alias:PrintAliasPass",
    "print-origins": "pirkit.passes.print_origins:PrintOriginsPass",
    "reassociate": "pirkit.passes.reassociate:ReassociatePass",
    "simplify-kernels": "pirkit.lowering.fusion.simplify_kernels:SimplifyKernelsPass",
    "quantize": "pirkit.passes.quantize:QuantizePass",
    "slice-gathers": "pirkit.passes.slice_gathers:SliceGathersPass",
    "split": "pirkit.split.split_pass:SplitPass",
    "taylor": "pirkit.passes.taylor:TaylorPass",
    "split-complex": "pirkit.passes.split_complex:SplitComplexPass",
    "verify-primitive": "pirkit.passes.verify_primitive:VerifyPrimitivePass",
}
"""Name of each pass -> its module and class, or the class."""

_OWN: Final = (dict(PASSES), dict(PIPELINES))


def are_own() -> bool:
    """True if all passes and named pipelines are pirkit's own."""
    return (PASSES, PIPELINES) == _OWN


def register_pass(cls: P) -> P:
    """Give pipelines a pass under its name; use it as a decorator.

    Raises UsageError (PK0702) if the name is taken by a class of another name, and ArgumentError
    (PK0701) if it has none.
    """
    require_name(cls)
    held = PASSES.get(cls.name)
    # A file that is loaded again, as in a notebook, replaces its passes.
    if held is not None and (isinstance(held, str) or held.__qualname__ != cls.__qualname__):
        raise UsageError(
            f"the name `{cls.name}` of {cls.__qualname__} belongs to another pass",
            code="PK0702",
            help="give the class another `name`",
        )
    PASSES[cls.name] = cls
    return cls


@once
def _add_plugins() -> None:
    """Add the passes that installed packages declare; pirkit's own names stay pirkit's."""
    for point in plugins(GROUP):
        PASSES.setdefault(point.name, point.value)


def pass_named(name: str, span: Span | None = None) -> type[Pass]:
    """The pass class of that name. Raises UsageError (PK0702) with the nearest names."""
    if name not in PASSES:
        _add_plugins()
    package = PASSES.get(name)
    if package is None:
        known = [*PASSES, *(f"@{pipeline}" for pipeline in PIPELINES)]
        near = difflib.get_close_matches(name.lower(), known)
        near.sort(key=lambda other: other.strip("@")[0] != name[:1])  # few mistype the first letter
        hint = f"`{name}` is a pipeline: `pirkit-opt --list-passes` shows its passes"
        raise UsageError(
            f"unknown pass `{name}`",
            code="PK0702",
            span=span,
            help=hint
            if name in known
            else f"did you mean `{near[0]}`?"
            if near
            else f"passes are {', '.join(PASSES)}",
        )
    if not isinstance(package, str):
        return package
    module, _, cls = package.partition(":")
    try:
        return getattr(imported(module), cls)
    except PirkitError:
        raise
    except Exception as error:  # its package may raise anything
        raise UsageError(
            f"pass `{name}` cannot be imported from `{package}`: {error}",
            code="PK0702",
            span=span,
            help=f"correct `{module}`, or the entry point or table that names it",
        ) from error


def all_passes() -> Iterator[type[Pass]]:
    """Every pass class, by name."""
    _add_plugins()
    return (pass_named(name) for name in sorted(PASSES))

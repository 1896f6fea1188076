"""The passes and named pipelines in ``pirkit-opt --help``: see `passes_help.pass_rows`.

It is a table because importing the passes takes half a second. A test compares the two.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = (
    (
        "absorb-attributes",
        "Turn constant operands that stand for an attribute into that attribute.",
    ),
    (
        "autodiff",
        "Append the backward of each program: derivatives of its outputs, as further outputs.",
    ),
    (
        "canonicalize",
        "Apply algebraic rewrites until none applies, and take branches whose condition is known.",
    ),
    ("constant-fold", "Compute pure operations on constants, and write down the result."),
    ("convert-dtype", "Compute in another element type: half precision, or double."),
    ("cse", "Merge operations that compute the same value."),
    ("dce", "Remove operations whose results nobody uses."),
    ("decompose", "Replace operators by compositions of primitives."),
    (
        "expand-gradients",
        "Replace `pir.gradient` ops by the reverse sweep that computes them, inner ones first.",
    ),
    ("functionalize", "Replace in-place operations by their pure twins."),
    ("fuse", "Fuse ops into kernels that read and write memory once."),
    (
        "infer-meta",
        "Infer every result type again, and give unknown dimensions the sizes that follow.",
    ),
    ("inline-vec", "Use the elements of a list directly where it is unpacked again."),
    (
        "inplace",
        "Replace operations by their in-place twins where the operand is not needed any more.",
    ),
    (
        "print-alias",
        "Report which values share storage, in which order they were defined, and what wrote when.",
    ),
    (
        "print-origins",
        "Report which operations rules have emitted, and from which source operation.",
    ),
    (
        "simplify-kernels",
        "Merge equal scalars of fused kernels, drop unused ones, and write known sizes for "
        "symbols.",
    ),
    (
        "split",
        "Split a program into `@forward` and `@backward`, which computes its gradients.",
    ),
    (
        "taylor",
        "Replace nests of `pir.gradient` along one variable by a Taylor series, where it is "
        "cheaper.",
    ),
    ("verify-primitive", "Check that every operation is a primitive."),
    (
        "@default",
        "taylor,expand-gradients,inline-vec,absorb-attributes,constant-fold,"
        "absorb-attributes,canonicalize,cse,dce,"
        "functionalize,decompose{profitable-only=true},constant-fold,cse,dce,fuse{profitable-only=true}",
    ),
    (
        "@storage",
        "taylor,expand-gradients,inline-vec,absorb-attributes,constant-fold,"
        "absorb-attributes,canonicalize,cse,dce,"
        "decompose{profitable-only=true},constant-fold,cse,dce,fuse{profitable-only=true}",
    ),
    (
        "@simplify",
        "taylor,expand-gradients,inline-vec,absorb-attributes,constant-fold,"
        "absorb-attributes,canonicalize,cse,dce",
    ),
    (
        "@fused",
        "taylor,expand-gradients,inline-vec,absorb-attributes,constant-fold,"
        "absorb-attributes,canonicalize,cse,dce,"
        "functionalize,decompose,constant-fold,canonicalize,cse,dce,fuse",
    ),
)
"""Each pass with the first line of its manual, then each named pipeline with its passes."""

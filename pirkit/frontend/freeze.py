"""Programs with constant weights: what depends on weights alone becomes a second program.

That program runs once; its results are further parameters of the first one. This is the option
``freeze`` of `pirkit.compile`.
"""

from __future__ import annotations

from typing import Final

from pirkit.diag.settings import SETTINGS, chosen
from pirkit.dialect.program import Program
from pirkit.frontend.compile_cache import Made
from pirkit.frontend.native_compile import Form, RunPasses, plan_with
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.passes import run_pipeline
from pirkit.passes.hoist_constants import SUFFIX
from pirkit.runtime.plan import Plan
from pirkit.runtime.registry import CPU

PREPARE: Final = (
    "inline-vec,absorb-attributes,constant-fold,absorb-attributes,canonicalize,cse,dce,"
    "functionalize,fold-batch-norm,convolve-transposed"
)
"""Passes that fold weights into each other, on a program without in-place writes."""
HOIST: Final = "dce,constant-fold,hoist-constants,dce"
"""Passes that move what depends on weights alone to the second program."""
RECURRENT: Final = "decompose{only=rnn,profitable-only=true},cse"
"""Recurrent layers become loops, whose weights can be packed."""
FREEZE: Final = f"{PREPARE},{RECURRENT},block-channels,pack-matmuls,{HOIST}"
DIRECT: Final = FREEZE.replace("block-channels", "block-channels{winograd=false}")
"""The same where the setting ``winograd`` is off."""


def freeze(
    program: Program, entry: str | None, pipeline: str | None = None
) -> tuple[Program, Program | None]:
    """The program with its weights as constants, and the one that computes further constants.

    Batch norm in inference and constant scales become part of filters and weights
    (`fold-batch-norm`), transposed convolutions with large filters become convolutions
    (`convolve-transposed`), convolutions compute blocks of channels (`block-channels`), and weights
    of matmuls are packed into panels of columns (`pack-matmuls`). Whatever else depends on weights
    alone is an output of the second program, and a parameter of the first (`hoist-constants`).
    Parameters that the program writes stay what they are.

    ``program`` is not changed; ``entry`` names one of its programs, whose name the second one has
    with `SUFFIX`. The second is None if there is nothing to compute. ``pipeline`` is `FREEZE`, or
    `DIRECT`, by default.
    """
    made = program.copy()
    direct = chosen(SETTINGS["winograd"].variable) == "0"
    run_pipeline(made.module, pipeline or (DIRECT if direct else FREEZE), verify_each=False)
    wanted = made.entry(entry).symbol + SUFFIX
    constants = made.copy() if wanted in made.programs else None
    for name, op in made.programs.items():
        if name.endswith(SUFFIX):
            op.detach()
            op.erase()
    for name, op in constants.programs.items() if constants is not None else ():
        if name != wanted:
            op.detach()
            op.erase()
    return made, constants


def frozen_plans(
    program: Program,
    form: Form,
    pipeline: str,
    entry: str | None,
    library: KernelLibrary,
    run_passes: RunPasses,
) -> tuple[Made, Made]:
    """The plans of the two programs of `freeze`; the second is empty if there is no such program.

    The first is made as `native_compile.plan_with` makes it; the second, which runs once, of
    kernels alone.
    """
    main, constants = freeze(program, entry)
    made = plan_with(form, main, pipeline, entry, library, run_passes)
    if constants is None:
        return made, (Plan("no_constants", (), (), (), (), ()), ())
    return made, plan_with("kernels", constants, "", None, KernelLibrary(CPU), run_passes)

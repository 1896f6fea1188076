"""Compares the kernels of a backend with the reference rules, one by one and together.

Behind ``pirkit-run --check`` and `pirkit-reduce`. If a kernel is wrong, the report names the files
of the code generator that are suspicious (`suspects.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import to_builtins
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.declared_types import mismatched_values
from pirkit.diag.errors import InternalError, PirkitError
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.program import Program
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.kernel_report import CALL, KERNEL, SEGMENT, Report, report_of
from pirkit.frontend.numeric_check import (
    Inputs,
    effect_of,
    first_difference,
    is_rounding,
    on_drawn_inputs,
    plan_of,
)
from pirkit.frontend.segment_check import WRONG_CALL, segment_suspects
from pirkit.frontend.suspects import Ran, native_lines, native_plan, parts_ran, ran, suspects
from pirkit.lowering.codegen.about import Lines, named_files
from pirkit.lowering.instruction_check import CheckedLibrary, InstructionCheck
from pirkit.lowering.interpreted_step import OTHERS, ROUTINES
from pirkit.lowering.kernel_facts import called_one_by_one, inside_stage
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.kernel_watch import PATIENCE, EndedError, Watch, watched
from pirkit.lowering.native_segment import SegmentStep
from pirkit.lowering.plan_writer import write_plan
from pirkit.lowering.whole_program.choose_form import SINGLE
from pirkit.lowering.whole_program.segments import segmented, with_native_calls
from pirkit.runtime.binding import KERNEL_FAULTS
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.mode import Mode
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.plan import Call, Operand, Plan, Port
from pirkit.runtime.registry import CPU, REFERENCE
from pirkit.runtime.tolerance import loosest_of
from pirkit.split.split_result import BACKWARD, FORWARD

Array = np.ndarray[Any, Any]
_SPECTRA: Final = 24
"""Further kernels of a program whose lines are compared with those of the wrong one."""


def check_kernels(
    program: ProgramOp,
    backend: str,
    seed: int = 0,
    inputs: Mapping[str, Array] | None = None,
    params: Mapping[str, Array] | None = None,
    patience: float = PATIENCE,
    *, sought: str | None = None,
) -> Report:  # fmt: skip
    """Run a program on a backend and compare each instruction, then the whole run.

    On the CPU it runs in a child process, so that a kernel that ends the process, or takes more
    than ``patience`` seconds, is reported. ``sought`` is the symptom that a reduction is after
    (`Report.symptom`), or "" for any: the report then ends at the first error, without suspicious
    files, and what cannot have that symptom is not compared. Inputs and parameters that are not
    given are drawn from ``seed``.

    Raises what running the program raises, UnsupportedError for a device that this machine does
    not have.
    """
    if backend == REFERENCE:
        return Report(program.symbol, backend, 0, ())
    plan = write_plan(program, library=KernelLibrary(backend))

    def check(watch: Watch, explains: bool = sought is None) -> dict[str, Any]:
        run = partial(_check, program, plan, backend, seed, watch, sought, explains)
        return to_builtins(on_drawn_inputs(plan, seed, run, inputs, params))

    try:
        report = report_of(watched(check, patience) if backend == CPU else check(Watch()))
    except InternalError:
        if backend != CPU:
            raise
        # A kernel that writes outside of its memory ends the process later: stop at the first one.
        report = report_of(watched(partial(check, explains=False), patience))
        if not report:
            raise
    lines = report.lines_run
    if sought is None and report.in_segments and not lines:
        lines = native_lines(lambda: [*_sharing(program, plan, backend)])
    if not lines:
        return report
    if not report.faults:
        files = named_files(report.suspect)
        # Any file that a call runs may be wrong; what lies between calls is known by experiments.
        named = () if WRONG_CALL in report.suspect else files
        found = suspects(lines, report.others_run, named, files, report.stage_run)
        return replace(report, files=found)
    fault = report.faults[0]
    stage, _, routines = fault.stage.partition(ROUTINES)
    likely = (*fault.emitters, *(named_files(routines) or fault.files))
    named = named_files(stage.partition(OTHERS)[0])
    files = suspects(lines, report.others_run, named, likely, report.stage_run)
    return replace(report, files=files)


def _check(
    program: ProgramOp, plan: Plan, backend: str, seed: int, watch: Watch, sought: str | None,
    explains: bool, bound: Inputs,
) -> Report:  # fmt: skip
    """The report on a run with these inputs: on each instruction alone, then on all together."""
    ranks = sought is None
    check = _by_instruction(plan, backend, seed, watch, bound, explains)
    if check.faults or (sought and sought.startswith(KERNEL)):
        return _wrong_alone(plan, backend, check, watch, ranks)
    expected = effect_of(plan, REFERENCE, bound, seed)
    metas = [p.meta for p in (*plan.inputs, *plan.params)]
    loosest = loosest_of(m.dtype for m in metas if isinstance(m, TensorMeta))

    def difference(found: dict[str, Array]) -> str | None:
        wrong = first_difference(found, expected, loosest)
        return wrong and (None if is_rounding(found, expected, plan, bound, seed) else wrong)

    def wrong_together(plan: Plan) -> str | None:
        """The error of a plan as a whole, as text."""
        try:
            with watch.running():
                found = effect_of(plan, backend, bound, seed)
            return difference(found)
        except (EndedError, PirkitError, *_BUGS) as error:
            return f"it does not run as a whole: {error or type(error).__name__}"

    def by_bind(program: NativeProgram, ports: Sequence[Port]) -> bool:
        """Whether the functions of a native program are right if Python calls them in order."""
        given = [bound.arrays[p.name] for p in ports]
        found = called_one_by_one(SegmentStep(program), given)
        effect = {f"output `{n}`": x for n, x in zip(program.names[1], found, strict=True)}
        return difference(effect) is None

    for suspect, shared, alone in _sharing(program, plan, backend):
        together = wrong_together(shared)
        if together is not None:
            last = check
            if alone is not plan:
                last = _by_instruction(alone, backend, seed, watch, bound, explains)
            if last.faults:
                return _wrong_alone(plan, backend, last, watch, ranks)
            tried = dict[tuple[int, ...], bool]()
            if not suspect and explains:
                found = segment_suspects(
                    alone, shared, _static, lambda plan: wrong_together(plan) is not None, by_bind,
                    tried,
                )  # fmt: skip
                suspect = f"{SEGMENT} ({', or '.join(found)})"
            report = Report(
                plan.name, backend, check.checked, (), together, suspect, shared is not plan,
                bool(watch.ended),
            )  # fmt: skip
            return _with_calls_ran(report, alone, tried, last) if ranks else report
    return Report(plan.name, backend, check.checked, ())


def _with_calls_ran(
    report: Report, plan: Plan, tried: Mapping[tuple[int, ...], bool], check: InstructionCheck
) -> Report:
    """The report with the lines of what was right alone, and of what is wrong together.

    ``plan`` has a kernel for each call, all of which are right alone; ``tried`` are calls that were
    compiled as segments of their own.
    """

    def call_of(numbers: Sequence[int]) -> Callable[[], object]:
        return lambda: with_native_calls(plan, numbers, _static)

    alone = _others_ran(check)
    calls = [*tried.items()][-_SPECTRA:]
    spectra = [(native_lines(call_of(numbers)), is_right) for numbers, is_right in calls]
    if not spectra or spectra[-1][1]:
        every = Lines() if report.in_segments else Lines().union(*[lines for lines, _ in alone])
        return replace(report, lines_run=every, others_run=tuple(alone))
    (numbers, _), (wrong, _) = calls[-1], spectra.pop()
    inside, call = inside_stage(report.suspect), plan.body[numbers[0]]
    in_stage = native_lines(call_of(numbers), inside) if inside else Lines()
    assert isinstance(call, Call)
    parts = parts_ran(call.kernel, [_meta_of(plan, o) for o in call.inputs], call.attrs)
    others = *alone, *spectra, *parts
    return replace(report, lines_run=wrong, stage_run=in_stage, others_run=others)


def _meta_of(plan: Plan, operand: Operand) -> Meta | None:
    if isinstance(operand, tuple):
        items = [_meta_of(plan, slot) for slot in operand]
        return VecMeta(tuple([meta for meta in items if isinstance(meta, TensorMeta)]))
    return None if operand is None else plan.slots[operand]


def _wrong_alone(
    plan: Plan, backend: str, check: InstructionCheck, watch: Watch, ranks: bool
) -> Report:
    """The report on instructions that are wrong alone.

    With ``ranks``, it has the lines of the code generator that made the first of them.
    """
    lines = in_stage = Lines()
    others, step = list[Ran](), check.culprit
    faults = tuple(check.faults)
    if ranks and backend == CPU and step is not None and step.functions:
        lines = native_lines(step.lowered_again)
        inside = inside_stage(faults[0].stage)
        in_stage = native_lines(step.lowered_again, inside) if inside else in_stage
        b = step.binding
        others = [*_others_ran(check), *parts_ran(b.op, b.inputs, b.attrs)]
    return Report(
        plan.name, backend, check.checked, faults, ended=bool(watch.ended), lines_run=lines,
        stage_run=in_stage, others_run=tuple(others),
    )  # fmt: skip


def _others_ran(check: InstructionCheck) -> list[Ran]:
    """The lines of the native kernels that ran but for the first wrong one, and their verdicts."""
    native = [
        (step, is_right)
        for step, is_right in check.ran.items()
        if step.functions and step is not check.culprit
    ]
    return [(native_lines(s.lowered_again), is_right) for s, is_right in native[:_SPECTRA]]


_BUGS: Final = (*KERNEL_FAULTS, AttributeError, AssertionError)
"""What running a wrong plan may raise."""


def _by_instruction(
    plan: Plan, backend: str, seed: int, watch: Watch, bound: Inputs, explains: bool
) -> InstructionCheck:
    """Run a plan and compare each instruction with the reference rule of its op."""
    check = InstructionCheck(KernelLibrary(backend).device, watch=watch, explains=explains)
    library = CheckedLibrary(backend, check=check)
    with suppress(EndedError):  # the check has recorded it as a fault
        executable = Executable(plan, library, bound.of(plan.params), seed)
        mode = Mode(run=check.run, fuses_launches=True)
        executable.watch(bound.of(plan.inputs), mode, check.begin)
    return check


def _sharing(program: ProgramOp, plan: Plan, backend: str) -> Iterator[tuple[str, Plan, Plan]]:
    """The ways to run kernels together, each with the code that may be wrong if it is.

    Gives that code, the plan, and the same kernels as a plan that runs them one by one. For native
    segments the code is "", as experiments find the wrong part (`segment_suspects`).
    """
    yield "the memory plan (runtime/planning.py) or the joined launch", plan, plan
    module = program.parent_op()
    if backend == CPU and isinstance(module, ModuleOp) and not mismatched_values(program.block):
        # As `compile` does: each remaining op gets a kernel, which segments can then contain.
        lowered = run_passes(Program(module), SINGLE).entry(program.symbol)
        single = write_plan(lowered, library=KernelLibrary(backend))
        segments = segmented(single, _static)[0]
        if segments is not single:
            yield "", segments, single


def _static(plan: Plan) -> list[TensorMeta | None]:
    """For each slot the meta that a plan declares, or None if it is not static."""
    return [m if isinstance(m, TensorMeta) and m.is_static else None for m in plan.slots]


def check_whole(
    program: Program, seed: int, inputs: Mapping[str, Array], patience: float = PATIENCE,
    *, sought: str | None = None,
) -> str | None:  # fmt: skip
    """The error of the outputs of a program as one native call, as text, or None.

    None also for a program that is not one native call. ``inputs`` that are not given, and
    parameters that the program does not have, are drawn from ``seed``; ``patience`` and ``sought``
    are those of `check_kernels`.
    """
    plan = plan_of(program.main)

    def check(watch: Watch) -> str | None:
        run = partial(_whole, program, plan, seed, watch)
        return on_drawn_inputs(plan, seed, run, inputs, program.params)

    wrong = watched(check, patience)
    if wrong is None or sought is not None:
        return wrong
    others = [*ran(lambda: program)]  # in segments
    files = suspects(native_lines(lambda: native_plan(program, "fast")), others)
    return f"{wrong}; most suspicious files: {', '.join(files)}"


def _whole(program: Program, plan: Plan, seed: int, watch: Watch, bound: Inputs) -> str | None:
    """The error of one run for `check_whole`, as text, or None."""
    params = bound.of(plan.params)
    whole = compile(program, params=params, fast_math=True)
    if whole.native is None:
        return None
    expected = effect_of(plan, REFERENCE, bound, seed)
    try:
        with watch.running():
            found = whole.run(bound.of(plan.inputs))
    except (EndedError, PirkitError, *_BUGS) as error:  # the reference ran: it is wrong to refuse
        return f"it does not run: {error or type(error).__name__}"
    outputs = {f"output `{name}`": np.asarray(value) for name, value in found.items()}
    metas = [p.meta for p in (*plan.inputs, *plan.params)]
    loosest = loosest_of(m.dtype for m in metas if isinstance(m, TensorMeta))
    wanted = {name: value for name, value in expected.items() if name in outputs}
    wrong = first_difference(outputs, wanted, loosest)
    if wrong is None or is_rounding(outputs, wanted, plan, bound, seed):
        return None
    return wrong


def check_module(
    module: ModuleOp, backend: str, seed: int = 0, patience: float = PATIENCE,
    source: ModuleOp | None = None, *, sought: str | None = None,
) -> Report | None:  # fmt: skip
    """The report on the first program of a module that is wrong on a backend, or None.

    ``source`` is the module before its passes. If it is given, it is checked as one native call as
    well, since `compile` runs other passes for that. ``patience`` and ``sought`` are those of
    `check_kernels`.

    The backward half of a split gets what its forward half saves when the reference rules run it:
    stacks of loops and branches cannot be drawn at random, and saved values belong together.
    """
    programs = {op.symbol: op for op in module.ops if isinstance(op, ProgramOp)}
    for name, program in programs.items() if sought != CALL else ():
        prefix = name.removesuffix(BACKWARD)
        forward = programs.get(prefix + FORWARD) if prefix != name else None
        saved = _saved_by(forward, seed) if forward and backend != REFERENCE else None
        if report := check_kernels(program, backend, seed, saved, patience=patience, sought=sought):
            return report
    if source is None or backend != CPU or len(programs) != 1 or (sought or CALL) != CALL:
        return None
    before = Program(source)
    if (wrong := check_whole(before, seed, {}, patience, sought=sought)) is None:
        return None
    together = f"as one native call: {wrong}"
    return Report(before.main.symbol, backend, 0, (), together, CALL)


def _saved_by(forward: ProgramOp, seed: int) -> dict[str, Any]:
    """The inputs and results of a forward half, by name."""
    plan = write_plan(forward, library=KernelLibrary(REFERENCE))

    def run(bound: Inputs) -> dict[str, Any]:
        executable = Executable(plan, KernelLibrary(REFERENCE), bound.of(plan.params), seed)
        found = executable.run(bound.of(plan.inputs))
        return {**bound.arrays, **executable.updates, **found}

    return on_drawn_inputs(plan, seed, run)

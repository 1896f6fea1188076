"""What the manager does around passes: verify, time, count, print, and name what failed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PassError, RuntimeFault, UsageError, VerifyError
from pirkit.diag.limits import DEFAULT, use_limits
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.text import parse_mlir
from pirkit.frontend import compile as compiling
from pirkit.frontend.files import Program
from pirkit.passes import Pass, PassContext, PipelineResult, manager, run_pipeline
from pirkit.passes.base import Stats
from tests.execution import parsed

TEXT = """pir.program @main(%x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""


def first_op(module: ModuleOp) -> PirOp:
    return next(op for op in module.walk() if op.name == "pd_op.exp")  # type: ignore[return-value]


@dataclass(frozen=True)
class Failing(Pass):
    """Meets something it did not expect."""

    name = "failing"

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for op in ctx.each([first_op(module)]):
            raise KeyError(op.name)


@dataclass(frozen=True)
class Breaking(Pass):
    """Leaves a bad program."""

    name = "breaking"

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        op = first_op(module)
        block = op.parent_block()
        assert block is not None
        last = block.last_op
        assert last is not None
        op.detach()
        block.insert_op_after(op, last)


@dataclass(frozen=True)
class Endless(Pass):
    """Two rules that undo each other."""

    name = "endless"

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        while True:
            ctx.rewrote("a-to-b", first_op(module))
            ctx.rewrote("b-to-a", first_op(module))


@dataclass(frozen=True)
class Talking(Pass):
    """Counts and remarks."""

    name = "talking"
    stats = Stats(seen="operations seen", never="nothing")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        ctx.count("seen", 2)
        ctx.remark("missed", "could be better", first_op(module))


@dataclass(frozen=True)
class Asking(Pass):
    """Asks for an analysis twice, and may announce a rewrite before."""

    name = "asking"
    reports_rewrites = True
    rewrites: bool = False

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        program = next(ctx.programs(module))
        if self.rewrites:
            ctx.rewrote("none", first_op(module))
        assert ctx.analysis(computed, program) is ctx.analysis(computed, program)


@dataclass(frozen=True)
class AskingSilently(Asking):
    """The same, without a promise to tell each rewrite."""

    name = "asking-silently"
    reports_rewrites = False


def computed(program: ProgramOp) -> object:
    COMPUTED.append(program)
    return object()


COMPUTED: list[ProgramOp] = []


@pytest.mark.parametrize(
    ("passes", "count"),
    [
        ([Asking(), Asking(), Asking()], 1),
        ([Asking(), Asking(True), Asking()], 2),
        ([Asking(), Talking(), Asking()], 2),
        ([AskingSilently(), Asking(), Asking()], 2),
    ],
)
def test_analyses_are_kept_until_the_next_rewrite(passes: list[Pass], count: int) -> None:
    COMPUTED.clear()
    run_pipeline(parsed(TEXT), passes)
    assert len(COMPUTED) == count


def test_statistics_times_and_remarks() -> None:
    result = run_pipeline(parse_mlir(TEXT, "m.mlir"), [Talking(), Talking()])
    assert result.stats == {"talking": {"seen": 4, "never": 0}}
    assert [t.pass_name for t in result.timings] == ["talking", "talking"]
    assert all(t.seconds >= 0 and t.verify_seconds > 0 for t in result.timings)
    assert [str(r) for r in result.remarks] == ["missed: talking: could be better (m.mlir:2:3)"] * 2


def test_an_order_that_does_not_help_is_a_remark() -> None:
    result = run_pipeline(parsed(TEXT), "dce,canonicalize")
    (remark,) = result.remarks
    assert remark.kind == "analysis"
    assert "`dce` should come after `canonicalize`" in remark.message


def test_memory_that_is_short_has_a_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("Unable to allocate 16 GiB")

    monkeypatch.setattr(Failing, "run", fail)
    with pytest.raises(RuntimeFault, match="pass `failing` needs more memory") as caught:
        run_pipeline(parse_mlir(TEXT, "m.mlir"), [Failing()])
    assert caught.value.code == "PK0901"


def test_a_failing_pass_is_named_with_its_operation() -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(parse_mlir(TEXT, "m.mlir"), [Failing()])
    assert caught.value.code == "PK0801"
    assert caught.value.message == "pass `failing` failed at `pd_op.exp`: KeyError: 'pd_op.exp'"
    assert str(caught.value.span) == "m.mlir:2:3"
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_pass_that_breaks_the_program_is_named() -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(parsed(TEXT), [Breaking()])
    assert caught.value.code == "PK0802"
    assert caught.value.message.startswith("pass `breaking` broke the program: ")
    assert isinstance(caught.value.__cause__, VerifyError)
    run_pipeline(parsed(TEXT), [Breaking()], verify=False)


def test_a_program_may_be_verified_at_the_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(manager, "verify_module", seen.append)
    run_pipeline(parsed(TEXT), "cse,dce,canonicalize", verify_each=False)
    assert len(seen) == 2
    run_pipeline(parsed(TEXT), "cse", verify_each=False, verified=True)
    assert len(seen) == 3
    monkeypatch.undo()
    with pytest.raises(VerifyError):
        run_pipeline(parsed(TEXT), [Breaking()], verify_each=False)


def test_compiling_names_the_pass_that_breaks_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(module: ModuleOp, _: str, **options: Any) -> PipelineResult:
        return run_pipeline(module, [Breaking()], **options)

    monkeypatch.setattr("pirkit.passes.run_pipeline", breaking)
    program = Program(parsed(TEXT))
    with pytest.raises(PassError, match="pass `breaking` broke the program"):
        compiling.run_passes(program, "breaking")


def test_a_bad_program_is_not_blamed_on_a_pass() -> None:
    module = parsed(TEXT)
    run_pipeline(module, [Breaking()], verify=False)
    with pytest.raises(VerifyError):
        run_pipeline(module, "cse")


def test_rules_that_keep_firing_are_named() -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(parsed(TEXT), [Endless()])
    assert caught.value.code == "PK0803"
    assert "`a-to-b` and `b-to-a` keep firing" in caught.value.message


def test_the_limit_of_rewrites_depends_on_the_size() -> None:
    ctx = PassContext("p", ops=2)
    with use_limits(DEFAULT):
        for _ in range(2 * DEFAULT.rewrites_per_op):
            ctx.rewrote("rule", first_op(parsed(TEXT)))
        with pytest.raises(PassError):
            ctx.rewrote("rule", first_op(parsed(TEXT)))


def headers(*requests: str, pipeline: str = "cse,canonicalize,dce") -> list[str]:
    stream = io.StringIO()
    run_pipeline(parsed(TEXT), pipeline, print_ir=requests, stream=stream)
    return [line for line in stream.getvalue().splitlines() if line.startswith("// ----")]


def test_printing() -> None:
    assert headers("after-change") == ["// ---- IR after cse ----"]
    assert headers("before:dce") == ["// ---- IR before dce ----"]
    assert headers("after:dce", "after:cse") == [
        "// ---- IR after cse ----",
        "// ---- IR after dce ----",
    ]
    assert headers("all", pipeline="cse") == [
        "// ---- IR before cse ----",
        "// ---- IR after cse ----",
    ]


@pytest.mark.parametrize("request_", ["sometimes", "after", "before:", "all:cse"])
def test_printing_something_else(request_: str) -> None:
    with pytest.raises(UsageError, match="cannot print"):
        headers(request_)


def test_printing_around_an_unknown_pass() -> None:
    with pytest.raises(UsageError, match="unknown pass"):
        headers("after:cze")


def test_watchers_see_the_program_before_and_after() -> None:
    seen: list[tuple[str, str, int]] = []
    run_pipeline(
        parsed(TEXT),
        "cse",
        watchers=[lambda when, p, m: seen.append((when, p.name, sum(1 for _ in m.walk())))],
    )
    assert seen == [("before", "cse", 6), ("after", "cse", 5)]

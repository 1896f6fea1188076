"""Translation validation: proves that a pass keeps the results of a program, or tests it.

Values of both programs are numbered first: equal ops of equal operands are one value. An output
that this does not settle becomes a term, its element at unknown coordinates, by the index rules of
the op table and the statements of fused kernels; inputs are unknown functions. z3 compares two
terms for all coordinates at once:

- *exactly*: scalar ops are unknown functions too, so equal terms are equal bit for bit;
- *over the reals*: sums, products and quotients of floating numbers are those of the real numbers,
  so programs of equal terms differ by rounding, and where a number is not finite, but nowhere else.

An op without index rules is an unknown function of whole tensors, the same one for operands that
were proved equal. If two terms only move elements of inputs, the answer "different" is a
counterexample. What stays open is tested: on random inputs, and on hostile ones (zeros, infinities,
NaN), where elements that are finite in both results have to agree. After Alive2 (N. Lopes et al.,
PLDI 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

from msgspec import Struct, field
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.diag.errors import PassError, PirkitError, UsageError
from pirkit.dialect.kinds import SINK, SOURCE
from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, ProgramOp, declares, host_name
from pirkit.frontend.numeric_check import NumberCheck
from pirkit.frontend.proof_kernels import KernelBounds, kernel_bounds
from pirkit.frontend.proof_terms import EXACT, REAL, Numbers, Terms, Unprovable, static_meta
from pirkit.passes.base import Pass

EFFORT: Final = 3_000_000
"""The resource limit of z3 for one question, in its own units (about a second)."""
LONGEST: Final = 3_000
"""Time limit in milliseconds: z3's resource limit does not count some of its steps."""
GIVE_UPS: Final = 6
"""How often z3 may give up on a pair of intermediate values; then no further pairs are tried."""
TESTED: Final = "tested"


class Verdict(Struct, frozen=True):
    """How an output of a program was found equal; ``because`` says why it was only tested."""

    program: str
    output: str
    how: str
    because: str = ""


class ProofReport(Struct):
    """The verdicts for one pass, and the ops of the result that no proof covers, by name."""

    pass_name: str
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    proved: list[str] = field(default_factory=list[str])
    tested: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        lines = [f"proof: pass `{self.pass_name}`: {len(self.proved)} ops proved, "
                 f"{len(self.tested)} tested"]  # fmt: skip
        if self.tested:
            lines.append(f"  tested only: {', '.join(sorted(set(self.tested)))}")
        for v in self.verdicts:
            why = f" ({v.because})" if v.because else ""
            lines.append(f"  @{v.program} `{v.output}`: {v.how}{why}")
        return "\n".join(lines)


class CheckProof:
    """A watcher of a pipeline that proves or tests what each pass did.

    Raises PassError (PK0804) for a counterexample, with the element that differs, and for numbers
    that differ; UsageError (PK0405) where z3 is not installed.
    """

    def __init__(self, module: ModuleOp, seed: int = 0) -> None:
        self.z3 = solver()
        self.seed = seed
        self.before = module.clone()
        self.reports: list[ProofReport] = []

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if when != "after":
            return
        report = ProofReport(pass_.name)
        self.reports.append(report)
        after = module.clone()
        olds, news = _programs(self.before), _programs(after)
        for name in olds.keys() & news.keys():
            _Comparison(self.z3, name, olds[name], news[name], report).run()
        if olds.keys() != news.keys():
            report.verdicts.append(Verdict("", "", TESTED, "the pass made other programs"))
        if any(v.how == TESTED for v in report.verdicts):
            self._test(after, pass_.name)
        self.before = after

    def bounds(self) -> Iterator[KernelBounds]:
        """Whether accesses of the native kernels of the last program stay in their buffers.

        Raises RuntimeFault (PK0910) for one that does not.
        """
        return kernel_bounds(self.z3, self.before)

    def _test(self, after: ModuleOp, name: str) -> None:
        """Raises PassError (PK0804) if the pass changed the numbers."""
        NumberCheck.of(self.before, self.seed).require_equal(after, f"pass `{name}`")
        try:
            NumberCheck.of(self.before, self.seed, hostile=True).require_equal(
                after, f"pass `{name}`"
            )
        except PirkitError as error:
            if error.code == "PK0804":
                raise  # otherwise the program itself refuses such numbers


def solver() -> Any:
    """The package z3. Raises UsageError (PK0405) where it is not installed."""
    try:
        return import_module("z3")
    except ImportError:
        raise UsageError(
            "--check=proof needs the package z3-solver",
            code="PK0405",
            help="`pip install z3-solver`; --check=each tests without it",
        ) from None


def _programs(module: ModuleOp) -> dict[str, ProgramOp]:
    return {op.symbol: op for op in module.ops if isinstance(op, ProgramOp)}


class _Comparison:
    """One program before and after a pass."""

    def __init__(
        self, z3: Any, name: str, old: ProgramOp, new: ProgramOp, report: ProofReport
    ) -> None:
        self.z3, self.name, self.report = z3, name, report
        self.programs = old, new
        known: dict[Any, int] = {}
        self.old, self.new = Numbers(known), Numbers(known)
        self.equal: dict[tuple[int, int], bool] = {}
        self.given_up = 0
        self.why: list[str] = []

    def run(self) -> None:
        wrong = next(filter(None, map(_effect, self.programs)), None)
        ops = [list(p.operations) for p in self.programs]
        if wrong is not None:
            self.report.verdicts.append(Verdict(self.name, "all outputs", TESTED, wrong))
            self.report.tested += [op.name for op in ops[1]]
            return
        for numbers, program in zip((self.old, self.new), self.programs, strict=True):
            numbers.add_arguments(program)
        for op in ops[0]:
            self.old.add(op, self.old.key(op))
        candidates: dict[Any, list[PirOp]] = {}
        for op in ops[0]:
            candidates.setdefault(_signature(op), []).append(op)
        for op in ops[1]:
            self.new.add(op, self._key(op, candidates.get(_signature(op), [])))
        ends = [_outputs(each) for each in ops]
        tested: list[SSAValue] = []
        for output, after in ends[1].items():
            if output in ends[0]:
                verdict = self._verdict(output, ends[0][output], after)
                self.report.verdicts += [] if verdict.how == "same" else [verdict]
                tested += [after] if verdict.how == TESTED else []
        self._tell(ops[1], tested)

    def _tell(self, ops: Sequence[PirOp], tested: Sequence[SSAValue]) -> None:
        """Report each op as proved, or as tested: tested outputs are computed from it.

        Values that both programs have are proved, and so are the ops in front of them.
        """
        shared, reached, open_ = set(self.old.of.values()), set[PirOp](), list(tested)
        while open_:
            value = open_.pop()
            op = value.owner
            if isinstance(op, PirOp) and self.new.of[value] not in shared and op not in reached:
                reached.add(op)
                open_ += op.operands
        for op in ops:
            (self.report.tested if op in reached else self.report.proved).append(op.name)

    def _key(self, op: PirOp, candidates: Sequence[PirOp]) -> Any:
        """The value number of an op whose operands are those of an earlier op."""
        key = self.new.key(op)
        if (key, 0) in self.old.known or not (op.operands and op.results):
            return key
        for other in candidates:
            pairs = list(zip(other.operand_slots, op.operand_slots, strict=True))
            if all(a is b or (a and b and self._same(a, b)) for a, b in pairs):
                return self.old.key(other)
        return key

    def _same(self, old: SSAValue, new: SSAValue) -> bool:
        pair = self.old.of[old], self.new.of[new]
        if pair[0] == pair[1]:
            return True
        if pair not in self.equal:
            self.equal[pair] = False
            if self.given_up < GIVE_UPS:
                try:
                    self.equal[pair] = self._compare(old, new, EXACT, cut=True) is None
                except Unprovable:
                    self.given_up += 1
        return self.equal[pair]

    def _verdict(self, output: str, old: SSAValue, new: SSAValue) -> Verdict:
        if self.old.of[old] == self.new.of[new]:
            return Verdict(self.name, output, "same")
        because = ""
        for how, cut in ((EXACT, True), (EXACT, False), (REAL, False)):
            try:
                found = self._compare(old, new, how, cut=cut)
            except Unprovable as reason:
                because = because or str(reason)
                continue
            if found is None:
                return Verdict(self.name, output, f"proved {how}")
            if found:
                raise PassError(
                    f"pass `{self.report.pass_name}` changed @{self.name}: {output}{found}",
                    code="PK0804",
                    notes=("z3 found the element; no input had to be tried",),
                    help="`--bisect` names the rewrite that did it",
                )
            because = because or "z3 finds no proof"
        return Verdict(self.name, output, TESTED, because)

    def _compare(self, old: SSAValue, new: SSAValue, how: str, cut: bool) -> str | None:
        """None if equal; a counterexample if there is one; "" if z3 says that they may differ.

        With ``cut``, values that both programs have are unknown functions, whatever computes them:
        terms are smaller then. Raises Unprovable if z3 gives up.
        """
        z3, meta = self.z3, static_meta(new)
        if static_meta(old) != meta:
            raise Unprovable("its type is another one")
        shared = set(self.old.of.values()) & set(self.new.of.values()) if cut else set[int]()
        at = tuple([z3.Int(f"c{k}") for k in range(len(meta.shape))])
        terms = Terms(z3, self.old, how, shared), Terms(z3, self.new, how, shared)
        one, other = terms[0].element(old, at), terms[1].element(new, at)
        if one.eq(other) or meta.numel == 0:
            return None
        ask = z3.Solver()
        ask.set("rlimit", EFFORT)
        ask.set("timeout", LONGEST)
        ask.add(*[z3.And(c >= 0, c < n) for c, n in zip(at, meta.shape, strict=True)])
        ask.add(one != other)
        answer = ask.check()
        if answer == z3.unsat:
            return None
        if answer != z3.sat:
            raise Unprovable("z3 gives up")
        if cut or not all(t.only_moves for t in terms):
            return ""
        model = ask.model()
        places = [(c, model.eval(c, model_completion=True)) for c in at]
        before, after = [z3.simplify(z3.substitute(t, *places)) for t in (one, other)]
        return f"[{', '.join(str(v) for _, v in places)}] was {before}, and is {after}"


def _effect(program: ProgramOp) -> str | None:
    """Why a program is no function of its inputs: an op that writes or draws; None if it is one."""
    for op in program.walk():
        if isinstance(op, PirOp) and op.definition.effects != PURE:
            if op.definition.writes or not (declares(op, SOURCE) or declares(op, SINK)):
                return f"`{op.name}` is no function of its operands"
    return None


def _signature(op: PirOp) -> Any:
    return op.name, tuple([r.type for r in op.results]), len(op.operand_slots)


def _outputs(ops: Sequence[PirOp]) -> dict[str, SSAValue]:
    return {host_name(op): op.operands[0] for op in ops if declares(op, SINK)}

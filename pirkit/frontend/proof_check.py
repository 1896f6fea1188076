"""Translation validation: what a pass left is proved equal to what it was given, or tested.

Values of both programs are numbered first: equal ops of equal operands are one value. An output
that this does not settle becomes a term, its element at unknown coordinates, by the index rules of
the op table and the statements of fused kernels; inputs are unknown functions. z3 compares two
terms for all coordinates at once:

- *exactly*: scalar ops are unknown functions too, so equal terms are equal bit for bit;
- *over the reals*: sums, products and quotients of floating numbers are those of the real numbers,
  so equal terms differ by rounding only, and where something is no finite number.

An op without index rules is an unknown function of whole tensors, the same one for operands that
were proved equal. Of terms that only move elements of inputs, "different" is a counterexample. What
stays open is tested: on random inputs, and on hostile ones (zeros, infinities, NaN), where whatever
is finite in both has to agree. After Alive2 (N. Lopes et al., PLDI 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pirkit.analysis.element_moves import moves
from pirkit.diag.errors import PassError, PirkitError, UsageError
from pirkit.dialect.kinds import SINK, SOURCE
from pirkit.dialect.map_expr.call import MapCall, call_of, maps_of, tensors_of
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.map_expr.tree import (
    Apply,
    Choose,
    Fill,
    Load,
    Node,
    Opaque,
    Position,
    Reduction,
    Scatter,
    Value,
)
from pirkit.dialect.op_form import STRUCTURAL
from pirkit.dialect.opdef import PURE
from pirkit.dialect.operation import PirOp, ProgramOp, declares, host_name
from pirkit.dialect.types import meta_of
from pirkit.frontend.numeric_check import NumberCheck
from pirkit.index.expr import Broadcast, Expr, Floor, Iter, Read
from pirkit.index.extent import Undecided
from pirkit.index.index_maps import space
from pirkit.passes.base import Pass
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

EFFORT: Final = 3_000_000
"""What z3 may spend on one question, in its own units (about a second)."""
LARGEST: Final = 4_000
"""Nodes of one term."""
DEEPEST: Final = 120
"""Values in a row that one term passes."""
EXACT, REAL = "exactly", "over the reals"
TESTED: Final = "tested"
CONSTANT: Final = "pir.constant"
"""A source of which a pass may make another one: it is no input that can have any value."""

Term = Any
"""A term of z3, whose package has no types."""


class Unprovable(Exception):
    """Why an output is tested instead."""


@dataclass(frozen=True)
class Verdict:
    """How an output of a program was found equal; ``because`` says why it was only tested."""

    program: str
    output: str
    how: str
    because: str = ""


@dataclass
class ProofReport:
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

    def _test(self, after: ModuleOp, name: str) -> None:
        """Raises PassError (PK0804) if the numbers are other ones."""
        NumberCheck.of(self.before, self.seed).require_equal(after, f"pass `{name}`")
        try:
            NumberCheck.of(self.before, self.seed, hostile=True).require_equal(
                after, f"pass `{name}`"
            )
        except PirkitError as error:
            if error.code == "PK0804":
                raise  # else the program itself refuses such numbers


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


class _Numbers:
    """Value numbers of one program: equal ops of equal operands have one."""

    def __init__(self, known: dict[Any, int]) -> None:
        self.known = known
        self.of: dict[SSAValue, int] = {}

    def key(self, op: PirOp) -> Any:
        if op.regions and not isinstance(op, KernelOp):
            return op
        held = op.attribute("kernel") if isinstance(op, KernelOp) else frozenset(
            (n, a) for n, a in op.properties.items() if n not in STRUCTURAL | {"stop_gradient"}
        )  # fmt: skip
        operands = tuple([None if v is None else self.of[v] for v in op.operand_slots])
        return op.name, held, operands, tuple([r.type for r in op.results])

    def add(self, op: PirOp, key: Any) -> None:
        for k, result in enumerate(op.results):
            self.of[result] = self.known.setdefault((key, k), len(self.known))


class _Comparison:
    """One program before and after a pass."""

    def __init__(
        self, z3: Any, name: str, old: ProgramOp, new: ProgramOp, report: ProofReport
    ) -> None:
        self.z3, self.name, self.report = z3, name, report
        self.programs = old, new
        known: dict[Any, int] = {}
        self.old, self.new = _Numbers(known), _Numbers(known)
        self.equal: dict[tuple[int, int], bool] = {}
        self.why: list[str] = []

    def run(self) -> None:
        wrong = next(filter(None, map(_effect, self.programs)), None)
        ops = [list(p.operations) for p in self.programs]
        if wrong is not None:
            self.report.verdicts.append(Verdict(self.name, "all outputs", TESTED, wrong))
            self.report.tested += [op.name for op in ops[1]]
            return
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
            try:
                self.equal[pair] = self._compare(old, new, EXACT, cut=True) is None
            except Unprovable:
                self.equal[pair] = False
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

        Raises Unprovable if z3 gives up.
        """
        z3, meta = self.z3, _known_meta(new)
        if _known_meta(old) != meta:
            raise Unprovable("its type is another one")
        shared = set(self.old.of.values()) & set(self.new.of.values()) if cut else set[int]()
        at = tuple([z3.Int(f"c{k}") for k in range(len(meta.shape))])
        terms = _Terms(z3, self.old, how, shared), _Terms(z3, self.new, how, shared)
        one, other = terms[0].element(old, at), terms[1].element(new, at)
        if one.eq(other) or meta.numel == 0:
            return None
        ask = z3.Solver()
        ask.set("rlimit", EFFORT)
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


class _Terms:
    """Elements of the values of one program as terms of z3."""

    def __init__(self, z3: Any, numbers: _Numbers, how: str, shared: set[int]) -> None:
        self.z3, self.numbers, self.how, self.shared = z3, numbers, how, shared
        self.only_moves = True
        """Whether the terms hold elements of inputs and numbers only."""
        self._made: dict[Any, Term] = {}
        self._depth = self._count = 0

    def sort(self, dtype: DType) -> Any:
        if dtype.is_integer:
            return self.z3.IntSort()
        if self.how == REAL and dtype.is_float:
            return self.z3.RealSort()
        return self.z3.DeclareSort("Element")

    def function(self, name: str, args: Sequence[Term], dtype: DType) -> Term:
        if not args:
            return self.z3.Const(name, self.sort(dtype))
        return self.z3.Function(name, *[a.sort() for a in args], self.sort(dtype))(*args)

    def element(self, value: SSAValue, at: Sequence[Term]) -> Term:
        """The element of a value at coordinates."""
        key = value, tuple([a.get_id() for a in at])
        if key not in self._made:
            self._count += 1
            self._depth += 1
            if self._count > LARGEST or self._depth > DEEPEST:
                raise Unprovable("too many values for one term")
            self._made[key] = self._element(value, at)
            self._depth -= 1
        return self._made[key]

    def _element(self, value: SSAValue, at: Sequence[Term]) -> Term:
        meta, number, op = _known_meta(value), self.numbers.of[value], value.owner
        assert isinstance(op, PirOp)
        if declares(op, SOURCE) and op.name != CONSTANT:
            return self.function(host_name(op), at, meta.dtype)
        if number not in self.shared or moves(op):
            if isinstance(op, KernelOp):
                kernel = op.kernel
                statement = kernel.outputs[list(op.results).index(value)]  # pyright: ignore
                if not kernel.is_sized and (self.how == REAL or not kernel.excess):
                    return self._statement(op, kernel, statement, at)
            elif (roots := _roots(op)) is not None:
                root = roots[list(op.result_slots).index(value)]  # pyright: ignore
                if root is not None and not isinstance(root, Scatter):
                    return _Body(self, root, meta, tensors_of(op), at).value()
        self.only_moves = False
        return self.function(f"value {number}", at, meta.dtype)

    def _statement(self, op: KernelOp, kernel: MapExpr, number: int, at: Sequence[Term]) -> Term:
        """The element of the value of a statement of a kernel."""
        key = op, number, tuple([a.get_id() for a in at])
        if key not in self._made:
            statement = kernel.statements[number]
            if statement.start is not None:
                raise Unprovable("a kernel scatters")
            root: Value = statement.body
            if statement.reduction:
                held = statement.extents, statement.attrs
                root = Reduction(statement.reduction, statement.body, *held)
            earlier = [partial(self._statement, op, kernel, k) for k in range(number)]
            sources = [*op.operands, *earlier]
            self._made[key] = _Body(self, root, statement.meta, sources, at).value()
        return self._made[key]


class _Body:
    """One expression tree of an op or kernel as a term, at coordinates of its result."""

    def __init__(
        self, terms: _Terms, root: Value, meta: TensorMeta, sources: Sequence[Any], at: Any
    ) -> None:
        self.terms, self.z3, self.root, self.meta = terms, terms.z3, root, meta
        self.sources = sources
        self.iters = _bound(space(meta.shape), at)
        self._known: dict[int, Term] = {}

    def value(self) -> Term:
        root = self.root
        assert not isinstance(root, Scatter)
        if not isinstance(root, Reduction):
            return self.node(root)
        z3 = self.z3
        self.terms.only_moves = False
        inner = [z3.Int(f"r{k} {self.terms._count}") for k in range(len(root.extents))]
        self.iters |= _bound(space(root.extents, "r"), inner)
        body = self.node(root.body)
        within = [z3.And(r >= 0, r < n) for r, n in zip(inner, root.extents, strict=True)]
        outside = z3.Const("outside", body.sort())
        over = z3.Lambda(inner, z3.If(z3.And(*within), body, outside))
        told = f"{root.op} {dict(root.attrs)} over {root.extents}"
        return self.terms.function(told, (over,), self.meta.dtype)

    def node(self, node: Node) -> Term:
        if id(node) not in self._known:
            self._known[id(node)] = self._node(node)
        return self._known[id(node)]

    def _node(self, node: Node) -> Term:
        z3, terms = self.z3, self.terms
        match node:
            case Load(source, index):
                at = [self.index(e) for e in index]
                held = self.sources[source]
                return held(at) if callable(held) else terms.element(held, at)
            case Fill(value, dtype) if dtype.is_integer:
                return z3.IntVal(int(value))
            case Fill(value, dtype):
                if terms.how == REAL and dtype.is_float and np.isfinite(value):
                    return z3.RealVal(repr(float(value)))
                return z3.Const(f"{value!r}: {dtype}", terms.sort(dtype))
            case Position(index, dtype):
                at = self.index(index)
                return at if dtype.is_integer else terms.function(f"to {dtype}", (at,), dtype)
            case Choose(guards, yes, no):
                holds = [(self.index(g.value), g.bound) for g in guards]
                condition = z3.And(*[z3.And(e >= 0, e < n) for e, n in holds])
                return z3.If(condition, self.node(yes), self.node(no))
            case Apply(op, args, dtype, attrs):
                terms.only_moves = False
                given = [self.node(a) for a in args]
                if terms.how == REAL and dtype.is_float and op in _REAL:
                    if all(g.sort() == z3.RealSort() for g in given):
                        found = _REAL[op](z3, given, attrs)
                        if found is not None:
                            return found
                return terms.function(f"{op} {sorted(attrs.items())!r}: {dtype}", given, dtype)

    def index(self, expr: Expr) -> Term:
        found: Term = self.z3.IntVal(expr.constant)
        for atom, factor in expr.terms:
            found = found + factor * self._atom(atom)
        return self.z3.simplify(found)

    def _atom(self, atom: Any) -> Term:
        match atom:
            case Iter():
                return self.iters[atom]
            case Floor():
                return self.index(atom.inner) / atom.by  # of a positive divisor z3's is the floor
            case Read():
                self.terms.only_moves = False
                at = [self.index(e) for e in atom.index]
                held = self.sources[atom.source]
                read = held(at) if callable(held) else self.terms.element(held, at)
                return self.z3.If(read < 0, read + atom.extent, read) if atom.from_end else read
            case Broadcast():
                return self.z3.If(self.z3.IntVal(atom.extent) == 1, 0, self.index(atom.inner))
            case _:
                raise Unprovable("an index that is no sum of floors")


def _scale(z3: Any, given: Sequence[Term], attrs: Any) -> Term | None:
    if len(given) != 1:
        return None
    factor, bias = [z3.RealVal(repr(float(attrs[n]))) for n in ("scale", "bias")]
    x = given[0]
    return x * factor + bias if attrs.get("bias_after_scale", True) else (x + bias) * factor


_REAL: Final[dict[str, Any]] = {
    "pd_op.add": lambda z3, g, a: g[0] + g[1],
    "pd_op.subtract": lambda z3, g, a: g[0] - g[1],
    "pd_op.multiply": lambda z3, g, a: g[0] * g[1],
    "pd_op.divide": lambda z3, g, a: g[0] / g[1],
    "pd_op.square": lambda z3, g, a: g[0] * g[0],
    "pd_op.maximum": lambda z3, g, a: z3.If(g[0] >= g[1], g[0], g[1]),
    "pd_op.minimum": lambda z3, g, a: z3.If(g[0] <= g[1], g[0], g[1]),
    "pd_op.abs": lambda z3, g, a: z3.If(g[0] >= 0, g[0], -g[0]),
    "pd_op.relu": lambda z3, g, a: z3.If(g[0] >= 0, g[0], z3.RealVal(0)),
    "pd_op.cast": lambda z3, g, a: g[0],
    "pd_op.scale": _scale,
}
"""Scalar ops on real numbers; None if they are called in another form."""


def _bound(iterators: Sequence[Expr], values: Sequence[Term]) -> dict[Iter, Term]:
    pairs = zip(iterators, values, strict=True)
    return {e.iter: v for e, v in pairs if e.iter is not None}


def _known_meta(value: SSAValue) -> TensorMeta:
    meta = meta_of(value.type)
    if not isinstance(meta, TensorMeta):
        raise Unprovable("a value is no tensor")
    if not meta.is_static:
        raise Unprovable("a size is known only when the program runs")
    return meta


def _roots(op: PirOp) -> Sequence[Value | None] | None:
    """What each result element is computed from; None for an op without index rules."""
    if declares(op, SOURCE) or op.regions:
        return None
    rule = library_spaces.get(op.definition)
    try:
        found: Any = maps_of(op)
        if rule is not None and isinstance(call := call_of(op), MapCall) and call.is_known:
            found = (rule(call),)
    except (PirkitError, Undecided):
        return None
    return None if isinstance(found, Opaque) else found


def _effect(program: ProgramOp) -> str | None:
    """Why the order of the ops of a program matters, or that of its draws; None if it does not."""
    for op in program.walk():
        if isinstance(op, PirOp) and op.definition.effects != PURE:
            if op.definition.writes or not (declares(op, SOURCE) or declares(op, SINK)):
                return f"`{op.name}` is no function of its operands"
    return None


def _signature(op: PirOp) -> Any:
    return op.name, tuple([r.type for r in op.results]), len(op.operand_slots)


def _outputs(ops: Sequence[PirOp]) -> dict[str, SSAValue]:
    return {host_name(op): op.operands[0] for op in ops if declares(op, SINK)}

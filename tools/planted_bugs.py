"""Plants bugs in passes, rules, fusion and the split, one by one, and asks `--bisect` for them.

    python -m tools.planted_bugs [--reduce] [NAME ...]

For each bug it prints whether `pirkit-opt --bisect` names the culprit: the pass, and where the pass
rewrites by rules the rule; or the op whose derivative rule is wrong. ``--reduce`` asks
`pirkit-reduce` instead, which does not look at derivatives, to make a larger program small. Bugs in
emitters, schedules, the memory plan and launches are planted by ``tests/codegen/planted.py``. Bugs
are functions that are replaced while it runs, so the files of the package stay as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest import mock

from msgspec.structs import replace

from pirkit.cli import opt, reduce
from pirkit.dialect import opdef
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.delta_reduce import size
from pirkit.lowering.fusion import fuse_pass, kernel_builder
from pirkit.passes import (
    absorb_attributes,
    autodiff,
    autodiff_regions,
    canonicalize,
    constant_fold,
    cse,
    dce,
    fold_batch_norm,
    functionalize,
    hoist_constants,
    inline_vec,
    inplace,
)
from pirkit.passes.rewrite_rules import RewriteRule, always, operand
from pirkit.split import backward_reads, build_halves, labels, recompute, storage_versions

T = "tensor<4x4xf32>"
UNARY = f"({T}) -> {T}"
BINARY = f"({T}, {T}) -> {T}"
FULL = "dtype = #pir.dtype<float32>, place = #pir.place<cpu:0>"
NEGATED = (
    "pd_op.scale({}) {{scale = -1.0 : f64, bias = 0.0 : f64, bias_after_scale = true}} : " + UNARY
)

TWO_AXES = f"""
  %a = pd_op.softmax(%x) {{axis = 0 : i32}} : {UNARY}
  %b = pd_op.softmax(%x) {{axis = 1 : i32}} : {UNARY}
  %y = pd_op.add(%a, %b) : {BINARY}"""
WRITTEN = f"""
  %c = pd_op.scale(%x) {{scale = 1.0 : f64, bias = 1.0 : f64, bias_after_scale = true}} : {UNARY}
  %a = pd_op.tanh(%c) : {UNARY}
  %d = pd_op.relu_(%c) : {UNARY}
  %b = pd_op.tanh(%d) : {UNARY}
  %y = pd_op.subtract(%b, %a) : {BINARY}"""
CHAIN = f"""
  %a = pd_op.multiply(%x, %w) : {BINARY}
  %b = pd_op.tanh(%a) : {UNARY}
  %c = pd_op.multiply(%b, %a) : {BINARY}
  %y = pd_op.softmax(%c) {{axis = -1 : i32}} : {UNARY}"""
TURNED = f"""
  %a = pd_op.tanh(%x) : {UNARY}
  %b = pd_op.transpose(%a) {{perm = array<i32: 1, 0>}} : {UNARY}
  %y = pd_op.subtract(%b, %w) : {BINARY}"""
SUMMED = f"""
  %a = pd_op.exp(%x) : {UNARY}
  %s = pd_op.sum(%a) {{axis = array<i64: 1>, keepdim = true}} : ({T}) -> tensor<4x1xf32>
  %y = pd_op.divide(%a, %s) : ({T}, tensor<4x1xf32>) -> {T}"""
NETWORK = f"""
  %a = pd_op.matmul(%x, %w) : {BINARY}
  %b = pd_op.tanh(%a) : {UNARY}
  %c = pd_op.matmul(%b, %w) : {BINARY}
  %d = pd_op.gelu(%c) : {UNARY}
  %y = pd_op.softmax(%d) {{axis = -1 : i32}} : {UNARY}"""
CONSTANTS = f"""
  %k = pd_op.full() {{shape = array<i64: 4, 4>, value = 3.0 : f64, {FULL}}} : () -> {T}
  %a = pd_op.tanh(%k) : {UNARY}
  %y = pd_op.multiply(%x, %a) : {BINARY}"""
COMPUTED_AXIS = f"""
  %k = pd_op.full_int_array() {{value = array<i64: 1>, dtype = #pir.dtype<int64>, \
place = #pir.place<cpu:0>}} : () -> tensor<1xi64>
  %a = pd_op.sum(%x, %k) {{keepdim = true}} : ({T}, tensor<1xi64>) -> tensor<4x1xf32>
  %y = pd_op.subtract(%x, %a) : ({T}, tensor<4x1xf32>) -> {T}"""
LISTED = f"""
  %v = pir.combine(%x, %w) : ({T}, {T}) -> !pir.vec<{T}, {T}>
  %a, %b = pir.split(%v) : (!pir.vec<{T}, {T}>) -> ({T}, {T})
  %y = pd_op.subtract(%a, %b) : {BINARY}"""
OVERWRITTEN = f"""
  %a = pd_op.multiply(%x, %w) : {BINARY}
  %b = pd_op.tanh(%a) : {UNARY}
  %c = pd_op.scale(%w) {{scale = 0.5 : f64, bias = 0.0 : f64, bias_after_scale = true}} : {UNARY}
  %d = pd_op.assign_out_(%c, %w) : {BINARY}
  %y = pd_op.multiply(%b, %x) : {BINARY}"""

SCALAR = "tensor<f32>"


def third_derivative(of: str) -> str:
    """The operations of a third derivative, pending; ``of`` computes `%z` of `%x`."""
    one = f"pd_op.full() {{shape = array<i64>, value = 1.0 : f64, {FULL}}} : () -> {SCALAR}"
    lines = [of, f"  %k = {one}"]
    for value, found in pairwise(("%z", "%d1", "%d2", "%y")):
        total = f"%s{found[1:]}"
        lines += [
            f"  {total} = pd_op.sum({value}) {{axis = array<i64: 0, 1>, keepdim = false}} "
            f": ({T}) -> {SCALAR}",
            f"  {found} = pir.gradient({total}, %k, %x) {{targets = 1 : i32, wrt = 1 : i32}} "
            f": ({SCALAR}, {SCALAR}, {T}) -> {T}",
        ]
    return "\n".join(lines)


PENDING = third_derivative(f"""
  %a = pd_op.sin(%x) : {UNARY}
  %b = pd_op.tanh(%x) : {UNARY}
  %z = pd_op.multiply(%a, %b) : {BINARY}""")
KNOWN_BRANCH = f"""
  %c = pd_op.full() {{shape = array<i64: 1>, value = 1.0 : f64, dtype = #pir.dtype<bool>, \
place = #pir.place<cpu:0>}} : () -> tensor<1xi1>
  %y = pd_op.if(%c) : (tensor<1xi1>) -> {T} {{
    %t = pd_op.tanh(%x) : {UNARY}
    pir.yield(%t) : ({T}) -> ()
  }} else {{
    %e = pd_op.exp(%w) : {UNARY}
    pir.yield(%e) : ({T}) -> ()
  }}"""
NUMBER: Final = "tensor<1xi64>"
COUNTED = f"""
  %n = pd_op.full() {{shape = array<i64: 1>, value = 0.0 : f64, dtype = #pir.dtype<int64>, \
place = #pir.place<cpu:0>}} : () -> {NUMBER}
  %m = pd_op.full() {{shape = array<i64: 1>, value = 3.0 : f64, dtype = #pir.dtype<int64>, \
place = #pir.place<cpu:0>}} : () -> {NUMBER}
  %go = pd_op.less_than(%n, %m) : ({NUMBER}, {NUMBER}) -> tensor<1xi1>
  %k, %y = pd_op.while(%go, %n, %x) : (tensor<1xi1>, {NUMBER}, {T}) -> ({NUMBER}, {T}) {{
  ^bb0(%i : {NUMBER}, %a : {T}):
    %t = pd_op.tanh(%a) : {UNARY}
    %j = pd_op.scale(%i) {{scale = 1.0 : f64, bias = 1.0 : f64, bias_after_scale = true}} \
: ({NUMBER}) -> {NUMBER}
    %again = pd_op.less_than(%j, %m) : ({NUMBER}, {NUMBER}) -> tensor<1xi1>
    pir.yield(%again, %j, %t) : (tensor<1xi1>, {NUMBER}, {T}) -> ()
  }}"""
WEIGHTS = f"""
  %p = pir.parameter() {{parameter_name = "p"}} : () -> {T}
  %q = pir.parameter() {{parameter_name = "q"}} : () -> {T}
  %f = pd_op.tanh(%p) : {UNARY}
  %g = pd_op.exp(%q) : {UNARY}
  %m = pd_op.matmul(%x, %f) : {BINARY}
  %y = pd_op.add(%m, %g) : {BINARY}"""
AFFINE = f"""
  %p = pir.parameter() {{parameter_name = "p"}} : () -> {T}
  %b = pir.parameter() {{parameter_name = "b"}} : () -> tensor<4xf32>
  %s = pir.parameter() {{parameter_name = "s"}} : () -> tensor<4xf32>
  %m = pd_op.matmul(%x, %p) : {BINARY}
  %a = pd_op.add(%m, %b) : ({T}, tensor<4xf32>) -> {T}
  %y = pd_op.multiply(%a, %s) : ({T}, tensor<4xf32>) -> {T}"""
CORPUS: Final = Path(__file__).parents[1] / "tests" / "corpus" / "paddle"

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Bug:
    """What is replaced by what, the program that it spoils, and what has to be named.

    ``body`` is what the program computes, or the name of a recorded one.
    """

    room: str
    owner: Any
    name: str
    change: Change
    body: str
    pipeline: str
    named: tuple[str, ...]

    def program(self, around: int = 0) -> str:
        """The program; with ``around``, so many right operations stand before it and after it."""
        if "%" not in self.body:
            return (CORPUS / self.body / "program.txt").read_text()
        first, last = ["%x", "%y"] if not around else ["%x0", f"%y{around}"]
        arguments = f'{first} "x" : {T}, %w "w" : {T}'
        before = [f"%x{k}" for k in range(around)] + ["%x"]
        behind = ["%y", *(f"%y{k + 1}" for k in range(around))]
        chains = [
            "".join(f"\n  {b} = {NEGATED.format(a)}" for a, b in pairwise(names))
            for names in (before, behind)
        ]
        end = f'\n  pir.shadow_output({last}) {{output_name = "y"}} : ({T}) -> ()\n'
        return f"pir.program @main({arguments}) {{{chains[0]}{self.body}{chains[1]}{end}}}\n"


def constant(value: Any) -> Change:
    return lambda old: lambda *given, **named: value


def after(change: Callable[[Any], Any]) -> Change:
    """The function, with another result."""
    return lambda old: lambda *given, **named: change(old(*given, **named))


def rule(table: opdef.RuleTable, op: str, change: Change) -> tuple[Any, str, Change]:
    """Owner, name and change of a bug in the rule of one op."""
    held = table.of(opdef.lookup(op))
    return table, "_rules", lambda rules: {**rules, op: change(held)}


def scaled(result: Any) -> Any:
    """The first of the results, 2 % too large."""
    if isinstance(result, list | tuple):
        return type(result)([scaled(result[0]), *result[1:]])
    return result * 1.02


def flipped(result: Any) -> Any:
    return replace(result, index=result.index[::-1])


def half_flipped(result: Any) -> Any:
    if not hasattr(result, "body"):
        return flipped(result)
    return replace(result, body=flipped(result.body))


def without_attributes(old: Any) -> Any:
    return lambda self, op: (op.name, tuple(op.operands), tuple(r.type for r in op.results))


def stale(old: Any) -> Any:
    return lambda self, value, reader: value


def with_wrong_rule(old: Any) -> Any:
    wrong = RewriteRule("pd_op.tanh", "tanh(x) = x", operand("x", always))
    return lambda definition: (wrong,) if definition.name == "pd_op.tanh" else old(definition)


def swapped(old: Any) -> Any:
    """Results of an operation with two operands are as if these were exchanged."""

    def insert(self: Any, op: Any, *given: Any) -> Any:
        made = old(self, op, *given)
        if op.name == "pd_op.subtract":
            made.operands = made.operands[::-1]
        return made

    return insert


def exchanged(held: Any) -> Any:
    values, names = held
    return values, dict(zip(names, reversed(names.values()), strict=True))


def the_last_alone(old: Any) -> Any:
    """The cotangent of a value with several uses is that of one use."""

    def add(self: Any, value: Any, *given: Any) -> None:
        self.grads.pop(value, None)
        old(self, value, *given)

    return add


def pushed_in_another_order(old: Any) -> Any:
    return lambda b, inlet, values: old(b, inlet, list(values)[::-1])


def growing(series: Any) -> Any:
    """The coefficients of a series after the first, 10 % too large."""
    return [series[0], *(c if c is None else c * 1.1 for c in series[1:])]


def used_alone(old: Any) -> Any:
    """Only variables of loops whose results are used are needed, not those of the condition."""
    return lambda op, condition, given: {k for k, r in enumerate(op.results) if r.uses}


def constant_table(table: Any) -> Change:
    return lambda old: table


def backward_list(old: Any) -> Any:
    return lambda op: found[::-1] if (found := old(op)) is not None else None


def other_axis(old: Any) -> Any:
    def attribute_of(op: Any, name: str, classes: Any) -> Any:
        found = old(op, name, classes)
        return (0,) if name == "axis" and isinstance(found, tuple) else found

    return attribute_of


BUGS: Final = {
    "cse ignores attributes": Bug(
        "passes", cse._Merge, "key", without_attributes, TWO_AXES, "dce,cse",
        ("pass 2: cse", "merge"),
    ),
    "cse ignores writes": Bug(
        "passes", cse._Merge, "is_equal_later", constant(True), WRITTEN.replace("%d)", "%c)"),
        "cse", ("pass 1: cse", "merge"),
    ),
    "dce drops writes": Bug(
        "passes", dce._Sweep, "is_observed", constant(False), WRITTEN.replace("%d)", "%c)"),
        "cse,dce", ("pass 2: dce", "dead"),
    ),
    "a wrong equation": Bug(
        "passes", canonicalize, "rules_of", with_wrong_rule, CHAIN, "@default",
        ("canonicalize", "tanh(x) = x"),
    ),
    "constants folded wrongly": Bug(
        "passes", constant_fold.ConstantFoldPass, "results",
        after(lambda found: found and [found[0] * 1.01]), CONSTANTS, "@default",
        ("constant-fold", "pd_op.tanh"),
    ),
    "another axis absorbed": Bug(
        "passes", absorb_attributes, "attribute_of", other_axis, COMPUTED_AXIS, "absorb-attributes",
        ("absorb-attributes",),
    ),
    "an older version is read": Bug(
        "passes", functionalize._Versions, "now", stale, WRITTEN.replace("%d)", "%c)"), "@default",
        ("functionalize",),
    ),
    "overwrites what is read later": Bug(
        "passes", inplace._Facts, "dies", constant(True), CHAIN, "inplace", ("pass 1: inplace",)
    ),
    "elements exchanged": Bug(
        "passes", inline_vec, "_elements", backward_list, LISTED, "@default",
        ("inline-vec", "pir.split"),
    ),
    "decomposition of gelu": Bug(
        "rules", *rule(opdef.decompose, "pd_op.gelu", after(scaled)), NETWORK, "decompose",
        ("pass 1: decompose", "pd_op.gelu"),
    ),
    "decomposition of softmax": Bug(
        "rules", *rule(opdef.decompose, "pd_op.softmax", after(scaled)), NETWORK, "decompose",
        ("pass 1: decompose", "pd_op.softmax"),
    ),
    "derivative of tanh": Bug(
        "rules", *rule(opdef.vjp, "pd_op.tanh", after(scaled)), NETWORK, "split,@default",
        ("derivative of `pd_op.tanh`",),
    ),
    "derivative of matmul": Bug(
        "rules", *rule(opdef.vjp, "pd_op.matmul", after(scaled)), NETWORK, "split",
        ("derivative of `pd_op.matmul`",),
    ),
    "derivative of softmax": Bug(
        "rules", *rule(opdef.vjp, "pd_op.softmax", after(scaled)), NETWORK, "autodiff",
        ("derivative of `pd_op.softmax`",),
    ),
    "derivative of sum": Bug(
        "rules", *rule(opdef.vjp, "pd_op.sum", after(scaled)), SUMMED, "autodiff,@default",
        ("derivative of `pd_op.sum`",),
    ),
    "derivative in a loop": Bug(
        "rules", *rule(opdef.vjp, "pd_op.multiply", after(scaled)), "while_tanh", "split,@default",
        ("derivative of `pd_op.multiply`",),
    ),
    "Taylor series of sin": Bug(
        "rules", *rule(opdef.jet, "pd_op.sin", after(growing)), PENDING, "@default",
        ("Taylor series of `pd_op.sin`",),
    ),
    "index map of transpose": Bug(
        "fusion", *rule(opdef.index_maps, "pd_op.transpose", after(flipped)), TURNED, "@fused",
        ("fuse", "rewrite 1 of 1"),
    ),
    "index map of sum": Bug(
        "fusion", *rule(opdef.index_maps, "pd_op.sum", after(half_flipped)), SUMMED, "@fused",
        ("fuse",),
    ),
    "a kernel loads another element": Bug(
        "fusion", kernel_builder._Builder, "load", after(flipped), TURNED, "@fused", ("fuse",)
    ),
    "an operation of a kernel is left out": Bug(
        "fusion", kernel_builder._Builder, "node",
        after(lambda n: n.args[0] if getattr(n, "op", "").endswith("tanh") else n), CHAIN, "@fused",
        ("fuse",),
    ),
    "kernels out of order": Bug(
        "fusion", fuse_pass, "in_order", after(lambda ops: list(ops)[::-1]), NETWORK, "@fused",
        ("fuse",),
    ),
    "the backward exchanges operands": Bug(
        "split", build_halves._Backward, "insert", swapped, NETWORK, "split", ("pass 1: split",)
    ),
    "only shapes are saved": Bug(
        "split", backward_reads, "reads_data", constant(False), NETWORK, "split", ("pass 1: split",)
    ),
    "the backward reads a later version": Bug(
        "split", storage_versions.Contents, "_is_current", constant(True), OVERWRITTEN, "split",
        ("pass 1: split",),
    ),
    "gradients exchanged": Bug(
        "split", labels, "_gradients", after(exchanged), NETWORK, "split",
        ("pass 1: split",),
    ),
    "the other branch is taken": Bug(
        "passes", canonicalize, "splat_of", after(lambda c: c if c is None else not c),
        KNOWN_BRANCH, "canonicalize", ("pass 1: canonicalize", "branch"),
    ),
    "a loop saves in another order": Bug(
        "passes", autodiff_regions, "push", pushed_in_another_order, "while_tanh", "split",
        ("passes/autodiff_regions.py",),
    ),
    "cotangents of a branch": Bug(
        "passes", autodiff_regions._Place, "take", after(lambda c: c if c is None else c * 1.5),
        "if_else", "split", ("passes/autodiff_regions.py",),
    ),
    "cotangents are not added": Bug(
        "passes", autodiff.Backward, "add", the_last_alone, CHAIN, "split", ("passes/autodiff.py",)
    ),
    "a loop loses its counter": Bug(
        "passes", dce, "_needed_variables", used_alone, COUNTED, "dce", ("pass 1: dce",)
    ),
    "constants under wrong names": Bug(
        "passes", hoist_constants, "_outputs", after(lambda ops: ops[::-1]), WEIGHTS,
        "hoist-constants", ("pass 1: hoist-constants",),
    ),
    "a folded summand is lost": Bug(
        "passes", fold_batch_norm._Root, "part", after(lambda part: (part[0], None)), AFFINE,
        "fold-batch-norm", ("pass 1: fold-batch-norm", "batch-norm"),
    ),
    "a recomputed operation lacks an operand": Bug(
        "split", recompute, "_SAVED_STATISTICS",
        constant_table({"pd_op.batch_norm": {"bias": "variance_out"}}), "conv_bn_train",
        "functionalize,split{mode=min-cut}", ("pass 2: split",),
    ),
}  # fmt: skip


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    with mock.patch.object(bug.owner, bug.name, bug.change(getattr(bug.owner, bug.name))):
        yield


def printed(main: Callable[[], int], *command: str) -> tuple[int, str]:
    out = io.StringIO()
    with mock.patch.object(sys, "argv", list(command)), contextlib.redirect_stdout(out):
        code = main()
    return code, out.getvalue()


def bisect(file: Path, pipeline: str) -> tuple[int, str]:
    """What `pirkit-opt --bisect` prints, and its exit code."""
    return printed(opt.main, "pirkit-opt", str(file), "-p", pipeline, "--bisect")


def reduced(name: str) -> tuple[int, float] | None:
    """How many operations `pirkit-reduce` leaves of a larger program, and its CPU time.

    None if neither numbers nor an error show the bug: derivatives, which `--bisect` reduces.
    """
    bug = BUGS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.mlir"
        file.write_text(bug.program(around=20))
        start = time.process_time()
        for oracle in ("numbers", "error"):
            # CPU time counts, so that the time of a busy machine does not end the search
            command = ("pirkit-reduce", str(file), "-p", bug.pipeline, oracle, "--seconds=600")
            with planted(bug), contextlib.redirect_stderr(io.StringIO()):
                code, text = printed(reduce.main, *command)
            if code == 0:
                return size(parse_mlir(text)), time.process_time() - start
    return None


def verdict(name: str) -> str | None:
    """What is wrong with the answer of the tools to a bug; None if they name it."""
    bug = BUGS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program"
        file.write_text(bug.program())
        with planted(bug):
            code, text = bisect(file, bug.pipeline)
        sound, _ = bisect(file, bug.pipeline)
    if sound != 0:
        return f"exit code {sound} without the bug"
    missing = [words for words in bug.named if words not in text]
    return f"exit code {code}, {missing} not in:\n{text}" if code != 3 or missing else None


def main() -> int:
    """Exit code 1 if a bug is not named."""
    names = [a for a in sys.argv[1:] if a != "--reduce"] or list(BUGS)
    if "--reduce" in sys.argv:
        counts: list[int] = []
        for name in names:
            found = reduced(name)
            counts += [found[0]] if found is not None else []
            left = "no oracle" if found is None else "{} operations, {:.1f} s".format(*found)
            print(f"{name}: {left}", flush=True)
        print(f"median {median(counts)}, most {max(counts)} of {len(counts)} bugs")
        return 0
    found = 0
    for name in names:
        wrong = verdict(name)
        found += wrong is None
        print(f"{BUGS[name].room:8} {name}: {'named' if wrong is None else wrong}", flush=True)
    print(f"{found} of {len(names)} named")
    return int(found < len(names))


if __name__ == "__main__":
    os.environ["PIRKIT_NATIVE_CACHE"] = "off"
    sys.exit(main())

"""Torch's own samples of its ops, through the rules: values, gradients and second gradients.

    python -m tools.campaigns torch_ops --count 100000 --out torch_ops.jsonl
    python -m tools.campaigns torch_ops --only softmax --count 3000
    python -m tools.campaigns.torch_ops torch_ops.jsonl     # rates of passing

A case is two samples of one variant of an op in one element type; later rounds take further samples
of the same ones. In float32 and bfloat16 a result that differs from eager's counts as right if it
is not further than eager's from that of float64.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

if importlib.util.find_spec("expecttest") is None:  # the samples do not need it, their module does
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

from torch.testing._internal.common_methods_invocations import op_db

from pirkit.diag.errors import InternalError, PirkitError
from pirkit.torch.capture import capture
from pirkit.torch.compiled_graph import CompiledGraph
from pirkit.torch.node_error import NodeError
from pirkit.torch.tensor_runner import Settings
from tools.campaigns.driver import SEVERE, Campaign, Found, read

SAMPLES: Final = 2
SEED: Final = 42
"""Also that of ops that seed the generator themselves, when they are called."""
DTYPES: Final = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
TOLERANCE: Final = {
    torch.float32: (2e-4, 2e-4), torch.float64: (1e-8, 1e-8), torch.bfloat16: (5e-2, 5e-2),
    torch.complex64: (2e-4, 2e-4), torch.complex128: (1e-8, 1e-8),
}  # fmt: skip
"""Relative and absolute; results in bfloat16 are rounded by op in torch, by kernel here."""
WIDENED: Final = {torch.float32: torch.float64, torch.bfloat16: torch.float64,
                  torch.complex64: torch.complex128}  # fmt: skip
FURTHER: Final = 2.0
"""How many times as far from float64's result as eager's a result may be."""
ARBITRARY: Final = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided",
                              "new_empty", "new_empty_strided"})  # fmt: skip
"""Ops whose results are whatever the memory holds."""

Stage = tuple[str, list[Any]]


@cache
def _ops(part: str) -> tuple[Any, ...]:
    left = ("sparse", "cuda", "jiterator")
    known = sorted(op_db, key=lambda o: o.full_name)
    known = [o for o in known if o.name not in ARBITRARY and not any(w in o.name for w in left)]
    return tuple([o for o in known if part in o.full_name])


def case(number: int, part: str) -> tuple[Any, Any, int]:
    """The op, element type and round of a case."""
    ops = _ops(part)
    number, variant = divmod(number, len(ops))
    turn, kind = divmod(number, len(DTYPES))
    return ops[variant], DTYPES[kind], turn


def describe(seed: int, number: int, part: str = "") -> str:
    op, dtype, turn = case(number, part)
    return f"{op.full_name} {str(dtype).removeprefix('torch.')} round {turn}"


def examine(seed: int, number: int, part: str = "") -> list[Found]:
    """What is wrong with a case; also whether there is none, and what torch computes of it."""
    op, dtype, turn = case(number, part)
    name = describe(seed, number, part)
    found: list[Found] = []
    taken = _samples(op, dtype, turn, seed) if dtype in op.dtypes else []
    for k, sample in taken:
        kind, way, what, fell = _check(op, sample, dtype)
        if kind != "ok":
            found.append(Found(kind, name, way, f"sample {k}: {what}"[:300]))
        found += [Found("torch", name, "values", t) for t in sorted(fell)]
    return found if taken else [Found("skipped", name, "samples", "there is none")]


def _samples(op: Any, dtype: Any, turn: int, seed: int) -> list[tuple[int, Any]]:
    """Samples of a round, with their numbers: in any order, but for the first."""
    torch.manual_seed(SEED + seed)
    random.seed(SEED + seed)
    try:
        learns = op.supports_autograd and dtype is not torch.int64
        held = list(enumerate(op.sample_inputs("cpu", dtype, requires_grad=learns)))
    except Exception:  # torch has no samples of this dtype
        return []
    rest = held[1:]
    random.Random(op.full_name).shuffle(rest)
    return [*held[:1], *rest][SAMPLES * turn : SAMPLES * (turn + 1)]


def _tensors(tree: Any) -> list[Any]:
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def compiled(sample: Any, op: Any) -> tuple[Any, list[Any], list[Any]]:
    """The call of a sample as a compiled graph, its tensors, and where its imports go."""
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    class Call(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            held = list(leaves)
            for i, t in zip(at, given, strict=True):
                held[i] = t
            x, args, kwargs = torch.utils._pytree.tree_unflatten(held, spec)
            return _tensors(op(x, *args, **kwargs))

    inputs = [leaves[i] for i in at]
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(len(at))]
    graph.output(graph.call_module("call", tuple(nodes)))
    holder = torch.nn.Module()
    holder.call = Call()
    module = torch.fx.GraphModule(holder, graph)
    found: list[Any] = []
    made = CompiledGraph(capture(module, inputs), Settings(), strict=False, report=found.append)
    return made, inputs, found


def _stages(op: Any, outputs: list[Any], wrt: list[Any]) -> Any:
    """The results of a call, then gradients, then second gradients, each when it is asked for."""
    yield "forward", outputs
    if not op.supports_autograd or not wrt:
        return
    first = _gradients(outputs, wrt, graph=op.supports_gradgrad)
    yield "gradient", first
    if op.supports_gradgrad:
        yield "second gradient", _gradients(first, wrt, graph=False)


def _gradients(outputs: list[Any], wrt: list[Any], *, graph: bool) -> list[Any]:
    """Gradients for cotangents that are the same numbers in all element types."""
    draws = torch.Generator().manual_seed(1)
    seeds = [(torch.rand(o.shape, generator=draws, dtype=torch.float64) + 0.5).bfloat16()
             for o in outputs]  # fmt: skip
    live = [(o, s.to(o.dtype)) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not live:
        return [torch.zeros_like(x) for x in wrt]
    ys, cotangents = zip(*live, strict=True)
    return list(torch.autograd.grad(ys, wrt, cotangents, create_graph=graph, allow_unused=True,
                                    materialize_grads=True))  # fmt: skip


def _check(op: Any, sample: Any, dtype: Any) -> tuple[str, str, str, set[str]]:
    """``ok`` or what is wrong, in which stage; and the overloads that torch computed."""
    fell: set[str] = set()

    def eager(given: Any) -> Any:
        torch.manual_seed(SEED)
        outputs = _tensors(op(given.input, *given.args, **given.kwargs))
        leaves = _tensors((given.input, given.args, given.kwargs))
        return _stages(op, outputs, [t for t in leaves if t.requires_grad])

    def exact() -> dict[str, list[Any]]:
        return dict(eager(sample.transform(_widened)))

    try:
        expected: list[Stage] = list(eager(sample))
    except Exception:  # torch itself refuses the sample, or to differentiate it
        return "skipped", "samples", "torch refuses it", fell
    if not expected[0][1] or any(t.layout is not torch.strided for t in expected[0][1]):
        return "skipped", "samples", "no tensor", fell
    stage = "forward"
    try:
        made, inputs, found = compiled(sample, op)
        torch.manual_seed(SEED)
        outputs = list(made(*[t if t.requires_grad else _copied(t) for t in inputs]))
        fell |= {f.target for imported in found for f in imported.fallbacks}
        ours = _stages(op, outputs, [t for t in inputs if t.requires_grad])
        for stage, wanted in expected:
            got = next(ours)[1]
            wrong = _difference(wanted, got)
            if wrong and not _near(wanted, got, stage, exact if dtype in WIDENED else None):
                return "wrong", stage, wrong, fell
    except NodeError as error:
        return "pieces", stage, error.message, fell
    except InternalError as error:
        return "uncoded", stage, str(error), fell
    except PirkitError as error:
        return "refused", stage, str(error), fell
    except Exception as error:
        return "uncoded", stage, f"{type(error).__name__}: {error}", fell
    return "ok", "", "", fell


def _copied(given: Any) -> Any:
    """A tensor with a storage of its own, in which it lies as in the one that it had."""
    if given.layout is not torch.strided:
        return given.clone()
    held = given.untyped_storage().clone()
    return given.new_empty(0).set_(held, given.storage_offset(), given.shape, given.stride())


def _widened(given: Any) -> Any:
    if isinstance(given, torch.Tensor) and given.dtype in WIDENED:
        return given.detach().to(WIDENED[given.dtype]).requires_grad_(given.requires_grad)
    return WIDENED.get(given, given) if isinstance(given, torch.dtype) else given


def _difference(expected: list[Any], found: list[Any]) -> str:
    """How two lists of tensors differ, or nothing."""
    if len(expected) != len(found):
        return f"{len(found)} results instead of {len(expected)}"
    for a, b in zip(expected, found, strict=True):
        rtol, atol = TOLERANCE.get(a.dtype, (0.0, 0.0))
        known = a[a.isfinite()].abs() if a.dtype in WIDENED else a.new_empty(0)
        floor = rtol * float(known.max()) if known.numel() else 0.0
        try:
            torch.testing.assert_close(b, a, rtol=rtol, atol=max(atol, floor), equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())
    return ""


def _near(
    expected: list[Any], found: list[Any], stage: str,
    exact: Callable[[], dict[str, list[Any]]] | None,
) -> bool:  # fmt: skip
    """Whether results are about as near to those of wider numbers as eager's are."""
    if exact is None or [(t.shape, t.dtype) for t in expected] != [
        (t.shape, t.dtype) for t in found
    ]:
        return False
    try:
        wide = exact()[stage]
    except Exception:  # it has no sample in wider numbers
        return False
    for a, b, w in zip(expected, found, wide, strict=True):
        if not torch.equal(a.isfinite(), b.isfinite()):
            return False
        finite = a.isfinite()
        theirs, ours = ((t[finite].to(w.dtype) - w[finite]).abs() for t in (a, b))
        if ours.numel() and not float(ours.max()) <= FURTHER * float(theirs.max()):
            return False
    return True


def rates(found: dict[int, list[Found]]) -> str:
    """A row for each element type: variants with samples, those that pass, that need torch..."""
    rows: dict[Any, dict[str, set[str]]] = {}
    for number, findings in found.items():
        op, dtype, _ = case(number, "")
        kinds = rows.setdefault(dtype, {})
        if all(f.kind == "skipped" for f in findings) and findings:
            continue
        for kind in {"run", *(f.kind for f in findings)}:
            kinds.setdefault(kind, set()).add(op.full_name)
    lines = [
        "| element type | variants | pass | without torch | between pieces | wrong | others |",
        "|---|" + "--:|" * 6,
    ]
    for dtype, kinds in rows.items():
        held = Counter({k: len(v) for k, v in kinds.items()})
        failed = set[str]().union(*(kinds.get(k, set()) for k in (*SEVERE, "refused", "pieces")))
        passed = kinds.get("run", set()) - failed
        others = failed - kinds.get("wrong", set()) - kinds.get("pieces", set())
        numbers = (held["run"], len(passed), len(passed - kinds.get("torch", set())),
                   held["pieces"], held["wrong"], len(others))  # fmt: skip
        name = str(dtype).removeprefix("torch.")
        lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


CAMPAIGN: Final = Campaign("torch_ops", examine, describe, seconds=60, range=60)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(rates(read(Path(sys.argv[1]))))

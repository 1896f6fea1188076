"""Lets matmuls and convolutions do what an elementwise step does with their results.

A step that reads them again and stores them once more costs as much as many of their sums (a bias
for 24 filters of 21 terms over 8,000 samples: a fifth of the convolution, on a Zen 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from msgspec.structs import replace

from pirkit.diag.gc_pause import imported
from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem
from pirkit.lowering.codegen.conv.conv_epilogue import ConvEpilogue
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.ir.canonicalize import canonical
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    Load,
    Operand,
    Store,
    renamed,
)
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm
from pirkit.lowering.whole_program.matmul_summands import strides_over, with_summands
from pirkit.runtime.native.function import Control, NativeFunction
from pirkit.runtime.plan import Call

_Fused = tuple[NativeFunction, list[int]] | None
"""A function that does what a nest does too, and the operands of the nest that it reads."""


class _Steps(Protocol):
    steps: list[tuple[NativeFunction | Control, tuple[int, ...]]]
    nests: list[Kernel | None]
    sources: list[tuple[Call, ...]]
    products: dict[NativeFunction, Gemm]
    convolutions: dict[NativeFunction, ConvProblem | Kernel]


def fuse_epilogues(made: _Steps, results: Sequence[int]) -> None:
    """Let matmuls and convolutions do what a step alone does with their results; that step is
    left out.

    ``results`` are buffers of results. Programs with branches and loops stay as they are.
    """
    if any(isinstance(function, Control) for function, _ in made.steps):
        return
    uses: dict[int, list[int]] = {}
    for k, (_, buffers) in enumerate(made.steps):
        for b in dict.fromkeys(buffers):
            uses.setdefault(b, []).append(k)
    left_out: list[int] = []
    for k, nest in enumerate(made.nests):
        if nest is not None and _fused(made, k, nest, uses, results):
            left_out.append(k)
    for k in reversed(left_out):
        del made.steps[k], made.nests[k], made.sources[k]


def _fused(
    made: _Steps, step: int, nest: Kernel, uses: Mapping[int, list[int]], results: Sequence[int]
) -> bool:
    """Whether the function whose result a step reads now does what that step does."""
    buffers = made.steps[step][1]
    stored = [s.operand for s in nest.statements() if isinstance(s, Store)]
    if nest.inner or len(stored) != 1 or len(buffers) != len(set(buffers)):
        return False
    target = buffers[stored[0]]
    for source in buffers:
        first = uses[source][0]
        function, given = made.steps[first]
        if (
            not isinstance(function, NativeFunction)
            or source in results
            or uses[source] != [first, step]
            or given[2:3] != (source,)
            or uses[target][0] != step  # it is written earlier than the step did
        ):
            continue
        found = _with_epilogue(made, function, nest, buffers.index(source))
        # What is read has to be there by then.
        if found is None or any(first < k < step for j in found[1] for k in uses[buffers[j]]):
            continue
        ours, operands = found
        made.steps[first] = ours, (*given[:2], target, *given[3:], *[buffers[j] for j in operands])
        made.sources[first] = (*made.sources[first], *made.sources[step])
        uses[target][0] = first
        return True
    return False


def _with_epilogue(made: _Steps, function: NativeFunction, nest: Kernel, source: int) -> _Fused:
    match made.products.get(function) or made.convolutions.get(function):
        case Gemm() as product:
            return with_summands(product, nest, source)
        case ConvProblem() as problem:
            return _blocked(problem, nest, source)
        case Kernel() as kernel:
            return _in_nest(kernel, nest, source)
        case None:
            return None


def _blocked(c: ConvProblem, nest: Kernel, source: int) -> _Fused:
    """A blocked convolution, whose sums meet numbers of their filter alone."""
    filters, size = c.groups * c.group_filters, c.dtype.itemsize
    plain = canonical(nest)
    places = [strides_over((c.n, filters, prod(c.room)), plain.outer, o) for o in plain.operands]
    whole = _dense((c.n, filters, prod(c.room)), size)
    statements: list[Compute | Constant] = []
    total, vectors, operands = "", list[str](), list[int]()
    for s in plain.statements():
        match s:
            case Load(name, operand, None, _, None) if operand == source:
                if total or places[operand] != whole:
                    return None
                total = name
            case Load(name, operand, None, _, None) if places[operand] == [0, size, 0]:
                vectors.append(name)
                operands.append(operand)
            case Compute() | Constant():
                statements.append(s)
            case Store(operand, value) if places[operand] == whole:
                same = all(o.dtype is c.dtype and not o.offset for o in plain.operands)
                if not total or not same or not statements:
                    return None
                found = ConvEpilogue(total, tuple(vectors), tuple(statements), value)
                conv = imported("pirkit.lowering.codegen.conv.compile_conv")
                return conv.with_epilogue(c, found), operands
            case _:
                return None
    return None


def _in_nest(kernel: Kernel, nest: Kernel, source: int) -> _Fused:
    """A nest that stores its sums by way of the statements of another one."""
    (phase,), plain = kernel.loop_phases, canonical(nest)
    *before, store = phase.after
    if not isinstance(store, Store):
        return None
    result = kernel.operands[store.operand]
    outer = [stride * (n > 1) for n, stride in zip(kernel.outer, result.outer, strict=True)]
    result = replace(result, outer=tuple(outer))
    operands, order, names = list(kernel.operands), list[int](), dict[str, str]()
    after = list(before)
    for s in plain.statements():
        match s:
            case Compute() | Constant():
                names[s.name] = f"e{len(names)}"
                after.append(renamed(s, names.__getitem__))
                continue
            case Load(_, operand, None, _, None) | Store(operand):
                o = plain.operands[operand]
            case _:
                return None
        place = strides_over(kernel.outer, plain.outer, o)
        if place is None:
            return None
        moved = Operand(o.dtype, tuple(place), result.inner, o.size, o.offset)
        if isinstance(s, Load) and operand != source:
            names[s.name] = f"e{len(names)}"
            after.append(Load(names[s.name], len(operands)))
            operands.append(moved)
            order.append(operand)
        elif moved != result:
            return None
        elif isinstance(s, Load):
            names[s.name] = store.value
        else:
            after.append(Store(store.operand, names[s.value]))
    fused = replace(
        kernel, operands=tuple(operands), loop_phases=(replace(phase, after=tuple(after)),)
    )
    steps = native_sequence(fused).steps
    alone = len(steps) == 1 and steps[0][1] == tuple(range(len(operands)))
    return (steps[0][0], order) if alone else None


def _dense(extents: Sequence[int], size: int) -> list[int]:
    return [size * prod(extents[k + 1 :]) * (n > 1) for k, n in enumerate(extents)]

"""Programs of one call, and what is checked of the rules of every op on its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.differentiation import is_differentiable
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opdef import OpDef
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.passes import run_pipeline
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import UNKNOWN
from tests.ops.calls import Call, calls, sample_dtypes
from tests.prim.differentiation import Array, Shape, Traced

WITHOUT_DERIVATIVE: Final = frozenset({("pd_op.warprnnt", 1)})
"""Results that are derivatives themselves, and whose own derivative is refused."""


@dataclass
class Program:
    """A call as a program whose inputs are its tensors."""

    traced: Traced
    results: list[Value]
    """All tensors that the call gives, elements of lists one by one."""

    constant: frozenset[int] = frozenset()
    """Inputs through which the op lets no gradient flow."""

    @property
    def smooth(self) -> list[Value]:
        """The results that have a derivative."""
        return [
            r
            for i, r in enumerate(self.results)
            if is_differentiable(r.ssa)
            and (getattr(r.ssa.owner, "name", ""), i) not in WITHOUT_DERIVATIVE
        ]

    @property
    def wrt(self) -> list[Value]:
        """The inputs that have a derivative."""
        args = enumerate(self.traced.args)
        return [a for i, a in args if is_differentiable(a.ssa) and i not in self.constant]


def program_of(call: Call, *, known: bool | Sequence[Shape] = True) -> Program:
    """The program of a call, which knows or does not know the sizes of its inputs."""
    t = Traced(tensors_of(call), known=known)
    return Program(t, emitted(call, t.b, t.args), constants_of(call))


def tensors_of(call: Call) -> list[Array]:
    """The tensors of a call, elements of lists one by one."""
    flat: list[Array] = []
    for arg in call.args:
        flat += arg if isinstance(arg, list) else [] if arg is None else [arg]
    return flat


def emitted(call: Call, b: Builder, args: Sequence[Value]) -> list[Value]:
    """What a call gives of other values, elements of lists one by one."""
    given = iter(args)
    operands = [
        [next(given) for _ in arg]
        if isinstance(arg, list)
        else None
        if arg is None
        else next(given)
        for arg in call.args
    ]
    found = b(call.definition, *operands, **call.attrs)
    results: list[Value] = []
    for value in found if isinstance(found, tuple) else (found,):
        if value is not None:
            is_list = value.any_meta.__class__.__name__ == "VecMeta"
            results += b.split_vec(value) if is_list else [value]
    return results


def constants_of(call: Call) -> frozenset[int]:
    """Positions, among the tensors of a call, of those that the op lets no gradient through."""
    slots = [o for o in call.definition.operands if o.kind is None]
    found: list[int] = []
    count = 0
    for slot, arg in zip(slots, call.args, strict=False):
        size = len(arg) if isinstance(arg, list) else int(arg is not None)
        if slot.name in call.definition.no_gradient:
            found += range(count, count + size)
        count += size
    return frozenset(found)


def weighted(p: Program, values: Sequence[Value], rng: np.random.Generator) -> Value:
    """The sum of the elements of some values with random weights, which are constants.

    How many weights a value needs must be known; without, its sines are summed.
    """
    b, terms = p.traced.b, cast("list[Value | None]", [])
    for value in real_parts(p, values):
        if not value.meta.is_static:
            terms.append(b.sum(b.sin(value), tuple(range(value.rank))))
            continue
        if not value.meta.numel:
            continue
        if UNKNOWN in value.shape:  # a data-dependent number of them: weights of their own making
            terms.append(b.sum(b.sin(value * 0.7), tuple(range(value.rank))))
            continue
        draws = [float(w) for w in rng.uniform(0.5, 1.5, value.shape).ravel()]
        weights = b.assign_value(shape=value.shape, dtype=value.dtype, values=draws)
        terms.append(b.sum(value * weights, tuple(range(value.rank))))
    return b.total(terms) or b.const(0.0, dt.float64)


def real_parts(p: Program, values: Sequence[Value]) -> list[Value]:
    """The values, with real and imaginary part in the place of a complex one."""
    b, found = p.traced.b, list[Value]()
    for value in values:
        found += [b.real(value), b.imag(value)] if value.dtype.is_complex else [value]
    return found


def bent(p: Program) -> list[Value]:
    """The results after a function none of whose derivatives is zero.

    Linear ops have second derivatives then, in which the derivative of their derivative stands.
    """
    return [p.traced.b.sin(v * 0.7) + v * 0.5 for v in real_parts(p, p.smooth)]


def derivative(p: Program, order: int, *, bend: bool = False) -> list[Value]:
    """The gradient of a weighted sum of results, of the weighted sum of that gradient, ...

    With ``bend`` it begins with the weighted sum of what `bent` gives.
    """
    found = bent(p) if bend else p.smooth
    for at in range(order):
        found = gradient(p, target(p, found, at))
    return found


def height(p: Program, order: int, *, bend: bool = False) -> Value:
    """What `derivative` differentiates last."""
    return target(p, derivative(p, order - 1, bend=bend), order - 1)


DOUBLE: Final = (dt.float64, dt.complex128)


def in_double(p: Program) -> Program:
    """The program without results and inputs in less than double precision.

    Their differences would tell nothing.
    """
    coarse = {i for i, a in enumerate(p.traced.args) if a.dtype not in DOUBLE}
    return replace(
        p, results=[r for r in p.results if r.dtype in DOUBLE], constant=p.constant | coarse
    )


def target(p: Program, values: Sequence[Value], level: int) -> Value:
    """The weighted sum of a level, whose weights are the same in every program."""
    return weighted(p, values, np.random.default_rng(level))


def gradient(p: Program, y: Value) -> list[Value]:
    """The derivative of one value with respect to all inputs."""
    grads = p.traced.grad(y, p.wrt)
    zero = p.traced.b.zeros_like
    return [zero(w) if g is None else g for g, w in zip(grads, p.wrt, strict=True)]


def runner(
    p: Program, values: Sequence[Value], pipeline: str = ""
) -> Callable[[Sequence[Array]], list[Array]]:
    """What computes some values from the inputs of the program; compiled once."""
    finish(p, values, pipeline)
    library = KernelLibrary()
    executable = Executable(write_plan(p.traced.program, library=library), library, {}, 1)

    def run(inputs: Sequence[Array]) -> list[Array]:
        found = executable.run({f"x{i}": a for i, a in enumerate(inputs)})
        return [found[f"y{i}"] for i in range(len(values))]

    return run


def float_calls(definition: OpDef) -> Iterator[Call]:
    """The samples of an op in the widest floating type that it computes."""
    wide = [d for d in sample_dtypes(definition) if d.name in ("float64", "float32")]
    chosen: DType | None = max(wide, key=lambda d: d.name == "float64", default=None)
    if chosen is not None:
        yield from calls(definition, chosen)


def complex_calls(definition: OpDef) -> Iterator[Call]:
    """The samples of an op in complex128, if it computes that."""
    if dt.complex128 in sample_dtypes(definition):
        yield from calls(definition, dt.complex128)


def finish(p: Program, values: Sequence[Value], pipeline: str) -> ModuleOp:
    """The program with these outputs, after a pipeline."""
    for i, value in enumerate(values):
        p.traced.b("pir.shadow_output", value, output_name=f"y{i}")
    module = ModuleOp([p.traced.program])
    run_pipeline(module, pipeline)
    return module


def directions(
    inputs: Sequence[Array], constant: frozenset[int], rng: np.random.Generator
) -> list[Array]:
    """One random direction for each floating input that is not constant, as `differences` gives."""
    found: list[Array] = []
    for place, array in enumerate(inputs):
        if array.dtype.kind in "fc" and place not in constant:
            way = rng.uniform(-1, 1, array.shape)
            is_complex = array.dtype.kind == "c"
            found.append(way + 1j * rng.uniform(-1, 1, array.shape) if is_complex else way)
    return found


def difference_along(
    f: Callable[[Sequence[Array]], float],
    inputs: Sequence[Array],
    ways: Sequence[Array],
    constant: frozenset[int] = frozenset(),
    step: float = 1e-5,
) -> float:
    """The central difference of a function of arrays along one direction."""
    sides: list[float] = []
    for sign in (1, -1):
        left = iter(ways)
        moved = [
            a + sign * step * next(left) if a.dtype.kind in "fc" and i not in constant else a
            for i, a in enumerate(inputs)
        ]
        sides.append(f(moved))
    return (sides[0] - sides[1]) / (2 * step)


def differences(
    f: Callable[[Sequence[Array]], float],
    inputs: Sequence[Array],
    step: float = 1e-5,
    constant: frozenset[int] = frozenset(),
) -> list[Array]:
    """Central differences of a function of arrays, to each element of each floating one.

    Those to a complex element are one complex number: to the real part, and ``i`` times to the
    imaginary part.
    """
    found: list[Array] = []
    for place, array in enumerate(inputs):
        if array.dtype.kind not in "fc" or place in constant:
            continue
        slope = np.zeros_like(array)
        for at in np.ndindex(*array.shape):
            for unit in (1, 1j) if array.dtype.kind == "c" else (1,):
                sides: list[float] = []
                for sign in (1, -1):
                    moved: list[Any] = [a.copy() for a in inputs]
                    moved[place][at] += sign * step * unit
                    sides.append(f(moved))
                slope[at] += unit * (sides[0] - sides[1]) / (2 * step)
        found.append(slope)
    return found

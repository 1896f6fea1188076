"""What a program may give: the reference, exact and with noise.

What may differ is measured: the reference runs again with every floating result moved by a unit in
the last place (Monte Carlo arithmetic, D. S. Parker 1997), and elements may be as far apart as
these runs are, beyond the tolerance of the element type.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any, Final

import ml_dtypes
import numpy as np
from msgspec.structs import replace

from pirkit.dialect.kinds import CONSTANT, DATA_MOVEMENT
from pirkit.dialect.opdef import lookup
from pirkit.dialect.program import Program
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Port
from pirkit.runtime.registry import Choice, Kernel
from pirkit.runtime.tolerance import DRIFT, EXACT, tolerance

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

RUNS: Final = 4, 32
"""Runs of the reference with noise, first and where what they allow does not suffice: of thousands
of elements that rounding decides, as `sin` of large numbers, some are alike in four runs.
"""
SPREAD: Final = 16
"""How many times as far as the runs with noise are from each other a result may be."""

CANCELLING: Final = frozenset({"pd_op.gelu", "pd_op.tanh_shrink"})
"""Ops that subtract numbers as large as their operand where their result is small."""

SELECTING: Final = frozenset(
    f"pd_op.{n}"
    for n in ("max", "min", "amax", "amin", "maximum", "minimum", "fmax", "fmin", "relu", "clip")
)
"""Ops that choose one of two zeros, of which IEEE 754 lets either be the larger."""


class Noisy(KernelLibrary, frozen=True):
    """The reference rules, whose floating results are off by about a unit in the last place."""

    draw: np.random.Generator | None = None

    def choices(self, op: str, dtype: Any, attrs: Mapping[str, Any]) -> Sequence[Choice]:
        found = super().choices(op, dtype, attrs)
        if self.draw is None or lookup(op).kind in (*DATA_MOVEMENT, CONSTANT):
            return found
        selects = op.removesuffix("_") in SELECTING
        bind = partial(self._bind, cancels=op in CANCELLING, selects=selects)
        return [replace(c, kernel=replace(c.kernel, bind=bind(c.kernel))) for c in found]

    def _bind(self, kernel: Kernel, cancels: bool, selects: bool) -> Callable[[Binding], Any]:
        def bind(b: Binding) -> Any:
            step = kernel.bind(b)
            if step is None:
                return None
            if selects:
                return lambda *operands: self.either_zero(step(*operands))
            if not cancels:
                return lambda *operands: self.moved(step(*operands))

            def beside(x: Array, *others: Any) -> Any:
                """A result, even a small one, is a multiple of the last place of the operand."""
                with np.errstate(all="ignore"):
                    found = step(x, *others)
                    place = np.spacing(np.abs(x))
                    near = np.rint((found + (moved(x, self.draw) - x)) / place) * place
                return self.moved(np.where(np.isfinite(near), near, found).astype(found.dtype))

            return beside

        return bind

    def either_zero(self, found: Any) -> Any:
        """The moved result, whose zeros have any sign."""
        moved = self.moved(found)
        if not isinstance(moved, np.ndarray) or not dt.of_array(moved).is_float:
            return moved
        assert self.draw is not None
        sign = self.draw.choice(np.array([1, -1], moved.dtype), moved.shape)
        return np.where(moved == 0, moved * sign, moved)

    def moved(self, found: Any) -> Any:
        if isinstance(found, tuple | list):
            return type(found)([self.moved(f) for f in found])  # pyright: ignore
        return moved(found, self.draw) if isinstance(found, np.ndarray | np.generic) else found


def moved(array: Any, draw: Any) -> Any:
    """Each floating element times a number next to 1."""
    x = np.asarray(array)
    dtype = dt.of_array(x)
    if not (dtype.is_float or dtype.is_complex):
        return array
    unit = float(ml_dtypes.finfo(dt.REAL_OF.get(dtype, dtype).np).eps)
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            parts = [p * (1 + unit * draw.uniform(-1, 1, x.shape)) for p in (x.real, x.imag)]
            return (parts[0] + np.array(1j, dtype.np) * parts[1]).astype(dtype.np)
        wide = x.astype(np.float64) * (1 + unit * draw.uniform(-1, 1, x.shape))
        return np.where(x == 0, x, wide.astype(dtype.np))


def effect(executable: Executable, inputs: Arrays) -> Arrays:
    """Outputs and what was written, by name."""
    with np.errstate(all="ignore"):
        found = executable.run({n: a.copy() for n, a in inputs.items()})
    return {n: np.asarray(a) for n, a in {**executable.updates, **found}.items()}


def referred(program: Program, inputs: Arrays, draw: Any = None) -> Arrays:
    """What the reference gives, with noise if there is a generator of it."""
    library = Noisy("reference", draw=draw)
    held = {n: np.array(a) for n, a in program.params.items()}
    given = inputs
    if draw is not None:
        held = {n: moved(a, draw) for n, a in held.items()}
        given = {n: moved(a, draw) for n, a in inputs.items()}
    plan = write_plan(program.main, library=library)
    return effect(Executable(plan, library, held, 0), given)


class Oracle:
    """What a program may give."""

    def __init__(self, program: Program, inputs: Arrays) -> None:
        self.program, self.inputs = program, inputs
        self.want = referred(program, inputs)
        self._near: list[Arrays] = []

    @classmethod
    def of(cls, program: Program, inputs: Arrays) -> Oracle:
        """With numbers for the inputs that have none."""
        ports = write_plan(program.main, library=KernelLibrary("reference")).inputs
        return cls(
            program, {p.name: inputs[p.name] if p.name in inputs else drawn(p) for p in ports}
        )

    def near(self, count: int) -> list[Arrays]:
        """What the reference gives with noise; made where something differs."""
        for seed in range(len(self._near), count):
            self._near.append(referred(self.program, self.inputs, np.random.default_rng(seed)))
        return self._near[:count]

    def difference(
        self, found: Arrays, names: Container[str] | None = None
    ) -> tuple[str, str] | None:
        """The kind of the first difference that rounding does not explain, and what it is.

        It is that of the results with ``names``, else of all.
        """
        weak: tuple[str, str] | None = None
        for name, want in self.want.items():
            if names is not None and name not in names:
                continue
            if name not in found:
                # What writes the value that an input or parameter has anyway may be left out.
                given = self.inputs.get(name, self.program.params.get(name))
                if given is not None and np.asarray(given).tobytes() == want.tobytes():
                    continue
                return "wrong", f"{name} is missing"
            have = found[name]
            if have.shape != want.shape or have.dtype != want.dtype:
                told = f"{have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}"
                return "wrong", f"{name} is {told}"
            if have.tobytes() == want.tobytes():
                continue
            wrong = self._wrong(name, have, want)
            if wrong is not None and wrong[0] == "wrong":
                return wrong
            weak = weak or wrong
        return weak

    def _wrong(self, name: str, have: Array, want: Array) -> tuple[str, str] | None:
        found: tuple[str, str] | None = None
        for count in RUNS:
            found = self._beyond(name, have, want, count)
            if found is None:
                return None
        return found

    def _beyond(self, name: str, have: Array, want: Array, count: int) -> tuple[str, str] | None:
        """What differs by more than so many runs with noise."""
        mine, theirs = _wide(have), _wide(want)
        if not _far(mine, theirs, want, 0.0).any():
            return None
        near = [_wide(run[name]) for run in self.near(count) if run[name].shape == want.shape]
        if len(near) < count:
            return None
        runs = np.stack([theirs, *near])
        with np.errstate(all="ignore"):
            spread = np.abs(runs - theirs).max(0)
        # Where an element is finite in some runs only, or an integer that changes, all is possible.
        agree = (np.isfinite(runs) == np.isfinite(theirs)).all(0)
        if tolerance(dt.of_array(want)) is EXACT:
            agree &= spread == 0
        spread = np.where(np.isfinite(spread), spread, 0.0)
        far = _far(mine, theirs, want, SPREAD * spread) & agree
        if not far.any():
            return None
        both = far & np.isfinite(mine) & np.isfinite(theirs)
        at = np.unravel_index(int((both if both.any() else far).argmax()), far.shape)
        what = (
            f"{name}{[int(i) for i in at]} is {have[at]}, not {want[at]}; {far.sum()} of {far.size}"
        )
        return ("wrong" if both.any() else "nan"), what


def _wide(x: Array) -> Array:
    if x.dtype.kind in "iub":
        exact = np.asarray(x).astype(np.int8 if x.dtype.kind == "b" else object)
        return exact.astype(np.longdouble)
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def _far(mine: Array, theirs: Array, want: Array, spread: Any) -> Array:
    """Where two arrays differ by more than the tolerance and the spread."""
    same = (mine == theirs) | ((mine != mine) & (theirs != theirs))
    bound = tolerance(dt.of_array(want))
    if bound is EXACT:
        return ~same
    with np.errstate(all="ignore"):
        limit = DRIFT * (bound.atol + bound.rtol * np.abs(theirs)) + spread
        near = np.isfinite(theirs) & (np.abs(mine - theirs) <= limit)
    return ~(same | near)


def drawn(port: Port) -> Array:
    """Numbers for an input that has none: a cotangent, or what a smaller program lacks."""
    assert isinstance(port.meta, TensorMeta)
    rng = np.random.default_rng([*port.name.encode()])
    shape = [3 if n < 0 else n for n in port.meta.shape]
    return np.asarray(rng.standard_normal(shape) * 2).astype(port.meta.dtype.np)

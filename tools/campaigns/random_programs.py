"""Random programs over the op table: chains, views, writes in place, branches and loops."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, Final, cast

import numpy as np

import pirkit
from pirkit.diag.errors import PirkitError, VerifyError
from pirkit.dialect.build import Value
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.opdef import RANDOM, OpDef, reference, samples
from pirkit.dialect.operation import PirOp, bodies, declares
from pirkit.dialect.retyped_storage import have_compatible_types, storage_of
from pirkit.dialect.types import meta_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from tests.ops.calls import Call, calls, is_gradient, sample_dtypes, table
from tests.prim.rule_checks import emitted
from tools.campaigns.hostile import specials
from tools.campaigns.rare_steps import blocked, rare
from tools.campaigns.tensor_lists import listed

Array = np.ndarray[Any, Any]

DTYPES: Final = (
    *(dt.float32,) * 6, *(dt.float64,) * 4, dt.float16, dt.float16, dt.bfloat16, dt.bfloat16,
    dt.int8, dt.uint8, dt.int16, dt.int32, dt.int64, dt.bool_, dt.complex64, dt.complex128,
)  # fmt: skip
UNARY: Final = (
    "exp tanh abs sin cos floor sigmoid relu sqrt log rsqrt square sign erf gelu silu softplus"
    " reciprocal log1p expm1 atan ceil round leaky_relu hardswish logsigmoid isnan isfinite"
    " logical_not bitwise_not real conj angle"
).split()
BINARY: Final = (
    "add subtract multiply divide maximum minimum remainder floor_divide elementwise_pow fmax fmin"
    " less_than equal greater_equal not_equal logical_and bitwise_xor bitwise_and atan2 heaviside"
).split()
SMOOTH: Final = "tanh square exp abs sin sigmoid".split()
SMOOTH_INPLACE: Final = "relu_ tanh_ exp_ abs_ square_ sigmoid_ scale_ sqrt_".split()
INPLACE: Final = [*SMOOTH_INPLACE, "floor_"]
INPLACE_BINARY: Final = "add_ subtract_ multiply_ divide_".split()
REDUCTIONS: Final = "sum mean max min prod any all amax amin logsumexp argmax argmin".split()
SCANS: Final = "cumsum cumprod softmax log_softmax".split()
SIZES: Final = (0, *(1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16, 17, 33))
WIDE: Final = (
    (33, 40), (17, 70), (40, 33), (33, 33), (64, 64), (5, 129), (129, 5), (2, 17, 40), (3, 5, 67),
    (2, 3, 18, 21), (1, 8, 17, 19), (1, 1000), (700, 3), (2300,), (20000,), (3, 4099),
)  # fmt: skip
"""Shapes beyond vectors, register tiles, unrolled rows, blocks, and parts of reductions."""
BLOCKS: Final = ((130, 17, 128), (256, 8, 65), (40, 33, 520), (513, 16, 33), (200, 96, 100))
"""Rows, depths and columns of matmuls whose results are large enough not to be stored whole."""
LENGTHS: Final = (2, 2, 3, 3, 4, 4, 5, 6, 8, 12)
"""Steps of a program. Most are few: what is wrong shows in few, and an hour has more of them."""
LARGEST: Final = 4096
"""Elements of a value that later steps may read; those of wide programs may have ten times more."""
LISTING: Final = 0.12
"""How many programs have arrays of tensors, and how many of the others have rare steps."""
RARE: Final = 0.12
BLOCKED: Final = 0.06
"""How many of the others have convolutions with filters that are parameters."""
HUGE: Final = 1 << 22
"""Elements that no value of a program exceeds: the oracle holds several runs at once."""
UNTOUCHED: Final = frozenset({"pd_op.empty", "pd_op.empty_like"})
"""Ops whose results are whatever the memory holds."""


class Redraw(Exception):
    """The step cannot be made here; another is drawn."""


@cache
def ops() -> tuple[OpDef, ...]:
    """The ops that are drawn, but for the gradient ops, which derivatives bring in."""
    known = [d for d in table() if samples.get(d) is not None and d.dialect == "pd_op"]
    known = [d for d in known if d.effects != RANDOM and d.name not in UNTOUCHED]
    known = [d for d in known if reference.get(d) is not None]
    return tuple([d for d in known if not is_gradient(d)])


@cache
def samples_of(definition: OpDef, dtype: DType) -> tuple[Call, ...]:
    return tuple(calls(definition, dtype))


class Maker:
    """Draws a program into a builder; ``plain`` ones neither write nor have parameters."""

    def __init__(self, seed: int, b: Any, plain: bool = False) -> None:
        self.random = random.Random(seed)
        self.draw = np.random.default_rng(seed)
        self.b: Any = b
        self.plain = plain
        self.arrays: dict[str, Array] = {}
        self.values: list[Value] = []
        self.extra: list[Value] = []
        self.depth = 0
        self.dtype = self.random.choice(DTYPES)
        self.hostile = self.random.random() < 0.35
        self.wide = self.random.random() < 0.25
        self.writing = self.random.random() < 0.25
        self.listing = random.Random(f"{seed} lists").random() < LISTING
        chance = random.Random(f"{seed} rare").random()
        self.rare = not self.listing and chance < RARE  # others are as they were before both
        self.blocked = not (plain or self.listing or self.rare)  # and before these
        self.blocked &= random.Random(f"{seed} blocked").random() < BLOCKED
        for _ in range(self.random.randint(1, 3)):
            self.keep(self.fresh(self.shape(), self.dtype))
        steps = self.random.choice(LENGTHS)
        tries = 0
        while steps and tries < 80:
            tries += 1
            steps -= self.step()

    def outputs(self) -> list[Value]:
        """Values that nothing reads, and one or two that something does."""
        unread = [v for v in self.values if not list(v.ssa.uses)]
        read = self.random.sample(self.values, min(2, len(self.values)))
        chosen = dict.fromkeys(v.ssa for v in (*unread[:5], *read, *self.extra[:3]))
        known = {v.ssa: v for v in (*self.values, *self.extra)}
        return [known[ssa] for ssa in chosen]

    # --- what steps read ---

    def shape(self) -> tuple[int, ...]:
        if self.wide:
            return self.random.choice(WIDE)
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        found = tuple(self.random.choice(SIZES) for _ in range(rank))
        return found if prod(found) <= 1024 else found[:2]

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        found: Array = self.draw.standard_normal(shape) * self.random.choice((1, 1, 3))
        if dtype.is_complex:
            found = found + 1j * self.draw.standard_normal(shape)
        if dtype is dt.bool_:
            return found > 0
        found = np.asarray(found if dtype.is_float or dtype.is_complex else found * 3)
        if dtype.is_integer and np.iinfo(dtype.np).min == 0:
            found = np.abs(found)
        found = np.asarray(found.astype(dtype.np))
        if self.hostile and found.size and self.random.random() < 0.5:
            places = self.draw.integers(0, found.size, max(1, found.size // 5))
            found.reshape(-1)[places] = self.draw.choice(specials(dtype), len(places))
        return found

    def fresh(self, shape: tuple[int, ...], dtype: DType) -> Value:
        return self.given(self.array(shape, dtype))

    def given(self, array: Array) -> Value:
        """A new input, or a parameter."""
        if self.depth:
            raise Redraw  # inputs stand outside of branches and loops
        is_parameter = not self.plain and self.random.random() < 0.2
        name = f"x{len(self.arrays)}"
        self.arrays[name] = np.array(array)
        if is_parameter:
            return self.b.parameter(name, self.arrays[name])
        return self.b.input(name, array.shape, dt.of_array(array).name)

    def keep(self, *values: Value | None) -> int:
        """Later steps may read these, unless they are large or of unknown size."""
        for value in values:
            if value is None or value.any_meta.__class__.__name__ != "TensorMeta":
                continue
            largest = LARGEST * (10 if self.wide else 1)
            known = all(n >= 0 for n in value.shape) and prod(value.shape) <= largest
            (self.values if known else self.extra).append(value)
        return 1

    def pick(self, keep: Callable[[Value], bool] = lambda v: True) -> Value:
        recent = self.values[-5:] if self.random.random() < 0.8 else self.values
        found = [v for v in recent if keep(v)] or [v for v in self.values if keep(v)]
        if not found:
            raise Redraw
        return self.random.choice(found)

    def ranked(self) -> Value:
        return self.pick(lambda v: v.rank > 0)

    def partner(self, x: Value) -> Value:
        """A value that broadcasts with ``x``, seldom of another element type."""
        others = [v for v in self.values if _broadcast(v.shape, x.shape)]
        if others and self.random.random() < 0.1:
            return self.random.choice(others)
        same = [v for v in self.values if v.dtype is x.dtype and _broadcast(v.shape, x.shape)]
        if self.depth or (same and self.random.random() < 0.7):
            return self.random.choice(same or [x])
        tail = x.shape[self.random.randint(0, x.rank) :]
        return self.fresh(tuple(self.random.choice((1, n, n)) for n in tail), x.dtype)

    def axes(self, x: Value) -> tuple[int, ...]:
        chosen = self.random.sample(range(x.rank), self.random.randint(1, x.rank))
        return tuple(a - x.rank if self.random.random() < 0.3 else a for a in chosen)

    # --- steps ---

    def step(self) -> int:
        """One more step; 0 if it could not be made."""
        steps = {**STEPS, **WIDE_STEPS} if self.wide else STEPS
        steps = {**steps, **WRITING_STEPS} if self.writing else steps
        steps = {**steps, "list": 24} if self.listing else steps
        steps = {**steps, "rare": 24} if self.rare else steps
        steps = {**steps, "blocked": 48} if self.blocked else steps
        left_out = {
            *(_OUTSIDE if self.depth else ()),
            *(_NESTING if self.depth >= DEEPEST else ()),
            *(_IMPURE if self.plain else ()),
        }
        kinds = [k for k in steps if k not in left_out]
        weights = [steps[k] for k in kinds]
        (kind,) = self.random.choices(kinds, weights)
        try:
            found = getattr(self, f"_{kind}")()
        except (Redraw, PirkitError):
            return 0
        return self.keep(*found) if isinstance(found, tuple) else self.keep(found)

    def _unary(self) -> Any:
        return self.b(f"pd_op.{self.random.choice(UNARY)}", self.pick())

    def _binary(self) -> Any:
        x = self.pick()
        pair = [x, self.partner(x)]
        self.random.shuffle(pair)
        return self.b(f"pd_op.{self.random.choice(BINARY)}", *pair)

    def _scale(self) -> Any:
        word = {"scale": self.random.choice((0.5, 2.0, -1.0, 0.0, 1.0)), "bias": 1.0}
        return self.b("pd_op.scale", self.pick(), **word, bias_after_scale=self.flip())

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def _where(self) -> Any:
        x = self.pick()
        y = self.pick(lambda v: v.dtype is x.dtype and v.shape == x.shape)
        condition = self.pick(lambda v: v.dtype is dt.bool_ or v.shape == x.shape)
        if condition.dtype is not dt.bool_:
            condition = self.b("pd_op.greater_than", condition, self.b.zeros_like(condition))
        return self.b("pd_op.where", condition, x, y)

    def _cast(self) -> Any:
        return self.b("pd_op.cast", self.pick(), dtype=self.random.choice(DTYPES))

    def _reduce(self) -> Any:
        x, name = self.ranked(), self.random.choice(REDUCTIONS)
        if name.startswith("arg"):
            axis = self.random.randrange(-x.rank, x.rank)
            return self.b(f"pd_op.{name}", x, axis=axis, keepdims=self.flip(), flatten=False)
        axes = self.axes(x) if self.random.random() < 0.85 else ()
        if name == "prod":
            return self.b.prod(x, axis=axes, keepdim=self.flip(), reduce_all=not axes)
        return self.b(f"pd_op.{name}", x, axis=axes, keepdim=self.flip())

    def _scan(self) -> Any:
        x, name = self.ranked(), self.random.choice(SCANS)
        words: dict[str, Any] = {"dim" if name == "cumprod" else "axis": self.axes(x)[0]}
        if name.startswith("cum"):
            words |= {"exclusive": self.flip(), "reverse": self.flip()}
        return self.b(f"pd_op.{name}", x, **words)

    def _normalize(self) -> Any:
        x = self.ranked()
        axes = self.axes(x)
        e = self.b.exp(x - self.b("pd_op.max", x, axis=axes, keepdim=True))
        return e / self.b.sum(e, axes, keepdim=True)

    def _reshape(self) -> Any:
        x = self.pick()
        size, shape = prod(x.shape), list[int]()
        while size > 1 and len(shape) < 3:
            divisor = self.random.choice([d for d in range(1, size + 1) if size % d == 0])
            shape.append(divisor)
            size //= divisor
        if self.random.random() < 0.2 and size:
            return self.b.reshape(x, [-1, *shape])
        return self.b.reshape(x, [*shape, size])

    def _transpose(self) -> Any:
        x = self.ranked()
        return self.b("pd_op.transpose", x, perm=self.random.sample(range(x.rank), x.rank))

    def _slice(self) -> Any:
        x = self.pick(lambda v: 0 < v.rank and 0 not in v.shape)
        axes = sorted({a % x.rank for a in self.axes(x)})
        starts = [self.random.randrange(x.shape[a]) for a in axes]
        ends = [self.random.randint(s, x.shape[a]) for s, a in zip(starts, axes, strict=True)]
        if self.flip():
            return self.b("pd_op.slice", x, axes=axes, starts=starts, ends=ends)
        strides = [self.random.choice((1, 2, 3, -1, -2)) for _ in axes]
        pairs = [(s, e) if k > 0 else (e - 1, s - 1 - x.shape[a]) for s, e, k, a in
                 zip(starts, ends, strides, axes, strict=True)]  # fmt: skip
        words = {"axes": axes, "starts": [p[0] for p in pairs], "ends": [p[1] for p in pairs]}
        return self.b("pd_op.strided_slice", x, **words, strides=strides)

    def _rearrange(self) -> Any:
        x = self.ranked()
        axes = sorted({a % x.rank for a in self.axes(x)})
        match self.random.choice(("flip", "roll", "squeeze", "unsqueeze", "flatten", "tril")):
            case "flip":
                return self.b("pd_op.flip", x, axis=axes)
            case "roll":
                shifts = [self.random.randint(-5, 5) for _ in axes]
                return self.b("pd_op.roll", x, shifts=shifts, axis=axes)
            case "squeeze":
                return self.b("pd_op.squeeze", x, axis=axes)
            case "unsqueeze":
                return self.b("pd_op.unsqueeze", x, axis=[self.random.randint(0, x.rank)])
            case "flatten":
                return self.b("pd_op.flatten", x, start_axis=axes[0], stop_axis=axes[-1])
            case _:
                return self.b("pd_op.triu", x, diagonal=self.random.randint(-3, 3))

    def _spread(self) -> Any:
        x = self.pick(lambda v: prod(v.shape) <= 300 and v.rank < 4)
        match self.random.choice(("expand", "tile", "pad", "concat", "stack", "repeat")):
            case "expand":
                return self.b("pd_op.expand", x, shape=(self.random.randint(0, 3), *x.shape))
            case "tile":
                times = [self.random.randint(1, 3) for _ in x.shape] or [2]
                return self.b("pd_op.tile", x, repeat_times=times)
            case "pad":
                paddings = [self.random.randint(0, 2) for _ in range(2 * x.rank)]
                return self.b(
                    "pd_op.pad", x, paddings=paddings, pad_value=self.random.choice((0.0, 0.25))
                )
            case "repeat":
                return self.b(
                    "pd_op.repeat_interleave", x, repeats=2, axis=self.axes(x)[0] if x.rank else 0
                )
            case op:
                pieces = [x, *(self.pick(lambda v: v.dtype is x.dtype and v.shape == x.shape)
                               for _ in range(self.random.randint(1, 2)))]  # fmt: skip
                axis = self.random.randrange(x.rank) if x.rank else 0
                return self.b(f"pd_op.{op}", self.b.combine(pieces), axis=axis)

    def _parts(self) -> Any:
        if self.flip():  # elements of a list keep their own storage
            listed = [self.pick() for _ in range(self.random.randint(2, 3))]
            return tuple(self.b.split_vec(self.b.combine(listed)))[1:]
        x = self.ranked()
        axis = self.random.randrange(x.rank)
        found = self.b("pd_op.split_with_num", x, num=self.random.choice((2, 3)), axis=axis)
        return tuple(self.b.split_vec(found))

    def _gather(self) -> Any:
        x = self.pick(lambda v: v.rank > 0 and 0 not in v.shape)
        axis = self.random.randrange(x.rank)
        places = self.draw.integers(0, x.shape[axis], self.random.choice((0, 1, 3, 5)))
        index = self.given(places.astype(self.random.choice(("int32", "int64"))))
        if self.flip():
            return self.b("pd_op.gather", x, index, axis=axis)
        return self.b("pd_op.index_select", x, index, axis=axis)

    def _scatter(self) -> Any:
        x = self.pick(lambda v: v.rank > 0 and 0 not in v.shape)
        index = self.given(self.draw.integers(0, x.shape[0], 3))
        updates = self.fresh((3, *x.shape[1:]), x.dtype)
        return self.b("pd_op.scatter", x, index, updates, overwrite=False)

    def _matmul(self) -> Any:
        x = self.pick(lambda v: v.rank > 1)
        turned = self.flip()
        inner, outer = x.shape[-2 if turned else -1], self.random.choice(SIZES)
        known = [
            v for v in self.values if v.dtype is x.dtype and v.rank > 1 and v.shape[-2] == inner
        ]
        y = (
            self.random.choice(known)
            if known and self.flip()
            else self.fresh((inner, outer), x.dtype)
        )
        found = self.b("pd_op.matmul", x, y, transpose_x=turned)
        if self.flip():
            found = found + self.fresh(found.shape[-1:], x.dtype)
        return found

    def _rows(self) -> Any:
        """A matmul of views, and what runs with it block of rows by block of rows."""
        rows, depth, columns = self.random.choice(BLOCKS)
        dtype = self.random.choice((dt.float32, dt.float64))
        turned = self.flip(), self.flip()
        shapes = (rows, depth), (depth, columns)
        x, y = (
            self.viewed(s[::-1] if t else s, dtype) for s, t in zip(shapes, turned, strict=True)
        )
        found = self.b("pd_op.matmul", x, y, transpose_x=turned[0], transpose_y=turned[1])
        match self.random.choice(("add", "tanh", "softmax")):
            case "add":
                found = found + self.viewed((rows, columns), dtype)
            case "tanh":
                found = self.b.tanh(found)
            case _:
                found = self.b("pd_op.softmax", found, axis=-1)
        if self.flip():
            return found
        turn = self.flip()
        last = self.viewed((rows if turn else columns, 24), dtype)
        return self.b("pd_op.matmul", found, last, transpose_x=turn)

    def viewed(self, shape: tuple[int, ...], dtype: DType) -> Value:
        """A new value of a shape, by chance a view of an input of another one."""
        size = prod(shape)
        rows = self.random.choice([d for d in range(1, size + 1) if size % d == 0])
        if self.flip():
            return self.fresh(shape, dtype)
        return self.b.reshape(self.fresh((rows, size // rows), dtype), shape)

    def _window(self) -> Any:
        x = self.pick(lambda v: prod(v.shape) > 8)
        n = prod(x.shape)
        channels = self.random.choice([c for c in (1, 2, 3, 4, 8) if n % c == 0])
        height = self.random.choice([h for h in (1, 2, 3, 4, 5, 6) if n // channels % h == 0])
        image = self.b.reshape(x, (1, channels, height, n // channels // height))
        kernel = [min(self.random.randint(1, 3), s) for s in image.shape[2:]]
        words: dict[str, Any] = {
            "strides": [self.random.randint(1, 2) for _ in kernel],
            "paddings": [self.random.randint(0, k // 2) for k in kernel],
        }
        if self.flip():
            words |= {"kernel_size": kernel, "pooling_type": self.random.choice(("max", "avg"))}
            words |= {"ceil_mode": self.flip(), "exclusive": self.flip(), "adaptive": False}
            words |= {"data_format": "NCHW", "global_pooling": False}
            return self.b("pd_op.pool2d", image, **words, padding_algorithm="EXPLICIT")
        filters = self.fresh((self.random.choice((1, 2, 8, 9)), channels, *kernel), x.dtype)
        return self.b("pd_op.conv2d", image, filters, **words)

    def _table(self) -> Any:
        """Any op of the table, as one of its samples calls it, some of its tensors from here."""
        definition = self.random.choice(ops())
        dtypes = sample_dtypes(definition)
        known = [d for d in dtypes if d is self.dtype]
        dtype = known[0] if known and self.flip() else self.random.choice(dtypes or (dt.float32,))
        possible = samples_of(definition, dtype)
        if not possible:
            raise Redraw
        call = self.random.choice(possible)
        chance = 0.1 if definition.kind == "factorization" else 0.6
        arrays = [
            a for g in call.args for a in (g if isinstance(g, list) else [g]) if a is not None
        ]
        free = definition.kind == "elementwise"
        values = [
            self.fitting(np.asarray(a), chance if free or a.dtype.kind not in "iub" else 0)
            for a in arrays
        ]
        return tuple(emitted(call, self.b, values))

    def fitting(self, array: Array, chance: float) -> Value:
        """A value of the shape and element type of an array, made of known ones by chance."""
        if self.random.random() >= chance:
            return self.given(array)
        dtype, size = dt.of_array(array), array.size
        x = self.pick(lambda v: v.dtype is dtype and prod(v.shape) > 0)
        if x.shape == array.shape:
            return x
        flat = self.b.reshape(x, (-1,)) if x.rank != 1 else x
        have = prod(x.shape)
        if have < size:
            flat = self.b("pd_op.tile", flat, repeat_times=[-(-size // have)])
        if flat.shape != (size,):
            flat = self.b("pd_op.slice", flat, axes=[0], starts=[0], ends=[size])
        return self.b.reshape(flat, array.shape)

    def _inplace(self) -> Any:
        if self.random.random() < 0.2:
            x = self.pick(lambda v: not v.dtype.is_float)
            named = (
                "logical_not_" if x.dtype is dt.bool_ else self.random.choice(INPLACE_BINARY[:3])
            )
            pair = (x,) if x.dtype is dt.bool_ else (x, x)
            return self.b(f"pd_op.{named}", *pair)
        x = self.pick(lambda v: v.dtype.is_float)
        if self.flip():
            return self.b(f"pd_op.{self.random.choice(INPLACE)}", x)
        y = self.partner(x)
        if np.broadcast_shapes(x.shape, y.shape) != x.shape or x.dtype is not y.dtype:
            raise Redraw
        return self.b(f"pd_op.{self.random.choice(INPLACE_BINARY)}", x, y)

    def _alias(self) -> Any:
        return self.b(f"pd_op.{self.random.choice(('share_data', 'assign'))}", self.pick())

    def _again(self) -> Any:
        """An op again, with the same operands and attributes."""
        x = self.pick(lambda v: isinstance(v.ssa.owner, PirOp) and bool(v.ssa.owner.operands))
        op = cast(PirOp, x.ssa.owner)
        b = self.b.innermost
        if bodies(op) or op.definition.writes or op.parent is not b.block:
            raise Redraw
        return b.results(b.insert(op.clone()))

    def _fan(self) -> Any:
        """A value that several ops read: as it is, turned, and reduced along other axes."""
        x = self.pick(lambda v: v.rank > 1 and v.dtype.is_float)
        e = self.b(f"pd_op.{self.random.choice(('tanh', 'sigmoid', 'exp', 'abs', 'sin'))}", x)
        first, last = self.random.sample(range(x.rank), 2)
        rows = self.b("pd_op.sum", e, axis=[last], keepdim=True)
        most = self.b("pd_op.max", e, axis=[first], keepdim=True)
        perm = [*range(x.rank)]
        perm[first], perm[last] = last, first
        turned = self.b("pd_op.transpose", e, perm=perm)
        found = [e / rows, e - most, turned, rows, most]
        found += [e + turned] if e.shape == turned.shape else []
        return tuple(self.random.sample(found, self.random.randint(2, len(found))))

    def _rewrite(self) -> Any:
        """A value is read, overwritten, and read again in the same way."""
        x = self.pick(lambda v: v.dtype.is_float)
        name = f"pd_op.{self.random.choice(SMOOTH)}"
        before = self.b(name, x)
        target = self._alias() if self.flip() else x
        if target.shape != x.shape or target.dtype is not x.dtype:
            target = x
        y = self.pick(lambda v: v.dtype is x.dtype and v.shape == x.shape)
        written = self.b(f"pd_op.{self.random.choice(INPLACE_BINARY)}", target, y)
        return before, written, self.b(name, self.random.choice((x, target, written)))

    def view(self, x: Value) -> Value:
        """The same memory under another name, in another shape by chance; seldom a copy."""
        made_here = not self.plain and self.is_made_here(x)
        words = ("name", "name", "name", "reshape", "unsqueeze", "flatten", "turn", "copy")
        match self.random.choice(words):
            case "reshape" if made_here:
                return self.turned(self.b("pd_op.reshape_", x, shape=(prod(x.shape),)))
            case "unsqueeze" if x.rank < 5 and made_here:
                axis = [self.random.randint(0, x.rank)]
                return self.turned(self.b("pd_op.unsqueeze_", x, axis=axis))
            case "flatten" if x.rank > 1 and made_here:
                return self.turned(self.b("pd_op.flatten_", x, start_axis=0, stop_axis=1))
            case "turn" if x.rank > 1 and made_here:
                perm = self.random.sample(range(x.rank), x.rank)
                return self.turned(self.b("pd_op.transpose_", x, perm=perm))
            case "copy" if x.rank > 1:
                return self.b.transpose(x, perm=self.random.sample(range(x.rank), x.rank))
            case _:
                return self.b("pd_op.share_data", x)

    def is_made_here(self, x: Value) -> bool:
        """True if a write may give it another type: inside of a branch or loop, if made there."""
        owner = storage_of(x.ssa)[0].owner
        is_here = isinstance(owner, PirOp) and owner.parent is self.b.innermost.block
        return is_here and not (self.depth and declares(owner, SOURCE))

    def turned(self, made: Value) -> Value:
        """What a write gives another type, which nothing may read under its older names."""
        self.values = [v for v in self.values if not is_retyped(v, made)]
        self.extra = [v for v in self.extra if not is_retyped(v, made)]
        return made

    def _views(self) -> Any:
        """A view of a view is overwritten, and what lies below is read, or all of it again."""
        x = self.pick(lambda v: v.dtype.is_float)
        base = self.b(f"pd_op.{self.random.choice(SMOOTH)}", x) if self.flip() else x
        chain = [base]
        for _ in range(self.random.randint(1, 3)):
            chain.append(self.view(chain[-1]))
        written = self.b(f"pd_op.{self.random.choice(SMOOTH_INPLACE)}", chain[-1])
        names = [v for v in chain if not is_retyped(v, written)]
        read = self.b(f"pd_op.{self.random.choice(SMOOTH)}", self.random.choice(names))
        return (read, written) if self.flip() else read

    def _outlives(self) -> Any:
        """A view is read after the last read of the value below, whose memory is free by then."""
        x = self.pick(lambda v: v.dtype.is_float)
        names = [f"pd_op.{self.random.choice(SMOOTH)}" for _ in range(4)]
        made = self.b(names[0], x)
        view = self.view(self.view(made) if self.flip() else made)
        of = view if is_retyped(made, view) else made
        later = self.b(names[2], self.b(names[1], of))
        return later, view if self.flip() else self.b(names[3], view)

    def _carried(self) -> Any:
        """A loop ends with what it began with, or a view of that; both are read afterwards."""
        x = self.pick(lambda v: v.dtype.is_float)
        name = f"pd_op.{self.random.choice(SMOOTH)}"
        first = self.b(f"pd_op.{self.random.choice(SMOOTH)}", x)
        turns, kept = self.random.randint(0, 3), self.random.randrange(3)

        def turn(i: Any, state: Value) -> Value:
            return (
                self.b(name, state)
                if kept == 0
                else state
                if kept == 1
                else self.b("pd_op.share_data", state)
            )

        last = pirkit.fori_loop(0, turns, turn, first)
        later = self.b(name, last)
        return (later, self.b(name, first)) if self.flip() else (self.b(name, first), later)

    def _list(self) -> Any:
        return listed(self)

    def _rare(self) -> Any:
        return rare(self)

    def _blocked(self) -> Any:
        return blocked(self)

    def _cond(self) -> Any:
        condition = self._truth()
        x = self.pick()
        y = self.pick(lambda v: v.dtype is x.dtype and v.shape == x.shape)
        return pirkit.cond(condition, self._body(x, y), self._body(x, y), x, y)

    def _while(self) -> Any:
        x = self.pick(lambda v: v.dtype.is_float)
        turns = self.random.randint(0, 3)
        return pirkit.fori_loop(0, turns, lambda i, s: self._body(x, x)(s, s), x)

    def _turns(self) -> Any:
        """A loop whose state is two values, and whose turns depend on a third."""
        x, y = self.pick(lambda v: v.dtype.is_float), self.pick()
        positive = self.b("pd_op.cast", self._truth(), dtype="int64")
        turns = self.b("pd_op.sum", positive * self.random.randint(1, 3), axis=())
        first = self.b("pd_op.full", shape=(), value=0.0, dtype="int64")

        def turn(state: Any) -> Any:
            i, x, y = state
            return i + 1, self._body(x, x)(x, x), self._body(y, y)(y, y)

        return pirkit.while_loop(lambda s: s[0] < turns, turn, (first, x, y))[1:]

    def _truth(self) -> Value:
        x = self.pick(lambda v: 0 < prod(v.shape))
        one = self.b.reshape(x, (-1,))
        one = self.b("pd_op.slice", one, axes=[0], starts=[0], ends=[1])
        return self.b("pd_op.greater_than", one, self.b.zeros_like(one))

    def _body(self, x: Value, y: Value) -> Callable[..., Any]:
        """A function that maps two values of a type to one of this type."""

        def body(x: Value, y: Value) -> Value:
            outside, self.values = (self.values, self.extra), [*self.values[-3:], x, y]
            self.extra = []
            self.depth += 1
            try:
                for _ in range(self.random.randrange(4)):
                    self.step()
                alike = [v for v in self.values if v.dtype is x.dtype and v.shape == x.shape]
                return self.random.choice([*alike[-3:], x])
            finally:
                self.values, self.extra = outside
                self.depth -= 1

        return body


STEPS: Final = {
    "unary": 5, "binary": 7, "scale": 2, "where": 2, "cast": 2, "reduce": 4, "scan": 1,
    "normalize": 1, "reshape": 2, "transpose": 3, "slice": 3, "rearrange": 3, "spread": 3,
    "parts": 1, "gather": 2, "scatter": 1, "matmul": 3, "window": 2, "table": 9, "inplace": 4,
    "alias": 1, "cond": 1, "while": 1, "again": 2, "fan": 1, "rewrite": 2,
    "views": 2, "outlives": 2, "carried": 1, "turns": 1,
}  # fmt: skip
"""Each kind of step, and how often it is drawn."""
WIDE_STEPS: Final = {
    "unary": 8, "binary": 12, "reduce": 8, "normalize": 3, "transpose": 8, "rearrange": 5, "fan": 8,
    "matmul": 4, "rows": 3, "table": 1, "while": 0, "cond": 0, "turns": 0,
}  # fmt: skip
"""How often steps of wide programs are drawn that differ."""
WRITING_STEPS: Final = {
    "inplace": 12, "alias": 6, "rewrite": 12, "views": 12, "outlives": 6, "carried": 4, "table": 3,
}  # fmt: skip
"""The same of programs that overwrite much of what others read."""
_OUTSIDE: Final = frozenset(
    {"table", "gather", "scatter", "matmul", "rows", "window", "rare", "blocked"}
)
"""Steps that are made outside of branches and loops only: they need inputs."""
_NESTING: Final = frozenset({"cond", "while", "carried", "turns"})
DEEPEST: Final = 2
"""How many branches and loops stand in one another."""
_IMPURE: Final = frozenset({"inplace", "rewrite", "views"})


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(one[::-1], other[::-1], strict=False))


def is_retyped(value: Value, made: Value) -> bool:
    """True for a name that a tensor has outgrown: a write has given it the type of ``made``."""
    return storage_of(value.ssa) == storage_of(made.ssa) and not have_compatible_types(
        value.ssa, made.ssa
    )


def made(seed: int, plain: bool = False) -> tuple[Any, dict[str, Array]]:
    """The program of a seed and its inputs; it writes in place unless it is ``plain``."""
    b = pirkit.ProgramBuilder()
    maker = Maker(seed, b, plain)
    for k, value in enumerate(maker.outputs()):
        b.output(f"y{k}", value)
    try:
        program = b.finish()
    except VerifyError:  # what is drawn may break a rule of writing in place
        return made(seed + 1, plain)
    metas = [meta_of(r.type) for op in program.module.walk() for r in op.results]
    if any(isinstance(m, TensorMeta) and prod(m.shape) > HUGE for m in metas):
        return made(seed + 1, plain)
    return program, {n: a for n, a in maker.arrays.items() if n not in program.params}

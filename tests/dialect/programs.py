"""Programs for tests: one of every op, and random ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st
from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, SSAValue

from pirkit.dialect.attrs import encode
from pirkit.dialect.opdef import OpDef, samples
from pirkit.dialect.operation import PirOp, ProgramOp, create, make
from pirkit.dialect.text import print_mlir
from pirkit.dialect.types import type_of
from pirkit.runtime import dtype as dt
from pirkit.runtime import meta as metas
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import Place
from tests.ops.calls import Call, Value, calls, sample_dtypes, table


@cache
def sampled() -> list[OpDef]:
    """The ops of the table that have samples."""
    return [d for d in table() if samples.get(d) is not None and sample_dtypes(d)]


@cache
def calls_of(definition: OpDef) -> list[Call]:
    return list(calls(definition, sample_dtypes(definition)[0]))


class Builder:
    """Appends operations to one program."""

    def __init__(self) -> None:
        self.program = ProgramOp.build("main")
        self.inputs = 0

    @property
    def module(self) -> mlir.ModuleOp:
        return mlir.ModuleOp([self.program])

    def add(self, op: PirOp) -> PirOp:
        self.program.block.add_op(op)
        return op

    def data(self, meta: TensorMeta) -> SSAValue:
        """A new input."""
        properties = {
            "name": encode("str", f"x{self.inputs}"),
            "shape": encode("intarray", meta.shape),
            "dtype": encode("dtype", meta.dtype),
            "place": encode("place", Place("undefined")),
        }
        self.inputs += 1
        return self.add(create("pd_op.data", [], [type_of(meta)], properties)).results[0]

    def value(self, value: Value) -> SSAValue | None:
        """An input, or a list of inputs, of the type of an array or of a list of arrays."""
        if value is None:
            return None
        if isinstance(value, list):
            items = [self.value(v) for v in value]
            return self.add(make("pir.combine", items)).results[0]
        meta = metas.of_value(value)
        assert isinstance(meta, TensorMeta)
        return self.data(meta)

    def call(self, call: Call, attributes: dict[str, Attribute] | None = None) -> PirOp:
        """A call with all its attributes held as attributes."""
        tensors = iter([self.value(v) for v in call.args])
        slots = call.definition.operands
        operands = [None if o.kind is not None else next(tensors, None) for o in slots]
        return self.add(
            make(call.definition, [*operands, *tensors], call.attrs, attributes=attributes)
        )


# --- random programs -----------------------------------------------------------------------------

NAMES: Final = st.text("abcXYZ012_.", max_size=6)
STRINGS: Final = st.text(max_size=20)
PADDLE_STRINGS: Final = st.text(
    st.characters(exclude_categories=["Cs", "Cf", "Cc"], exclude_characters="\\"), max_size=20
)
"""A backslash in front of a quote cannot be told from an escape in Paddle's text."""


def attributes(strings: st.SearchStrategy[str]) -> st.SearchStrategy[Attribute]:
    """Attributes of every kind, and lists of them."""
    by_kind: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "i32": st.integers(-(1 << 31), (1 << 31) - 1),
        "i64": st.integers(-(1 << 63), (1 << 63) - 1),
        "f32": st.floats(width=32),
        "f64": st.floats(),
        "str": strings,
        "dtype": st.sampled_from([*dt.BY_NAME.values(), None]),
        "place": st.builds(Place, st.sampled_from(["cpu", "gpu", "undefined"]), st.integers(0, 9)),
        "layout": st.sampled_from(["NCHW", "NHWC", "Undefined(AnyLayout)"]),
        "scalar": st.complex_numbers(allow_nan=False),
    }
    for kind in ("bool", "i32", "i64", "f32", "f64", "str"):
        by_kind[f"{kind}[]"] = st.lists(by_kind[kind], max_size=4)
    plain = st.one_of(
        [values.map(lambda v, kind=kind: encode(kind, v)) for kind, values in by_kind.items()]
    )
    return st.recursive(plain, lambda a: st.lists(a, max_size=3).map(mlir.ArrayAttr), max_leaves=5)


@dataclass(frozen=True, repr=False)
class RandomProgram:
    """A module that hypothesis can show."""

    module: mlir.ModuleOp

    def __repr__(self) -> str:
        return print_mlir(self.module)


@st.composite
def programs(
    draw: st.DrawFn, names: st.SearchStrategy[str], strings: st.SearchStrategy[str]
) -> RandomProgram:
    """Some calls of ops of the table, each with undeclared attributes of any kind."""
    builder = Builder()
    for index in draw(st.lists(st.integers(0, len(sampled()) - 1), min_size=1, max_size=3)):
        possible = calls_of(sampled()[index])
        if possible:
            extra = draw(st.dictionaries(names, attributes(strings), max_size=2))
            call = possible[draw(st.integers(0, len(possible) - 1))]
            builder.call(call, {f"extra.{name}": value for name, value in extra.items()})
    return RandomProgram(builder.module)

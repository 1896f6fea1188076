"""An op of a plug-in is treated by its record, as one of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pirkit.dialect.kinds import KINDS, TRAITS
from pirkit.dialect.opdef import OpDef, all_ops

SCRIPT = """
import numpy as np
import pirkit
from pirkit.dialect.opdef import decompose, lookup, op
from pirkit.frontend.tracing import trace

lookup("pd_op.tanh")


@op
class Softsign2:
    "`x / (1 + abs(x))`, declared outside of pirkit."

    name = "mine.softsign2"
    signature = "x -> out"
    kind = "elementwise"


@decompose(Softsign2)
def _(c):
    return c.x / (c.b.abs(c.x) + 1)


def function(name):
    return lambda x: x.b.call(lookup(name), (x,), {})


def fourth(f):
    for _ in range(4):
        f = (lambda g: pirkit.grad(lambda x: g(x).sum()))(f)
    return f


elements = np.linspace(0.1, 1, 24).astype(np.float32)
counts = set()
for x in (elements, elements.reshape(8, 3), elements.reshape(2, 3, 4)):
    values = []
    for name in ("pd_op.softsign", "mine.softsign2"):
        traced = trace(fourth(function(name)), (x,)).program
        simplified = pirkit.run_passes(traced, "taylor,expand-gradients,@simplify")
        counts.add(len(list(simplified.entry(None).operations)))
        values.append(fourth(function(name))(x))
    np.testing.assert_array_equal(*map(np.asarray, values))
assert len(counts) == 1 and max(counts) <= 26, counts

both = trace(lambda x: pirkit.ops.exp(function("mine.softsign2")(x)) + 1, (x,)).program
fused = pirkit.run_passes(both, "@default").entry(None).operations
assert [o.name for o in fused] == ["pd_op.data", "pir.map_expr", "pir.shadow_output"], fused
"""


def test_an_elementwise_op_of_a_plug_in_has_a_series_and_is_fused() -> None:
    made = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


REFUSALS = """
import numpy as np
import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.dialect.opdef import decompose, op
from pirkit.runtime import dtype as dt


@op
class Square:
    name = "mine.square"
    signature = "x -> out"
    kind = "elementwise"
    dtypes = dt.FLOATS


decompose(Square)(lambda c: c.x * c.x)
LINE = '%y = mine.{} (%x) : (tensor<2x{}>) -> tensor<2x{}>'


def code(name, kind):
    text = 'pir.program @main(%x "x" : tensor<2xKIND>) {' + LINE.replace("{}", "NAME", 1) + "}"
    text = text.replace("{}", "KIND").replace("NAME", name).replace("KIND", kind)
    try:
        pirkit.loads(text)
    except PirkitError as error:
        return error.code, error.help
    return None, None


assert code("square", "f32") == (None, None)
assert code("square", "i64")[0] == "PK0203"
assert code("sqare", "f32") == ("PK0401", "did you mean `mine.square`?")
try:

    @op
    class Wrong:
        name = "mine.wrong"
        signature = "x -> out"
        dtype = dt.FLOATS

except ValueError as error:
    assert str(error) == "an op has no field `dtype`: did you mean `dtypes`?", error
else:
    raise AssertionError("an unknown field was accepted")
"""


def test_wrong_uses_of_an_op_of_a_plug_in_are_refused() -> None:
    done = subprocess.run([sys.executable, "-c", REFUSALS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("definition", list(all_ops()), ids=lambda d: d.name)
def test_a_record_states_known_facts(definition: OpDef) -> None:
    assert definition.kind in KINDS
    assert definition.traits <= TRAITS.keys()
    assert definition.kind or definition.family.startswith(("gradients", "matmul_gradients"))

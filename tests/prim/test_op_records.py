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


@pytest.mark.parametrize("definition", list(all_ops()), ids=lambda d: d.name)
def test_a_record_states_known_facts(definition: OpDef) -> None:
    assert definition.kind in KINDS
    assert definition.traits <= TRAITS.keys()
    assert definition.kind or definition.family.startswith(("gradients", "matmul_gradients"))

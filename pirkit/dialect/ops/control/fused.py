"""The op that represents a fused kernel in a program."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.map_expr.interpreter import run_known
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.map_expr.kernel_text import known_kernel
from pirkit.dialect.map_expr.specialize import results_at
from pirkit.dialect.map_expr.verify_kernel import kernel_at, problem_of
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.operation import BASES
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.index.extent import is_sized
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, compatible

KIND = "structure"

_SAMPLE = """
kernel fn_exp_0_sum_1 rows [2]
input float32[2, 3]
op o0 = pd_op.exp(x0, {}, float32[2, 3])
op o1 = pd_op.sum(o0, {'axis': (1, ), 'dtype': None, 'keepdim': False}, float32[2])
value float32[2] of o1 stage 0 rows [i0] reduce pd_op.sum [3] {'dtype': None}
  t0 = pd_op.exp(x0[i0, r0], {}, float32)
  give t0
output v0
"""


@op
class MapExpr:
    """Several ops as one kernel: the pass `fuse` makes it.

    `kernel` is the text of a MapExpr, derived from the region: for each stored value its space, its
    scalar ops and, for every element that is read, the solved index. See `docs/fusion.md`.

    C1: `kernel` is the text of a kernel.
    C2: the operands have the shapes and element types that the kernel states.
    sizes: the shapes agree where the kernel gives their sizes one name.
    C3: the kernel reads inside of its tensors, values that are stored before, in the order of its
    loop phases and iterations, and each index follows from the ops that the kernel stands for.
    """

    name = "pir.map_expr"
    signature = "*inputs ; kernel: str -> *outs"
    dtypes = (dt.float32,)  # those of samples: a kernel states its own


BASES[MapExpr.name] = KernelOp


@infer_meta(MapExpr)
def _(*inputs: TensorMeta, kernel: str) -> tuple[TensorMeta, ...]:
    parsed = known_kernel(kernel)
    dynamic = [m.with_shape(UNKNOWN if is_sized(n) else n for n in m.shape) for m in parsed.inputs]
    agree = len(inputs) == len(dynamic) and all(map(compatible, dynamic, inputs))
    declared = ", ".join(map(str, parsed.inputs))
    require(agree, "C2", f"the kernel reads ({declared}), not ({', '.join(map(str, inputs))})")
    wrong = problem_of(kernel)
    require(wrong is None, "C3", str(wrong))
    return results_at(parsed, [m.shape for m in inputs])


@reference(MapExpr)
def _run(*inputs: Array, kernel: str) -> tuple[Array, ...]:
    return tuple(run_known(kernel_at(kernel, tuple([a.shape for a in inputs])), inputs))


@samples(MapExpr)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array(np.ones((2, 3), np.float32)), kernel=_SAMPLE)


@bad_samples(MapExpr)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.array(np.ones((2, 3), np.float32)), kernel="kernel of nothing")
    outside = _SAMPLE.replace("x0[i0, r0]", "x0[i0, r0 + 1]")
    yield "C3", s(s.array(np.ones((2, 3), np.float32)), kernel=outside)
    other = _SAMPLE.replace("t0 = pd_op.exp", "t0 = pd_op.sin")
    yield "C3", s(s.array(np.ones((2, 3), np.float32)), kernel=other)
    yield "C2", s(s.array(np.ones((2, 4), np.float32)), kernel=_SAMPLE)

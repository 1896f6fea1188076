"""The op `torch.call`: an overload of ATen, or a derivative of one, computed by torch.

It stands for what pirkit has no rule for. Its derivative of any order is torch's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.dialect.map_expr.call import OPAQUE
from pirkit.dialect.map_expr.tree import Opaque
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples, vjp
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.meta import TensorMeta, VecMeta
from pirkit.runtime.registry import KERNELS
from pirkit.torch.element_types import array_of, tensor_of
from pirkit.torch.libtorch import listed, torch

KIND = "structure"
NAME = "torch.call"

Array = np.ndarray[Any, Any]


@op
class Call:
    """An overload of ATen, or with `order` n its n-th pullback, computed by torch.

    `target` names the overload, `arguments` holds its arguments as JSON: tensors, and numbers that
    depend on data, by their place among the operands. `results` are shapes and element types of the
    results. A pullback takes the operands of the order below, then a cotangent for each of its
    floating results, and gives one for each of its floating operands. `count` is the number of
    operands of order 0.

    C1: `target` is an overload of torch.
    C2: the operands are as many as the order needs.
    """

    name = NAME
    signature = (
        "inputs[] ; target: str, arguments: str, results: str, count: i32, order: i32 = 0 -> outs[]"
    )
    dtypes = dt.ALL


OPAQUE[NAME] = Opaque("torch computes it")


def overload(target: str) -> Any:
    """The overload that a name such as ``aten.add.Tensor`` stands for."""
    found: Any = torch.ops
    for part in target.split("."):
        found = getattr(found, part)
    return found


def _floats(metas: Sequence[TensorMeta]) -> list[int]:
    return [i for i, m in enumerate(metas) if m.dtype.is_float or m.dtype.is_complex]


def _declared(results: str) -> list[TensorMeta]:
    return [TensorMeta(tuple(shape), dt.BY_NAME[name]) for shape, name in json.loads(results)]


def _sizes(metas: Sequence[TensorMeta], results: str, count: int, order: int) -> list[int]:
    """How many operands each of the orders 0 to ``order`` takes."""
    sizes = [count]
    for number in range(order):
        given = _floats(_declared(results)) if not number else _floats(metas[: sizes[-2]])
        sizes.append(sizes[-1] + len(given))
    return sizes


@infer_meta(Call)
def _(
    inputs: VecMeta, *, target: str, arguments: str, results: str, count: int, order: int = 0
) -> VecMeta:
    try:
        overload(target)
    except (AttributeError, RuntimeError):
        require(False, "C1", f"torch has no `{target}`")
    metas = inputs.items
    sizes = _sizes(metas, results, count, order)
    require(len(metas) == sizes[-1], "C2", f"{len(metas)} operands instead of {sizes[-1]}")
    if not order:
        return VecMeta(tuple(_declared(results)))
    return VecMeta(tuple([metas[i] for i in _floats(metas[: sizes[-2]])]))


def _decoded(given: Any, tensors: Sequence[Any]) -> Any:
    """An argument from the form that `aten_call` writes; tensors by their index."""
    if isinstance(given, list):
        return [_decoded(a, tensors) for a in cast("list[Any]", given)]
    if not isinstance(given, dict):
        return given
    ((kind, value),) = cast("dict[str, Any]", given).items()
    if kind in ("tensor", "number"):
        return tensors[value] if kind == "tensor" else tensors[value].item()
    number = {"float": float, "complex": complex}.get(kind)
    return getattr(torch, value) if number is None else number(value)


def _evaluate(
    function: Any, arguments: Any, sizes: list[int], order: int, tensors: list[Any], graph: bool
) -> list[Any]:
    """The results of an order; with ``graph`` they can be differentiated once more.

    Order n calls order n - 1 on tensors that require gradients, and torch's engine. Raises
    UnsupportedError (PK0409) if torch has no such derivative.
    """
    if not order:
        args, options = arguments
        found = function(*_decoded(args, tensors), **{
            k: _decoded(v, tensors) for k, v in options.items()
        })  # fmt: skip
        return [t for t in listed(found) if t is not None]  # None: a result not asked for
    given, seeds = tensors[: sizes[order - 1]], tensors[sizes[order - 1] :]
    with torch.enable_grad():
        fixed = _FIXED.setdefault(function, set())
        # torch says only by an error which arguments it does not differentiate by, one at a time.
        while True:
            left = {n for name, n in _operands(function, arguments) if name in fixed}
            held = [
                t if t.requires_grad or not _is_float(t) or k in left
                else t.detach().requires_grad_()
                for k, t in enumerate(given)
            ]  # fmt: skip
            try:
                below = _evaluate(function, arguments, sizes, order - 1, held, True)
            except RuntimeError as error:
                refused = _REFUSED.search(str(error))
                if refused is None or refused[1] in fixed:
                    raise
                fixed.add(refused[1])
                continue
            break
        pairs = [(y, s) for y, s in zip(filter(_is_float, below), seeds, strict=True)]
        # A cotangent of zeros stands for none: torch's formula may multiply it by infinity.
        live = [(y, s) for y, s in pairs if y.requires_grad and (s.requires_grad or s.any())]
        floats = [t for t in held if _is_float(t)]
        wanted = [t for t in floats if t.requires_grad]
        if not live or not wanted:
            return [torch.zeros_like(t) for t in floats]
        try:
            found = iter(torch.autograd.grad(
                [y for y, _ in live], wanted, [s for _, s in live],
                create_graph=graph, allow_unused=True, materialize_grads=True,
            ))  # fmt: skip
        except RuntimeError as error:
            raise UnsupportedError(
                f"torch has no derivative of `{function}` here: {error}", code="PK0409",
                help="write the function by ops that torch can differentiate so often",
            ) from error  # fmt: skip
        return [next(found) if t.requires_grad else torch.zeros_like(t) for t in floats]


_FIXED: Final[dict[Any, set[str]]] = {}
"""For each overload, the arguments that torch has refused to differentiate by."""
_REFUSED: Final = re.compile("is not differentiable with respect to argument '([^']+)'")


def _operands(function: Any, arguments: Any) -> Iterator[tuple[str, int]]:
    """Names of arguments that are tensors, and the indices of their operands."""
    args, options = arguments
    names = [a.name for a in function._schema.arguments]
    for name, given in [*zip(names, args, strict=False), *options.items()]:
        if isinstance(given, dict) and "tensor" in given:
            yield name, cast("dict[str, int]", given)["tensor"]


def _is_float(tensor: Any) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _step(attrs: Any, metas: Sequence[TensorMeta]) -> Callable[[Sequence[Array]], list[Array]]:
    """The function on arrays that an operation with these attributes and operands computes."""
    order = attrs["order"]
    sizes = _sizes(metas, attrs["results"], attrs["count"], order)
    function, arguments = overload(attrs["target"]), json.loads(attrs["arguments"])

    def computed(arrays: Sequence[Array]) -> list[Array]:
        with torch.no_grad():
            # Contiguous, so that an op that reads memory (`view` as another type) sees no other.
            tensors = [tensor_of(a).contiguous() for a in arrays]
            found = _evaluate(function, arguments, sizes, order, tensors, False)
            return [array_of(t.detach().contiguous()) for t in found]

    return computed


@reference(Call)
def _(inputs: list[Array], **attrs: Any) -> list[Array]:
    metas = [TensorMeta(a.shape, dt.BY_NUMPY[a.dtype]) for a in inputs]
    return _step({"order": 0, **attrs}, metas)(inputs)


@KERNELS.kernel(NAME, dtypes=dt.ALL, form="new")
def call(b: Binding) -> Step:
    """Operands are lent to torch by pointer; results lie in torch's memory."""
    return _step(b.attrs, b.items())


@vjp(Call)
def _(c: OpCall, seeds: list[Value | None]) -> tuple[list[Value | None]]:
    b, inputs = c.b, c.inputs
    given = [
        b.zeros_like(o) if s is None else s
        for o, s in zip(c.outs, seeds, strict=True)
        if o.dtype.is_float or o.dtype.is_complex
    ]
    found = iter(b.split_vec(b(
        NAME, [*inputs, *given], target=c.target, arguments=c.arguments, results=c.results,
        count=c.count, order=c.order + 1,
    )))  # fmt: skip
    return ([next(found) if x.dtype.is_float or x.dtype.is_complex else None for x in inputs],)


_SAMPLE = {
    "target": "aten.frac.default",
    "arguments": '[[{"tensor": 0}], {}]',
    "results": '[[[2, 3], "float32"]]',
    "count": 1,
}


@samples(Call)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3)], **_SAMPLE)


@bad_samples(Call)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(2, 3)], **{**_SAMPLE, "target": "aten.nothing.default"})
    yield "C2", s([s.tensor(2, 3), s.tensor(2)], **_SAMPLE)

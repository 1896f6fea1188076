"""What the campaign over torch's own samples has found, and a slice of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pirkit.torch  # noqa: E402
from pirkit.diag.errors import UnsupportedError  # noqa: E402
from tests.torch.comparing import same  # noqa: E402
from tools.campaigns.driver import SEVERE  # noqa: E402
from tools.campaigns.torch_ops import _ops, case, examine  # noqa: E402
from tools.torch_second_derivatives import main  # noqa: E402

NAN = float("nan")


@pytest.mark.parametrize("op", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_first_nan_is_the_extreme_element(op: str, dim: int) -> None:
    x = torch.tensor([[1.0, NAN, 0.0, 5.0], [3.0, 2.0, NAN, NAN], [4.0, 2.0, 7.0, 1.0]])
    found = torch.compile(lambda x: getattr(x, op)(dim), backend="pirkit")(x)
    torch.testing.assert_close(found, getattr(x, op)(dim), equal_nan=True)


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_an_activation_of_nan_is_nan(name: str) -> None:
    function = getattr(torch.nn.functional, name)
    x = torch.tensor([NAN, -4.0, -3.0, 0.5, 3.0, 4.0])
    found = torch.compile(function, backend="pirkit")(x)
    torch.testing.assert_close(found, function(x), equal_nan=True)


def test_zero_to_a_negative_integer_power() -> None:
    same(torch.pow, torch.tensor([0, 0, 2, 1, -1]), torch.tensor([-1, 0, 3, -2, -3]))


def test_a_call_of_torch_with_an_operand_that_has_no_derivative() -> None:
    same(torch.linalg.pinv, torch.randn(3, 4, dtype=torch.float64, requires_grad=True))


def test_a_gradient_that_is_a_cotangent() -> None:
    """An argument and a result of the backward have one name."""
    x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
    same(lambda x, y: x + y.sin() * y.exp(), x, y)


def _derivatives(function: Any, *args: Any) -> list[Any]:
    """The value, gradients of its sine and gradients of their squares."""
    wanted = [a for a in args if a.requires_grad]
    y = function(*args)
    weights = torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)
    first = torch.autograd.grad((y.sin() * weights).sum(), wanted, create_graph=True)
    seen = [y.detach(), *[g.detach() for g in first]]
    if any(g.requires_grad for g in first):
        seen += torch.autograd.grad(sum(g.square().sum() for g in first), wanted)
    return seen


def _same_derivatives(function: Any, *args: Any) -> list[Any]:
    found = _derivatives(torch.compile(function, backend="pirkit"), *args)
    torch.testing.assert_close(found, _derivatives(function, *args), rtol=1e-6, atol=1e-9)
    return found


@pytest.mark.parametrize(("strides", "start"), [((2, 1), 0), ((2, 1), 3), ((1, 3), 2)])
def test_the_gradient_of_a_scatter_by_strides(strides: tuple[int, int], start: int) -> None:
    """torch gives the cotangent of what is overwritten; a write through a view has none."""
    x, source = (torch.randn(n, n, dtype=torch.float64, requires_grad=True) for n in (3, 2))

    def written(x: Any, source: Any) -> Any:
        y = x.sin()
        y.as_strided((2, 2), (2, 1), start).mul_(source)
        return y

    _same_derivatives(lambda x, s: x.as_strided_scatter(s, (2, 2), strides, start), x, source)
    _same_derivatives(lambda x, s: torch.as_strided_scatter(x.sin(), s, (2, 2), strides, start),
                      x, source)  # fmt: skip
    _same_derivatives(written, x, source)


def test_unpooling_to_equal_places() -> None:
    places = torch.tensor([[1, 1], [3, 8]])
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    unpool = torch.nn.functional.max_unpool2d
    _same_derivatives(lambda x: unpool(x.sin(), places.expand(3, 2, 2), 2, output_size=(4, 3)), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("ends", [(1.9, 7.7, 50), (204, 8, 7), (3.5, 9.0, 1), (1, 5, 0)])
def test_integers_between_numbers(dtype: Any, ends: tuple[float, float, int]) -> None:
    first, last, count = ends
    same(lambda x: x + torch.linspace(first, last, count, dtype=dtype), torch.ones((), dtype=dtype))
    same(lambda x: torch.linspace(x, last, count, dtype=dtype), torch.tensor(first))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_second_gradient_of_a_soft_margin_where_a_square_overflows(dtype: Any) -> None:
    x = torch.tensor([-7.8, -6.5, 0.3, 6.8, -0.5, 9.0], dtype=dtype, requires_grad=True)
    y = torch.tensor([8.8, 9.0, -2.0, -8.6, 0.0, 7.0], dtype=dtype)
    _same_derivatives(
        lambda x: torch.nn.functional.soft_margin_loss(x, y, reduction="none"), x
    )  # fmt: skip


@pytest.mark.parametrize("name", ["sign", "sgn"])
def test_the_sign_of_nan(name: str) -> None:
    x = torch.tensor([NAN, -2.0, -0.0, 0.0, float("inf")])
    found = torch.compile(getattr(torch, name), backend="pirkit")(x)
    torch.testing.assert_close(found, getattr(torch, name)(x), rtol=0, atol=0)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_in_chunks(reduction: str) -> None:
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    loss = torch.nn.functional.linear_cross_entropy
    x, w = torch.randn(6, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    same(lambda x, w, t: loss(x, w, t, reduction=reduction, options=options),
         x, w, torch.randint(7, (6,)), fullgraph=False)  # fmt: skip


def test_a_derivative_that_torch_does_not_have() -> None:
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    loss = torch.nn.functional.linear_cross_entropy
    x, w = torch.randn(6, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    target = torch.randint(7, (6,))
    made = torch.compile(lambda x: loss(x, w, target, reduction="none", options=options),
                         backend="pirkit")  # fmt: skip
    (first,) = torch.autograd.grad(made(x).square().sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="torch has no derivative") as raised:
        first.square().sum().backward()
    assert raised.value.code == "PK0409"


@pytest.mark.parametrize("name", ["softplus", "prod", "logcumsumexp"])
def test_a_slice_of_the_campaign(name: str) -> None:
    number = next(k for k in range(4 * len(_ops(name))) if case(k, name)[1] is torch.float64)
    found: list[Any] = examine(0, number, name)
    assert not [f for f in found if f.kind in SEVERE]


def test_a_slice_of_the_second_derivatives(tmp_path: Path) -> None:
    names = ["erf", "var", "model bn"]
    main(tmp_path / "found", names)
    assert (tmp_path / "found").read_text().split("\n")[:-1] == [f"{n}|True" for n in names]


def _written(how: str, x: Any, index: Any, value: Any) -> Any:
    y = x.sin()
    if how == "setitem":
        y[index] = value
        return y
    if how == "setitem of columns":
        y[:, index % 3] = value.sum(1).reshape(1, -1)
        return y
    if how == "index_put":
        return y.index_put((index, index % 3), value[:, 0])
    if how == "index_copy":
        return y.index_copy(0, index, value)
    if how == "scatter":
        return y.scatter(0, index[:, None].expand(5, 3), value)
    return y.scatter_(1, torch.zeros(4, 2, dtype=torch.int64), value[:4, :2])


@pytest.mark.parametrize(
    "how", ["setitem", "setitem of columns", "index_put", "index_copy", "scatter", "scatter_"]
)
def test_writes_to_equal_places(how: str) -> None:
    """The last one stays; each gets the cotangent of the place, as torch's."""
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    value = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([1, 3, 1, 0, 1])
    _same_derivatives(lambda x, v: _written(how, x, index, v.exp()), x, value)


def test_the_gradient_of_an_absolute_value_at_nan() -> None:
    x = torch.tensor([NAN, -2.0, 0.0, 3.0], requires_grad=True)
    for function in (torch.abs, lambda x: torch.where(x.isnan(), 0.0, x.abs())):
        for made in (function, torch.compile(function, backend="pirkit")):
            found = torch.autograd.grad(made(x), x, torch.ones(4))[0]
            torch.testing.assert_close(found, torch.tensor([0.0, -1.0, 0.0, 1.0]))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_equal_extremes_share_a_gradient(reduce: str, include_self: bool) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    source = torch.tensor([[1.0, 2.0, 5.0], [1.0, 0.0, 5.0], [4.0, 2.0, -1.0]],
                          dtype=torch.float64, requires_grad=True)  # fmt: skip
    index = torch.tensor([[0, 0, 0], [0, 1, 0], [1, 0, 0]])

    def reduced(x: Any, s: Any) -> Any:
        return x.scatter_reduce(0, index, s * 1.0, reduce, include_self=include_self)

    _same_derivatives(reduced, x, source)


@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_at_places_are_native(include_self: bool) -> None:
    """Places that nothing is written to keep what they hold; NaN wins."""
    index = torch.tensor([0, 2, 2, 0])

    def reduced(x: Any, s: Any, n: Any) -> Any:
        rows = index[:, None].expand(4, 3)
        kept = {"include_self": include_self}
        return [
            *(x.scatter_reduce(0, rows, s, how, **kept) for how in ("sum", "mean", "amax", "prod")),
            *(x.index_reduce(0, index, s, how, **kept) for how in ("mean", "amin", "prod")),
            *(n.scatter_reduce(0, rows, n[:4], how, **kept) for how in ("sum", "amin", "prod")),
        ]

    x, source = torch.randn(5, 3), torch.randn(4, 3)
    source[1, 1], source[3, 2] = NAN, -math.inf
    numbers = torch.arange(15).reshape(5, 3) - 7
    found = torch.compile(reduced, backend="pirkit")(x, source, numbers)
    torch.testing.assert_close(found, reduced(x, source, numbers), equal_nan=True)
    assert "0 library calls, torch computes 0" in str(
        pirkit.torch.explain(reduced, x, source, numbers)
    )


@pytest.mark.parametrize("function", [torch.linalg.svdvals, torch.linalg.eigvalsh])
def test_equal_values_of_several_matrices_have_gradients(function: Any) -> None:
    same(function, torch.eye(3, dtype=torch.float64).repeat(3, 1, 1).requires_grad_())


@pytest.mark.parametrize("count", [4, 30])
def test_the_distance_to_itself_has_no_gradient(count: int) -> None:
    """torch computes distances of more than 25 points by a product of matrices."""
    x = torch.randint(-3, 4, (count, 3)).double().requires_grad_()
    same(lambda x: torch.cdist(x, x * 1.0), x)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_whole_rows_are_added(reduce: str, include_self: bool) -> None:
    """An index that is expanded along the last dimensions is read once for each row."""
    wide = torch.float64
    x, source = (torch.randn(*s, dtype=wide, requires_grad=True) for s in ((5, 4, 9), (3, 6, 9)))
    index = torch.tensor([0, 2, 2, 3, 0, 2])

    def first(x: Any, s: Any, at: Any) -> Any:
        at = at[:, None, None].expand(6, 4, 9)
        s = (s * s).mT.reshape(6, 3, 9)[:, :1].expand(6, 4, 9)
        return x.sin().scatter_reduce(0, at, s, reduce, include_self=include_self)

    def second(x: Any, s: Any, at: Any) -> Any:
        at = at[None, :, None].expand(3, 6, 9)
        return x.sin().scatter_reduce(1, at, s * s, reduce, include_self=include_self)

    for function, given in ((first, x), (second, x[:3])):
        args = (given.detach().requires_grad_(), source, index)
        assert "put_along_axis" not in str(pirkit.torch.export(function, args))
        _same_derivatives(function, *args)


@pytest.mark.parametrize("include_self", [True, False])
def test_derivatives_of_products_at_places(include_self: bool) -> None:
    """A place has no zero, the old element, one written element, or two of them as zero."""
    x = torch.tensor([1.5, 2.0, 0.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    source = torch.tensor([0.7, 1.2, 0.0, 1.1, 0.4, 0.0, 0.0], dtype=torch.float64)
    index = torch.tensor([0, 0, 1, 1, 2, 3, 3])

    def reduced(x: Any, s: Any) -> Any:
        return x.scatter_reduce(0, index[: len(s)], s * 1.0, "prod", include_self=include_self)

    _same_derivatives(reduced, x, source[:5].requires_grad_())
    same(reduced, x, source.requires_grad_())


@pytest.mark.parametrize("initial", [None, 0.25])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_segments_are_native(reduce: str, initial: float | None) -> None:
    """An empty segment has the neutral element; rows outside of all segments do not count."""
    x = torch.randn(7, 2, requires_grad=True)
    lengths, offsets = torch.tensor([3, 0, 4]), torch.tensor([1, 3, 3, 6])

    def reduced(x: Any, n: Any, at: Any) -> Any:
        found = [torch.segment_reduce(x, reduce, lengths=n, initial=initial)]
        found.append(torch.segment_reduce(x, reduce, offsets=at, initial=initial, unsafe=True))
        return [torch.where(y.isfinite(), y, 9.0) for y in found]

    same(reduced, x, lengths, offsets, options={"strict": True})


@pytest.mark.parametrize(
    ("kernel", "options"),
    [(3, {"stride": 1, "padding": 1, "dilation": 2}), ((2, 3), {"stride": 2, "dilation": 3}),
     (3, {"stride": 2, "padding": 1, "dilation": (3, 2), "ceil_mode": True})],
)  # fmt: skip
def test_dilated_pooling_is_native(kernel: Any, options: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 11, 12)
    x[0, 0, 5, 5], x[0, 1], x[1, 1] = 99.0, -math.inf, 1.0
    x.requires_grad_()

    def pooled(x: Any) -> Any:
        x = torch.where(x > 98.0, NAN, x)
        found, at = torch.nn.functional.max_pool2d(x, kernel, return_indices=True, **options)
        return found.nan_to_num(5.0, 6.0, 7.0), at

    same(pooled, x, options={"strict": True})


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_pooling_one_element_into_several(kind: str) -> None:
    pool = getattr(torch.nn.functional, f"adaptive_{kind}_pool2d")
    same(lambda x: pool(x, (3, 2)), torch.randn(2, 3, 1, 1, requires_grad=True))


def test_cotangents_of_dead_elements() -> None:
    """A choice drops them, also NaN: the root of a ReLU at 0; `fmax` gives them to one operand."""

    def function(x: Any) -> Any:
        return x.relu().sqrt(), torch.nn.functional.relu6(x).sqrt(), torch.fmax(x, x * 0.5)

    x = torch.tensor([-1.0, 0.0, 4.0, NAN, 7.0], requires_grad=True)
    expected, found = (
        torch.autograd.grad([y.square().nansum() for y in made(x)], x)[0]
        for made in (function, torch.compile(function, backend="pirkit"))
    )
    torch.testing.assert_close(found[:3], expected[:3])
    assert not found[:3].isnan().any()


def test_the_gradient_of_a_target() -> None:
    x, y = (torch.rand(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    _same_derivatives(torch.nn.functional.binary_cross_entropy, x, y)


MASK = torch.tensor([True, False, True, True])
COLUMNS = torch.tensor([True, False, True])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        ([MASK], ()), ([MASK], (3,)), ([MASK], (1, 3)), ([MASK], (3, 3)), ([MASK], (3, 1)),
        ([None, COLUMNS], (4, 2)), ([None, COLUMNS], (1,)),
        ([MASK[:, None] & COLUMNS], (6,)),
    ],
)  # fmt: skip
def test_writes_where_a_mask_holds(indices: Any, shape: tuple[int, ...], accumulate: bool) -> None:
    def function(x: Any, v: Any) -> Any:
        return torch.ops.aten.index_put(x, indices, v, accumulate).sin()

    given = [torch.randn(s, requires_grad=True) for s in ((4, 3), shape)]
    same(function, *given, options={"strict": True})


def test_integers_left_of_tensors_and_order_of_small_ones() -> None:
    a, b, m = torch.arange(1, 9), torch.tensor([3, -128, 127, 3], dtype=torch.int8), ~MASK

    def function(a: Any, b: Any, m: Any) -> Any:
        return 1 << a, 64 >> a, 5 & a, 5 | a, 5 ^ a, -7 % a, b.sort(), m.sort(descending=True)

    same(function, a, b, m, options={"strict": True})


def test_lists_that_are_copied_and_cleared() -> None:
    def function(x: Any, y: Any) -> Any:
        made = [x * 2, y * 2]
        torch._foreach_copy_(made, [y, x.double()])
        copies = torch._foreach_clone(made)
        torch._foreach_zero_(made)
        return made, copies

    same(function, torch.randn(3, 3), torch.randn(3, 3), options={"strict": True})


NUMBERED: dict[str, Callable[..., Any]] = {
    "factors of sums": lambda x, y, k: (torch.add(x, y, alpha=k), torch.sub(x, y, alpha=k)),
    "factors of products": lambda x, y, k: (torch.addmm(x, x, y, alpha=k, beta=2 * k),
                                            torch.addmv(x[0], x, y[0], alpha=k, beta=k)),
    "factors of rows": lambda x, y, k: x.index_add(0, torch.tensor([1, 0, 2]), y, alpha=k),
    "factors of fractions": lambda x, y, k: (torch.addcmul(x, y, y, value=k),
                                             torch.addcdiv(x, y, y.exp(), value=k)),
    "exponents": lambda x, y, k: x.exp() ** k,
    "contents": lambda x, y, k: torch.full_like(x, k) * x.scatter(0, torch.tensor([[1, 2, 0]]), k),
    "lists": lambda x, y, k: torch._foreach_add([x, y], [y, x], alpha=k),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_that_change_are_values(name: str) -> None:
    torch._dynamo.reset()
    function = NUMBERED[name]
    compiled = torch.compile(function, backend="pirkit", options={"strict": True})
    x, y = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    for k in (0.3, 1.7, 2.5):
        found, expected = (
            torch.utils._pytree.tree_leaves(f(x, y, k)) for f in (compiled, function)
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        for ours, wanted in zip(
            torch.autograd.grad(sum(t.sin().sum() for t in found), (x, y), allow_unused=True),
            torch.autograd.grad(sum(t.sin().sum() for t in expected), (x, y), allow_unused=True),
            strict=True,
        ):
            torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)


def test_numbers_that_change_where_torch_computes() -> None:
    def function(x: Any, k: float) -> Any:
        return torch.ops.aten.softplus(x, k, 20.0), torch.searchsorted(x.sort().values, k)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="pirkit")
    x = torch.randn(5, requires_grad=True)
    for k in (0.3, 1.7, 2.5):
        (found, place), (expected, wanted) = compiled(x, k), function(x, k)
        torch.testing.assert_close(found, expected)
        assert torch.equal(place, wanted)
        ours, theirs = (torch.autograd.grad(y.sum(), x)[0] for y in (found, expected))
        torch.testing.assert_close(ours, theirs)


def test_an_optimizer_with_a_rate_that_changes() -> None:
    def trained(backend: str | None) -> list[Any]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        run = step if backend is None else torch.compile(step, backend=backend)
        for _ in range(4):
            run(torch.randn(5, 4))
            schedule.step()
        return list(model.parameters())

    torch.testing.assert_close(trained("pirkit"), trained(None))

"""What eager code may rely on: layouts, tangents, sparse gradients, lists of tensors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pirkit.torch  # noqa: E402  registers the backend


def test_attention_has_the_layout_of_its_query() -> None:
    """A caller flattens heads and depth by `view`, as eager allows."""
    q, k, v = (torch.randn(2, 5, 3, 4).transpose(1, 2) for _ in range(3))
    attend = torch.compile(torch.nn.functional.scaled_dot_product_attention, backend="pirkit")
    for query in (q, q.contiguous()):
        expected = torch.nn.functional.scaled_dot_product_attention(query, k, v)
        found = attend(query, k, v)
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)


def test_a_tangent_of_forward_mode_is_kept() -> None:
    square = torch.compile(lambda x: x * x, backend="pirkit")
    square(torch.ones(3))
    with torch.autograd.forward_ad.dual_level():
        given = torch.autograd.forward_ad.make_dual(torch.arange(3.0), torch.ones(3))
        found = torch.autograd.forward_ad.unpack_dual(square(given)).tangent
    torch.testing.assert_close(found, 2 * torch.arange(3.0))


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_a_sparse_gradient_of_a_table(kind: str) -> None:
    table = getattr(torch.nn, kind)(5, 3, sparse=True)
    places = torch.tensor([[0, 2], [2, 1]])
    call = torch.compile(lambda i: table(i).tanh(), backend="pirkit")
    call(places).sum().backward()
    found, table.weight.grad = table.weight.grad, None
    table(places).tanh().sum().backward()
    assert found.is_sparse
    torch.testing.assert_close(found.to_dense(), torch.Tensor.to_dense(table.weight.grad))


def _foreach(a: list[Any], b: list[Any]) -> Any:
    return (
        torch._foreach_add(a, b, alpha=2), torch._foreach_addcdiv(a, b, b, [0.1, 0.2]),
        torch._foreach_addcmul(a, b, b, value=3), torch._foreach_norm(a, 1), 
        torch._foreach_pow(2.0, a), torch._foreach_lerp(a, b, 0.3), torch._foreach_minimum(a, 0.5),
        torch._foreach_maximum(a, [0.0, 1.0]), torch._foreach_mul(a, torch.tensor(2.0)),
        torch._foreach_sqrt(torch._foreach_abs(a)),
    )  # fmt: skip


def test_ops_of_lists_of_tensors() -> None:
    a, b = ([torch.randn(3), torch.randn(2, 2)] for _ in range(2))
    found = torch.compile(_foreach, backend="pirkit", options={"strict": True})(a, b)
    torch.testing.assert_close(found, _foreach(a, b))


def test_shifts_by_operators() -> None:
    a = torch.tensor([7, -9, 100], dtype=torch.int8)
    strict = torch.compile(
        lambda a: (a << 1, a >> 2, a << a.abs() % 3), backend="pirkit", options={"strict": True}
    )
    torch.testing.assert_close(strict(a), (a << 1, a >> 2, a << a.abs() % 3))


def test_small_scatters_are_native_and_can_be_watched() -> None:
    """A segment runs twice for `explain`; the first run writes over the places that it reads."""
    bag = torch.nn.EmbeddingBag(9, 4).eval()
    items, offsets = torch.arange(8) % 9, torch.tensor([0, 3, 3, 5])
    with torch.no_grad():
        found = str(pirkit.torch.explain(bag, items, offsets))
    assert "searchsorted" in found
    assert "pd_op.index_add" not in found


def test_a_view_that_begins_where_data_say() -> None:
    x, start = torch.randn(5, 3), torch.tensor(1)
    found = torch.compile(lambda x, s: torch.narrow(x.sin(), 0, s, 2), backend="pirkit")(x, start)
    torch.testing.assert_close(found, x.sin()[1:3])
    view = torch.compile(lambda x, s: torch.narrow(x, 0, s, 2), backend="pirkit")(x, start)
    view.zero_()
    assert not x[1:3].any()

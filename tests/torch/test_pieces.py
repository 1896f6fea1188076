"""What no program can hold runs by torch between pieces; numbers that depend on data; aliases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import pirkit.torch  # noqa: E402  registers the backend
from pirkit.diag.errors import UnsupportedError  # noqa: E402
from pirkit.torch import backend  # noqa: E402
from pirkit.torch.aten_call import _encoded  # noqa: E402
from pirkit.torch.capture import capture  # noqa: E402
from pirkit.torch.node_error import NodeError  # noqa: E402
from tests.torch.comparing import same  # noqa: E402


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="pirkit", options=options or None)


def _hooked(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 5)
    return y.sin().sum()


def _sampled(x: Any) -> Any:
    with torch.no_grad():
        places = torch.poisson(x.abs()).long() % 2
    return (x * 2).gather(1, places).sin(), places


def _picked(x: Any) -> Any:
    return (x * 2)[x > 0].sin().sum()


def _counted(x: Any) -> Any:
    return x[x[:, 0] > 0].sum(0), (x > 0).nonzero().shape[0] * x.mean()


@pytest.mark.parametrize("function", [_hooked, _sampled, _picked, _counted])
def test_pieces_do_what_the_whole_does(function: Callable[..., Any]) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        same(function, torch.randn(3, 4, requires_grad=True))


def test_explain_tells_what_runs_between_pieces() -> None:
    found = pirkit.torch.explain(_sampled, torch.randn(3, 4))
    (line,) = [line for graph in found.graphs for line in graph.fallbacks]
    assert "poisson" in line
    assert "test_pieces.py" in line


def test_strict_makes_no_pieces() -> None:
    with pytest.raises(Exception, match=r"PK0409.*poisson"):
        compiled(_sampled, strict=True)(torch.randn(3, 4))


def test_numbers_that_depend_on_data() -> None:
    def function(x: Any, s: Any, i: Any) -> Any:
        n = s.item() * 2 - 1
        return x * n + i.item() // 2, (i * i.item()).float() / n, n

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        made = torch.compile(function, backend="pirkit", fullgraph=True)
        for s, i in ((2.0, 5), (3.5, -3)):
            given = torch.randn(4), torch.tensor(s, dtype=torch.float64), torch.tensor(i)
            for a, b in zip(made(*given), function(*given), strict=True):
                torch.testing.assert_close(a, b)


def test_numbers_of_python_that_change_are_compiled_twice() -> None:
    count: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        count.append(graph)
        return pirkit.torch.backend.pirkit(graph, inputs)

    function = torch.compile(lambda x, k: x * k, backend=backend)
    for k in (1.5, 2.5, 3.5, 4.5):
        torch.testing.assert_close(function(torch.arange(4.0), k), torch.arange(4.0) * k)
    assert len(count) == 2


def test_a_written_argument_that_is_part_of_another() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    made = compiled(function)
    for apart in (True, False):
        a, b = torch.arange(4.0), torch.arange(4.0)
        given = [(t[:2], t[2:] if apart else t[1:3]) for t in (a, b)]
        torch.testing.assert_close(made(*given[0]), function(*given[1]))
        torch.testing.assert_close(a, b)


def test_a_written_argument_that_is_part_of_a_tensor_of_the_graph() -> None:
    root, graph = torch.nn.Module(), torch.fx.Graph()
    root.register_buffer("held", torch.ones(4))
    x = graph.placeholder("x")
    graph.call_method("add_", (x, 2.0))
    total = graph.call_function(torch.sum, (graph.get_attr("held"),))
    graph.call_method("add_", (x, total))
    graph.output((total,))
    module, part = torch.fx.GraphModule(root, graph), root.held[1:3]
    (found,) = backend.pirkit(module, [part])(part)
    assert (found.item(), *part.tolist()) == (8, 11, 11)


def test_a_failed_capture_leaves_hooks_of_saved_tensors_as_they_were() -> None:
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.mm, (graph.placeholder("x"),) * 2),))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    with torch.autograd.graph.disable_saved_tensors_hooks("off"):
        with pytest.raises(NodeError):
            capture(module, [torch.ones(2, 3)])
        assert not torch._C._autograd._saved_tensors_hooks_is_enabled()


@pytest.mark.parametrize("given", [torch.device("cpu"), object()])
def test_an_argument_of_another_type_is_refused(given: Any) -> None:
    with pytest.raises(UnsupportedError, match="is a"):
        _encoded(given, [], "tensor")
    assert _encoded(torch.float32, [], "tensor") == {"torch": "float32"}


def test_results_that_are_views_of_a_tensor_that_is_none() -> None:
    a, b = compiled(lambda x: (lambda y: (y[:2], y[1:]))(x * 2))(torch.randn(3, 4))
    a[1].add_(1)
    torch.testing.assert_close(a[1], b[0])


def test_many_sizes_are_not_compiled(caplog: pytest.LogCaptureFixture) -> None:
    made = torch.compile(
        lambda x: x.sin().sum(0), backend="pirkit", dynamic=True, options={"sizes": 2}
    )
    with caplog.at_level(logging.WARNING, "pirkit.torch"):
        for size in (3, 4, 5, 6, 3):
            x = torch.randn(size, 4)
            torch.testing.assert_close(made(x), x.sin().sum(0))
    assert [r.getMessage() for r in caplog.records if "sizes" in r.getMessage()] == [
        "more sizes than `sizes`: torch runs calls of sizes that are seldom met"
    ]


def test_compilations_grow_by_the_logarithm_of_calls() -> None:
    compiled: list[int] = []

    def counted(graph: Any, inputs: Any) -> Any:
        made = backend.pirkit(graph, inputs, options={"sizes": 1})
        compiled.append(len(made.kinds))

        def call(*args: Any) -> Any:
            found = made(*args)
            compiled.append(len(made.kinds))
            return found

        return call

    made = torch.compile(lambda x: x + x.sum(), backend=counted, dynamic=True)
    for size in (2, 3, 4, 5):
        for _ in range(16):
            made(torch.zeros(size))
    # one at once, one after 8 calls, one after 16; the fourth would need 32
    assert (compiled[0], compiled[-1]) == (1, 3)


def test_a_branch_saves_values_for_several_backwards() -> None:
    w = torch.randn(4, 4, requires_grad=True)
    x = torch.ones(2, 4)

    def function(x: Any) -> Any:
        return torch.cond(x.mean() > 0, lambda x: x @ w, lambda x: F.relu(x @ w) * w.sum(), (x,))

    made = compiled(function)
    for given in (x, -x):
        (expected,) = torch.autograd.grad(function(given).sum(), w)
        y = made(given).sum()
        for keeps in (True, False):
            (found,) = torch.autograd.grad(y, w, retain_graph=keeps)
            torch.testing.assert_close(found, expected)


def test_branches_and_loops_are_in_the_program() -> None:
    def branch(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda q: q.sin(), lambda q: q.cos(), (x,))

    def loop(x: Any, i: Any) -> Any:
        turn = torch._higher_order_ops.while_loop
        return turn(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (i, x))

    x = torch.randn(3)
    torch.testing.assert_close(compiled(branch, strict=True)(x), branch(x))
    torch.testing.assert_close(
        compiled(loop, strict=True)(x, torch.tensor(0)), loop(x, torch.tensor(0))
    )


def test_a_branch_takes_sizes() -> None:
    def function(x: Any, y: Any) -> Any:
        n = x.shape[0]
        return torch.cond(
            x.sum() > 0, lambda a, b: a.sin() * b + n, lambda a, b: a + b.cos(), (x, y)
        )

    made = torch.compile(function, backend="pirkit", dynamic=True, fullgraph=True)
    for size in (3, 5):
        x, y = torch.randn(size, 4), torch.randn(size, 4)
        torch.testing.assert_close(made(x, y), function(x, y))


def test_results_of_symbolic_sizes_share_memory() -> None:
    made = torch.compile(
        lambda x: (lambda y: (y, y.t(), y.view(-1)))(x * 2), backend="pirkit", dynamic=True
    )
    for size in (3, 5):
        found = made(torch.randn(size, 4))
        assert len({t.data_ptr() for t in found}) == 1
        torch.testing.assert_close(found[1], found[0].t())


def test_a_view_of_a_whole_input_is_not_the_input() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    view, same = compiled(lambda x: (x.view(3, 4), x))(x)
    assert same is x
    assert view is not x
    assert view.data_ptr() == x.data_ptr()


def test_numbers_that_an_op_asks_for_are_guarded() -> None:
    """``dynamic`` makes the probability of dropout a symbol, on which attention branches."""
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    made = torch.compile(model, backend="pirkit", dynamic=True, options={"strict": True})
    x = torch.randn(2, 3, 8)
    mask = torch.tensor([[False, False, True], [False, True, True]])
    for found, expected in zip(
        made(x, x, x, key_padding_mask=mask), model(x, x, x, key_padding_mask=mask), strict=True
    ):
        torch.testing.assert_close(found, expected)


PROBABILITIES: Final = {
    "bernoulli": lambda x: (torch.bernoulli(x.sigmoid()), x * torch.empty_like(x).bernoulli_(0.3)),
    "bernoulli of float64": lambda x: torch.bernoulli(x.t().double().sigmoid()),
    "bernoulli into integers": lambda x: torch.zeros(20, 3).long().bernoulli_(x.sigmoid()),
    "normal": lambda x: (torch.normal(x, x.abs()), torch.normal(x.t(), 2.0),
                         torch.normal(1.0, x[0].abs()), torch.normal(1.0, 2.0, (3, 2))),
    "multinomial": lambda x: (torch.rand(2), torch.multinomial(x.exp(), 1), torch.randn(3),
                              torch.multinomial(x.t().exp(), 5)),
    "multinomial with replacement": lambda x: (torch.multinomial(x.exp(), 40, True),
                                               torch.multinomial(x[0].double().exp(), 9, True)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBABILITIES)
def test_probabilities_are_drawn_as_torch_draws(name: str) -> None:
    function = PROBABILITIES[name]
    x = torch.randn(20, 3)
    found = []
    made = torch.compile(function, backend="pirkit", options={"strict": True})
    for call in (function, made):
        torch.manual_seed(1)
        found.append((call(x), torch.rand(1)))
    torch.testing.assert_close(found[1], found[0])


def test_no_gradient_flows_through_numbers_that_are_drawn() -> None:
    def function(x: Any, s: Any) -> Any:
        return torch.normal(x, s.exp()) * s, torch.bernoulli(x.sigmoid()) * x

    same(function, torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True))


def test_a_generator_of_its_own_is_left_to_torch() -> None:
    def function(x: Any, generator: Any) -> Any:
        return torch.bernoulli(x.sigmoid(), generator=generator) * 2

    x, generator = torch.randn(20), torch.Generator()
    found = [call(x, generator.manual_seed(4)) for call in (compiled(function), function)]
    assert torch.equal(*found)


def test_a_piece_whose_argument_has_a_size_that_no_argument_tells() -> None:
    """``pad`` by tensors gives a size of two symbols; a piece behind it takes only its result."""

    def function(x: Any, a: Any, b: Any) -> Any:
        y = F.pad(x, (a, b), mode="reflect")
        return y[..., : y.shape[-1]], (y[..., 1:] * 2).sin()

    made = compiled(function)
    x = torch.randn(1, 1, 20)
    for k in (2, 4, 5):
        args = x, torch.tensor(k), torch.tensor(3)
        for found, expected in zip(made(*args), function(*args), strict=True):
            torch.testing.assert_close(found, expected)


def test_a_graph_of_views_runs_as_it_is_written() -> None:
    x = torch.randn(4, 6, requires_grad=True)
    found = compiled(lambda x: (x.view(2, 12).t(), x.detach()[1:], x.expand(3, 4, 6)))(x)
    assert all(f.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for f in found)
    assert [f.requires_grad for f in found] == [True, False, True]
    (found[0].sum() + found[2].sum()).backward()
    torch.testing.assert_close(x.grad, torch.full((4, 6), 4.0))

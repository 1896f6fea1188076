"""Where elements lie in memory, and in which order torch chooses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.torch.comparing import make, same  # noqa: E402


def _inside_of_a_slice(x: Any) -> Any:
    return (x * 2)[1:3, 2:4].as_strided((2, 2), (1, 3), 1)


def _written(x: Any) -> Any:
    y = (x * 2).t()
    y.mul_(3)
    return y, y.as_strided((2, 2), (1, 6)).add(1.0)


def _written_part(x: Any) -> Any:
    y = torch.zeros(4, 6)
    y.as_strided((3, 4), (7, 1), 1).copy_(x[:3, :4] * 2)
    return y * x


STRIDED = {
    "rows": lambda x: (x * 1).as_strided((3, 4), (2, 1)),
    "columns": lambda x: (x * 2).t().as_strided((3, 4), (2, 1)),
    "views of views": lambda x: (x * 2).t().view(3, 2, 4).as_strided((6, 3, 2), (1, 6, 6)),
    "outside of the slice": _inside_of_a_slice,
    "written": _written,
    "written part": _written_part,
    "jacobian": lambda x: torch.func.jacrev(lambda v: (v @ x.t()).sin())(x[0]),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided_views_read_memory(name: str) -> None:
    same(STRIDED[name], make(4, 6), options={"strict": True})


@pytest.mark.parametrize("width", [3, 4])
def test_strided_views_of_a_slice_given(width: int) -> None:
    """The second reads memory that no argument shows: torch runs it."""

    def strided(x: Any) -> Any:
        return x.as_strided((2, width), (8, 1)) + 1

    given = torch.randn(8, 8)[2:5, 1:4]
    assert torch.equal(torch.compile(strided, backend="pirkit")(given), strided(given))


CHOICES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "without order": (lambda x: x.topk(3, sorted=False), make(5, 40)),
    "least": (lambda x: x.topk(17, 0, largest=False, sorted=False), make(40, 3)),
    "equal": (lambda x: x.topk(3), torch.arange(120).reshape(4, 30) % 5),
    "equal, one": (lambda x: x.kthvalue(4, 1), torch.arange(120.0).reshape(4, 30) % 5),
    "half": (lambda x: x.topk(3), make(5, 40, dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_selections_stand_where_torch_puts_them(name: str) -> None:
    function, x = CHOICES[name]
    same(function, x, options={"strict": True})


def test_dropout_of_a_selection_drops_the_same_elements() -> None:
    def dropped(x: Any) -> Any:
        places = x.topk(7, sorted=False)[1]
        return torch.nn.functional.dropout(x.gather(1, places), 0.5) * places

    same(dropped, make(6, 50))


def test_data_that_are_replaced_between_forward_and_backward() -> None:
    """Native code takes addresses of tensors, so another shape must not reach it."""
    w = torch.nn.Parameter(torch.randn(4, 3))
    y = torch.compile(lambda x: (x @ w).tanh(), backend="pirkit")(make(2, 4))
    w.data = torch.randn(1)
    with pytest.raises(Exception, match=r"PK0903|shape"):
        y.sum().backward()


def test_parameters_that_move_between_calls() -> None:
    """A program with a call of torch keeps arrays of parameters that lie where they lay."""
    net = torch.nn.Linear(6, 8)
    compiled = torch.compile(lambda x: net(x).topk(3)[0] @ net.weight[:3], backend="pirkit")
    for _ in range(3):
        x = make(4, 6)
        torch.testing.assert_close(compiled(x), net(x).topk(3)[0] @ net.weight[:3])
        net.weight.data = torch.randn(8, 6)
        with torch.no_grad():
            net.bias.add_(1.0)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_limit_native_code(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from pirkit.runtime.native import program_session
    from pirkit.runtime.native.cores import allowed_threads

    limits: list[int] = []
    share = program_session.thread_share

    def watched(code: Any) -> Any:
        limits.append(allowed_threads())
        return share(code)

    monkeypatch.setattr(program_session, "thread_share", watched)
    torch.compile(lambda x: x.sin(), backend="pirkit", options={"threads": threads})(make(200_000))
    assert limits
    assert set(limits) == {threads}


def test_windows_are_constants() -> None:
    same(lambda x: x * torch.hamming_window(6) + torch.blackman_window(6), make(2, 6),
         options={"strict": True})  # fmt: skip


def test_numbers_by_length_and_angle() -> None:
    same(lambda r, a: torch.view_as_real(torch.polar(r.exp(), a)), make(3, 4), make(3, 4),
         options={"strict": True})  # fmt: skip


def _over(data: Any, offset: int) -> Any:
    return torch.frombuffer(bytearray(data), dtype=torch.float32, offset=offset, count=12)


UNFIT = {
    "at an odd address": lambda: _over(bytes([0, 0, 0, 128, 63] * 12), 1),
    "lazy sign": lambda: torch.imag(torch.randn(12, dtype=torch.complex64).conj()),
    "every second": lambda: torch.randn(24)[::2],
}


@pytest.mark.parametrize("name", UNFIT)
def test_tensors_and_cotangents_that_are_not_in_rows(name: str) -> None:
    x = UNFIT[name]()
    compiled = torch.compile(lambda x: x.sin() * x, backend="pirkit")
    torch.testing.assert_close(compiled(x), x.sin() * x)
    given = torch.ones(12, requires_grad=True)
    (found,) = torch.autograd.grad(compiled(given), given, x)
    (expected,) = torch.autograd.grad(given.sin() * given, given, x)
    torch.testing.assert_close(found, expected)

"""The option ``freeze``: parameters and buffers as constants of inference."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pirkit.torch")
nn = torch.nn


def network() -> Any:
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.Hardswish(),
        nn.Conv2d(32, 48, 3, 2), nn.Flatten(), nn.Linear(48 * 7 * 7, 10),
    )  # fmt: skip
    made[1].running_mean.normal_()
    made[1].running_var.uniform_(0.5, 2)
    return made.eval()


def frozen(model: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend="pirkit", options={"freeze": True, "strict": True})


def close(found: Any, want: Any) -> None:
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)


@pytest.fixture
def image() -> Any:
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_results_are_those_of_eager(image: Any) -> None:
    model = network()
    called = frozen(model)
    with torch.no_grad():
        for _ in range(2):
            close(called(image), model(image))
    with torch.inference_mode():
        close(called(image), model(image))


def test_constants_are_computed_once(image: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pirkit.torch import frozen_weights

    calls: list[str] = []

    class Counted(frozen_weights.Runner):
        def __call__(self, tensors: Any) -> Any:
            calls.append("constants" if "constant_0" in self.outputs else "main")
            return super().__call__(tensors)

    monkeypatch.setattr(frozen_weights, "Runner", Counted)
    model = network()
    called = frozen(model)
    with torch.no_grad():
        for _ in range(3):
            called(image)
    assert calls == ["constants", "main", "main", "main"]


def test_a_written_weight_counts(image: Any) -> None:
    """Weights and buffers that are written in place, and other tensors in their place."""
    model = network()
    called = frozen(model)
    with torch.no_grad():
        close(called(image), model(image))
        model[3].weight.mul_(-2)
        close(called(image), model(image))
        model[1].running_mean.add_(1)
        close(called(image), model(image))
        model[0].weight = nn.Parameter(torch.randn_like(model[0].weight))
        close(called(image), model(image))
        model.load_state_dict({k: v + 0.1 for k, v in model.state_dict().items() if v.ndim}, False)
        close(called(image), model(image))


def test_weights_of_inference_mode(image: Any) -> None:
    """They have no version."""
    with torch.inference_mode():
        model = network()
        called = frozen(model)
        close(called(image), model(image))
        model[3].weight.mul_(-2)
        close(called(image), model(image))


def test_weights_in_another_order_in_memory(image: Any) -> None:
    model = network().to(memory_format=torch.channels_last)
    called = frozen(model)
    with torch.no_grad():
        close(called(image), model(image))
        model[3].weight.mul_(-2)
        close(called(image), model(image))


def test_gradients_are_those_of_eager(image: Any) -> None:
    model = network()

    def gradients(function: Any) -> Any:
        return torch.autograd.grad(function(image).square().sum(), list(model.parameters()))

    for one, other in zip(gradients(frozen(model)), gradients(model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_a_buffer_that_is_written_is_no_constant() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
            self.register_buffer("scale", torch.arange(4.0))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x)
            return self.seen * (self.scale * self.scale).sum()

    model, x = Counts(), torch.ones(4)
    called = frozen(model)
    with torch.no_grad():
        for k in range(1, 4):
            close(called(x), torch.full((4,), 14.0 * k))

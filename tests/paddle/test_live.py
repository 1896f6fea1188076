"""Live layers of Paddle: captured without a file, trained inside Paddle's own autograd."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import UsageError
from pirkit.dialect.operation import PirOp, span_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Paddle looks for compilers when it is imported
    paddle: Any = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    import pirkit.paddle

from tests.paddle import networks

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.slow,  # Paddle takes seconds to start
    pytest.mark.filterwarnings("ignore"),  # Paddle warns of what it does itself
]
STEPS = 50


def twins(make: Callable[[], Any]) -> tuple[Any, Any]:
    paddle.seed(0)
    one, other = make(), make()
    other.set_state_dict({name: t.clone() for name, t in one.state_dict().items()})
    return one, other


def drawn(shape: tuple[int, ...]) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(rng.normal(size=shape).astype(np.float32))
    return x, paddle.to_tensor(rng.integers(0, 3, shape[0]))


def momentum(layer: Any) -> Any:
    return paddle.optimizer.Momentum(0.01, 0.9, parameters=layer.parameters())


NETWORKS = {
    "lenet": (networks.lenet, (4, 1, 28, 28)),
    "encoder": (networks.Encoder, (2, 6, 16)),
    "lstm": (networks.Recurrent, (3, 5, 4)),
    "if-while": (networks.Branching, (6, 4)),
    "from-zeros": (networks.FromZeros, (3, 5, 4)),
    "noisy": (networks.Noisy, (2, 6, 16)),
    "loop-result": (networks.LoopResult, (3, 5, 4)),
    "collecting": (networks.Collecting, (3, 5, 4)),
    "custom-layer": (networks.OwnDerivative, (6, 4)),
}


def trained(make: Callable[[], Any], shape: tuple[int, ...], steps: int) -> tuple[Any, Any]:
    """A training step, of which each loss was that of eager training, and its network."""
    (eager, ours), (x, labels) = twins(make), drawn(shape)
    loss, theirs = paddle.nn.functional.cross_entropy, momentum(eager)
    step = pirkit.paddle.train_step(ours, loss, momentum(ours))
    places = [p.data_ptr() for p in ours.parameters()]
    for i in range(steps):
        paddle.seed(i)
        value = loss(eager(x), labels)
        value.backward()
        theirs.step()
        theirs.clear_grad()
        paddle.seed(i)
        assert abs(float(value) - float(step(x, labels))) < 1e-5
    assert places == [p.data_ptr() for p in ours.parameters()]
    return step, ours


@pytest.mark.parametrize("name", NETWORKS)
def test_training_is_eager_training(name: str) -> None:
    step, ours = trained(*NETWORKS[name], STEPS)
    (net,) = step.nets
    assert [plan.counters.copies for plan in net.runnable.plans()] == [0, 0]
    held = dict(zip(net.runnable.names.fp, net.weights.now(), strict=True))
    for p in ours.parameters():
        assert held[p.name].array.ctypes.data == p.data_ptr()


def test_statistics_are_updated_where_they_are() -> None:
    (eager, ours), (x, labels) = twins(networks.Normed), drawn((6, 4))

    def loss(found: Any, wanted: Any) -> Any:
        assert found["count"] == 2
        assert found["hidden"][1].shape == [6, 4]
        return paddle.nn.functional.cross_entropy(found["logits"], wanted)

    theirs = momentum(eager)
    step = pirkit.paddle.train_step(ours, loss, momentum(ours))
    for _ in range(5):
        value = loss(eager(x), labels)
        value.backward()
        theirs.step()
        theirs.clear_grad()
        assert abs(float(value) - float(step(x, labels))) < 1e-5
    np.testing.assert_allclose(ours.norm._mean.numpy(), eager.norm._mean.numpy(), rtol=1e-5)
    ours.eval()
    eager.eval()
    with paddle.no_grad():
        found = step.forward(x)["logits"].numpy()
        np.testing.assert_allclose(found, eager(x)["logits"].numpy(), rtol=1e-4, atol=1e-5)


CHANGES: dict[int, Callable[[Any], Any]] = {
    2: lambda layer: layer.norm.eval(),
    4: lambda layer: setattr(layer, "scale", 1.5),
    6: lambda layer: setattr(layer.act, "_negative_slope", 0.5),
    8: lambda layer: layer.last.register_forward_post_hook(lambda _, x, y: y * 2),
    10: lambda layer: layer.norm.train(),
    12: lambda layer: networks.SHIFT.__setitem__(0, 0.5),
}


@pytest.mark.usefixtures("doubles")
def test_what_a_layer_reads_may_change() -> None:
    (eager, ours), (x, labels) = twins(networks.Configured), drawn((6, 4))
    loss, theirs, x = paddle.nn.functional.cross_entropy, momentum(eager), x.astype("float64")
    step = pirkit.paddle.train_step(ours, loss, momentum(ours))
    for i in range(14):
        value = loss(eager(x), labels)
        value.backward()
        theirs.step()
        theirs.clear_grad()
        assert abs(float(value) - float(step(x, labels))) < 1e-7, i
        if i in CHANGES:
            CHANGES[i](eager)
            if i != 12:
                CHANGES[i](ours)
    networks.SHIFT[0] = 0.0
    assert len(step.nets) == 1 + len(CHANGES)


def test_a_layer_that_counts_is_captured_at_each_step() -> None:
    class Counting(paddle.nn.Linear):
        count = 0

        def forward(self, x: Any) -> Any:
            self.count += 1
            return super().forward(x) * float(self.count)

    (eager, ours), (x, labels) = twins(lambda: Counting(4, 3)), drawn((6, 4))
    loss = paddle.nn.functional.cross_entropy
    step = pirkit.paddle.train_step(ours, loss, paddle.optimizer.SGD(0.0, ours.parameters()))

    def run() -> None:
        for _ in range(10):
            assert abs(float(loss(eager(x), labels)) - float(step(x, labels))) < 1e-5

    with pytest.warns(UserWarning, match=r"again and again.*count"):
        run()


class ScaleInput:
    """A pass of a user: multiplies what every `matmul` reads first."""

    def __init__(self, factor: float) -> None:
        self.factor, self.count = factor, 0

    def __call__(self, program: pirkit.Program) -> pirkit.Program:
        from pirkit.dialect.build import Builder

        changed = program.copy()
        block = changed.main.block
        for op in list(changed.main.operations):
            if op.name == "pd_op.matmul":
                b = Builder(block, op, location=op.location)
                scaled = b.wrap(op.operands[0]) * self.factor
                op.operands[0] = scaled.ssa
                self.count += 1
        return changed


def test_a_pass_in_between() -> None:
    layer = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.Linear(3, 3))
    x, labels = drawn((5, 4))
    passing = ScaleInput(2.0)
    step = pirkit.paddle.train_step(
        layer, paddle.nn.functional.cross_entropy, momentum(layer), passes=passing
    )
    want = layer[1](layer[0](x * 2) * 2).numpy()
    np.testing.assert_allclose(step.forward(x).numpy(), want, rtol=1e-5)
    assert passing.count == 2
    first = float(step(x, labels))
    assert float([step(x, labels) for _ in range(20)][-1]) < first


def test_captures_on_many_threads() -> None:
    """Paddle's converter is for one thread, and crashes the process otherwise."""
    layer, x = networks.Branching(), drawn((6, 4))[0]
    with ThreadPoolExecutor(12) as pool:
        programs = list(pool.map(lambda _: pirkit.paddle.from_static(layer, [x]), range(12)))
    for program in programs:
        (found,) = pirkit.compile(program).run({_inputs(program)[0]: x.numpy()}).values()
        np.testing.assert_allclose(found, layer(x).numpy(), rtol=1e-5)


def test_a_program_has_lines_weights_and_outputs() -> None:
    layer = networks.Branching()
    program = pirkit.paddle.from_static(layer, [drawn((6, 4))[0]])
    x = drawn((6, 4))[0]
    ((found),) = pirkit.compile(program).run({_inputs(program)[0]: x.numpy()}).values()
    np.testing.assert_allclose(found, layer(x).numpy(), rtol=1e-5, atol=1e-6)
    loops = [op for op in program.main.operations if op.name == "pd_op.while"]
    body = [op for op in loops[0].walk() if isinstance(op, PirOp) and op.name == "pd_op.tanh"]
    for op in (*loops, *body):
        span = span_of(op)
        assert span is not None
        assert span.file.endswith("networks.py")
    weight = program.params[layer.first.weight.name]
    assert weight.ctypes.data == layer.first.weight.data_ptr()
    assert not isinstance(layer.forward, paddle.jit.api.ASTStaticFunction)


def _inputs(program: pirkit.Program) -> list[str]:
    return [op.attribute("name") for op in program.main.operations if op.name == "pd_op.data"]


def test_sizes_that_vary_and_derivatives_of_the_network() -> None:
    layer = paddle.nn.Sequential(paddle.nn.Linear(1, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 1))
    net = pirkit.paddle.from_static(layer, [paddle.static.InputSpec([None, 1], "float32")])
    x = paddle.linspace(-1, 1, 5).reshape([5, 1])
    x.stop_gradient = False
    slope = paddle.grad(layer(x).sum(), x, create_graph=True)[0]
    bend = paddle.grad(slope.sum(), x)[0]
    _, series = pirkit.jet(net, (x.detach().numpy(),), ((1.0, 0.0),))
    np.testing.assert_allclose(series[0], slope.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(series[1], bend.numpy(), rtol=1e-4, atol=1e-5)


def of_a_gradient(x: Any) -> Any:
    slope = paddle.grad((x * x * x).sum(), x)[0]
    return paddle.grad((slope * x).sum(), x, create_graph=True)[0]


def of_unused(x: Any, y: Any) -> Any:
    return paddle.grad((x * x).sum(), [x, y], allow_unused=True)


def test_a_gradient_without_graph_is_detached() -> None:
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    program = pirkit.paddle.from_static(of_a_gradient, [x])
    (found,) = pirkit.compile(program).run({_inputs(program)[0]: x.numpy()}).values()
    np.testing.assert_allclose(found, of_a_gradient(x).numpy(), rtol=1e-6)
    with pytest.raises(UsageError, match="None for an input that is not used"):
        pirkit.paddle.from_static(of_unused, [x, x])


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="takes a layer or a function"):
        pirkit.paddle.from_static(3, [])
    layer = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 3))
    x, labels = drawn((5, 4))
    step = pirkit.paddle.train_step(layer, paddle.nn.functional.cross_entropy, momentum(layer))
    value = paddle.nn.functional.cross_entropy(step.forward(x), labels)
    with paddle.no_grad():
        layer[1].weight.add_(paddle.ones_like(layer[1].weight))
    with pytest.raises(OSError, match="PK0907"):
        value.backward()

    with pytest.raises(UsageError, match="of the type ndarray"):
        step(x.numpy(), labels)

    def unpacked(x: Any) -> Any:
        for i, (a, b) in enumerate([(x, x)]):  # Paddle's converter stops at it
            if i > 0:
                break
            x = a + b
        return x

    with pytest.raises(UsageError, match="does not convert <unpacked>: AttributeError"):
        pirkit.paddle.from_static(unpacked, [x])

    def telling(x: Any) -> Any:
        raise ValueError("elements " * 1000)

    with pytest.raises(UsageError) as told:
        pirkit.paddle.from_static(telling, [x])
    assert len(told.value.message) < 2000

    def unlike(x: Any) -> Any:
        if x.sum() > 0:
            y = paddle.matmul(x, x)  # (5, 4) by (5, 4)
        else:
            y = x
        return y

    with pytest.raises(UsageError, match=r"<unlike>: \w+: .*\bmatmul\b") as told:
        pirkit.paddle.from_static(unlike, [x])
    assert "\n" not in told.value.message
    assert told.value.span is not None
    assert told.value.span.line == unlike.__code__.co_firstlineno + 2


@pytest.mark.usefixtures("doubles")
def test_trees_of_inputs_and_gradients_in_the_forward() -> None:
    """A gradient penalty: the network asks for a derivative, and is differentiated again."""
    (eager, ours), (x, labels) = twins(networks.Penalized), drawn((6, 4))
    loss, theirs, x = paddle.nn.functional.cross_entropy, momentum(eager), x.astype("float64")
    step = pirkit.paddle.train_step(ours, loss, momentum(ours))
    for i in range(12):
        tree = {"right": x} if i % 3 == 2 else {"left": x}
        weight = 0.5 if i % 2 else 2.0
        value = loss(eager(tree, weight), labels)
        value.backward()
        theirs.step()
        theirs.clear_grad()
        assert abs(float(value) - float(step([tree, weight], labels))) < 1e-12, i
    assert len(step.nets) == 4


def test_the_page_about_paddle_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "paddle.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python[^\n]*\n(.*?)```", page, re.DOTALL):
        exec(block, names)


@pytest.fixture
def doubles() -> Generator[None]:
    paddle.set_default_dtype("float64")
    yield
    paddle.set_default_dtype("float32")


@pytest.mark.cpu_seconds(600)  # the network is large
@pytest.mark.usefixtures("doubles")
def test_resnet_trains_as_eager_does() -> None:
    """In float64: in float32, batch norm over few elements amplifies the rounding of each step."""
    (eager, ours), (x, labels) = twins(networks.resnet18), drawn((4, 3, 32, 32))
    loss, theirs = paddle.nn.functional.cross_entropy, momentum(eager)
    x = x.astype("float64")
    step = pirkit.paddle.train_step(ours, loss, momentum(ours))
    for _ in range(STEPS):
        value = loss(eager(x), labels)
        value.backward()
        theirs.step()
        theirs.clear_grad()
        assert abs(float(value) - float(step(x, labels))) < 1e-5


def _shares(x: Any) -> Any:
    return 2.0 / x + 2.0**x - x.cpu()


def _towards_zero(x: Any) -> Any:
    return paddle.divide(x * 7, x, rounding_mode="trunc")


def _thumbnail(x: Any) -> Any:
    image = x.reshape([1, 1, 6, 4])
    return paddle.nn.functional.interpolate(image, size=[3, 2], mode="bilinear", antialias=True)


def _beams(x: Any) -> Any:
    ids = paddle.cast(x.reshape([3, 2, 4]) * 4, "int64")
    return paddle.nn.functional.gather_tree(ids, ids % 4)


def _frames(x: Any) -> Any:
    return paddle.signal.istft(paddle.signal.stft(x.reshape([1, 24]).astype("float64"), 8), 8)


@pytest.mark.parametrize("function", [_shares, _towards_zero, _thumbnail, _beams, _frames])
def test_functions_of_paddle(function: Callable[[Any], Any]) -> None:
    x = paddle.to_tensor(np.random.default_rng(0).uniform(1, 2, (6, 4)).astype(np.float32))
    is_open = function is _shares
    spec = paddle.static.InputSpec([None if is_open else 6, 4], "float32")
    program = pirkit.paddle.from_static(function, [spec])
    (found,) = pirkit.compile(program)(x=x.numpy()).values()
    np.testing.assert_allclose(found, function(x).numpy(), rtol=1e-5, atol=1e-6)


def test_training_with_simulated_quantization() -> None:
    quanters = pytest.importorskip("paddle.quantization.quanters")
    observer = quanters.FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
    config = paddle.quantization.QuantConfig(activation=observer, weight=observer)

    def make() -> Any:
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 3))
        return paddle.quantization.QAT(config).quantize(net)

    trained(make, (6, 4), 10)

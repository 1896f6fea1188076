"""Training steps of a model of DeepXDE's Paddle backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, cast

import numpy as np

from pirkit.deepxde.native_model import NativeModel
from pirkit.deepxde.programs import Adam, Losses, NotCovered, tuples
from pirkit.dialect.build import Value
from pirkit.frontend.compile import run_passes
from pirkit.paddle.libpaddle import paddle
from pirkit.paddle.live_program import captured
from pirkit.paddle.requested_gradients import replaced
from pirkit.paddle.shared_memory import array_of

Array = np.ndarray[Any, Any]
_TABLES = count()


class Accelerated(NativeModel):
    """A model whose weights, and whose moments and powers of beta, are Paddle's tensors."""

    framework = "paddle"

    def __init__(self, model: Any) -> None:
        variables = list(model.net.parameters()) + model.external_trainable_variables
        self._memories: tuple[int, ...] = ()
        self._powers: tuple[list[Array], list[Array]] = ([], [])
        super().__init__(model, variables, Recorder(model, variables))

    def memory(self, variable: Any) -> Array:
        """See `NativeModel`."""
        return array_of(variable)

    def learns(self, losses: Losses, data: Any) -> list[bool]:
        """See `NativeModel`."""
        return [not v.stop_gradient for v in self.variables]

    def places(self) -> Any:
        """See `NativeModel`."""
        return [(v.data_ptr(), v.stop_gradient) for v in self.variables]

    def tensor(self, array: Array) -> Any:
        """See `NativeModel`."""
        return paddle.to_tensor(array)

    def adam(self) -> Adam | None:
        """See `NativeModel`. Adam is native with Paddle's default options."""
        opt = self.model.opt
        special = (opt.regularization, opt._grad_clip, opt._param_groups is not opt._parameter_list)
        if type(opt) is not paddle.optimizer.Adam or any(special):
            return None
        if opt._lazy_mode or opt._multi_precision or opt._amsgrad:
            return None
        return Adam((opt._beta1, opt._beta2), opt._epsilon, (0.0,) * len(self.variables))

    def moments(self) -> list[Array] | None:
        """See `NativeModel`. Lets Paddle create its accumulators of Adam if there are none yet.

        Raises NotCovered if variables have made different numbers of steps.
        """
        opt, variables = self.model.opt, self.variables
        if not opt._accumulators:
            block = paddle.static.default_main_program().global_block()
            opt._create_accumulators(block, variables)
        held = [
            opt._accumulators[name][v.name]
            for name in ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")
            for v in variables
        ]
        places = tuple([t.data_ptr() for t in (*variables, *held)])
        if places == self._memories:
            return None
        self._memories = places
        size = len(variables)
        arrays = [array_of(t) for t in held]
        self._powers = arrays[2 * size : 3 * size], arrays[3 * size :]
        if any(len({float(p.item()) for p in powers}) > 1 for powers in self._powers):
            raise NotCovered("variables have made different numbers of steps")
        return arrays[: 2 * size]

    def next_step(self, adam: Adam) -> tuple[float, float]:
        """See `NativeModel`."""
        one, two = (float(powers[0].item()) for powers in self._powers)
        return self.model.opt.get_lr() / (1 - one), (1 - two) ** 0.5

    def count_step(self, adam: Adam) -> None:
        """See `NativeModel`."""
        for powers, beta in zip(self._powers, adam.betas, strict=True):
            for power in powers:
                power *= beta

    def with_gradients(self, gradients: list[Array | None], losses: Callable[[], Array]) -> None:
        """See `NativeModel`."""
        opt = self.model.opt

        def closure() -> Any:
            found = paddle.to_tensor(losses())
            for v, gradient in zip(self.variables, gradients, strict=True):
                v.grad = None if gradient is None else paddle.to_tensor(gradient)
            return found

        if isinstance(opt, paddle.optimizer.LBFGS):
            opt.step(closure)
        else:
            closure()
            opt.step()
            opt.clear_grad()

    def schedule(self) -> None:
        """See `NativeModel`."""
        rate = getattr(self.model, "lr_scheduler", None)
        if rate is not None:
            rate.step()


def _to_tensor(theirs: Callable[..., Any], data: Any, *args: Any, **kwargs: Any) -> Any:
    """An eager tensor of an array, made during a capture; Paddle would make it a constant.

    It becomes a parameter of the program, and DeepXDE, which keeps it, can use it afterwards.
    """
    if not isinstance(data, np.ndarray | np.generic | int | float):
        return theirs(data, *args, **kwargs)
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        found = theirs(data, *args, **kwargs)
        found.name = f"table_{next(_TABLES)}"  # Paddle counts anew in each capture
        return found


class Recorder:
    """Records losses by capturing them in a program of Paddle's, with its derivatives requested."""

    def __init__(self, model: Any, variables: list[Any]) -> None:
        self.model, self.variables = model, variables

    def __call__(
        self, losses: Losses, data: Any, xs: Sequence[Value], values: Sequence[Value]
    ) -> tuple[Value, Value, Any]:
        """See `programs.Record`."""
        points = len(tuples(data[0]))
        given = [*tuples(data[0]), *(part for part in data[1:] if part is not None)]

        @paddle.jit.not_to_static
        def body(arrays: Any) -> Any:
            inputs = tuple(arrays[:points]) if isinstance(data[0], tuple) else arrays[0]
            more = iter(arrays[points:])
            return losses(inputs, *[None if p is None else next(more) for p in data[1:]])

        def outputs_losses(arrays: Any) -> Any:
            return body(arrays)

        arrays = [paddle.to_tensor(a) for a in given]
        with replaced(paddle, {"to_tensor": partial(_to_tensor, paddle.to_tensor)}):
            capture = captured(outputs_losses, [arrays])
        named = dict(zip(capture.inputs, xs, strict=True))
        tensors = {id(t): name for name, t in capture.tensors.items()}
        for v, value in zip(self.variables, values, strict=True):
            if id(v) in tensors:
                named[tensors[id(v)]] = value
        program = run_passes(capture.program, "absorb-attributes")
        outputs, found = cast("tuple[Value, Value]", program(**named))
        return outputs, found, capture

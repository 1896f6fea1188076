"""Training steps of a model of DeepXDE's PyTorch backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, Final

import numpy as np

from pirkit.deepxde.libtorch import torch
from pirkit.deepxde.native_model import NativeModel
from pirkit.deepxde.probes import Probe, Recording
from pirkit.deepxde.programs import Adam, Losses, NotCovered, tuples
from pirkit.deepxde.torch_functions import call
from pirkit.dialect.build import Value

Array = np.ndarray[Any, Any]
_SPECIAL: Final = (
    "amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay",
)  # fmt: skip
"""Settings of torch's Adam whose step `programs.py` does not compute."""
_LEARNS: Final = attrgetter("requires_grad")


class Accelerated(NativeModel):
    """A model whose weights, moments and steps are torch's tensors."""

    framework = "torch"
    objects = (torch.Tensor,)
    random_states = ((torch.get_rng_state, torch.set_rng_state),)

    def __init__(self, model: Any) -> None:
        self._steps: Array = np.zeros(0, np.float32)
        self._first: Any = None
        variables = [p for group in model.opt.param_groups for p in group["params"]]
        super().__init__(model, variables, Recorder(variables))

    def memory(self, variable: Any) -> Array:
        """See `NativeModel`."""
        if variable.layout != torch.strided or variable.device.type != "cpu":
            raise NotCovered("a variable is not in the memory of the CPU")
        if not variable.is_contiguous():
            raise NotCovered("a variable is not contiguous")
        return variable.detach().numpy()

    def learns(self, losses: Losses, data: Any) -> list[bool]:
        """See `NativeModel`. With weight decay, backward decides: it may not reach a variable.

        Torch leaves such a variable alone, also its decay.
        """
        learns = [v.requires_grad for v in self.variables]
        if not any(group.get("weight_decay") for group in self.model.opt.param_groups):
            return learns
        trained = [*compress(self.variables, learns)]
        slopes = iter(torch.autograd.grad(losses(*data)[1].sum(), trained, allow_unused=True))
        return [learned and next(slopes) is not None for learned in learns]

    def places(self) -> Any:
        """See `NativeModel`."""
        return [*map(torch.Tensor.data_ptr, self.variables), *map(_LEARNS, self.variables)]

    def tensor(self, array: Array) -> Any:
        """See `NativeModel`."""
        return torch.from_numpy(array)

    def adam(self) -> Adam | None:
        """See `NativeModel`. Adam is native with weight decay, without torch's other options."""
        opt = self.model.opt
        if type(opt) is not torch.optim.Adam:
            return None
        first = opt.param_groups[0]
        decays: list[float] = []
        for group in opt.param_groups:
            plain = not any(group.get(k) for k in _SPECIAL)
            same = all(group[k] == first[k] for k in ("betas", "eps", "lr"))
            if not plain or not same or isinstance(group["lr"], torch.Tensor):
                return None
            decays += [float(group["weight_decay"])] * len(group["params"])
        return Adam(tuple(first["betas"]), first["eps"], tuple(decays))

    def moments(self) -> list[Array] | None:
        """See `NativeModel`. Puts zeros into torch's state of Adam where there is none yet.

        Raises NotCovered if variables have made different numbers of steps.
        """
        state = self.model.opt.state
        if self._first is not None and state[self.variables[0]].get("exp_avg") is self._first:
            return None
        names = ("exp_avg", "exp_avg_sq")
        found = [
            [state[v].get(n, torch.zeros_like(v.detach())).contiguous() for v in self.variables]
            for n in names
        ]
        steps = torch.tensor([float(state[v].get("step", 0.0)) for v in self.variables])
        if len(set(steps.tolist())) > 1:
            raise NotCovered("variables have made different numbers of steps")
        self._steps, self._first = steps.numpy(), found[0][0]
        for i, v in enumerate(self.variables):
            parts = {n: part[i] for n, part in zip(names, found, strict=True)}
            state[v].update({"step": steps[i], **parts})
        return [t.numpy() for part in found for t in part]

    def next_step(self, adam: Adam) -> tuple[float, float]:
        """See `NativeModel`."""
        step = float(self._steps[0]) + 1
        one, two = adam.betas
        return self.model.opt.param_groups[0]["lr"] / (1 - one**step), (1 - two**step) ** 0.5

    def count_step(self, adam: Adam) -> None:
        """See `NativeModel`."""
        self._steps += 1

    def with_gradients(self, gradients: list[Array | None], losses: Callable[[], Array]) -> None:
        """See `NativeModel`."""
        if type(self.model.opt).__name__ == "NNCG":
            raise NotCovered("NNCG differentiates gradients in torch")
        held = [None if g is None else torch.from_numpy(g) for g in gradients]

        def closure() -> Any:
            for v, gradient in zip(self.variables, held, strict=True):
                v.grad = gradient
            return torch.from_numpy(losses())

        self.model.opt.step(closure)

    def schedule(self) -> None:
        """See `NativeModel`."""
        if self.model.lr_scheduler is not None:
            self.model.opt._opt_called = True  # torch's schedules warn if it is not set
            self.model.lr_scheduler.step()


class Recorder:
    """Records losses on probes (`probes.py`)."""

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables

    def __call__(
        self, losses: Losses, data: Any, xs: Sequence[Value], values: Sequence[Value]
    ) -> tuple[Value, Value, Any]:
        """See `programs.Record`."""
        points = len(tuples(data[0]))
        known = {id(v): value for v, value in zip(self.variables, values, strict=True)}
        recording = Recording(known, xs[points - 1].shape[0], call)
        probes = tuple(map(Probe.of, xs))
        inputs = probes[:points] if isinstance(data[0], tuple) else probes[0]
        more = iter(probes[points:])
        with recording:
            outputs, found = losses(inputs, *[None if p is None else next(more) for p in data[1:]])
        return recording.whole(outputs), recording.whole(found), recording

"""Training steps, losses and predictions of a DeepXDE model, in native code."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from pirkit.deepxde.libraries import deepxde, torch
from pirkit.deepxde.probes import NotCovered
from pirkit.deepxde.programs import MOST_KINDS, Adam, Bound, Losses, Programs, flat, tuples
from pirkit.diag.errors import PirkitError, UsageError

Array = np.ndarray[Any, Any]
_SPECIAL: Final = (
    "amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay",
)  # fmt: skip
"""Settings of Adam with which a step of torch's is another than ours."""
_POINTS: Final = ("train_x", "test_x", "train_aux_vars", "test_aux_vars")
"""Attributes of DeepXDE's data that their losses read."""


def accelerate(model: Any) -> Any:
    """Let a compiled model train in native code; returns the model.

    Call it after each ``model.compile``. The model's own Python (network, PDE, conditions,
    transforms, losses) is recorded once for each set of points; weights, moments and steps stay
    torch's tensors, which native code updates in place, so saving, restoring and callbacks work as
    before. With Adam the whole step is native; other optimizers are torch's, on native losses and
    slopes. What is not covered runs in torch as before, and one line says why.

    Raises UsageError for a model that is not compiled, or of another backend than PyTorch.
    """
    if deepxde.backend.backend_name != "pytorch":
        raise UsageError(
            f"`accelerate` takes models of the PyTorch backend, not {deepxde.backend.backend_name}",
            code="PK0701",
            help="set DDE_BACKEND=pytorch",
        )
    if model.train_step is None:
        raise UsageError(
            "the model is not compiled", code="PK0701", help="call `model.compile(...)` before"
        )
    Accelerated(model)
    return model


class Accelerated:
    """The native programs of a model, in place of its callables."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.variables = [p for group in model.opt.param_groups for p in group["params"]]
        self.programs = Programs(self.variables)
        self.refused: str | None = None
        self._bound: dict[Hashable, tuple[tuple[Any, ...], Bound]] = {}
        self._train, self._losses = model.train_step, model.outputs_losses_train
        self._tested, self._predicted = model.outputs_losses_test, model.outputs
        self._steps: Array = np.zeros(len(self.variables), np.float32)
        self._scalars: list[Array] = []
        self._moments: list[list[Any]] = []
        model.train_step = self._or_torch(self.train_step, self._train)
        model.outputs_losses_train = self._or_torch(
            lambda *data: self.losses("train", self._losses, data), self._losses
        )
        model.outputs_losses_test = self._or_torch(
            lambda *data: self.losses("test", self._tested, data), self._tested
        )
        model.accelerated = self

    def _or_torch(self, ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
        def either(*args: Any) -> Any:
            if self.refused is None:
                try:
                    return ours(*args)
                except (NotCovered, PirkitError, TypeError, AttributeError, ValueError) as error:
                    self.refuse(str(getattr(error, "message", error)).partition("\n")[0])
            return theirs(*args)

        return either

    def refuse(self, reason: str) -> None:
        """Let torch run the model from now on."""
        self.refused = reason
        print(f"pirkit.deepxde: torch runs this model: {reason}", file=sys.stderr)

    # --- programs by points ---

    def _program(
        self, kind: Hashable, losses: Losses, data: tuple[Any, Any, Any], make: Callable[[], Bound]
    ) -> Bound:
        """The bound program of a kind for these points, recorded anew if they are others."""
        arrays = flat(data)
        key = (kind, str(self.model.loss_weights), *[a.shape for a in arrays])
        fixed = self._fixed(data)
        held = self._bound.get(key)
        if held is None or not (
            len(held[0]) == len(fixed) and all(map(operator.is_, held[0], fixed))
        ):
            if len(self._bound) >= MOST_KINDS:
                self._bound.clear()
            held = self._bound[key] = (fixed, make())
        held[1].take(arrays)
        return held[1]

    def _fixed(self, data: tuple[Any, Any, Any]) -> tuple[Any, ...]:
        """What a recording read besides its inputs, so that others need another recording.

        DeepXDE's own data read their sets of points, which are others than the inputs where these
        are batches. Data of the user's may read any thing, so each batch is recorded.
        """
        held = self.model.data
        if not type(held).__module__.startswith("deepxde."):
            return (*tuples(data[0]), *data[1:])
        parts = [held, getattr(held, "pde", None)]
        return tuple([a for d in parts for n in _POINTS for a in tuples(getattr(d, n, None))])

    def losses(self, kind: str, theirs: Losses, data: tuple[Any, Any, Any]) -> Any:
        """Outputs of the network and losses, as DeepXDE's `outputs_losses`."""

        def make() -> Bound:
            return self.programs.bound(theirs, data, None, ()).write_to({})

        bound = self._program(kind, theirs, data, make)
        bound.run()
        return tuple([torch.from_numpy(bound.results[f"y{i}"].copy()) for i in range(2)])

    # --- steps ---

    def train_step(self, *data: Any) -> None:
        """One step of the optimizer, and of the schedule of its rate."""
        settings = self._adam()
        if settings is None:
            self._with_torch(data)
        else:
            self._with_adam(settings, data)
        if self.model.lr_scheduler is not None:
            self.model.opt._opt_called = True  # what torch's schedules look for
            self.model.lr_scheduler.step()

    def _adam(self) -> Adam | None:
        """The settings of an optimizer that is native: Adam as torch has it by default."""
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

    def _with_adam(self, adam: Adam, data: Any) -> None:
        self._prepare_moments()
        bound = self._program(
            ("adam", adam), self._losses, data, lambda: self._adam_step(adam, data)
        )
        self._steps += 1
        step = float(self._steps[0])
        one, two = adam.betas
        self._scalars[0][()] = self.model.opt.param_groups[0]["lr"] / (1 - one**step)
        self._scalars[1][()] = (1 - two**step) ** 0.5
        bound.run()

    def _adam_step(self, adam: Adam, data: Any) -> Bound:
        moments = [t.numpy() for part in self._moments for t in part]
        bound = self.programs.bound(self._losses, data, adam, [*self._scalars, *moments])
        places = [v.detach().numpy() for v in self.variables] + moments
        return bound.write_to({f"y{i + 2}": a for i, a in enumerate(places)})

    def _prepare_moments(self) -> None:
        """The state of Adam, as torch keeps it: zeros, or what was restored."""
        state = self.model.opt.state
        first = state[self.variables[0]]
        if self._moments and first.get("exp_avg") is self._moments[0][0]:
            return
        self._bound.clear()
        names = ("exp_avg", "exp_avg_sq")
        self._moments = [
            [state[v].get(n, torch.zeros_like(v.detach())).contiguous() for v in self.variables]
            for n in names
        ]
        steps = torch.tensor([float(state[v].get("step", 0.0)) for v in self.variables])
        if len(set(steps.tolist())) > 1:
            raise NotCovered("variables have made different numbers of steps")
        self._steps = steps.numpy()
        for i, v in enumerate(self.variables):
            parts = {n: part[i] for n, part in zip(names, self._moments, strict=True)}
            state[v].update({"step": steps[i], **parts})
        kind = self.variables[0].detach().numpy().dtype
        self._scalars = [np.zeros((), kind), np.zeros((), kind)]

    def _with_torch(self, data: Any) -> None:
        """An optimizer of torch, on native losses and slopes."""
        if type(self.model.opt).__name__ == "NNCG":
            raise NotCovered("NNCG differentiates slopes in torch")
        bound = self._program("slopes", self._losses, data, lambda: self._loss_and_slopes(data))
        slopes = [torch.from_numpy(bound.results[f"y{i + 2}"]) for i in range(len(self.variables))]

        def closure() -> Any:
            for v, slope in zip(self.variables, slopes, strict=True):
                v.grad = slope
            bound.run()
            return torch.from_numpy(bound.results["y0"].copy())

        self.model.opt.step(closure)

    def _loss_and_slopes(self, data: Any) -> Bound:
        marker = [np.zeros((), self.variables[0].detach().numpy().dtype)]
        bound = self.programs.bound(self._losses, data, None, marker)
        places = [np.zeros_like(v.detach().numpy()) for v in self.variables]
        return bound.write_to({f"y{i + 2}": a for i, a in enumerate(places)})

"""Kernels for optimizer steps: one pass over a parameter and its state, in place."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import walker
from pirkit.runtime.registry import kernel

_MASTER: Final = {"param_out": "param", "master_param_out": "master_param"}
_ADAM: Final = {
    f"{name}_out": name
    for name in ("param", "moment1", "moment2", "moment2_max", "beta1_pow", "beta2_pow")
}


def _is_uniform(b: Binding, state: Sequence[int]) -> bool:
    """True if the parameter and the operands in ``state`` have one element type."""
    return all(b.input(i).dtype is b.dtype for i in state if b.inputs[i] is not None)


def _average(mean: Array, value: Array, keep: float, out: Array, w: Array) -> None:
    """``keep * mean + (1 - keep) * value``; ``w`` may be ``value``."""
    np.multiply(value, 1 - keep, w)
    np.multiply(mean, keep, out)
    np.add(out, w, out)


def _copy_unless_same(given: Sequence[Any], made: Sequence[Any]) -> None:
    """Copy parameter and state unchanged, for a step that is skipped."""
    for value, out in zip(given, made, strict=True):
        if value is not None:
            np.copyto(out, value)


@kernel("sgd_", dtypes=dt.FLOATS, inplace=_MASTER, widen=True)
def sgd(b: Binding) -> Step | None:
    """``param - learning_rate * grad``."""
    if not _is_uniform(b, (2, 3)):
        return None
    walk = walker(b, b.input().shape)

    def step(param: Array, lr: Array, grad: Array, master: Any, out: Array, wide: Any) -> None:
        rate = lr.item()

        def passes(p: Array, g: Array, p_out: Array, w: Array) -> None:
            np.multiply(g, rate, w)
            np.subtract(p, w, p_out)

        if master is None:
            walk(passes, param, grad, out)
        else:
            walk(passes, master, grad, wide)
            np.copyto(out, wide)

    return step


@kernel("momentum_", dtypes=dt.FLOATS, inplace={**_MASTER, "velocity_out": "velocity"}, widen=True)
def momentum(b: Binding) -> Step | None:
    """The plain and the nesterov form, with or without decay."""
    if not _is_uniform(b, (1, 2, 4)):
        return None
    walk, attrs = walker(b, b.input().shape), b.attrs
    mu, is_nesterov = attrs["mu"], attrs["use_nesterov"]
    decay = attrs["regularization_coeff"] if attrs["regularization_method"] == "l2_decay" else 0.0

    def step(
        param: Array, grad: Array, velocity: Array, lr: Array, master: Any,
        param_out: Array, velocity_out: Array, master_out: Any,
    ) -> None:  # fmt: skip
        rate = lr.item()

        def passes(p: Array, g: Array, v: Array, p_out: Array, v_out: Array, w: Array) -> None:
            gradient = np.add(np.multiply(p, decay, w), g, w) if decay else g
            np.multiply(v, mu, v_out)
            np.add(v_out, gradient, v_out)
            if is_nesterov:
                np.multiply(gradient, rate, w)
                np.subtract(p, w, p_out)
                np.multiply(v_out, rate * mu, w)
                np.subtract(p_out, w, p_out)
            else:
                np.multiply(v_out, rate, w)
                np.subtract(p, w, p_out)

        if master is None:
            walk(passes, param, grad, velocity, param_out, velocity_out)
        else:
            walk(passes, master, grad, velocity, master_out, velocity_out)
            np.copyto(param_out, master_out)

    return step


@kernel("adam_", "adamw_", dtypes=dt.FLOATS, inplace={**_MASTER, **_ADAM}, widen=True)
def adam(b: Binding) -> Step | None:
    """Updates both moments, the parameter and the powers; adamw decays the parameter first."""
    if not _is_uniform(b, (1, 3, 4, 5, 8)):
        return None
    walk, attrs = walker(b, b.input().shape), b.attrs
    beta1, beta2, epsilon = attrs["beta1"], attrs["beta2"], attrs["epsilon"]
    decay = attrs["lr_ratio"] * attrs["coeff"] if attrs.get("with_decay") else 0.0
    preserves_powers = attrs["use_global_beta_pow"]

    def step(
        param: Array, grad: Array, lr: Array, m1: Array, m2: Array, top: Any, pow1: Array,
        pow2: Array, master: Any, skip: Any, param_out: Array, m1_out: Array, m2_out: Array,
        top_out: Any, pow1_out: Array, pow2_out: Array, master_out: Any,
    ) -> None:  # fmt: skip
        if skip is not None and skip.item():
            given = (param, m1, m2, top, pow1, pow2, master)
            made = (param_out, m1_out, m2_out, top_out, pow1_out, pow2_out, master_out)
            _copy_unless_same(given, made)
            return
        rate, root = lr.item(), float(np.sqrt(1 - pow2.item()))
        size, floor, left = rate * root / (1 - pow1.item()), epsilon * root, 1 - rate * decay

        def move(p: Array, mean: Array, square: Array, p_out: Array, w: Array) -> None:
            np.sqrt(square, w)
            np.add(w, floor, w)
            np.divide(mean, w, w)
            np.multiply(w, size, w)
            np.subtract(np.multiply(p, left, p_out) if decay else p, w, p_out)

        def passes(
            p: Array, g: Array, m1: Array, m2: Array, p_out: Array, m1_out: Array, m2_out: Array,
            *rest: Array,
        ) -> None:  # fmt: skip
            *greatest, w = rest
            _average(m1, g, beta1, m1_out, w)
            _average(m2, np.square(g, w), beta2, m2_out, w)
            square = m2_out
            if greatest:
                square = np.maximum(greatest[0], m2_out, out=greatest[1])
            move(p, m1_out, square, p_out, w)

        p, p_out = (param, param_out) if master is None else (master, master_out)
        arrays = (p, grad, m1, m2, p_out, m1_out, m2_out)
        if attrs["amsgrad"]:
            walk(passes, *arrays, top, top_out)
        else:
            walk(passes, *arrays)
            if top is not None:
                np.copyto(top_out, top)
        if master is not None:
            np.copyto(param_out, master_out)
        np.multiply(pow1, 1 if preserves_powers else beta1, pow1_out)
        np.multiply(pow2, 1 if preserves_powers else beta2, pow2_out)

    return step


@kernel("rmsprop_", dtypes=dt.FLOATS, widen=True, inplace={
    "param_out": "param", "moment_out": "moment", "mean_square_out": "mean_square",
    "mean_grad_out": "mean_grad", "master_param_outs": "master_param",
})  # fmt: skip
def rmsprop(b: Binding) -> Step | None:
    """The plain form; centered steps and those with a master parameter run the reference rule."""
    attrs = b.attrs
    if attrs["centered"] or b.inputs[6] is not None or not _is_uniform(b, (1, 2, 3)):
        return None
    walk = walker(b, b.input().shape)
    decay, epsilon, inertia = attrs["decay"], attrs["epsilon"], attrs["momentum"]

    def step(
        param: Array, square: Array, grad: Array, moment: Array, lr: Array, mean: Any, master: Any,
        param_out: Array, moment_out: Array, square_out: Array, mean_out: Any, master_out: Any,
    ) -> None:  # fmt: skip
        rate = lr.item()

        def passes(
            p: Array, s: Array, g: Array, m: Array, p_out: Array, m_out: Array, s_out: Array,
            w: Array,
        ) -> None:  # fmt: skip
            _average(s, np.square(g, w), decay, s_out, w)
            np.add(s_out, epsilon, w)
            np.sqrt(w, w)
            np.divide(g, w, w)
            np.multiply(w, rate, w)
            np.multiply(m, inertia, m_out)
            np.add(m_out, w, m_out)
            np.subtract(p, m_out, p_out)

        walk(passes, param, square, grad, moment, param_out, moment_out, square_out)
        if mean is not None:
            np.copyto(mean_out, mean)

    return step


@kernel("adagrad_", dtypes=dt.FLOATS, inplace={**_MASTER, "moment_out": "moment"}, widen=True)
def adagrad(b: Binding) -> Step | None:
    """A step without a master parameter; one with it runs the reference rule."""
    if b.inputs[4] is not None or not _is_uniform(b, (1, 2)):
        return None
    walk, epsilon = walker(b, b.input().shape), b.attrs["epsilon"]

    def step(
        param: Array, grad: Array, moment: Array, lr: Array, master: Any,
        param_out: Array, moment_out: Array, master_out: Any,
    ) -> None:  # fmt: skip
        rate = lr.item()

        def passes(p: Array, g: Array, m: Array, p_out: Array, m_out: Array, w: Array) -> None:
            np.square(g, w)
            np.add(m, w, m_out)
            np.sqrt(m_out, w)
            np.add(w, epsilon, w)
            np.divide(g, w, w)
            np.multiply(w, rate, w)
            np.subtract(p, w, p_out)

        walk(passes, param, grad, moment, param_out, moment_out)

    return step


_LAMB: Final = {
    f"{name}_out": name for name in ("param", "moment1", "moment2", "beta1_pow", "beta2_pow")
}


@kernel(
    "lamb_", dtypes=dt.FLOATS, inplace={**_LAMB, "master_param_outs": "master_param"}, widen=True
)
def lamb(b: Binding) -> Step | None:
    """Two passes: the step size depends on the norm of the whole direction."""
    if not _is_uniform(b, (1, 3, 4, 7)):
        return None
    walk, attrs = walker(b, b.input().shape), b.attrs
    beta1, beta2, epsilon = attrs["beta1"], attrs["beta2"], attrs["epsilon"]
    decay = attrs["weight_decay"]
    adapts = attrs["always_adapt"] or decay > 0
    direction = b.workspace(b.input().shape)

    def step(
        param: Array, grad: Array, lr: Array, m1: Array, m2: Array, pow1: Array, pow2: Array,
        master: Any, skip: Any, param_out: Array, m1_out: Array, m2_out: Array, pow1_out: Array,
        pow2_out: Array, master_out: Any,
    ) -> None:  # fmt: skip
        if skip is not None and skip.item():
            given = (param, m1, m2, pow1, pow2, master)
            made = (param_out, m1_out, m2_out, pow1_out, pow2_out, master_out)
            _copy_unless_same(given, made)
            return
        first, second = 1 / (1 - pow1.item()), 1 / (1 - pow2.item())
        rate, norms = lr.item(), [0.0, 0.0]

        def find(
            p: Array, g: Array, m1: Array, m2: Array, m1_out: Array, m2_out: Array, along: Array,
            w: Array,
        ) -> None:  # fmt: skip
            _average(m1, g, beta1, m1_out, w)
            _average(m2, np.square(g, w), beta2, m2_out, w)
            np.multiply(m2_out, second, w)
            np.sqrt(w, w)
            np.add(w, epsilon, w)
            np.multiply(m1_out, first, along)
            np.divide(along, w, along)
            if decay:
                np.add(along, np.multiply(p, decay, w), along)
            if adapts:
                norms[0] += float(np.square(p, w).sum())
                norms[1] += float(np.square(along, w).sum())

        p, p_out = (param, param_out) if master is None else (master, master_out)
        walk(find, p, grad, m1, m2, m1_out, m2_out, direction)
        is_long = norms[0] > 0 and norms[1] > 0
        length = rate * sqrt(norms[0] / norms[1]) if is_long else rate

        def move(p: Array, along: Array, p_out: Array, w: Array) -> None:
            np.subtract(p, np.multiply(along, length, w), p_out)

        walk(move, p, direction, p_out)
        if master is not None:
            np.copyto(param_out, master_out)
        np.multiply(pow1, beta1, pow1_out)
        np.multiply(pow2, beta2, pow2_out)

    return step

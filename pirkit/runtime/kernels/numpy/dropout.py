"""Dropout, loss scaling, clipping of gradients, and the Kullback-Leibler loss."""

from __future__ import annotations

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.convert import constant, widened
from pirkit.runtime.registry import kernel


@kernel("dropout", dtypes=(dt.float32, dt.float64))
def dropout(b: Binding) -> Step | None:
    """The mask is one draw of uniform numbers, as in the decomposition."""
    p, upscale = b.attrs["p"], b.attrs["mode"] == "upscale_in_train"
    if p >= 1:
        return None
    if b.attrs["is_test"] or b.generator is None:
        factor = constant(1.0 if upscale else 1 - p, b.dtype)

        def keep(x: Array, _seed: Array | None, out: Array, mask: Array | None) -> None:
            np.multiply(x, factor, out)
            if mask is not None:
                mask[...] = 1

        return keep
    factor = constant(1 / (1 - p) if upscale else 1.0, b.dtype)
    generator = b.generator
    drawn = np.empty(b.input().shape)
    keep_mask = np.empty(b.input().shape, np.bool_)

    def step(x: Array, _seed: Array | None, out: Array, mask: Array | None) -> None:
        drawn[...] = generator().random(drawn.shape)
        np.greater_equal(drawn, p, keep_mask)
        np.multiply(x, factor, out)
        np.copyto(out, 0, where=~keep_mask)
        if mask is not None:
            mask[...] = keep_mask

    return step


@kernel("squared_l2_norm", dtypes=dt.FLOATS, widen=True)
def squared_l2_norm(b: Binding) -> Step:
    """One pass over the elements, in BLAS where they lie in order."""

    def step(x: Array, out: Array) -> None:
        flat = x.reshape(-1)
        out[0] = np.dot(flat, flat)

    return step


@kernel("clip_by_norm", dtypes=dt.FLOATS, widen=True, inplace={"out": "x"})
def clip_by_norm(b: Binding) -> Step:
    most = b.attrs["max_norm"]

    def step(x: Array, out: Array) -> None:
        flat = x.reshape(-1)
        norm = np.sqrt(np.dot(flat, flat))
        if norm > most:
            np.multiply(x, x.dtype.type(most / norm), out)
        elif out is not x:
            out[...] = x

    return step


@kernel("check_finite_and_unscale_", dtypes=dt.FLOATS, inplace={"out": "x"})
def check_finite_and_unscale(b: Binding) -> Step:
    """From the first gradient that is not finite on, all are multiplied by 0, as in Paddle."""

    def step(x: list[Array], scale: Array, out: list[Array], found_infinite: Array) -> None:
        factor = 1 / widened(scale).reshape(())
        found = False
        for each, goal in zip(x, out, strict=True):
            found = found or not np.isfinite(each).all()
            np.multiply(each, 0 if found else factor, goal, casting="unsafe")
        found_infinite[...] = found

    return step


@kernel("update_loss_scaling_", dtypes=dt.FLOATS, inplace={
    "out": "x", "loss_scaling": "prev_loss_scaling", "out_good_steps": "in_good_steps",
    "out_bad_steps": "in_bad_steps",
})  # fmt: skip
def update_loss_scaling(b: Binding) -> Step:
    """The scale grows after a number of finite steps and shrinks after some that were not;
    gradients of the latter become zero.
    """
    a = b.attrs

    def step(
        x: list[Array],
        found_infinite: Array,
        scaling: Array,
        good: Array,
        bad: Array,
        out: list[Array],
        scaling_out: Array,
        good_out: Array,
        bad_out: Array,
    ) -> None:
        is_bad = bool(found_infinite.reshape(()))
        for each, goal in zip(x, out, strict=True):
            if is_bad:
                goal.fill(0)
            elif goal is not each:
                goal[...] = each
        scale, goods, bads = scaling.copy(), good, bad
        if not a["stop_update"]:
            none, one = np.zeros_like(good), np.ones_like(good)
            goods, bads = (none, bad + one) if is_bad else (good + one, none)
            kind = scale.dtype.type
            if is_bad and bads.item() == a["decr_every_n_nan_or_inf"]:
                scale, bads = np.maximum(scale * kind(a["decr_ratio"]), kind(1)), none
            if not is_bad and goods.item() == a["incr_every_n_steps"]:
                larger = scale * kind(a["incr_ratio"])
                scale, goods = np.where(np.isfinite(larger), larger, scale), none
        scaling_out[...] = scale
        good_out[...] = goods
        bad_out[...] = bads

    return step


@kernel("kldiv_loss", dtypes=dt.FLOATS, widen=True)
def kldiv_loss(b: Binding) -> Step:
    """``label * (log(label) - x)``, zero where the label is not above zero."""
    reduction, is_log = b.attrs["reduction"], b.attrs["log_target"]
    shape = b.input().shape
    count = b.input().numel if reduction == "mean" else (shape[0] if shape else 1)
    loss = b.workspace(shape)

    def step(x: Array, label: Array, out: Array) -> None:
        goal = out if reduction == "none" else loss
        if is_log:
            np.subtract(label, x, goal)
            np.multiply(goal, np.exp(label), goal)
        else:
            is_none = label <= 0
            np.log(np.where(is_none, label.dtype.type(1), label), goal)
            np.subtract(goal, x, goal)
            np.multiply(goal, label, goal)
            np.copyto(goal, 0, where=is_none)
        if reduction != "none":
            total = goal.sum()
            out[...] = total if reduction == "sum" else total / total.dtype.type(count)

    return step

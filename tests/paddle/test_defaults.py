"""The defaults of `pirkit.ops` are those of Paddle's functions of the same name."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import pytest

from pirkit import ops
from pirkit.frontend.python_defaults import SameAs

paddle = pytest.importorskip("paddle")

OTHERWISE = {
    ("arange", "start"): "an operand; `pirkit.numpy.arange` takes one number",
    ("arange", "end"): "an operand",
    ("arange", "step"): "an operand",
    ("var", "unbiased"): "`correction` decides; Paddle computes that from it",
    ("batch_norm", "use_global_stats"): "None is False in inference",
    ("cummax", "axis"): "flattens without one; the op cannot",
    ("cummin", "axis"): "flattens without one; the op cannot",
    ("cumprod", "dim"): "flattens without one; the op cannot",
    ("cumprod_", "dim"): "flattens without one; the op cannot",
    ("embedding", "padding_idx"): "-1 stands for None",
    ("fractional_max_pool2d", "return_mask"): "the op always has both results",
    ("fractional_max_pool3d", "return_mask"): "the op always has both results",
    ("hsigmoid_loss", "is_sparse"): "the op has more operands",
    ("kthvalue", "axis"): "None is the last one",
    ("lstsq", "driver"): "None is gels on the CPU",
    ("logspace", "base"): "an operand",
    ("matrix_rank", "tol"): "the op takes a tensor",
    ("norm", "axis"): "another function: the op normalizes",
    ("one_hot", "num_classes"): "-1 reads the data",
    ("randint", "high"): "None exchanges the bounds",
    ("repeat_interleave", "axis"): "flattens without one; the op cannot",
    ("repeat_interleave", "output_size"): "-1 stands for None",
    ("topk", "axis"): "None is the last one",
    ("where", "x"): "another op finds what is not zero",
    ("where", "y"): "another op finds what is not zero",
    ("where_", "x"): "another op finds what is not zero",
    ("where_", "y"): "another op finds what is not zero",
}
"""What has another default, by op and parameter, and why."""

PLAIN = {"dtype", "data_format", "place", "name"}
"""Parameters whose defaults are spelled in another way: None is the default element type."""


def plain(value: Any) -> Any:
    """A default without the difference of lists, tuples, None, single sizes and enumerations."""
    if value is None or (isinstance(value, list | tuple) and (not value or set(value) == {0})):
        return ()
    if isinstance(value, list | tuple):
        return value[0] if len(set(value)) == 1 else tuple(value)
    return () if value == 0 and not isinstance(value, bool) else value


def found(name: str) -> Any:
    modules = (paddle, paddle.nn.functional, paddle.linalg, paddle.geometric, paddle.vision.ops)
    return next((getattr(m, name) for m in modules if callable(getattr(m, name, None))), None)


def different() -> set[tuple[str, str]]:
    result: set[tuple[str, str]] = set()
    for name in dir(ops):
        function = found(name)
        if name.startswith("_") or function is None:
            continue
        own = signature(getattr(ops, name)).parameters
        try:
            theirs = signature(function).parameters
        except ValueError:  # a class of C++
            continue
        for key in (own.keys() & theirs.keys()) - PLAIN:
            default, wanted = own[key].default, theirs[key].default
            if wanted is Parameter.empty or isinstance(default, SameAs):
                continue
            is_word = isinstance(default, str) and isinstance(wanted, str)
            same = default.lower() == wanted.lower() if is_word else plain(default) == plain(wanted)
            infinite = default in (float("inf"), float("-inf")) and wanted is None
            result |= set() if same or infinite else {(name, key)}
    return result


def test_defaults_are_those_of_paddle() -> None:
    assert different() == OTHERWISE.keys()

"""Torch's elementwise functions as operations of pirkit, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

import pirkit
from pirkit.deepxde.libtorch import torch
from pirkit.deepxde.probes import Probe
from pirkit.deepxde.programs import NotCovered
from pirkit.dialect.build import Value

ops: Final[Any] = pirkit.ops
Rule = Callable[..., Any]

_SAME_NAME: Final = (
    "tanh sin cos exp sigmoid silu relu log sqrt rsqrt abs square tan sinh cosh asin acos atan"
    " asinh acosh atanh erf erfinv expm1 log1p log2 log10 floor ceil reciprocal softsign mish"
    " lgamma digamma i0 round trunc atan2 heaviside relu6 tanh_shrink"
)
_OTHER_NAME: Final = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "absolute": "abs", "special_expm1": "expm1",
    "special_log1p": "log1p", "special_erf": "erf", "special_expit": "sigmoid", "special_i0": "i0",
    "special_i0e": "i0e", "special_i1": "i1", "special_i1e": "i1e", "special_gammaln": "lgamma",
    "special_digamma": "digamma", "logsigmoid": "logsigmoid", "tanhshrink": "tanh_shrink",
}  # fmt: skip
_BY_ATEN: Final = (
    "clamp", "clip", "elu", "selu", "leaky_relu", "sign", "fmod", "float_power",
)  # fmt: skip
operator: Final[Any] = import_module("operator")
"""Untyped, for the rules take values and numbers alike."""

_BINARY: Final[dict[str, Rule]] = {
    "mul": operator.mul, "multiply": operator.mul, "pow": operator.pow,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "less": operator.lt, "greater": operator.gt, "remainder": operator.mod,
}  # fmt: skip


def _named(name: str, *given: Any, inplace: bool = False) -> Any:
    return getattr(ops, name)(*given)


def _swapped(rule: Rule, x: Any, y: Any) -> Any:
    return rule(y, x)


def _scaled(rule: Rule, x: Any, y: Any, alpha: Any = 1) -> Any:
    """A sum or difference, with torch's factor ``alpha``."""
    return rule(x, y if alpha == 1 else y * alpha)


def _division(x: Any, y: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise NotCovered("a division that rounds is not recorded")
    return x / y


def _gelu(x: Any, approximate: str = "none") -> Any:
    return ops.gelu(x, approximate=approximate == "tanh")


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return ops.softplus(x, beta=beta, threshold=threshold)


def filled(like: Any, number: Any) -> Any:
    """A number as a tensor like another."""
    return number if isinstance(number, Value) else like.b.like(float(number), like)


def _best(name: str, x: Any, y: Any) -> Any:
    x, y = (x, filled(x, y)) if isinstance(x, Value) else (filled(y, x), y)
    return getattr(ops, name)(x, y)


def _by_aten(name: str, *given: Any, inplace: bool = False, **named: Any) -> Any:
    """By the rules for ATen's ops, which have torch's derivatives also where there is a kink."""
    # Imported where needed: torch's recorder takes two seconds to load.
    aten: Any = import_module("pirkit.deepxde.aten_functions")
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    args = [Probe.of(v) if isinstance(v, Value) else v for v in given]
    return aten.recorded(function, args, named, operator.attrgetter("value"))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return pirkit.where(condition, x, y)


ELEMENTWISE: Final[dict[str, Rule]] = {
    **{name: partial(_named, name) for name in _SAME_NAME.split()},
    **{theirs: partial(_named, ours) for theirs, ours in _OTHER_NAME.items()},
    **_BINARY,
    **{f"r{name}": partial(_swapped, _BINARY[name]) for name in ("mul", "pow")},
    **{name: partial(_scaled, operator.add) for name in ("add", "radd")},
    **{name: partial(_scaled, operator.sub) for name in ("sub", "subtract")},
    **{name: partial(_swapped, operator.sub) for name in ("rsub",)},
    **{name: _division for name in ("div", "divide", "true_divide", "truediv")},
    **{name: partial(_swapped, operator.truediv) for name in ("rdiv", "rtruediv")},
    **{name: operator.neg for name in ("neg", "negative")},
    **{name: partial(_by_aten, name) for name in _BY_ATEN},
    **{name: partial(_best, name) for name in ("maximum", "minimum")},
    "gelu": _gelu,
    "softplus": _softplus,
    **{name: partial(_named, name) for name in ("real", "imag")},
    "where": _where,
}
"""What each function does with values and numbers; all rows of a batch are computed alike."""

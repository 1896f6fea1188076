"""The decompositions of torch that capture uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pirkit.torch.libtorch import aten, decomposition
from pirkit.torch.rules import RULES

_TABLES: Final[list[dict[Any, Callable[..., Any]]]] = []


def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions of overloads that have no rule."""
    if not _TABLES:
        known = decomposition.core_aten_decompositions()
        more = decomposition.get_decompositions(
            [
                aten._scaled_dot_product_flash_attention_for_cpu,
                aten._native_batch_norm_legit_functional,
                aten.native_dropout_backward,
                aten.rrelu_with_noise_functional,
                aten.multilabel_margin_loss_forward,
                aten.linear_backward,
                aten.elu_backward,
                aten.im2col,
            ]
        )
        table = {op: d for op, d in {**more, **known}.items() if str(op) not in RULES}
        _TABLES.append(table)
    return _TABLES[0]

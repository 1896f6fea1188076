"""The form of an operation: its structural properties, and how many regions it has."""

from __future__ import annotations

from typing import Final

OPERAND_SEGMENTS: Final = "operandSegmentSizes"
RESULT_SEGMENTS: Final = "resultSegmentSizes"
ARG_ATTRS: Final = "arg_attrs"
KEYWORD: Final = "keyword"
STRUCTURAL: Final = frozenset({OPERAND_SEGMENTS, RESULT_SEGMENTS, ARG_ATTRS})
"""Properties that describe the form of an op, not its meaning."""

REGIONS: Final = {"pd_op.if": 2, "pd_op.while": 1, "pd_op.pylayer": 1}
"""Ops with regions, and how many."""

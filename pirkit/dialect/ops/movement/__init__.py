"""Ops that move, repeat, join or reinterpret elements without computing."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.movement import (  # noqa: F401
    channel_shuffle,
    concat,
    copy,
    diagonals,
    movement,
    padding,
    shape,
    triangular,
)

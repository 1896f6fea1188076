"""Index rules: which elements of its operands an element of a result is made from."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.index_maps import (  # noqa: F401
    concat_maps,
    elementwise_maps,
    gather_maps,
    library,
    movement_maps,
    reduction_maps,
    result_shapes,
    scatter_maps,
    window_maps,
)

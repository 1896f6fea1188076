"""Index rules: which elements of its operands an element of a result is made from."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.index_maps import concat_maps as concat_maps
from pirkit.dialect.rules.index_maps import elementwise_maps as elementwise_maps
from pirkit.dialect.rules.index_maps import gather_maps as gather_maps
from pirkit.dialect.rules.index_maps import library as library
from pirkit.dialect.rules.index_maps import movement_maps as movement_maps
from pirkit.dialect.rules.index_maps import reduction_maps as reduction_maps
from pirkit.dialect.rules.index_maps import result_shapes as result_shapes
from pirkit.dialect.rules.index_maps import scatter_maps as scatter_maps
from pirkit.dialect.rules.index_maps import window_maps as window_maps

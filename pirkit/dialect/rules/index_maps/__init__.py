"""Index rules: which elements of its operands an element of a result is made from."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.index_maps import elementwise as elementwise
from pirkit.dialect.rules.index_maps import joining as joining
from pirkit.dialect.rules.index_maps import library as library
from pirkit.dialect.rules.index_maps import movement as movement
from pirkit.dialect.rules.index_maps import picking as picking
from pirkit.dialect.rules.index_maps import reduction as reduction
from pirkit.dialect.rules.index_maps import shapes as shapes
from pirkit.dialect.rules.index_maps import windows as windows
from pirkit.dialect.rules.index_maps import writing as writing

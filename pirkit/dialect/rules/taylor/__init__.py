"""Taylor mode: series of results from series of operands."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.taylor import (  # noqa: F401
    series,
    series_arrays,
    series_bessel,
    series_derivatives,
    series_functions,
)

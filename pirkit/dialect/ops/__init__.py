"""The op families, in one package for each kind. Importing this package declares every op."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops import (  # noqa: F401
    control,
    creation,
    elementwise,
    gradient,
    indexing,
    linalg,
    loss,
    movement,
    nn,
    optimizer,
    random,
    reduction,
    sequence,
    vision,
)

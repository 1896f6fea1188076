"""Rules that rewrite ops into ops: decomposition, reverse mode, Taylor mode.

They are beside the op families instead of in them, so that a reader of an op is not slowed down by
its derivatives. Each package mirrors the package of the same name in ``dialect/ops``; the coverage
matrix (``pirkit-opt --list-ops``) shows which ops lack rules.
"""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules import (  # noqa: F401
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
    taylor,
    vision,
)

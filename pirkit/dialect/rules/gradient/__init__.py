"""Rules of Paddle's gradient ops."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.gradient import (  # noqa: F401
    paddle_gradients,
)

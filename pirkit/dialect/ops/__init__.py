"""The op families. Importing this package declares every op."""

from pirkit.dialect.ops import (  # noqa: F401
    linalg,
)

"""Fourier transforms, signal frames, padded sequences and graphs."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.sequence import (  # noqa: F401
    fft,
    graph,
    sequence,
    signal,
)

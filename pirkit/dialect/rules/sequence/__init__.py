"""Rules of Fourier transforms, signal frames, padded sequences and graphs."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.sequence import (  # noqa: F401
    fft,
    graph,
    sequence,
    signal,
)

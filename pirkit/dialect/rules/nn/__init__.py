"""Rules of neural network layers."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.nn import (  # noqa: F401
    attention,
    conv,
    dropout,
    interp,
    norm,
    pool,
    rnn,
    softmax,
    unfold,
)

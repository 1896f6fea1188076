"""Rules of neural network layers."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.nn import (  # noqa: F401
    attention,
    box_coder,
    conv,
    dropout,
    hsigmoid_loss,
    interp,
    matrix_rank,
    norm,
    pool,
    rnn,
    softmax,
    spectral_norm,
    transducer,
    unfold,
)

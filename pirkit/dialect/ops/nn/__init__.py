"""Layers of neural networks: convolution, pooling, normalization, attention, recurrence."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.nn import (  # noqa: F401
    attention,
    batch_norm,
    conv,
    conv_transpose,
    dropout,
    interp,
    lp_pool,
    norm,
    pool,
    pool_index,
    rnn,
    softmax,
    unfold,
    unpool,
)

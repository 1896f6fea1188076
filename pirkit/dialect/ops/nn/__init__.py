"""Layers of neural networks: convolution, pooling, normalization, attention, recurrence."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.nn import (  # noqa: F401
    attention,
    batch_norm,
    box_coder,
    conv,
    conv_transpose,
    dropout,
    hsigmoid_loss,
    interp,
    lp_pool,
    matrix_rank,
    nchwc_conv,
    nchwc_pool,
    norm,
    packed_matmul,
    pool,
    pool_index,
    quantized_matmul,
    rnn,
    softmax,
    spectral_norm,
    transducer,
    unfold,
    unpool,
    viterbi,
)

"""Fused kernels and lists of tensors, as loops use them."""

"""Tensors: dense, by rows, sparse, of strings, and arrays of them."""

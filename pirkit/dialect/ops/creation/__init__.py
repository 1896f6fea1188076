"""Tensors made from numbers and shapes."""

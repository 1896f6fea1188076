"""Matmul, factorizations and linear systems."""

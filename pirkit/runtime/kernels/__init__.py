"""Kernels, one package per backend."""

"""Gather and scatter: reads and writes at indices that tensors give."""

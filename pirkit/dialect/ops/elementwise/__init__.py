"""Ops that compute each element from one element of each operand."""

"""Python's control flow on tensors, converted from the source of functions."""

"""Multiply-add for pirkit, as a package outside of it."""

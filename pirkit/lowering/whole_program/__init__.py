"""Whole programs as one piece of native code."""

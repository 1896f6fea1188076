"""Lowers a whole program to native code that runs as one call."""

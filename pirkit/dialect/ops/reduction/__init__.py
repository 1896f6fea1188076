"""Reductions, scans, sorting, and sets."""

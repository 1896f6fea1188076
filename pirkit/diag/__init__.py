"""Spans, diagnostics, stable error codes, limits, and how a command ends."""

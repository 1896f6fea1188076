"""Tests generated from the op table."""

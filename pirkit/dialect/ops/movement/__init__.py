"""Ops that move, repeat, join or reinterpret elements without computing."""

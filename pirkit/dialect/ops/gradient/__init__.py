"""Paddle's gradient ops."""

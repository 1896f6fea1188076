"""Optimizer steps and loss scaling."""

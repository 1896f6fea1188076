"""Fourier transforms, signal frames, padded sequences and graphs."""

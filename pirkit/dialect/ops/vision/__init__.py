"""Sampling of images, regions of interest, and detection."""

"""Models for `tools/torch_graphs.py`: small configurations, with arguments of a call."""

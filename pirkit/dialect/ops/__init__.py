"""The op families, in one package for each kind: `op_index.py` imports them."""

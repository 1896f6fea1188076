"""Hostile calls of ops give on every backend what the reference gives."""

from __future__ import annotations

import random

from harness import fuzz, refuse

from tools.campaigns.op_table import examine


def target(data: bytes) -> None:
    """The first four bytes are the number of the case, the next four the seed."""
    number, seed = (int.from_bytes(data[k : k + 4], "little") for k in (0, 4))
    refuse(examine(seed, number))


def inputs(draw: random.Random) -> bytes:
    """Any case."""
    return draw.randbytes(8)


if __name__ == "__main__":
    fuzz(target, inputs)

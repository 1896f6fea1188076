"""The spelling of attributes in the pretty form, by operation; `read_module` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Form(NamedTuple):
    """How the pretty form of an operation spells attributes.

    ``names`` maps names of the pretty form to those of the generic one, where they differ.
    ``words`` are the attributes whose values stand alone, without a name, in order: keywords,
    symbols or strings.
    """

    names: Mapping[str, str] = {}
    words: tuple[str, ...] = ()


FORMS: Final[Mapping[str, Form]] = {
    "broadcast_in_dim": Form({"dims": "broadcast_dimensions"}),
    "transpose": Form({"dims": "permutation"}),
    "reverse": Form({"dims": "dimensions"}),
    "iota": Form({"dim": "iota_dimension"}),
    "concatenate": Form({"dim": "dimension"}),
    "get_dimension_size": Form({"dim": "dimension"}),
    "compare": Form(words=("comparison_direction", "compare_type")),
    "dynamic_slice": Form({"sizes": "slice_sizes"}),
    "slice": Form(words=("ranges",)),
    "pad": Form({"low": "edge_padding_low", "high": "edge_padding_high",
                 "interior": "interior_padding"}),
    "fft": Form({"type": "fft_type", "length": "fft_length"}),
    "constant": Form(words=("value",)),
    "custom_call": Form(words=("call_target_name",)),
    "composite": Form(words=("name",)),
    "call": Form(words=("callee",)),
    "reduce": Form(words=("combiner",)),
    "convolution": Form({"dim_numbers": "dimension_numbers"}),
    "rng_bit_generator": Form({"algorithm": "rng_algorithm"}),
}  # fmt: skip
"""Operations of StableHLO whose pretty form is more than operands, attributes and types."""

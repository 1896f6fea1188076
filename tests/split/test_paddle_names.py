"""Name lists and saved bytes beside those of Paddle, on every captured training program."""

from __future__ import annotations

from pathlib import Path

import pytest

from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import load
from pirkit.split import forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.split.paddle_names import by_value, names_of
from tests.split.saved_bytes import CASES, of_ours, of_paddle, rows

ROOT = Path(__file__).parents[2]

STATS = [f"batch_norm2d_{i}.w_{j}" for i in (0, 1) for j in (1, 2)]
DIFFERENCES = {
    # What batch normalisation has written into its statistics is the statistics: one storage, one
    # name. Paddle, since it dropped in-place sources, gives it a second one.
    ("conv_bn_train", "fm"): STATS,
    ("conv_bn_train", "bm"): STATS,
    ("conv_bn_train", "bp"): STATS,
    # A detached input that is returned is the input.
    ("gn_co_dino_r50_33", "fo"): ["_jst.2.data_2.0", "_jst.4.data_4.0"],
    # Only the shape is read, in a region or of an element of a list, where Paddle does not look.
    ("if_else", "no_need_buffers"): ["linear_0.b_0", "linear_1.b_0"],
    ("while_tanh", "no_need_buffers"): ["_jst.0.x.0"],
    ("pinn_2nd_order", "no_need_buffers"): [
        f"value {place}" for place in "19.1 26.1 35.1 40.1 48.1 48.2 56.1 63.1".split()
    ],
}
"""Case and list -> what ours has and Paddle's has not."""


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_the_lists_are_those_of_paddle(folder: Path) -> None:
    parts = of_paddle(folder, "save-all")
    theirs = by_value(names_of(folder), load(folder / "forward.txt").main)
    ours = by_value(parts.names, parts.forward_program)
    for key in theirs:
        more = [name for name in ours[key] if name not in theirs[key]]
        assert more == DIFFERENCES.get((folder.name, key), []), key
        assert len(ours[key]) == len(theirs[key]) or key == "no_need_buffers"
        if key == "no_need_buffers":
            assert set(theirs[key]) <= set(ours[key])


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_modes_keep_no_more_than_paddle(folder: Path) -> None:
    """The same program in each mode; and with our own gradients."""
    theirs, free, least = (of_paddle(folder, mode).report.bytes for mode in MODES)
    assert least <= free <= theirs
    own = [of_ours(folder, mode).report.bytes for mode in MODES]
    assert own[2] <= own[1] <= own[0]
    assert own[0] <= theirs


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_a_joint_program_is_split_as_well_as_one_without_gradients(folder: Path) -> None:
    joint = run_passes(load(folder / "program.txt"), "autodiff{seeds=true}")
    for mode in MODES:
        ours = of_ours(folder, mode).report.bytes
        assert forward_backward(joint, mode=mode).report.bytes <= ours


def test_the_table_in_the_docs_is_up_to_date() -> None:
    page = (ROOT / "docs" / "split.md").read_text(encoding="utf-8")
    for row in rows():
        assert row in page, "run `python -m tests.split.saved_bytes`"

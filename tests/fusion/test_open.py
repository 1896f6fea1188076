"""Programs of sizes that are known only when they run: one kernel for all sizes."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.map_expr.checking import problems
from pirkit.dialect.map_expr.text import parse_kernel, print_kernel
from pirkit.dialect.operation import PirOp
from tests.fusion.open_programs import SIZES, OpenMaker, known
from tests.fusion.test_random import fused, run


@pytest.mark.parametrize("block", range(8))
def test_random_programs_give_the_same_numbers_for_every_size(block: int) -> None:
    sized = compared = 0
    for seed in range(12 * block, 12 * block + 12):
        made = OpenMaker(seed, depth=3 + seed % 10)
        program, _ = fused(made.program, single=seed % 2 == 0)
        for op in program.operations:
            if isinstance(op, PirOp) and op.name == "pir.map_expr":
                text = op.attribute("kernel")
                kernel = parse_kernel(text)
                assert print_kernel(kernel) == text
                assert list(problems(kernel)) == []
                sized += kernel.is_sized
        for sizes in SIZES:
            if made.keeps and 0 in sizes:
                continue
            inputs = made.arrays(known(*sizes))
            try:
                want = run(made.program, inputs)
            except PirkitError:  # there is no maximum of nothing
                assert 0 in sizes
                continue
            got = run(program, inputs)
            compared += 1
            for name in want:
                np.testing.assert_allclose(
                    got[name], want[name], rtol=2e-5, atol=1e-5, err_msg=f"{seed}, {sizes}, {name}"
                )
    assert sized > 8
    assert compared > 50

"""Run the tests of nodes that come with ONNX, and print how many pass, by operator.

``python tools/onnx_nodes.py [NAME...] [--pipeline P] [--failures]``: with names only tests whose
name contains one of them. A test is of a declared operator if each of its nodes has a rule, or a
body of operators that have. It takes a minute of CPU time.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from onnx.backend.test.case.node import collect_testcases

from pirkit.diag.errors import PirkitError
from pirkit.onnx import RULES
from pirkit.onnx.backend import PirkitBackend, as_array
from pirkit.onnx.control import CONTROL
from pirkit.onnx.functions import is_defined

FOREIGN = ("the element type ", "is no tensor")
"""What refusals say of element types, sequences and optional values at a program's border."""

DRAWN = ("bernoulli", "training_dropout")
"""Cases whose numbers are drawn: others than those of ONNX's reference."""


def outcome(case: Any, pipeline: str | None) -> str:
    """``pass``, ``refused: ...`` or ``wrong: ...``."""
    try:
        model = PirkitBackend.prepare(case.model, pipeline=pipeline)
        for inputs, outputs in case.data_sets:
            for have, want in zip(model.run(list(inputs)), outputs, strict=True):
                wanted = as_array(want)
                if have.shape != wanted.shape or have.dtype != wanted.dtype:
                    return f"wrong: {have.dtype}{have.shape} for {wanted.dtype}{wanted.shape}"
                if not any(kind in case.name for kind in DRAWN):
                    pair = [a.astype(np.float64) if a.dtype.kind not in "biuc" else a
                            for a in (have, wanted)]  # fmt: skip
                    np.testing.assert_allclose(*pair, rtol=case.rtol, atol=case.atol)
    except AssertionError as error:
        return "wrong: " + " ".join(str(error).split("\n")[3:4])
    except PirkitError as error:
        return f"refused: {error.message}"
    except ValueError as error:
        return f"refused: is no tensor: {error}"
    return "pass"


def is_declared(case: Any) -> bool:
    opsets = {o.domain: o.version for o in case.model.opset_import}
    return all(
        (n.domain in ("", "ai.onnx") and n.op_type in {*RULES, *CONTROL}) or is_defined(n, opsets)
        for n in case.model.graph.node
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--pipeline", default="", help="'' for kernels, @default for native code")
    parser.add_argument("--failures", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for case in collect_testcases():
        if case.model is None or not any(n in case.name for n in arguments.names or [""]):
            continue
        found = outcome(case, arguments.pipeline)
        kind = found.partition(":")[0]
        if kind == "refused" and any(word in found for word in FOREIGN):
            kind = "foreign type"
        name = "declared" if is_declared(case) else "not declared"
        totals[name][kind] += 1
        if arguments.failures and kind != "pass":
            print(f"{case.name} ({name}): {found}")
    print("| tests | pass | refused | foreign type | wrong | of all |")
    print("|---|---|---|---|---|---|")
    for name, count in totals.items():
        row = " | ".join(str(count[k]) for k in ("pass", "refused", "foreign type", "wrong"))
        print(f"| {count.total()} {name} | {row} | {100 * count['pass'] / count.total():.1f} % |")


if __name__ == "__main__":
    main()

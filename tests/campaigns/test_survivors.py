"""What mutants have shown that no test looked at."""

from __future__ import annotations

import json

from pirkit.frontend.files import READERS, WRITERS
from tests.execution import parsed

ROLES = """
pir.program @main {
  %0 = pir.parameter() {parameter_name = "w", op_role = 1 : i32, stop_gradient = array<i1: true>} : () -> tensor<2xf32>
  pir.shadow_output(%0) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""  # noqa: E501


def test_attributes_of_distribution_have_their_own_place_in_the_json_of_a_parameter() -> None:
    text = WRITERS["paddle-json"](parsed(ROLES))
    (parameter,) = [
        op for op in json.loads(text)["program"]["regions"][0]["blocks"][0]["ops"] if op["#"] == "p"
    ]
    assert [a["N"] for a in parameter["DA"]] == ["op_role"]
    assert "op_role" not in [a["N"] for a in parameter["QA"]]
    again = READERS["paddle-json"](text, "again.json")
    assert WRITERS["paddle-json"](again) == text

"""Plans as JSON data, for the cache.

`pack_plan` and `unpack_plan` are inverses. Entries are authenticated (see `native/cache.py`) and
still validated: an inconsistent one counts as a miss.
"""

from __future__ import annotations

from typing import Any

from pirkit.runtime.plan import Plan, Stack, instructions, reads, slots_of, writes
from pirkit.runtime.typed_json import INVALID, packed, unpacked


def pack_plan(plan: Plan) -> list[Any]:
    """A plan as JSON data. Raises NotSerializableError for other values."""
    return packed(Plan, plan)


def unpack_plan(data: Any) -> Plan | None:
    """The inverse of `pack_plan`; None for invalid data."""
    try:
        plan: Plan = unpacked(Plan, data)
    except INVALID:
        return None
    return plan if _is_consistent(plan) else None


def _is_consistent(plan: Plan) -> bool:
    """Whether every slot number is in range."""
    ports = (*plan.inputs, *plan.params)
    used = {p.slot for p in ports} | set(slots_of(o.source for o in plan.outputs))
    for instruction in instructions(plan.body):
        used.update(reads(instruction), writes(instruction), instruction.frees)
        if isinstance(instruction, Stack):
            used.add(instruction.slot)
    return all(0 <= slot < len(plan.slots) for slot in used)

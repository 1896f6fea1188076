"""From one program with its gradient to two, and the values that the first keeps for the second."""

from pirkit.split.joint import Roles
from pirkit.split.partition import forward_backward
from pirkit.split.parts import Saved, SplitNames, SplitParts, SplitReport
from pirkit.split.runnable import RunnableProgram

__all__ = [
    "Roles",
    "RunnableProgram",
    "Saved",
    "SplitNames",
    "SplitParts",
    "SplitReport",
    "forward_backward",
]

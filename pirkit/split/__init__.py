"""Splits a program with its gradient into a forward and a backward program."""

from pirkit.split.joint import Roles
from pirkit.split.partition import forward_backward
from pirkit.split.runnable import RunnableProgram
from pirkit.split.split_result import Saved, SplitNames, SplitParts, SplitReport

__all__ = [
    "Roles",
    "RunnableProgram",
    "Saved",
    "SplitNames",
    "SplitParts",
    "SplitReport",
    "forward_backward",
]

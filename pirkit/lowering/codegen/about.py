"""What people want to know of a native function: how it is scheduled, and which files emit it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from pirkit.lowering.codegen.ir import llvm_text

_ROOT: Final = Path(__file__).parents[3]
_BUILDER: Final = llvm_text.__file__


@dataclass(frozen=True, slots=True)
class About:
    """A native function for people: its strategy, its sizes by name, the file that emits it."""

    strategy: str
    emitter: str
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        sizes = [f"{name} {size:,}" for name, size in self.sizes.items()]
        return ", ".join([f"strategy {self.strategy}", *sizes, f"emitted by {self.emitter}"])


def about(emitter: Callable[..., object], strategy: str, **sizes: int) -> About:
    """What is known of a function that a class or a function of the code generator emits."""
    return About(strategy, defining_file(emitter), sizes)


def defining_file(function: Callable[..., object]) -> str:
    """The file of a function or a class."""
    return file_of(str(sys.modules[function.__module__].__file__))


def file_of(path: str) -> str:
    """The path of a source file, from the folder that holds the package on."""
    found = Path(path)
    return found.relative_to(_ROOT).as_posix() if found.is_relative_to(_ROOT) else path


def emitting_files(write: Callable[[], object]) -> dict[str, int]:
    """The files whose functions emit instructions while ``write`` runs, and how many each emits.

    Generated code holds no trace of its author, so the calls of the IR builder are counted.
    """
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or frame.f_code.co_filename != _BUILDER:
            return
        if (path := caller.f_code.co_filename) != _BUILDER:
            found[file_of(path)] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        write()
    finally:
        sys.setprofile(before)
    return dict(found.most_common())

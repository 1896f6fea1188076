"""Describes native functions: their schedules, and the files that emit them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct, field

from pirkit.lowering.codegen.ir import (
    addressing,
    delinearize,
    index_set_splitting,
    llvm_text,
    nest_builder,
)

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_ROOT: Final = Path(__file__).parents[3]
ROOM: Final = "pirkit/lowering/"
_BUILDER: Final = llvm_text.__file__
_EMITS: Final = ("emit", "emit_void")
"""The methods of the builder by which all instructions are appended."""
_LOWERING: Final = (
    str(Path(__file__).parent / "lower"),
    *[str(m.__file__) for m in (addressing, delinearize, index_set_splitting, nest_builder)],
)

Lines = frozenset[tuple[str, int]]
"""Lines of code: files and numbers."""
Inside = Callable[[FrameType], bool]
"""Whether a call is the stage of the code generator that is asked for."""
_TRACED: Final = tuple(
    str(_ROOT / "pirkit" / part)
    for part in ("lowering/codegen", "lowering/whole_program", "lowering/native_", "lowering/gemm",
                 "lowering/row_", "runtime/native")
)  # fmt: skip
"""The files that choose and write native code."""

_WHOLE: Final = f"{ROOM}whole_program/"
_SEGMENT_BUILDER: Final = f"{_WHOLE}sequence_builder.py"

T = TypeVar("T")


class About(Struct, frozen=True):
    """A native function for people: its strategy, its sizes by name, the file that emits it."""

    strategy: str
    emitter: str
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        sizes = [f"{name} {size:,}" for name, size in self.sizes.items()]
        return ", ".join([f"strategy {self.strategy}", *sizes, f"emitted by {self.emitter}"])


def about(emitter: Callable[..., object], strategy: str, **sizes: int) -> About:
    """The description of a function that a class or a function of the code generator emits."""
    return About(strategy, defining_file(emitter), sizes)


def defining_file(function: Callable[..., object]) -> str:
    """The file of a function or a class."""
    return file_of(str(sys.modules[function.__module__].__file__))


def file_of(path: str) -> str:
    """The path of a source file, from the folder that holds the package on."""
    found = Path(path)
    return found.relative_to(_ROOT).as_posix() if found.is_relative_to(_ROOT) else path


def named_file(function: str) -> str:
    """The file of a function that is given as module and qualified name, perhaps of a closure."""
    module = function
    while module and module not in sys.modules:
        module = module.rpartition(".")[0]
    return file_of(str(sys.modules[module].__file__)) if module else function


def named_files(text: str) -> list[str]:
    """The files of this package that a text names, by their paths or the ends of these."""
    names = re.findall(r"[\w/]+\.py", text)
    found = [p for n in names for p in _ROOT.glob(f"pirkit/**/{n.removeprefix('pirkit/')}")]
    return [*dict.fromkeys(file_of(str(path)) for path in found)]


def emitting_files(write: Callable[[], object]) -> dict[str, int]:
    """The files whose functions emit instructions while ``write`` runs, and how many each emits.

    Generated code holds no trace of its author, so the calls of the IR builder are counted.
    """

    def emitter_of(called: FrameType) -> str | None:
        caller = called.f_back
        if caller is None or called.f_code.co_filename != _BUILDER:
            return None
        path = caller.f_code.co_filename
        return path if path != _BUILDER else None

    return _counted(write, emitter_of)


def emitting_lines(write: Callable[[], T]) -> tuple[T, dict[str, str]]:
    """The result of ``write``, and for each line of IR the line of Python that emits it."""
    places: dict[str, str] = {}

    def note(called: FrameType, event: str, _: object) -> None:
        code = called.f_code
        if event != "return" or code.co_filename != _BUILDER or code.co_name not in _EMITS:
            return
        lines: list[str] = called.f_locals["self"].lines
        caller = called.f_back
        while caller is not None and caller.f_code.co_filename == _BUILDER:
            caller = caller.f_back
        if lines and lines[-1][0] == " " and caller is not None and lines[-1] not in places:
            places[lines[-1]] = f"{file_of(caller.f_code.co_filename)}:{caller.f_lineno}"

    return _profiled(write, note), places


def lowering_files(lower: Callable[[], object]) -> dict[str, int]:
    """The files of the lowering to loop nests whose functions ``lower`` calls, and how often."""

    def of_lowering(called: FrameType) -> str | None:
        path = called.f_code.co_filename
        return path if path.startswith(_LOWERING) else None

    return _counted(lower, of_lowering)


def executed_lines(run: Callable[[], object], inside: Inside | None = None) -> Lines:
    """The lines of this room and of native calls that ``run`` executes, without the IR builder.

    With ``inside`` only those that run during a call whose frame it holds for.
    """
    found = set[tuple[str, int]]()
    traced: dict[str, bool] = {_BUILDER: False, __file__: False}
    around: FrameType | None = None

    def enter(frame: FrameType, _event: str, _: object) -> TraceFunction | None:
        nonlocal around
        path = frame.f_code.co_filename
        if path not in traced:
            traced[path] = path.startswith(_TRACED)
        if not traced[path] or _is_import(frame):
            return None
        if around is None and inside is not None and inside(frame):
            around = frame
        return note

    def note(frame: FrameType, event: str, _: object) -> TraceFunction:
        nonlocal around
        if event == "line" and (inside is None or around is not None):
            found.add((frame.f_code.co_filename, frame.f_lineno))
        elif event == "return" and frame is around:
            around = None
        return note

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    files = {path: file_of(path) for path, _ in found}
    return frozenset({(files[path], line) for path, line in found})


def _is_import(frame: FrameType) -> bool:
    """Whether a frame is that of a module or the body of a class, or one that these call.

    They run once in a process, for whichever program comes first.
    """
    near = [f for f in (frame, frame.f_back) if f is not None]
    return not all(f.f_code.co_flags & CO_OPTIMIZED for f in near)


def native_form_files(run: Callable[[], T]) -> tuple[T, list[str]]:
    """The result of ``run``, and the files that give the builder of a segment the forms of its ops.

    The builder asks a function of each file, and those of other ops return None.
    """
    found: dict[str, None] = {}

    def note(called: FrameType, event: str, result: object) -> None:
        path, caller = called.f_code.co_filename, called.f_back
        if event == "return" and result is not None and caller is not None:
            asks = caller.f_code.co_filename
            if asks.endswith(_SEGMENT_BUILDER) and path != asks and _WHOLE in path:
                found[file_of(path).removeprefix(ROOM)] = None

    return _profiled(run, note), [*found]


def _counted(run: Callable[[], object], file: Callable[[FrameType], str | None]) -> dict[str, int]:
    """How many calls each file has while ``run`` runs, the most first."""
    found: Counter[str] = Counter()

    def note(called: FrameType, event: str, _: object) -> None:
        if event == "call" and (path := file(called)) is not None:
            found[file_of(path)] += 1

    _profiled(run, note)
    return dict(found.most_common())


def _profiled(run: Callable[[], T], note: Callable[[FrameType, str, object], None]) -> T:
    """The result of ``run``; ``note`` is called at its calls and returns."""
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return run()
    finally:
        sys.setprofile(before)

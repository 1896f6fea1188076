"""How every command starts and ends: errors become diagnostics and exit codes."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO, cast

from pirkit.diag.errors import ArtifactError, InternalError, PirkitError, RuntimeFault
from pirkit.diag.paths import remedy
from pirkit.diag.settings import check_choices
from pirkit.diag.source import trust_source
from pirkit.diag.span import Span

# What shells report for a command that SIGINT (2) or SIGPIPE (13) ended.
INTERRUPTED: Final = 128 + 2
PIPE_CLOSED: Final = 128 + 13


def run_main(main: Callable[[], int | None]) -> int:
    """Run a command and return its exit code; no exception and no traceback escapes.

    A PirkitError is shown on standard error, as JSON if ``--json`` is among the arguments. A closed
    pipe is silent. Everything unforeseen is shown as an InternalError, with its traceback only if
    the environment has ``PIRKIT_DEBUG=1``.
    """
    as_json = "--json" in sys.argv
    atexit.register(gc.freeze)  # or the interpreter searches for cycles at exit, for 0.1 s
    _prepare_streams()
    for argument in sys.argv[1:]:
        trust_source(argument.rpartition("=")[2])
    try:
        check_choices()
        code = _exit_code(main)
        sys.stdout.flush()
    except PirkitError as error:
        return _report(error, as_json)
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except MemoryError as error:
        return _report(_as_runtime_fault(error), as_json)
    except OSError as error:
        return _report(_as_artifact_error(error), as_json)
    except Exception as error:  # the one place that turns bugs into exit code 70
        return _report(_as_internal_error(error), as_json)
    return code


def _exit_code(main: Callable[[], int | None]) -> int:
    try:
        return main() or 0
    except SystemExit as end:  # argparse ends --help and --version so
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _report(error: PirkitError, as_json: bool) -> int:
    from pirkit.diag.render import print_error  # noqa: PLC0415  rich is slow to import

    try:
        sys.stdout.flush()  # earlier output appears before the error
    except OSError:
        _discard_output()
    with suppress(OSError):  # if nobody listens any more, the exit code still tells
        print_error(error, as_json=as_json)
        sys.stderr.flush()
    return error.exit_code


def _as_artifact_error(error: OSError) -> ArtifactError:
    what = f"cannot use `{error.filename}`" if error.filename is not None else "cannot write"
    reason = error.strerror or str(error) or type(error).__name__
    return ArtifactError(
        f"{what}: {reason.lower()}",
        code="PK0506",
        span=None if error.filename is None else Span(str(error.filename)),
        notes=_debug_notes(error),
        help=None if error.filename is None else remedy(str(error.filename), error),
    )


def _as_runtime_fault(error: MemoryError) -> RuntimeFault:
    message = f"out of memory: {error}" if str(error) else "out of memory"
    return RuntimeFault(message, code="PK0901", notes=_debug_notes(error),
                        help="use smaller inputs, or fewer of them at once")  # fmt: skip


def _as_internal_error(error: Exception) -> InternalError:
    summary = " ".join(str(error).split())
    name = type(error).__name__
    return InternalError(
        (f"{name}: {summary}" if summary else name) + _innermost_frame(error),
        notes=_debug_notes(error),
    )


def _innermost_frame(error: Exception) -> str:
    """The place in pirkit that raised the error, as " in passes/cse.py:41", or empty."""
    frames = traceback.walk_tb(error.__traceback__)
    marker = f"{os.sep}pirkit{os.sep}"
    inside = [(f.f_code.co_filename, line) for f, line in frames if marker in f.f_code.co_filename]
    if not inside:
        return ""
    file, line = inside[-1]
    return f" in {file.rpartition(marker)[2]}:{line}"


def _debug_notes(error: Exception) -> tuple[str, ...]:
    if os.environ.get("PIRKIT_DEBUG") != "1":
        return ()
    return tuple("".join(traceback.format_exception(error)).splitlines())


def _prepare_streams() -> None:
    # Python starts with None for a stream that the shell has closed.
    sys.stdin = cast("TextIO | None", sys.stdin) or open(os.devnull, encoding="utf-8")
    sys.stdout = _writable(sys.stdout)
    sys.stderr = _writable(sys.stderr)
    for name in ("COLUMNS", "LINES"):  # some shells export 0, and then rich prints nothing
        if not os.environ.get(name, "1").isdecimal() or not int(os.environ.get(name, "1")):
            del os.environ[name]


def _writable(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    # A terminal that cannot show a character of the program gets its escape, not an exception.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def _discard_output() -> None:
    """Redirect standard output to the null device, so that Python's flush at exit is silent."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)

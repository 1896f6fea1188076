"""The ``pirkit-opt`` command: reads a program, runs passes, writes it in any format."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pirkit.cli.arguments import ArgumentParser
from pirkit.diag.entry import run_main
from pirkit.diag.errors import InternalError, UsageError
from pirkit.diag.limits import PROFILES, use_limits

if TYPE_CHECKING:
    from xdsl.dialects import builtin as mlir

    from pirkit.passes.manager import Watcher

FORMATS: Final = ("auto", "mlir", "paddle-text", "paddle-json")
TARGETS: Final = (
    "mlir",
    "mlir-generic",
    "mlir-locations",
    "paddle-text",
    "paddle-json",
    "plan",
    "dot",
)
_SPLIT: Final = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    arguments = _parser().parse_args()
    listing = _listing(arguments)
    if listing is not None:
        return listing
    if arguments.file is None:
        raise UsageError("give a file, or - for standard input", help="see `pirkit-opt --help`")
    with use_limits(PROFILES[arguments.limits]):
        return _transform(arguments)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="pirkit-opt",
        description="Read a program, verify it, run passes over it and print it. "
        "The result goes to standard output, everything else to standard error.",
        epilog=_passes_epilog() if {"-h", "--help"} & set(sys.argv[1:]) else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_version()
    parser.add_argument("file", nargs="?", metavar="FILE", help="a program; - is standard input")
    parser.add_argument("-f", "--format", default="auto", choices=FORMATS, help="format of FILE")
    parser.add_argument("-p", "--pipeline", default="", help="passes, as in 'cse,dce'")
    parser.add_argument("-t", "--target", default="mlir", choices=TARGETS, help="what to print")
    parser.add_argument("-o", "--output", metavar="OUT", help="write there, whole or not at all")
    look = parser.add_argument_group("look")
    look.add_argument(
        "--print",
        dest="print_ir",
        action="append",
        default=[],
        metavar="WHEN",
        help="print the program after-change, before:PASS, after:PASS, or around all passes",
    )
    look.add_argument(
        "--dump",
        metavar="DIR",
        help="write the program after each pass that changed it, with a diff, to a folder",
    )
    look.add_argument(
        "--generic",
        dest="target",
        action="store_const",
        const="mlir-generic",
        help="print MLIR's generic form: -t mlir-generic",
    )
    look.add_argument(
        "--locs",
        dest="target",
        action="store_const",
        const="mlir-locations",
        help="print where each operation comes from: -t mlir-locations",
    )
    look.add_argument("--timing", action="store_true", help="print the time of each pass")
    look.add_argument("--stats", action="store_true", help="print what each pass counted")
    look.add_argument("--remarks", action="store_true", help="print what passes did and why not")
    look.add_argument("--list-passes", action="store_true", help="list passes and pipelines")
    look.add_argument("--help-pass", metavar="PASS", help="print the manual of a pass")
    look.add_argument("--list-ops", action="store_true", help="print the coverage matrix of ops")
    look.add_argument("--json", action="store_true", help="print listings and errors as JSON")
    guard = parser.add_argument_group("guard")
    guard.add_argument(
        "--no-verify-each",
        dest="verify_each",
        action="store_false",
        help="do not verify the program after each pass",
    )
    guard.add_argument(
        "--verify-roundtrip",
        action="store_true",
        help="fail unless printing and parsing the result gives the result",
    )
    guard.add_argument("--limits", default="default", choices=tuple(PROFILES))
    test = parser.add_argument_group("test")
    test.add_argument(
        "--split-input-file",
        action="store_true",
        help="treat the parts between lines `// -----` as files of their own",
    )
    return parser


def _passes_epilog() -> str:
    from pirkit.cli.passes_help import pass_rows  # noqa: PLC0415  only for --help

    rows = pass_rows()
    width = max(len(name) for name, _ in rows)
    return "passes:\n" + "\n".join(f"  {name:<{width}}  {line}" for name, line in rows)


def _listing(arguments: argparse.Namespace) -> int | None:
    """Answer a request for information; None if there is none."""
    if arguments.list_ops:
        from pirkit.cli.coverage import list_ops  # noqa: PLC0415  imports all ops

        list_ops(arguments.json)
    elif arguments.list_passes:
        from pirkit.cli.passes_help import list_passes  # noqa: PLC0415  imports all passes

        list_passes(arguments.json)
    elif arguments.help_pass is not None:
        from pirkit.cli.passes_help import manual  # noqa: PLC0415  imports all passes

        print(manual(arguments.help_pass))
    else:
        return None
    return 0


def _transform(arguments: argparse.Namespace) -> int:
    from pirkit.frontend.files import parse, read_text, write_file  # noqa: PLC0415  imports xDSL

    name = "<stdin>" if arguments.file == "-" else arguments.file
    text = read_text(arguments.file)
    if arguments.file == "-":
        from pirkit.diag.source import register_source  # noqa: PLC0415

        register_source(name, text)
    printed: list[str] = []
    for part in _parts(text, arguments.split_input_file):
        module = parse(part, format=arguments.format, name=name)
        if arguments.pipeline:
            _run_passes(module, arguments)
        printed.append(_print(module, arguments))
    result = "// -----\n".join(printed)
    if arguments.output:
        write_file(arguments.output, result)
    else:
        sys.stdout.write(result)
    return 0


def _parts(text: str, split: bool) -> Iterator[str]:
    """The text, or its parts; blank lines keep each part's line numbers those of the file."""
    if not split:
        yield text
        return
    start = 0
    for m in (*_SPLIT.finditer(text), None):
        end = len(text) if m is None else m.start()
        if m is not None and _is_in_string(text[start:end]):
            continue
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = end if m is None else m.end()


def _is_in_string(part: str) -> bool:
    """True if a string is open at the end: only those of Paddle's text may hold line breaks."""
    quotes = part.count('"') - part.count('\\"')
    return part.lstrip().startswith("{") and quotes % 2 == 1


def _run_passes(module: mlir.ModuleOp, arguments: argparse.Namespace) -> None:
    from pirkit.passes import run_pipeline  # noqa: PLC0415  not needed to print a program

    result = run_pipeline(
        module,
        arguments.pipeline,
        verify=arguments.verify_each,
        print_ir=arguments.print_ir,
        stream=sys.stderr,
        watchers=_watchers(module, arguments),
    )
    lines: list[str] = []
    if arguments.timing:
        lines += [
            f"timing: {t.pass_name:<20} {t.seconds * 1e3:9.2f} ms"
            f"  verify {t.verify_seconds * 1e3:9.2f} ms"
            for t in result.timings
        ]
    if arguments.stats:
        lines += [
            f"stats: {name:<20} {key}: {count}"
            for name, counts in result.stats.items()
            for key, count in counts.items()
        ]
    if arguments.remarks:
        lines += [f"remark: {remark}" for remark in result.remarks]
    for line in lines:
        print(line, file=sys.stderr)


def _watchers(module: mlir.ModuleOp, arguments: argparse.Namespace) -> list[Watcher]:
    if not arguments.dump:
        return []
    from pirkit.cli.dump import Dump  # noqa: PLC0415  only for --dump

    return [Dump(arguments.dump, module)]


def _print(module: mlir.ModuleOp, arguments: argparse.Namespace) -> str:
    from pirkit.frontend.files import WRITERS  # noqa: PLC0415

    if arguments.verify_roundtrip:
        _verify_roundtrip(module)
    text = WRITERS[arguments.target](module)
    return text if text.endswith("\n") else text + "\n"


def _verify_roundtrip(module: mlir.ModuleOp) -> None:
    from pirkit.dialect.text import parse_mlir, print_mlir  # noqa: PLC0415

    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        if print_mlir(parse_mlir(text, "<roundtrip>"), generic=generic) != text:
            form = "generic" if generic else "readable"
            raise InternalError(f"the {form} form of the program does not round-trip")

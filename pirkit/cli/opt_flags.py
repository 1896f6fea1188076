"""The flags of ``pirkit-opt``."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Final

from pirkit.cli.arguments import ArgumentParser, natural
from pirkit.diag.limits import PROFILES

FORMATS: Final = ("auto", "mlir", "stablehlo", "paddle-text", "paddle-json")
TARGETS: Final = (
    "mlir",
    "mlir-generic",
    "mlir-locations",
    "paddle-text",
    "paddle-json",
    "plan",
    "dot",
    "onnx",
    "map-expr",
    "nest",
    "llvm",
    "asm",
)


def make_parser() -> ArgumentParser:
    """The flags of the command, in the groups of its ``--help``."""
    parser = ArgumentParser(
        prog="pirkit-opt",
        usage="%(prog)s [OPTIONS] FILE",
        description=_wrapped(
            "Read a program, verify it, run passes over it and print it. "
            "The result goes to standard output, everything else to standard error."
        ),
        epilog=_passes_epilog() if {"-h", "--help"} & set(sys.argv[1:]) else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_version()
    parser.add_argument("file", nargs="?", metavar="FILE", help="a program; - is standard input")
    parser.add_argument(
        "-f", "--format", default="auto", choices=FORMATS, metavar="FORMAT",
        help=f"format of FILE: {', '.join(FORMATS)}",
    )  # fmt: skip
    parser.add_argument(
        "--outputs", default="", metavar="%A,%B", help="values that become outputs: a dump of "
        "Paddle's `main_program` names none",
    )  # fmt: skip
    parser.add_argument("-p", "--pipeline", default="", help="passes, as in 'cse,dce'")
    parser.add_load(parser)
    parser.add_argument("--entry", metavar="NAME", help="read only this program of the module")
    parser.add_argument(
        "-t", "--target", choices=TARGETS, metavar="TARGET",
        help=f"what to print, by default the first of {', '.join(TARGETS)}",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="OUT", help="write there, atomically")
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
        action="store_true",
        help="print MLIR's generic form: -t mlir-generic",
    )
    look.add_argument(
        "--locs",
        action="store_true",
        help="print where each operation comes from: -t mlir-locations",
    )
    look.add_argument(
        "--count", action="store_true", help="print how often each op occurs instead of the program"
    )
    look.add_argument("--ids", action="store_true", help="number operations: op_id stays with them")
    parser.add_optional_value(
        look,
        "--timing",
        metavar="FILE",
        help="print the time of each pass; --timing=FILE writes a trace for Perfetto instead",
    )
    look.add_argument("--report", metavar="HTML", help="write a page of passes, changes and times")
    look.add_argument("--stats", action="store_true", help="print what each pass counted")
    parser.add_optional_value(
        look,
        "--remarks",
        metavar="KIND:PASS",
        help="print what passes did and why not; --remarks=missed:cse prints some of it",
    )
    look.add_argument(
        "--trace-rewrites", action="store_true", help="print each rewrite: rule, before, after"
    )
    look.add_argument("--list-passes", action="store_true", help="list passes and pipelines")
    look.add_argument("--help-pass", metavar="PASS", help="print the manual of a pass")
    look.add_argument("--list-ops", action="store_true", help="print the coverage matrix of ops")
    look.add_argument(
        "--missing", action="store_true", help="of --list-ops: only what nothing runs"
    )
    look.add_argument(
        "--primitives",
        action="store_true",
        help="of --list-ops: the primitive set, with what computes and differentiates each member",
    )
    look.add_argument(
        "--why-kernel",
        action="store_true",
        help="of -t plan: print each kernel's reason, schedule and emitting file",
    )
    look.add_argument(
        "--why-not",
        metavar="fuse:%A,%B",
        help="print why the operations that make two values are not in one kernel",
    )
    look.add_argument("--json", action="store_true", help="print listings and errors as JSON")
    guard = parser.add_argument_group("guard")
    guard.add_argument(
        "--no-verify-each",
        action="store_true",
        help="do not verify the program after each pass",
    )
    guard.add_argument(
        "--verify-roundtrip",
        action="store_true",
        help="fail unless printing and parsing the result gives the result",
    )
    parser.add_optional_value(
        guard,
        "--check",
        metavar="each",
        help="fail if a pass or a kernel gives wrong numbers; --check=each looks behind each pass, "
        "--check=proof proves with z3 what each pass did, and tests the rest",
    )
    guard.add_argument(
        "--backend",
        choices=("reference", "cpu", "gpu"),
        help="kernels that --check and --bisect compare with the reference, one by one",
    )
    guard.add_argument(
        "--show-kernel", action="store_true", help="of --bisect: print the MapExpr that is wrong"
    )
    guard.add_argument("--seed", type=natural, metavar="N", help="seed of random inputs: 0")
    guard.add_argument(
        "--limits", default="default", choices=tuple(PROFILES), help="how large programs may be"
    )
    test = parser.add_argument_group("test")
    test.add_argument(
        "--split-input-file",
        action="store_true",
        help="treat the parts between lines `// -----` as files of their own",
    )
    test.add_argument(
        "--expect-diagnostics",
        action="store_true",
        help="compare what is reported with comments `// expected-error @+1 {{text}}`",
    )
    test.add_argument(
        "--run-reproducer",
        action="store_true",
        help="FILE is a reproducer: run the pipeline that it names",
    )
    test.add_argument(
        "--bisect",
        action="store_true",
        help="print the first pass, rewrite and kernel that breaks rules or numbers",
    )
    return parser


def _passes_epilog() -> str:
    """The passes with the first lines of their manuals, from a file that `gen_docs.py` writes.

    Importing the passes would take half a second.
    """
    text = Path(__file__).with_name("passes.txt").read_text(encoding="utf-8")
    text = re.sub(r",(?=\S)", ", ", text)  # where lines may end
    column = len(text) - len(text.partition(" ")[2].lstrip())
    return "\n".join(["passes:", *(_wrapped(f"  {p}", column + 2) for p in text.splitlines())])


def _wrapped(text: str, column: int = 0) -> str:
    """A text as wide as the terminal, its further lines from a column on."""
    width = max(get_terminal_size().columns - 2, 20)
    column = column if column < width // 2 else 4
    return fill(text, width, subsequent_indent=" " * column, break_on_hyphens=False)

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
    "mlir", "mlir-generic", "mlir-locations", "paddle-text", "paddle-json", "plan", "dot", "onnx",
    "map-expr", "nest", "llvm", "llvm-locations", "asm",
)  # fmt: skip

_INSPECTING: Final = {
    "--dump DIR": "write the program after each pass that changed it to a folder, with diffs",
    "--generic": "print MLIR's generic form, as -t mlir-generic does",
    "--locs": "print the location of each operation, as -t mlir-locations does",
    "--count": "print how often each op occurs, not the program",
    "--ids": "number operations in an attribute op_id",
    "--timing[=FILE]": "print the time of each pass; --timing=FILE writes a trace for Perfetto"
    " instead",
    "--report HTML": "write a page of passes, changes, times",
    "--stats": "print the statistics of each pass",
    "--remarks[=KIND:PASS]": "print what passes did, or why not; --remarks=missed:cse prints one"
    " kind, of one pass",
    "--trace-rewrites": "print each rewrite: rule, before and after",
    "--list-passes": "list passes and pipelines",
    "--help-pass PASS": "print the manual of a pass",
    "--list-ops": "print rules and kernels of each op",
    "--missing": "with --list-ops: ops that nothing runs",
    "--primitives": "with --list-ops: the primitive set, with kernels and derivatives of each"
    " member",
    "--why-kernel": "with -t plan: print the kernel of each operation, why, schedule, emitting"
    " file",
    "--why-not fuse:%A,%B": "print why the operations that define two values are not in one kernel",
    "--json": "print listings and errors as JSON",
}
_CHECKING: Final = {
    "--no-verify-each": "do not verify the program after each pass",
    "--verify-roundtrip": "fail if printing and parsing the result changes it",
    "--check[=each]": "fail if a pass or a kernel computes wrong numbers; --check=each compares"
    " after each pass, --check=proof proves each pass with z3, and tests what it cannot prove",
}
_TESTING: Final = {
    "--split-input-file": "treat the parts between lines `// -----` as separate files",
    "--expect-diagnostics": "compare diagnostics with comments `// expected-error @+1 {{text}}`",
    "--run-reproducer": "FILE is a reproducer: run the pipeline that it names",
    "--bisect": "print the first pass and rewrite, or the kernels, that break rules or numbers",
}


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
        "--outputs", default="", metavar="%A,%B", help="values that become outputs, for a dump "
        "of Paddle's `main_program`, which has none",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--pipeline", default="", help="passes to run, as in 'cse,dce' or @default"
    )
    parser.add_load(parser)
    parser.add_argument("--entry", metavar="NAME", help="read only this program of the module")
    parser.add_argument(
        "-t", "--target", choices=TARGETS, metavar="TARGET",
        help=f"what to print, {TARGETS[0]} by default: {', '.join(TARGETS)}",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="OUT", help="write to this file, atomically")
    show = parser.add_argument_group("inspecting")
    show.add_argument(
        "--print", dest="print_ir", action="append", default=[], metavar="WHEN",
        help="print the program after-change, before:PASS, after:PASS, or around all passes",
    )  # fmt: skip
    parser.add_flags(show, _INSPECTING)
    check = parser.add_argument_group("checking and limits")
    parser.add_flags(check, _CHECKING)
    check.add_argument(
        "--backend", choices=("reference", "cpu", "gpu"),
        help="whose kernels --check and --bisect compare with the reference",
    )  # fmt: skip
    shown = "with --bisect: print the wrong MapExpr and all files that emit it"
    parser.add_flags(check, {"--show-kernel": shown})
    check.add_argument("--seed", type=natural, metavar="N", help="seed of random inputs (0)")
    check.add_argument(
        "--limits", default="default", choices=tuple(PROFILES), help="limits on program sizes"
    )
    parser.add_flags(parser.add_argument_group("testing"), _TESTING)
    return parser


def _passes_epilog() -> str:
    """The passes with the first lines of their manuals, from a file that `gen_docs.py` writes.

    Importing the passes would take half a second.
    """
    text = Path(__file__).with_name("passes.txt").read_text(encoding="utf-8")
    text = re.sub(r",(?=\S)", ", ", text)  # lines may be broken there
    column = len(text) - len(text.partition(" ")[2].lstrip())
    return "\n".join(["passes:", *(_wrapped(f"  {p}", column + 2) for p in text.splitlines())])


def _wrapped(text: str, column: int = 0) -> str:
    """A text as wide as the terminal, its further lines from a column on."""
    width = max(get_terminal_size().columns - 2, 20)
    column = column if column < width // 2 else 4
    return fill(text, width, subsequent_indent=" " * column, break_on_hyphens=False)

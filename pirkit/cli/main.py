"""The ``pirkit`` command: explains errors, and shows the properties of this machine."""

from __future__ import annotations

import sys

from pirkit.cli.arguments import ArgumentParser
from pirkit.cli.commands import run_command
from pirkit.diag.entry import run_main


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    arguments = _parser().parse_args()
    return run_command(arguments.run, arguments)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="pirkit",
        description="A compiler toolkit for PIR programs. "
        "pirkit-opt transforms programs and pirkit-run runs them; this command helps with both.",
    )
    parser.add_version()
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    explain = commands.add_parser("explain", help="print the page of an error code")
    explain.add_argument("code", nargs="?", metavar="CODE", help="a code such as PK0203")
    explain.add_argument("--list", action="store_true", help="print all codes instead")
    explain.add_argument("--json", action="store_true", help="print JSON instead of text")
    explain.set_defaults(run="explain:explain")

    demo = commands.add_parser("demo", help="run a program that comes with pirkit")
    demo.add_argument("name", nargs="?", default="lenet", metavar="NAME", help="by default lenet")
    demo.add_argument("--list", action="store_true", help="print all programs instead")
    demo.set_defaults(run="demo:demo")

    diff = commands.add_parser("diff", help="show how two programs differ, by what they compute")
    diff.add_argument("first", metavar="A", help="a program in any format")
    diff.add_argument("second", metavar="B", help="another one")
    diff.add_argument("--json", action="store_true", help="print JSON instead of text")
    diff.set_defaults(run="diff:diff")

    report = commands.add_parser("report", help="make a page of what --dump wrote")
    report.add_argument("folder", metavar="DIR", help="a folder that `pirkit-opt --dump` wrote")
    report.add_argument("-o", "--output", metavar="HTML", help="by default DIR/report.html")
    report.set_defaults(run="report.command:report_dump")

    gui = commands.add_parser("gui", help="build a pipeline pass by pass, in the terminal")
    gui.add_argument("file", nargs="?", metavar="FILE", help="a program in any format")
    gui.set_defaults(run="gui:gui")

    small = commands.add_parser(
        "quantize", help="store weights in fewer bits, and show what that does to the numbers"
    )
    small.add_argument("file", metavar="FILE", help="a program in any format, with its weights")
    small.add_argument("-o", dest="output", metavar="OUT", help="write the new program")
    small.add_argument(
        "--weights", default="int8", choices=("int8", "bfloat16", "float16"),
        help="their element type, by default int8",
    )  # fmt: skip
    small.add_argument(
        "--activations", default="", choices=("int8",), help="quantize inputs of matmuls as well"
    )
    small.add_argument(
        "--calibrate", metavar="INPUTS", default="random:0",
        help="inputs to compare with, as for `pirkit-run --inputs`; by default random numbers",
    )  # fmt: skip
    small.add_argument(
        "--static", action="store_true", help="take the ranges of activations from these inputs"
    )
    small.add_argument(
        "--keep", action="append", default=[], metavar="NAME", help="a parameter that stays"
    )
    small.set_defaults(run="quantize:run")

    doctor = commands.add_parser("doctor", help="show what this machine has")
    doctor.add_argument("--json", action="store_true", help="print JSON instead of text")
    doctor.set_defaults(run="doctor:doctor")
    return parser


if __name__ == "__main__":
    sys.exit(main())

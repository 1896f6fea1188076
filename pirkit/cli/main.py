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

    doctor = commands.add_parser("doctor", help="show what this machine has")
    doctor.add_argument("--json", action="store_true", help="print JSON instead of text")
    doctor.set_defaults(run="doctor:doctor")
    return parser


if __name__ == "__main__":
    sys.exit(main())

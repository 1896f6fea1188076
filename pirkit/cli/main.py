"""The ``pirkit`` command: explains errors, and shows the properties of this machine."""

from __future__ import annotations

import argparse
import json
import sys

from pirkit.cli.arguments import ArgumentParser, did_you_mean
from pirkit.diag.entry import run_main
from pirkit.diag.errors import UsageError


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    arguments = _parser().parse_args()
    return arguments.run(arguments)


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
    explain.set_defaults(run=_explain)

    demo = commands.add_parser("demo", help="run a program that comes with pirkit")
    demo.add_argument("name", nargs="?", default="lenet", metavar="NAME", help="by default lenet")
    demo.add_argument("--list", action="store_true", help="print all programs instead")
    demo.set_defaults(run=_demo)

    doctor = commands.add_parser("doctor", help="show what this machine has")
    doctor.add_argument("--json", action="store_true", help="print JSON instead of text")
    doctor.set_defaults(run=_doctor)
    return parser


def _explain(arguments: argparse.Namespace) -> int:
    if arguments.list == (arguments.code is not None):
        raise UsageError(
            "`pirkit explain` takes either a code or --list",
            code="PK0701",
            help="for instance `pirkit explain PK0203`",
        )
    return _list_codes(arguments.json) if arguments.list else _page(arguments.code, arguments.json)


def _page(name: str, as_json: bool) -> int:
    from pirkit.diag.codes import CODES  # noqa: PLC0415  not needed for --version

    code = CODES.get(name.upper())
    if code is None:
        raise UsageError(
            f"there is no error code `{name}`",
            code="PK0701",
            help=did_you_mean(name.upper(), list(CODES)) or "`pirkit explain --list` prints all",
        )
    if as_json:
        print(json.dumps({"code": code.code, "title": code.title, "page": code.page()}))
        return 0
    if not sys.stdout.isatty():
        print(code.page(), end="")
        return 0
    from rich.console import Console  # noqa: PLC0415  rich is slow to import
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(code.page()))
    return 0


def _list_codes(as_json: bool) -> int:
    from pirkit.diag.codes import CODES  # noqa: PLC0415  not needed for --version

    if as_json:
        print(json.dumps([{"code": c.code, "title": c.title} for c in CODES.values()]))
        return 0
    for code in CODES.values():
        print(f"{code.code}  {code.title}")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from pirkit.cli.demo import listing, show  # noqa: PLC0415  not needed for --version

    print(listing() if arguments.list else show(arguments.name))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from pirkit.cli.doctor import examine, show  # noqa: PLC0415  imports what it reports on

    report = examine()
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())

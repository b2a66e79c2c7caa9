"""The dalenius command."""

from __future__ import annotations

import io
import signal
import sys

import click

from dalenius import __version__
from dalenius.cli.audit import audit_command
from dalenius.cli.completion import completion_command
from dalenius.cli.dp_risk import dp_risk_command
from dalenius.cli.failures import Commands
from dalenius.cli.plan import plan_command
from dalenius.cli.publish import publish_command
from dalenius.cli.query import query_command
from dalenius.cli.report import report_command
from dalenius.cli.reproduce import reproduce_command
from dalenius.cli.studio import studio_command
from dalenius.cli.verify import verify_command
from dalenius.cli.workload import workload_command


def _prepare_output() -> None:
    """Print what the terminal cannot show as escapes, and end quietly when a pipe closes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as after Ctrl-C


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="dalenius")
def main() -> None:
    """Publish tables about people so that analysts can count, and nobody can be pinned to a sensitive value.

    Exit codes: 0 done, 1 the check failed, 2 wrong use or bad input, 3 no solution exists.
    """


def entry() -> None:
    """What the installed command runs."""
    _prepare_output()
    main()


main.add_command(plan_command)
main.add_command(publish_command)
main.add_command(verify_command)
main.add_command(audit_command)
main.add_command(report_command)
main.add_command(query_command)
main.add_command(workload_command)
main.add_command(studio_command)
main.add_command(dp_risk_command)
main.add_command(reproduce_command)
main.add_command(completion_command)

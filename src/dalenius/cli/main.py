"""The dalenius command."""

from __future__ import annotations

import click

from dalenius import __version__
from dalenius.cli.completion import completion_command
from dalenius.cli.plan import plan_command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="dalenius")
def main() -> None:
    """Publish tables about people so that analysts can count, and nobody can be pinned to a sensitive value.

    Exit codes: 0 done, 1 the check failed, 2 wrong use or bad input, 3 no solution exists.
    """


main.add_command(plan_command)
main.add_command(completion_command)

"""The dalenius command.

dalenius completion: a script that teaches the shell to complete commands and options.
"""

from __future__ import annotations

import io
import signal
import sys

import click
from click.shell_completion import get_completion_class

from dalenius.cli.audit_command import audit_command
from dalenius.cli.dp_risk_command import dp_risk_command
from dalenius.cli.failures import Commands
from dalenius.cli.plan_command import plan_command
from dalenius.cli.publish_command import publish_command
from dalenius.cli.query_command import query_command, workload_command
from dalenius.cli.report_command import report_command
from dalenius.cli.studio_command import studio_command
from dalenius.cli.verify_command import verify_command
from dalenius.model import VERSION

_EPILOG = """\b
Examples:
  dalenius completion bash >> ~/.bashrc
  dalenius completion zsh >> ~/.zshrc
  dalenius completion fish > ~/.config/fish/completions/dalenius.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in SHELL."""
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover (click knows all three)
        raise click.UsageError(f"no completion for {shell}")
    script = kind(context.find_root().command, {}, "dalenius", "_DALENIUS_COMPLETE").source()
    click.echo(script)


def _prepare_output() -> None:
    """Print what the terminal cannot show as escapes, and end quietly when a pipe closes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as after Ctrl-C


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="dalenius")
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
main.add_command(completion_command)

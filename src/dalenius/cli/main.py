"""The dalenius command: a group that imports a command's module only when that command runs.

The table below gives each command its section and its line in `dalenius --help`, so help and shell completion import
none of the command modules.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from dalenius.cli.failures import Commands, interrupt_when_safe
from dalenius.model import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _Entry(NamedTuple):
    section: str
    module: str
    summary: str


_TABLE = {
    "plan": _Entry("Start here", "plan_command", "Find the best buckets for a table and show what they cost."),
    "publish": _Entry("Start here", "publish_command", "Publish a table in buckets that keep your limits."),
    "studio": _Entry("Start here", "studio_command", "Choose limits and publish in the browser."),
    "sign": _Entry("Start here", "publish_command", "Sign a release, or make a key to sign with."),
    "verify": _Entry("Check", "verify_command", "Check a release against every limit and its manifest."),
    "audit": _Entry("Check", "audit_command", "Run simulated attacks on a release."),
    "report": _Entry("Check", "report_command", "Write a page about a release that can be signed."),
    "query": _Entry("Use", "query_command", "Count records from a release."),
    "crosstab": _Entry("Use", "analysis_command", "Estimate a cross-tab, and test it."),
    "complete": _Entry("Use", "analysis_command", "Write plain tables that could be the one behind a release."),
    "export": _Entry("Use", "analysis_command", "Write every person's possible values with weights."),
    "workload": _Entry("Use", "query_command", "Measure how well a release answers count queries."),
    "dp-risk": _Entry("Research", "dp_risk_command", "Show whom differentially private counts would expose."),
    "completion": _Entry("Shell", "main", "Print a completion script for bash, zsh or fish."),
}


class _LazyCommands(Mapping[str, click.Command]):
    """Commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module = importlib.import_module(f"dalenius.cli.{_TABLE[name].module}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_TABLE)

    def __len__(self) -> int:
        return len(_TABLE)


class _SectionedGroup(Commands):
    """Help in sections, in the order of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, unsorted."""
        return list(_TABLE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write one section after the other, without importing a command."""
        width = max(map(len, _TABLE))
        for section in dict.fromkeys(entry.section for entry in _TABLE.values()):
            rows = [(f"{name:<{width}}", entry.summary) for name, entry in _TABLE.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names and options, without importing a command."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=entry.summary) for name, entry in _TABLE.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


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
    """Print a script that completes commands and options in SHELL (bash, zsh or fish)."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:  # pragma: no cover (click knows all three)
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(context.find_root().command, {}, "dalenius", "_DALENIUS_COMPLETE").source())


def _load_no_plugins() -> None:
    """Keep pydantic from searching every installed package for plugins, which could also read what it checks."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _prepare_output() -> None:
    """Escape what the terminal cannot show, and end quietly when a pipe closes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


@click.group(
    cls=_SectionedGroup,
    commands=cast("MutableMapping[str, click.Command]", _LazyCommands()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, prog_name="dalenius")
@click.pass_context
def main(context: click.Context) -> None:
    """Publish tables about people so that analysts can count and nobody can be pinned to a sensitive value.

    Exit codes: 0 done, 1 the check failed, 2 wrong use or bad input, 3 no solution exists.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


def entry() -> None:
    """Run the program."""
    _load_no_plugins()
    _prepare_output()
    interrupt_when_safe()
    main()

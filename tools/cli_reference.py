"""Write docs/cli.md from the commands' own --help. A test fails when the two differ."""

from __future__ import annotations

from pathlib import Path

import click

from dalenius.cli.main import main

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"

_INTRODUCTION = """\
# Command line

What each command prints for `--help`. This page is written by `make format`, and a test keeps it current.
[JSON output and exit codes](json.md) are described on a page of their own.
"""


def reference() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _section("dalenius", main)]
    parts += [_section(f"dalenius {name}", command) for name, command in sorted(main.commands.items())]
    return "\n".join(parts)


def _section(name: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=name, terminal_width=100, max_content_width=100, help_option_names=["-h", "--help"]
    )
    return f"## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

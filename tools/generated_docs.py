"""Write the pages that are made from the code: docs/cli.md and docs/manifest.schema.json. A test keeps them current."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dalenius.cli.main import main
from dalenius.release.manifest import json_schema

DOCS = Path(__file__).parent.parent / "docs"

_INTRODUCTION = """\
# Command line

What each command prints for `--help`. This page is written by `make format`, and a test keeps it current.
[JSON output and exit codes](json.md) are described on a page of their own.
"""


def pages() -> dict[str, str]:
    """The text of each file that is made from the code, by its name under docs/."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {"cli.md": reference(), "manifest.schema.json": schema}


def reference() -> str:
    """What every command prints for --help."""
    parts = [_INTRODUCTION, _section("dalenius", main)]
    parts += [_section(f"dalenius {name}", command) for name, command in main.commands.items()]
    return "\n".join(parts)


def _section(name: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=name, terminal_width=100, max_content_width=100, help_option_names=["-h", "--help"]
    )
    return f"## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")

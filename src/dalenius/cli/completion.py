"""dalenius completion: a script that teaches the shell to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

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

"""How commands end: exit codes, and errors in one shape for people and one for scripts.

Exit codes are a contract: 0 done, 1 the check failed, 2 wrong use or bad input, 3 no solution exists, 70 a bug in
Dalenius, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from dalenius.errors import DaleniusError

NO_SOLUTION = 3
INTERRUPTED = 130


@contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Print an error of ours as text to standard error, or as {"error": {...}} to standard output, and exit."""
    try:
        yield
    except DaleniusError as error:
        if as_json:
            click.echo(json.dumps({"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}))
        else:
            click.echo(f"Error: {error.message}", err=True)
            if error.hint:
                click.echo(error.hint, err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        click.echo("Interrupted. Nothing was written.", err=True)
        sys.exit(INTERRUPTED)

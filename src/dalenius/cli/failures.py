"""How commands end: exit codes, and errors in one shape for people and one for scripts.

Exit codes are a contract: 0 done, 1 the check failed, 2 wrong use or bad input, 3 no solution exists, 70 a bug in
Dalenius, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from dalenius.errors import DaleniusError

CHECK_FAILED = 1
WRONG_USE = 2
NO_SOLUTION = 3
BUG = 70
INTERRUPTED = 130
_LATER = 0.01  # seconds


def fail(as_json: bool, code: int, kind: str, message: str, hint: str | None = None) -> NoReturn:
    """Print an error as text to standard error, or as {"error": {...}} to standard output, and exit."""
    if as_json:
        click.echo(json.dumps({"error": {"kind": kind, "message": message, "hint": hint}}))
    else:
        click.echo(f"Error: {message}" + (f"\n{hint}" if hint else ""), err=True)
    sys.exit(code)


@contextmanager
def report_errors(as_json: bool) -> Iterator[None]:
    """Turn whatever ends a command early into an exit code and an error that holds nobody's data."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(WRONG_USE)
    except click.ClickException as error:
        fail(as_json, WRONG_USE, "usage", error.format_message(), _help_for(error))
    except DaleniusError as error:
        fail(as_json, error.exit_code, error.kind, error.message, error.hint)
    except (KeyboardInterrupt, click.Abort):
        fail(as_json, INTERRUPTED, "interrupted", "interrupted")
    except OSError as error:
        _discard_output()
        fail(False, WRONG_USE, "output", f"the output cannot be written: {error.strerror}")
    except Exception as error:
        if os.environ.get("DALENIUS_TRACEBACK"):
            raise
        hint = "This is probably a bug in Dalenius: please report it. DALENIUS_TRACEBACK=1 shows where it happened."
        fail(as_json, BUG, "internal", f"unexpected {type(error).__name__}", hint)


def interrupt_when_safe() -> None:
    """From here on Ctrl-C, and SIGTERM like it, raise KeyboardInterrupt, but not where that would do damage.

    An import that is interrupted leaves half a module behind, and locks; libraries written in C end the program or hang
    over it. Temporary folders that are being made or removed would stay. There, it waits until they are done.
    """

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if any(_must_not_stop(one) for one in _and_callers(frame)):
            signal.setitimer(signal.ITIMER_REAL, _LATER)
        else:
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)


def _and_callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _must_not_stop(frame: FrameType) -> bool:
    code, module = frame.f_code, frame.f_globals.get("__name__")
    return (
        code.co_filename.startswith("<frozen importlib")
        or module == "tempfile"
        or (module == "shutil" and "rmtree" in code.co_name)
    )


def _discard_output() -> None:
    """Discard what could not be written; otherwise Python tries again at exit and fails with its own code."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help_for(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"Try '{context.command_path} --help'." if context is not None else None


class _Command(click.Command):
    """A command whose usage errors keep the JSON contract too."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, and report errors in the options like all others."""
        words = list(extra.get("args") or (args[0] if args and args[0] is not None else sys.argv[1:]))
        try:
            with report_errors("--json" in words):
                code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.Exit as ending:
            sys.exit(ending.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


class OneCommand(_Command):
    """A program of a single command."""


class Commands(_Command, click.Group):
    """A program of several commands."""

"""Studio as a user starts it: the command in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from dalenius.cli.main import main

COMMAND = Path(sys.executable).parent / "dalenius"


@contextmanager
def studio(*words: str) -> Iterator[str]:
    """The address of a running Studio, with its token. It has to end well, and to have said nothing but that."""
    started = subprocess.Popen(
        [COMMAND, "studio", *words, "--no-browser", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    try:
        yield json.loads(started.stdout.readline())["url"]
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            _, said = started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == 0, said
    assert "Traceback" not in said


def run(*words: str | Path) -> Any:
    """What a command prints with --json."""
    done = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def published(table: Path, job: Path, out: Path) -> Any:
    """What `dalenius publish` says of the release of a job file."""
    return run("publish", table, "--job", job, "--out", out)


def plan(table: Path, job: Path) -> str:
    """The setting that `dalenius plan` gives, as Studio writes it."""
    answer = run("plan", table, "--job", job)
    return " + ".join(f"{group['buckets']} x {group['size']}" for group in answer["setting"])

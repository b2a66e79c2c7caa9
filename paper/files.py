"""Files that are there whole or not at all.

What times depend on.
"""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dalenius.errors import OutputError
from dalenius.model import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paper.figure import Rows


def written(path: Path, content: str | bytes) -> None:
    """Write a file beside its place and move it there."""
    beside = path.with_name(f".{path.name}.part")
    with writable():
        try:
            beside.write_bytes(content.encode() if isinstance(content, str) else content)
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise


@contextmanager
def writable() -> Iterator[None]:
    """What the file system says, as an error of ours."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"the results cannot be written: {error.strerror}", "Give another folder with --out."
        ) from None


def csv_text(rows: Rows) -> str:
    """Rows as CSV; nothing is an empty field."""
    columns: Sequence[str] = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _field(row.get(name)) for name in columns} for row in rows)
    return out.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def machine() -> dict[str, str]:
    """The machine's description."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "dalenius": VERSION,
        "cores": str(cores),
        "processor": platform.machine(),
        "python": platform.python_version(),
    }


def described(found: dict[str, str]) -> str:
    """In words."""
    cores = found["cores"]
    plural = "" if cores == "1" else "s"
    return f"{cores} {found['processor']} core{plural}, Python {found['python']}, Dalenius {found['dalenius']}"

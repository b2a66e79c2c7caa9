"""Files that are there whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dalenius.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dalenius.reproduce.figure import Rows


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

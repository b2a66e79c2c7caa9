"""Releases in the same folder as another: those that somebody could compare with it, and those that follow on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dalenius.release.manifest import FILE

_MOST_FOLDERS = 500
_LARGEST = 2**25  # bytes of a manifest


@dataclass(frozen=True)
class Neighbour:
    """What a manifest says of who is in a release: its columns, and which release it follows on."""

    quasi_identifiers: frozenset[str]
    sensitive: frozenset[str]
    previous: str | None


def releases_in(folder: Path, *, but: Path | None = None) -> Iterator[Neighbour]:
    """The releases among the folders of a folder, but for one; whatever cannot be read is none."""
    with suppress(OSError):
        folders = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        for path in folders[:_MOST_FOLDERS]:
            if but is None or path != but:
                with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                    yield _read(path / FILE)


def release_at(folder: Path) -> Neighbour | None:
    """The release in a folder, if there is one."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        return _read(folder / FILE)
    return None


def _read(path: Path) -> Neighbour:
    if path.stat().st_size > _LARGEST:
        raise ValueError
    said: Any = json.loads(path.read_bytes())
    if said["program"]["name"] != "dalenius":
        raise ValueError
    columns = said["columns"]
    sensitive = [columns["sensitive"], *(other["column"] for other in said.get("others") or ())]
    return Neighbour(
        frozenset(str(column["name"]) for column in columns["quasi_identifiers"]),
        frozenset(str(name) for column in sensitive for name in (column["name"], *(column.get("of") or ()))),
        (said.get("chain") or {}).get("previous"),
    )

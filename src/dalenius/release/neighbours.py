"""Releases in the same folder as another: those that somebody could compare with it, and those that follow on it."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dalenius.release.ledger import digest_of_release
from dalenius.release.manifest import FILE

_MOST_FOLDERS = 500
_LARGEST = 2**25  # bytes of a manifest


@dataclass(frozen=True)
class Neighbour:
    """What a manifest says of who is in a release: its columns, and which release it follows on, by SHA-256."""

    digest: str
    quasi_identifiers: frozenset[str]
    sensitive: frozenset[str]
    previous: str | None


def releases_in(folder: Path) -> Iterator[Neighbour]:
    """The releases among the folders of a folder; whatever cannot be read is none."""
    with suppress(OSError):
        folders = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        for path in folders[:_MOST_FOLDERS]:
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                yield _read(path / FILE)


def comparable(target: Path, quasi_identifiers: Iterable[str], sensitive: Iterable[str], after: Path | None) -> int:
    """How many releases beside a target, or in its place, have a sensitive column and a quasi-identifier in common with
    it; those of the chain that it follows on do not count."""
    known, people = frozenset(sensitive), frozenset(quasi_identifiers)
    found = list(releases_in(target.parent))
    chain = {digest_of_release(after)} if after is not None else set()
    before = {one.digest: one.previous for one in found}
    while more := {before[digest] for digest in chain if digest in before} - chain - {None}:
        chain |= more
    return sum(
        1 for one in found if one.sensitive & known and one.quasi_identifiers & people and one.digest not in chain
    )


def _read(path: Path) -> Neighbour:
    state = path.stat()
    if not stat.S_ISREG(state.st_mode) or state.st_size > _LARGEST:  # nobody ever writes into some pipes
        raise ValueError
    content = path.read_bytes()
    said: Any = json.loads(content)
    if said["program"]["name"] != "dalenius":
        raise ValueError
    columns = said["columns"]
    sensitive = [columns["sensitive"], *(other["column"] for other in said.get("others") or ())]
    return Neighbour(
        hashlib.sha256(content).hexdigest(),
        frozenset(str(column["name"]) for column in columns["quasi_identifiers"]),
        frozenset(str(name) for column in sensitive for name in (column["name"], *(column.get("of") or ()))),
        (said.get("chain") or {}).get("previous"),
    )

"""People over time, and chains of releases of them, as `dalenius.publish` makes them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import dalenius

People = Mapping[str, tuple[int, str]]  # of each person a number that is theirs alone, and their sensitive value


def table_of(people: People) -> pa.Table:
    """One row for each person."""
    return pa.table(
        {
            "person": pa.array(list(people), pa.string()),
            "age": pa.array([age for age, _ in people.values()], pa.int64()),
            "value": pa.array([value for _, value in people.values()], pa.string()),
        }
    )


class Years:
    """A chain of releases in a folder: r1, r2, ..., and the ledger in a folder of its own."""

    def __init__(self, folder: Path, limits: Any = None, **options: Any) -> None:
        self.folder, self.ledger = folder, folder / "private" / "ledger"
        self._limits = limits if limits is not None else {"uniform": "1/2"}
        self._options = {"sensitive": "value", "quasi_identifiers": ["age"], "person": "person", **options}
        self.releases: list[dalenius.Release] = []

    def publish(self, table: Any, limits: Any = None, **options: Any) -> dalenius.Release:
        """The next release; nothing changes if there is none."""
        after = {"after": self.releases[-1].path} if self.releases else {}
        chosen: dict[str, Any] = {"ledger": self.ledger, "out": self.next, **after, **self._options, **options}
        release = dalenius.publish(table, limits if limits is not None else self._limits, **chosen)
        self.releases.append(release)
        return release

    def follow(self, people: People, **options: Any) -> dalenius.Release:
        """The next release of these people."""
        return self.publish(table_of(people), **options)

    @property
    def next(self) -> Path:
        """Where the next release goes."""
        return self.folder / f"r{len(self.releases) + 1}"


def buckets_of(release: dalenius.Release, column: str = "age") -> dict[Any, int]:
    """The bucket of each row, by what is in a column that is different in all of them."""
    qit = release.qit
    found = dict(zip(qit[column].to_pylist(), qit[release.manifest.columns.bucket].to_pylist(), strict=True))
    assert len(found) == qit.num_rows
    return found


def values_in(release: dalenius.Release) -> dict[int, Counter[Any]]:
    """The values of each bucket."""
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    st = release.st
    for bucket, value in zip(*(st[name].to_pylist() for name in st.column_names), strict=True):
        found[bucket][value] += 1
    return dict(found)


def files_in(folder: Path) -> dict[str, bytes | None]:
    """All files in a folder and below, whole; None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }

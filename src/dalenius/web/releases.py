"""The releases that Studio knows: those it made, and those it was given. Each is read from its folder alone."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dalenius.audit.audit import Audit
from dalenius.audit.verify import Verdict, verify
from dalenius.errors import UsageError
from dalenius.policy.job import AdversarySection, Job, LimitsSection, TableSection
from dalenius.policy.limits import LimitPolicy
from dalenius.query.count import Counter
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import SEEDED, Manifest
from dalenius.release.staging import abandon
from dalenius.web.failures import RequestError, not_found
from dalenius.web.tables import TableEntry

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}")


@dataclass
class StudioRelease:
    """A release, and what was found out about it. `table` is the one it was made of, if it was made here.

    `policy` are the limits that the publisher asked for; without, the manifest's own are judged by.
    """

    id: str
    name: str
    folder: ReleaseFolder
    saved: bool
    job_text: str
    table: TableEntry | None = None
    policy: LimitPolicy | None = None
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    audit: Audit | None = None
    audited_with_truth: bool = False
    columns: dict[str, Any] | None = None  # what the query page offers, once it was asked for
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _counter: Counter | None = None
    _closed: bool = False

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.folder.path

    @property
    def manifest(self) -> Manifest:
        """What it says of itself."""
        return self.folder.manifest

    @property
    def file_name(self) -> str:
        """A name for downloads, of plain characters."""
        return re.sub(r"[^A-Za-z0-9._-]+", "_", self.name).lstrip(".")[:60] or "release"

    @contextmanager
    def counter(self) -> Iterator[Counter]:
        """The release open for counting, by one thread at a time. It stays open."""
        with self._lock:
            if self._closed:
                raise not_found()
            if self._counter is None:
                self._counter = Counter(self.folder)
            yield self._counter

    def judged(self) -> Verdict:
        """The last verdict; the first one is made now."""
        if self.verdict is None:
            self.verdict = verify(self.path, policy=self.policy)
        return self.verdict

    def source(self) -> TableEntry:
        """The table that it was made of."""
        if self.table is None:
            message = "the table that this release was made of is not here"
            raise RequestError(409, "no-table", message, "Publish it here, or ask without the truth.")
        return self.table

    def close(self) -> None:
        """Let go of its files; a query that is being counted ends."""
        counter = self._counter
        if counter is not None:
            counter.tables.connection.interrupt()
        with self._lock:
            self._closed = True
            if self._counter is not None:
                self._counter.__exit__(None, None, None)
                self._counter = None

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it."""
        made = self.manifest
        return {
            "id": self.id,
            "name": self.name,
            "rows": made.rows,
            "buckets": made.buckets,
            "mse": made.mse,
            "values": len(made.values),
            "fake_values": made.adversary.fake_values,
            "known_records": made.adversary.known_records,
            "strata": len(made.strata.strata) if made.strata is not None else 1,
            "verified": self.verdict is not None and self.verdict.verified,
            "audited": self.audit is not None,
            "with_truth": self.table is not None,
            "saved": self.saved,
            "seeded": made.randomness == SEEDED,
        }


class Releases:
    """All releases, in the order in which they came."""

    def __init__(self, out: Path | None, unsaved: Path) -> None:
        """New ones go into folders of their own under `out`, or, if there is none, under `unsaved`."""
        self._out, self._unsaved = out, unsaved
        self._lock = threading.Lock()
        self._releases: dict[str, StudioRelease] = {}
        self._target: Path | None = None  # of the release that was begun last

    def target(self, name: str) -> Path:
        """Where a new release of this name is to be made; an error if the name is taken, or not a plain one."""
        if not _PLAIN_NAME.fullmatch(name):
            raise UsageError(
                "the name of a release is 1 to 60 letters, digits, dots, hyphens and underscores, a dot not first",
                "Give it another name.",
            )
        taken = any(other.name.casefold() == name.casefold() for other in self.all() if other.table or not other.saved)
        path = self._out / name if self._out is not None else self._unsaved / secrets.token_hex(12)
        if taken or path.exists() or path.is_symlink():
            raise UsageError("there is a release of this name already", "Give it another name.")
        return path

    def begin(self, target: Path) -> None:
        """A release is being made there."""
        self._target = target

    def add(self, release: StudioRelease) -> None:
        """A release that is complete."""
        with self._lock:
            self._releases[release.id] = release

    def open(self, path: Path) -> None:
        """A release that was made before."""
        folder = open_release(path)
        name = path.resolve().name or "release"
        self.add(StudioRelease(new_id(), name, folder, saved=True, job_text=_job_of(folder.manifest)))

    def get(self, identifier: str) -> StudioRelease:
        """The release with an ID."""
        with self._lock:
            found = self._releases.get(identifier)
        if found is None:
            raise not_found()
        return found

    def all(self) -> list[StudioRelease]:
        """Every release."""
        with self._lock:
            return list(self._releases.values())

    def without_table(self, identifier: str) -> None:
        """A table is gone: what was made of it has no truth any more."""
        for release in self.all():
            if release.table is not None and release.table.id == identifier:
                release.table = None

    def abandon_unfinished(self) -> None:
        """The program is about to end in the middle of publishing: leave nothing of it beside the target."""
        if self._target is not None:
            abandon(self._target)

    def close(self) -> None:
        """Let go of all files."""
        for release in self.all():
            release.close()


def new_id() -> str:
    """A name that nobody can guess."""
    return secrets.token_urlsafe(12)


def _job_of(made: Manifest) -> str:
    """A job file from what a manifest says: its limits one by one, for the rule they came from is not in it."""
    from dalenius.policy.job_writer import job_text

    return job_text(
        Job(
            table=TableSection(
                sensitive=made.columns.sensitive.name,
                quasi_identifiers=[column.name for column in made.columns.quasi_identifiers],
                null_value=made.null_value,
                strata="auto" if made.strata is not None else "none",
            ),
            limits=LimitsSection(values={value.value: value.limit for value in made.values}),
            adversary=AdversarySection(corrupted=made.adversary.known_records, fakes=made.adversary.fake_values),
        )
    )

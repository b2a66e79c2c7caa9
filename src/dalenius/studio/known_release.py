"""A release in Studio: its files, what was found out about them, and counting from them.

Its folder belongs to the user, who may change it at any time. So whatever is known of it is about the files that were
looked at, and is forgotten when they are others: nothing is called verified that was not.

What was found out about a release: all of it about the same files, or none of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from dalenius.attack.audit import audit as play
from dalenius.errors import ChangedInputError, ReleaseError
from dalenius.model.attack_result import Audit
from dalenius.model.progress import Progress
from dalenius.model.verdict import Verdict
from dalenius.policy.limits import LimitPolicy
from dalenius.query.count import Counter
from dalenius.release.folder import LocalStore, ReleaseFolder, open_release
from dalenius.release.manifest import FILE, SEEDED, Manifest
from dalenius.report.facts import Facts
from dalenius.report.twin import report_object
from dalenius.studio.given_tables import TableEntry
from dalenius.studio.messages import RequestError, not_found
from dalenius.verify.judge import verify as judge

_OURS = re.compile(rf"{re.escape(FILE)}|(qit|st)(\.parquet|\.csv|(-[0-9a-f]{{16}})?/[^/]+)", re.DOTALL)

Mark = tuple[int, ...]  # what a file looks like from outside


@dataclass(frozen=True)
class Fingerprint:
    """Which files a folder has now. If this is another one later, something was changed, put there or taken away.

    The manifest is known by its SHA-256, and has those of the tables in it; `marks` are of the files that a release can
    have, by their names. `names` are all that is in the folder, for whoever publishes it publishes that.
    """

    manifest_sha256: str | None
    marks: dict[str, Mark]
    names: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> Fingerprint:
        """Of the folder as it is; of one that is not there, too."""
        try:
            names = tuple(LocalStore(folder).names())
        except OSError:
            names = ()
        marks = {name: mark for name in names if _OURS.fullmatch(name) and (mark := _mark(folder / name)) is not None}
        return cls(_digest(folder / FILE), marks, names)


def mark_of(found: os.stat_result) -> Mark:
    """A file as it is: which one it is, and when it was written to or exchanged."""
    return (found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def open_file(path: Path) -> int:
    """A descriptor of a regular file; OSError for a link, a pipe or whatever else has its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    return descriptor


def _mark(path: Path) -> Mark | None:
    try:
        return mark_of(path.lstat())
    except OSError:
        return None


def _digest(path: Path) -> str | None:
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@dataclass(frozen=True)
class Audited:
    """What attackers got out of a release. With the truth, its figures are for the publisher alone."""

    audit: Audit
    with_truth: bool


@dataclass(frozen=True)
class Found:
    """What is known of the files that `about` tells; the report's `twin` says the rest of it."""

    about: Fingerprint
    verdict: Verdict | None = None
    audited: Audited | None = None
    twin: dict[str, Any] | None = None

    @property
    def verified(self) -> bool | None:
        """Whether every check was passed; None if none was made."""
        return self.verdict.verified if self.verdict is not None else None


Result = TypeVar("Result")


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
    columns: tuple[Fingerprint, dict[str, Any]] | None = None  # what the query page offers, and of which files
    _found: Found | None = None
    _noting: threading.Lock = field(default_factory=threading.Lock)
    _telling: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.RLock = field(default_factory=threading.RLock)
    _counter: Counter | None = None
    _counted: Fingerprint | None = None  # what the counter was opened on
    _closed: bool = False

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.folder.path

    @property
    def manifest(self) -> Manifest:
        """What it says of itself; what it said, where that cannot be read any more."""
        return self.folder.manifest

    @property
    def file_name(self) -> str:
        """A name for downloads, of plain characters."""
        return re.sub(r"[^A-Za-z0-9._-]+", "_", self.name).lstrip(".")[:60] or "release"

    def found(self) -> Found:
        """What is known of the release as it is now."""
        now = Fingerprint.of(self.path)
        with self._noting:
            return self._known(now)

    def _known(self, about: Fingerprint) -> Found:
        """What is known of these files; whatever is known of others is forgotten."""
        known = self._found
        if known is None or known.about != about:
            if known is None or known.about.manifest_sha256 != about.manifest_sha256:
                with suppress(ReleaseError):  # verifying says what is wrong with it
                    self.folder = open_release(self.path)
            known = self._found = Found(about)
        return known

    def verify(self, table: TableEntry | None = None, progress: Progress | None = None) -> Verdict:
        """Check every promise, and hold the release against its table if that is given."""

        def work() -> Verdict:
            against, name = (table.path, table.table) if table is not None else (None, None)
            return judge(self.path, policy=self.policy, against=against, table=name, progress=progress)

        return self._find(work, table, lambda found, verdict: replace(found, verdict=verdict, twin=None))

    def audit(self, table: TableEntry | None, progress: Progress) -> Audit:
        """Play attackers, and say how often they are right if the table is given."""

        def work() -> Audit:
            truth, name = (table.path, table.table) if table is not None else (None, None)
            return play(self.path, truth=truth, table=name, progress=progress)

        with_truth = table is not None
        return self._find(
            work, table, lambda found, audit: replace(found, audited=Audited(audit, with_truth), twin=None)
        )

    def _find(
        self, work: Callable[[], Result], table: TableEntry | None, noted: Callable[[Found, Result], Found]
    ) -> Result:
        """Find something out, and note it, if release and table were the same from beginning to end."""
        before = Fingerprint.of(self.path)
        result = work()
        if table is not None:
            table.require_unchanged()
        if Fingerprint.of(self.path) != before:
            raise ChangedInputError("the release changed while it was being read", "Run it again.")
        with self._noting:
            self._found = noted(self._known(before), result)
        return result

    def judged(self) -> Found:
        """What is known, the verdict included; it is made now if there is none."""
        while (found := self.found()).verdict is None:
            self.verify()
        return found

    def twin(self) -> dict[str, Any]:
        """The report's twin. Until more is found out, or the release changes, it is the same one."""
        with self._telling:
            while True:
                found = self.judged()
                if found.twin is not None:
                    return found.twin
                told = replace(found, twin=report_object(self._facts(found)))
                if Fingerprint.of(self.path) != found.about:
                    continue
                with self._noting:
                    if self._found is found:  # nothing else was found out meanwhile
                        self._found = told

    def _facts(self, found: Found) -> Facts:
        assert found.verdict is not None  # noqa: S101 (`judged` gave it)
        audited = found.audited
        return Facts.of(
            self.path,
            found.verdict,
            audit=audited.audit if audited is not None else None,
            from_raw_table=audited is not None and audited.with_truth,
            about=found.about.manifest_sha256,
        )

    @contextmanager
    def counter(self) -> Iterator[Counter]:
        """The release open for counting, by one thread at a time. It stays open until it changes."""
        with self._counting:
            if self._closed:
                raise not_found()
            about = self.found().about
            if self._counter is not None and self._counted != about:
                self._counter.__exit__(None, None, None)
                self._counter = None
            if self._counter is None:
                self._counter, self._counted = Counter(self.folder), about
            yield self._counter

    def source(self) -> TableEntry:
        """The table that it was made of, as it was then."""
        table = self.table
        if table is None:
            message = "the table that this release was made of is not here"
            raise RequestError(409, "no-table", message, "Publish it here, or ask without the truth.")
        table.require_unchanged()
        return table

    @property
    def has_truth(self) -> bool:
        """Whether its table is here, as it was."""
        table = self.table
        return table is not None and table.is_unchanged()

    def close(self) -> None:
        """Let go of its files; a query that is being counted ends."""
        counter = self._counter
        if counter is not None:
            counter.tables.connection.interrupt()
        with self._counting:
            self._closed = True
            if self._counter is not None:
                self._counter.__exit__(None, None, None)
                self._counter = None

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it."""
        found, made = self.found(), self.manifest
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
            "verified": found.verified,
            "audited": found.audited is not None,
            "with_truth": self.has_truth,
            "saved": self.saved,
            "seeded": made.randomness == SEEDED,
        }

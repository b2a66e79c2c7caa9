"""A release in Studio: its files, and what Studio knows about them.

The folder belongs to the user, who may change it at any time. So all knowledge is about the files as they were when
Studio read them, and is dropped when they change: Studio calls nothing verified that it did not verify.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dalenius.attack.audit import audit as play
from dalenius.errors import ChangedInputError, ReleaseError
from dalenius.model.attack_result import Audit
from dalenius.model.concern import Concern
from dalenius.model.progress import Progress
from dalenius.model.verdict import Verdict
from dalenius.policy.job import Job, ReportSection
from dalenius.policy.limits import LimitPolicy
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE, SEEDED, SIGNATURE_FILE, Manifest
from dalenius.release.store import LocalStore
from dalenius.report.facts import Facts
from dalenius.report.twin import report_object
from dalenius.studio.child import OpenRelease
from dalenius.studio.draft import Draft
from dalenius.studio.messages import RequestError
from dalenius.studio.table_entries import TableEntry
from dalenius.verify.judge import verify as judge

if TYPE_CHECKING:
    from dalenius.query.count import Known
    from dalenius.studio.analyses import Completed

_TABLES = r"(qit|st[0-9]{0,3}(_groups)?|together[0-9]{0,3})(\.parquet|\.csv|(-[0-9a-f]{16})?/[^/]+)"
_OURS = re.compile(rf"{re.escape(FILE)}|{re.escape(SIGNATURE_FILE)}|{_TABLES}", re.DOTALL)

Mark = tuple[int, ...]  # identity, size and times of a file


@dataclass(frozen=True)
class Fingerprint:
    """Which files a folder has. If the fingerprint differs later, something was changed, added or removed.

    It has the SHA-256 of the manifest, which in turn has those of the tables. `marks` are those of the files that a
    release can have, by name. `names` are all names in the folder: publishing the folder publishes them all.
    """

    manifest_sha256: str | None
    marks: dict[str, Mark]
    names: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> Fingerprint:
        """The fingerprint of a folder as it is now, even of one that does not exist."""
        try:
            names = tuple(LocalStore(folder).names())
        except (OSError, ReleaseError):
            names = ()
        marks = {name: mark for name in names if _OURS.fullmatch(name) and (mark := _mark(folder / name)) is not None}
        return cls(_digest(folder / FILE), marks, names)

    @property
    def mark(self) -> str:
        """The fingerprint in short, for other processes."""
        return hashlib.sha256(repr(self).encode("utf-8", "backslashreplace")).hexdigest()


def mark_of(state: os.stat_result) -> Mark:
    """Which file this is, and when it was last written or replaced."""
    return (state.st_mode, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def open_file(path: Path) -> int:
    """A descriptor of a regular file; OSError for a link, a pipe or anything else."""
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
class AuditRun:
    """An audit of a release. With the truth, its figures are only for the publisher."""

    audit: Audit
    with_truth: bool


@dataclass(frozen=True)
class Knowledge:
    """What Studio knows about the files with the fingerprint `about`: verdict, audit, and the twin of the report."""

    about: Fingerprint
    verdict: Verdict | None = None
    audited: AuditRun | None = None
    twin: dict[str, Any] | None = None

    @property
    def verified(self) -> bool | None:
        """Whether every check passed; None if nothing was checked."""
        return self.verdict.verified if self.verdict is not None else None


Result = TypeVar("Result")


@dataclass
class StudioRelease:
    """A release, and what Studio knows about it. `table` is the one it was made from, if it was made here.

    `job` is what the publisher asked for, and `policy` the limits that it comes to. Without them, verification uses
    the limits of the manifest.
    """

    id: str
    name: str
    folder: ReleaseFolder
    saved: bool
    write_job: Callable[[], str] | None = None  # the text of its job file, if it was made here
    table: TableEntry | None = None
    job: Job | None = None
    policy: LimitPolicy | None = None
    draft: Draft | None = None  # of which it was made
    downloaded: bool = False
    notes: tuple[str, ...] = ()
    concerns: tuple[Concern, ...] = ()  # of the look at the table, before it was published
    head: ReportSection = field(default_factory=ReportSection)
    columns: tuple[str, dict[str, Any]] | None = None  # for the query page, with the mark of the files
    calibration: tuple[str, Known] | None = None  # of intervals, with the mark of the files
    completed: Completed | None = None  # the tables that were drawn last
    _knowledge: Knowledge | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _twin_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.folder.path

    @property
    def manifest(self) -> Manifest:
        """Its manifest; the last one that could be read."""
        return self.folder.manifest

    @property
    def file_name(self) -> str:
        """A name for downloads, in plain characters."""
        return re.sub(r"[^A-Za-z0-9._-]+", "_", self.name).lstrip(".")[:60] or "release"

    def knowledge(self) -> Knowledge:
        """What is known about the release as it is now."""
        now = Fingerprint.of(self.path)
        with self._lock:
            return self._known_about(now)

    def _known_about(self, about: Fingerprint) -> Knowledge:
        """What is known about these files. Knowledge about others is dropped."""
        known = self._knowledge
        if known is None or known.about != about:
            if known is None or known.about.manifest_sha256 != about.manifest_sha256:
                with suppress(ReleaseError):  # verification says what is wrong with it
                    self.folder = open_release(self.path)
            known = self._knowledge = Knowledge(about)
        return known

    def verify(self, table: TableEntry | None = None, progress: Progress | None = None) -> Verdict:
        """Check every promise, and compare the release with its table if that is given."""

        def work() -> Verdict:
            against, name = (table.path, table.table) if table is not None else (None, None)
            return judge(self.path, policy=self.policy, job=self.job, against=against, table=name, progress=progress)

        return self._learn(work, table, lambda known, verdict: replace(known, verdict=verdict, twin=None))

    def audit(self, table: TableEntry | None, progress: Progress) -> Audit:
        """Play attackers, and measure how often they are right if the table is given."""

        def work() -> Audit:
            truth, name = (table.path, table.table) if table is not None else (None, None)
            person = self.job.table.person if self.job is not None and table is not None else None
            return play(self.path, truth=truth, table=name, person=person, progress=progress)

        with_truth = table is not None
        return self._learn(
            work, table, lambda known, audit: replace(known, audited=AuditRun(audit, with_truth), twin=None)
        )

    def _learn(
        self, work: Callable[[], Result], table: TableEntry | None, update: Callable[[Knowledge, Result], Knowledge]
    ) -> Result:
        """Do the work, and keep its result if neither release nor table changed meanwhile."""
        before = Fingerprint.of(self.path)
        result = work()
        if table is not None:
            table.require_unchanged()
        if Fingerprint.of(self.path) != before:
            raise ChangedInputError("the release changed while it was being read", "Run it again.")
        with self._lock:
            self._knowledge = update(self._known_about(before), result)
        return result

    def verified_knowledge(self, progress: Progress | None = None) -> Knowledge:
        """What is known, including a verdict: the release is verified now if it has not been."""
        while (known := self.knowledge()).verdict is None:
            self.verify(progress=progress)
        return known

    def set_head(self, head: ReportSection) -> None:
        """Another head for the report, which is written again."""
        with self._lock:
            self.head = head
            if self._knowledge is not None:
                self._knowledge = replace(self._knowledge, twin=None)

    def twin_of(self, known: Knowledge) -> dict[str, Any]:
        """The twin of the report with a verdict that is known."""
        return known.twin or report_object(self._facts(known))

    def twin(self, progress: Progress | None = None) -> dict[str, Any]:
        """The twin of the report. It stays the same until more is known, or the release changes."""
        with self._twin_lock:
            while True:
                known = self.verified_knowledge(progress)
                if known.twin is not None:
                    return known.twin
                with_twin = replace(known, twin=self.twin_of(known))
                if Fingerprint.of(self.path) != known.about:
                    continue
                with self._lock:
                    if self._knowledge is known:  # nothing else was learned meanwhile
                        self._knowledge = with_twin

    def _facts(self, known: Knowledge) -> Facts:
        assert known.verdict is not None  # noqa: S101 (`verified_knowledge` gave it)
        audited = known.audited
        facts = Facts.of(
            self.path,
            known.verdict,
            audit=audited.audit if audited is not None else None,
            from_raw_table=audited is not None and audited.with_truth,
            about=known.about.manifest_sha256,
        )
        return replace(facts, head=self.head)

    def opened(self, memory: str) -> OpenRelease:
        """The release as it is now, for a process that counts; `memory` is what DuckDB may take there."""
        about = self.knowledge().about.mark
        known = self.calibration
        return OpenRelease(self.folder, about, memory, known[1] if known is not None and known[0] == about else None)

    def source(self) -> TableEntry:
        """The table that it was made from, unchanged."""
        table = self.table
        if table is None:
            message = "Studio does not have the table that this release was made from"
            raise RequestError(409, "no-table", message, "Publish the table here, or ask without the true counts.")
        table.require_unchanged()
        return table

    @property
    def has_truth(self) -> bool:
        """Whether Studio has its table, unchanged."""
        table = self.table
        return table is not None and table.is_unchanged()

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it."""
        known, manifest = self.knowledge(), self.manifest
        return {
            "id": self.id,
            "name": self.name,
            "rows": manifest.rows,
            "buckets": manifest.buckets,
            "mse": manifest.mse,
            "people": manifest.people,
            "by_people": not manifest.is_plain,
            "several_rows": manifest.persons is not None,
            "dropped": manifest.persons.dropped if manifest.persons is not None else 0,
            "sensitive": [_of_column(manifest.view(number)) for number in range(manifest.sets)],
            "values": len(manifest.values),
            "has_bands": manifest.bands is not None,
            "fake_values": manifest.adversary.fake_values,
            "known_records": manifest.adversary.known_records,
            "surplus": manifest.surplus,
            "chain": manifest.chain.release if manifest.chain is not None else None,
            "strata": len(manifest.strata.strata) if manifest.strata is not None else 1,
            "verified": known.verified,
            "audited": known.audited is not None,
            "with_truth": self.has_truth,
            "saved": self.saved,
            "downloaded": self.downloaded,
            "seeded": manifest.randomness == SEEDED,
            "report": self.head.model_dump(),
        }


def _of_column(view: Manifest) -> dict[str, Any]:
    """A sensitive column of a release, and its table."""
    column, lines = view.columns.sensitive, view.tables.st
    return {
        "column": column.name,
        "of": column.of,
        "values": len(view.values),
        "file": lines.file,
        "lines": lines.rows,
    }

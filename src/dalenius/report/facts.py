"""What a report is about: the release, the verdict on it, and what attackers and count queries got out of it."""

from __future__ import annotations

import datetime
import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dalenius.attack.audit import audit as play
from dalenius.errors import ChangedInputError, ReleaseError, UsageError
from dalenius.model.attack_result import Audit
from dalenius.model.progress import Progress, Silent
from dalenius.model.verdict import Verdict
from dalenius.query.workload import SELECTIVITY, WorkloadResult, evaluate
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE, Manifest, read_manifest
from dalenius.verify.findings import SOURCE, Report
from dalenius.verify.judge import verify
from dalenius.verify.release_files import is_there, other_files, require_folder

_NOT_ITS_TABLE = "the table given did not prove to be the one that was published, so attackers were not scored by it"
_SEED = 0  # of the workload's queries, as `dalenius workload` has it


@dataclass(frozen=True)
class Workload:
    """Errors of the paper's count queries, learned estimates among them, and which queries they were."""

    result: WorkloadResult
    seconds: float
    selectivity: float = SELECTIVITY
    seed: int = _SEED


@dataclass(frozen=True)
class Facts:
    """Everything that a report says, before it is put into words.

    `manifest` and the SHA-256 of its file are None if it cannot be read: then the verdict says so. `audit_note` and
    `workload_note` say why there is none, though it was asked for. `from_raw_table` says that some figure was computed
    from the table that was published, or from another one that is not: then the report is for the publisher.
    `with_control` says that the audit had such another one. `other_files` are in the folder beside the release.
    """

    manifest: Manifest | None
    manifest_sha256: str | None
    verdict: Verdict
    made_on: datetime.date
    from_raw_table: bool = False
    audit: Audit | None = None
    audit_note: str | None = None
    workload: Workload | None = None
    workload_note: str | None = None
    with_control: bool = False
    other_files: int = 0

    @classmethod
    def of(
        cls,
        folder: Path,
        verdict: Verdict,
        *,
        audit: Audit | None = None,
        workload: Workload | None = None,
        from_raw_table: bool = False,
        made_on: datetime.date | None = None,
        about: str | None = None,
    ) -> Facts:
        """From what has been found already. Whoever audited with the truth says `from_raw_table`.

        `about` is the SHA-256 of the manifest that it was found in: with another one by now, nothing is said.
        """
        manifest, digest = _manifest(folder)
        if about is not None and (digest not in (None, about) or _digest(folder) != about):
            raise ChangedInputError("the release changed after it was verified", "Verify it again.")
        compared = any(check.check == SOURCE for check in verdict.checks)
        return cls(
            manifest,
            digest,
            verdict,
            made_on or _today(),
            from_raw_table or compared or workload is not None,
            audit=audit,
            workload=workload,
            other_files=_other_files(folder, manifest),
        )

    @property
    def holds(self) -> bool:
        """Whether the release passed every check, and no attack broke a promise."""
        return self.verdict.verified and not (self.audit is not None and self.audit.broken)


def collect(
    folder: Path,
    *,
    audit: bool = False,
    truth: Any = None,
    table: str | None = None,
    control: Any = None,
    progress: Progress | None = None,
) -> Facts:
    """Verify the release in a folder, attack it if asked to, and with the table that it was made of, measure it.

    `truth` is a path (with `table`, for a DuckDB file that has several), a DataFrame, a pyarrow Table or a DuckDB
    relation; `control` is a table of people who are not in the release, for the attacker who learns. A release that
    does not pass its checks is no error here: the facts say so, and leave out what has no meaning then.
    """
    require_folder(folder)
    if control is not None and not audit:
        raise UsageError("a control table is for the audit", "Ask for the audit as well, or leave the table out.")
    progress = progress or Silent()
    before = _manifest(folder)
    verdict = _verified(folder, before[0], truth, table, progress)
    is_its_table = truth is not None and verdict[SOURCE].passed
    facts = Facts.of(folder, verdict, from_raw_table=truth is not None or control is not None)
    facts = replace(facts, with_control=control is not None)
    if audit:
        facts = _audited(facts, folder, truth if is_its_table else None, table, control, progress)
        if facts.audit is not None and truth is not None and not is_its_table:
            facts = replace(facts, audit_note=_NOT_ITS_TABLE)
    if truth is not None:
        facts = _measured(facts, folder, truth, table, progress)
    if not before[1] == facts.manifest_sha256 == _manifest(folder)[1]:
        raise ChangedInputError("the release changed while it was being read", "Run it again.")
    return facts


def _manifest(folder: Path) -> tuple[Manifest | None, str | None]:
    """The manifest and the SHA-256 of its file; neither if it cannot be read."""
    if not is_there(folder / FILE, Report()):  # a pipe would never end
        return None, None
    try:
        manifest, digest = read_manifest(folder), _digest(folder)
    except ReleaseError:
        return None, None
    return (manifest, digest) if digest is not None else (None, None)


def _digest(folder: Path) -> str | None:
    """The SHA-256 of the manifest's file, whatever is in it."""
    try:
        return hashlib.sha256((folder / FILE).read_bytes()).hexdigest() if is_there(folder / FILE, Report()) else None
    except OSError:
        return None


def _other_files(folder: Path, manifest: Manifest | None) -> int:
    """How many there are besides the release: who publishes the folder publishes them."""
    if manifest is None:
        return 0
    return len(other_files(ReleaseFolder(folder, manifest)))


def _verified(folder: Path, manifest: Manifest | None, truth: Any, table: str | None, progress: Progress) -> Verdict:
    rows = (manifest.rows + manifest.slots) * (2 if truth is not None else 1) if manifest is not None else None
    progress.stage("Verifying", rows)
    done = 0

    def advance(rows_done: int, _: int) -> None:
        nonlocal done
        progress.advance(rows_done - done)
        done = rows_done

    return verify(folder, against=truth, table=table, progress=advance)


def _audited(facts: Facts, folder: Path, truth: Any, table: str | None, control: Any, progress: Progress) -> Facts:
    try:
        found = play(
            folder, truth=truth, table=table if truth is not None else None, control=control, progress=progress
        )
    except ReleaseError as error:
        if facts.verdict.verified:
            raise
        return replace(facts, audit_note=error.message)
    return replace(facts, audit=found)


def _measured(facts: Facts, folder: Path, truth: Any, table: str | None, progress: Progress) -> Facts:
    if not facts.verdict.verified:
        return replace(facts, workload_note="the release did not pass its checks against the table given")
    progress.stage("Counting")
    start = time.perf_counter()
    try:
        result = evaluate(open_release(folder), truth, table=table, seed=_SEED, learn=True)
    except UsageError as error:  # no column to ask about
        return replace(facts, workload_note=error.message)
    return replace(facts, workload=Workload(result, time.perf_counter() - start))


def _today() -> datetime.date:
    return datetime.datetime.now().astimezone().date()

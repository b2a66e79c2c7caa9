"""The facts behind a report: the release, the verdict on it, and how attackers and count queries did."""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dalenius.attack.audit import audit as play
from dalenius.errors import ChangedInputError, ReleaseError, UsageError
from dalenius.model.attack_result import Audit
from dalenius.model.progress import Progress, Silent
from dalenius.model.verdict import Verdict
from dalenius.policy.job import Job, ReportSection
from dalenius.query.workload import SELECTIVITY, WorkloadResult, evaluate
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE, Manifest, read_manifest
from dalenius.verify.findings import SOURCE, Report
from dalenius.verify.judge import verify
from dalenius.verify.release_files import is_there, other_files, require_folder

_NOT_ITS_TABLE = "the table given is not the one that was published, so attackers were not scored with it"
_SEED = 0  # of the workload's queries, as `dalenius workload` has it


@dataclass(frozen=True)
class Workload:
    """The errors of the paper's count queries, with learned estimates, and which queries they were."""

    result: WorkloadResult
    seconds: float
    selectivity: float = SELECTIVITY
    seed: int = _SEED


@dataclass(frozen=True)
class Earlier:
    """An earlier release: its manifest, and the SHA-256 of the manifest's file."""

    manifest: Manifest
    sha256: str


@dataclass(frozen=True)
class Facts:
    """Everything in a report, before it is put into words.

    `manifest` and the SHA-256 of its file are None if it cannot be read; the verdict says so too. `audit_note` and
    `workload_note` say why a part that was asked for is missing. `from_raw_table` says that some figure comes from the
    published table or from a control table: such a report is for the publisher only. `with_control` says that the audit
    had a control table. `other_files` is the number of files in the folder that do not belong to the release. `head` is
    what the publisher wants at the top of the first page. `earlier` are releases that are said to precede this one in
    its chain.
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
    head: ReportSection = field(default_factory=ReportSection)
    earlier: tuple[Earlier, ...] = ()

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
        """The facts from a verdict and results that exist already.

        The caller sets `from_raw_table` if the audit used the truth. `about` is the SHA-256 of the manifest at the time
        of the verdict: if the manifest has changed since, this is an error.
        """
        manifest, digest = _manifest(folder)
        if about is not None and (digest not in (None, about) or _digest(folder) != about):
            raise ChangedInputError("the release changed after it was verified", "Verify it again.")
        compared = any(check.check == SOURCE for check in verdict.checks)
        return cls(
            manifest=manifest,
            manifest_sha256=digest,
            verdict=verdict,
            made_on=made_on or _today(),
            from_raw_table=from_raw_table or compared or workload is not None,
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
    person: str | None = None,
    control: Any = None,
    head: ReportSection | None = None,
    job: Job | None = None,
    previous: Sequence[Path] = (),
    memory: int | None = None,
    progress: Progress | None = None,
) -> Facts:
    """Verify the release in a folder, attack it if `audit`, and measure its counts if there is a `truth`.

    `truth` is a path (with `table`, for a DuckDB file that has several), a DataFrame, a pyarrow Table or a DuckDB
    relation, and `person` its column that says whose rows are whose; `control` is a table of people who are not in the
    release, for the attacker who learns. With a `job`, the release is compared with all that it says. A release that
    does not pass its checks is not an error here: the facts say so, and leave out what has no meaning then. `previous`
    are folders of earlier releases of the same chain. `memory` is what the whole program may take, in bytes.
    """
    require_folder(folder)
    if control is not None and not audit:
        raise UsageError(
            "a control table is for the audit", "Ask for the audit as well, or leave the control table out."
        )
    progress = progress or Silent()
    before = _manifest(folder)
    earlier = tuple(map(_earlier, previous))
    if earlier and before[0] is not None and before[0].chain is None:
        raise UsageError("the release is in no chain, so no release precedes it", "Leave the earlier releases out.")
    by_people = before[0] is not None and before[0].persons is not None
    own = person if by_people else None  # of a release by rows, it is for the attackers alone
    source: dict[str, Any] = {"against": truth, "table": table, "person": own}
    follows = _directly_before(before[0], previous, earlier)
    verdict = verify(folder, job=job, previous=follows, memory=memory, progress=progress, **source)
    facts = Facts.of(folder, verdict, from_raw_table=truth is not None or control is not None)
    facts = replace(facts, with_control=control is not None, head=head or ReportSection(), earlier=earlier)
    if audit:
        scores = {"truth": truth, "table": table, "person": person} if truth is not None else {}
        facts = _with_audit(facts, folder, scores, control, memory, progress)
    if truth is not None:
        facts = _with_workload(facts, folder, truth, table, memory, progress)
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


def _earlier(folder: Path) -> Earlier:
    require_folder(folder)
    manifest = read_manifest(folder)
    return Earlier(manifest, hashlib.sha256((folder / FILE).read_bytes()).hexdigest())


def _directly_before(manifest: Manifest | None, folders: Sequence[Path], earlier: Sequence[Earlier]) -> Path | None:
    """The folder of the release on which this one says it follows, if it is among them."""
    chain = manifest.chain if manifest is not None else None
    found = [folder for folder, one in zip(folders, earlier, strict=True) if chain and one.sha256 == chain.previous]
    return found[0] if found else None


def _digest(folder: Path) -> str | None:
    """The SHA-256 of the manifest's file, whatever is in it."""
    try:
        return hashlib.sha256((folder / FILE).read_bytes()).hexdigest() if is_there(folder / FILE, Report()) else None
    except OSError:
        return None


def _other_files(folder: Path, manifest: Manifest | None) -> int:
    """How many files besides the release are in its folder: publishing the folder publishes them."""
    if manifest is None:
        return 0
    return len(other_files(ReleaseFolder(folder, manifest)))


def _with_audit(
    facts: Facts,
    folder: Path,
    scores: dict[str, Any],
    control: Any,
    memory: int | None,
    progress: Progress,
) -> Facts:
    is_its_table = bool(scores) and facts.verdict[SOURCE].passed
    try:
        result = play(folder, **(scores if is_its_table else {}), control=control, memory=memory, progress=progress)
    except ReleaseError as error:
        if facts.verdict.verified:
            raise
        return replace(facts, audit_note=error.message)
    note = _NOT_ITS_TABLE if scores and not is_its_table else None
    return replace(facts, audit=result, audit_note=note)


def _with_workload(
    facts: Facts, folder: Path, truth: Any, table: str | None, memory: int | None, progress: Progress
) -> Facts:
    if not facts.verdict.verified:
        return replace(facts, workload_note="the release did not pass its checks against the table given")
    progress.stage("Counting")
    start = time.perf_counter()
    try:
        result = evaluate(open_release(folder, memory), truth, table=table, seed=_SEED, learn=True)
    except UsageError as error:  # no column to ask about
        return replace(facts, workload_note=error.message)
    return replace(facts, workload=Workload(result, time.perf_counter() - start))


def _today() -> datetime.date:
    return datetime.datetime.now().astimezone().date()

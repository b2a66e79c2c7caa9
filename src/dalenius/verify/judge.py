"""Verify a release: from its files alone, does it keep every limit, and is it what its manifest says?

The judge shares no code with the author. Nothing here knows how buckets are found or filled: the tables are read as
anybody could read them, and compared with the manifest; and, if they are given, with the publisher's own limits or
whole job, with the table that they were made of, and with the key that the publisher signs with.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dalenius.errors import PolicyError, ReleaseError
from dalenius.model.progress import Progress, Silent
from dalenius.model.verdict import Verdict
from dalenius.policy.limits import LimitPolicy
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE
from dalenius.verify.against_job import as_job, check_clear_values, check_job, limits_of
from dalenius.verify.against_source import Readable, check_source, require_person, source_columns, unsaid_people
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.buckets import PresentRows
from dalenius.verify.consistency import check_consistency, is_countable
from dalenius.verify.each_set import SensitiveChecks, add_scans
from dalenius.verify.findings import (
    CHAIN,
    FILES,
    HASHES,
    HOLDS,
    JOB,
    MANIFEST,
    SCHEMA,
    SIGNATURE,
    SOURCE,
    Report,
)
from dalenius.verify.job_people import check_person
from dalenius.verify.release_files import (
    Watch,
    check_hashes,
    check_signature,
    is_there,
    note_other_files,
    require_folder,
    table_is_there,
)
from dalenius.verify.scan import RESTS_ON, Scanner
from dalenius.verify.stated_chain import check_chain, note_chain
from dalenius.verify.stated_people import together_problems
from dalenius.verify.stated_tree import check_tree

if TYPE_CHECKING:
    from dalenius.policy.job import Job
    from dalenius.release.signature import PublicKey
    from dalenius.tables.compare import SourceTable

__all__ = ["Verdict", "verify"]

_STAGE = "Verifying"
_BATCH_ROWS = 2**17  # a batch of a column or two stays in the processor's cache


def verify(
    folder: str | os.PathLike[str] | ReleaseFolder,
    *,
    policy: LimitPolicy | Sequence[LimitPolicy | None] | None = None,
    job: Job | str | os.PathLike[str] | None = None,
    against: Any = None,
    table: str | None = None,
    person: str | None = None,
    signed_by: PublicKey | str | os.PathLike[str] | None = None,
    previous: str | os.PathLike[str] | ReleaseFolder | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
    batch_rows: int = _BATCH_ROWS,
) -> Verdict:
    """Check every promise of the release in a folder. The verdict is true if all of them are kept.

    `policy` replaces the manifest's limits by the publisher's own; with several sensitive columns it may be a list of
    the limits of each, None for the manifest's. A rule is resolved from the counts in the release, and where fake
    values hide those, from the counts of `against`; a policy of explicit limits needs neither. `job` is
    a job file, or its path: everything that it says is compared, its limits too, unless there is a policy. `against`
    is the table that the release is said to be made of: a path (with `table`, for a DuckDB file that has several), a
    DataFrame, a pyarrow Table or a DuckDB relation. Where people may have several rows, `person` is the column of that
    table that says whose row it is. `signed_by` is the public key, or its file, of whoever has to have
    signed the release. `previous` is the release that it has to follow on, in a chain of releases: that one is read,
    and not verified. `progress` hears of one stage, "Verifying", from whichever threads read rows. `memory`, in
    bytes, is what the whole program may take, half of the machine's if None: a MemoryLimitError says that the release
    would take more.

    A folder that is not there is an error; whatever is wrong inside it is a finding. A `ReleaseFolder` is compared with
    the manifest that it has, which need not be written yet.
    """
    report = Report()
    job = as_job(job) if job is not None else None
    key = _public_key(signed_by) if signed_by is not None else None
    before = _previous(previous, memory) if previous is not None else None
    if isinstance(folder, ReleaseFolder):
        release: ReleaseFolder | None = folder if memory is None else folder.within(memory)
    else:
        release = _release(Path(folder), memory, report)
    progress = progress or Silent()
    given = {SOURCE: against, JOB: job, SIGNATURE: key, CHAIN: before}
    asked = [check for check, what in given.items() if what is not None]
    if release is None:
        progress.stage(_STAGE)
        return report.verdict(asked)
    check_signature(release, key, report)
    if job is not None:
        check_job(job, release.manifest, report)
    policies = _policies(policy, job, release.manifest.sets)
    if against is None:
        if job is not None:
            check_person(job, release.manifest, None, report)
        _check(release, None, before, policies, progress, batch_rows, report)
    else:
        from dalenius.tables.compare import SourceTable  # here, because nothing else needs DuckDB

        person = person if person is not None or job is None else job.table.person
        require_person(release.manifest, person)
        with SourceTable.open(against, table, release.memory.engine // 2) as source:
            if job is not None:
                check_person(job, release.manifest, source, report)
            _check(release, _Given(source, person), before, policies, progress, batch_rows, report)
            identifiers = job.table.identifiers or () if job is not None else ()
            report.concerns += unsaid_people(release.manifest, source, person, identifiers)
    if job is not None:
        check_clear_values(job, release.manifest, report.exposure, report)
    return report.verdict(asked, release.manifest)


@dataclass(frozen=True)
class _Given:
    """The table that was published, and its column that tells people apart, if people may have several rows."""

    source: SourceTable
    person: str | None


def _policies(
    policy: LimitPolicy | Sequence[LimitPolicy | None] | None, job: Job | None, sets: int
) -> list[LimitPolicy | None]:
    """The publisher's limits of each sensitive column; one policy is that of all of them."""
    if policy is None and job is not None:
        policy = limits_of(job, sets)
    if policy is None or isinstance(policy, LimitPolicy):
        return [policy] * sets
    if len(policy) != sets:
        raise PolicyError(f"there are limits for {len(policy):,} sensitive columns, and the release has {sets:,}")
    return list(policy)


def _public_key(given: PublicKey | str | os.PathLike[str]) -> PublicKey:
    from dalenius.release.signature import PublicKey, read_public_key  # here, because few releases need it

    return given if isinstance(given, PublicKey) else read_public_key(given)


def _previous(given: str | os.PathLike[str] | ReleaseFolder, memory: int | None) -> ReleaseFolder:
    """The release before. Without a manifest that can be read it is none."""
    if isinstance(given, ReleaseFolder):
        return given if memory is None else given.within(memory)
    try:
        require_folder(Path(given))
        return open_release(Path(given), memory)
    except ReleaseError as error:
        raise ReleaseError(f"of the release before, {error.message}", error.hint) from None


def _check(
    release: ReleaseFolder,
    given: _Given | None,
    before: ReleaseFolder | None,
    policies: Sequence[LimitPolicy | None],
    progress: Progress,
    batch_rows: int,
    report: Report,
) -> None:
    """All checks of a release whose manifest can be read, but for those of the job and the signature."""
    manifest = release.manifest
    if given is not None:
        given.source.require_columns([*source_columns(manifest), *([given.person] if given.person is not None else [])])
    check_consistency(manifest, report)
    has_tree = check_tree(manifest, report)
    note_other_files(release, report)
    rows = manifest.rows + sum(manifest.view(number).slots for number in range(manifest.sets))
    rows += sum(one.table.rows for one in manifest.together)
    rows *= 2 if given is not None else 1
    rows += 2 * before.manifest.slots if before is not None else 0
    source = given.source if given is not None else None
    progress.stage(_STAGE, rows)
    watch = Watch(rows, progress)
    scanner = Scanner(release, watch, batch_rows, has_tree)
    if manifest.surplus and is_countable(manifest) and table_is_there(release, "qit", Report()):
        present = PresentRows(manifest.buckets, release.memory)  # of whom the buckets of ST speak, QIT shows
        scanner = replace(scanner, present=present)
    try:
        sets = [SensitiveChecks.of(scanner, k, policy, source, report) for k, policy in enumerate(policies)]
        readable = _check_tables(scanner, sets, report)
        if given is not None:
            report.add(check_source(release, given.source, given.person, readable, watch))
        if before is not None:
            check_chain(release, before, all(readable.sets), watch, report)
        else:
            note_chain(manifest, report)
    except BaseException:
        watch.stop()
        raise


def _release(path: Path, memory: int | None, report: Report) -> ReleaseFolder | None:
    """With its manifest, if that is there and can be read; without it nothing else can be checked."""
    require_folder(path)
    why = "there is no manifest"
    if is_there(path / FILE, report):
        try:
            return open_release(path, memory)
        except ReleaseError as error:
            report.fail(MANIFEST, error.message)
            why = "the manifest cannot be read"
    report.not_checked([check for check in HOLDS if check != FILES], why)
    return None


def _check_tables(scanner: Scanner, sets: Sequence[SensitiveChecks], report: Report) -> Readable:
    """Hashes, and all tables, side by side. Gives the tables that could be read to their ends."""
    manifest = scanner.release.manifest
    qit = table_is_there(scanner.release, "qit", report)
    if not qit:
        report.not_checked([HASHES, SCHEMA, *RESTS_ON["qit"]], "qit is not there")
    if not is_countable(manifest):
        rest = [check for check in HOLDS if check not in (FILES, MANIFEST, HASHES, SOURCE, JOB, SIGNATURE, CHAIN)]
        report.not_checked(rest, "the manifest's numbers cannot be")
        _check_hashes(scanner, qit, sets, report)
        return Readable(False, (False,) * len(sets), (False,) * len(manifest.together))
    with ThreadPoolExecutor(max_workers=3) as pool:
        try:
            hashes = pool.submit(_check_hashes, scanner, qit, sets, report)
            rows = pool.submit(_scan_rows, scanner) if qit else None
            values = [pool.submit(own.scan) for own in sets]
            hashes.result()
            scan = rows.result() if rows is not None else Scan()
            scans = [one.result() for one in values]
        except BaseException:
            scanner.watch.stop()
            raise
    report.add(scan.report)
    add_scans(sets, scans, manifest, report)
    together = _check_together(scanner, [one.complete for one in scans], report)
    return Readable(scan.complete, tuple(one.complete for one in scans), together)


def _check_hashes(scanner: Scanner, qit: bool, sets: Sequence[SensitiveChecks], report: Report) -> None:
    report.add(check_hashes(scanner.release, ["qit"] if qit else [], scanner.watch))
    for own in sets:
        report.add(own.hashes())
    for number in range(len(scanner.release.manifest.together)):
        release = scanner.release.kept_together(number)
        if table_is_there(release, "together", Report()):
            report.add(check_hashes(release, ["together"], scanner.watch))


def _check_together(scanner: Scanner, complete: Sequence[bool], report: Report) -> tuple[bool, ...]:
    """The tables of tuples, each beside those of its columns, as far as they could be read; which of them could be."""
    manifest = scanner.release.manifest
    readable = [False] * len(manifest.together)
    for number, kept in enumerate(manifest.together):
        name, release = kept.table.file, scanner.release.kept_together(number)
        if not table_is_there(release, "together", report):
            report.not_checked([HASHES, SCHEMA, *RESTS_ON["together"]], f"{name} is not there")
            continue
        if any(True for _ in together_problems(manifest)):
            report.not_checked(RESTS_ON["together"], f"it is not clear which columns {name} is about")
            continue
        if not all(complete[manifest.sensitive_names.index(column)] for column in kept.columns):
            report.not_checked(RESTS_ON["together"], f"the tables that {name} is compared with cannot be read")
            continue
        from dalenius.verify.together_lines import scan_together  # here, because few releases need it

        found = scan_together(scanner, number)
        report.add(found.report)
        readable[number] = found.complete
        if found.complete and not found.report.findings:
            report.known_columns += found.known
    return tuple(readable)


def _scan_rows(scanner: Scanner) -> Scan:
    """QIT, in which people may have several rows."""
    if scanner.release.manifest.persons is None:
        try:
            return scanner.quasi_identifiers()
        finally:
            if scanner.present is not None:
                scanner.present.finish()
    from dalenius.verify.people_rows import scan_people_rows  # here, because few releases need it

    return scan_people_rows(scanner)

"""Verify a release: from its files alone, does it keep every limit, and is it what its manifest says?

The judge shares no code with the author. Nothing here knows how buckets are found or filled: the tables are read as
anybody could read them, and compared with the manifest; and, if they are given, with the publisher's own limits or
whole job, with the table that they were made of, and with the key that the publisher signs with.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dalenius.errors import ReleaseError
from dalenius.model.progress import Progress, Silent
from dalenius.model.verdict import Verdict
from dalenius.policy.limits import LimitPolicy
from dalenius.release.folder import ReleaseFolder, TableName, open_release
from dalenius.release.manifest import FILE
from dalenius.verify.against import GivenLimits, PublishersLimits, check_source
from dalenius.verify.against_job import as_job, check_clear_values, check_job, limits_of
from dalenius.verify.consistency import check_consistency, compare_values, is_countable, note_other_limits
from dalenius.verify.findings import (
    FILES,
    HASHES,
    HOLDS,
    JOB,
    LIMITS,
    MANIFEST,
    SCHEMA,
    SIGNATURE,
    SOURCE,
    Report,
)
from dalenius.verify.release_files import (
    Watch,
    check_hashes,
    check_signature,
    is_there,
    note_other_files,
    require_folder,
    table_is_there,
)
from dalenius.verify.scan import RESTS_ON, Scan, Scanner
from dalenius.verify.stated_bands import check_bands, compare_bands
from dalenius.verify.stated_groups import check_groups, compare_groups
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
    policy: LimitPolicy | None = None,
    job: Job | str | os.PathLike[str] | None = None,
    against: Any = None,
    table: str | None = None,
    signed_by: PublicKey | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
    batch_rows: int = _BATCH_ROWS,
) -> Verdict:
    """Check every promise of the release in a folder. The verdict is true if all of them are kept.

    `policy` replaces the manifest's limits by the publisher's own. A rule is resolved from the counts in the release,
    and where fake values hide those, from the counts of `against`; a policy of explicit limits needs neither. `job` is
    a job file, or its path: everything that it says is compared, its limits too, unless there is a policy. `against`
    is the table that the release is said to be made of: a path (with `table`, for a DuckDB file that has several), a
    DataFrame, a pyarrow Table or a DuckDB relation. `signed_by` is the public key, or its file, of whoever has to have
    signed the release. `progress` hears of one stage, "Verifying", from whichever threads read rows. `memory`, in
    bytes, is what the whole program may take, half of the machine's if None: a MemoryLimitError says that the release
    would take more.

    A folder that is not there is an error; whatever is wrong inside it is a finding. A `ReleaseFolder` is compared with
    the manifest that it has, which need not be written yet.
    """
    report = Report()
    job = as_job(job) if job is not None else None
    key = _public_key(signed_by) if signed_by is not None else None
    if policy is None and job is not None:
        policy = limits_of(job)
    if isinstance(folder, ReleaseFolder):
        release: ReleaseFolder | None = folder if memory is None else folder.within(memory)
    else:
        release = _release(Path(folder), memory, report)
    progress = progress or Silent()
    given = {SOURCE: against, JOB: job, SIGNATURE: key}
    asked = [check for check, what in given.items() if what is not None]
    if release is None:
        progress.stage(_STAGE)
        return report.verdict(asked)
    check_signature(release, key, report)
    if job is not None:
        check_job(job, release.manifest, report)
    if against is None:
        _check(release, None, policy, progress, batch_rows, report)
    else:
        from dalenius.tables.compare import SourceTable  # here, because nothing else needs DuckDB

        with SourceTable.open(against, table, release.memory.engine // 2) as source:
            _check(release, source, policy, progress, batch_rows, report)
    if job is not None:
        check_clear_values(job, release.manifest, report.exposure, report)
    return report.verdict(asked, release.manifest)


def _public_key(given: PublicKey | str | os.PathLike[str]) -> PublicKey:
    from dalenius.release.signature import PublicKey, read_public_key  # here, because few releases need it

    return given if isinstance(given, PublicKey) else read_public_key(given)


def _check(
    release: ReleaseFolder,
    source: SourceTable | None,
    policy: LimitPolicy | None,
    progress: Progress,
    batch_rows: int,
    report: Report,
) -> None:
    """All checks of a release whose manifest can be read, but for those of the job and the signature."""
    manifest = release.manifest
    with_source = source is not None
    if source is not None:
        columns = manifest.columns
        source.require_columns([*(column.name for column in columns.quasi_identifiers), columns.sensitive.name])
    check_consistency(manifest, report)
    has_tree = check_tree(manifest, report)
    groups = check_groups(manifest, report)
    check_bands(manifest, report)
    if policy is not None and policy.grouping is not None:
        compare_bands(policy.grouping.bands, manifest, report)
    note_other_files(release, report)
    tables: list[TableName] = [name for name in ("qit", "st") if table_is_there(release, name, report)]
    rows = (manifest.rows + manifest.slots) * (2 if with_source else 1)
    progress.stage(_STAGE, rows)
    watch = Watch(rows, progress)
    try:
        limits = PublishersLimits.of(policy, manifest, source) if policy is not None else None
        readable = _check_tables(Scanner(release, watch, batch_rows, has_tree, groups), tables, limits, report)
        if source is not None:
            report.add(check_source(release, source, readable, watch))
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


def _check_tables(
    scanner: Scanner, tables: Sequence[TableName], publishers: PublishersLimits | None, report: Report
) -> list[TableName]:
    """Hashes, and both tables, side by side. Gives the tables that could be read to their ends."""
    for missing in {"qit", "st"} - set(tables):
        affected = [HASHES, SCHEMA, *RESTS_ON["st" if missing == "st" else "qit"]]
        report.not_checked(affected, f"{missing} is not there")
    if not is_countable(scanner.release.manifest):
        rest = [check for check in HOLDS if check not in (FILES, MANIFEST, HASHES, SOURCE, JOB, SIGNATURE)]
        report.not_checked(rest, "the manifest's numbers cannot be")
        report.add(check_hashes(scanner.release, list(tables), scanner.watch))
        return []
    with ThreadPoolExecutor(max_workers=3) as pool:
        try:
            hashes = pool.submit(check_hashes, scanner.release, list(tables), scanner.watch)
            qit = pool.submit(scanner.quasi_identifiers) if "qit" in tables else None
            st = pool.submit(_check_values, scanner, publishers) if "st" in tables else None
            report.add(hashes.result())
            scans = {"qit": qit.result() if qit else Scan(), "st": st.result() if st else Scan()}
        except BaseException:
            scanner.watch.stop()
            raise
    for scan in scans.values():
        report.add(scan.report)
    return [table for table in tables if scans[table].complete]


def _check_values(scanner: Scanner, publishers: PublishersLimits | None) -> Scan:
    """ST against the limits: the manifest's, or the publisher's."""
    manifest = scanner.release.manifest
    values = [value.value for value in manifest.values]
    if publishers is not None:
        scan = _check_publishers_limits(scanner, publishers, values)
    else:
        scan = scanner.sensitive_values(values, [Fraction(value.limit) for value in manifest.values])
        if scan.complete:
            compare_values(manifest, scan, True, scan.report)
    if scan.complete and scanner.groups is not None:
        compare_groups(manifest, scanner.groups, scan.counts, scan.group_worst, scan.group_exposure, scan.report)
    return scan


def _check_publishers_limits(scanner: Scanner, publishers: PublishersLimits, values: Sequence[str]) -> Scan:
    """ST against the publisher's limits, resolved from the counts that the manifest states.

    If those turn out not to be the counts in the table, the table is read again with limits for what it holds.
    """
    manifest = scanner.release.manifest
    stated = [(value.value, value.count) for value in manifest.values]
    resolving = Report()
    given = publishers.limits(stated, resolving)
    scan = _scan_under(scanner, values, given)
    if scan.complete:
        if Counter(scan.counts) != Counter(stated):
            resolving = _check_again(scanner, publishers, scan)
        elif given is not None:
            note_other_limits(manifest, given.values, resolving)
        compare_values(manifest, scan, False, resolving)
    scan.report.add(resolving)
    return scan


def _scan_under(scanner: Scanner, values: Sequence[str], given: GivenLimits | None) -> Scan:
    """ST against limits of values, and against those of groups, if they are given too."""
    if given is not None and given.groups is not None and scanner.groups is not None:
        scanner = replace(scanner, groups=scanner.groups.with_limits(given.groups))
    return scanner.sensitive_values(values, given.values if given is not None else None)


def _check_again(scanner: Scanner, publishers: PublishersLimits, scan: Scan) -> Report:
    """Replace what the scan says of the limits by what holds with the counts that it found."""
    resolving = Report()
    counts = [(text, count) for text, count in scan.counts if text is not None]
    again = _scan_under(scanner, [text for text, _ in counts], publishers.limits(counts, resolving))
    others = [finding for finding in scan.report.findings if finding.check != LIMITS]
    scan.report.findings = others + [finding for finding in again.report.findings if finding.check == LIMITS]
    scan.report.obstacles += [(check, why) for check, why in again.report.obstacles if check == LIMITS]
    return resolving

"""The checks of one sensitive column out of several, and what all of them together show of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dalenius.model.exposure import Exposure, GroupShare
from dalenius.policy.limits import LimitPolicy
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import Manifest
from dalenius.verify.against import GivenLimits, PublishersLimits
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.buckets import Integers
from dalenius.verify.consistency import compare_values, note_other_limits
from dalenius.verify.findings import HASHES, LIMITS, SCHEMA, Report
from dalenius.verify.people_sizes import PeopleOfBuckets
from dalenius.verify.release_files import check_hashes, table_is_there
from dalenius.verify.scan import RESTS_ON, Scanner
from dalenius.verify.stated_bands import check_bands, compare_bands
from dalenius.verify.stated_groups import check_groups, compare_groups
from dalenius.verify.stated_people import about

if TYPE_CHECKING:
    from dalenius.tables.compare import SourceTable


@dataclass(frozen=True)
class SensitiveChecks:
    """A sensitive column: how to read its tables, as far as they are there, and the publisher's limits, if given."""

    about: str
    scanner: Scanner
    publishers: PublishersLimits | None
    tables: tuple[TableName, ...]

    @classmethod
    def of(
        cls, scanner: Scanner, number: int, policy: LimitPolicy | None, source: SourceTable | None, report: Report
    ) -> SensitiveChecks:
        """The column of this number, once what the manifest says of it was looked at."""
        whole, own = scanner.release, Report()
        release = whole.view(number) if whole.manifest.others else whole
        manifest = release.manifest
        groups = check_groups(manifest, own)
        check_bands(manifest, own)
        if policy is not None and policy.grouping is not None:
            compare_bands(policy.grouping.bands, manifest, own)
        wanted: list[TableName] = ["st"] if manifest.group_table is None else ["st", "groups"]
        tables = [table for table in wanted if table_is_there(release, table, own)]
        for missing in wanted:
            if missing not in tables:
                own.not_checked([HASHES, SCHEMA, *RESTS_ON[missing]], f"{_stem(release, missing)} is not there")
        report.add(own, about(whole.manifest, number))
        publishers = PublishersLimits.of(policy, manifest, source) if policy is not None else None
        several = bool(whole.manifest.others)
        scanner = replace(scanner, release=release, groups=groups, is_one_of_several=several)
        return cls(about(whole.manifest, number), scanner, publishers, tuple(tables))

    def hashes(self) -> Report:
        """The files of its tables."""
        return check_hashes(self.scanner.release, list(self.tables), self.scanner.watch)

    def scan(self) -> Scan:
        """ST against the limits, and then the table of groups, if there is one."""
        scan = check_values(self.scanner, self.publishers) if "st" in self.tables else Scan()
        if scan.complete and "groups" in self.tables:
            groups = check_group_table(self.scanner, self.publishers)
            scan.report.add(groups.report)
            scan.complete = groups.complete
        return scan


def _stem(release: ReleaseFolder, table: TableName) -> str:
    return release.name(table).partition(".")[0]


def add_scans(sets: Sequence[SensitiveChecks], scans: Sequence[Scan], manifest: Manifest, report: Report) -> None:
    """Take over what was found of every sensitive column, and what it comes to for people."""
    for own, scan in zip(sets, scans, strict=True):
        report.add(scan.report, own.about)
    if manifest.is_plain:
        return
    report.exposure = _exposure_together(sets, scans, manifest)
    report.groups = tuple(_groups_together(sets, scans))


def _exposure_together(sets: Sequence[SensitiveChecks], scans: Sequence[Scan], manifest: Manifest) -> Exposure | None:
    """Of every person the probability of their likeliest value, of any column; of every value, that of its people."""
    people = PeopleOfBuckets(manifest)
    largest: list[Integers] = []
    values = []
    for own, scan in zip(sets, scans, strict=True):
        if scan.report.exposure is None or scan.largest is None or len(scan.largest) != people.buckets:
            return None  # not everything was read, or not every bucket is there
        largest.append(scan.largest)
        values += [replace(value, value=own.about + value.value) for value in scan.report.exposure.values]
    most, sizes = np.max(largest, axis=0), people.people(np.arange(1, people.buckets + 1))
    levels = []
    for size in np.unique(sizes).tolist():
        counts, buckets = np.unique(most[sizes == size], return_counts=True)
        levels += [(count, size, size * times) for count, times in zip(counts.tolist(), buckets.tolist(), strict=True)]
    return Exposure.of_people(values, levels)


def _groups_together(sets: Sequence[SensitiveChecks], scans: Sequence[Scan]) -> list[GroupShare]:
    """The groups of all columns in one list, so that parents are in other places."""
    listed: list[GroupShare] = []
    for own, scan in zip(sets, scans, strict=True):
        first = len(listed)
        for group in scan.report.groups:
            parent = None if group.parent is None else group.parent + first
            listed.append(replace(group, name=own.about + group.name, parent=parent))
    return listed


def check_values(scanner: Scanner, publishers: PublishersLimits | None) -> Scan:
    """ST against the limits: the manifest's, or the publisher's."""
    manifest = scanner.release.manifest
    values = [value.value for value in manifest.values]
    if publishers is not None:
        scan = _check_publishers_limits(scanner, publishers, values)
    else:
        scan = _scan(scanner, values, [Fraction(value.limit) for value in manifest.values])
        if scan.complete:
            compare_values(manifest, scan, True, scan.report)
    if scan.complete and scanner.groups is not None and not manifest.has_several_values:
        sums = scanner.groups.sums(scan.counts)
        compare_groups(manifest, scanner.groups, sums, scan.group_worst, scan.group_exposure, scan.report)
    return scan


def check_group_table(scanner: Scanner, publishers: PublishersLimits | None) -> Scan:
    """The table of groups, where people can have several values, against the limits of groups."""
    from dalenius.verify.group_lines import scan_group_lines

    scan, groups = Scan(), scanner.groups
    if groups is None:
        return scan
    if publishers is not None:
        stated = [(value.value, value.count) for value in scanner.release.manifest.values]
        given = publishers.limits(stated, Report())
        groups = groups.with_limits(given.groups) if given is not None and given.groups is not None else groups
    return scan_group_lines(scanner, groups)


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
    return _scan(scanner, values, given.values if given is not None else None)


def _scan(scanner: Scanner, values: Sequence[str], limits: Sequence[Fraction] | None) -> Scan:
    """ST, in which people may have several values."""
    if not scanner.release.manifest.has_several_values:
        return scanner.sensitive_values(values, limits)
    from dalenius.verify.people_values import scan_people_values  # here and below, because few releases need it

    return scan_people_values(scanner, values, limits)


def _check_again(scanner: Scanner, publishers: PublishersLimits, scan: Scan) -> Report:
    """Replace what the scan says of the limits by what holds with the counts that it found."""
    resolving = Report()
    counts = [(text, count) for text, count in scan.counts if text is not None]
    again = _scan_under(scanner, [text for text, _ in counts], publishers.limits(counts, resolving))
    others = [finding for finding in scan.report.findings if finding.check != LIMITS]
    scan.report.findings = others + [finding for finding in again.report.findings if finding.check == LIMITS]
    scan.report.obstacles += [(check, why) for check, why in again.report.obstacles if check == LIMITS]
    return resolving

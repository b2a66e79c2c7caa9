"""The checks of one sensitive column out of several, and what all of them together show of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dalenius.model.exposure import Exposure, GroupShare
from dalenius.policy.limits import LimitPolicy
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import Manifest
from dalenius.verify.against import PublishersLimits
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.buckets import Integers
from dalenius.verify.findings import HASHES, SCHEMA, Report
from dalenius.verify.people_sizes import PeopleOfBuckets
from dalenius.verify.release_files import check_hashes, table_is_there
from dalenius.verify.scan import RESTS_ON, Scanner
from dalenius.verify.stated_bands import check_bands, compare_bands
from dalenius.verify.stated_groups import check_groups
from dalenius.verify.stated_people import about
from dalenius.verify.value_checks import check_group_table, check_values

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

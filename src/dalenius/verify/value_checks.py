"""ST, and the table of groups if there is one, against the limits: those of the manifest, or the publisher's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dalenius.verify.against import GivenLimits, PublishersLimits
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.consistency import compare_values, note_other_limits
from dalenius.verify.findings import LIMITS, Report
from dalenius.verify.scan import Scanner
from dalenius.verify.stated_groups import compare_groups


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

"""What the manifest states of each sensitive value, against what ST holds: names, counts and worst cases."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dalenius.audit.report import LIMITS, VALUES, Report, named, plural
from dalenius.audit.scan import Scan
from dalenius.release.manifest import Manifest, Value
from dalenius.release.types import is_text, named_type


def note_other_limits(manifest: Manifest, limits: Sequence[Fraction], report: Report) -> None:
    """Note where the manifest's limits are not those that the release is held against."""
    pairs = zip(manifest.values, limits, strict=True)
    other = [(value, limit) for value, limit in pairs if Fraction(value.limit) != limit]
    if other:
        value, limit = other[0]
        report.note(
            f"{plural(len(other), 'value has', 'values have')} another limit in the manifest than in the limits "
            f"given; the first: {named(value.value)}, {Fraction(value.limit)} and {limit}"
        )


def compare_values(manifest: Manifest, scan: Scan, limited_by_manifest: bool, report: Report) -> None:
    """Add what differs. Where the manifest's limits are those that count, a value it does not list has none."""
    counted = dict(scan.counts)
    nulls = counted.get(None, 0)
    listed = {value.value for value in manifest.values}
    unlisted = [text for text in counted if text is not None and text not in listed]
    if nulls:
        are = plural(nulls, "sensitive value is", "sensitive values are")
        report.found(VALUES, f"{are} null, and the manifest has no name for nulls", nulls)
    elif scan.nulls and is_text(named_type(manifest.columns.sensitive.type)):
        are = plural(scan.nulls, "sensitive value is", "sensitive values are")
        report.found(VALUES, f"{are} null, and text is to hold the name of nulls", scan.nulls)
    if unlisted:
        are = plural(len(unlisted), "value is", "values are")
        report.found(VALUES, f"{are} not in the manifest; the first: {named(unlisted[0])}", len(unlisted))
    if limited_by_manifest and (unlisted or nulls):
        without = len(unlisted) + bool(nulls)
        report.found(LIMITS, f"{plural(without, 'value has', 'values have')} no limit", without)
    _compare_counts(manifest, counted, report)
    _compare_worst(manifest, scan, report)
    if not scan.values_in_order:
        report.found(VALUES, "the manifest's values are not in the order of the sensitive column's type")


def _compare_counts(manifest: Manifest, counted: dict[str | None, int], report: Report) -> None:
    other = [value for value in manifest.values if counted.get(value.value, 0) != value.count]
    if other:
        first = other[0]
        report.found(
            VALUES,
            f"{plural(len(other), 'value has', 'values have')} another count than the manifest says; the first: "
            f"{named(first.value)} {counted.get(first.value, 0):,}, not {first.count:,}",
            len(other),
        )


def _compare_worst(manifest: Manifest, scan: Scan, report: Report) -> None:
    known = manifest.adversary.known_records

    def differs(value: Value) -> bool:
        count, size = scan.worst[value.value]
        return count * (value.worst.size - known) != value.worst.count * (size - known)

    other = [value for value in manifest.values if differs(value)]
    if other:
        first = other[0]
        count, size = scan.worst[first.value]
        report.found(
            VALUES,
            f"{plural(len(other), 'value has', 'values have')} another worst case than the manifest says; the "
            f"first: {named(first.value)} {count:,} of {size:,}, not {first.worst.count:,} of {first.worst.size:,}",
            len(other),
        )

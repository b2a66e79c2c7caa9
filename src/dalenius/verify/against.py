"""What the publisher knows beyond the release: the limits that were meant, and the table that was published.

Limits from a policy (`PublishersLimits`). Rules such as theta make a limit from how many records a value has. Without
fake values ST shows that. With them it does not: ST has every value as often as the table, or more often. Then the
table's own counts are used if the table is there. If it is not, the manifest's limit stands in for the rule's, but
never with more than the rule gives for all rows of ST with the value, since a rule never falls as counts grow; and a
note says so. A policy of explicit limits for all values depends on no counts: a publisher who has resolved a rule
already uses it to have a release compared with exactly that.

The table (`check_source`). The quasi-identifiers, and apart from them the sensitive values, are compared row by row.
With fake values ST has rows that are not the table's: exactly as many as the manifest says, and none of the table's own
is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from dalenius.errors import CountsError, PolicyError
from dalenius.model.problem import ValueCounts
from dalenius.policy.limits import LimitPolicy, refuse_absent, resolve_limits
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import Manifest
from dalenius.verify.findings import LIMITS, SOURCE, Report, plural, quote
from dalenius.verify.release_files import Watch

if TYPE_CHECKING:
    from dalenius.tables.compare import Difference, SourceTable


@dataclass(frozen=True)
class PublishersLimits:
    """A policy, and if its rule needs them and ST does not show them, the table's counts."""

    policy: LimitPolicy
    manifest: Manifest
    table_counts: dict[str, int] | None = None

    @classmethod
    def of(cls, policy: LimitPolicy, manifest: Manifest, source: SourceTable | None) -> PublishersLimits:
        """Counts the values of the table, if there is one and it is needed."""
        if source is None or not policy.goes_by_counts or not manifest.adversary.fake_values:
            return cls(policy, manifest)
        column = manifest.columns.sensitive.name
        return cls(policy, manifest, source.counts_of_values(column, manifest.null_value))

    def limits(self, held: Sequence[tuple[str, int]], report: Report) -> list[Fraction] | None:
        """The limits in the order of the values, each with its rows of ST; None, and a finding, if there are none."""
        try:
            if not self.manifest.adversary.fake_values or not self.policy.goes_by_counts:
                return _in_order(self.policy, held)
            if self.table_counts is not None:
                return self._by_table(self.table_counts, held)
            return self._by_manifest(held, report)
        except (PolicyError, CountsError) as error:
            report.fail(LIMITS, f"by the limits given, {error.message}")
            return None

    def _by_table(self, counts: dict[str, int], held: Sequence[tuple[str, int]]) -> list[Fraction]:
        """What the rule gives for the table. A value that is nowhere in it is as one with no records."""
        nowhere = [value for value, _ in held if value not in counts]
        explicit = {value: self._least(value, sum(counts.values())) for value in nowhere}
        policy = LimitPolicy(values={**explicit, **self._resolve(counts)}, allow_absent=True)
        return _in_order(policy, held)

    def _resolve(self, counts: dict[str, int]) -> dict[str, Fraction]:
        table = ValueCounts.of(counts.items())
        return dict(zip(table.values, resolve_limits(self.policy, table).limits, strict=True))

    def _least(self, value: str, total: int) -> Fraction:
        limit = self.policy.values.get(value) or self.policy.rule_limit(0, max(1, total))
        if not limit:
            raise PolicyError(f"{quote(value)}, which no record of the table has, has no limit above 0")
        return limit

    def _by_manifest(self, held: Sequence[tuple[str, int]], report: Report) -> list[Fraction]:
        """The manifest's limits where the rule is needed, and at most what the rule can give."""
        refuse_absent(self.policy, ValueCounts.of(held))
        stated = {value.value: Fraction(value.limit) for value in self.manifest.values}
        limits: list[Fraction] = []
        ruled = 0
        for value, count in held:
            own = self.policy.values.get(value)
            if own is None:
                ruled += 1
                most = self.policy.rule_limit(min(count, self.manifest.rows), self.manifest.rows)
                own = min(stated.get(value, Fraction(1)), Fraction(1) if most is None else most)
            limits.append(own)
        if any(limit <= 0 for limit in limits):
            raise PolicyError("a rule gives a value the limit 0, and a limit must be above 0")
        if ruled:
            rule = next(name for name in ("odds", "theta", "beta") if getattr(self.policy, name) is not None)
            report.note(
                f"{rule} goes by how many records a value has, which a release with fake values does not show: for "
                f"{plural(ruled, 'value')} the manifest's limit is taken, if {rule} can give as much; compare with the "
                "table to have it worked out"
            )
        return limits


def _in_order(policy: LimitPolicy, held: Sequence[tuple[str, int]]) -> list[Fraction]:
    counts = ValueCounts.of(held)
    by_value = dict(zip(counts.values, resolve_limits(policy, counts).limits, strict=True))
    return [by_value[value] for value, _ in held]


def check_source(release: ReleaseFolder, source: SourceTable, tables: Sequence[TableName], watch: Watch) -> Report:
    """Both comparisons, as far as the release's tables can be read."""
    report = Report()
    columns = release.manifest.columns
    names = [column.name for column in columns.quasi_identifiers]
    if "qit" in tables and names:
        difference = source.difference(_reader(release, "qit", names, watch))
        _add(difference, "quasi-identifiers", release.name("qit"), report)
    if "st" in tables:
        values = _reader(release, "st", [columns.sensitive.name], watch)
        difference = source.difference_of_values(values, release.manifest.null_value)
        fakes = release.manifest.adversary.fake_values * release.manifest.buckets
        _add(difference, "sensitive values", release.name("st"), report, fakes)
    for table in ("qit", "st"):
        if table not in tables:
            report.not_checked([SOURCE], f"{release.name(table)} cannot be read")
    return report


def _add(difference: Difference, what: str, file: str, report: Report, fakes: int = 0) -> None:
    """Whatever differs, apart from so many rows that the table has not."""
    surplus = difference.extra - fakes
    if difference.missing or surplus:
        beside = f" and {plural(fakes, 'fake value')}" if fakes else ""
        lacking = f", {-surplus:,} of the fake values are not there" if surplus < 0 else ""
        report.fail(
            SOURCE,
            f"the {what} in {file} are not those of the table{beside}: {difference.missing:,} rows are missing, "
            f"{max(0, surplus):,} are too many{lacking}",
            difference.missing + abs(surplus),
        )


def _reader(release: ReleaseFolder, table: TableName, columns: list[str], watch: Watch) -> pa.RecordBatchReader:
    """The columns as a stream, categories as what they stand for."""
    types = {column: release.schema(table).field(column).type for column in columns}
    schema = pa.schema([(name, of.value_type if pa.types.is_dictionary(of) else of) for name, of in types.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in release.batches(table, columns):
            watch.step(batch.num_rows)
            yield batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, batches())

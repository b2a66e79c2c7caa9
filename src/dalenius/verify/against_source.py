"""Whether a release has exactly the records of the table that it is said to be made of.

The quasi-identifiers, and apart from them the sensitive values, are compared row by row. With fake values ST has rows
that are not the table's: exactly as many as the manifest says, and none of the table's own is missing. In a chain of
releases the values of those who left are such rows too, and people who are held back are in the table alone: so many of
its rows are missing in QIT, and no more of its values in ST.

Where people have several rows, a person is compared with all of their rows. Rows that were left out, of people with
more than are kept, are as many as the manifest says; then no row, no value and no group is anybody's who has it not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from dalenius.errors import UsageError
from dalenius.model.concern import Concern
from dalenius.policy.roles import Roles, identifying_columns
from dalenius.policy.whose_rows import repeated_people
from dalenius.release.folder import ReleaseFolder, TableName, group_column
from dalenius.release.manifest import Manifest
from dalenius.verify.findings import SOURCE, Report, plural
from dalenius.verify.release_files import Watch
from dalenius.verify.stated_groups import StatedGroups
from dalenius.verify.stated_people import about

if TYPE_CHECKING:
    from dalenius.tables.compare import Difference, SourceTable


@dataclass(frozen=True)
class Readable:
    """Which tables could be read to their ends: QIT, those of each sensitive column, and those of tuples."""

    qit: bool
    sets: tuple[bool, ...]
    together: tuple[bool, ...] = ()


def source_columns(manifest: Manifest) -> list[str]:
    """The columns that the table must have."""
    sensitive = [name for number in range(manifest.sets) for name in manifest.view(number).columns.sensitive.of]
    return [*(column.name for column in manifest.columns.quasi_identifiers), *sensitive]


def require_person(manifest: Manifest, person: str | None) -> None:
    """Whose row a row of the table is must be said if people may have several."""
    if manifest.persons is not None and person is None:
        raise UsageError(
            "people have several rows in the release, and nobody says which rows of the table are whose",
            "Name the column that tells people apart: --person COLUMN.",
        )


def unsaid_people(
    manifest: Manifest, source: SourceTable, person: str | None, identifiers: Sequence[str]
) -> Iterator[Concern]:
    """People with several rows in the table, by the look of it, where the release counts rows, or what has fewer."""
    names = tuple(name for name in identifiers if name != person)
    roles = Roles(manifest.columns.sensitive.name, tuple(source_columns(manifest)), names, person)
    named = [name for name in identifying_columns(roles, source.columns) if name in source.columns]
    yield from repeated_people({name: source.occurrences(name) for name in named}, names, person)


def check_source(
    release: ReleaseFolder, source: SourceTable, person: str | None, readable: Readable, watch: Watch
) -> Report:
    """All comparisons, as far as the release's tables can be read."""
    report = Report()
    if release.manifest.persons is None and person is not None:
        _check_single_rows(source, person, report)
        person = None
    if not readable.qit:
        report.not_checked([SOURCE], f"{release.name('qit')} cannot be read")
    elif person is None:
        _check_rows(release, source, watch, report)
    else:
        _check_people(release, source, person, watch, report)
    for number, can_be_read in enumerate(readable.sets):
        view, own = release.view(number) if release.manifest.others else release, Report()
        if not can_be_read:
            own.not_checked([SOURCE], f"{view.name('st')} cannot be read")
        elif view.manifest.has_several_values:
            _check_items(view, source, person, watch, own)
        else:
            _check_values(view, source, watch, own)
        report.add(own, about(release.manifest, number))
    for number, can_be_read in enumerate(readable.together):
        if can_be_read:
            _check_tuples(release.kept_together(number), source, person, watch, report)
        else:
            report.not_checked([SOURCE], f"{release.manifest.together[number].table.file} cannot be read")
    return report


def _check_single_rows(source: SourceTable, person: str, report: Report) -> None:
    """Where every row of a release is a person, nobody has several in the table."""
    several = source.occurrences(person).several
    if several:
        have = plural(several, "person has", "people have")
        report.fail(SOURCE, f"{have} several rows in the table, and in the release every row is a person", several)


def _check_rows(release: ReleaseFolder, source: SourceTable, watch: Watch, report: Report) -> None:
    """QIT row by row."""
    names = [column.name for column in release.manifest.columns.quasi_identifiers]
    if names:
        difference = source.difference(_reader(release, "qit", names, watch))
        _add(difference, "quasi-identifiers", release.name("qit"), report, held_back=_held_back(release.manifest))


def _check_people(release: ReleaseFolder, source: SourceTable, person: str, watch: Watch, report: Report) -> None:
    """QIT person by person. Of those with more rows than were kept, each row is one of the table's."""
    from dalenius.tables.compare_people import difference_of_people  # here, because nothing else needs DuckDB

    manifest, file = release.manifest, release.name("qit")
    persons = manifest.persons
    if persons is None:
        return
    names = [column.name for column in manifest.columns.quasi_identifiers]
    reader = _reader(release, "qit", [manifest.columns.bucket, persons.number, *names], watch)
    found = difference_of_people(source, person, names, reader, persons.most_rows)
    if found.people != manifest.people:
        report.fail(SOURCE, f"the table has {plural(found.people, 'person', 'people')}, and {file} {manifest.people:,}")
    extra = max(0, found.extra - found.above, found.short)
    if found.missing or extra or found.extra < found.above:
        report.fail(
            SOURCE,
            f"the people in {file} are not those of the table: {found.missing:,} are missing with their rows, "
            f"{extra:,} have rows that nobody has",
            max(1, found.missing + extra),
        )
    if found.above or persons.dropped:
        rows = source.difference(_reader(release, "qit", names, watch))
        if rows.extra or rows.missing != persons.dropped:
            report.fail(
                SOURCE,
                f"{plural(persons.dropped, 'row')} of the table should be left out of {file}: {rows.missing:,} are, "
                f"and {rows.extra:,} others are there",
                max(1, rows.extra + abs(rows.missing - persons.dropped)),
            )


def _check_items(release: ReleaseFolder, source: SourceTable, person: str | None, watch: Watch, report: Report) -> None:
    """A sensitive column of which people may have several values, and the table of its groups."""
    from dalenius.tables.compare_people import SensitiveColumns, difference_of_groups, difference_of_items

    manifest, file = release.manifest, release.name("st")
    column, persons = manifest.columns.sensitive, manifest.persons
    sensitive = SensitiveColumns(tuple(column.of), manifest.null_value, tuple(manifest.missing))
    shortened = persons is not None and persons.dropped > 0
    names = [column.name, *([persons.rows] if persons is not None and not shortened else [])]
    difference = difference_of_items(source, person, sensitive, _reader(release, "st", names, watch))
    what = "people with sensitive values"
    _add(replace(difference, missing=0) if shortened else difference, what, file, report)
    stated = StatedGroups.of(manifest) if manifest.group_table is not None else None
    if stated is not None:
        groups = {
            value.value: [stated.names[place] for place in stated.path_of(value.value)] for value in manifest.values
        }
        reader = _reader(release, "groups", [group_column(manifest.columns.bucket)], watch)
        difference = difference_of_groups(source, person, sensitive, groups, reader)
        difference = replace(difference, missing=0) if shortened else difference
        _add(difference, "people with groups of values", release.name("groups"), report)


def _check_tuples(
    release: ReleaseFolder, source: SourceTable, person: str | None, watch: Watch, report: Report
) -> None:
    """What goes with what, in columns that are kept together."""
    from dalenius.tables.compare_people import SensitiveColumns, difference_of_tuples

    manifest, persons = release.manifest, release.manifest.persons
    (kept,) = manifest.together
    views = [manifest.view(manifest.sensitive_names.index(name)) for name in kept.columns]
    columns = [SensitiveColumns(tuple(v.columns.sensitive.of), v.null_value, tuple(v.missing)) for v in views]
    shortened = persons is not None and persons.dropped > 0
    names = [*kept.columns, *([persons.rows] if persons is not None and not shortened else [])]
    difference = difference_of_tuples(source, person, columns, _reader(release, "together", names, watch))
    difference = replace(difference, missing=0) if shortened else difference
    _add(difference, "tuples of sensitive values", kept.table.file, report)


def _check_values(release: ReleaseFolder, source: SourceTable, watch: Watch, report: Report) -> None:
    """A sensitive column of which everybody has one value."""
    manifest = release.manifest
    values = _reader(release, "st", [manifest.columns.sensitive.name], watch)
    (column,) = manifest.columns.sensitive.of
    difference = source.difference_of_values(values, column, manifest.null_value, manifest.missing)
    fakes = manifest.adversary.fake_values * manifest.buckets
    nobodys = ("fake value", "fake values") if not manifest.surplus else ("value of nobody", "values of nobody")
    held_back = min(_held_back(manifest), difference.missing)  # others may have the same values as those
    own = replace(difference, extra=difference.extra + _held_back(manifest) - held_back)
    _add(own, "sensitive values", release.name("st"), report, fakes + manifest.surplus, nobodys, held_back)


def _held_back(manifest: Manifest) -> int:
    return manifest.chain.held_back if manifest.chain is not None else 0


def _add(
    difference: Difference,
    what: str,
    file: str,
    report: Report,
    fakes: int = 0,
    nobodys: tuple[str, str] = ("fake value", "fake values"),
    held_back: int = 0,
) -> None:
    """Whatever differs, apart from so many rows that the table has not, and so many that it alone has."""
    surplus, missing = difference.extra - fakes, difference.missing - held_back
    if missing or surplus:
        beside = f" and {plural(fakes, *nobodys)}" if fakes else ""
        lacking = f", {-surplus:,} of the {nobodys[1]} are not there" if surplus < 0 else ""
        less = f", less {plural(held_back, 'row')} held back" if held_back else ""
        missed = f", {-missing:,} of those held back are there" if missing < 0 else ""
        report.fail(
            SOURCE,
            f"the {what} in {file} are not those of the table{beside}{less}: {max(0, missing):,} rows are missing, "
            f"{max(0, surplus):,} are too many{lacking}{missed}",
            abs(missing) + abs(surplus),
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

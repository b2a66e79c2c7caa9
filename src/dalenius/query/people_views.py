"""The tables of a release whose people have several rows or several sensitive values, under DuckDB.

The quasi-identifiers are q0, q1, ... of the view qit, whose people are numbered p within their bucket b. Sensitive
column k is s<k> of the view st<k>: a line for every person and value, and in how many of the person's rows the value
is, r. The view g<k> has a line for every person and group of values, if the release says that. The view t<j> has a line
for every person and tuple of values, of columns that are kept together. The table sizes has for every bucket its
people, and the rows that each of them has.
"""

from __future__ import annotations

from dataclasses import dataclass

from dalenius.errors import ReleaseError
from dalenius.query.attached_tables import AttachedTables, attachment
from dalenius.release.folder import ReleaseFolder, group_column
from dalenius.release.manifest import Manifest
from dalenius.tables.delimited import check_names


@dataclass(frozen=True)
class SensitiveLines:
    """Sensitive column `number`: its manifest, and how many values of it a row can have."""

    number: int
    manifest: Manifest

    @property
    def name(self) -> str:
        """The published name."""
        return self.manifest.columns.sensitive.name

    @property
    def slots(self) -> int:
        """How many columns of the source it has the values of."""
        return len(self.manifest.columns.sensitive.of)

    @property
    def column(self) -> str:
        """Its identifier."""
        return f"s{self.number}"

    @property
    def lines(self) -> str:
        """Its lines in SQL: bucket, value, and in how many rows of the person."""
        rows = "r" if self.manifest.persons is not None else "1 AS r"
        return f"(SELECT b, {self.column}, {rows} FROM st{self.number})"  # noqa: S608


@dataclass(frozen=True)
class TupleLines:
    """Sensitive columns that are kept together: their numbers, and the release as it is for the first of them.

    A row has one tuple of values, so these are the values of one column.
    """

    number: int
    names: tuple[str, ...]
    places: tuple[int, ...]
    manifest: Manifest
    slots: int = 1

    @property
    def name(self) -> str:
        """The published names."""
        return " and ".join(self.names)

    @property
    def columns(self) -> list[str]:
        """Their identifiers."""
        return [f"s{place}" for place in self.places]

    @property
    def column(self) -> str:
        """Their identifiers in a list."""
        return ", ".join(self.columns)

    @property
    def lines(self) -> str:
        """Its lines in SQL: bucket, values, and in how many rows of the person."""
        rows = "r" if self.manifest.persons is not None else "1 AS r"
        return f"(SELECT b, {self.column}, {rows} FROM t{self.number})"  # noqa: S608


class PeopleTables(AttachedTables):
    """A connection to all tables of a release with people.

    `sets` are its sensitive columns, and `together` those that are kept together.
    """

    def __init__(self, folder: ReleaseFolder, memory: str) -> None:
        manifest = folder.manifest
        bucket, persons = manifest.columns.bucket, manifest.persons
        self.has_persons = persons is not None
        self.sets = [SensitiveLines(number, manifest.view(number)) for number in range(manifest.sets)]
        sensitive = manifest.sensitive_names
        self.together = [
            TupleLines(number, tuple(one.columns), tuple(map(sensitive.index, one.columns)), manifest.view(0))
            for number, one in enumerate(manifest.together)
        ]
        rows = {column.name: f"q{i}" for i, column in enumerate(manifest.columns.quasi_identifiers)}
        names = [*rows, *(one.name for one in self.sets), bucket]
        check_names([*names, persons.number] if persons is not None else names)
        tables = {
            "qit": attachment(folder, "qit", {persons.number: "p"} | rows if persons is not None else rows),
        }
        for one in self.sets:
            own = {one.name: one.column} | ({persons.rows: "r"} if persons is not None else {})
            tables[f"st{one.number}"] = attachment(folder.view(one.number), "st", own)
            if one.manifest.group_table is not None:
                groups = {group_column(bucket): "g"}
                tables[f"g{one.number}"] = attachment(folder.view(one.number), "groups", groups)
        for kept in self.together:
            own = dict(zip(kept.names, kept.columns, strict=True)) | (
                {persons.rows: "r"} if persons is not None else {}
            )
            tables[f"t{kept.number}"] = attachment(folder.kept_together(kept.number), "together", own)
        super().__init__(tables, rows | {one.name: one.column for one in self.sets}, bucket, memory)

    def _measure(self) -> None:
        """Count people and their rows by bucket. All have equally many, and values for each of them."""
        people = (
            "SELECT b, p, count(*) AS n FROM qit GROUP BY b, p" if self.has_persons else "SELECT b, 1 AS n FROM qit"
        )
        self.connection.execute(
            f"""CREATE TEMP TABLE sizes AS
            SELECT b, count(*) AS people, max(n) AS each, min(n) < max(n) AS uneven FROM ({people}) GROUP BY b"""  # noqa: S608
        )
        ((uneven,),) = self.connection.execute("SELECT count(*) FROM sizes WHERE uneven OR b IS NULL").fetchall()
        if uneven:
            raise ReleaseError(
                f"the people of {uneven:,} buckets do not have equally many rows", "Run dalenius verify on the release."
            )
        listed: list[SensitiveLines | TupleLines] = [*self.sets, *self.together]
        for one in listed:
            least = f"lines < people OR cells < people * each OR cells > people * each * {one.slots} OR most > each"
            ((wrong,),) = self.connection.execute(
                f"""SELECT count(*) FROM sizes FULL JOIN
                (SELECT b, count(*) AS lines, sum(r) AS cells, max(r) AS most, min(r) AS least
                 FROM {one.lines} GROUP BY b) USING (b)
                WHERE people IS NULL OR lines IS NULL OR least < 1 OR {least}"""  # noqa: S608
            ).fetchall()
            if wrong:
                raise ReleaseError(
                    f"{wrong:,} buckets do not have as many values of {one.name!r} as their people need",
                    "Run dalenius verify on the release.",
                )

    def _everything(self) -> str:
        return ", ".join(["qit", *(f"(SELECT {one.column} FROM st{one.number})" for one in self.sets)])  # noqa: S608

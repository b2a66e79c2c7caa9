"""Rows of a release and records of the table, by class: whose records they are, and which sensitive values they have.

A class is all rows with the same quasi-identifiers, as in `truth`. Here every record of the table is kept, as some
numbers, because whose record it is matters. Rows of QIT are read in passing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dalenius.attack.truth import (
    BATCH_ROWS,
    OTHER_TABLE,
    class_keys,
    integers_of,
    known_values,
    open_truth,
    others_of,
    same_keys,
    value_text,
)
from dalenius.errors import InputError
from dalenius.infer.candidates import Integers
from dalenius.release.folder import ReleaseFolder
from dalenius.tables.arrays import arrow_array
from dalenius.tables.connections import named_nulls, quote_name
from dalenius.tables.table_errors import plain_errors
from dalenius.verify.row_order import integers

NOBODY = -1


@dataclass(frozen=True)
class Rows:
    """The rows of QIT in the order of the file: their buckets, and the numbers of people within them (else zeros)."""

    buckets: Integers
    numbers: Integers


@dataclass(frozen=True)
class Records:
    """Classes of rows and records; the person of each record, and its values, set by set and column by column.

    A record has the class -1 if no row is like it, and a value -1 where the release lists none.
    """

    row_classes: Integers
    record_classes: Integers
    people: Integers
    values: tuple[tuple[Integers, ...], ...]


class _RowReader:
    """The quasi-identifiers of QIT with the places of rows, for an engine; buckets and numbers are kept."""

    def __init__(self, release: ReleaseFolder) -> None:
        manifest = release.manifest
        self._release = release
        self._names = [column.name for column in manifest.columns.quasi_identifiers]
        persons = manifest.persons
        self._whole = [manifest.columns.bucket, *([persons.number] if persons is not None else [])]
        self._kept: list[list[Integers]] = [[] for _ in self._whole]
        schema = release.schema("qit")
        kinds = [schema.field(name).type for name in self._names]
        plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
        self.schema = pa.schema([(f"q{k}", kind) for k, kind in enumerate(plain)] + [("place", pa.int64())])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        first = 0
        for batch in self._release.batches("qit", [*self._names, *self._whole], rows=BATCH_ROWS):
            for kept, name in zip(self._kept, self._whole, strict=True):
                kept.append(integers(batch.column(name)).view(np.int64))
            columns = [batch.column(name).cast(self.schema.field(place).type) for place, name in enumerate(self._names)]
            places = arrow_array(np.arange(first, first + batch.num_rows, dtype=np.int64))
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([*columns, places], schema=self.schema)

    def rows(self) -> Rows:
        """What was kept."""
        buckets, *numbers = (np.concatenate([np.zeros(0, np.int64), *kept]) for kept in self._kept)
        return Rows(buckets, numbers[0] if numbers else np.zeros(len(buckets), np.int64))


def read_rows(release: ReleaseFolder) -> Rows:
    """The rows without the table."""
    reader = _RowReader(release)
    for _ in reader.batches():
        pass
    return reader.rows()


def read_records(
    source: Any, table: str | None, release: ReleaseFolder, person: str | None, memory: int | None = None
) -> tuple[Rows, Records]:
    """The rows, and the records of the table. Without the column of a person, every record is one of its own."""
    sets = [release.manifest.view(number) for number in range(release.manifest.sets)]
    columns = [column.name for column in release.manifest.columns.quasi_identifiers]
    sensitive = [(name, view) for view in sets for name in view.columns.sensitive.of]
    needed = [*columns, *(name for name, _ in sensitive), *([person] if person is not None else [])]
    reader = _RowReader(release)
    with open_truth(source, table, needed, memory) as (connection, relation), plain_errors():
        parts = [f"{quote_name(column)} AS q{place}" for place, column in enumerate(columns)]
        for place, (name, view) in enumerate(sensitive):
            missing, bands = others_of(view)
            parts.append(f"{named_nulls(value_text(name, bands, missing), view.null_value, missing)} AS s{place}")
        parts.append(f"{f'CAST({quote_name(person)} AS VARCHAR)' if person is not None else 'NULL'} AS p")
        connection.register("source", relation.project(", ".join(parts)).to_arrow_reader(BATCH_ROWS))
        connection.register("release", pa.RecordBatchReader.from_batches(reader.schema, reader.batches()))
        texts = [[entry.value for entry in view.values] for _, view in sensitive]
        row_classes, record_classes, people, *values = _read(connection, len(columns), texts)
    found = iter(values)
    by_set = tuple(tuple(next(found) for _ in view.columns.sensitive.of) for view in sets)
    for codes in by_set:
        strange = int((np.max(codes, axis=0) < 0).sum()) if len(record_classes) else 0
        if strange:
            raise InputError(
                f"{strange:,} rows of the table have a sensitive value that the release has not", OTHER_TABLE
            )
    return reader.rows(), Records(row_classes, record_classes, _numbered(people), by_set)


def _read(connection: duckdb.DuckDBPyConnection, columns: int, texts: Sequence[Sequence[str]]) -> list[Integers]:
    """The class of each row; class, person and values of each record."""
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    keys = class_keys(connection, columns)
    listed = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
    named = ", ".join(f"k{place}" for place in range(len(keys)))
    same = same_keys(len(keys))
    codes = "".join(f", coalesce(c{place}.code, {NOBODY}) AS v{place}" for place in range(len(texts)))
    joins = ""
    for place, values in enumerate(texts):
        connection.register(f"known{place}", known_values(values))
        joins += f" LEFT JOIN known{place} AS c{place} ON a.s{place} = c{place}.s"
    sensitive = "".join(f", s{place}" for place in range(len(texts)))
    connection.execute(f"CREATE TEMP TABLE placed AS SELECT {listed}, place FROM release")  # noqa: S608
    connection.execute(
        f"""CREATE TEMP TABLE classes AS SELECT row_number() OVER () - 1 AS class, {named}
        FROM (SELECT DISTINCT {named} FROM placed)"""  # noqa: S608
    )
    connection.execute(f"CREATE TEMP TABLE records AS SELECT {listed}, p{sensitive} FROM source")  # noqa: S608
    connection.execute(
        "CREATE TEMP TABLE people AS SELECT row_number() OVER () - 1 AS number, p "
        "FROM (SELECT DISTINCT p FROM records WHERE p IS NOT NULL)"
    )
    rows = connection.sql(
        f"SELECT class FROM placed AS a JOIN classes AS b ON {same} ORDER BY place"  # noqa: S608
    ).to_arrow_table()
    found = connection.sql(
        f"""SELECT coalesce(class, {NOBODY}), coalesce(number, {NOBODY}) {codes} FROM records AS a
        LEFT JOIN classes AS b ON {same} LEFT JOIN people ON a.p = people.p {joins}"""  # noqa: S608
    ).to_arrow_table()
    return [integers_of(rows.column(0)), *(integers_of(found.column(place)) for place in range(found.num_columns))]


def _numbered(people: Integers) -> Integers:
    """The people of records; where none is named, the record is somebody of its own."""
    unknown = np.flatnonzero(people < 0)
    people[unknown] = int(people.max(initial=-1)) + 1 + np.arange(len(unknown))
    return people

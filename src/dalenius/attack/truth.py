"""The table that was published, against which attackers are scored.

Rows of a release are not linked to rows of the table: all that can be said is which class a row is in, the rows with
the same quasi-identifiers, and how often each sensitive value occurs among the records of that class. DuckDB finds
both; columns are compared as in `compare`, by their texts where the types differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import InputError
from dalenius.infer.determining import numbered
from dalenius.infer.giveaways import determining_concerns
from dalenius.model.concern import Concern
from dalenius.policy.roles import Roles, identifying_columns
from dalenius.policy.whose_rows import name_person, repeated_people
from dalenius.release.manifest import Manifest
from dalenius.release.two_tables import named_type
from dalenius.tables.arrays import arrow_array, numpy_array, plain_arrow_errors
from dalenius.tables.compare import column_types, comparable, occurrences_of
from dalenius.tables.connections import connect, literals, named_nulls, quote_name
from dalenius.tables.killable import scratch_folder
from dalenius.tables.open_table import open_table
from dalenius.tables.table_errors import plain_errors
from dalenius.verify.stated_bands import band_names, least_text

BATCH_ROWS = 2**17
_INSPECTED = 50_000  # records, on which columns are judged
OTHER_TABLE = "Give the table that the release was made of."

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TruthClasses:
    """The class of every row, the records of each class, and the cells (class, value) of the table with their counts.

    Cells are in ascending order of class, then of value. `totals` are the records of the whole table with each value,
    `total` all of them.
    """

    class_of: Integers
    records: Integers
    cell_classes: Integers
    cell_values: Integers
    cell_counts: Integers
    totals: Integers
    total: int


def truth_classes(
    source: Any,
    table: str | None,
    rows: pa.Table,
    number: int,
    sensitive: str,
    values: Sequence[str],
    null_value: str | None,
    memory: int | None = None,
    missing: Sequence[str] = (),
    bands: BandTexts | None = None,
) -> TruthClasses:
    """For rows of a release (its quasi-identifiers), their classes and what the table says about these.

    There are `number` rows, which a table without columns does not say. Values are numbered as in `values`, a list of
    their texts.
    """
    columns = rows.schema.names
    with open_truth(source, table, [*columns, sensitive], memory) as (connection, relation), plain_errors():
        text = named_nulls(value_text(sensitive, bands, missing), null_value, missing)
        renamed = [f"{quote_name(column)} AS q{place}" for place, column in enumerate(columns)]
        chosen = relation.project(", ".join([*renamed, f"{text} AS s"]))
        connection.register("source", chosen.to_arrow_reader(BATCH_ROWS))
        connection.register("release", _number_rows(rows, number))
        connection.register("known", known_values(values))
        return _find_classes(connection, len(columns), len(values))


@dataclass(frozen=True)
class BandTexts:
    """The bands of a release's numbers: the cuts between them, and the type of the numbers."""

    cuts: tuple[str, ...]
    data_type: str

    @classmethod
    def of(cls, manifest: Manifest) -> BandTexts | None:
        """None if its sensitive values are no numbers in bands."""
        if manifest.bands is None:
            return None
        return cls(tuple(manifest.bands), manifest.columns.sensitive.type)

    def sql(self, column: str, missing: Sequence[str] = ()) -> str:
        """The name of a number's band; nulls, what is missing, and what is no number have none."""
        kind = named_type(self.data_type)
        decimal = f"DECIMAL({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else ""
        sql_type = decimal or ("HUGEINT" if pa.types.is_integer(kind) else "DOUBLE")
        if pa.types.is_float32(kind):
            sql_type = "FLOAT"
        number = f"TRY_CAST({quote_name(column)} AS {sql_type})"
        *names, last = band_names(self.cuts)
        cases = [
            f"WHEN {number} < CAST('{least_text(cut, kind)}' AS {sql_type}) THEN '{name}'"
            for cut, name in zip(self.cuts, names, strict=True)
        ]
        absent = f"WHEN CAST({quote_name(column)} AS VARCHAR) IN ({literals(missing)}) THEN NULL" if missing else ""
        return f"CASE WHEN {number} IS NULL THEN NULL {absent} {' '.join(cases)} ELSE '{last}' END"


def others_of(manifest: Manifest) -> tuple[Sequence[str], BandTexts | None]:
    """What else the truth has to know of a release: codes for missing values, and bands."""
    return manifest.missing, BandTexts.of(manifest)


def value_text(sensitive: str, bands: BandTexts | None, missing: Sequence[str]) -> str:
    """The text by which a release knows a sensitive value."""
    return f"CAST({quote_name(sensitive)} AS VARCHAR)" if bands is None else bands.sql(sensitive, missing)


@dataclass(frozen=True)
class _Sensitive:
    """The sensitive column of the table."""

    name: str
    texts: tuple[str, ...]
    counts: tuple[int, ...]


def table_concerns(
    source: Any,
    table: str | None,
    quasi_identifiers: Sequence[str],
    sensitive: str,
    values: Mapping[str, int],
    null_value: str | None,
    missing: Sequence[str] = (),
    bands: BandTexts | None = None,
) -> list[Concern]:
    """What the table gives away whatever the release does: columns that say the value, and people with several rows.

    `values` are the sensitive values and how many records have each. Columns are judged on a sample.
    """
    with open_truth(source, table, [*quasi_identifiers, sensitive], None) as (_, relation), plain_errors():
        texts = {value: place for place, value in enumerate(values)}
        listed = [f"CAST({quote_name(name)} AS VARCHAR) AS q{k}" for k, name in enumerate(quasi_identifiers)]
        text = named_nulls(value_text(sensitive, bands, missing), null_value, missing)
        chosen = relation.project(", ".join([*listed, f"{text} AS s"]))
        people, _ = _sample_rows(chosen.to_arrow_reader(BATCH_ROWS), _INSPECTED)
        places = [texts.get(value or "", -1) for value in people["s"].to_pylist()]
        known = np.array(places, np.int64)
        codes = {
            name: numbered(numpy_array(people[f"q{k}"].combine_chunks().dictionary_encode("encode").indices))
            for k, name in enumerate(quasi_identifiers)
            if people.num_rows
        }
        suspects = identifying_columns(Roles(sensitive, tuple(quasi_identifiers)), relation.columns)
        identifying = {name: occurrences_of(relation, name) for name in suspects}
    columns = {name: column[known >= 0] for name, column in codes.items()}
    seen = _Sensitive(sensitive, tuple(values), tuple(values.values()))
    several_rows = (
        replace(
            one,
            answer=f"Audit with {name_person(one.columns[0])} to play the attackers who know whose rows these are. "
            "Published with it too, limits are about people.",
        )
        for one in repeated_people(identifying, ())
    )
    return [*determining_concerns(seen, columns, known[known >= 0]), *several_rows]


def control_people(
    source: Any,
    table: str | None,
    schema: pa.Schema,
    sensitive: str,
    null_value: str | None,
    most: int,
    missing: Sequence[str] = (),
    bands: BandTexts | None = None,
) -> tuple[pa.Table, list[str | None], int]:
    """People of a table in the types of a release, their sensitive values, and how many people the table has.

    There are `most` of them at the most: where the table has more, each is as likely to be among them.
    """
    with open_truth(source, table, [*schema.names, sensitive], None) as (_, relation), plain_errors():
        listed = [quote_name(name) for name in schema.names]
        text = named_nulls(value_text(sensitive, bands, missing), null_value, missing)
        chosen = relation.project(", ".join([*listed, f"{text} AS the_sensitive_value"]))
        people, everyone = _sample_rows(chosen.to_arrow_reader(BATCH_ROWS), most)
        values = people.column(len(listed)).to_pylist()
        with plain_arrow_errors():
            try:
                return people.select(list(range(len(listed)))).cast(schema), values, everyone
            except pa.ArrowInvalid:
                raise InputError(
                    "the control table has columns that are not of the release's types",
                    "Give people with the same columns, written in the same way.",
                ) from None


def _sample_rows(reader: pa.RecordBatchReader, most: int) -> tuple[pa.Table, int]:
    """The rows with the smallest of random keys, in their order, and how many rows there are."""
    rng = np.random.default_rng(0)  # nothing secret: which people stand for the others
    kept, keys, everyone = reader.schema.empty_table(), np.zeros(0), 0
    for batch in reader:
        kept = pa.concat_tables([kept, pa.Table.from_batches([batch])])
        keys = np.append(keys, rng.random(batch.num_rows))
        everyone += batch.num_rows
        if len(keys) > most:
            first = np.sort(np.argpartition(keys, most)[:most])
            kept, keys = kept.take(arrow_array(first)), keys[first]
    return kept, everyone


@contextmanager
def open_truth(
    source: Any, table: str | None, columns: Sequence[str], memory: int | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]]:
    """A connection, and the table under another one, which must have these columns."""
    with ExitStack() as stack:
        opened = stack.enter_context(open_table(source, table, memory))
        for column in columns:
            opened.require_column(column)
        scratch = stack.enter_context(scratch_folder())
        yield connect(scratch, stack, memory), opened.relation


def _number_rows(rows: pa.Table, number: int) -> pa.Table:
    places = arrow_array(np.arange(number, dtype=np.int64))
    names = [f"q{place}" for place in range(rows.num_columns)]
    return pa.Table.from_arrays([*rows.columns, places], names=[*names, "place"])


def known_values(values: Sequence[str]) -> pa.Table:
    """The texts of values and their numbers."""
    places = arrow_array(np.arange(len(values), dtype=np.int64))
    return pa.Table.from_arrays([pa.array(list(values), pa.string()), places], names=["s", "code"])


def _find_classes(connection: duckdb.DuckDBPyConnection, columns: int, values: int) -> TruthClasses:
    # a stream has no known length, and the engine would keep the whole table in memory beside it
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    keys = class_keys(connection, columns)
    listed = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
    grouped = ", ".join(f"k{place}" for place in range(len(keys)))
    same = same_keys(len(keys))
    connection.execute(
        f"""CREATE TEMP TABLE classes AS SELECT row_number() OVER () - 1 AS class, {grouped}
        FROM (SELECT {listed} FROM release) GROUP BY {grouped}"""  # noqa: S608
    )
    class_of = _column(
        connection,
        f"""SELECT class FROM (SELECT {listed}, place FROM release) AS a JOIN classes AS b ON {same}
        ORDER BY place""",  # noqa: S608
    )
    connection.execute(
        f"""CREATE TEMP TABLE cells AS SELECT class, code, count(*) AS n FROM (SELECT {listed}, s FROM source) AS a
        LEFT JOIN classes AS b ON {same} LEFT JOIN known ON a.s = known.s GROUP BY class, code"""  # noqa: S608
    )
    total, strange = connection.execute(
        "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (code IS NULL), 0) FROM cells"
    ).fetchall()[0]
    if strange:
        raise InputError(f"{strange:,} rows of the table have a sensitive value that the release has not", OTHER_TABLE)
    cells = connection.sql(
        "SELECT class, code, n::BIGINT FROM cells WHERE class IS NOT NULL ORDER BY class, code"
    ).to_arrow_table()
    classes, codes, counts = (integers_of(cells.column(place)) for place in range(3))
    records = np.bincount(classes, weights=counts, minlength=int(class_of.max(initial=-1)) + 1).astype(np.int64)
    everywhere = connection.sql("SELECT code, sum(n)::BIGINT FROM cells GROUP BY code").to_arrow_table()
    totals = np.zeros(values, np.int64)
    totals[integers_of(everywhere.column(0))] = integers_of(everywhere.column(1))
    return TruthClasses(
        class_of=class_of,
        records=records,
        cell_classes=classes,
        cell_values=codes,
        cell_counts=counts,
        totals=totals,
        total=int(total),
    )


def class_keys(connection: duckdb.DuckDBPyConnection, columns: int) -> list[str]:
    """SQL for what rows of one class have in common, of q0, q1, ... in both `source` and `release`."""
    types = {side: column_types(connection, side) for side in ("source", "release")}
    names = [f"q{place}" for place in range(columns)]
    return [key for name in names for key in comparable(name, types["source"][name], types["release"][name])] or ["0"]


def same_keys(keys: int) -> str:
    """SQL for: a and b are of one class."""
    return " AND ".join(f"a.k{place} IS NOT DISTINCT FROM b.k{place}" for place in range(keys))


def _column(connection: duckdb.DuckDBPyConnection, query: str) -> Integers:
    return integers_of(connection.sql(query).to_arrow_table().column(0))


def integers_of(column: pa.ChunkedArray) -> Integers:
    """A column of numbers as an array; it has no nulls."""
    parts = [numpy_array(chunk).astype(np.int64) for chunk in column.chunks]
    return np.concatenate([np.zeros(0, np.int64), *parts])

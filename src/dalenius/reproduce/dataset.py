"""The table that the experiments run on: one that is given, or one that is made up."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dalenius.engines.arrays import plain_arrow_errors
from dalenius.engines.delimited import missing_column
from dalenius.engines.sources import open_source
from dalenius.errors import InputError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.planning import count_values
from dalenius.reproduce.synthetic import SEED, census_shaped

CENSUS_SENSITIVE = ("Occupation", "Education")
SHORT = {"Occupation": "OCC", "Education": "EDU"}  # the paper's names of its two tables
FEWEST_ROWS = 1_000
_SYNTHETIC = "synthetic, CENSUS-shaped"
# Tables that are known by their first rows, whatever their file is called.
_KNOWN = {"bc0028ac78cb28d4771d17e17b5dddc8531b159e22df539ecea0813f659badb1": "ACS 2018, CENSUS-shaped"}


@dataclass(frozen=True)
class Dataset:
    """A table in memory, with its roles. `title` is what pictures and pages call it."""

    title: str
    table: pa.Table
    sensitive: tuple[str, ...]
    columns: tuple[str, ...]  # quasi-identifiers; the sensitive ones are each other's
    fingerprint: str
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows there are for the experiments."""
        return int(self.table.num_rows)

    def first(self, rows: int, sensitive: str) -> pa.Table:
        """The first rows, with the columns that have a role beside this sensitive one."""
        return self.table.select([*self.quasi_identifiers(sensitive), sensitive]).slice(0, rows)

    def quasi_identifiers(self, sensitive: str) -> list[str]:
        """The columns that are published beside a sensitive one."""
        return [name for name in self.columns if name != sensitive]

    def counts(self, sensitive: str, rows: int) -> ValueCounts:
        """How often each sensitive value is in the first rows."""
        return count_values(self.table.select([sensitive]).slice(0, rows), sensitive)

    def panel(self, sensitive: str) -> str:
        """What a panel is called: OCC (Occupation)."""
        return f"{SHORT[sensitive]} ({sensitive})" if sensitive in SHORT else sensitive


def synthetic(rows: int) -> Dataset:
    """The made-up table, with as many rows as the experiments need."""
    table = census_shaped(rows)
    note = f"The table is made up (`dalenius.reproduce.synthetic`, seed {SEED}): nobody in it exists."
    return Dataset(_SYNTHETIC, table, CENSUS_SENSITIVE, tuple(table.column_names), _digest(table), (note,))


def given(
    path: Path,
    rows: int,
    *,
    sensitive: Sequence[str] = (),
    quasi_identifiers: Sequence[str] = (),
    title: str | None = None,
    table_name: str | None = None,
) -> Dataset:
    """The first rows of a table, CENSUS-shaped unless roles are given."""
    wanted = tuple(dict.fromkeys(sensitive)) or CENSUS_SENSITIVE
    with plain_arrow_errors(), open_source(path, table_name) as source:
        for name in (*wanted, *quasi_identifiers):
            if name not in source.names:
                raise missing_column(name, source.names)
        columns = tuple(dict.fromkeys(quasi_identifiers or source.names))
        named = list(dict.fromkeys((*columns, *wanted)))
        table = _read(source.batches(named), source.schema(named), rows)
    for name in wanted:
        if not [column for column in columns if column != name]:
            raise UsageError(f"there is no quasi-identifier beside {name!r}", "Name some with --quasi-identifiers.")
    if table.num_rows < FEWEST_ROWS:
        raise InputError(
            f"the table has {table.num_rows:,} rows, and the experiments need at least {FEWEST_ROWS:,}",
            "Give a larger table, or none: one is then made up.",
        )
    digest = _digest(table)
    notes: tuple[str, ...] = ()
    if table.num_rows < rows:
        notes = (f"The table has {table.num_rows:,} rows, fewer than the {rows:,} of these settings: all are used.",)
    return Dataset(title or _KNOWN.get(_first_rows(table), path.stem), table, wanted, columns, digest, notes)


def _read(batches: object, schema: pa.Schema, rows: int) -> pa.Table:
    kept: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:  # type: ignore[attr-defined]
        kept.append(batch.slice(0, missing))
        missing -= kept[-1].num_rows
        if missing <= 0:
            break
    if not kept:
        return schema.empty_table()
    table = pa.Table.from_batches(kept)
    plain = [pc.cast(c, c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(plain, names=table.column_names).combine_chunks()


def _first_rows(table: pa.Table) -> str:
    rows = table.slice(0, FEWEST_ROWS).to_pydict()
    return hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()


def _digest(table: pa.Table) -> str:
    """A hash of what the table says, column by column."""
    found = hashlib.sha256()
    sink = pa.BufferOutputStream()
    bare = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, bare.schema) as stream:
        stream.write_table(bare)
    found.update(sink.getvalue())
    return found.hexdigest()

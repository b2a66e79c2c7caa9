"""Tables of a release under DuckDB, which reaches them and nothing else.

Inside, columns have names of their own, which the program chose, so that no published name can mean anything in SQL.
The connection reaches the files of the tables and its scratch folder, and its settings are locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dalenius.errors import QueryError
from dalenius.query.conditions import Condition, conjuncts
from dalenius.query.sql import Names
from dalenius.tables.connections import connect, literal, literal_path, lock, quote_name
from dalenius.tables.killable import scratch_folder
from dalenius.tables.table_errors import query_errors, release_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from dalenius.release.folder import ReleaseFolder, TableName

MEMORY = "2GB"
ROWS_AT_ONCE = 10_000
_NUMBERS = "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE"
_PLAIN_TYPES = {"BOOLEAN", "VARCHAR", *_NUMBERS.split()}

Group = tuple[Any, ...]


def same_group(cells: Iterable[Any]) -> Group:
    """A group that equals itself, which NaN does not."""
    return tuple("NaN" if isinstance(cell, float) and cell != cell else cell for cell in cells)


def both(*conditions: str) -> str:
    """The conjunction of conditions; of none, TRUE."""
    return " AND ".join(f"({condition})" for condition in conditions) or "TRUE"


@dataclass(frozen=True)
class Attachment:
    """One table: Parquet files or a stream of Arrow batches, and the identifiers of its columns in SQL."""

    data: tuple[Path, ...] | pa.RecordBatchReader
    identifiers: Mapping[str, str]

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return [path.absolute() for path in self.data] if isinstance(self.data, tuple) else []


def attachment(folder: ReleaseFolder, table: TableName, identifiers: Mapping[str, str]) -> Attachment:
    """A table of a release with these of its columns, and the bucket as b.

    Arrow reads text files, with the types of the manifest, and files that are not on this machine. It also reads the
    Parquet files of earlier formats: those may have statistics, by which DuckDB leaves rows out, whether they are right
    or not.
    """
    identifiers = {**identifiers, folder.manifest.columns.bucket: "b"}
    paths = folder.admitted_paths(table) if folder.manifest.is_strict else None
    if paths is not None:
        folder.require_one_layout(table)
        return Attachment(paths, identifiers)
    import pyarrow as pa  # imported here: DuckDB reads Parquet files itself

    schema = pa.schema([(field.name, _plain(field.type)) for field in folder.schema(table)])
    batches = (batch.cast(schema) for batch in folder.batches(table))
    return Attachment(pa.RecordBatchReader.from_batches(schema, batches), identifiers)


def _plain(data_type: pa.DataType) -> pa.DataType:
    """The type of the values, for categories."""
    import pyarrow as pa

    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


class AttachedTables:
    """A connection to tables, each a view by its name. `identifiers` has the columns that a query may name.

    `types` has DuckDB's type of every identifier.
    """

    def __init__(
        self, tables: Mapping[str, Attachment], identifiers: Mapping[str, str], bucket: str, memory: str = MEMORY
    ) -> None:
        self.identifiers = dict(identifiers)
        self._names = Names(self.identifiers, bucket)
        self._stack = ExitStack()
        try:
            scratch = self._stack.enter_context(scratch_folder())
            self.connection = connect(scratch, self._stack)
            self.connection.execute(f"SET memory_limit = {literal(memory)}")
            lock(self.connection, [path for table in tables.values() for path in table.paths])
            with release_errors():
                for name, table in tables.items():
                    self._attach(name, table)
                self._measure()
                self.types = self._types_of(", ".join(self.identifiers.values()))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def column(self, name: str) -> str:
        """The published column that a name means."""
        return self._names.column(name)

    def conditions(self, text: str) -> tuple[Condition, ...]:
        """The parts of an expression, after a check that each is a condition."""
        parts = conjuncts(self.connection, text, self._names)
        for part in parts:
            with query_errors():
                (type_name,) = self._types_of(f"{part.sql} AS truth").values()
            if type_name != "BOOLEAN":
                raise QueryError(
                    f"the query has the type {type_name}, but must be a condition",
                    "Compare it with something: Age > 50.",
                )
        return parts

    def group_sql(self, by: Sequence[str]) -> tuple[str, str, str]:
        """Columns in SQL: to group by, to select, and to order by, each with a comma at its end."""
        return "".join(f"{self.identifiers[name]}, " for name in by), self._selected(by), self._order(by)

    def fetch(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, some at a time."""
        with query_errors():
            result = self.connection.execute(query)
            while batch := result.fetchmany(ROWS_AT_ONCE):
                yield from batch

    def _attach(self, name: str, source: Attachment) -> None:
        columns = ", ".join(f"{quote_name(column)} AS {own}" for column, own in source.identifiers.items())
        if isinstance(source.data, tuple):
            files = ", ".join(literal(literal_path(path)) for path in source.paths)
            options = "hive_partitioning = false, union_by_name = false"
            self.connection.execute(
                f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM read_parquet([{files}], {options})"  # noqa: S608
            )
        else:
            self.connection.register("stream", source.data)
            self.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT {columns} FROM stream")  # noqa: S608
            self.connection.unregister("stream")

    def _measure(self) -> None:
        """Count what is in each bucket, and refuse tables that do not fit together."""
        raise NotImplementedError

    def _everything(self) -> str:
        """All columns that a query may name, in a FROM clause."""
        raise NotImplementedError

    def _types_of(self, selected: str) -> dict[str, str]:
        """The types of expressions over all tables. Nothing is evaluated."""
        relation = self.connection.sql(f"SELECT {selected} FROM {self._everything()} LIMIT 0")  # noqa: S608
        return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def _selected(self, by: Sequence[str]) -> str:
        """Columns as Python can represent them: numbers, booleans and text as they are, others as text."""
        names = [self.identifiers[name] for name in by]
        plain = [self.types[name] in _PLAIN_TYPES for name in names]
        return "".join(
            f"{name}, " if as_it_is else f"CAST({name} AS VARCHAR), "
            for name, as_it_is in zip(names, plain, strict=True)
        )

    def _order(self, by: Sequence[str]) -> str:
        return "".join(f"{self.identifiers[name]} NULLS LAST, " for name in by)

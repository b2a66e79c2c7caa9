"""A release where it is stored, as a stream of Arrow batches. Reading trusts nothing: `verify` checks what files say.

Nothing reads a file of a table that was not admitted (`admission`): not Arrow, and not DuckDB, which is given the paths
of admitted files. What is read then stays within a budget of memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from dalenius.errors import InputError, ReleaseError
from dalenius.model.memory import ReadingMemory
from dalenius.release.admission import Admitted, admit_parquet
from dalenius.release.manifest import Column, Manifest, read_manifest
from dalenius.release.store import LocalStore, Store, opening, reading
from dalenius.release.two_tables import TableFile, is_text, named_type

if TYPE_CHECKING:
    import pyarrow as pa


# groups: where people can have several values, and these have groups; together: of columns that are kept together
TableName = Literal["qit", "st", "groups", "together"]
GROUP = "group"  # the column of the groups, in the table of groups
BATCH_ROWS = 2**18
_READ_BYTES = 2**20  # at a time from each column, where a row group is large


class ReleaseFolder:
    """The folder of a release and its manifest. Without a `store`, the folder is one of this machine.

    `memory` is what the whole program may take while the release is read, in bytes; half of the machine's if None.
    """

    def __init__(
        self, path: Path, manifest: Manifest, store: Store | None = None, memory: ReadingMemory | int | None = None
    ) -> None:
        self.path, self.manifest = path, manifest
        self.store: Store = store if store is not None else LocalStore(path)
        self.memory = memory if isinstance(memory, ReadingMemory) else ReadingMemory.of(memory)
        self._admitted: dict[str, Admitted] = {}

    def within(self, memory: int) -> ReleaseFolder:
        """The same, for a program that may take so many bytes."""
        return ReleaseFolder(self.path, self.manifest, self.store, memory)

    def view(self, number: int) -> ReleaseFolder:
        """The same release with one of its sensitive columns alone, of which the first is number 0."""
        return ReleaseFolder(self.path, self.manifest.view(number), self.store, self.memory)

    def kept_together(self, number: int) -> ReleaseFolder:
        """The same release with one of its tables of tuples alone, of which the first is number 0."""
        one = self.manifest.model_copy(update={"together": [self.manifest.together[number]]})
        one._made_in = self.manifest.made_in
        return ReleaseFolder(self.path, one, self.store, self.memory)

    def entry(self, table: TableName) -> TableFile:
        """What the manifest says of a table."""
        if table == "qit":
            return self.manifest.tables.qit
        if table == "together":
            if len(self.manifest.together) != 1:
                raise ReleaseError(f"the release has {len(self.manifest.together)} tables of tuples: say which")
            return self.manifest.together[0].table
        entry = self.manifest.tables.st if table == "st" else self.manifest.group_table
        if entry is None:
            raise ReleaseError("the release has no table of groups")
        return entry

    def name(self, table: TableName) -> str:
        """The file of a table, or the folder of its parts."""
        return self.entry(table).file

    def files(self, table: TableName) -> tuple[str, ...]:
        """The files of a table as the store knows them, in the order of their rows: one, or its parts."""
        return self.entry(table).files

    def admit(self, table: TableName, name: str) -> Admitted:
        """Measure a file before anybody reads it, once. An error if it cannot be, or is too large for the memory."""
        if name not in self._admitted:
            names = self._names(table)
            with opening(name), self.store.open(name) as file:
                if name.endswith(".csv"):
                    _require_header(file, name, names)
                    self._admitted[name] = Admitted()
                else:
                    self._admitted[name] = admit_parquet(file, name, len(names), self.memory)
        return self._admitted[name]

    def admitted_paths(self, table: TableName) -> tuple[Path, ...] | None:
        """The Parquet files of a table for an engine that reads them itself; None if it has others, or elsewhere."""
        files = self.files(table)
        paths = [path for path in map(self.store.local, files) if path is not None and path.suffix == ".parquet"]
        if len(paths) < len(files):
            return None
        for name in files:
            self.admit(table, name)
        return tuple(paths)

    @contextmanager
    def open_file(self, table: TableName, name: str) -> Iterator[Path | BinaryIO]:
        """A file of a table, as Arrow takes it: by its path where it has one, which is faster."""
        self.admit(table, name)
        path = self.store.local(name)
        if path is not None:
            yield path
        else:
            with self.store.open(name) as file:
                yield file

    def _names(self, table: TableName) -> list[str]:
        return [column.name for column in self._columns(table)]

    def _columns(self, table: TableName) -> list[Column]:
        """The columns of a table, in their order."""
        columns, persons = self.manifest.columns, self.manifest.persons
        bucket = _whole_number(columns.bucket, nulls=not self.manifest.is_strict)
        if table == "groups":
            nulls = any(value.group is None for value in self.manifest.values)  # for values that are in none
            return [bucket, Column(name=group_column(columns.bucket), type="string", nulls=nulls)]
        rows = [_whole_number(persons.rows)] if persons is not None else []
        if table == "st":
            return [bucket, columns.sensitive, *rows]
        if table == "together":
            entries = [columns.sensitive, *(other.column for other in self.manifest.others)]
            by_name = {entry.name: entry for entry in entries}
            return [bucket, *(by_name[name] for name in self.manifest.together[0].columns), *rows]
        number = [_whole_number(persons.number)] if persons is not None else []
        return [*number, *columns.quasi_identifiers, bucket]

    def schema(self, table: TableName) -> pa.Schema:
        """The columns that the manifest says a table has, with their types."""
        import pyarrow as pa  # here and below, because a query opens a release and needs no Arrow

        try:
            return pa.schema(
                [pa.field(column.name, named_type(column.type), column.nulls) for column in self._columns(table)]
            )
        except ValueError as error:
            raise ReleaseError(f"the manifest names a type that cannot be: {error}") from None

    def batches(
        self, table: TableName, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS, coded: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows in the order of the files. `coded` gives text columns as dictionaries, which is much faster."""
        for name in self.files(table):
            yield from self.batches_of(table, name, columns, rows=rows, coded=coded)

    def batches_of(
        self,
        table: TableName,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        rows: int = BATCH_ROWS,
        coded: bool = False,
        first_group: int = 0,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one file of a table; of Parquet, from a row group on."""
        with reading(name):
            if name.endswith(".csv"):
                yield from self._csv_batches(table, name, columns, rows)
            else:
                yield from self._parquet_batches(table, name, columns, rows, coded, first_group)

    def table(self, table: TableName) -> pa.Table:
        """A whole table, in memory."""
        import pyarrow as pa

        schema = self.schema(table)
        batches = [batch.cast(schema) for batch in self.batches(table)]
        return pa.Table.from_batches(batches, schema)

    def require_one_layout(self, table: TableName) -> None:
        """Refuse parts with different columns or types, for readers who would take all of them for the first."""
        if self.entry(table).parts is None:
            return
        import pyarrow.parquet

        before: list[tuple[str, pa.DataType]] | None = None
        for name in self.files(table):
            with reading(name), self.open_file(table, name) as source:
                schema = pyarrow.parquet.read_schema(source)
            layout = [(field.name, _plain(field.type)) for field in schema]
            if before is not None and layout != before:
                raise ReleaseError(f"{name} has other columns or types than the parts before it")
            before = layout

    def _parquet_batches(
        self, table: TableName, name: str, columns: Sequence[str] | None, rows: int, coded: bool, first_group: int
    ) -> Generator[pa.RecordBatch, None, None]:
        import pyarrow.parquet

        from dalenius.tables.arrow import readable_as_dictionaries

        schema = self.schema(table)
        chosen = list(columns) if columns is not None else schema.names
        # text as references even where it is wanted spelled out: then it is known how long it is before it is
        text = [column for column in chosen if _is_of_any_length(schema.field(column).type)]
        wanted = {column for column in text if coded and is_text(schema.field(column).type)}
        admitted = self.admit(table, name)
        rows = admitted.rows_at_a_time(rows, self.memory.batch)
        buffered = admitted.group_bytes > self.memory.batch
        options: dict[str, Any] = {"pre_buffer": False, "buffer_size": _READ_BYTES if buffered else 0}
        with self.open_file(table, name) as source:
            plain: dict[str, pa.DataType] = {}
            if text:
                with pyarrow.parquet.ParquetFile(source, **options) as file:
                    text = readable_as_dictionaries(file.metadata, text)
                    plain = {name: file.schema_arrow.field(name).type for name in text if name not in wanted}
            with pyarrow.parquet.ParquetFile(source, read_dictionary=text, **options) as file:
                groups = range(first_group, file.metadata.num_row_groups)
                for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=chosen):
                    _require_text(name, batch)
                    for part in _short_enough(batch, plain, self.memory.batch):
                        yield _spelled_out(part, plain)

    def _csv_batches(
        self, table: TableName, name: str, columns: Sequence[str] | None, rows: int
    ) -> Generator[pa.RecordBatch, None, None]:
        import pyarrow as pa
        import pyarrow.csv

        schema = self.schema(table)
        options: dict[str, Any] = {
            "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types={column: pa.string() for column in schema.names},
                include_columns=list(columns) if columns is not None else schema.names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }
        with self.open_file(table, name) as source, pyarrow.csv.open_csv(source, **options) as reader:
            for batch in reader:
                typed = pa.schema([schema.field(column) for column in batch.schema.names])
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows).cast(typed)


def group_column(bucket: str) -> str:
    """The column of the groups in a table of groups: `group`, or `group_2` if that is the bucket's."""
    return GROUP if bucket.casefold() != GROUP else f"{GROUP}_2"


def _whole_number(name: str, *, nulls: bool = False) -> Column:
    return Column(name=name, type="int64", nulls=nulls)


def _require_text(name: str, batch: pa.RecordBatch) -> None:
    """Refuse text that is not UTF-8, which Parquet files can have and CSV files, as they are read here, cannot."""
    from dalenius.tables.arrays import require_utf8

    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        try:
            require_utf8(column, values)
        except InputError as error:
            raise ReleaseError(f"{name}: {error.message}") from None


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Categories are stored as what they stand for."""
    import pyarrow as pa

    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _is_of_any_length(data_type: pa.DataType) -> bool:
    """Text and bytes, whose values may be of any length."""
    import pyarrow as pa

    return is_text(data_type) or bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def _short_enough(batch: pa.RecordBatch, columns: Collection[str], most: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts, each of at most so many bytes once these columns are spelled out, or of one row."""
    if batch.num_rows < 2 or not columns or _length_of_text(batch.select(list(columns)), most) <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _short_enough(batch.slice(0, half), columns, most)
    yield from _short_enough(batch.slice(half), columns, most)


def _length_of_text(batch: pa.RecordBatch, enough: int) -> int:
    """Bytes of the text to which a batch refers; not exact where it is less than enough."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary)
            most = (pc.max(lengths).as_py() or 0) * len(column)
            total += most if most <= enough // len(batch.columns) else pc.sum(lengths.take(column.indices)).as_py() or 0
    return total


def _spelled_out(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch with some columns of these types, as the file has them, rather than as dictionaries."""
    import pyarrow as pa

    if not types:
        return batch
    columns = [
        column.cast(types[name]) if name in types and column.type != types[name] else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _require_header(file: BinaryIO, name: str, columns: Sequence[str]) -> None:
    """Refuse a text file whose first line does not name these columns: as many are read from every line."""
    longest = sum(2 * len(column.encode("utf-8", "replace")) + 4 for column in columns)
    start = io.StringIO(file.read(longest).decode("utf-8", "replace"), newline="")
    try:
        first = next(csv.reader(start, strict=True), [])
    except csv.Error:
        first = []
    if first != list(columns):
        raise ReleaseError(f"the columns of {name} are not the manifest's, or not in its order")


def open_release(folder: Path, memory: int | None = None) -> ReleaseFolder:
    """The release in a folder, its manifest checked. `memory`, in bytes, is what the whole program may take."""
    room = ReadingMemory.of(memory)
    return ReleaseFolder(folder, read_manifest(folder, room), memory=room)

"""Every record to its bucket, batch by batch, on all cores.

`place_records` reads the table once more. Where there is room for all records in memory, `read_records` reads them
there once, as codes, and they are sampled, cut into strata and placed from there (`place_coded_records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.place.budget import in_parallel
from dalenius.place.columns import cast_to_published
from dalenius.place.cutting import Cutter, StratumValues, sortable_type
from dalenius.place.domains import Integers, changed_table_error
from dalenius.place.packed import Codes, Keys, Layout, PackedRecords
from dalenius.place.sensitive import SensitiveColumn
from dalenius.place.slots import Placement
from dalenius.place.survey import smallest_numbers
from dalenius.tables.arrow import Source

Numbers = npt.NDArray[np.integer]


def place_records(
    source: Source,
    schema: pa.Schema,
    stratum_values: StratumValues,
    counts: Sequence[int],
    placement: Placement,
    records: Store,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
    numbers: Records | None = None,
    carried: bool = False,
) -> None:
    """Read the table again and store every record with its bucket; an error if it is not the table of before.

    `schema` has the quasi-identifiers, with the types to be published. `counts` are the records of each value, or of
    each value in each stratum. Workers look up strata and values, ranks are counted here in the order of the table, and
    workers place. Sensitive values that are numbers, and count by bands, go to `numbers`, or are `carried`: then each
    is the last column of its record.
    """
    placed = np.zeros(stratum_values.number, dtype=np.int64)

    def encode(batch: pa.RecordBatch) -> tuple[list[pa.Array], pa.Array, Numbers, Integers]:
        columns = [cast_to_published(column, field.type) for column, field in zip(batch.columns, schema, strict=False)]
        values = cast_to_published(batch.column(len(schema)), stratum_values.sensitive.listing.data_type)
        codes = stratum_values.encode(values, dict(zip(schema.names, columns, strict=True)))
        return columns, values, codes, np.bincount(codes, minlength=stratum_values.number)

    def ranked() -> Iterator[tuple[list[pa.Array], pa.Array, Numbers, Integers]]:
        nonlocal placed
        batches = source.batches([*schema.names, stratum_values.sensitive.name], batch_rows)
        for columns, values, codes, added in in_parallel(encode, batches, workers, ahead=2):
            starts, placed = placed, placed + added
            if (placed > counts).any():
                raise changed_table_error()
            yield columns, values, codes, starts

    def place(batch: tuple[list[pa.Array], pa.Array, Numbers, Integers]) -> tuple[int, Any, Any]:
        columns, values, codes, starts = batch
        order, buckets = placement.buckets(codes, starts)
        own = None if numbers is None else numbers.part([values], order, buckets)
        return len(codes), records.part([*columns, values] if carried else columns, order, buckets), own

    for rows, part, own in in_parallel(place, ranked(), workers):
        records.store(part)
        if numbers is not None:
            numbers.store(own)
        advance(rows)
    if (placed != counts).any():
        raise changed_table_error()


def place_coded_records(
    coded: CodedRecords,
    placement: Placement,
    counts: Sequence[int],
    records: CodedStore,
    numbers: PackedRecords | None,
    carried: bool,
    workers: Executor,
    advance: Callable[[int], None],
) -> None:
    """Store every record of an earlier reading with its bucket, and its number in `numbers`, or as its last column."""
    placed = np.zeros(len(counts), dtype=np.int64)

    def ranked() -> Iterator[tuple[CodedBatch, Integers]]:
        nonlocal placed
        for batch in coded.batches:
            starts, placed = placed, placed + np.bincount(batch.values, minlength=len(counts))
            yield batch, starts

    def place(ranked: tuple[CodedBatch, Integers]) -> tuple[int, Any, Keys | None]:
        batch, starts = ranked
        order, buckets = placement.buckets(batch.values, starts)
        own, codes = None, batch.codes
        if batch.numbers is not None:
            own = numbers.part_of_codes(batch.numbers, order, buckets) if numbers is not None else None
            if carried and isinstance(records, PackedRecords):
                codes = records.layout.with_last(codes, batch.numbers)
        return len(batch.values), records.part_of_codes(codes, order, buckets), own

    for rows, part, own in in_parallel(place, ranked(), workers):
        records.store(part)
        if numbers is not None and own is not None:
            numbers.store(own)
        advance(rows)
    if (placed != counts).any():
        raise SelfCheckError("the records in memory are not those that were counted")


def is_packed(stores: tuple[Records, Records | None]) -> TypeGuard[tuple[PackedRecords, PackedRecords | None]]:
    """Whether records, and numbers if they are kept apart, are kept in 64 bits each."""
    return all(isinstance(store, PackedRecords) for store in stores if store is not None)


def read_records(
    source: Source,
    fields: Sequence[pa.Field],
    sensitive: SensitiveColumn,
    layout: Layout,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
    numbers: Layout | None = None,
) -> CodedRecords:
    """Read all columns, the sensitive one last; an error if this is not the table of the first reading.

    `numbers` is the layout of sensitive values that count by bands.
    """

    def work(batch: pa.RecordBatch) -> CodedBatch:
        *columns, last = (cast_to_published(one, field.type) for one, field in zip(batch.columns, fields, strict=True))
        own = numbers.codes([last]) if numbers is not None else None
        return CodedBatch(sensitive.encode(last), layout.codes(columns), own)

    batches = []
    counts = np.zeros(len(sensitive.counts), dtype=np.int64)
    for batch in in_parallel(work, source.batches([field.name for field in fields], batch_rows), workers):
        counts += np.bincount(batch.values, minlength=len(counts))
        batches.append(batch)
        advance(len(batch.values))
    if (counts != sensitive.counts).any():
        raise changed_table_error()
    return CodedRecords(layout, batches)


@dataclass(frozen=True, eq=False)
class CodedBatch:
    """Some records: the code of the sensitive value, or a number that goes beyond, and packed codes.

    Sensitive values that are numbers have codes of their own.
    """

    values: Numbers
    codes: Codes
    numbers: Codes | None = None


@dataclass(frozen=True)
class CodedRecords:
    """The records batch by batch."""

    layout: Layout
    batches: list[CodedBatch]

    def sample(self, key: bytes, size: int) -> tuple[Numbers, dict[str, Codes]]:
        """A sample of the records: their values, and their codes in every column."""
        rows = smallest_numbers(key, [len(batch.values) for batch in self.batches], size)
        values = np.concatenate([batch.values[some] for batch, some in zip(self.batches, rows, strict=True)])
        codes = np.concatenate([batch.codes[some] for batch, some in zip(self.batches, rows, strict=True)])
        return values, self.layout.columns(codes)

    def cut(self, cutter: Cutter, values: int, workers: Executor) -> tuple[Integers, CodedRecords]:
        """The records of each of so many values in each stratum; and the records, numbered by stratum and value."""
        total = cutter.number * values
        number_type = sortable_type(total)

        def work(batch: CodedBatch) -> tuple[Numbers, Integers]:
            strata = cutter.strata_of_codes(self.layout.columns(batch.codes, cutter.columns))
            numbers = (strata * values + batch.values).astype(number_type)
            return numbers, np.bincount(numbers, minlength=total)

        totals = np.zeros(total, dtype=np.int64)
        batches = []
        for (numbers, counts), batch in zip(in_parallel(work, self.batches, workers), self.batches, strict=True):
            totals += counts
            batches.append(replace(batch, values=numbers))
        return totals.reshape(cutter.number, values), CodedRecords(self.layout, batches)

    def renumber(self, table: Numbers) -> CodedRecords:
        """The records with other numbers, by a table of old ones."""
        return CodedRecords(self.layout, [replace(batch, values=table.take(batch.values)) for batch in self.batches])


class Store(Protocol):
    """Takes records with their buckets."""

    def part(self, columns: Sequence[pa.Array], order: Integers, buckets: Integers) -> Any:
        """A batch, ready to be stored."""

    def store(self, part: Any) -> None:
        """Put a batch where it belongs."""


class Records(Store, Protocol):
    """A store of placed records until they are written: `PackedRecords` or `WideRecords`."""

    def pieces(self) -> Iterator[int]:
        """The numbers of the pieces, once every record is stored."""

    def piece(self, number: int) -> list[pa.Array]:
        """The columns of QIT for one piece, in the order of the release."""

    def close(self) -> None:
        """Let go of memory and scratch files."""


class CodedStore(Protocol):
    """A store that takes records as codes."""

    def part_of_codes(self, codes: Codes, order: Integers, buckets: Integers) -> Any:
        """A batch, ready to be stored."""

    def store(self, part: Any) -> None:
        """Put a batch where it belongs."""

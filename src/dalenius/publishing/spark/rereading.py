"""Later readings of the table, partition by partition.

Tasks see the records of a partition as batches of numbers (by stratum and value) and of columns. Packed records are
made once, by Spark itself as far as it can, and may be kept on the cluster: 10 to 16 bytes each. A task that reads the
table checks at its end that its partition was the one of the first reading, row by row. One that is run again elsewhere
does the same, so it gives the same result, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dalenius.errors import ChangedInputError
from dalenius.place.banded import BandedColumn, with_nulls
from dalenius.place.columns import cast_to_published
from dalenius.place.cutting import Cutter, StratumValues
from dalenius.place.domains import Domain, Range, codes_of
from dalenius.place.packed import Codes, Layout
from dalenius.place.sensitive import SensitiveColumn
from dalenius.place.survey import Survey, layout_of
from dalenius.publishing.spark.frames import PACKED, SelectedColumns
from dalenius.publishing.spark.spark_errors import carry_errors
from dalenius.publishing.spark.surveying import Partitions, fingerprint_of, partition_number
from dalenius.tables.arrays import arrow_array, numpy_array

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer]
Batches = Iterator[pa.RecordBatch]

KEPT = "number int, amount int, sensitive binary, codes binary, numbers binary"


def rows_moved() -> ChangedInputError:
    """Two readings of a partition that are not of the same rows in the same order."""
    return ChangedInputError(
        "the partitions of the table did not come the same twice",
        "Run again when nothing writes to it. If it is a view, or a DataFrame with a shuffle in it, write it to a "
        "folder of Parquet files first, and publish that.",
    )


@dataclass(frozen=True)
class Check:
    """What the first reading saw of each partition."""

    rows: Integers
    fingerprints: Integers

    @classmethod
    def of(cls, partitions: Partitions) -> Check:
        """From the first reading."""
        return cls(partitions.rows, partitions.fingerprints)

    def against(self, number: int, rows: int, fingerprint: int) -> None:
        """An error if a partition is not what it was."""
        known = number < len(self.rows)
        if rows != (self.rows[number] if known else 0) or (known and fingerprint != self.fingerprints[number]):
            raise rows_moved()


class PackTask:
    """Reads a partition, and gives the codes of its records: the sensitive value, and all other columns in one."""

    def __init__(
        self,
        sensitive: SensitiveColumn,
        layout: Layout,
        others: Mapping[str, pa.DataType],
        check: Check,
        numbers: Layout | None = None,
    ) -> None:
        """`others` are the columns that Spark did not pack, with the types that they are published with. `numbers` is
        the layout of sensitive numbers that are to be had too: their values are bands."""
        self._sensitive, self._layout, self._others, self._check = sensitive, layout, others, check
        self._numbers = numbers

    def __call__(self, batches: Batches) -> Batches:
        """A row a batch."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Batches) -> Batches:
        number = partition_number()
        rows = fingerprint = 0
        for batch in batches:
            _, packed, sensitive, *others = batch.columns
            if packed.null_count:  # a value outside the range of the first reading
                raise rows_moved()
            columns = {
                name: cast_to_published(column, kind)
                for (name, kind), column in zip(self._others.items(), others, strict=True)
            }
            codes = self._layout.codes_beside(numpy_array(packed), columns)
            typed = _typed(sensitive, self._sensitive)
            values = self._sensitive.encode(typed)
            numbers = self._numbers.codes([typed]).tobytes() if self._numbers is not None else None
            fingerprint ^= fingerprint_of(batch)
            rows += batch.num_rows
            yield pa.record_batch(
                [
                    pa.array([number], pa.int32()),
                    pa.array([len(codes)], pa.int32()),
                    pa.array([values.tobytes()], pa.binary()),
                    pa.array([codes.tobytes()], pa.binary()),
                    pa.array([numbers], pa.binary()),
                ],
                names=["number", "amount", "sensitive", "codes", "numbers"],
            )
        self._check.against(number, rows, fingerprint)


def _typed(values: pa.Array, sensitive: SensitiveColumn) -> pa.Array:
    """Sensitive values in the type that is published. Codes for missing numbers are nulls."""
    codes = tuple(sensitive.found) if isinstance(sensitive, BandedColumn) else ()
    return cast_to_published(with_nulls(values, codes, set()), sensitive.listing.data_type)


def layout_of_numbers(survey: Survey) -> Layout | None:
    """The layout of sensitive numbers, if records can carry theirs in 64 bits; None if there are none."""
    carried = survey.numbers and layout_of({**survey.domains, **survey.numbers}) is not None
    return layout_of(survey.numbers) if carried else None


def packed_frame(chosen: SelectedColumns, survey: Survey, layout: Layout, check: Check) -> DataFrame:
    """The records as codes."""
    begun: Column = F.lit(0).cast("long")
    others: dict[str, pa.DataType] = {}
    for name, domain in survey.domains.items():
        if chosen.is_whole(name) and isinstance(domain, Range):
            begun = begun.bitwiseOR(_pack(chosen.as_long(name), domain, layout.shifts[name]))
        else:
            others[name] = survey.schema.field(name).type
    columns = [begun.alias(PACKED), chosen.column(survey.sensitive.name), *(chosen.column(name) for name in others)]
    task = PackTask(survey.sensitive, layout, others, check, layout_of_numbers(survey))
    return chosen.with_fingerprints(*columns).mapInArrow(task, KEPT)


def _pack(column: Column, domain: Range, shift: int) -> Column:
    """The code of a value, at its place; null for a value that the first reading did not see."""
    code = F.when(column.between(domain.low, domain.high), column - F.lit(domain.low))
    if domain.has_nulls:
        code = code.when(column.isNull(), F.lit(domain.codes - 1).cast("long"))
    return F.shiftleft(code, shift)


@dataclass(frozen=True)
class PackedRecordsOf:
    """Kept records, as tasks see them. With `carried`, a layout that has one more column, each has its number too.

    `alone` is the layout of the numbers by themselves.
    """

    sensitive: SensitiveColumn
    layout: Layout
    cutter: Cutter | None
    placing: bool = False
    alone: Layout | None = None
    carried: Layout | None = None

    @property
    def numbers(self) -> int:
        """How many numbers by stratum and value there are."""
        return StratumValues(self.sensitive, self.cutter, self.placing).number

    def batches(self, batches: Batches) -> Iterator[tuple[int, Numbers, Codes]]:
        """The partition, and of each record the number and the codes."""
        values_type = np.uint16 if len(self.sensitive.texts) <= 2**16 else np.int64
        for batch in batches:
            cells = (batch.column(place).to_pylist() for place in (0, 2, 3, 4))
            for number, values, codes, own in zip(*cells, strict=True):
                of_records = np.frombuffer(codes, dtype=self.layout.code_type)
                numbered = self._number(np.frombuffer(values, dtype=values_type), of_records)
                if self.carried is not None and self.alone is not None:
                    last = np.frombuffer(own, dtype=self.alone.code_type)
                    of_records = self.carried.with_last(of_records, last)
                yield number, numbered, of_records

    def _number(self, values: Numbers, codes: Codes) -> Numbers:
        strata = None
        if self.cutter is not None:
            strata = self.cutter.strata_of_codes(self.layout.columns(codes, self.cutter.columns))
        return StratumValues(self.sensitive, self.cutter, self.placing).of_codes(values, strata)


@dataclass(frozen=True)
class RawRecordsOf:
    """Records as they are in the table: the fingerprint, some columns, and the sensitive value last."""

    sensitive: SensitiveColumn
    fields: tuple[pa.Field, ...]
    cutter: Cutter | None
    check: Check
    placing: bool = False
    carries: bool = False  # its sensitive value too, as a last column

    @property
    def numbers(self) -> int:
        """How many numbers by stratum and value there are."""
        return StratumValues(self.sensitive, self.cutter, self.placing).number

    def batches(self, batches: Batches) -> Iterator[tuple[int, Numbers, list[pa.Array]]]:
        """The partition, and of each record the number and the columns, in the types that are published."""
        number, virtual = partition_number(), StratumValues(self.sensitive, self.cutter, self.placing)
        rows = fingerprint = 0
        for batch in batches:
            _, *columns, sensitive = batch.columns
            typed = [cast_to_published(column, field.type) for column, field in zip(columns, self.fields, strict=True)]
            named = {field.name: column for field, column in zip(self.fields, typed, strict=True)}
            values = _typed(sensitive, self.sensitive)
            fingerprint ^= fingerprint_of(batch)
            rows += batch.num_rows
            yield number, virtual.encode(values, named), [*typed, values] if self.carries else typed
        self.check.against(number, rows, fingerprint)


def raw_frame(chosen: SelectedColumns, survey: Survey, names: Sequence[str]) -> DataFrame:
    """Some columns of the table, for `RawRecordsOf`."""
    return chosen.with_fingerprints(*(chosen.column(name) for name in (*names, survey.sensitive.name)))


class CountTask:
    """Counts the records of a partition by stratum and value."""

    schema = "number int, counts binary"

    def __init__(self, records: PackedRecordsOf | RawRecordsOf) -> None:
        self._records = records

    def __call__(self, batches: Batches) -> Batches:
        """A row a partition."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Batches) -> Batches:
        counts, partition = np.zeros(self._records.numbers, dtype=np.int64), -1
        for number, numbers, _ in self._records.batches(batches):
            partition = number
            counts += np.bincount(numbers, minlength=len(counts))
        if partition >= 0:
            yield pa.record_batch(
                [pa.array([partition], pa.int32()), pa.array([counts.tobytes()], pa.binary())],
                names=["number", "counts"],
            )


class SampleTask:
    """Picks some records of a partition by their places, and gives their values and their codes, column by column."""

    schema = "amount int, sensitive binary, codes binary"

    def __init__(
        self, records: PackedRecordsOf | RawRecordsOf, places: Mapping[int, Integers], domains: Mapping[str, Domain]
    ) -> None:
        """`places[k]` are those of partition k, in ascending order; `domains` are those of the columns to be given."""
        self._records, self._places, self._domains = records, places, domains

    def __call__(self, batches: Batches) -> Batches:
        """A row a batch that has some."""
        return carry_errors(self._run)(batches)

    def _run(self, batches: Batches) -> Batches:
        before = 0
        for partition, values, columns in self._records.batches(batches):
            places = self._places.get(partition, np.empty(0, dtype=np.int64))
            first, last = np.searchsorted(places, (before, before + len(values)))
            rows = places[first:last] - before
            before += len(values)
            if len(rows):
                yield pa.record_batch(
                    [
                        pa.array([len(rows)], pa.int32()),
                        pa.array([values[rows].astype(np.int64).tobytes()], pa.binary()),
                        pa.array([self._codes(columns, rows).tobytes()], pa.binary()),
                    ],
                    names=["amount", "sensitive", "codes"],
                )

    def _codes(self, columns: Codes | list[pa.Array], rows: Integers) -> npt.NDArray[np.uint64]:
        """A line for each column."""
        if isinstance(self._records, PackedRecordsOf):
            codes = self._records.layout.columns(np.asarray(columns)[rows], list(self._domains))
            lines = [codes[name].astype(np.uint64) for name in self._domains]
        else:
            named = {field.name: column for field, column in zip(self._records.fields, columns, strict=True)}
            taken = arrow_array(rows)
            lines = [codes_of(domain, named[name].take(taken)) for name, domain in self._domains.items()]
        return np.stack(lines) if lines else np.empty((0, len(rows)), dtype=np.uint64)

"""A table on the cluster, as publishing reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dalenius.errors import SelfCheckError, UsageError
from dalenius.model.entries import Occurrences
from dalenius.model.problem import SizeGroup
from dalenius.model.progress import Progress, Silent
from dalenius.place.banded import NumberSample, drawn_numbers, kinds_of_numbers
from dalenius.place.budget import Budget
from dalenius.place.cutting import Cutter
from dalenius.place.occurrences import scaled_up
from dalenius.place.packed import Layout, Pieces
from dalenius.place.slots import Placement
from dalenius.place.survey import Survey, layout_of, smallest_numbers
from dalenius.place.wide import WideLayout
from dalenius.publishing.arrangement import Arrangement, Integers, Numbers
from dalenius.publishing.engine import Agreeing, SampleCodes, SampleSpec, SurveySpec
from dalenius.publishing.spark.frames import SelectedColumns, quoted
from dalenius.publishing.spark.placing import (
    ENCODED,
    PLACED,
    PieceEncoder,
    PlaceTask,
    Ranks,
    SortTask,
    ValuesTask,
)
from dalenius.publishing.spark.rereading import (
    Check,
    CountTask,
    PackedRecordsOf,
    RawRecordsOf,
    SampleTask,
    layout_of_numbers,
    packed_frame,
    raw_frame,
    rows_moved,
)
from dalenius.publishing.spark.spark_errors import plain_errors
from dalenius.publishing.spark.surveying import NumbersTask, Partitions, Surveyor, numbers_in
from dalenius.publishing.spark.watching import ClusterWork
from dalenius.tables.delimited import check_names

TablesAsFiles = tuple[tuple[DataFrame, Pieces], tuple[DataFrame, Pieces]]  # QIT and ST, a file a piece

_FEWEST_PIECES = 8
_LEAST_PIECE_ROWS, _MOST_PIECE_ROWS = 2**14, 2**20
_PIECE_BYTES = 2**26
_DRAWN_AT_ONCE = 2**22
_MOST_HASHES = 2**18
_FEW_TASKS = 8
_SAMPLED_NUMBERS = 2**20


def piece_rows(rows: int, row_bytes: int) -> int:
    """How many rows a file of a table has, about: a power of two, by what is published and not by the cluster."""
    most = max(1, min(_MOST_PIECE_ROWS, _PIECE_BYTES // max(1, row_bytes)))
    wanted = max(rows // _FEWEST_PIECES, _LEAST_PIECE_ROWS)
    return int(2 ** min((wanted - 1).bit_length(), most.bit_length() - 1))


@dataclass(frozen=True)
class SparkCounts:
    """The records of each number (stratum after stratum, value by value) in each partition."""

    by_partition: Integers
    values: int

    @property
    def totals(self) -> Integers:
        """A line for each stratum."""
        totals: Integers = self.by_partition.sum(axis=0).reshape(-1, self.values)
        return totals

    def renumber(self, table: Numbers) -> SparkCounts:
        """Merge strata."""
        numbers = (int(table.max()) // self.values + 1) * self.values
        merged = np.zeros((len(self.by_partition), numbers), dtype=np.int64)
        np.add.at(merged.T, table, self.by_partition.T)
        return SparkCounts(merged, self.values)


@dataclass(frozen=True)
class SparkPlacement:
    """Records with their buckets, by piece. Nothing is done yet: Spark waits until somebody wants it."""

    frame: DataFrame
    pieces: Pieces
    layout: Layout | WideLayout
    arrangement: Arrangement

    @contextmanager
    def tables(self, spark: SparkSession, qit: PieceEncoder, st: PieceEncoder) -> Iterator[TablesAsFiles]:
        """QIT by the one shuffle and sort that there is; ST, which needs no record, by itself.

        Where records carry their numbers, ST is made of the same pieces, which are kept until both are written.
        """
        shuffled = self.frame.repartitionById(len(self.pieces), "piece")
        survey, fakes = self.arrangement.survey, self.arrangement.fake_values
        if survey.numbers:
            shuffled = shuffled.persist(StorageLevel.DISK_ONLY)
            try:
                others = SortTask(self.pieces, self.layout, qit, "all but numbers")
                numbers = SortTask(self.pieces, self.layout, st, "numbers")
                made = shuffled.mapInArrow(others, ENCODED), shuffled.mapInArrow(numbers, ENCODED)
                yield (made[0], self.pieces), (made[1], self.pieces)
            finally:
                shuffled.unpersist()
            return
        slots = [SizeGroup(group.size + fakes, group.buckets) for group in self.arrangement.groups]
        pieces = Pieces.of(slots, piece_rows(sum(group.size * group.buckets for group in slots), 16))
        buckets = sum(group.buckets for group in slots)
        values = ValuesTask(self.arrangement.partitions, survey.sensitive, pieces, buckets, st)
        of_st = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(values, ENCODED)
        yield (shuffled.mapInArrow(SortTask(self.pieces, self.layout, qit), ENCODED), self.pieces), (of_st, pieces)


class SparkTable:
    """A DataFrame that is read more than once; `untyped` if all of it is text."""

    def __init__(self, frame: DataFrame, untyped: bool, budget: Budget) -> None:
        self._frame, self._untyped, self._budget = frame, untyped, budget
        self._progress: Progress = Silent()
        self._sample_spec: SampleSpec | None = None
        self._chosen: SelectedColumns | None = None
        self._partitions: Partitions | None = None
        self._drawn: SampleCodes | None = None
        self._kept: DataFrame | None = None
        self.names: Sequence[str] = list(frame.columns)
        check_names(list(self.names))

    def numbers(self, column: str, key: bytes | None, missing: Sequence[str]) -> NumberSample:
        """The numbers of a column, all of them up to `_SAMPLED_NUMBERS`, or only their type."""
        with plain_errors():
            chosen = SelectedColumns.of(self._frame, (), column)
            kinds = kinds_of_numbers(column, chosen.schema.field(column).type)
            if key is None and len(kinds) == 1:
                return drawn_numbers(kinds[0], [])
            frame, work = chosen.frame.select(chosen.column(column)), self._work(0)
            looked = work.rows(frame.mapInArrow(NumbersTask(column, kinds, missing, {}), NumbersTask.schema))
            rows = np.zeros(max((row["number"] + 1 for row in looked), default=0), dtype=np.int64)
            for row in looked:
                rows[row["number"]] += row["rows"]
            kind = kinds[max((row["kinds"] for row in looked), default=0)]
            if key is None:
                return drawn_numbers(kind, [])
            task = NumbersTask(column, [kind], missing, _places(key, rows, _SAMPLED_NUMBERS))
            return drawn_numbers(kind, [numbers_in(row) for row in work.rows(frame.mapInArrow(task, task.schema))])

    def survey(self, spec: SurveySpec, progress: Progress) -> Survey:
        """Read the table for the first time."""
        self._progress, self._sample_spec = progress, spec.sample
        with plain_errors():
            self._chosen = SelectedColumns.of(self._frame, spec.quasi_identifiers, spec.sensitive)
            surveyor = Surveyor(self._chosen, spec.sensitive, self._untyped, self._budget, self._work(0))
            survey, self._partitions = surveyor.survey(spec.null_value, spec.missing, spec.bands)
            found = {name: self._occurrences([name], survey.rows) for name in spec.identifying}
        return replace(survey, identifying={name: one for name, one in found.items() if one is not None})

    def sample(self, survey: Survey) -> SampleCodes:
        """Records at random places, the same ones however often a task is run."""
        if self._sample_spec is None:
            raise SelfCheckError("the survey was not asked for a sample")
        if self._drawn is None:
            self._drawn = self._draw(survey, self._sample_spec)
        return self._drawn

    def _draw(self, survey: Survey, spec: SampleSpec) -> SampleCodes:
        _, partitions = self._read()
        rows = max(1, min(spec.rows, spec.bytes // survey.row_bytes))
        places = _places(spec.key, partitions.rows, rows)
        domains = {name: domain for name, domain in survey.domains.items() if domain is not None}
        frame, records = self._records(survey, None, list(domains), keep=spec.keep)
        with plain_errors():
            task = SampleTask(records, places, domains)
            sampled_rows = self._work(0).rows(frame.mapInArrow(task, SampleTask.schema))
        values = np.concatenate([np.frombuffer(row["sensitive"], dtype=np.int64) for row in sampled_rows])
        if len(values) != sum(len(some) for some in places.values()):
            raise rows_moved()
        lines = [np.frombuffer(row["codes"], dtype=np.uint64).reshape(-1, row["amount"]) for row in sampled_rows]
        codes = np.concatenate(lines, axis=1)
        known = len(values) == survey.rows and len(domains) == len(survey.domains)
        combinations = None if known else self._occurrences(list(survey.domains), survey.rows)
        return SampleCodes(values, dict(zip(domains, codes, strict=True)), combinations)

    def count(self, survey: Survey, cutter: Cutter | None, progress: Progress) -> SparkCounts:
        """Count by partition; without strata the first reading has done so already."""
        self._drawn = None
        _, partitions = self._read()
        values, dealt = len(survey.sensitive.texts), survey.sensitive.published
        found = partitions.counts if dealt is None else partitions.counts[:, dealt]  # by code, as values are dealt now
        if cutter is None:
            return SparkCounts(found, values)
        self._check_room(len(partitions.rows), cutter.number * values)
        frame, records = self._records(survey, cutter, cutter.columns, keep=True)
        with plain_errors():
            counted = self._work(survey.rows, progress).rows(frame.mapInArrow(CountTask(records), CountTask.schema))
        counts = np.zeros((len(partitions.rows), cutter.number * values), dtype=np.int64)
        for row in counted:
            counts[row["number"]] = np.frombuffer(row["counts"], dtype=np.int64)
        by_value = counts.reshape(len(counts), cutter.number, values).sum(axis=1)
        if (by_value != found).any():
            raise rows_moved()
        return SparkCounts(counts, values)

    @contextmanager
    def place(self, arrangement: Arrangement, placement: Placement, progress: Progress) -> Iterator[SparkPlacement]:
        """What tasks will do with the records of their partitions, once the release is written."""
        del progress
        survey, counts, groups = arrangement.survey, arrangement.counts, arrangement.groups
        if not isinstance(counts, SparkCounts):
            raise SelfCheckError("records were counted by another engine")
        self._check_room(*counts.by_partition.shape)
        buckets = sum(group.buckets for group in groups)
        together = {**survey.domains, **survey.numbers}
        packed = layout_of(together, buckets)
        names = list(survey.domains)
        with plain_errors():
            fits = packed is not None
            frame, records = self._records(survey, arrangement.cutter, names, keep=False, packed=fits, placing=True)
            if isinstance(records, RawRecordsOf):
                records = replace(records, carries=bool(survey.numbers))
            elif survey.numbers:
                records = replace(records, alone=layout_of_numbers(survey), carried=packed)
            layout: Layout | WideLayout
            if packed is not None:
                layout, rows = packed, piece_rows(survey.rows, survey.row_bytes)
            else:
                schema = pa.schema([*(survey.schema.field(name) for name in together), ("bucket", pa.int64())])
                layout, rows = WideLayout(schema, survey.domains), piece_rows(survey.rows, 6 * survey.row_bytes + 40)
            pieces = Pieces.of(groups, rows)
            task = PlaceTask(records, Ranks.of(counts.by_partition), placement, pieces, layout)
            placed = SparkPlacement(frame.mapInArrow(task, PLACED), pieces, layout, arrangement)
        yield placed

    def agreeing(self, survey: Survey, identifier: str) -> Agreeing | None:
        """How often an identifier, the quasi-identifiers and both together occur."""
        quasi = list(survey.domains)
        with plain_errors():
            found = [self._occurrences(columns, survey.rows) for columns in ([identifier], quasi, [identifier, *quasi])]
        alone, others, both = found
        return Agreeing(alone, others, both) if alone and others and both else None

    def _occurrences(self, columns: Sequence[str], rows: int) -> Occurrences | None:
        """How often the entries of some columns, taken together, occur; None if they have no hash.

        Of a large table, some of the hashes are counted, as in `OccurrenceCounter`.
        """
        kinds = [field.dataType for field in self._frame.schema.fields if field.name in columns]
        if not all(isinstance(kind, t.AtomicType) and not isinstance(kind, t.VariantType) for kind in kinds):
            return None
        entries = [F.col(quoted(name)) for name in columns]
        given = self._frame.where(entries[0].isNotNull()) if len(columns) == 1 else self._frame  # null is nobody's name
        hashed, parts = F.xxhash64(*entries), 1 << (rows // _MOST_HASHES).bit_length()
        chosen = F.when(F.pmod(hashed, F.lit(parts)) == 0, hashed).alias("hash")  # all others in one group
        counts = given.select(chosen).groupBy("hash").count().coalesce(_FEW_TASKS)
        is_chosen = F.col("hash").isNotNull()
        figures = (
            F.sum("count"),
            F.sum(F.when(is_chosen, F.col("count"))),
            F.count("hash"),
            F.count_if(is_chosen & (F.col("count") == 1)),
            F.sum(F.when(is_chosen, F.expr("count * (count - 1) div 2"))),
        )
        (found,) = self._work(0).rows(counts.agg(*figures))
        return scaled_up(*(int(number or 0) for number in found))

    def close(self) -> None:
        """Let go of what is kept on the cluster."""
        if self._kept is not None:
            self._kept.unpersist()

    def _records(
        self,
        survey: Survey,
        cutter: Cutter | None,
        names: Sequence[str],
        *,
        keep: bool,
        packed: bool = True,
        placing: bool = False,
    ) -> tuple[DataFrame, PackedRecordsOf | RawRecordsOf]:
        """The records as tasks will see them: as codes, kept on the cluster if they will be wanted again, or as is."""
        chosen, partitions = self._read()
        layout = survey.layout() if packed else None
        if layout is not None:
            if self._kept is not None:
                frame = self._kept
            else:
                frame = packed_frame(chosen, survey, layout, Check.of(partitions))
                if keep:
                    frame = self._kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
            return frame, PackedRecordsOf(survey.sensitive, layout, cutter, placing)
        fields = tuple(survey.schema.field(name) for name in names)
        records = RawRecordsOf(survey.sensitive, fields, cutter, Check.of(partitions), placing)
        return raw_frame(chosen, survey, names), records

    def _read(self) -> tuple[SelectedColumns, Partitions]:
        if self._chosen is None or self._partitions is None:
            raise SelfCheckError("the table was not read yet")
        return self._chosen, self._partitions

    def _check_room(self, partitions: int, numbers: int) -> None:
        """Refuse more counts than the driver, and every task, has room for."""
        needed = 8 * partitions * numbers
        if needed > self._budget.spare // 4:
            raise UsageError(
                f"{partitions:,} partitions with {numbers:,} values of strata each do not fit into the driver's memory",
                "Give fewer partitions (spark.sql.files.maxPartitionBytes), fewer strata, or --memory more.",
            )

    def _work(self, rows: int, progress: Progress | None = None) -> ClusterWork:
        return ClusterWork(self._frame.sparkSession, progress if progress is not None else self._progress, rows)


def _places(key: bytes, rows: Integers, number: int) -> dict[int, npt.NDArray[np.int64]]:
    """The places of a sample in every partition: those that one process would draw, reading one after the other."""
    lengths, owners, firsts = [], [], []
    for partition, length in enumerate(rows.tolist()):
        for first in range(0, length, _DRAWN_AT_ONCE):
            lengths.append(min(_DRAWN_AT_ONCE, length - first))
            owners.append(partition)
            firsts.append(first)
    places: dict[int, list[npt.NDArray[np.int64]]] = {}
    for partition, first, some in zip(owners, firsts, smallest_numbers(key, lengths, number), strict=True):
        places.setdefault(partition, []).append(some.astype(np.int64) + first)
    return {partition: np.concatenate(some) for partition, some in places.items()}

"""A table of which some people are in buckets already: rows are kept by these, and new ones find theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.model.problem import SizeGroup
from dalenius.model.progress import Progress
from dalenius.place.budget import in_parallel
from dalenius.place.columns import cast_to_published
from dalenius.place.cutting import StratumValues
from dalenius.place.domains import Integers
from dalenius.place.packed import Pieces
from dalenius.place.slots import Placement
from dalenius.place.stream import place_coded_records, place_records
from dalenius.place.survey import Survey
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.engine import OpenTable
from dalenius.publishing.followed_rows import Whereabouts
from dalenius.publishing.local import LocalCounts, LocalTable
from dalenius.publishing.local_output import PlacedRecords
from dalenius.release.atomic import writable
from dalenius.tables.arrays import arrow_array
from dalenius.tables.arrow import Source


class FollowedTable(LocalTable):
    """A source that is open, and what is known of where its rows are."""

    @classmethod
    def of(cls, table: OpenTable) -> FollowedTable:
        """The same table."""
        if not isinstance(table, LocalTable):
            raise SelfCheckError("a chain is published by the local engine alone")
        return cls(table._source, table._budget, table._workers, table._scratch)

    @property
    def workers(self) -> Executor:
        """Threads that read and reckon."""
        return self._workers

    def wrapped(self, wrap: Callable[[Source], Source]) -> FollowedTable:
        """Another table that is made of the same source."""
        return FollowedTable(wrap(self._source), self._budget, self._workers, self._scratch)

    @property
    def source(self) -> Source:
        """What the table is read from."""
        return self._source

    def find_buckets(
        self, arrangement: Arrangement, placement: Placement, places: PlacedRows, progress: Progress
    ) -> None:
        """The bucket of every record, and nothing else of it: from memory or in a further reading."""
        survey, counts = arrangement.survey, arrangement.counts
        quotas = [sum(row) for partition in arrangement.partitions for row in partition.quotas]
        progress.stage("Placing", survey.rows)
        kept = counts.kept if isinstance(counts, LocalCounts) else None
        if kept is not None:
            place_coded_records(kept, placement, quotas, places, None, False, self._workers, progress.advance)
            return
        values = StratumValues(survey.sensitive, arrangement.cutter, apart=True)
        schema = pa.schema([survey.schema.field(name) for name in values.columns])
        place_records(
            self._source, schema, values, quotas, placement, places, self._workers, survey.batch_rows, progress.advance
        )

    @contextmanager
    def keep(
        self, survey: Survey, groups: Sequence[SizeGroup], where: Whereabouts, advance: Callable[[int], None]
    ) -> Iterator[PlacedRecords]:
        """All records that have a bucket, stored by it."""
        records = self._records(
            survey, survey.domains, groups, survey.row_bytes, 1, lambda rows: pieces_of(groups, rows, where)
        )
        fields = [survey.schema.field(name) for name in survey.domains]
        start = 0

        def found() -> Iterator[tuple[pa.RecordBatch, Integers]]:
            nonlocal start
            for batch in self._source.batches([field.name for field in fields], survey.batch_rows):
                buckets = where.read(start, batch.num_rows)
                start += batch.num_rows
                yield batch, buckets

        def part(pair: tuple[pa.RecordBatch, Integers]) -> tuple[int, Any]:
            batch, buckets = pair
            placed = np.flatnonzero(buckets)  # the others are held back, and nothing of them is coded
            if len(placed) < len(buckets):
                batch, buckets = batch.take(arrow_array(placed)), buckets[placed]
            order = np.arange(len(buckets))  # the store puts them in its own
            columns = [cast_to_published(one, field.type) for one, field in zip(batch.columns, fields, strict=True)]
            return len(order), records.part(columns, order, buckets[order])

        try:
            with writable():
                for rows, stored in in_parallel(part, found(), self._workers):
                    records.store(stored)
                    advance(rows)
            yield PlacedRecords(records, self._workers)
        finally:
            records.close()


class PlacedRows:
    """Keeps the bucket of every row that is placed, in the order of the table: what records are stored in otherwise."""

    def __init__(self, file: Whereabouts) -> None:
        self._file, self._rows = file, 0

    def part(self, _columns: Sequence[pa.Array], order: Integers, buckets: Integers) -> Integers:
        """The buckets of a batch in the order of its rows."""
        in_order = np.empty(len(buckets), np.int64)
        in_order[order] = buckets
        return in_order

    def part_of_codes(self, _codes: Any, order: Integers, buckets: Integers) -> Integers:
        """The same of records that are in memory."""
        return self.part((), order, buckets)

    def store(self, buckets: Integers) -> None:
        """Put a batch behind those before it."""
        self._file.write(self._rows, buckets)
        self._rows += len(buckets)


def pieces_of(groups: Sequence[SizeGroup], rows: int, where: Whereabouts) -> Pieces:
    """Ranges of buckets of about so many rows, with the rows that they really have."""
    firsts = Pieces.of(groups, rows).first_buckets
    counts = where.histogram(firsts)
    return Pieces(firsts[counts > 0], counts[counts > 0])

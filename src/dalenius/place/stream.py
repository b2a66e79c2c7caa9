"""The second reading: every record to its bucket, batch by batch, on all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from dalenius.engines.arrow import Source
from dalenius.place.domains import changed
from dalenius.place.published_types import as_published
from dalenius.place.sensitive import SensitiveColumn
from dalenius.place.slots import Placement

_AHEAD = 3  # batches or pieces in the works at a time

Item = TypeVar("Item")
Result = TypeVar("Result")


class Records(Protocol):
    """Where placed records are kept until they are written: `PackedRecords` or `WideRecords`."""

    def part(self, columns: Sequence[pa.Array], order: Any, buckets: Any) -> Any:
        """A batch, ready to be stored."""

    def store(self, part: Any) -> None:
        """Put a batch where it belongs."""

    def pieces(self) -> Iterator[int]:
        """The numbers of the pieces, once every record is stored."""

    def piece(self, number: int) -> list[pa.Array]:
        """The columns of QIT for one piece, in the order of the release."""

    def close(self) -> None:
        """Let go of memory and scratch files."""


def place_records(
    source: Source,
    schema: pa.Schema,
    sensitive: SensitiveColumn,
    placement: Placement,
    records: Records,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
) -> None:
    """Read the table again and store every record with its bucket; an error if it is not the table of before.

    `schema` has the quasi-identifiers, with the types to be published.
    """
    placed = np.zeros(len(sensitive.counts), dtype=np.int64)

    def batches() -> Iterator[tuple[list[pa.Array], Any, Any]]:
        nonlocal placed
        for batch in source.batches([*schema.names, sensitive.name], batch_rows):
            values = sensitive.encode(as_published(batch.column(len(schema)), sensitive.listing.kind))
            starts, placed = placed, placed + np.bincount(values, minlength=len(placed))
            if (placed > sensitive.counts).any():
                raise changed()
            yield batch.columns[:-1], values, starts

    def work(batch: tuple[list[pa.Array], Any, Any]) -> tuple[int, Any]:
        columns, values, starts = batch
        columns = [as_published(column, field.type) for column, field in zip(columns, schema, strict=True)]
        order, buckets = placement.buckets(values, starts)
        return len(values), records.part(columns, order, buckets)

    for rows, part in in_parallel(work, batches(), workers):
        records.store(part)
        advance(rows)
    if (placed != sensitive.counts).any():
        raise changed()


def in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], workers: Executor, ahead: int = _AHEAD
) -> Iterator[Result]:
    """The results of `work` in the order of the items, with a few under way at any time and no more."""
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(workers.submit(work, item))
            if len(under_way) >= ahead:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()

"""Every record to its bucket, batch by batch, on all cores: in a further reading of the table, or from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dalenius.engines.arrow import Source
from dalenius.errors import SelfCheckError
from dalenius.place.cutting import Virtual
from dalenius.place.domains import changed
from dalenius.place.in_parallel import in_parallel
from dalenius.place.keeping import Kept
from dalenius.place.packed import PackedRecords
from dalenius.place.published_types import as_published
from dalenius.place.slots import Placement


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
    virtual: Virtual,
    counts: Sequence[int],
    placement: Placement,
    records: Records,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
) -> None:
    """Read the table again and store every record with its bucket; an error if it is not the table of before.

    `schema` has the quasi-identifiers, with the types to be published. `counts` are the records of each value, or of
    each value in each stratum. Workers look up strata and values, ranks are counted here in the order of the table, and
    workers place.
    """
    placed = np.zeros(virtual.number, dtype=np.int64)

    def encode(batch: pa.RecordBatch) -> tuple[list[pa.Array], Any, Any]:
        columns = [as_published(column, field.type) for column, field in zip(batch.columns, schema, strict=False)]
        values = as_published(batch.column(len(schema)), virtual.sensitive.listing.kind)
        codes = virtual.encode(values, dict(zip(schema.names, columns, strict=True)))
        return columns, codes, np.bincount(codes, minlength=virtual.number)

    def ranked() -> Iterator[tuple[list[pa.Array], Any, Any]]:
        nonlocal placed
        batches = source.batches([*schema.names, virtual.sensitive.name], batch_rows)
        for columns, codes, numbers in in_parallel(encode, batches, workers, ahead=2):
            starts, placed = placed, placed + numbers
            if (placed > counts).any():
                raise changed()
            yield columns, codes, starts

    def place(batch: tuple[list[pa.Array], Any, Any]) -> tuple[int, Any]:
        columns, codes, starts = batch
        order, buckets = placement.buckets(codes, starts)
        return len(codes), records.part(columns, order, buckets)

    for rows, part in in_parallel(place, ranked(), workers):
        records.store(part)
        advance(rows)
    if (placed != counts).any():
        raise changed()


def place_kept(
    kept: Kept,
    placement: Placement,
    counts: Sequence[int],
    records: PackedRecords,
    workers: Executor,
    advance: Callable[[int], None],
) -> None:
    """Store every record with its bucket, from a reading before."""
    placed = np.zeros(len(counts), dtype=np.int64)

    def ranked() -> Iterator[tuple[Any, Any, Any]]:
        nonlocal placed
        for numbers, codes in kept.batches:
            starts, placed = placed, placed + np.bincount(numbers, minlength=len(counts))
            yield numbers, codes, starts

    def place(batch: tuple[Any, Any, Any]) -> tuple[int, Any]:
        numbers, codes, starts = batch
        return len(numbers), records.part_of_codes(codes, *placement.buckets(numbers, starts))

    for rows, part in in_parallel(place, ranked(), workers):
        records.store(part)
        advance(rows)
    if (placed != counts).any():
        raise SelfCheckError("the records that were kept are not those that were counted")

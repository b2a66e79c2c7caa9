"""Batches of rows with long texts: read as references to a dictionary, and spelled out only as far as there is room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dalenius.release.parquet_types import is_text


def is_of_any_length(data_type: pa.DataType) -> bool:
    """Text and bytes, whose values may be of any length."""
    return is_text(data_type) or bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def short_enough(batch: pa.RecordBatch, columns: Collection[str], most: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts, each of at most so many bytes once these columns are spelled out, or of one row."""
    if batch.num_rows < 2 or not columns or _length_of_text(batch.select(list(columns)), most) <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from short_enough(batch.slice(0, half), columns, most)
    yield from short_enough(batch.slice(half), columns, most)


def _length_of_text(batch: pa.RecordBatch, enough: int) -> int:
    """Bytes of the text to which a batch refers; not exact where it is less than enough."""
    total = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary)
            most = (pc.max(lengths).as_py() or 0) * len(column)
            total += most if most <= enough // len(batch.columns) else pc.sum(lengths.take(column.indices)).as_py() or 0
    return total


def spelled_out(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch with some columns of these types, as the file has them, rather than as dictionaries."""
    if not types:
        return batch
    columns = [
        column.cast(types[name]) if name in types and column.type != types[name] else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)

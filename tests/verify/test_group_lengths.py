"""Row groups of a table in parts: of one length, whatever the parts' own lengths are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

from dalenius.release.parquet_pages import FileWriter
from dalenius.verify.strict_files import GroupLengths
from dalenius.verify.strict_parquet import StrictFile

SCHEMA = pa.schema([pa.field("bucket", pa.int64(), nullable=False)])


def part(rows: int, group: int) -> StrictFile:
    """A part of so many rows in groups of so many."""
    file = io.BytesIO()
    writer = FileWriter(file, SCHEMA, "bucket")
    buckets = np.arange(1, rows + 1)
    for first in range(0, rows, group):
        writer.write_group([pa.array(buckets[first : first + group])])
    writer.finish()
    return StrictFile(file, SCHEMA, "bucket", rows)


def _cases() -> Iterator[tuple[list[tuple[int, int]], bool]]:
    for rows in ([20, 21, 19], [15, 17, 3], [16, 16, 1], [3, 5, 4], [7, 40, 16], [40, 7], [16, 17]):
        yield [(one, 16) for one in rows], True
    yield [(20, 16), (20, 8)], False
    yield [(20, 8), (20, 16)], False
    yield [(20, 8), (15, 16)], False  # longer than a group, and not cut
    yield [(15, 16), (20, 8)], False
    yield [(7, 16), (20, 8), (8, 8), (9, 8)], True


@pytest.mark.parametrize(("parts", "are_one_length"), list(_cases()))
def test_groups_of_all_parts_are_of_one_length(parts: list[tuple[int, int]], are_one_length: bool) -> None:
    lengths = GroupLengths()
    with nullcontext() if are_one_length else pytest.raises(ValueError, match="as long as"):
        for rows, group in parts:
            lengths.check(part(rows, group))

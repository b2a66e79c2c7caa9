"""Packed and wide records, in memory and on disk: what goes in comes out sorted, and a changed table is noticed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dalenius.errors import ChangedInputError
from dalenius.model.problem import BucketSetting
from dalenius.place.domains import Domain, Listing, Range
from dalenius.place.packed import Layout, PackedRecords, Pieces
from dalenius.place.stream import Records
from dalenius.place.wide import WideRecords

SETTING = BucketSetting.of([(2, 30), (5, 8)])
DOMAINS: dict[str, Domain] = {
    "age": Range(pa.int16(), -3, 40, True),
    "name": Listing(pa.string(), pa.array(["a", "b", "é"]), False),
}
Make = Callable[[Path], Records]


def packed_in_memory(_: Path) -> Records:
    return PackedRecords(Layout(DOMAINS, SETTING.buckets), Pieces.of(SETTING.groups, 17), None)


def packed_on_disk(folder: Path) -> Records:
    return PackedRecords(Layout(DOMAINS, SETTING.buckets), Pieces.of(SETTING.groups, 17), folder)


def wide(folder: Path) -> Records:
    schema = pa.schema([("age", pa.int16()), ("name", pa.string()), ("bucket", pa.int64())])
    return WideRecords(schema, DOMAINS, Pieces.of(SETTING.groups, 17), folder)


def rows() -> tuple[list[int | None], list[str], np.ndarray]:
    rng = np.random.default_rng(1)
    ages = [None if a == 40 else int(a) for a in rng.integers(-3, 41, SETTING.records)]
    names = [["a", "b", "é"][k] for k in rng.integers(0, 3, SETTING.records)]
    buckets = rng.permutation(np.repeat(np.arange(1, 39), [2] * 30 + [5] * 8))
    return ages, names, buckets


@pytest.mark.parametrize("make", [packed_in_memory, packed_on_disk, wide])
def test_records_come_back_in_the_order_of_the_release(make: Make, tmp_path: Path) -> None:
    ages, names, buckets = rows()
    records = make(tmp_path)
    for batch in np.array_split(np.arange(SETTING.records), 7):
        order = np.random.default_rng(len(batch)).permutation(len(batch))
        columns = [pa.array([ages[k] for k in batch], pa.int16()), pa.array([names[k] for k in batch])]
        records.store(records.part(columns, order, buckets[batch[order]]))
    found = []
    for number in records.pieces():
        columns = records.piece(number)
        found += list(zip(*(column.to_pylist() for column in columns), strict=True))
    records.close()
    in_order = sorted(
        zip(ages, names, buckets.tolist(), strict=True), key=lambda r: (r[2], r[0] is None, r[0] or 0, r[1])
    )
    assert found == in_order
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [packed_in_memory, packed_on_disk, wide])
def test_too_many_or_too_few_records_are_noticed(make: Make, tmp_path: Path) -> None:
    records = make(tmp_path)
    columns = [pa.array([1] * 3, pa.int16()), pa.array(["a"] * 3)]
    part = records.part(columns, np.arange(3), np.asarray([1, 1, 1]))
    for _ in range(5):
        records.store(part)
    with pytest.raises(ChangedInputError):
        records.store(part)
    records.close()
    records = make(tmp_path)
    records.store(records.part(columns, np.arange(3), np.asarray([1, 1, 2])))
    with pytest.raises(ChangedInputError):
        list(records.pieces())
    records.close()


def test_a_layout_knows_what_fits() -> None:
    half = Range(pa.int64(), 0, 2**31 - 1, False)
    assert Layout({"a": half}, 2**32).fits
    assert Layout({"a": half, "b": half}, 3).fits
    assert not Layout({"a": half, "b": half}, 4).fits
    assert not Layout({"a": Range(pa.int64(), -(2**63), 2**63 - 1, True)}, 1).fits


def test_wide_pieces_may_be_read_by_many_threads_at_once(tmp_path: Path) -> None:
    setting = BucketSetting.of([(4, 5000)])
    pieces = Pieces.of(setting.groups, 500)
    schema = pa.schema([("text", pa.string()), ("bucket", pa.int64())])
    records = WideRecords(schema, {}, pieces, tmp_path)
    texts = np.asarray([f"{k:06d}" * 5 for k in range(setting.records)])
    buckets = np.random.default_rng(2).permutation(np.repeat(np.arange(1, 5001), 4))
    for batch in np.array_split(np.arange(setting.records), 40):
        records.store(records.part([pa.array(texts[batch])], np.arange(len(batch)), buckets[batch]))
    with ThreadPoolExecutor(8) as workers:
        found = [text for columns in workers.map(records.piece, records.pieces()) for text in columns[0].to_pylist()]
    records.close()
    assert sorted(found) == texts.tolist()


def test_equal_wide_rows_are_not_in_the_order_of_their_values(tmp_path: Path) -> None:
    """What `part` is given is ordered by value; if rows tie, nothing of that order may be left."""
    setting = BucketSetting.of([(1000, 1)])
    records = WideRecords(
        pa.schema([("f", pa.float64()), ("bucket", pa.int64())]), {}, Pieces.of(setting.groups, 1000), tmp_path
    )
    bits = np.arange(1000, dtype=np.uint64) | np.uint64(0x7FF8 << 48)
    by_value = np.random.default_rng(3).permutation(1000)
    records.store(records.part([pa.array(bits.view(np.float64))], by_value, np.ones(1000, dtype=np.int64)))
    (column, _) = records.piece(next(records.pieces()))
    records.close()
    assert len(column.view(pa.int64()).unique()) == 1

"""Blocks put together again, and columns as codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from dalenius.infer.candidates import blocks, encoded


def test_blocks_hold_every_bucket_once() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, 200)
    bucket_of = np.repeat(np.arange(200), sizes)
    values = rng.integers(0, 7, len(bucket_of))
    held: dict[int, dict[int, int]] = {}
    for bucket, value in zip(bucket_of.tolist(), values.tolist(), strict=True):
        held.setdefault(bucket, {})[value] = held.get(bucket, {}).get(value, 0) + 1
    cells = np.array([(b, v, c) for b, counts in sorted(held.items()) for v, c in sorted(counts.items())])
    seen: dict[int, dict[int, int]] = {}
    rows: list[int] = []
    for block in blocks(bucket_of, cells[:, 0], cells[:, 1], cells[:, 2], 0):
        for place, bucket in enumerate(block.buckets.tolist()):
            seen[bucket] = dict(zip(block.values[place].tolist(), block.counts[place].tolist(), strict=True))
            rows += block.rows[place].tolist()
            assert set(bucket_of[block.rows[place]]) == {bucket}
    assert seen == held
    assert sorted(rows) == list(range(len(bucket_of)))


def codes(cells: Sequence[object], kind: pa.DataType | None = None, values: int = 5) -> np.ndarray | None:
    column = encoded("c", pa.chunked_array([pa.array(list(cells), kind)]), len(cells), values)
    return None if column is None else column.codes


def test_equal_cells_have_equal_codes_and_nulls_their_own() -> None:
    found = codes(["a", None, "b", "a", None])
    assert found is not None
    assert found[0] == found[3]
    assert found[1] == found[4]
    assert len(set(found.tolist())) == 3


def test_many_numbers_are_cut_into_ranges_in_their_order() -> None:
    numbers = np.random.default_rng(0).permutation(1000)
    found = codes([*numbers.tolist(), None], pa.float64())
    assert found is not None
    by_number = found[:-1][np.argsort(numbers)]
    assert (np.diff(by_number) >= 0).all()
    assert np.bincount(by_number).tolist() == [20] * 50
    assert found[-1] not in by_number


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(15, 2), pa.date32(), pa.time32("s"), pa.float32(), pa.uint8(), pa.bool_(), pa.decimal64(15, 2)],
)
def test_types(kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array([0, 1, None, 1], pa.int32()).cast(kind)])
    found = encoded("c", column, 4, 5)
    assert found is not None
    assert found.codes[1] == found.codes[3]
    assert len(set(found.codes.tolist())) == 3


def test_categories_of_batches_with_other_dictionaries() -> None:
    chunks = [pa.array(cells).dictionary_encode() for cells in (["x", "y"], ["y", "z", None])]
    found = encoded("c", pa.chunked_array(chunks), 5, 5)
    assert found is not None
    assert found.codes[1] == found.codes[2]
    assert len(set(found.codes.tolist())) == 4


def test_texts_that_are_nearly_keys_are_left_out_and_rare_ones_put_together() -> None:
    assert codes([f"person {i}" for i in range(100)]) is None
    many = [f"town {i % 90}" for i in range(1000)]
    assert len(set(np.asarray(codes(many)).tolist())) == 90
    assert len(set(np.asarray(codes(many, values=2**17)).tolist())) == 8

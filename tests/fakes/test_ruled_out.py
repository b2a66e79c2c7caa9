"""What is ruled out in a bucket: by any of its records, however the rows come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dalenius.fakes.exchange import RuledOut, ruled_out_values
from dalenius.infer.cells import Cells
from dalenius.infer.negative import NegativePairs

VALUES = 150  # more than two words


def pairs_of(masks: dict[str, np.ndarray]) -> NegativePairs:
    """Columns of whole numbers, each of which is its own cell; line k of a mask says what k rules out."""
    found = []
    for column, mask in masks.items():
        names = tuple(str(k) for k in range(len(mask)))
        padded = np.vstack([mask, np.zeros((1, mask.shape[1]), dtype=bool)])
        found.append((Cells(column, names, lambda cells: np.asarray(cells, dtype=np.int64)), padded))
    return NegativePairs(VALUES, found)


@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
def test_any_record_rules_out(seed: int, at_once: int, ordered: bool) -> None:
    random = np.random.default_rng(seed)
    masks = {name: random.random((4, VALUES)) < 0.1 for name in ("A", "B")}
    rows, buckets = 30, 7
    cells = {name: random.integers(-1, 4, rows) for name in masks}  # -1: in no cell
    numbers = random.integers(1, buckets + 1, rows)
    numbers = np.sort(numbers) if ordered else numbers
    whole = pa.record_batch({**{name: pa.array(codes) for name, codes in cells.items()}, "bucket": pa.array(numbers)})
    batches = [whole.slice(start, at_once) for start in range(0, rows, at_once)]
    pairs = pairs_of(masks)
    found = ruled_out_values([whole.slice(0, 0), *batches], pairs, bucket="bucket", buckets=buckets)
    expected = np.zeros((buckets, VALUES), dtype=bool)
    for row in range(rows):
        for name, mask in masks.items():
            if cells[name][row] >= 0:
                expected[numbers[row] - 1] |= mask[cells[name][row]]
    asked = found.of(np.arange(1, buckets + 1)[:, None], np.arange(VALUES))
    assert np.array_equal(asked, expected)
    assert np.array_equal(
        np.array([pairs.ruled_out(whole)[numbers == k].any(axis=0) for k in range(1, buckets + 1)]), expected
    )


def test_without_pairs_nothing_is_read() -> None:
    batches = iter([pa.record_batch({"other": pa.array([1])})])
    found = ruled_out_values(batches, NegativePairs(3), bucket="bucket", buckets=2)
    assert not found.of([1, 2], [0, 2]).any()
    assert len(list(batches)) == 1


def test_one_bit_a_value_that_is_concerned() -> None:
    found = RuledOut(5, np.array([1, 4]), np.array([[0b01], [0b10]], dtype=np.uint64))
    assert found.of([[1], [2]], np.arange(5)).tolist() == [
        [False, True, False, False, False],
        [False, False, False, False, True],
    ]
    assert found.of(2, 4).tolist() is True

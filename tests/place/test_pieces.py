from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dalenius.model.problem import BucketSetting
from dalenius.place.packed import Pieces


@given(
    groups=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=4),
    rows=st.integers(1, 500),
)
def test_pieces_are_whole_buckets_and_hold_every_record(groups: list[tuple[int, int]], rows: int) -> None:
    setting = BucketSetting.of(groups)
    pieces = Pieces.of(setting.groups, rows)
    of_bucket = np.repeat([g.size for g in setting.groups], [g.buckets for g in setting.groups])
    bounds = [*pieces.first_buckets.tolist(), setting.buckets + 1]
    assert bounds[0] == 1
    assert bounds == sorted(set(bounds))
    held = [int(of_bucket[a - 1 : b - 1].sum()) for a, b in pairwise(bounds)]
    assert held == pieces.rows.tolist()
    assert max(held) < rows + int(of_bucket.max())


def test_cutting_a_batch() -> None:
    pieces = Pieces.of(BucketSetting.of([(2, 6)]).groups, 4)
    assert pieces.first_buckets.tolist() == [1, 3, 5]
    assert pieces.cut(np.asarray([1, 1, 2, 5, 6, 6])).tolist() == [0, 3, 3, 6]

"""Classes of buckets: a pass in pieces finds what a dictionary finds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.infer import compositions as module
from dalenius.infer.compositions import UnsupportedError, compositions

buckets_of_values = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=12)


@given(buckets_of_values, st.integers(1, 7), st.integers(1, 5))
def test_classes_are_those_of_a_dictionary(buckets: list[list[int]], rows: int, gap: int) -> None:
    numbers = np.repeat(np.arange(len(buckets)) * gap + 1, [len(bucket) for bucket in buckets])
    codes = np.concatenate([np.array(bucket) for bucket in buckets])
    found = compositions((numbers[i : i + rows], codes[i : i + rows]) for i in range(0, len(codes), rows))
    contents = [tuple(sorted(bucket)) for bucket in buckets]
    first_seen = list(dict.fromkeys(contents))
    expected = np.zeros((len(first_seen), max(codes) + 1))
    for content, number in Counter(contents).items():
        for code in content:
            expected[first_seen.index(content), code] += number
    assert np.array_equal(found.slots, expected)
    assert found.buckets.tolist() == [Counter(contents)[content] for content in first_seen]
    assert found.of(np.arange(len(buckets)) * gap + 1).tolist() == [first_seen.index(content) for content in contents]
    assert (np.diff(found.classes) != 0).all()


def test_what_cannot_be_learned_from_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(3, dtype=np.int64)
    with pytest.raises(UnsupportedError, match="order"):
        compositions([(np.array([1, 2, 1]), ones)])
    with pytest.raises(UnsupportedError, match="order"):
        compositions([(ones * 2, ones), (ones, ones)])
    with pytest.raises(UnsupportedError, match="name"):
        compositions([(ones, ones - 2)])
    with pytest.raises(UnsupportedError, match="sensitive values"):
        compositions([(ones, ones * 2_000)])
    with pytest.raises(UnsupportedError, match="different compositions"):
        compositions([(np.arange(1, 2_002), np.arange(2_001) % 2_000), (np.full(2, 2_002), np.array([0, 1]))] * 1)
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    with pytest.raises(UnsupportedError, match="successors"):
        compositions([(np.arange(1, 6), np.arange(5) % 2)])

"""Classes of buckets: a pass in pieces finds what a dictionary finds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.infer import compositions as module
from dalenius.infer.compositions import UnsupportedError, find_compositions, first_buckets
from dalenius.release.manifest import Leaf, SizeGroupPart, Strata, Stratum

buckets_of_values = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=12)


@given(buckets_of_values, st.integers(1, 7), st.integers(1, 5))
def test_classes_are_those_of_a_dictionary(buckets: list[list[int]], rows: int, gap: int) -> None:
    numbers = np.repeat(np.arange(len(buckets)) * gap + 1, [len(bucket) for bucket in buckets])
    codes = np.concatenate([np.array(bucket) for bucket in buckets])
    found = find_compositions((numbers[i : i + rows], codes[i : i + rows]) for i in range(0, len(codes), rows))
    contents = [tuple(sorted(bucket)) for bucket in buckets]
    first_seen = list(dict.fromkeys(contents))
    expected = np.zeros((len(first_seen), max(codes) + 1))
    for content, number in Counter(contents).items():
        for code in content:
            expected[first_seen.index(content), code] += number
    (block,) = found.blocks
    assert block.values.tolist() == np.unique(codes).tolist()
    assert np.array_equal(block.slots, expected[:, block.values])
    assert found.number == len(first_seen)
    assert found.values == max(codes) + 1
    assert np.array_equal(found.rows, expected.sum(axis=1))
    assert found.buckets.tolist() == [Counter(contents)[content] for content in first_seen]
    assert found.of(np.arange(len(buckets)) * gap + 1).tolist() == [first_seen.index(content) for content in contents]
    assert (np.diff(found.classes) != 0).all()


@given(buckets_of_values, st.integers(1, 7), st.data())
def test_strata_have_classes_of_their_own(buckets: list[list[int]], rows: int, data: st.DataObject) -> None:
    """The same as each stratum by itself, whatever the batches."""
    cuts = sorted(data.draw(st.sets(st.integers(2, 13), max_size=4)))  # some may be behind the last bucket
    numbers = np.repeat(np.arange(len(buckets)) + 1, [len(bucket) for bucket in buckets])
    codes = np.concatenate([np.array(bucket) for bucket in buckets])
    found = find_compositions(((numbers[i : i + rows], codes[i : i + rows]) for i in range(0, len(codes), rows)), cuts)
    strata = np.searchsorted(cuts, numbers, side="right")
    alone = [find_compositions([(numbers[strata == k], codes[strata == k])]) for k in np.unique(strata)]
    assert len(found.blocks) == len(alone)
    begun, kinds = 0, []
    for block, one, k in zip(found.blocks, alone, np.unique(strata), strict=True):
        assert np.array_equal(block.slots, one.blocks[0].slots)
        assert np.array_equal(block.values, one.blocks[0].values)
        assert np.array_equal(block.buckets, one.blocks[0].buckets)
        kinds += (one.of(np.unique(numbers[strata == k])) + begun).tolist()
        begun += one.number
    assert found.of(np.arange(len(buckets)) + 1).tolist() == kinds


def test_where_strata_begin() -> None:
    parts = [
        Stratum(
            rows=9,
            setting=[SizeGroupPart(size=1, buckets=b), SizeGroupPart(size=2, buckets=1)],
            rows_each=1,
            applies=True,
            since=1,
        )
        for b in (2, 4, 1)
    ]
    strata = Strata(tree=[Leaf(stratum=1)], margin="1", strata=parts)
    assert first_buckets(strata).tolist() == [4, 9]
    assert first_buckets(None).tolist() == []


def test_what_cannot_be_learned_from_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(3, dtype=np.int64)
    with pytest.raises(UnsupportedError, match="order"):
        find_compositions([(np.array([1, 2, 1]), ones)])
    with pytest.raises(UnsupportedError, match="order"):
        find_compositions([(ones * 2, ones), (ones, ones)])
    with pytest.raises(UnsupportedError, match="name"):
        find_compositions([(ones, ones - 2)])
    with pytest.raises(UnsupportedError, match="sensitive values"):
        find_compositions([(ones, ones * 2_000)])
    with pytest.raises(UnsupportedError, match="different compositions"):
        find_compositions([(np.arange(1, 2_002), np.arange(2_001) % 2_000), (np.full(2, 2_002), np.array([0, 1]))] * 1)
    with pytest.raises(UnsupportedError, match="of a stratum have"):
        find_compositions(
            [(np.arange(1, 2_002), np.arange(2_001) % 2_000), (np.full(2, 2_002), np.array([0, 1]))], [9_000]
        )
    find_compositions([(np.arange(1, 2_002), np.arange(2_001) % 2_000), (np.full(2, 2_002), np.array([0, 1]))], [2_000])
    monkeypatch.setattr(module, "MOST_CELLS", 8)
    find_compositions([(np.arange(1, 5), np.arange(4) % 2)], [3])  # two strata of four numbers
    with pytest.raises(UnsupportedError, match="numbers"):
        find_compositions([(np.arange(1, 5), np.arange(4))], [4])
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    with pytest.raises(UnsupportedError, match="successors"):
        find_compositions([(np.arange(1, 6), np.arange(5) % 2)])

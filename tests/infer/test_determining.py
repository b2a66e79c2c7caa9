"""How far columns give the sensitive value away, against brute force, and that chance alone never does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.infer.determining import (
    Pairs,
    by_group,
    count_each,
    determination,
    numbered,
    together,
    value_leaks,
    wilson_low,
)

LOOK = 0.4  # a strength that is told


def guessed_right(groups: list[int], values: list[int]) -> tuple[float, float, float]:
    """Right, without and covered, as a person would count them."""
    right, with_others = 0.0, []
    for me, (group, value) in enumerate(zip(groups, values, strict=True)):
        others = Counter(v for i, (g, v) in enumerate(zip(groups, values, strict=True)) if g == group and i != me)
        if not others:
            continue
        with_others.append(value)
        most = max(others.values())
        if others[value] == most:
            right += 1.0 if list(others.values()).count(most) == 1 else 0.5
    if not with_others:
        return 0.0, 0.0, 0.0
    without = max(Counter(with_others).values()) / len(with_others)
    return right / len(with_others), without, len(with_others) / len(values)


records = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=40)


@given(records)
def test_guesses_are_those_of_a_person_who_counts_the_others(pairs: list[tuple[int, int]]) -> None:
    groups, values = [list(one) for one in zip(*pairs, strict=True)]
    found = by_group(Pairs.of(np.asarray(groups), np.asarray(values)))
    assert (found.right, found.without, found.covered) == pytest.approx(guessed_right(groups, values))
    assert 0 <= found.strength <= 1


@given(records)
def test_value_leaks_are_those_of_a_person_who_counts(pairs: list[tuple[int, int]]) -> None:
    groups, values = [np.repeat(one, 20) for one in zip(*pairs, strict=True)]
    found = value_leaks(Pairs.of(groups.astype(np.int64), values))
    of_group, of_value, of_both = (
        Counter(groups.tolist()),
        Counter(values.tolist()),
        Counter(zip(groups.tolist(), values.tolist(), strict=True)),
    )
    given_away = {
        value
        for (group, value), count in of_both.items()
        if of_value[value] <= len(values) / 2
        and count >= 0.8 * of_group[group]
        and wilson_low(count / of_group[group], of_group[group]) >= 0.8
    }
    assert set(found.given_away.tolist()) == given_away
    ruled_out = set()
    for value in of_value:
        expected = {group: of_value[value] * of_group[group] / len(values) for group in of_group}
        without = [g for g, number in expected.items() if number >= 16 and of_both[g, value] <= 0.05 * number]
        if sum(of_group[group] for group in without) >= len(values) / 3:
            ruled_out.add(value)
    assert set(found.ruled_out.tolist()) == ruled_out


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 9), min_size=1, max_size=30))
def test_numbers_are_numbered_and_counted(codes: list[int]) -> None:
    order = sorted(set(codes))
    assert numbered(np.asarray(codes, dtype=np.uint64)).tolist() == [order.index(code) for code in codes]
    there, counts = count_each(np.asarray(codes, dtype=np.uint64))
    assert dict(zip(there.tolist(), counts.tolist(), strict=True)) == Counter(codes)


@given(st.lists(st.tuples(*[st.integers(0, 2**20)] * 5), min_size=1, max_size=20))
def test_columns_together_have_a_number_for_each_combination(rows: list[tuple[int, ...]]) -> None:
    columns = [np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    order = sorted(set(rows))
    assert together(columns).tolist() == [order.index(row) for row in rows]


@given(
    st.integers(0, 2**32),
    st.integers(20, 3000),
    st.sampled_from([2, 5, 40, 1000, 10**6]),
    st.sampled_from([(0.5, 0.5), (0.9, 0.1), (0.99, 0.01), (0.3, 0.3, 0.2, 0.2), (0.02,) * 50]),
)
def test_columns_that_have_nothing_to_do_with_the_value_are_never_blamed(
    seed: int, rows: int, different: int, shares: tuple[float, ...]
) -> None:
    """Whatever their cardinality: up to a value of its own for everybody."""
    rng = np.random.default_rng(seed)
    values = rng.choice(len(shares), rows, p=np.asarray(shares) / sum(shares))
    columns = [numbered(rng.integers(0, different, rows)) for _ in range(3)]
    for codes in (*columns, together(columns), rng.permutation(rows)):
        assert determination(codes, values).strength < LOOK
        leaks = value_leaks(Pairs.of(codes, values))
        assert not len(leaks.given_away)
        assert not len(leaks.ruled_out)


@pytest.mark.parametrize("different", [8, 700, 10**7])
def test_a_recoding_is_found_however_fine_it_is(different: int) -> None:
    """Also an exact amount of which nobody else has the same: those next to it say the bracket."""
    codes = np.random.default_rng(1).integers(0, different, 20_000)
    found = determination(numbered(codes), codes * 8 // different)
    assert found.strength > 0.9
    assert found.without == pytest.approx(1 / 8, abs=0.02)


def test_strength_falls_with_noise() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, 4, 20_000)
    strengths = []
    for wrong in (0, 0.1, 0.3, 0.6, 1):
        codes = np.where(rng.random(len(values)) < wrong, rng.integers(0, 4, len(values)), values)
        strengths.append(determination(codes, values).strength)
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] > 0.99
    assert strengths[-1] < 0.02


def test_few_records_prove_little() -> None:
    values = np.arange(12) % 2
    assert determination(values, values).strength < LOOK
    many = np.arange(1200) % 2
    assert determination(many, many).strength > 0.95

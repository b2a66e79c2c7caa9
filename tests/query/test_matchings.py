"""Estimates, variances and bounds against the enumeration of every way to give a bucket's values to its rows."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.estimate import Estimate
from dalenius.query.count import Counter
from dalenius.query.pairs import Matcher, Totals, TypeCounts, TypedBuckets, covers, types_of
from tests.effort import examples
from tests.query.releases import write_release

Accepts = Callable[[str, str], bool]


def enumerated(rows: Sequence[str], values: Sequence[str], accepts: Accepts) -> Tally[int]:
    """How many matchings give which count. There may be more values than rows: the others are fake."""
    padded = [*rows, *[None] * (len(values) - len(rows))]
    counts = (
        sum(row is not None and accepts(row, value) for row, value in zip(padded, order, strict=True))
        for order in permutations(values)
    )
    return Tally(counts)


def moments(tally: Tally[int]) -> tuple[Fraction, Fraction, int, int]:
    total = sum(tally.values())
    mean = Fraction(sum(count * times for count, times in tally.items()), total)
    square = Fraction(sum(count * count * times for count, times in tally.items()), total)
    return mean, square - mean * mean, min(tally), max(tally)


def by_brute_force(buckets: Sequence[tuple[str, str]], accepts: Accepts) -> tuple[Fraction, Fraction, int, int]:
    parts = [moments(enumerated(rows, values, accepts)) for rows, values in buckets]
    mean, variance, low, high = (sum(column) for column in zip(*parts, strict=True))
    return Fraction(mean), Fraction(variance), int(low), int(high)


def assert_same(found: Estimate, expected: tuple[Fraction, Fraction, int, int]) -> None:
    mean, variance, low, high = expected
    assert found.bounds == (low, high)
    assert found.estimate == pytest.approx(float(mean), rel=1e-12, abs=1e-12)
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9, abs=1e-9)
    assert found.exact == (low == high)
    assert low <= found.interval[0] <= found.estimate <= found.interval[1] <= high


def table_of(buckets: Sequence[tuple[str, str]]) -> tuple[pa.Table, list[int]]:
    rows = "".join(rows for rows, _ in buckets)
    values = "".join(values[: len(rows)] for rows, values in buckets)
    numbers = [i for i, (rows, _) in enumerate(buckets, 1) for _ in rows]
    return pa.table({"A": list(rows), "X": list(values)}), numbers


@st.composite
def bucket_lists(draw: st.DrawFn, fakes: int = 0) -> list[tuple[str, str]]:
    def bucket() -> tuple[str, str]:
        size = draw(st.integers(1, 5))
        rows = draw(st.text("abcd", min_size=size, max_size=size))
        return rows, draw(st.text("wxyz", min_size=size + fakes, max_size=size + fakes))

    return [bucket() for _ in range(draw(st.integers(1, 4)))]


pairs = st.sets(st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz")), min_size=1)


@settings(max_examples=examples(30))
@given(bucket_lists(), pairs)
def test_any_condition_on_both(
    tmp_path_factory: pytest.TempPathFactory, buckets: list[tuple[str, str]], accepted: set[tuple[str, str]]
) -> None:
    table, numbers = table_of(buckets)
    folder = write_release(tmp_path_factory.mktemp("release"), table, "X", numbers)
    query = " OR ".join(f"(A = '{row}' AND X = '{value}')" for row, value in sorted(accepted))
    with Counter(folder) as counter:
        found = counter.count(query)
        negated = counter.count(f"NOT ({query})")
    assert_same(found, by_brute_force(buckets, lambda row, value: (row, value) in accepted))
    assert_same(negated, by_brute_force(buckets, lambda row, value: (row, value) not in accepted))
    assert found.tight


@settings(max_examples=examples(30))
@given(bucket_lists(), st.sets(st.sampled_from("abcd"), min_size=1), st.sets(st.sampled_from("wxyz"), min_size=1))
def test_a_condition_that_factors_and_the_same_as_one_that_does_not(
    tmp_path_factory: pytest.TempPathFactory, buckets: list[tuple[str, str]], some_rows: set[str], some_values: set[str]
) -> None:
    table, numbers = table_of(buckets)
    folder = write_release(tmp_path_factory.mktemp("release"), table, "X", numbers)
    on_rows = f"A IN ({', '.join(map(repr, sorted(some_rows)))})"
    on_values = f"X IN ({', '.join(map(repr, sorted(some_values)))})"
    expected = by_brute_force(buckets, lambda row, value: row in some_rows and value in some_values)
    either = by_brute_force(buckets, lambda row, value: row in some_rows or value in some_values)
    with Counter(folder) as counter:
        assert_same(counter.count(f"{on_rows} AND {on_values}"), expected)
        assert_same(counter.count(f"CASE WHEN {on_rows} THEN {on_values} ELSE FALSE END"), expected)
        assert_same(counter.count(f"{on_rows} OR {on_values}"), either)
        assert counter.count(on_rows).exact
        assert counter.count(on_values).exact


@settings(max_examples=examples(20))
@given(bucket_lists(fakes=1), pairs)
def test_fake_values_are_values_that_no_row_may_own(
    tmp_path_factory: pytest.TempPathFactory, buckets: list[tuple[str, str]], accepted: set[tuple[str, str]]
) -> None:
    table, numbers = table_of(buckets)
    fakes = [(number, values[-1]) for number, (_, values) in enumerate(buckets, 1)]
    folder = write_release(tmp_path_factory.mktemp("release"), table, "X", numbers, fakes=fakes)
    query = " OR ".join(f"(A = '{row}' AND X = '{value}')" for row, value in sorted(accepted))
    with Counter(folder) as counter:
        assert_same(counter.count(query), by_brute_force(buckets, lambda row, value: (row, value) in accepted))
        assert_same(counter.count("A = 'a' AND X = 'x'"), by_brute_force(buckets, lambda r, v: r == "a" and v == "x"))
        assert_same(counter.count("X = 'x'"), by_brute_force(buckets, lambda _, v: v == "x"))
        assert counter.count("A = 'a'").exact


matrices = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=4)
)


def totals_of(matrix: np.ndarray, rows: Sequence[int], values: Sequence[int], most_covers: int) -> tuple[Totals, bool]:
    """One bucket, rows and values given by their lines and columns in the matrix."""
    types = types_of(matrix)
    matcher = Matcher(types.accepts, most_covers)

    def counts(kinds: Sequence[int]) -> TypeCounts:
        tally = sorted(Tally(kind for kind in kinds if kind >= 0).items())
        kind, count = (np.array([entry[i] for entry in tally], dtype=np.int64) for i in (0, 1))
        return TypeCounts(np.zeros(len(tally), dtype=np.int64), kind, count)

    row_types, value_types = ([int(t[i]) for i in which] for t, which in ((types.rows, rows), (types.values, values)))
    if types.accepts.size:
        matcher.add(TypedBuckets(np.array([len(rows)]), counts(row_types), counts(value_types)))
    return matcher.totals, matcher.tight


@settings(max_examples=examples(300))
@given(st.data(), matrices)
def test_all_covers_give_the_attained_bounds_and_some_give_wider_ones(
    data: st.DataObject, lines: list[list[bool]]
) -> None:
    matrix = np.array(lines, dtype=np.bool_)
    size = data.draw(st.integers(1, 6))
    rows = data.draw(st.lists(st.integers(0, matrix.shape[0] - 1), min_size=size, max_size=size))
    values = data.draw(st.lists(st.integers(0, matrix.shape[1] - 1), min_size=size, max_size=size))
    tally = Tally(
        sum(bool(matrix[row, value]) for row, value in zip(rows, order, strict=True)) for order in permutations(values)
    )
    mean, variance, low, high = moments(tally)
    totals, tight = totals_of(matrix, rows, values, 1024)
    assert tight
    assert (totals.low, totals.high) == (low, high)
    assert sum(Fraction(total, s) for s, total in totals.means.items()) == mean
    assert sum(Fraction(total, s * s * (s - 1)) for s, total in totals.spreads.items() if s > 1) == variance
    few, _ = totals_of(matrix, rows, values, 2)
    assert few.low <= low <= high <= few.high


def test_too_many_patterns_are_said() -> None:
    matrix = ~np.eye(12, dtype=np.bool_)
    assert not covers(matrix, 4).complete
    assert covers(matrix, 2**12).complete
    chain = np.tri(200, dtype=np.bool_)  # nested sets have as many unions as sets
    assert covers(chain).complete


def test_large_buckets_do_not_overflow(tmp_path: Path) -> None:
    rows = 60_000
    table = pa.table({"A": ["a", "b"] * (rows // 2), "X": ["x", "y", "z"] * (rows // 3)})
    folder = write_release(tmp_path, table, "X", [1] * rows, row_group_size=rows)
    with Counter(folder) as counter:
        separable = counter.count("A = 'a' AND X = 'x'")
        mixed = counter.count("CASE WHEN A = 'a' THEN X = 'x' ELSE FALSE END")
    a, c = rows // 2, rows // 3
    variance = Fraction(a * c * (rows - a) * (rows - c), rows * rows * (rows - 1))
    assert separable == mixed
    assert mixed.estimate == a * c / rows
    assert mixed.standard_error == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert mixed.bounds == (0, c)

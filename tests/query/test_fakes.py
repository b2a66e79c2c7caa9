"""Counting where some values are fake: against every world that a bucket may come from, and over many releases."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import InputError, UsageError
from dalenius.infer.association import Association, Filling
from dalenius.infer.compositions import find_compositions
from dalenius.query.bitsets import Answerer, CodedRelease, CodedTable
from dalenius.query.count import Counter
from dalenius.query.workload import answer, encode, evaluate, generate, summarise
from dalenius.release.folder import open_release
from tests.effort import examples
from tests.query.releases import random_buckets, write_release
from tests.query.test_matchings import assert_same, moments

Accepts = Callable[[str, str], bool]
Bucket = tuple[str, str]  # a letter a row, and a letter a value: so many values more as are fake
Integers = npt.NDArray[np.int64]


def worlds(rows: str, values: str, accepts: Accepts) -> Tally[int]:
    """The counts of all worlds: first which values are fake, then which row has which of the others."""
    places = range(len(values))
    return Tally(
        sum(accepts(row, value) for row, value in zip(rows, order, strict=True))
        for fakes in combinations(places, len(values) - len(rows))
        for order in permutations([values[place] for place in places if place not in fakes])
    )


def of_all_worlds(buckets: Sequence[Bucket], accepts: Accepts) -> tuple[Fraction, Fraction, int, int]:
    parts = [moments(worlds(rows, values, accepts)) for rows, values in buckets]
    mean, variance, low, high = (sum(column) for column in zip(*parts, strict=True))
    return Fraction(mean), Fraction(variance), int(low), int(high)


@pytest.mark.parametrize(("size", "fakes"), [(1, 1), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1), (4, 2)])
def test_the_formulas_are_those_of_all_worlds(size: int, fakes: int) -> None:
    """Mean, variance and bounds of a matching rows and c matching values, exactly."""
    slots = size + fakes
    for a in range(size + 1):
        for c in range(slots + 1):
            rows, values = "a" * a + "b" * (size - a), "x" * c + "y" * (slots - c)
            mean, variance, low, high = moments(worlds(rows, values, lambda row, value: row + value == "ax"))
            assert mean == Fraction(a * c, slots)
            assert variance == Fraction(a * c * (slots - a) * (slots - c), slots**2 * (slots - 1))
            assert (low, high) == (max(0, a + c - slots), min(a, c))


@st.composite
def bucket_lists(draw: st.DrawFn) -> list[Bucket]:
    fakes = draw(st.integers(1, 3))

    def bucket() -> Bucket:
        size = draw(st.integers(1, 6 - fakes))
        rows = draw(st.text("abc", min_size=size, max_size=size))
        return rows, draw(st.text("xyz", min_size=size + fakes, max_size=size + fakes))

    return [bucket() for _ in range(draw(st.integers(1, 3)))]


CONDITIONS: dict[str, Accepts] = {
    "A = 'a' AND X = 'x'": lambda row, value: row == "a" and value == "x",
    "A <> 'b' AND X IN ('x', 'z')": lambda row, value: row != "b" and value in "xz",
    "X = 'x'": lambda row, value: value == "x",
    "X <> 'x'": lambda row, value: value != "x",
    "A = 'a'": lambda row, value: row == "a",
    "TRUE": lambda row, value: True,
    "A = 'a' OR X = 'x'": lambda row, value: row == "a" or value == "x",
    "NOT (A = 'a' AND X = 'x')": lambda row, value: not (row == "a" and value == "x"),
    "A = 'a' AND X = 'x' OR A = 'b' AND X <> 'z'": lambda row, value: (
        (row, value) == ("a", "x") or (row == "b" and value != "z")
    ),
    "ascii(A) - ascii('a') = ascii(X) - ascii('x')": lambda row, value: "abc".index(row) == "xyz".index(value),
    "A <> 'c' AND ((A = 'a') = (X = 'x'))": lambda row, value: row != "c" and (row == "a") == (value == "x"),
}


def within(accepts: Accepts, group: dict[str, str]) -> Accepts:
    """The condition, and that row and value are of the group."""

    def accepted(row: str, value: str) -> bool:
        return group.get("A", row) == row and group.get("X", value) == value and accepts(row, value)

    return accepted


@settings(max_examples=examples(25))
@given(bucket_lists(), st.sampled_from(sorted(CONDITIONS)))
def test_every_condition_against_all_worlds(
    tmp_path_factory: pytest.TempPathFactory, buckets: list[Bucket], condition: str
) -> None:
    table = pa.table(
        {
            "A": list("".join(rows for rows, _ in buckets)),
            "X": list("".join(values[: len(rows)] for rows, values in buckets)),
        }
    )
    numbers = [number for number, (rows, _) in enumerate(buckets, 1) for _ in rows]
    fakes = [(number, value) for number, (rows, values) in enumerate(buckets, 1) for value in values[len(rows) :]]
    folder = write_release(tmp_path_factory.mktemp("release"), table, "X", numbers, fakes=fakes)
    accepts = CONDITIONS[condition]
    with Counter(folder) as counter:
        assert_same(counter.count(condition), of_all_worlds(buckets, accepts))
        for by in (["A"], ["X"], ["X", "A"]):
            for group in counter.count_by(condition, by):
                assert_same(group.estimate, of_all_worlds(buckets, within(accepts, group.group)))


def test_what_is_exact_and_what_is_not(tmp_path: Path) -> None:
    table = pa.table({"A": ["a", "b", "a", "b"], "X": ["x", "y", "x", "z"]})
    folder = write_release(tmp_path, table, "X", [1, 1, 2, 2], fakes=[(1, "z"), (2, "y")])
    with Counter(folder) as counter:
        assert counter.count("A = 'a'").bounds == (2, 2)
        assert counter.count("TRUE").bounds == (4, 4)
        assert counter.count("X IS NOT NULL").bounds == (4, 4)
        assert counter.count("X = 'q'").bounds == (0, 0)
        found = counter.count("X = 'y'")
        assert found.estimate == pytest.approx(4 / 3)
        assert found.bounds == (0, 2)
        assert [group.estimate.exact for group in counter.count_by("TRUE", ["A"])] == [True, True]
        assert [group.estimate.exact for group in counter.count_by("TRUE", ["X"])] == [False] * 3


class _Publisher:
    """Over-fill, then mark: dealt in turn, σ slots of every bucket fake, each set of them as likely as any other."""

    def __init__(self, quotas: Sequence[int], size: int, fakes: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.values = np.repeat(np.arange(len(quotas)), quotas)
        self.size, self.fakes, self.every = size, fakes, size + fakes
        assert len(self.values) % self.every == 0
        self.buckets = np.arange(len(self.values)) % (len(self.values) // self.every)

    def real(self) -> npt.NDArray[np.bool_]:
        order = np.lexsort((self.random.random(len(self.values)), self.buckets))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) % self.every
        real: npt.NDArray[np.bool_] = rank < self.size
        return real


@pytest.mark.parametrize("fakes", [1, 2, 4])
def test_estimates_over_many_releases_are_unbiased(fakes: int) -> None:
    """ST stays, and the table that it was made of is drawn: the mean error is none, its square the variance."""
    size, buckets = 4, 60
    slots = buckets * (size + fakes)
    publisher = _Publisher([slots // 2, slots // 4, slots - slots // 2 - slots // 4], size, fakes, seed=fakes)
    random = publisher.random
    query = generate((3,), 3, 1, 0.2, 1)[0]
    errors: dict[str, list[float]] = {"random": [], "alone": []}
    variances: dict[str, list[float]] = {"random": [], "alone": []}
    for _ in range(600):
        real = publisher.real()
        sensitive, where = publisher.values[real], publisher.buckets[real].astype(np.int64)
        column = random.integers(0, 3, len(sensitive))
        table = CodedTable((column,), sensitive, (3,), 3)
        release = CodedRelease((column,), where, publisher.buckets.astype(np.int64), publisher.values)
        actual, mean, variance, low, high = Answerer(table, release).answer(query)
        assert low <= actual <= high
        errors["random"].append(mean - actual)
        variances["random"].append(variance)
        wanted = np.isin(publisher.values, query.sensitive)
        held = np.bincount(publisher.buckets[wanted], minlength=buckets)
        errors["alone"].append(float((held * size / publisher.every).sum() - np.isin(sensitive, query.sensitive).sum()))
        spread = held * (publisher.every - held) * size * fakes / (publisher.every**2 * (publisher.every - 1))
        variances["alone"].append(float(spread.sum()))
    for kind in errors:
        variance = float(np.mean(variances[kind]))
        assert abs(np.mean(errors[kind])) < 4 * math.sqrt(variance / 600)
        assert np.mean(np.square(errors[kind])) == pytest.approx(variance, rel=0.25)


@pytest.mark.parametrize("fakes", [1, 3])
@pytest.mark.parametrize("mean", [0.3, 0.9])
def test_where_rows_are_that_match(fakes: int, mean: float) -> None:
    """E y = X' p over many markings, and intervals that hold the truth at least as often as they say."""
    values, buckets, size = 12, 1500, 4
    slots = buckets * (size + fakes)
    shares = np.random.default_rng(4).dirichlet(np.full(values, 4.0))
    quotas = np.floor(shares * slots).astype(int)
    quotas[0] += slots - quotas.sum()
    publisher = _Publisher([int(quota) for quota in quotas], size, fakes, seed=1)
    by_bucket = np.argsort(publisher.buckets, kind="stable")
    found = find_compositions([(publisher.buckets[by_bucket].astype(np.int64) + 1, publisher.values[by_bucket])])
    classes = found.of(publisher.buckets + 1)
    random, (block,), number = publisher.random, found.blocks, found.number
    expected, matching, wanted, truth = [], [], [], []
    for _ in range(200):
        real = publisher.real()
        p = np.clip(mean + 0.02 * random.normal(size=values), 0, 1)
        matches = real & (random.random(slots) < p[publisher.values])
        chosen = np.zeros(values)
        chosen[random.choice(values, 3, replace=False)] = 1
        expected.append(block.slots * size / (size + fakes) @ p)
        matching.append(np.bincount(classes[matches], minlength=number))
        wanted.append(chosen)
        truth.append(int((matches & (chosen[publisher.values] > 0)).sum()))
    rows = np.bincount(classes, minlength=number) * size / (size + fakes)
    errors = (np.array(matching) - np.array(expected)).mean(axis=0)
    assert (np.abs(errors) < 4.5 * np.sqrt(rows * mean * (1 - mean) / 200)).all()
    association = Association(block.slots, found.with_fakes(fakes))
    posterior = association.posterior(np.array(matching, dtype=np.float64), np.array(wanted))
    within = (np.floor(posterior.low) <= truth) & (truth <= np.ceil(posterior.high))
    assert within.mean() >= 0.95
    assert association.records.sum() == pytest.approx(buckets * size)
    if mean == 0.9:  # and not so without what the fakes add to the variance
        plain = Association(block.slots * size / (size + fakes))
        bare = plain.posterior(np.array(matching, dtype=np.float64), np.array(wanted))
        assert ((bare.low <= truth) & (truth <= bare.high)).mean() < within.mean()


def test_learning_without_association_is_the_estimate_of_buckets() -> None:
    """For τ = 0: the mean of single buckets, and their variance for many of them."""
    size, fakes, buckets, share = 5, 2, 4000, 0.6
    publisher = _Publisher([buckets * 3, buckets * 2, buckets * 2], size, fakes, seed=9)
    real = publisher.real()
    matches = real & (publisher.random.random(len(real)) < share)
    by_bucket = np.argsort(publisher.buckets, kind="stable")
    found = find_compositions([(publisher.buckets[by_bucket].astype(np.int64) + 1, publisher.values[by_bucket])])
    a, c = (np.bincount(publisher.buckets[mask], minlength=buckets) for mask in (matches, publisher.values == 0))
    every = size + fakes
    association = Association(found.blocks[0].slots, found.with_fakes(fakes))
    matching = np.array([[float(matches.sum())]])
    means, variances = association.moments_given(matching, np.eye(3)[:1], np.array([share * (1 - share)]), np.zeros(1))
    assert means[0, 0] == pytest.approx((a * c / every).sum())
    expected = (a * c * (every - a) * (every - c)).sum() / (every**2 * (every - 1))
    assert variances[0, 0] == pytest.approx(expected, rel=0.02)


def test_all_values_and_no_values_are_learned_exactly() -> None:
    slots, rows = np.array([[4.0, 2, 0, 6], [3, 3, 3, 3]]), np.array([9.0, 8])
    association = Association(slots, Filling(np.array([3.0, 4]), rows, rows))
    assert association.records == pytest.approx(np.array([4, 2, 0, 6]) * 3 / 4 + 3 * 2 / 3)
    posterior = association.posterior(np.array([[5.0, 2]] * 2), np.array([[0.0] * 4, [1.0] * 4]))
    assert posterior.mean == pytest.approx([0, 7], abs=1e-9)
    assert posterior.deviation == pytest.approx([0, 0], abs=1e-6)


def people(rows: int = 900) -> pa.Table:
    random = np.random.default_rng(6)
    first = random.integers(0, 6, rows)
    sensitive = (first + random.integers(0, 3, rows)) % 7
    return pa.table({"A": first, "B": random.integers(0, 3, rows), "X": [f"x{value}" for value in sensitive]})


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(7)
    fakes = [(bucket, f"x{random.integers(0, 7)}") for bucket in range(1, 181) for _ in range(2)]
    folder = write_release(
        tmp_path_factory.mktemp("release"), people(), "X", random_buckets(900, 5), fakes=fakes, row_group_size=2000
    )
    return folder.path


def test_the_workload_and_single_queries_say_the_same(released: Path) -> None:
    folder = open_release(released)
    table, release = encode(folder, people())
    queries = generate(table.domains, table.sensitive_domain, 12, 0.2, seed=2)
    found = answer(table, release, queries, learn=True)
    assert found.learned is not None
    texts = [
        {int(code): str(value) for code, value in zip(codes, people()[name].to_pylist(), strict=True)}
        for name, codes in zip(("A", "B", "X"), (*table.attributes, table.sensitive), strict=True)
    ]
    with Counter(folder) as counter:
        for i, query in enumerate(queries):
            parts = [*zip(query.attributes, query.values, strict=True), (2, query.sensitive)]
            expression = " AND ".join(
                f"CAST({'ABX'[column]} AS VARCHAR) IN ({', '.join(repr(texts[column][int(v)]) for v in values)})"
                for column, values in parts
            )
            estimate = counter.count(expression, learn=True)
            assert (found.low[i], found.high[i]) == estimate.bounds
            assert found.learned.estimate[i] == pytest.approx(estimate.estimate)
            assert (found.learned.interval_low[i], found.learned.interval_high[i]) == estimate.interval
            assert (beside := estimate.at_random) is not None
            assert found.estimate[i] == pytest.approx(beside.estimate)
            assert (found.interval_low[i], found.interval_high[i]) == beside.interval


def test_the_workload_on_a_release_with_fakes(released: Path) -> None:
    folder = open_release(released)
    result = evaluate(folder, people(), queries=300, selectivity=0.1, learn=True)
    assert result.bounds_hold == 300
    assert result.learned is not None
    assert result.not_learned is None
    with pytest.raises(InputError, match="does not have the same values"):
        evaluate(folder, people().set_column(2, "X", pa.array(["x0"] * 900)))


def test_matched_at_random_the_intervals_hold() -> None:
    publisher = _Publisher([8000, 6000, 4000, 6000], 4, 2, seed=3)
    real = publisher.real()
    columns = tuple(publisher.random.integers(0, size, int(real.sum())) for size in (5, 8, 12))
    table = CodedTable(columns, publisher.values[real], (5, 8, 12), 4)
    where = publisher.buckets.astype(np.int64)
    release = CodedRelease(columns, where[real], where, publisher.values)
    found = summarise(answer(table, release, generate((5, 8, 12), 4, 600), learn=True))
    assert found.bounds_hold == 600
    assert found.coverage >= 0.93
    assert found.learned is not None
    assert found.learned.coverage >= 0.95


def test_buckets_with_fewer_values_than_rows_are_refused() -> None:
    ones: Integers = np.array([1, 2], dtype=np.int64)
    table = CodedTable((ones,), ones, (3,), 3)
    with pytest.raises(UsageError, match="fewer values than rows"):
        Answerer(table, CodedRelease((ones,), np.array([1, 1]), np.array([1]), np.array([1])))
    with pytest.raises(UsageError, match="not in ST"):
        Answerer(table, CodedRelease((ones,), ones, np.array([1, 1]), np.array([1, 2])))

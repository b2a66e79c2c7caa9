"""Means, sums and quantiles against the enumeration of every way to give a bucket's values to its rows."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.errors import DaleniusError, QueryError, UsageError
from dalenius.model.estimate import Asked, Figure, Figures
from dalenius.query.count import Counter
from dalenius.query.figures import NO_BANDS, figures, figures_object, outwards
from dalenius.release.folder import ReleaseFolder, open_release
from tests.effort import examples
from tests.query.releases import write_release

Bucket = tuple[str, list[int | None]]  # a letter a row, and a number of units a value: more values if some are fake
World = tuple[Fraction, ...]  # the numbers that are asked about, in order

LEVELS = (0.0, 0.25, 1 / 3, 0.5, 0.9, 1.0)
KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "integers": (pa.int32(), int),
    "decimals": (pa.decimal128(9, 2), lambda units: Decimal(units) / 100),
    "floats": (pa.float64(), lambda units: units * 0.1),
}
ROWS: dict[str, Callable[[str], bool]] = {
    "A = 'a'": lambda row: row == "a",
    "A <> 'b'": lambda row: row != "b",
    "TRUE": lambda row: True,
}
VALUES: dict[str, Callable[[Any], bool]] = {
    "TRUE": lambda value: True,
    "X > {}": lambda value: value > 0.005,
    "X < {} OR X > 0.3": lambda value: value < 0.005 or value > 0.3,
}


@st.composite
def bucket_lists(draw: st.DrawFn) -> list[Bucket]:
    fakes = draw(st.sampled_from([0, 0, 1]))
    values = st.integers(-3, 5) | (st.none() if draw(st.booleans()) else st.nothing())

    def bucket() -> Bucket:
        size = draw(st.integers(1, 4))
        slots = draw(st.lists(values, min_size=size + fakes, max_size=size + fakes))
        return draw(st.text("abc", min_size=size, max_size=size)), slots

    return [bucket() for _ in range(draw(st.integers(1, 3)))]


def release(path: Path, buckets: Sequence[Bucket], kind: str) -> ReleaseFolder:
    data_type, number = KINDS[kind]

    def cells(values: Sequence[int | None]) -> list[Any]:
        return [None if value is None else number(value) for value in values]

    table = pa.table(
        {
            "A": list("".join(rows for rows, _ in buckets)),
            "X": pa.array([x for rows, values in buckets for x in cells(values[: len(rows)])], data_type),
        }
    )
    numbers = [place for place, (rows, _) in enumerate(buckets, 1) for _ in rows]
    fakes = [(place, x) for place, (rows, values) in enumerate(buckets, 1) for x in cells(values[len(rows) :])]
    return write_release(path, table, "X", numbers, fakes=fakes)


def worlds(
    buckets: Sequence[Bucket], row: Callable[[str], bool], value: Callable[[Any], bool], kind: str
) -> Tally[World]:
    """How often each list of numbers is asked about: over all ways to give the values to the rows, in all buckets."""
    number = KINDS[kind][1]
    parts: list[Tally[World]] = []
    for rows, values in buckets:
        wanted = [None if x is None or not value(number(x)) else Fraction(number(x)) for x in values]
        parts.append(
            Tally(
                tuple(sorted(x for letter, x in zip(rows, order, strict=False) if x is not None and row(letter)))
                for order in permutations(wanted)
            )
        )
    total: Tally[World] = Tally()
    for combination in product(*(part.items() for part in parts)):
        numbers = tuple(sorted(x for world, _ in combination for x in world))
        total[numbers] += math.prod(times for _, times in combination)
    return total


def quantile(world: World, level: float) -> Fraction:
    return world[max(1, math.ceil(Fraction(str(level)) * len(world))) - 1]


def moments(outcomes: Sequence[tuple[Fraction, int]]) -> tuple[float, float]:
    every = sum(times for _, times in outcomes)
    mean = sum((x * times for x, times in outcomes), Fraction(0)) / every
    return float(mean), math.sqrt(sum((x - mean) ** 2 * times for x, times in outcomes) / every)


def ends(numbers: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    return min(numbers), max(numbers)


def check_bounds(figure: Figure, expected: tuple[Fraction, Fraction], *, own: bool) -> None:
    """`own`: bounds are numbers of the column's type, and not rounded."""
    low, high = expected
    assert figure.exact == (low == high)
    if own:
        assert tuple(map(Fraction, figure.bounds)) == expected
    elif low < high:
        assert figure.bounds == (outwards(low, "low"), outwards(high, "high"))
    least, first, estimate, last, most = map(
        float, (figure.bounds[0], figure.interval[0], figure.estimate, figure.interval[1], figure.bounds[1])
    )
    assert least <= first <= estimate <= last <= most


@settings(max_examples=examples(100))
@given(bucket_lists(), st.sampled_from(sorted(ROWS)), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(KINDS)))
def test_every_figure_against_all_worlds(
    tmp_path_factory: pytest.TempPathFactory, buckets: list[Bucket], rows: str, values: str, kind: str
) -> None:
    expected = worlds(buckets, ROWS[rows], VALUES[values], kind)
    sizes = [len(world) for world in expected]
    folder = release(tmp_path_factory.mktemp("release"), buckets, kind)
    condition = f"({rows}) AND ({values.format(0.005)})"
    with Counter(folder) as counter:
        if not max(sizes):
            with pytest.raises(QueryError, match="nobody"):
                figures(counter, condition, Asked(mean=True))
            assert figures(counter, condition, Asked(sum=True))[0].sum == Figure(0, (0, 0), (0, 0), 0.0, True, (0, 0))
            return
        (found,) = figures(counter, condition, Asked(mean=True, sum=True, quantiles=LEVELS))
        assert counter.count(f"{condition} AND X IS NOT NULL").bounds == found.records
    assert found.records == (min(sizes), max(sizes))
    check_sum(found, expected, kind)
    check_mean(found, expected)
    check_quantiles(found, expected)


def check_sum(found: Figures, expected: Tally[World], kind: str) -> None:
    assert found.sum is not None
    totals = [(sum(world, Fraction(0)), times) for world, times in expected.items()]
    check_bounds(found.sum, ends([total for total, _ in totals]), own=kind != "floats")
    mean, deviation = moments(totals)
    assert float(found.sum.estimate) == pytest.approx(mean, abs=1e-9)
    assert found.sum.standard_error == pytest.approx(deviation, abs=1e-6)


def check_mean(found: Figures, expected: Tally[World]) -> None:
    assert found.mean is not None
    means = [(sum(world, Fraction(0)) / len(world), times) for world, times in expected.items() if world]
    check_bounds(found.mean, ends([mean for mean, _ in means]), own=False)
    every = sum(expected.values())
    total = sum((sum(world, Fraction(0)) * times for world, times in expected.items()), Fraction(0)) / every
    number = Fraction(sum(len(world) * times for world, times in expected.items()), every)
    ratio = total / number
    if not found.mean.exact:
        assert found.mean.estimate == pytest.approx(float(ratio), abs=1e-9)
        residuals = [(sum((x - ratio for x in world), Fraction(0)), times) for world, times in expected.items()]
        assert found.mean.standard_error == pytest.approx(moments(residuals)[1] / float(number), abs=1e-6)
    if found.records[0] == found.records[1]:  # then the ratio is the mean of all means
        assert found.mean.estimate == pytest.approx(moments(means)[0], abs=1e-9)


def check_quantiles(found: Figures, expected: Tally[World]) -> None:
    assert list(found.quantiles) == list(LEVELS)
    number = sum(len(world) * times for world, times in expected.items())
    up_to: Tally[Fraction] = Tally()
    for world, times in expected.items():
        up_to.update({x: world.count(x) * times for x in set(world)})
    for level, figure in found.quantiles.items():
        check_bounds(figure, ends([quantile(world, level) for world in expected if world]), own=True)
        if not figure.exact:
            least = Fraction(str(level)) * number
            assert Fraction(figure.estimate) == next(
                x for x in sorted(up_to) if sum(up_to[other] for other in up_to if other <= x) >= least
            )


def test_groups_are_conditions(tmp_path: Path) -> None:
    folder = release(tmp_path, [("aab", [1, 2, None]), ("abc", [5, -1, 4]), ("c", [None])], "integers")
    asked = Asked(mean=True, sum=True, quantiles=(0.5,))
    with Counter(folder) as counter:
        groups = figures(counter, "X < 5", asked, ["a"])
        assert [group.group for group in groups] == [{"A": "a"}, {"A": "b"}, {"A": "c"}]
        for group in groups:
            (alone,) = figures(counter, f"X < 5 AND A = '{group.group['A']}'", asked)
            assert (alone.records, alone.mean, alone.sum) == (group.records, group.mean, group.sum)
            assert alone.quantiles == group.quantiles
        assert [group.group["A"] for group in figures(counter, "X > 4", asked, ["A"])] == ["a", "b", "c"]
        assert [group.group["A"] for group in figures(counter, "A <> 'b' AND X > 4", asked, ["A"])] == ["a", "c"]


@pytest.mark.parametrize(
    ("data_type", "numbers", "total", "mean"),
    [
        (pa.int64(), [2**63 - 1, 2**63 - 1, 2**63 - 2], 3 * 2**63 - 4, float(Fraction(3 * 2**63 - 4, 3))),
        (pa.uint64(), [2**64 - 1, 2**64 - 1], 2**65 - 2, float(2**64 - 1)),
        (pa.decimal128(20, 3), [Decimal("10000000000000000.001")] * 3, Decimal("30000000000000000.003"), 1e16),
        (pa.float64(), [1e300, 1.0, -1e300, 2.0**-1074], 1.0, 0.25),
        (pa.float32(), [0.5, -0.25], 0.25, 0.125),
    ],
)
def test_nothing_is_rounded_on_the_way(
    tmp_path: Path, data_type: pa.DataType, numbers: list[Any], total: Any, mean: float
) -> None:
    table = pa.table({"A": ["a"] * len(numbers), "X": pa.array(numbers, data_type)})
    with Counter(write_release(tmp_path, table, "X", [1] * len(numbers))) as counter:
        (found,) = figures(counter, "A = 'a'", Asked(mean=True, sum=True, quantiles=(1.0,)))
    assert found.sum == Figure(total, (total, total), (total, total), 0.0, True, (len(numbers),) * 2)
    assert found.mean is not None
    assert found.mean.estimate == mean
    assert type(found.sum.estimate) is type(total)
    assert found.quantiles[1.0].estimate == max(numbers)


def test_large_numbers_that_hardly_differ_have_their_own_spread(tmp_path: Path) -> None:
    table = pa.table({"A": ["a", "b"] * 50, "X": pa.array([10**15 + i % 4 for i in range(100)], pa.int64())})
    with Counter(write_release(tmp_path, table, "X", [1 + i // 4 for i in range(100)])) as counter:
        (found,) = figures(counter, "A = 'a'", Asked(mean=True))
    assert found.mean is not None
    assert found.mean.standard_error == pytest.approx(math.sqrt(25 * 2 * 2 / 3 * 1.25) / 50)


def test_bounds_are_rounded_outwards() -> None:
    assert (outwards(Fraction(1, 3), "low"), outwards(Fraction(1, 3), "high")) == (0.333333333333333, 0.333333333333334)
    assert (outwards(Fraction(-1, 3), "low"), outwards(Fraction(-1, 3), "high")) == (
        -0.333333333333334,
        -0.333333333333333,
    )
    assert outwards(Decimal("0.1"), "low") == outwards(Decimal("0.1"), "high") == 0.1


@pytest.fixture(scope="module")
def counter_of_floats(tmp_path_factory: pytest.TempPathFactory) -> Any:
    table = pa.table({"A": ["a", "b", "a", "b"], "X": [1.5, float("nan"), float("inf"), 2.5]})
    with Counter(write_release(tmp_path_factory.mktemp("floats"), table, "X", [1, 1, 2, 2])) as counter:
        yield counter


@pytest.mark.parametrize(
    ("expression", "by", "said"),
    [
        ("A = 'a' OR X > 1", [], "ties quasi-identifiers to 'X'"),
        ("A = 'a'", ["X"], "cannot be grouped by 'X'"),
        ("A = 'a'", ["A", "a"], "named twice"),
        ("A = 'z'", [], "nobody who meets the condition has a number"),
        ("A = 'a'", [], "isfinite"),
        ("B = 1", [], "no column 'B'"),
    ],
)
def test_what_cannot_be_said(counter_of_floats: Counter, expression: str, by: list[str], said: str) -> None:
    with pytest.raises(DaleniusError) as caught:
        figures(counter_of_floats, expression, Asked(mean=True), by)
    assert said in str(caught.value)
    assert caught.value.hint


def test_infinite_numbers_can_be_left_out(counter_of_floats: Counter) -> None:
    (found,) = figures(counter_of_floats, "isfinite(X)", Asked(mean=True, quantiles=(0.5,)))
    assert found.mean is not None
    assert (found.mean.exact, found.mean.estimate, found.quantiles[0.5].estimate) == (True, 2.0, 1.5)


def test_text_has_no_mean(tmp_path: Path) -> None:
    table = pa.table({"A": ["a", "b"], "X": ["1", "2"]})
    with (
        Counter(write_release(tmp_path, table, "X", [1, 1])) as counter,
        pytest.raises(QueryError, match="has no numbers"),
    ):
        figures(counter, "TRUE", Asked(mean=True))


@pytest.mark.parametrize("level", [-0.1, 1.01, math.nan, math.inf])
def test_levels_are_between_0_and_1(level: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        Asked(quantiles=(0.5, level))


def test_as_json(tmp_path: Path) -> None:
    folder = release(tmp_path, [("aab", [1, 2, 7])], "decimals")
    with Counter(folder) as counter:
        (found,) = figures(counter, "A = 'a'", Asked(sum=True, quantiles=(0.5,)), ["A"])
    assert figures_object(found) == {
        "format": 1,
        "group": {"A": "a"},
        "records": [2, 2],
        "mean": None,
        "sum": {
            "method": "at random",
            "estimate": pytest.approx(0.2 / 3),
            "standard_error": pytest.approx(math.sqrt(2 * 1 / 2 * 62 / 9) / 100),
            "interval": [0.03, 0.09],
            "bounds": [0.03, 0.09],
            "exact": False,
            "at_random": None,
            "note": None,
        },
        "quantiles": [
            {
                "quantile": 0.5,
                "method": "at random",
                "estimate": 0.02,
                "standard_error": None,
                "interval": [0.01, 0.02],
                "bounds": [0.01, 0.02],
                "exact": False,
                "at_random": None,
                "note": None,
            }
        ],
    }


def test_a_published_release_of_bands(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    incomes = [int(x) if x < 60_000 else None for x in random.integers(10_000, 70_000, 600)]
    table = pa.table({"age": 5 * random.integers(4, 9, 600), "income": pa.array(incomes, pa.int64())})
    released = dalenius.publish(
        table,
        {"odds": 4, "grouping": "cuts:20000,30000,45000"},
        sensitive="income",
        quasi_identifiers=["age"],
        null_value="missing",
        seed=1,
        out=tmp_path / "release",
    )
    young = [x for age, x in zip(table["age"].to_pylist(), incomes, strict=True) if age < 30 and x is not None]
    found = {
        "mean": released.mean("age < 30"),
        "sum": released.sum("age < 30"),
        "median": released.quantile(0.5, "age < 30", timeout=60),
    }
    facts = {"mean": sum(young) / len(young), "sum": sum(young), "median": sorted(young)[(len(young) + 1) // 2 - 1]}
    for name, figure in found.items():
        assert not figure.exact
        assert figure.bounds[0] <= facts[name] <= figure.bounds[1]
        assert figure.records[0] <= len(young) <= figure.records[1]
    numbers = [x for x in incomes if x is not None]
    assert released.mean() == released.mean("TRUE")
    assert released.sum().bounds == (sum(numbers), sum(numbers))
    groups = released.mean("TRUE", "age")
    assert [group.group["age"] for group in groups] == sorted(set(table["age"].to_pylist()))
    assert released.quantile(1, "age < 30").at_random is not None
    assert released.quantile(1, "age < 30", learn=False).at_random is None


def rising(rows: int) -> pa.Table:
    """Incomes that rise with age."""
    random = np.random.default_rng(3)
    age = random.integers(20, 60, rows)
    income = (400 * age + random.integers(0, 20_000, rows)).astype(np.int64)
    return pa.table({"age": age, "income": income})


def published(path: Path, table: pa.Table, cuts: str) -> ReleaseFolder:
    limits = {"odds": 4, "grouping": cuts}
    dalenius.publish(table, limits, sensitive="income", quasi_identifiers=["age"], strata="none", seed=1, out=path)
    return open_release(path)


def test_what_is_learned_is_what_counts_of_bands_say(tmp_path: Path) -> None:
    """With two bands and n people, the mean is m_2 + (m_1 - m_2) N_1 / n, and N_1 is a count; the rest is at random."""
    folder = published(tmp_path / "release", rising(3_000), "cuts:25000")
    with Counter(folder) as counter:
        (found,) = figures(counter, "age < 35", Asked(mean=True, sum=True, quantiles=(0.25,)), learn=True)
        low = counter.count("age < 35 AND income < 25000", learn=True)
    buckets: dict[int, tuple[int, list[int]]] = {}
    for age, bucket in zip(*(folder.table("qit")[name].to_pylist() for name in ("age", "bucket")), strict=True):
        buckets[bucket] = (buckets.get(bucket, (0, []))[0] + (age < 35), [])
    for income, bucket in zip(*(folder.table("st")[name].to_pylist() for name in ("income", "bucket")), strict=True):
        buckets[bucket][1].append(income)
    shares = [(v, a / len(values)) for a, values in buckets.values() for v in values]
    bands = [[(v, share) for v, share in shares if (v < 25_000) == is_low] for is_low in (True, False)]
    expected = [sum(share for _, share in band) for band in bands]
    means = [sum(v * share for v, share in band) / total for band, total in zip(bands, expected, strict=True)]
    people = sum(a for a, _ in buckets.values())
    learned = [low.estimate, people - low.estimate]
    mean = sum(n * m for n, m in zip(learned, means, strict=True)) / people
    rest = 0.0
    for a, values in buckets.values():
        residuals = np.array([v - means[v >= 25_000] for v in values])
        rest += a * (len(values) - a) / max(1, len(values) - 1) * residuals.var()
    error = math.hypot((means[1] - means[0]) * low.standard_error, math.sqrt(rest)) / people
    assert found.mean is not None
    assert found.sum is not None
    assert found.mean.method == "learned"
    assert found.mean.estimate == pytest.approx(mean)
    assert found.mean.standard_error == pytest.approx(error, rel=1e-6)
    assert found.mean.interval == pytest.approx((mean - 1.959964 * error, mean + 1.959964 * error), rel=1e-6)
    assert found.sum.estimate == pytest.approx(mean * people)
    assert found.mean.at_random is not None
    assert found.mean.at_random.estimate == pytest.approx(sum(v * share for v, share in shares) / people)
    weights: dict[int, float] = {}
    for band, n, total in zip(bands, learned, expected, strict=True):
        for v, share in band:
            weights[v] = weights.get(v, 0.0) + share * n / total
    up_to = np.cumsum([weights[v] for v in sorted(weights)])
    assert found.quantiles[0.25].estimate == sorted(weights)[int(np.searchsorted(up_to, 0.25 * people - 1e-6))]


def test_learning_finds_most_of_what_is_there_and_all_people_together(tmp_path: Path) -> None:
    table = rising(20_000)
    folder = published(tmp_path / "release", table, "cuts:18000,24000,30000,33000")
    truth = float(np.mean(np.asarray(table["income"])[np.asarray(table["age"]) < 30]))
    with Counter(folder) as counter:
        (found,) = figures(counter, "age < 30", Asked(mean=True), learn=True)
        learner, _ = counter.learner()
        assert learner is not None
        bands = learner.bands("q0 < 30")
    assert found.mean is not None
    assert found.mean.at_random is not None
    assert abs(float(found.mean.estimate) - truth) < 0.3 * abs(float(found.mean.at_random.estimate) - truth)
    assert sum(records for records, _ in bands.values()) == pytest.approx(found.records[0])
    covariance = np.array([row for _, row in bands.values()])
    assert len(covariance) == 5
    assert covariance.sum(axis=1) == pytest.approx(np.zeros(5), abs=1e-6 * covariance.max())  # their sum is certain


@pytest.mark.parametrize(
    ("condition", "by", "reason"),
    [
        ("age < 30 AND income >= 25000", [], None),
        ("age < 30 AND income > 30000", [], "cuts through a band"),
        ("age < 30", ["income"], "not one by one"),
    ],
)
def test_counts_of_whole_bands_are_learned(
    tmp_path_factory: pytest.TempPathFactory, condition: str, by: list[str], reason: str | None
) -> None:
    folder = published(tmp_path_factory.mktemp("bands") / "release", rising(400), "cuts:25000")
    with Counter(folder) as counter:
        found = counter.count_by(condition, by, learn=True)[0].estimate if by else counter.count(condition, learn=True)
    assert (found.method == "learned") == (reason is None)
    assert (found.not_learned is None) if reason is None else (reason in str(found.not_learned))


def test_without_bands_a_note_says_why_nothing_is_learned(tmp_path: Path) -> None:
    with Counter(release(tmp_path, [("aab", [1, 2, 7])], "integers")) as counter:
        (found,) = figures(counter, "A = 'a'", Asked(mean=True), learn=True)
    assert found.mean is not None
    assert (found.mean.method, found.mean.not_learned) == ("at random", NO_BANDS)

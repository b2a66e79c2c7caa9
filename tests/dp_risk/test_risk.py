"""The whole attack on small tables, against direct computation from the exact law."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dalenius.dp_risk.noise import draw
from dalenius.dp_risk.release_shares import release_view
from dalenius.dp_risk.risk import dp_risk
from dalenius.dp_risk.tally import Tally, Triples, ranges_up_to
from dalenius.errors import DaleniusError, NoSuchColumnError, NullsError, PolicyError, QueryError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy
from tests.dp_risk.exact import claimed_above, quantile
from tests.dp_risk.people import DRAWS, EPSILONS, LIMITS, cells, risk, table


def test_shares_are_those_of_the_exact_law() -> None:
    found = risk()
    everybody = cells()
    assert (found.people, found.groups, found.draws) == (68, 4, DRAWS)
    right = [y / x > limit for x, y, limit in everybody]
    assert found.exact == pytest.approx(np.mean(right))
    assert found.mean_share == pytest.approx(np.mean([y / x for x, y, _ in everybody]))
    assert found.noise_alone == pytest.approx(np.mean([0.25 / (1 + f) if f < 1 else 0 for _, _, f in everybody]))
    for entry in found.epsilons:
        chances = [claimed_above(f, x, y, 1 / entry.epsilon) if f < 1 else 0.0 for x, y, f in everybody]
        rightly = [chance * is_right for chance, is_right in zip(chances, right, strict=True)]
        assert entry.pinned == pytest.approx(np.mean(chances), abs=6 * entry.pinned_error)
        assert entry.pinned_rightly == pytest.approx(np.mean(rightly), abs=6 * entry.pinned_rightly_error + 1e-9)
        assert 0 < entry.pinned_error < 0.5 / math.sqrt(DRAWS)
        assert 0 <= entry.mean_estimate <= 1
    assert found.epsilons[-1].mean_estimate == pytest.approx(found.mean_share, abs=0.02)


def test_shares_by_size() -> None:
    found = risk()
    assert [(entry.least, entry.most, entry.groups, entry.people) for entry in found.sizes] == [
        (1, 1, 2, 2),
        (5, 9, 1, 6),
        (50, 99, 1, 60),
    ]
    assert [entry.exact for entry in found.sizes] == [1.0, 0.5, 0.0]  # 36 of 60 is not above 0.6
    single = found.sizes[0].epsilons[1]
    both = [claimed_above(limit, 1, 1, 1.0) for limit in (0.3, 0.6)]
    assert single.pinned == single.pinned_rightly == pytest.approx(np.mean(both), abs=6 * single.pinned_error)
    for entry in found.sizes:
        for e in entry.epsilons:
            assert e.pinned_rightly <= min(e.pinned, entry.exact) + 1e-12
    errors = [[e.median_relative_error for e in entry.epsilons] for entry in found.sizes]
    assert all(row == sorted(row, reverse=True) for row in errors)


def test_the_median_relative_error_is_that_of_the_ratios() -> None:
    noise = draw(0.5, 2_000)
    tally = Tally([noise], ranges_up_to(50))
    one = np.array([50]), np.array([10]), np.array([0.3]), np.array([False]), np.array([10.0])
    tally.add(Triples(*one))
    ratios = (10 + noise.of_count) / (50 + noise.of_size)
    assert tally.overall()[0].median_relative_error == pytest.approx(np.median(np.abs(ratios / 0.2 - 1)), rel=0.024)


def test_blocks_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    noises = [draw(0.5, 200), draw(2.0, 200)]
    sizes, counts, codes = np.array(
        [(x, y, v) for x in (1, 2, 3, 7, 40) for y in range(1, min(x, 5) + 1) for v in (0, 1)]
    ).T
    limits = np.array([0.3, np.inf])[codes]
    triples = Triples(sizes, counts, limits, counts / sizes > limits, np.arange(1.0, len(sizes) + 1))
    whole = Tally(noises, ranges_up_to(40))
    chances = whole.add(triples)
    monkeypatch.setattr("dalenius.dp_risk.tally._CELLS_OF_A_BLOCK", 700)  # three triples at a time
    parts = Tally(noises, ranges_up_to(40))
    assert np.array_equal(parts.add(triples), chances)
    for one, other in zip(whole.overall(), parts.overall(), strict=True):
        assert one.pinned == pytest.approx(other.pinned)
        assert one.pinned_rightly == pytest.approx(other.pinned_rightly)
        assert one.mean_estimate == pytest.approx(other.mean_estimate)
        assert one.median_relative_error == other.median_relative_error
    assert np.all(chances[:, codes == 1] == 0)


def test_ranges_of_sizes() -> None:
    assert ranges_up_to(1).tolist() == [1, 2]
    assert ranges_up_to(60_000).tolist()[:9] == [1, 2, 5, 10, 20, 50, 100, 200, 500]
    assert ranges_up_to(60_000).tolist()[-2:] == [50_000, 100_000]


def test_listed_groups() -> None:
    found = risk(least_shown=6)
    assert [group.size for group in found.top] == [6, 1, 1]  # in the group of 60, nobody is above a limit
    first = found.top[0]
    assert first.group == {"Gender": None, "Age": "40"}
    assert [group.group for group in found.top[1:]] == [None, None]
    values = {value.value: value for value in first.values}
    assert values.keys() == {"HIV", "Cold", "Flu"}
    assert (values["HIV"].count, values["HIV"].limit, values["HIV"].above) == (3, Fraction(3, 10), True)
    assert values["Flu"].pinned == (0.0, 0.0, 0.0)
    for number, epsilon in enumerate(EPSILONS):
        expected = sum(y * claimed_above(f, 6, y, 1 / epsilon) for y, f in ((3, 0.3), (2, 0.6)))
        assert first.pinned[number] == pytest.approx(expected, abs=0.3)
        assert first.pinned_rightly[number] == pytest.approx(3 * values["HIV"].pinned[number])
    assert risk(top=0).top == ()
    assert [group.size for group in risk(top=1).top] == [6]


def test_groups_without_anybody_pinned_rightly_are_not_listed() -> None:
    rows: list[tuple[str | None, int, str]] = [("F", age, value) for age in range(30) for value in ("Flu", "Cold")]
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "epsilons": [1], "draws": 200}
    assert dp_risk(table(rows), {"uniform": "0.5"}, **settings).top == ()
    found = dp_risk(table([*rows, ("M", 50, "Flu")]), {"uniform": "0.6"}, **settings, top=20)
    assert [(group.size, group.values[0].value) for group in found.top] == [(1, "Flu")]


def test_values_above_their_limit_come_first() -> None:
    """Cold is often pinned, and wrongly; HIV hardly ever, but rightly."""
    rows: list[tuple[str | None, int, str]] = [("F", 1, value) for value in ["Cold"] * 50 + ["Flu"] * 48 + ["HIV"] * 2]
    limits = {"HIV": "0.019", "Cold": "0.51", "Flu": 1}
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "epsilons": [0.1], "draws": 500}
    group = dp_risk(table(rows), limits, **settings).top[0]
    assert [(value.value, value.above) for value in group.values[:2]] == [("HIV", True), ("Cold", False)]
    assert group.values[0].pinned[0] * 2 < group.values[1].pinned[0] * 50


def test_a_group_with_many_values_lists_those_with_most_people_pinned() -> None:
    rows: list[tuple[str | None, int, str]] = [("F", 1, f"v{i:02}") for i in range(15) for _ in range(i + 1)]
    found = dp_risk(
        table(rows), {"uniform": "0.1"}, sensitive="Disease", quasi_identifiers=["Age"], epsilons=[1], draws=200
    )
    assert len(found.top[0].values) == 10
    assert found.top[0].more_values == 5
    assert found.top[0].values[0].value == "v14"


def test_a_predicate_is_one_group() -> None:
    found = risk(quasi_identifiers=(), where="Age >= 40 AND (Gender IS NULL OR Gender <> 'F')")
    assert (found.groups, found.exact, found.epsilons, found.sizes, found.top) == (0, None, (), (), ())
    group = found.predicate
    assert group is not None
    assert (group.size, group.group, group.more_values) == (66, None, 0)
    assert {value.value: value.count for value in group.values} == {"HIV": 9, "Flu": 19, "Cold": 38}
    for value in group.values:
        for ratio, chance in zip(value.ratios, value.pinned, strict=True):
            b = 1 / ratio.epsilon
            assert ratio.mean == pytest.approx(value.count / 66 * (1 + 2 * b * b / 66**2))
            assert ratio.variance == pytest.approx(2 * b * b / 66**2 * (1 + (value.count / 66) ** 2))
            assert quantile(0.4, 66, value.count, b) < ratio.median < quantile(0.6, 66, value.count, b)
            limit = float(value.limit)
            expected = claimed_above(limit, 66, value.count, b) if limit < 1 else 0.0
            assert chance == pytest.approx(expected, abs=0.06)


def test_a_predicate_beside_the_groups() -> None:
    found = risk(where="Age = 40")
    assert found.groups == 4
    assert found.predicate is not None
    assert found.predicate.size == 6


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("Disease = 'HIV'", QueryError),
        ("Age > 1000", QueryError),
        ("Age + 1", QueryError),
        ("(SELECT 1) = 1", QueryError),
        ("Agee > 1", NoSuchColumnError),
        ("Gender > 5", QueryError),
    ],
)
def test_predicates_that_cannot_be(where: str, kind: type[DaleniusError]) -> None:
    with pytest.raises(kind) as caught:
        risk(where=where)
    assert "release" not in caught.value.message


def test_nulls_have_to_be_named() -> None:
    rows = pa.table({"Age": [1, 1, 2, 2, 2], "Disease": ["Flu", None, "Cold", None, None]})
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "epsilons": [1], "draws": 200}
    with pytest.raises(NullsError):
        dp_risk(rows, {"uniform": 1}, **settings)
    found = dp_risk(rows, {"uniform": "0.6"}, **settings, null_value="none", where="Age = 2", least_shown=1)
    assert found.predicate is not None
    assert {value.value: value.count for value in found.predicate.values} == {"none": 2, "Cold": 1}
    assert found.exact == pytest.approx(2 / 5)
    assert [group.group for group in found.top] == [{"Age": "2"}]
    named = dp_risk(rows, {"uniform": "0.6"}, **settings, null_value="Flu")
    assert named.exact == pytest.approx(4 / 5)  # a null with Flu is Flu twice


def test_every_kind_of_table_is_read(tmp_path: Path) -> None:
    rows = table()
    database = tmp_path / "store.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
        connection.execute("CREATE TABLE others AS SELECT 1 AS one")
        connection.execute(f"COPY visits TO '{tmp_path / 'visits.csv'}'")
        connection.execute(f"COPY visits TO '{tmp_path / 'visits.parquet'}'")
    del rows
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Gender", "Age"], "epsilons": [1]}
    for source, name in ((database, "visits"), (tmp_path / "visits.csv", None), (tmp_path / "visits.parquet", None)):
        found = dp_risk(source, LIMITS, **settings, draws=200, table=name)
        assert (found.people, found.groups) == (68, 4)
        assert found.exact == pytest.approx(5 / 68)


def test_a_release_pins_nobody() -> None:
    counts = ValueCounts.of([("HIV", 10), ("Flu", 19), ("Cold", 39)])
    plan = plan_counts(counts, LimitPolicy.of(values=LIMITS))
    seen = release_view(plan)
    assert seen is not None
    assert seen.risk.above_limit == 0
    limits = dict(zip(plan.problem.values, plan.problem.limits, strict=True))
    assert all(
        share <= limits[value]
        for value, share in zip(plan.problem.values, (own.largest for own in seen.own), strict=True)
    )
    partition = plan.solution.partition
    assert partition is not None
    total = Fraction(0)  # deal the values out by hand
    for row in partition.quotas:
        for group, quota in zip(partition.setting.groups, row, strict=True):
            held = Counter(rank % group.buckets for rank in range(quota))
            total += sum(Fraction(count * count, group.size) for count in held.values())
    assert seen.risk.mean_share == pytest.approx(float(total / counts.total))
    found = risk()
    assert found.release is not None
    assert found.release == seen.risk


def test_without_a_release_the_rest_is_still_there() -> None:
    found = dp_risk(
        table(), {"uniform": "0.3"}, sensitive="Disease", quasi_identifiers=["Age"], epsilons=[1], draws=200
    )
    assert found.release is None
    assert found.top[0].values[0].released is None
    assert any("no F'-private release exists" in note for note in found.notes)
    assert found.exact is not None
    assert found.exact > 0


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"epsilons": []}, UsageError),
        ({"epsilons": [0]}, UsageError),
        ({"epsilons": [1, -0.5]}, UsageError),
        ({"epsilons": [math.nan]}, UsageError),
        ({"epsilons": [math.inf]}, UsageError),
        ({"epsilons": [1e-9]}, UsageError),
        ({"epsilons": [0.1] * 21}, UsageError),
        ({"draws": 10}, UsageError),
        ({"top": -1}, UsageError),
        ({"least_shown": 0}, UsageError),
        ({"quasi_identifiers": []}, UsageError),
        ({"quasi_identifiers": ["Age", "age"]}, NoSuchColumnError),
        ({"quasi_identifiers": ["Age", "Age"]}, UsageError),
        ({"quasi_identifiers": ["Age", "Disease"]}, UsageError),
        ({"quasi_identifiers": ["Ages"]}, NoSuchColumnError),
        ({"sensitive": "Diseas"}, NoSuchColumnError),
    ],
)
def test_wrong_use(changed: dict[str, Any], kind: type[DaleniusError]) -> None:
    with pytest.raises(kind):
        risk(**changed)


def test_limits_must_cover_every_value() -> None:
    with pytest.raises(PolicyError):
        dp_risk(table(), {"HIV": "0.3"}, sensitive="Disease", quasi_identifiers=["Age"], epsilons=[1])


def test_an_epsilon_given_twice_counts_once() -> None:
    assert [entry.epsilon for entry in risk(epsilons=[1, 0.1, 1.0], draws=100).epsilons] == [1.0, 0.1]

"""Cross-tabs and the test of independence, against counts of the same draws and the published table."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import dalenius
from dalenius.analysis.completing import Completion
from dalenius.analysis.cross_tabs import chi_square, cross_tab
from dalenius.analysis.draw_files import tables_of
from dalenius.errors import InputError, UsageError
from dalenius.release.folder import ReleaseFolder, open_release
from tests.analysis.tables import DISEASES, patients, released


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return patients(1500).drop_columns(["name"])


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return released(table, tmp_path_factory.mktemp("cross") / "release", strata="none")


def draws(folder: ReleaseFolder, number: int, seed: int) -> list[pd.DataFrame]:
    return [one.to_pandas() for one in tables_of(Completion(folder, number, seed=seed))]


def test_a_cell_is_the_mean_of_the_same_draws_and_its_interval_is_rubins(folder: ReleaseFolder) -> None:
    found = cross_tab(folder, "ward", "disease", draws=8, seed=5)
    counts = np.array([pd.crosstab(one.ward, one.disease).to_numpy() for one in draws(folder, 8, 5)])
    assert list(found.table.index) == ["north", "south", "west"]
    assert list(found.table.columns) == DISEASES
    assert found.table.to_numpy() == pytest.approx(counts.mean(axis=0))
    deviation = np.sqrt((1 + 1 / 8) * counts.var(axis=0, ddof=1))
    assert found.std_error.to_numpy() == pytest.approx(deviation)
    low = np.floor(np.maximum(counts.mean(axis=0) - stats.t.ppf(0.975, 7) * deviation, 0))
    certain = by_loops(folder, ["ward"], ["disease"])
    least = [[certain.get((ward, disease), (0, 0))[0] for disease in DISEASES] for ward in found.table.index]
    assert found.low.to_numpy() == pytest.approx(np.maximum(low, least))
    assert (found.high.to_numpy() >= counts.mean(axis=0)).all()


def test_margins_are_those_of_the_table(folder: ReleaseFolder, table: pa.Table) -> None:
    found = cross_tab(folder, "ward", "disease", seed=1)
    truth = table.to_pandas()
    assert found.table.sum(axis=1).to_dict() == pytest.approx(truth.ward.value_counts().to_dict())
    assert found.table.sum(axis=0).to_dict() == pytest.approx(truth.disease.value_counts().to_dict())


def test_the_truth_is_within_most_intervals_though_buckets_alone_tell_little(
    folder: ReleaseFolder, table: pa.Table
) -> None:
    truth = pd.crosstab(table["ward"].to_pandas(), table["disease"].to_pandas())
    found = cross_tab(folder, "ward", "disease", seed=2)
    held = (found.low <= truth) & (truth <= found.high)
    assert held.to_numpy().sum() >= 13  # of 15


def by_loops(
    folder: ReleaseFolder, people: list[str], values: list[str], table: str = "st"
) -> dict[tuple[Any, ...], tuple[int, int]]:
    """The least and the most that have some quasi-identifiers and some values, bucket by bucket."""
    name = folder.manifest.columns.bucket
    slots = (folder.kept_together(0) if table == "together" else folder).table(table).to_pandas()  # type: ignore[arg-type]
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for bucket, rows in folder.table("qit").to_pandas().groupby(name):
        having = Counter(rows[people].itertuples(index=False, name=None))
        held = Counter(slots.loc[slots[name] == bucket, values].itertuples(index=False, name=None))
        for (who, a), (what, c) in product(having.items(), held.items()):
            low, high = found.get((*who, *what), (0, 0))
            found[*who, *what] = low + max(0, a + c - len(rows)), high + min(a, c)
    return found


@pytest.fixture(name="endless")
def without_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are endless, unless there is something else that ends them."""
    monkeypatch.setattr("dalenius.analysis.rubin.t_quantile", lambda share, freedom: np.asarray(1e9))


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("turned", [False, True])
def test_intervals_stay_within_what_is_certain(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    monkeypatch.setattr("dalenius.analysis.cross_tabs._PAIRS", 100)
    found = cross_tab(folder, *("disease", "ward") if turned else ("ward", "disease"), draws=20, seed=1)
    some = found.std_error > 0
    for (ward, disease), ends in by_loops(folder, ["ward"], ["disease"]).items():
        at = (disease, ward) if turned else (ward, disease)
        assert some.loc[at]
        assert (found.low.loc[at], found.high.loc[at]) == ends


@pytest.fixture(scope="module")
def treated(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    """Two quasi-identifiers, and two sensitive columns that are kept together."""
    table = patients(500, seed=3)
    old = pa.array(["old" if age >= 50 else "young" for age in table["age"].to_pylist()])
    drug = pa.array(np.random.default_rng(3).choice(["x", "y", "z"], 500).tolist())
    table = table.drop_columns(["name", "age"]).append_column("old", old).append_column("drug", drug)
    options: dict[str, Any] = {"quasi_identifiers": ["ward", "old"], "keep_together": [["disease", "drug"]]}
    target = tmp_path_factory.mktemp("treated") / "release"
    return released(table, target, sensitive=["disease", "drug"], **options)


LAYOUTS = [
    ("ward", ["old", "disease"]),
    (["disease", "old"], "ward"),
    ("disease", ["drug", "ward"]),
    (["ward", "drug"], ["disease", "old"]),
    (["old", "ward"], ["disease", "drug"]),
    ("old", "drug"),
]


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize(("rows", "columns"), LAYOUTS)
def test_what_is_certain_is_so_wherever_columns_stand(treated: ReleaseFolder, rows: Any, columns: Any) -> None:
    found = cross_tab(treated, rows, columns, draws=12, seed=1).tidy()
    people = [name for name in ("ward", "old") if name in found.columns]
    values = [name for name in ("disease", "drug") if name in found.columns]
    certain = by_loops(treated, people, values, "together")
    for line in found.to_dict("records"):
        ends = certain.get(tuple(line[name] for name in [*people, *values]), (0, 0))
        assert ends[0] <= line["low"] <= line["estimate"] <= line["high"] <= ends[1]
        if line["std_error"] > 0:
            assert (line["low"], line["high"]) == ends


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("seed", range(4))
def test_with_fakes_the_quasi_identifiers_alone_are_known(tmp_path: Path, seed: int) -> None:
    """Margins of values are not, though they may agree in a few draws."""
    table = patients(150).drop_columns(["name"])
    folder = released(table, tmp_path / "release", fake_values=1)
    wards = table["ward"].to_pandas().value_counts()
    found = cross_tab(folder, "disease", "ward", draws=2, seed=seed).tidy()
    for line in found[found.std_error > 0].to_dict("records"):
        assert (line["low"], line["high"]) == (0, wards[line["ward"]])


def test_fakes_leave_nothing_certain_but_margins(tmp_path: Path) -> None:
    table = patients(400).drop_columns(["name"])
    folder = released(table, tmp_path / "release", fake_values=1)
    found = cross_tab(folder, "ward", "disease", draws=4, seed=1)
    assert (found.low >= 0).all(axis=None)
    assert (found.high.sum(axis=1) >= found.table.sum(axis=1)).all()


def test_columns_that_are_called_like_figures_keep_their_names(tmp_path: Path) -> None:
    table = patients(400).drop_columns(["name"]).rename_columns(["age", "estimate", "low"])
    folder = released(table, tmp_path / "release", "low")
    lines = cross_tab(folder, "estimate", "low", draws=2, seed=1).tidy()
    assert list(lines.columns) == ["estimate", "low", "estimate_2", "std_error", "low_2", "high"]
    assert set(lines["low"]) == set(DISEASES)


def test_a_population_is_known_less_well_than_a_table(folder: ReleaseFolder) -> None:
    own = cross_tab(folder, "ward", "disease", seed=3)
    wider = cross_tab(folder, "ward", "disease", target="population", seed=3)
    people = own.table.to_numpy().sum()
    shares = (own.table.to_numpy() + 2) / (people + 4)
    expected = np.sqrt(own.std_error.to_numpy() ** 2 + people * shares * (1 - shares))
    assert wider.table.equals(own.table)
    assert wider.std_error.to_numpy() == pytest.approx(expected)


def test_what_nobody_of_a_sample_has_some_of_a_population_may(tmp_path: Path) -> None:
    """The drug goes by the disease, and both are kept together: so all draws agree."""
    table = patients(400).drop_columns(["name"])
    table = table.append_column("drug", pa.array([f"for {one[0]}" for one in table["disease"].to_pylist()]))
    options: dict[str, Any] = {"quasi_identifiers": ["age", "ward"], "keep_together": [["disease", "drug"]]}
    kept = released(table, tmp_path / "kept", sensitive=["disease", "drug"], **options)
    found = cross_tab(kept, "drug", "disease", target="population", draws=3, seed=1)
    none = found.table.to_numpy() == 0
    assert none.sum() == 20
    highs = found.high.to_numpy()[none]
    assert ((1 - highs / 400) ** 400 < 0.1).all()  # so many of a population, and none of a sample: that is rare
    assert (highs < 10).all()


@pytest.mark.usefixtures("endless")
def test_counts_of_a_population_are_those_of_as_many_people(folder: ReleaseFolder) -> None:
    found = cross_tab(folder, "ward", "disease", target="population", draws=3, seed=1)
    assert (found.low == 0).all(axis=None)
    assert (found.high == 1500).all(axis=None)


def test_tidy_lines_have_the_cells_of_several_columns(folder: ReleaseFolder) -> None:
    found = cross_tab(folder, ["age", "ward"], "disease", bins={"age": [40, 60]}, draws=4, seed=4)
    lines = found.tidy()
    assert list(lines.columns) == ["age", "ward", "disease", "estimate", "std_error", "low", "high"]
    assert len(lines) == 3 * 3 * 5
    assert set(lines.age) == {"20 to 39", "40 to 59", "60 to 79"}
    for line in lines.to_dict("records"):
        assert line["estimate"] == found.table.loc[(line["age"], line["ward"]), line["disease"]]


def test_ranges_with_as_many_rows_each_are_in_the_order_of_numbers(folder: ReleaseFolder) -> None:
    found = cross_tab(folder, "age", "disease", bins={"age": 3}, draws=3, seed=4)
    begins = [int(label.split(" to ")[0]) for label in found.table.index]
    assert begins == sorted(begins)
    assert found.table.sum(axis=1).to_numpy() == pytest.approx(500, abs=60)


def test_nulls_booleans_and_dates_are_values_of_a_column(tmp_path: Path) -> None:
    rows = 300
    random = np.random.default_rng(3)
    wards = random.choice(np.array(["null", "x", None], dtype=object), rows)
    days = [date(2020, 1 + int(month), 1) for month in random.integers(0, 3, rows)]
    table = pa.table(
        {
            "ward": pa.array(wards.tolist()),
            "day": pa.array(days),
            "old": pa.array(random.random(rows) < 0.5),
            "disease": pa.array(random.choice(DISEASES, rows).tolist()),
        }
    )
    folder = released(table, tmp_path / "r")
    assert list(cross_tab(folder, "ward", "disease", draws=2, seed=1).table.index) == ["null", "x", "null (no value)"]
    assert list(cross_tab(folder, "day", "disease", draws=2, seed=1).table.index) == [
        date(2020, month, 1) for month in (1, 2, 3)
    ]
    assert list(cross_tab(folder, "old", "disease", draws=2, seed=1).table.index) == [False, True]


def test_nans_are_nulls(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    sizes = random.choice(np.array([2.5, np.nan, 1.5, None], dtype=object), 400).tolist()
    scores = random.choice([30.0, np.nan, 10.0, 20.0], 400).tolist()
    table = pa.table({"size": pa.array(sizes, pa.float64()), "score": pa.array(scores)})
    folder = released(table, tmp_path / "r", "score")
    found = cross_tab(folder, "size", "score", draws=3, seed=1).table
    assert list(found.index) == [1.5, 2.5, "null"]
    assert list(found.columns) == [10, 20, 30, "null"]
    assert found.loc["null"].sum() == pytest.approx(sum(one is None or one != one for one in sizes))
    assert found["null"].sum() == pytest.approx(np.isnan(scores).sum())
    ranges = cross_tab(folder, "size", "score", bins={"size": 2, "score": [15]}, draws=3, seed=1).table
    assert list(ranges.index) == ["1.5", "2.5", "null"]
    assert list(ranges.columns) == ["10", "20 to 30", "null"]


@pytest.mark.parametrize(
    ("first", "kind"),
    [(2**63, pa.uint64()), (-(2**63), pa.int64()), (10**15, pa.float64()), (10**25, pa.decimal128(28, 1))],
)
def test_whole_numbers_keep_their_digits_in_ranges(tmp_path: Path, first: int, kind: pa.DataType) -> None:
    numbers = [Decimal(first + place % 6) for place in range(240)]
    cells = pa.array(numbers, kind) if pa.types.is_decimal(kind) else pa.array([int(one) for one in numbers], kind)
    table = pa.table({"number": cells, "disease": (DISEASES * 48)})
    found = cross_tab(released(table, tmp_path / "r"), "number", "disease", bins={"number": 3}, draws=2, seed=1)
    assert list(found.table.index) == [f"{first + place} to {first + place + 1}" for place in (0, 2, 4)]


@pytest.mark.parametrize(
    ("rows", "columns", "bins", "said"),
    [
        ("ward", "ward", {}, "different columns"),
        ("ward", "age", {}, "quasi-identifiers alone"),
        ("ward", "disease", {"age": 3}, "not in the cross-tab"),
        ("ward", "disease", {"ward": 3}, "has no numbers"),
        ("age", "disease", {"age": 1}, "cannot be put into 1 ranges"),
        ("age", "disease", {"age": [60, 40]}, "do not ascend"),
        ("ward", [], {}, "different columns"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    folder: ReleaseFolder, rows: str, columns: str, bins: dict[str, int], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        cross_tab(folder, rows, columns, bins=bins, draws=2)


@pytest.mark.parametrize(
    ("bins", "said"),
    [
        (4, "bins are for named columns"),
        ({"age": "30,50"}, "cannot be put into these ranges"),
        ({"age": 3.5}, "cannot be put into these ranges"),
        ({"age": [30, float("nan")]}, "do not ascend"),
        ({"age": [30, float("inf")]}, "do not ascend"),
        ({"age": [50, 30]}, "do not ascend"),
    ],
)
def test_bins_that_make_no_sense_are_refused(folder: ReleaseFolder, bins: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cross_tab(folder, "age", "disease", bins=bins, draws=2)


def test_numbers_of_numpy_are_numbers(folder: ReleaseFolder) -> None:
    found = cross_tab(folder, "age", "disease", bins={"age": np.int64(3)}, draws=np.int64(2), seed=np.int64(1))  # type: ignore[dict-item, arg-type]
    assert len(found.table) == 3


def test_an_unknown_column_is_named_with_the_nearest(folder: ReleaseFolder) -> None:
    with pytest.raises(InputError, match="Did you mean 'ward'"):
        cross_tab(folder, "wart", "disease", draws=2)


def test_numbers_with_many_values_want_ranges(tmp_path: Path) -> None:
    table = pa.table({"income": list(range(2000)), "disease": DISEASES * 400})
    folder = released(table, tmp_path / "r", strata="none")
    with pytest.raises(UsageError, match=r"2,000 different values.*\n.*bins=\{'income': 8\}"):
        cross_tab(folder, "income", "disease", draws=2)


def test_a_whole_table_is_chi_square_as_usual() -> None:
    counts = np.array([[30.0, 14, 6], [18, 22, 30]])
    found = chi_square([counts, counts, counts], ())
    assert found is not None
    usual = stats.chi2_contingency(counts, correction=False)
    ratio = stats.chi2_contingency(counts, correction=False, lambda_="log-likelihood")
    assert found.chi2 == pytest.approx(usual.statistic)
    assert found.interval == pytest.approx((usual.statistic, usual.statistic))
    assert found.dof == usual.dof
    assert found.p_value == pytest.approx(ratio.pvalue)
    assert found.missing == 0
    assert found.cramers_v == pytest.approx(np.sqrt(usual.statistic / 120))


def test_values_that_nobody_has_take_no_part_in_a_test() -> None:
    counts = np.array([[30.0, 0, 6], [18, 0, 30]])
    found = chi_square([counts, counts], ())
    assert found is not None
    assert found.dof == 1
    assert chi_square([counts[:1], counts[:1]], ()) is None


def test_where_nothing_goes_together_p_values_are_as_often_below_a_level_as_it_says() -> None:
    """What half of the people have is unknown, and drawn with shares that the other half could be behind."""
    random, p_values = np.random.default_rng(11), []
    for _ in range(400):
        row, column = random.integers(0, 2, 800), random.integers(0, 3, 800)
        known = np.bincount(row[:400] * 3 + column[:400], minlength=6).reshape(2, 3)
        tables = []
        for _ in range(10):
            shares = [random.dirichlet(own + 0.5) for own in known]
            drawn = [random.multinomial((row[400:] == place).sum(), own) for place, own in enumerate(shares)]
            tables.append((known + np.array(drawn)).astype(float))
        found = chi_square(tables, ())
        assert found is not None
        p_values.append(found.p_value)
    for level in (0.05, 0.2, 0.5, 0.8):
        below = float(np.mean(np.array(p_values) < level))
        assert below == pytest.approx(level, abs=3.5 * (level * (1 - level) / 400) ** 0.5)


def test_what_goes_together_is_found_again(folder: ReleaseFolder, table: pa.Table) -> None:
    truth = stats.chi2_contingency(pd.crosstab(table["ward"].to_pandas(), table["disease"].to_pandas()))
    found = cross_tab(folder, "ward", "disease", seed=6).chi2
    assert found is not None
    assert found.interval[0] <= truth.statistic <= found.interval[1]
    assert found.p_value < 1e-6
    assert found.dof == truth.dof
    assert f"chi2 {found.chi2:,.1f}" in repr(found)


def test_columns_that_are_published_apart_are_not_put_together(tmp_path: Path) -> None:
    table = patients(400).drop_columns(["name"])
    table = table.append_column("drug", pa.array(["a", "b"] * 200))
    apart = released(table, tmp_path / "apart", sensitive=["disease", "drug"], quasi_identifiers=["age", "ward"])
    with pytest.raises(UsageError, match="published apart"):
        cross_tab(apart, "drug", "disease", draws=2)
    options: dict[str, Any] = {"quasi_identifiers": ["age", "ward"], "keep_together": [["disease", "drug"]]}
    kept = released(table, tmp_path / "kept", sensitive=["disease", "drug"], **options)
    found = cross_tab(kept, "drug", "disease", draws=3, seed=1)
    truth = pd.crosstab(table["drug"].to_pandas(), table["disease"].to_pandas())
    assert (found.table.to_numpy() == truth.to_numpy()).all()
    assert (found.low.to_numpy() == found.high.to_numpy()).all()


def test_values_are_put_into_the_groups_that_they_were_released_with(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    codes = random.choice(["A1", "A2", "B1", "B2", "?"], 600, p=[0.3, 0.2, 0.25, 0.2, 0.05]).tolist()
    table = pa.table({"ward": random.choice(["n", "s"], 600).tolist(), "code": codes})
    grouping = {"tree": {"alpha": ["A1", "A2"], "beta": ["B1", "B2"]}, "ungrouped": ["?"]}
    options: dict[str, Any] = {"sensitive": "code", "quasi_identifiers": ["ward"], "seed": 1, "out": tmp_path / "r"}
    dalenius.publish(table, {"odds": 4, "grouping": grouping}, **options)
    folder = open_release(tmp_path / "r")
    codes_alone = cross_tab(folder, "ward", "code", draws=4, seed=1)
    groups = cross_tab(folder, "ward", "code", levels={"code": "group"}, draws=4, seed=1)
    assert list(groups.table.columns) == ["?", "alpha", "beta"]
    for name, members in {"alpha": ["A1", "A2"], "beta": ["B1", "B2"], "?": ["?"]}.items():
        assert groups.table[name].to_numpy() == pytest.approx(codes_alone.table[members].sum(axis=1).to_numpy())
    with pytest.raises(UsageError, match=r"no level 'groups'\nDid you mean 'group'"):
        cross_tab(folder, "ward", "code", levels={"code": "groups"}, draws=2)
    with pytest.raises(UsageError, match="levels are for the groups of sensitive columns"):
        cross_tab(folder, "ward", "code", levels={"ward": "group"}, draws=2)


def test_numbers_are_put_into_their_bands(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    incomes = random.integers(0, 900, 500)
    table = pa.table({"ward": random.choice(["n", "s"], 500).tolist(), "income": incomes})
    limits = {"odds": 4, "grouping": {"cuts": [200, 500]}}
    options: dict[str, Any] = {"sensitive": "income", "quasi_identifiers": ["ward"], "seed": 1, "out": tmp_path / "r"}
    dalenius.publish(table, limits, **options)
    found = cross_tab(open_release(tmp_path / "r"), "ward", "income", levels={"income": "band"}, draws=3, seed=1)
    expected = {"below 200": (incomes < 200).sum(), "500 and above": (incomes >= 500).sum()}
    assert {name: found.table[name].sum() for name in expected} == pytest.approx(expected)
    assert list(found.table.columns) == ["below 200", "200 to below 500", "500 and above"]
    assert found.table.shape == (2, 3)


@pytest.mark.parametrize("bins", [{"ward": 4}, {"age": [50, 30]}, {"age": 1}])
def test_ranges_that_cannot_be_are_refused_before_anything_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bins: Any
) -> None:
    folder = released(patients(200), tmp_path / "r")
    monkeypatch.setattr("dalenius.analysis.learned.fit", None)
    with pytest.raises(UsageError, match=r"ward|age"):
        cross_tab(folder, next(iter(bins)), "disease", bins=bins, draws=2)

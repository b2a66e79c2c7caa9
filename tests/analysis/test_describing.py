"""Means and quantiles by group, against those of the same draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dalenius
from dalenius.analysis.completing import Completion
from dalenius.analysis.describing import describe
from dalenius.analysis.draw_files import tables_of
from dalenius.errors import UsageError
from dalenius.release.folder import ReleaseFolder, open_release
from tests.analysis.tables import patients, released


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random = np.random.default_rng(4)
    age, ward = random.integers(20, 80, 2000), random.integers(0, 3, 2000)
    income = (random.gamma(4, 200, 2000) * (1 + ward) + 10 * age).round().astype(int)
    return pa.table({"age": age, "ward": np.array(["north", "south", "west"])[ward], "income": income})


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:

    path = tmp_path_factory.mktemp("describe") / "release"
    limits = {"odds": 4, "grouping": {"cuts": [900, 1400, 2000, 2600, 3600]}}
    options: dict[str, Any] = {"sensitive": "income", "quasi_identifiers": ["age", "ward"], "strata": "none"}
    dalenius.publish(table, limits, **options, seed=1, out=path)
    return open_release(path)


def _median(numbers: pd.Series) -> int:
    return int(np.sort(numbers)[int(np.ceil(len(numbers) / 2)) - 1])


def test_figures_are_those_of_the_same_draws(folder: ReleaseFolder) -> None:
    found = describe(folder, by="ward", quantiles=(0.5,), draws=6, seed=3)
    draws = [one.to_pandas() for one in tables_of(Completion(folder, 6, seed=3))]
    means = pd.concat([one.groupby("ward", observed=True).income.mean() for one in draws], axis=1)
    own = found[found.statistic == "mean"].set_index("ward")
    assert own.estimate.to_dict() == pytest.approx(means.mean(axis=1).to_dict())
    assert own.std_error.to_dict() == pytest.approx(np.sqrt((1 + 1 / 6) * means.var(axis=1)).to_dict())
    medians = [one.groupby("ward", observed=True).income.apply(_median) for one in draws]
    own = found[found.statistic == "quantile 0.5"].set_index("ward")
    assert own.estimate.to_dict() == pytest.approx(pd.concat(medians, axis=1).mean(axis=1).to_dict())
    assert own.records.sum() == 2000


def test_the_truth_is_within_intervals(folder: ReleaseFolder, table: pa.Table) -> None:
    found = describe(folder, by="ward", seed=5)
    truth = table.to_pandas().groupby("ward").income
    within = [
        line["low"] <= truth.get_group(line["ward"]).mean() <= line["high"]
        for line in found[found.statistic == "mean"].to_dict("records")
    ]
    assert sum(within) >= 2
    means = found[found.statistic == "mean"].set_index("ward").estimate
    assert means["west"] > 1.6 * means["north"]  # it is about 2.2 times


def test_everybody_together_is_known_exactly(folder: ReleaseFolder, table: pa.Table) -> None:
    found = describe(folder, quantiles=(0, 0.5, 1), draws=3, seed=1).set_index("statistic")
    income = np.sort(table["income"].to_numpy())
    assert found.estimate.to_dict() == pytest.approx(
        {"mean": income.mean(), "quantile 0": income[0], "quantile 0.5": income[999], "quantile 1": income[-1]}
    )
    assert (found.low == found.high).all()


def test_a_population_is_known_as_well_as_its_sample(folder: ReleaseFolder, table: pa.Table) -> None:
    found = describe(folder, target="population", draws=3, seed=1).set_index("statistic")
    income = table["income"].to_numpy()
    assert found.std_error["mean"] == pytest.approx(income.std(ddof=1) / np.sqrt(2000), rel=1e-6)
    low, high = np.quantile(income, [0.5 - 0.5 / np.sqrt(2000), 0.5 + 0.5 / np.sqrt(2000)])
    assert found.std_error["quantile 0.5"] == pytest.approx((high - low) / 2, rel=0.1)


def test_only_numbers_are_described(tmp_path: Path) -> None:
    folder = released(patients(200).drop_columns(["name"]), tmp_path / "r")
    with pytest.raises(UsageError, match="'disease' has no numbers"):
        describe(folder, draws=2)


def test_wrong_questions_are_refused(folder: ReleaseFolder) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        describe(folder, quantiles=(50,), draws=2)
    with pytest.raises(UsageError, match="one sensitive column"):
        describe(folder, "ward", draws=2)
    with pytest.raises(UsageError, match="no target 'sample'"):
        describe(folder, target="sample", draws=2)  # type: ignore[arg-type]


def test_the_ends_of_a_population_are_not_known(folder: ReleaseFolder) -> None:
    with pytest.raises(UsageError, match="not to be learned from a sample"):
        describe(folder, quantiles=(0, 0.5), target="population", draws=2)


def test_groups_of_one_have_no_standard_error_as_samples(tmp_path: Path) -> None:
    ages = [20] * 60 + [90]
    table = pa.table({"age": ages, "income": [place % 20 for place in range(61)]})
    folder = released(table, tmp_path / "r", "income")
    found = describe(folder, by="age", target="population", draws=3, seed=1).set_index(["age", "statistic"])
    assert found.records.loc[(90, "mean")] == 1
    assert np.isnan(found.std_error.loc[(90, "mean")])
    assert found.std_error.loc[(20, "mean")] > 0


def test_notes_and_columns_called_like_figures_are_kept(tmp_path: Path) -> None:
    table = pa.table({"estimate": ["a", "b"] * 100, "income": [place % 20 for place in range(200)]})
    found = describe(released(table, tmp_path / "r", "income"), by="estimate", draws=2, seed=1)
    assert set(found["estimate"]) == {"a", "b"}
    assert found.loc[found.statistic == "mean", "estimate_2"].mean() == pytest.approx(9.5)
    assert isinstance(found.attrs["notes"], list)


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    """Two in five have no number: some a null, and some a NaN. Of most villages there are but two people."""
    random = np.random.default_rng(6)
    cells = random.choice(np.array([10.0, 20, 40, None, np.nan], dtype=object), 200).tolist()
    village = [f"village {place // 2}" if place < 60 else "town" for place in range(200)]
    table = pa.table({"village": village, "pay": pa.array(cells, pa.float64())})
    sensitive = [{"columns": ["pay"], "null_value": "unknown"}]
    return released(table, tmp_path_factory.mktemp("paid") / "release", sensitive, quasi_identifiers=["village"])


def test_whoever_has_no_number_is_left_out_and_a_note_says_how_many(paid: ReleaseFolder) -> None:
    found = describe(paid, by="village", quantiles=(), draws=6, seed=2)
    draws = [one.to_pandas() for one in tables_of(Completion(paid, 6, seed=2))]
    means = pd.concat([one.groupby("village", observed=False).pay.mean() for one in draws], axis=1)  # without NaN
    whole = means[means.notna().all(axis=1)]
    assert 2 < len(whole) < len(means)
    assert found.set_index("village").estimate.to_dict() == pytest.approx(whole.mean(axis=1).to_dict())
    without = np.mean([one.pay.isna().sum() for one in draws])
    notes = "\n".join(found.attrs["notes"])
    assert f"{without:g} records without a number are left out" in notes
    assert f"{len(means) - len(whole)} groups are left out: in some draws nobody there has a number." in notes


def test_intervals_hold_their_estimates_to_the_last_digit(tmp_path: Path) -> None:
    table = pa.table({"old": [True, False] * 60, "pay": [0.1] * 60 + [0.3] * 60})
    found = describe(released(table, tmp_path / "r", "pay"), by="old", draws=3, seed=1)
    assert ((found.low <= found.estimate) & (found.estimate <= found.high)).all()


def test_nothing_is_said_of_records_where_all_have_numbers(folder: ReleaseFolder) -> None:
    assert not any("left out" in note for note in describe(folder, by="ward", draws=2, seed=1).attrs["notes"])


def test_intervals_of_a_table_stay_among_its_numbers(
    folder: ReleaseFolder, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dalenius.analysis.rubin.t_quantile", lambda share, freedom: np.asarray(1e9))
    found = describe(folder, by="ward", draws=4, seed=1)
    some = found[found.std_error > 0]
    assert len(some) > 6
    assert set(some.low) == {min(table["income"].to_pylist())}
    assert set(some.high) == {max(table["income"].to_pylist())}
    assert (describe(folder, by="ward", draws=4, seed=1, target="population").low < 0).any()


@pytest.mark.parametrize("quantiles", [0.5, np.float64(0.5), [0.5], np.array([0.5])])
def test_one_quantile_is_as_good_as_several(folder: ReleaseFolder, quantiles: Any) -> None:
    assert list(describe(folder, quantiles=quantiles, draws=2, seed=1).statistic) == ["mean", "quantile 0.5"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quantiles": ["x"]}, "quantiles are given as numbers"),
        ({"quantiles": "x"}, "quantiles are given as numbers"),
        ({"quantiles": None}, "quantiles are given as numbers"),
        ({"quantiles": [float("nan")]}, "between 0 and 1"),
        ({"by": ["ward", "ward"]}, "different columns"),
        ({"by": "ward", "bins": {"age": 3}}, "not in the groups"),
        ({"by": "ward", "bins": {"income": 3}}, "not in the groups"),
    ],
)
def test_what_makes_no_sense_is_refused(folder: ReleaseFolder, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        describe(folder, draws=2, **options)


def test_of_several_sensitive_columns_one_is_named(tmp_path: Path) -> None:
    table = pa.table({"age": [20, 30] * 60, "pay": [1, 2, 3, 4] * 30, "rent": [5, 6, 7] * 40})
    folder = released(table, tmp_path / "r", ["pay", "rent"])
    with pytest.raises(UsageError, match=r"2 sensitive columns.*\n.*'pay', 'rent'"):
        describe(folder, by="age", draws=2)
    assert len(describe(folder, "rent", quantiles=(), draws=2, seed=1)) == 1

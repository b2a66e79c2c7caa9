"""The price of strata is told without a release, and is the one that a release then has."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.errors import NoSolutionError, UsageError
from dalenius.model.plan import PlanOptions
from dalenius.policy.roles import Roles
from dalenius.publishing import stratify
from dalenius.publishing.arrangement import StrataPrice
from dalenius.publishing.flow import price_strata
from dalenius.publishing.options import PublishOptions, PublishRequest
from dalenius.strata.worth import expected_error

ROLES = Roles("s", ("place", "age"))
LIMITS = {"theta": 3, "base": "0.1"}


def table(rows: int = 4000) -> pa.Table:
    """The sensitive value goes with the place, and has nothing to do with the age."""
    rng = np.random.default_rng(4)
    place = rng.integers(0, 3, rows)
    return pa.table(
        {
            "place": pa.array(place),
            "age": pa.array(rng.integers(20, 90, rows)),
            "s": pa.array((place * 2 + rng.integers(0, 5, rows)) % 7),
        }
    )


def priced(strata: Any, source: Any = None, **solving: Any) -> StrataPrice:
    options = PublishOptions(strata=strata, seed=1)
    source = table() if source is None else source
    return price_strata(
        PublishRequest(table=source, roles=ROLES, limits=LIMITS, solving=PlanOptions(**solving), options=options)
    )


def published(strata: Any, out: Path, **solving: Any) -> dalenius.Release:
    return dalenius.publish(
        table(), LIMITS, sensitive="s", quasi_identifiers=["place", "age"], strata=strata, seed=1, out=out, **solving
    )


@pytest.mark.parametrize("strata", ["auto", 2, ["place"]])
@pytest.mark.parametrize("solving", [{}, {"known_records": 1, "fake_values": 1}], ids=["plain", "protected"])
def test_it_is_what_a_release_then_costs(strata: Any, solving: dict[str, int], tmp_path: Path) -> None:
    price = priced(strata, **solving)
    release = published(strata, tmp_path / "strata", **solving)
    one = published("none", tmp_path / "one", **solving)
    found = release.manifest.strata
    assert price.strata == (len(found.strata) if found is not None else 1)
    assert (price.loss, price.mse) == (release.manifest.loss, release.manifest.mse)
    assert (price.loss_of_one, price.mse_of_one) == (one.manifest.loss, one.manifest.mse)
    assert price.columns == (("place",) if found is not None else ())
    assert set(price.sentences) <= set(release.notes)
    assert asdict(price)["columns"] == price.columns


def test_without_strata_there_is_nothing_to_pay() -> None:
    price = priced("none")
    assert (price.strata, price.columns, price.sentences) == (1, (), ())
    assert price.loss == price.loss_of_one


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "table.csv"
    table(500).to_pandas().to_csv(source, index=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "here"))
    assert priced(["place"], source).strata == 3
    assert list((tmp_path / "here").iterdir()) == []
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["here", "table.csv"]


def test_a_table_that_is_not_cut_says_so() -> None:
    rng = np.random.default_rng(2)
    same = pa.table({"place": pa.array(rng.integers(0, 2, 400)), "age": [30] * 400, "s": pa.array(np.arange(400) % 5)})
    price = priced(2, same)
    assert price.strata == 1
    assert "not cut" in price.sentences[0]


def test_what_publishing_refuses_has_no_price() -> None:
    with pytest.raises(UsageError, match="not one of them"):
        priced(["s"])
    with pytest.raises(NoSolutionError):
        price_strata(PublishRequest(table=table(), roles=ROLES, limits={"uniform": "0.01"}))


class TestStrataHaveToBeWorthIt:
    """`auto` gives up strata that do not make counts better; those that were asked for stay."""

    @pytest.fixture
    def errors(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
        """Every expected error that was worked out, with the number of strata."""
        worked_out: list[tuple[int, float]] = []

        def spy(counts: Any, of_leaf: Any, partitions: Any) -> float:
            worked_out.append((len(partitions), expected_error(counts, of_leaf, partitions)))
            return worked_out[-1][1]

        monkeypatch.setattr(stratify, "expected_error", spy)
        return worked_out

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("strength", [0.02, 0.1, 0.4], ids=["hardly", "somewhat", "strongly"])
    def test_the_expected_error_is_never_above_that_of_one_stratum(
        self, errors: list[tuple[int, float]], seed: int, strength: float
    ) -> None:
        rng = np.random.default_rng(seed)
        place, rows = rng.integers(0, 40, 6000), 6000
        goes_with = rng.random(rows) < strength
        values = np.where(goes_with, place % 7, np.minimum(rng.geometric(0.5, rows), 7) - 1)
        source = pa.table({"place": place, "age": rng.integers(20, 90, rows), "s": values})
        price = priced("auto", source)
        by_number = dict(errors)
        if price.strata > 1:
            assert by_number[price.strata] < 0.95 * by_number[1]
        elif errors:
            assert min(by_number.values()) >= 0.9 * by_number[1]
        if price.mse_of_one and price.mse > 3 * price.mse_of_one:
            assert by_number[price.strata] < 0.9 * by_number[1]

    def test_fewer_strata_are_taken_where_those_are_better(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(4)
        place = rng.integers(0, 8, 8000)
        source = pa.table(
            {"place": place, "age": rng.integers(20, 90, 8000), "s": (place + rng.integers(0, 4, 8000)) % 8}
        )
        everything = priced("auto", source).strata
        monkeypatch.setattr(stratify, "expected_error", lambda _counts, _of_leaf, parts: abs(len(parts) - 4) + 0.1)
        price = priced("auto", source)
        assert (everything, price.strata) == (8, 4)
        assert "strata were reduced from 8 to 4: counts would not be better with more" in price.sentences

    def test_none_are_taken_where_none_are_better(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(stratify, "expected_error", lambda _counts, _of_leaf, _partitions: 1.0)
        price = priced("auto", table(8000))
        sentence = "the table was not cut: counts would not be better with the 3 strata found"
        assert (price.strata, price.columns, price.sentences) == (1, (), (sentence,))
        assert (price.loss, price.mse) == (price.loss_of_one, price.mse_of_one)
        assert priced(3, table(8000)).strata == priced(["place"], table(8000)).strata == 3
        release = dalenius.publish(
            table(8000), LIMITS, sensitive="s", quasi_identifiers=["place", "age"], seed=1, out=tmp_path / "one"
        )
        assert release.manifest.strata is None
        assert sentence in release.notes

    def test_a_table_without_loss_is_not_cut(self) -> None:
        source = table(8000)
        request = PublishRequest(
            table=source,
            roles=ROLES,
            limits=dict.fromkeys(map(str, range(7)), 1),
            solving=PlanOptions(min_size=1),
            options=PublishOptions(strata="auto"),
        )
        assert (price_strata(request).strata, price_strata(request).loss) == (1, 0)


class TestColumnsThatAreNearlyKeys:
    """Sorted by value, a row number tells it: what is learned from it is about single people."""

    def sorted_table(self, column: Any) -> pa.Table:
        source = table(8000).sort_by("s")
        return source.set_column(1, "age", pa.array(column))

    @pytest.mark.parametrize(
        "column",
        [
            np.arange(8000),
            np.linspace(0, 1, 8000),
            np.arange(8000).astype("datetime64[D]"),
            np.char.zfill(np.arange(8000).astype(str), 5),
            np.arange(8000) // 100 * 100 + np.minimum(np.arange(8000) % 100, 92),  # 7 of 100 are shared
        ],
        ids=["numbers", "floats", "dates", "texts", "nearly"],
    )
    def test_they_do_not_cut(self, column: Any) -> None:
        assert "age" not in priced("auto", self.sorted_table(column)).columns
        assert "age" not in priced(4, self.sorted_table(column)).columns

    def test_columns_with_many_values_that_are_shared_do(self) -> None:
        assert "age" in priced(4, self.sorted_table(np.arange(8000) // 2)).columns

    def test_they_do_if_they_are_named(self) -> None:
        assert priced(["age"], self.sorted_table(np.arange(8000)).slice(3000, 1200)).columns == ("age",)

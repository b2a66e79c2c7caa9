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
from dalenius.publishing.arrangement import StrataPrice
from dalenius.publishing.flow import price_strata
from dalenius.publishing.options import PublishOptions, PublishRequest

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

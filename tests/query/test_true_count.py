"""True counts beside estimates, against pandas on the table itself."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dalenius
from dalenius.errors import DaleniusError, InputError, NoSuchColumnError, QueryError
from dalenius.query.count import Counter
from dalenius.query.true_count import true_count, true_counts_of
from dalenius.release.folder import open_release

ROWS = 600
QUASI_IDENTIFIERS = ["Age", "Zip code", "Seen", "Weight", "Member"]


def people(seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    day = datetime.date(2024, 1, 1)
    return pd.DataFrame(
        {
            "Age": rng.integers(20, 60, ROWS),
            "Zip code": [f"0{code}" for code in rng.integers(1000, 1010, ROWS)],
            "Seen": [day + datetime.timedelta(days=int(shift)) for shift in rng.integers(0, 30, ROWS)],
            "Weight": [f"{kilo:.1f}" for kilo in rng.integers(500, 900, ROWS) / 10],
            "Member": rng.random(ROWS) < 0.5,
            "Disease": rng.choice(["Flu", "it's <b>HIV</b>", "Cold", "Gout"], ROWS, p=[0.4, 0.1, 0.3, 0.2]),
        }
    )


@pytest.fixture(scope="module", params=["csv", "parquet", "duckdb"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Counter]]:
    """The table as a file of each kind, and the release that was made of it, open for counting."""
    folder, frame = tmp_path_factory.mktemp("people"), people()
    path = folder / f"people.{request.param}"
    if request.param == "csv":
        frame.assign(Member=frame["Member"].map({True: "true", False: "false"})).to_csv(path, index=False)
    elif request.param == "parquet":
        frame.to_parquet(path)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    dalenius.publish(
        path,
        {"uniform": "1/2"},
        sensitive="Disease",
        quasi_identifiers=QUASI_IDENTIFIERS,
        out=folder / "release",
        format="csv" if request.param == "duckdb" else "parquet",
        strata="none",
    )
    with Counter(open_release(folder / "release")) as counter:
        yield path, counter


CONDITIONS = {
    "Age > 40": lambda f: f["Age"] > 40,
    "Disease = 'it''s <b>HIV</b>' AND Age BETWEEN 30 AND 39": lambda f: (
        (f["Disease"] == "it's <b>HIV</b>") & f["Age"].between(30, 39)
    ),
    "\"Zip code\" IN ('01001', '01002') OR Disease = 'Flu'": lambda f: (
        f["Zip code"].isin(["01001", "01002"]) | (f["Disease"] == "Flu")
    ),
    "Seen >= DATE '2024-01-15' AND NOT Member": lambda f: (f["Seen"] >= datetime.date(2024, 1, 15)) & ~f["Member"],
    "CAST(Weight AS DOUBLE) < 60 AND Disease <> 'Flu'": lambda f: (
        (f["Weight"].astype(float) < 60) & (f["Disease"] != "Flu")
    ),
    "Age > 100": lambda f: f["Age"] > 100,
    "1 = 1": lambda f: f["Age"] > 0,
}


@pytest.mark.parametrize("expression", CONDITIONS)
def test_a_condition(kept: tuple[Path, Counter], expression: str) -> None:
    path, counter = kept
    truth = int(CONDITIONS[expression](people()).sum())
    assert true_count(counter, path, expression) == truth
    low, high = counter.count(expression).bounds
    assert low <= truth <= high


@pytest.mark.parametrize(
    "by", [["Disease"], ["Member", "Disease"], ["Seen"], ["Age", "Zip code"]], ids=lambda by: "+".join(by)
)
def test_groups(kept: tuple[Path, Counter], by: list[str]) -> None:
    path, counter = kept
    answers = counter.count_by("Age >= 30", by)
    found = true_counts_of(counter, path, "Age >= 30", answers)
    frame = people()
    wanted = frame[frame["Age"] >= 30].groupby(by).size()
    shown = {tuple(str(part) for part in (key if isinstance(key, tuple) else (key,))): n for key, n in wanted.items()}
    assert len(found) == len(answers)
    assert sum(found) == (frame["Age"] >= 30).sum()
    for answer, truth in zip(answers, found, strict=True):
        assert truth == shown.get(tuple(str(part) for part in answer.group.values()), 0)
        assert answer.estimate.bounds[0] <= truth <= answer.estimate.bounds[1]


@pytest.mark.parametrize("expression", ["Age IN (SELECT 1)", "read_text('/etc/hostname') = ''", "1); SELECT 1 --"])
def test_what_a_query_may_not_be(kept: tuple[Path, Counter], expression: str) -> None:
    path, counter = kept
    with pytest.raises(QueryError):
        true_count(counter, path, expression)


def test_another_table_is_refused(kept: tuple[Path, Counter], tmp_path: Path) -> None:
    _, counter = kept
    people().iloc[:-1].to_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(InputError, match="599 rows and the release 600"):
        true_count(counter, tmp_path / "fewer.parquet", "Age > 40")
    people().drop(columns="Age").to_parquet(tmp_path / "lacking.parquet")
    with pytest.raises(NoSuchColumnError):
        true_count(counter, tmp_path / "lacking.parquet", "Age > 40")
    people().assign(Age="old").to_parquet(tmp_path / "text.parquet")
    with pytest.raises(DaleniusError):
        true_count(counter, tmp_path / "text.parquet", "Age > 40")


@pytest.mark.parametrize(
    ("kind", "name"), [("text", "unknown"), ("number", "unknown"), ("number", "7"), ("number", "07")]
)
def test_nulls_of_the_sensitive_column_have_the_name_that_they_are_published_under(
    tmp_path: Path, kind: str, name: str
) -> None:
    frame = pd.DataFrame({"Age": [30, 40, 50, 60] * 10, "Stage": [1, 2, None, 7] * 10}).astype({"Stage": "Int64"})
    if kind == "text":
        frame = frame.assign(Stage=frame["Stage"].astype("string"))
    frame.to_parquet(tmp_path / "table.parquet")
    dalenius.publish(
        tmp_path / "table.parquet",
        {"uniform": "1/2"},
        sensitive="Stage",
        quasi_identifiers=["Age"],
        null_value=name,
        out=tmp_path / "release",
    )
    with Counter(open_release(tmp_path / "release")) as counter:
        for condition in ("Stage IS NULL", f"CAST(Stage AS VARCHAR) = '{name}'", "CAST(Stage AS VARCHAR) = '7'"):
            estimate = counter.count(condition)
            assert estimate.exact
            assert true_count(counter, tmp_path / "table.parquet", condition) == estimate.bounds[0], condition

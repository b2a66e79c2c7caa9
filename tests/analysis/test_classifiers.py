"""Classifiers fitted to a release, against the same ones fitted to the rows behind it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import dalenius
from dalenius.analysis.classifiers import fit_classifier
from dalenius.errors import UsageError
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import DISEASES, patients, released

IDENTIFIERS = ["age", "ward"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    table = patients(3000, strength=3).drop_columns(["name"])
    return released(table, tmp_path_factory.mktemp("classifiers") / "r", strata="none")


@pytest.fixture(scope="module")
def others() -> pd.DataFrame:
    return patients(3000, strength=3, seed=9).to_pandas()


def accuracy(model: object, people: pd.DataFrame) -> float:
    return float((model.predict(people[IDENTIFIERS]) == people.disease).mean())  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["logistic", "forest", "pipeline"])
def test_it_predicts_people_who_are_not_in_the_release_nearly_as_well_as_raw_rows(
    folder: ReleaseFolder, others: pd.DataFrame, kind: str
) -> None:
    coding = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    models = {
        "logistic": LogisticRegression(max_iter=500),
        "forest": RandomForestClassifier(20, max_depth=5, random_state=1),
        "pipeline": make_pipeline(
            make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough"),
            LogisticRegression(max_iter=5000),
        ),
    }
    raw = patients(3000, strength=3).to_pandas()
    best = make_pipeline(coding, LogisticRegression(max_iter=5000)).fit(raw[IDENTIFIERS], raw.disease)
    found = fit_classifier(folder, models[kind])
    frequent = float((others.disease == raw.disease.mode()[0]).mean())
    assert accuracy(best, others) > frequent + 0.1
    assert accuracy(found, others) > accuracy(best, others) - 0.03
    assert sorted(found.classes_) == DISEASES
    assert not hasattr(models[kind], "classes_")  # the classifier in the hand stays as it is


def test_odd_columns_are_taken_as_they_are(tmp_path: Path) -> None:
    rows = 400
    random = np.random.default_rng(2)
    table = pa.table(
        {
            "a b": pa.array([None if place % 7 == 0 else float(place % 5) for place in range(rows)]),
            "wörd": pa.array([None if place % 11 == 0 else f"w{place % 3}" for place in range(rows)]),
            "yes": pa.array(random.random(rows) < 0.5),
            "illness": pa.array(random.integers(0, 4, rows)),
        }
    )
    folder = released(table, tmp_path / "r", sensitive="illness")
    found = fit_classifier(folder, LogisticRegression(max_iter=500))
    people = table.drop_columns(["illness"]).to_pandas()
    assert found.predict_proba(people).shape == (rows, 4)
    assert sorted(found.classes_) == [0, 1, 2, 3]


def test_fakes_are_nobodys(tmp_path: Path) -> None:
    folder = released(patients(2000, strength=3).drop_columns(["name"]), tmp_path / "r", fake_values=1, strata="none")
    others = patients(2000, strength=3, seed=5).to_pandas()
    found = fit_classifier(folder, LogisticRegression(max_iter=500))
    frequent = float(others.disease.value_counts(normalize=True).max())
    assert accuracy(found, others) > frequent + 0.1


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (LinearRegression(), "no classifier that gives probabilities"),
        (LinearSVC(), "no classifier that gives probabilities"),
        (KNeighborsClassifier(), "takes no sample_weight"),
        (LogisticRegression, "a formula, or one of scikit-learn's classifiers"),
        (3, "a formula, or one of scikit-learn's classifiers"),
    ],
)
def test_what_cannot_be_fitted_is_refused(folder: ReleaseFolder, model: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fit_classifier(folder, model)


def test_numbers_with_many_values_have_no_classifier(tmp_path: Path) -> None:
    table = pa.table({"age": list(range(500)) * 2, "income": list(range(1000))})
    limits = {"odds": 4, "grouping": {"quantiles": 4}}
    release = dalenius.publish(table, limits, sensitive="income", quasi_identifiers=["age"], seed=1)
    with pytest.raises(UsageError, match=r"1,000 values(.|\n)*family='linear'"):
        release.fit(LogisticRegression())


@pytest.mark.parametrize("rows", [3, 30])
def test_few_buckets_are_enough(tmp_path: Path, rows: int) -> None:
    """A half of them would be too little to learn from."""
    table = pa.table({"age": [30, 40, 50] * (rows // 3), "ill": ["yes", "no", "no"] * (rows // 3)})
    found = fit_classifier(released(table, tmp_path / "r", "ill", strata="none"), LogisticRegression())
    assert found.predict_proba(table.to_pandas()[["age"]]).shape == (rows, 2)


def test_what_is_the_same_for_everybody_is_not_predicted(tmp_path: Path) -> None:
    table = pa.table({"age": [30, 40, 50] * 20, "ill": ["yes"] * 60})
    limits = {"odds": 4}
    options: dict[str, Any] = {"sensitive": "ill", "quasi_identifiers": ["age"], "publish_in_the_clear": True}
    release = dalenius.publish(table, limits, **options, seed=1)
    with pytest.raises(UsageError, match="the same for everybody"):
        release.fit(LogisticRegression())


@pytest.mark.parametrize("kind", ["decimal", "date"])
def test_values_of_any_kind_are_predicted(tmp_path: Path, kind: str) -> None:
    rows = 400
    values: dict[str, list[Any]] = {
        "decimal": [Decimal(f"{place % 3}.5") for place in range(rows)],
        "date": [date(2020, 1, 1 + place % 3) for place in range(rows)],
    }
    expected = {
        "decimal": ["0.5", "1.5", "2.5"],
        "date": ["2020-01-01", "2020-01-02", "2020-01-03"],
    }
    table = pa.table({"age": [place % 40 for place in range(rows)], "value": values[kind]})
    found = fit_classifier(released(table, tmp_path / "r", "value"), LogisticRegression(max_iter=300))
    assert list(found.classes_) == expected[kind]


def test_people_from_elsewhere_are_predicted_whatever_their_file_made_of_columns(tmp_path: Path) -> None:
    """A column of "true" and "false" is text in a release, and may be anything in a CSV file."""
    rows = 300
    member = ["true", "false", None]
    table = pa.table({"member": [member[place % 3] for place in range(rows)], "ill": ["yes", "no"] * (rows // 2)})
    found = fit_classifier(released(table, tmp_path / "r", "ill"), LogisticRegression())
    others = pd.DataFrame({"member": [True, False, None]})
    assert found.predict_proba(others).shape == (3, 2)

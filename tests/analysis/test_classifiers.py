"""Classifiers fitted to a release, against the same ones fitted to the rows behind it."""

from __future__ import annotations

import warnings
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import dalenius
from dalenius.analysis import classifiers
from dalenius.analysis.classifiers import fit_classifier
from dalenius.analysis.learned import Lesson
from dalenius.analysis.pieces import slot_tables
from dalenius.errors import MemoryLimitError, UsageError
from dalenius.model.memory import ReadingMemory
from dalenius.model.progress import Silent
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import DISEASES, patients, released

IDENTIFIERS = ["age", "ward"]
pytestmark = pytest.mark.filterwarnings("ignore:Buckets are nearly all alike")


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


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([1, 2, None], ["1", "2", "null"]),
        (["a", "b", None], ["a", "b", "unknown"]),  # a text, which was published
        ([0.5, float("nan"), None], ["0.5", "null"]),
        ([1, 2, 3], [1, 2, 3]),
    ],
)
def test_a_null_is_a_class_that_is_called_null(tmp_path: Path, values: list[Any], classes: list[Any]) -> None:
    """As it is in cross-tabs; and numbers stay numbers without one."""
    rows = 600
    table = pa.table({"age": [place % 40 for place in range(rows)], "value": [values[n % 3] for n in range(rows)]})
    folder = released(table, tmp_path / "r", "value", null_value="unknown")
    found = fit_classifier(folder, LogisticRegression(max_iter=300))
    assert found.classes_.tolist() == classes


def test_a_null_has_a_name_that_no_value_has() -> None:
    names, places = classifiers._classes(["None", "null", None])
    assert names.tolist() == ["None", "null", "null (no value)"]
    assert places.tolist() == [0, 1, 2]


def alike(folder: Path) -> dalenius.Release:
    """Nearly every bucket has one "yes"."""
    random = np.random.default_rng(0)
    ill = np.where(random.random(2000) < 0.25, "yes", "no")
    released(pa.table({"age": random.integers(18, 90, 2000), "ill": ill}), folder, "ill", strata="none")
    return dalenius.load(folder)


def test_notes_come_with_the_model_and_as_warnings(tmp_path: Path, folder: ReleaseFolder) -> None:
    release = alike(tmp_path / "r")
    with pytest.warns(UserWarning, match="Buckets are nearly all alike") as caught:
        found = release.fit(LogisticRegression())
    notes = [str(one.message) for one in caught]
    assert [one.filename for one in caught] == [__file__] * len(notes)
    assert list(found.dalenius_notes_) == notes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_classifier(folder, LogisticRegression(max_iter=500)).dalenius_notes_ == ()


class Seen(LogisticRegression):  # type: ignore[misc]
    """Keeps what it was fitted to."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 (scikit-learn's name)
        self.given_ = X
        return super().fit(X, y, sample_weight=sample_weight)


def towns(rows: int = 1500) -> pa.Table:
    """Fifty towns, in the first twenty of which most are ill."""
    random = np.random.default_rng(3)
    town = random.integers(0, 50, rows)
    ill = np.where(random.random(rows) < np.where(town < 20, 0.8, 0.2), "yes", "no")
    columns = {"town": [f"t{place:02}" for place in town.tolist()], "age": random.integers(20, 80, rows), "ill": ill}
    return pa.table(columns)


def test_many_categories_are_sparse_where_the_classifier_takes_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = towns()
    folder, people = released(table, tmp_path / "r", "ill"), table.to_pandas()
    sparse = fit_classifier(folder, Seen(max_iter=500))
    assert scipy.sparse.issparse(sparse.steps[-1][1].given_)
    trees = fit_classifier(folder, HistGradientBoostingClassifier(max_iter=5))
    assert trees.predict_proba(people).shape == (len(people), 2)
    monkeypatch.setattr(classifiers, "_takes_sparse", lambda _: False)
    dense = fit_classifier(folder, Seen(max_iter=500))
    assert isinstance(dense.steps[-1][1].given_, np.ndarray)
    assert sparse.predict_proba(people) == pytest.approx(dense.predict_proba(people), abs=0.01)


@pytest.mark.parametrize("spare", [2**15, 2**20])
def test_rows_that_do_not_fit_into_memory_are_refused(tmp_path: Path, spare: int) -> None:
    folder = released(towns(), tmp_path / "r", "ill")
    lesson = Lesson(folder, slot_tables(folder), Silent())
    assert lesson.learned
    small = ReleaseFolder(folder.path, folder.manifest, memory=ReadingMemory(2**29, spare))
    with pytest.raises(MemoryLimitError, match="classifier would not fit into a memory of 512 MiB"):
        fit_classifier(small, HistGradientBoostingClassifier(), lesson=lesson)
    if spare == 2**20:  # fifty columns of zeros and ones do not fit, and what they stand for does
        assert fit_classifier(small, LogisticRegression(max_iter=500), lesson=lesson)


def test_people_from_elsewhere_are_predicted_whatever_their_file_made_of_columns(tmp_path: Path) -> None:
    """A column of "true" and "false" is text in a release, and may be anything in a CSV file."""
    rows = 300
    member = ["true", "false", None]
    table = pa.table({"member": [member[place % 3] for place in range(rows)], "ill": ["yes", "no"] * (rows // 2)})
    found = fit_classifier(released(table, tmp_path / "r", "ill"), LogisticRegression())
    others = pd.DataFrame({"member": [True, False, None]})
    assert found.predict_proba(others).shape == (3, 2)

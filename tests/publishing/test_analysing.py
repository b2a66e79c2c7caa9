"""What a release in the hand gives to analysts: frames, draws, models, and what was learned kept for the next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from sklearn.linear_model import LogisticRegression

import dalenius
from dalenius.errors import MemoryLimitError, UsageError
from dalenius.infer.regression import fit
from dalenius.model.memory import ReadingMemory
from dalenius.release.folder import ReleaseFolder, open_release
from tests.analysis.tables import DISEASES, patients


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dalenius.Release:
    table = patients(1200).drop_columns(["name"])
    path = tmp_path_factory.mktemp("hand") / "release"
    options: dict[str, Any] = {"sensitive": "disease", "quasi_identifiers": ["age", "ward"], "strata": "none"}
    return dalenius.publish(table, {"odds": 4}, **options, seed=1, out=path)


def test_weights_are_the_same_in_every_kind_of_frame(release: dalenius.Release) -> None:
    arrow, pandas, polars = release.to_arrow(), release.to_pandas(), release.to_polars()
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert (
        arrow.column_names == list(pandas.columns) == polars.columns == ["person", "age", "ward", "disease", "weight"]
    )
    assert pandas.weight.sum() == pytest.approx(1200)
    assert polars["weight"].to_list() == pandas.weight.to_list() == arrow["weight"].to_pylist()
    buckets = release.to_pandas(weights="bucket")
    assert len(buckets) == len(pandas)
    assert (buckets.weight - pandas.weight).abs().max() > 0.1


def test_draws_warn_that_they_are_no_data(release: dalenius.Release) -> None:
    tables = release.complete(2, seed=1)
    for number, table in enumerate(tables):
        assert table.columns.tolist() == ["age", "ward", "disease", "drawn_not_data"]
        assert set(table.drawn_not_data) == {number + 1}
        assert "It is not the data" in table.attrs["warning"]
    arrow, polars = release.complete(2, seed=1, to="arrow"), release.complete(2, seed=1, to="polars")
    assert b"It is not the data" in arrow[0].schema.metadata[b"dalenius"]
    for one, other, same in zip(tables, arrow, polars, strict=True):
        assert one.disease.tolist() == other["disease"].to_pylist() == same["disease"].to_list()


def test_the_same_seed_draws_the_same_in_memory_and_as_files(release: dalenius.Release, tmp_path: Path) -> None:
    names = release.write_completed(tmp_path / "draws", 2, format="csv", seed=4)
    assert names == ["draw-01.csv", "draw-02.csv", "README.txt"]
    for table, name in zip(release.complete(2, seed=4), names, strict=False):
        assert pd.read_csv(tmp_path / "draws" / name).disease.tolist() == table.disease.tolist()
    assert release.complete(1, seed=4)[0].disease.tolist() != release.complete(1, seed=5)[0].disease.tolist()


def test_it_learns_once(release: dalenius.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[object] = []

    def counted(*words: Any, **named: Any) -> Any:
        fits.append(words)
        return fit(*words, **named)

    monkeypatch.setattr("dalenius.analysis.learned.fit", counted)
    own = dalenius.load(release.path)
    own.crosstab("ward", "disease", draws=2)
    own.chi2("ward", "disease", draws=2)
    own.to_pandas()
    own.complete(2)
    own.fit(LogisticRegression(max_iter=300))
    own.write_completed(tmp_path / "draws", 2)
    own.write_completed(tmp_path / "some", 2, columns=["disease"])
    own.export(tmp_path / "weights.csv")
    own.export(tmp_path / "by_bucket.csv", "bucket")
    assert len(fits) == 1
    own = dalenius.load(release.path)
    own.write_completed(tmp_path / "again", 2)
    own.export(tmp_path / "again.csv", column="disease")
    assert len(fits) == 2


def test_results_of_statsmodels_are_pooled(release: dalenius.Release) -> None:
    formula = "I(1.0 * (disease == 'cold')) ~ age + ward"
    tables = release.complete(6, seed=2)
    fits = [smf.logit(formula, table.assign(ward=table.ward.astype(str))).fit(disp=0) for table in tables]
    pooled = dalenius.pool(fits)
    assert pooled.params["age"] == pytest.approx(sum(one.params["age"] for one in fits) / 6)
    own = release.fit("I(disease == 'cold') ~ age + ward", family="logit", draws=20, seed=3)
    assert own.params["ward[T.south]"] == pytest.approx(
        pooled.params["ward[T.south]"], abs=2 * pooled.bse["ward[T.south]"]
    )


def test_counts_by_group_are_a_tidy_frame(release: dalenius.Release) -> None:
    answers = release.count("TRUE", group_by=["ward", "disease"], measure=False)
    frame = answers.to_pandas()
    assert len(frame) == 3 * len(DISEASES) == len(answers)
    for line, answer in zip(frame.to_dict("records"), answers, strict=True):
        assert {"ward": line["ward"], "disease": line["disease"]} == answer.group
        assert line["estimate"] == answer.estimate.estimate
        assert (line["interval_low"], line["interval_high"]) == answer.estimate.interval
        assert (line["bound_low"], line["bound_high"]) == answer.estimate.bounds


def test_a_column_called_like_a_figure_keeps_its_name(tmp_path: Path) -> None:
    table = pa.table({"estimate": ["a", "b"] * 30, "disease": ["x", "y", "z"] * 20})
    release = dalenius.publish(table, {"odds": 4}, sensitive="disease", quasi_identifiers=["estimate"], seed=1)
    frame = release.count("disease = 'x'", group_by="estimate", learn=False).to_pandas()
    assert frame.estimate.tolist() == ["a", "b"]
    assert frame.estimate_2.sum() == pytest.approx(20)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: r.fit("disease ~ age"), "needs a family"),
        (lambda r: r.fit("disease ~ age", "probit"), "no family 'probit'"),
        (lambda r: r.fit("disease ~ age", "multinomial", column="disease"), "column is for classifiers"),
        (lambda r: r.fit(LogisticRegression(), "logit"), "are for formulas"),
        (lambda r: r.complete(2, to="excel"), "no tables of 'excel'"),
        (lambda r: r.complete(0), "got 0"),
        (lambda r: r.complete(2.5), "got 2.5"),
        (lambda r: r.complete(2, seed=-1), "got -1"),
        (lambda r: r.complete(2, columns=[]), "no sensitive column is asked for"),
        (lambda r: r.fit("disease ~ age", "multinomial", draws=0), "got 0"),
        (lambda r: r.crosstab("ward", "disease", draws=10**9), "got 1000000000"),
        (dalenius.pool, "without params"),
        (lambda r: r.to_pandas("guessed"), "no weights 'guessed'"),
        (lambda r: r.chi2("ward", "ward"), "different columns"),
        (lambda r: r.write_completed("x", format="xls"), "no format 'xls'"),
    ],
)
def test_wrong_use_is_told(release: dalenius.Release, call: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call(release)


def test_one_name_is_a_list_of_one(release: dalenius.Release) -> None:
    assert "disease" in release.complete(1, columns="disease", seed=1)[0].columns


def test_what_is_given_carries_its_warning_and_notes(release: dalenius.Release) -> None:
    draw, weighted = release.complete(1, seed=1)[0], release.to_pandas()
    assert "It is not the data" in draw.attrs["warning"]
    assert "Standard errors from weighted rows are too small" in weighted.attrs["warning"]
    assert draw.attrs["notes"] == weighted.attrs["notes"]
    assert b"too weak" in release.to_arrow("bucket").schema.metadata[b"dalenius"]


def test_people_with_several_rows_are_refused_with_the_reason() -> None:
    table = patients(300).drop_columns(["name"]).append_column("who", pa.array([n // 2 for n in range(300)]))
    options: dict[str, Any] = {"sensitive": "disease", "quasi_identifiers": ["ward"], "person": "who", "seed": 1}
    release = dalenius.publish(table, {"odds": 20}, **options)
    for call in (
        lambda: release.complete(2),
        lambda: release.to_pandas(),
        lambda: release.crosstab("ward", "disease"),
        lambda: release.fit("I(disease == 'cold') ~ ward", "logit"),
        lambda: release.fit(LogisticRegression()),
    ):
        with pytest.raises(UsageError, match="which of somebody's rows has which value is not published"):
            call()


@pytest.mark.parametrize("ask", ["complete", "to_arrow", "crosstab"])
def test_what_does_not_fit_into_memory_is_refused_before_it_is_made(release: dalenius.Release, ask: str) -> None:
    folder = open_release(release.path)
    small = dalenius.Release(ReleaseFolder(folder.path, folder.manifest, memory=ReadingMemory(2**29, 2**15)))
    words = ("ward", "disease") if ask == "crosstab" else ()
    with pytest.raises(MemoryLimitError, match="would not fit into a memory of 512 MiB"):
        getattr(small, ask)(*words)

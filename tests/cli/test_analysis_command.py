"""complete, export, crosstab, and query's tables, as scripts and people see them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import dalenius
from dalenius.cli.main import main
from dalenius.cli.table_output import _column
from tests.analysis.tables import DISEASES, patients

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands") / "release"
    table = patients(500).drop_columns(["name"])
    dalenius.publish(table, {"odds": 4}, sensitive="disease", quasi_identifiers=["age", "ward"], seed=1, out=path)
    return path


@pytest.fixture
def run(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder; RELEASE is the release."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*words: str) -> Result:
        own = [str(release) if word == "RELEASE" else word for word in words]
        return CliRunner().invoke(main, own, catch_exceptions=False)

    return invoke


def test_completed_tables_are_written_with_a_warning(run: Run) -> None:
    result = run("complete", "RELEASE", "--draws", "3", "--out", "draws")
    assert result.exit_code == 0, result.output
    assert "3 completed tables of 500 rows: draw-01.parquet to draw-03.parquet." in result.stdout
    assert "It is not the data" in result.stdout
    assert sorted(path.name for path in Path("draws").iterdir()) == [
        "README.txt", "draw-01.parquet", "draw-02.parquet", "draw-03.parquet",
    ]  # fmt: skip
    assert pyarrow.parquet.read_table("draws/draw-02.parquet").num_rows == 500
    assert "It is not the data" in Path("draws/README.txt").read_text(encoding="utf-8")


def test_a_seed_draws_the_same_again(run: Run) -> None:
    for name in ("one", "other"):
        assert (
            run("complete", "RELEASE", "--draws", "2", "--seed", "7", "--format", "csv", "--out", name).exit_code == 0
        )
    assert Path("one/draw-02.csv").read_bytes() == Path("other/draw-02.csv").read_bytes()


def test_complete_says_as_json_what_it_wrote(run: Run) -> None:
    found = json.loads(run("complete", "RELEASE", "--draws", "2", "--out", "draws", "--json").stdout)
    assert set(found) == {"format", "draws", "rows", "columns", "files", "warning", "notes"}
    assert found["columns"] == ["age", "ward", "disease", "drawn_not_data"]
    assert found["files"] == ["draw-01.parquet", "draw-02.parquet", "README.txt"]


def test_a_folder_that_is_there_is_refused_before_anything_is_learned(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("draws").mkdir()
    Path("draws/thesis.txt").write_text("mine")

    def learned(*_words: object, **_named: object) -> None:
        raise AssertionError("it was learned from")

    monkeypatch.setattr("dalenius.analysis.learned.fit", learned)
    result = run("complete", "RELEASE", "--out", "draws")
    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert run("complete", "RELEASE", "--out", "draws", "--force").exit_code == 2
    assert Path("draws/thesis.txt").read_text() == "mine"


def test_force_replaces_completed_tables(run: Run) -> None:
    assert run("complete", "RELEASE", "--draws", "3", "--out", "draws").exit_code == 0
    assert run("complete", "RELEASE", "--draws", "2", "--out", "draws").exit_code == 2
    assert run("complete", "RELEASE", "--draws", "2", "--out", "draws", "--force").exit_code == 0
    assert len(list(Path("draws").iterdir())) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("complete", "nothing", "--out", "x"), "manifest"),
        (("complete", "RELEASE", "--out", "x", "--sensitive", "diseas"), "no sensitive column 'diseas'"),
        (("complete", "RELEASE", "--out", "x", "--sensitive", "age"), "no sensitive column 'age'"),
        (("complete", "RELEASE", "--out", "x", "--draws", "0"), "0 is not in the range"),
        (("export", "RELEASE", "--out", "x.txt"), "by what the name of the file ends in"),
        (("export", "RELEASE", "--out", "x.csv", "--sensitive", "diseas"), "no sensitive column 'diseas'"),
        (("crosstab", "RELEASE", "wart", "disease"), "Did you mean 'ward'"),
        (("crosstab", "RELEASE", "ward", "disease", "--bins", "age"), "is not a column and its ranges"),
        (("crosstab", "RELEASE", "age", "disease", "--bins", "age=x,y"), "is not a column and its ranges"),
        (("crosstab", "RELEASE", "ward", "disease", "--format", "parquet"), "needs a file"),
        (("crosstab", "RELEASE", "ward", "disease", "--out", "x"), "--out is for"),
        (("crosstab", "RELEASE", "ward", "disease", "--json", "--format", "csv"), "--json prints JSON"),
        (("crosstab", "RELEASE", "ward", "disease", "--chi2", "--format", "csv"), "--chi2 is for text"),
        (("crosstab", "RELEASE", "ward", "disease", "--draws", "1"), "1 is not in the range 2<=x<=1000"),
        (("query", "RELEASE", "TRUE", "--format", "parquet"), "needs a file"),
    ],
)
def test_wrong_use_is_told(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert list(Path().iterdir()) == []


def test_weights_add_up_to_people(run: Run) -> None:
    result = run("export", "RELEASE", "--out", "weighted.parquet")
    assert result.exit_code == 0, result.output
    assert "for 500 people" in result.stdout
    weighted = pyarrow.parquet.read_table("weighted.parquet").to_pandas()
    assert weighted.weight.sum() == pytest.approx(500)
    assert weighted.groupby("person").weight.sum().to_numpy() == pytest.approx(1)
    assert "Standard errors from weighted rows are too small" in result.stdout


def test_weights_of_buckets_come_with_a_warning(run: Run) -> None:
    found = json.loads(run("export", "RELEASE", "--weights", "bucket", "--out", "weighted.csv", "--json").stdout)
    with Path("weighted.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert found["rows"] == len(lines)
    assert found["weights"] == "bucket"
    assert "comes out too weak" in found["warning"]
    assert run("export", "RELEASE", "--out", "weighted.csv").exit_code == 2
    assert run("export", "RELEASE", "--out", "weighted.csv", "--force").exit_code == 0


def test_a_cross_tab_is_printed_with_its_intervals_and_test(run: Run) -> None:
    result = run("crosstab", "RELEASE", "ward", "disease", "--chi2", "--seed", "1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["ward", *DISEASES]
    assert [line.split()[0] for line in lines[2:5]] == ["north", "south", "west"]
    assert "Estimated counts of the table with 95 % intervals, from 20 draws." in result.stdout
    assert "8 degrees of freedom" in result.stdout


def test_a_cross_tab_as_json_and_csv_has_the_same_cells(run: Run) -> None:
    words = ("crosstab", "RELEASE", "age,ward", "disease", "--bins", "age=50", "--bins", "age=40,60", "--seed", "2")
    found: dict[str, Any] = json.loads(run(*words, "--json").stdout)
    assert set(found) == {"format", "rows", "columns", "target", "draws", "cells", "chi2", "notes"}
    assert (found["rows"], found["columns"], found["chi2"]) == (["age", "ward"], ["disease"], None)
    assert len(found["cells"]) == 3 * 3 * 5
    lines = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout)))
    for line, cell in zip(lines, found["cells"], strict=True):
        assert [line[name] for name in ("age", "ward", "disease")] == list(cell["group"].values())
        assert float(line["estimate"]) == cell["estimate"]
        assert [float(line["low"]), float(line["high"])] == cell["interval"]


def test_counts_are_written_as_tables(run: Run) -> None:
    asked = ("query", "RELEASE", "TRUE", "--group-by", "ward,disease", "--no-measure")
    found = json.loads(run(*asked, "--json").stdout)
    lines = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").stdout)))
    assert len(lines) == len(found) == 15
    for line, one in zip(lines, found, strict=True):
        assert {"ward": line["ward"], "disease": line["disease"]} == one["group"]
        assert float(line["estimate"]) == pytest.approx(one["estimate"])
        assert [int(line["bound_low"]), int(line["bound_high"])] == one["bounds"]
        assert [int(line["interval_low"]), int(line["interval_high"])] == one["interval"]
        assert line["method"] == one["method"]
    assert run(*asked, "--format", "parquet", "--out", "counts.parquet").exit_code == 0
    table = pyarrow.parquet.read_table("counts.parquet")
    assert table.column_names == list(lines[0])
    assert table.num_rows == 15
    assert run(*asked, "--format", "csv", "--out", "counts.parquet").exit_code == 2


def test_queries_of_a_file_are_a_column(run: Run) -> None:
    Path("queries.txt").write_text("age < 40\nage >= 40\n")
    words = ("query", "RELEASE", "--queries", "queries.txt", "--no-learn", "--no-measure", "--format", "csv")
    lines = list(csv.DictReader(io.StringIO(run(*words).stdout)))
    assert [line["query"] for line in lines] == ["age < 40", "age >= 40"]
    assert sum(float(line["estimate"]) for line in lines) == 500


@pytest.mark.parametrize("command", ["crosstab", "query"])
def test_a_file_that_is_there_is_told_before_anything_is_learned(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    Path("x.csv").write_text("mine")
    monkeypatch.setattr("dalenius.analysis.learned.fit", None)
    words = ("ward", "disease") if command == "crosstab" else ("TRUE",)
    result = run(command, "RELEASE", *words, "--format", "csv", "--out", "x.csv")
    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert run(command, "RELEASE", *words, "--format", "csv", "--out", "x.parquet").exit_code == 2
    assert Path("x.csv").read_text() == "mine"


@pytest.mark.parametrize(
    "words",
    [
        ("export", "RELEASE", "--out"),
        ("crosstab", "RELEASE", "ward", "disease", "--format", "parquet", "--out"),
        ("query", "RELEASE", "TRUE", "--format", "parquet", "--out"),
    ],
)
def test_a_release_is_not_overwritten_by_force(run: Run, release: Path, words: tuple[str, ...]) -> None:
    before = (release / "qit.parquet").read_bytes()
    result = run(*words, str(release / "qit.parquet"), "--force")
    assert result.exit_code == 2
    assert "would damage" in result.stderr
    assert (release / "qit.parquet").read_bytes() == before


@pytest.mark.parametrize("place", ["draws", "further/down/draws"])
def test_nothing_is_put_into_the_folder_of_a_release(run: Run, release: Path, place: str) -> None:
    """With another folder in it, it would be no release that --force replaces."""
    before = sorted(release.rglob("*"))
    result = run("complete", "RELEASE", "--draws", "1", "--out", str(release / place))
    assert result.exit_code == 2
    assert "in the folder of a release" in result.stderr
    assert sorted(release.rglob("*")) == before
    table = patients(60).drop_columns(["name"])
    options: dict[str, Any] = {"sensitive": "disease", "quasi_identifiers": ["age", "ward"]}
    dalenius.publish(table, {"odds": 4}, **options, seed=1, out="other")
    assert run("complete", "other", "--draws", "1", "--out", "other/draws").exit_code == 2
    dalenius.publish(table, {"odds": 4}, **options, seed=2, out="other", force=True)


def test_numbers_that_no_integer_of_arrow_holds_are_floating() -> None:
    assert _column([2**70, 1]).to_pylist() == [2.0**70, 1.0]
    assert _column([2**70, "many", None]).to_pylist() == [str(2**70), "many", None]
    assert _column([2**70, None, 0.5]).to_pylist() == [2.0**70, None, 0.5]
    assert _column([10**400, 1]).to_pylist() == [str(10**400), "1"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_of_numbers_and_words_are_written(run: Run, tmp_path: Path, form: str) -> None:
    """Ages of which some are null, and figures that are decimals or numbers."""
    ages = [None if place % 9 == 0 else 30 + place % 5 for place in range(300)]
    paid = [Decimal(f"{place % 40}.50") for place in range(300)]
    made = dalenius.publish(
        pa.table({"age": pa.array(ages), "paid": paid}), {"odds": 4, "grouping": "quantiles:4"},
        sensitive="paid", quasi_identifiers=["age"], seed=1,
    )  # fmt: skip
    made.save(tmp_path / "made")
    words = ("crosstab", str(tmp_path / "made"), "age", "paid", "--bins", "paid=3", "--draws", "2")
    assert run(*words, "--format", form, "--out", f"cells.{form}").exit_code == 0
    asked = ("query", str(tmp_path / "made"), "TRUE", "--mean", "--sum", "--no-learn", "--no-measure")
    assert run(*asked, "--format", form, "--out", f"figures.{form}").exit_code == 0
    read = pyarrow.parquet.read_table if form == "parquet" else pyarrow.csv.read_csv
    cells, figures = read(f"cells.{form}"), read(f"figures.{form}")
    assert cells["age"].to_pylist()[-1] == ("null" if form == "parquet" else None)  # as the reader of CSV has it
    assert float(figures["estimate"][0].as_py()) == pytest.approx(float(sum(paid)) / 300)


@pytest.mark.parametrize(("width", "tables"), [("200", 1), ("80", 2), ("10", 5)])
def test_a_wide_cross_tab_is_printed_in_parts(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: str, tables: int
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lines = run("crosstab", "RELEASE", "ward", "disease", "--draws", "2").stdout.splitlines()
    heads = [line.split() for line in lines if line.split()[:1] == ["ward"]]
    assert len(heads) == tables
    assert [name for head in heads for name in head[1:]] == DISEASES
    assert all(len(line) <= int(width) for line in lines[:-1] if tables < 5)

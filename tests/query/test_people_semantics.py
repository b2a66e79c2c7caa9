"""What a question about people means, which are refused, and who answers questions about one column."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import dalenius
from dalenius.errors import DaleniusError, NoSuchColumnError, QueryError, ReleaseError, UsageError
from dalenius.model.estimate import Asked, Estimate
from dalenius.query.count import Counter, answer_object, count
from dalenius.query.figures import figures
from dalenius.query.people_count import NOT_LEARNED, PeopleCounter, open_counter
from dalenius.query.workload import evaluate, view_of
from dalenius.release.folder import open_release
from tests.query.people_releases import People, Row


def row(age: int | None, disease: str, drug: str) -> Row:
    return (age,), ((disease,), (drug,))


# Bucket 1: four people with two rows each; bucket 2: three with one.
PATIENTS = People(
    [
        (1, [row(30, "flu", "up"), row(31, "cold", "up")]),
        (1, [row(30, "flu", "no"), row(50, "flu", "no")]),
        (1, [row(60, "hiv", "no"), row(61, "flu", "up")]),
        (1, [row(70, "cold", "down"), row(71, "cold", "no")]),
        (2, [row(20, "flu", "up")]),
        (2, [row(40, "hiv", "no")]),
        (2, [row(None, "cold", "no")]),
    ],
    sets={"Disease": 1, "Drug": 1},
)
SINGLE = People(  # the same two columns, one row each
    [(b, [r]) for b, rows in PATIENTS.people for r in rows], sets=PATIENTS.sets, has_persons=False
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people")
    PATIENTS.write(path)
    return path


@pytest.fixture
def release(folder: Path) -> dalenius.Release:
    return dalenius.load(folder)


def test_what_is_certain_is_exact(release: dalenius.Release) -> None:
    for condition, people, rows in (
        ("TRUE", 7, 11),
        ("FALSE", 0, 0),
        ("Age <= 31", 3, 4),
        ("Age BETWEEN 31 AND 50", 3, 3),  # one row has to meet all of a part
        ("Age IS NULL", 1, 1),
        ("Disease = 'flu'", 4, 5),
        ("NOT Disease = 'flu'", 5, 6),  # has something else, not: has no flu
        ("Disease >= 'cold' AND Disease < 'd'", 3, 4),  # one value has to meet all of a part
        ("Disease = 'flu' AND Disease = 'cold'", 0, 0),
        ("Drug IS NOT NULL", 7, 11),
    ):
        for unit, number in (("people", people), ("rows", rows)):
            found = release.count(condition, count=unit)  # type: ignore[call-overload]
            assert found.bounds == (number, number), (condition, unit)
            assert found.unit == unit
            assert found.exact
            assert found.tight


def test_an_estimate_says_that_nothing_was_learned(release: dalenius.Release) -> None:
    found = release.count("Age <= 31 AND Disease = 'flu'")
    assert found.method == "at random"
    assert found.not_learned == NOT_LEARNED
    assert found.coverage is None
    assert found.estimate == pytest.approx(2 * 3 / 4 + 1 / 3)
    assert found.bounds == (1, 3)
    assert release.count("Age <= 31 AND Disease = 'flu'", learn=False).not_learned is None
    rows = release.count("Age <= 31 AND Disease = 'flu'", count="rows")
    assert rows.estimate == pytest.approx(3 * 4 / 8 + 1 / 3)
    assert rows.bounds == (0, 3 + 1)  # of 2 rows, 2, 1, 0, 0 are below 32, and 2, 1, 1, 0 have flu


def test_several_values_of_which_somebody_may_have_several(release: dalenius.Release) -> None:
    found = release.count("Disease IN ('flu', 'hiv')")
    assert found.bounds == (3 + 2, 3 + 2)  # in bucket 1 one person has cold twice
    assert release.count("Disease IN ('flu', 'hiv')", count="rows").bounds == (7, 7)
    assert release.count("Disease IN ('cold', 'hiv')").bounds == (3 + 2, 3 + 2)  # two have flu once, and once another


def test_how_many_have_one_of_several_values_may_be_open(tmp_path: Path) -> None:
    pairs = ("ab", "cd", "ac", "bd")
    people = People([(1, [row(1, value, "x") for value in pair]) for pair in pairs], sets=PATIENTS.sets)
    found = count(people.write(tmp_path), "Disease IN ('a', 'b')")
    assert isinstance(found, Estimate)
    assert found.bounds == (2, 4)
    assert found.tight
    assert found.estimate == pytest.approx(4 * (1 - 0.5 * 0.5))
    assert count(people.write(tmp_path), "Disease IN ('a', 'b')", unit="rows") == replace(
        Estimate.of(4, 0, 4, 4), unit="rows"
    )


def test_groups(release: dalenius.Release) -> None:
    by_disease = {g.group["Disease"]: g.estimate.bounds for g in release.count("TRUE", "Disease")}
    assert by_disease == {"cold": (3, 3), "flu": (4, 4), "hiv": (2, 2)}
    by_rows = {g.group["Disease"]: g.estimate.bounds for g in release.count("TRUE", "Disease", count="rows")}
    assert by_rows == {"cold": (4, 4), "flu": (5, 5), "hiv": (2, 2)}
    by_age = {g.group["Age"]: g.estimate.bounds[0] for g in release.count("Age > 30 OR Age IS NULL", "Age")}
    assert by_age == {20: 0, 30: 0, 31: 1, 40: 1, 50: 1, 60: 1, 61: 1, 70: 1, 71: 1, None: 1}
    assert list(by_age)[-1] is None


@pytest.mark.parametrize("unit", ["people", "rows"])
@pytest.mark.parametrize("columns", [["Age"], ["Disease"], ["Disease", "Age"], ["Drug", "Disease"]])
def test_a_group_is_a_condition(folder: Path, columns: list[str], unit: str) -> None:
    with open_counter(PATIENTS.write(folder), unit=unit) as counter:  # type: ignore[arg-type]
        where = "(Age < 65 OR Age IS NULL) AND Disease <> 'hiv'"
        groups = counter.count_by(where, columns)
        assert len(groups) >= 3
        for group in groups:
            same = [
                f"{name} IS NOT DISTINCT FROM {'NULL' if cell is None else repr(cell)}"
                for name, cell in group.group.items()
            ]
            assert counter.count(" AND ".join([where, *same])) == group.estimate


@pytest.mark.parametrize(
    ("condition", "error", "said"),
    [
        ("Disease = 'flu' OR Drug = 'up'", QueryError, "ties 'Disease' to another sensitive column"),
        ("Disease = 'flu' OR Age > 30", QueryError, "ties 'Disease' to quasi-identifiers"),
        ("person = 1", NoSuchColumnError, "no column 'person'"),
        ("rows = 1", NoSuchColumnError, "no column 'rows'"),
        ("bucket = 1", QueryError, "bucket column"),
        ("Diseas = 'flu'", NoSuchColumnError, "Did you mean 'Disease'"),
        ("Age", QueryError, "must be a condition"),
        ("Disease = 5 AND Age", QueryError, "must be a condition|compares text"),
    ],
)
def test_refused(release: dalenius.Release, condition: str, error: type[DaleniusError], said: str) -> None:
    with pytest.raises(error, match=said):
        release.count(condition)


def test_other_refusals(release: dalenius.Release) -> None:
    with pytest.raises(UsageError, match="people or rows"):
        release.count("TRUE", count="heads")  # type: ignore[call-overload]
    with pytest.raises(QueryError, match="twice"):
        release.count("TRUE", ["Age", "age"])
    with pytest.raises(QueryError, match="several rows"):
        release.mean("TRUE")
    with pytest.raises(UsageError, match="one row and one value"):
        view_of(PATIENTS.write(release.path), "Drug")
    with pytest.raises(QueryError, match="several rows or values"):
        Counter(PATIENTS.write(release.path))


def test_rows_that_were_left_out_are_told(tmp_path: Path) -> None:
    people = People(PATIENTS.people, sets=PATIENTS.sets, dropped=3)
    found = count(people.write(tmp_path), "Disease = 'flu'")
    assert answer_object(found)["dropped"] == 3


def test_text_files_count_alike(folder: Path, tmp_path: Path) -> None:
    with PeopleCounter(PATIENTS.write(folder)) as one, PeopleCounter(PATIENTS.write(tmp_path, "csv")) as other:
        for condition in ("Age < 40 AND Disease = 'flu' AND Drug = 'up'", "Disease IN ('cold', 'hiv')"):
            assert one.count(condition) == other.count(condition)


def test_people_with_unequal_rows_are_no_release(tmp_path: Path) -> None:
    people = People([(1, [row(1, "a", "x")]), (1, [row(1, "b", "x"), row(2, "a", "x")])], sets=PATIENTS.sets)
    with pytest.raises(ReleaseError, match="1 buckets do not have equally many"):
        count(people.write(tmp_path), "TRUE")


def test_too_few_values_are_no_release(tmp_path: Path) -> None:
    folder = PATIENTS.write(tmp_path / "a")
    fewer = People(PATIENTS.people[:-1], sets=PATIENTS.sets)
    fewer.write(tmp_path / "b")
    (tmp_path / "b" / "st2.parquet").replace(tmp_path / "a" / "st2.parquet")
    with pytest.raises(ReleaseError, match="1 buckets do not have as many values of 'Drug'"):
        count(folder, "TRUE")


def test_one_row_each_makes_rows_people(tmp_path: Path) -> None:
    folder = SINGLE.write(tmp_path)
    for condition in ("Age < 40 AND Disease = 'flu' AND Drug = 'up'", "Drug = 'up' AND Disease = 'flu'"):
        assert count(folder, condition) == count(folder, condition, unit="rows")


def test_one_column_is_answered_as_by_a_plain_release(tmp_path: Path) -> None:
    draw = random.Random(1)  # noqa: S311
    cells = [
        (draw.randint(20, 60), draw.choice(["flu", "cold", "hiv"]), draw.choice([100, 200, 300])) for _ in range(600)
    ]
    types = {"Income": pa.int64()}
    people = [(1 + i // 5, [((age,), ((disease,), (income,)))]) for i, (age, disease, income) in enumerate(cells)]
    both = People(people, sets={"Disease": 1, "Income": 1}, has_persons=False, types=types)
    release = dalenius.load(both.write(tmp_path / "both").path)
    for name, condition in (
        ("Disease", "Disease <> 'flu' AND Age < 40"),
        ("Income", "income > 100 AND age < 40"),
        ("Income", "Income > 100 OR Age < 40"),
    ):
        number = list(both.sets).index(name)
        alone = [(bucket, [(cells, (values[number],)) for cells, values in rows]) for bucket, rows in people]
        plain = dalenius.load(
            People(alone, sets={name: 1}, has_persons=False, types=types).write(tmp_path / condition[:10]).path
        )
        assert plain.manifest.is_plain
        assert release.count(condition) == plain.count(condition)
        assert release.count(condition, [name]) == plain.count(condition, [name])
    assert release.mean("Age < 40") == plain.mean("Age < 40")  # the only numbers
    assert release.count("Age < 40 AND Income > 100").method == "learned"
    together = release.count("Age < 40 AND Income > 100 AND Disease = 'flu'")
    assert together.method == "at random"
    assert together.unit == "people"
    assert isinstance(release._calibration, dict)
    assert set(release._calibration) == {0, 1}
    with pytest.raises(QueryError, match="has no numbers"):
        release.mean("Disease = 'flu'")
    with pytest.raises(QueryError, match="2 sensitive columns"):
        release.mean("Disease = 'flu' AND Income > 100")
    assert view_of(both.write(tmp_path / "both"), "Income").manifest.columns.sensitive.name == "Income"
    with pytest.raises(UsageError, match="no sensitive column"):
        view_of(both.write(tmp_path / "both"), "Incme")
    table = pa.table(dict(zip(("Age", "Disease", "Income"), map(list, zip(*cells, strict=True)), strict=True)))
    answered, alike = (
        evaluate(open_release(one.path), table, queries=50, sensitive="Income") for one in (release, plain)
    )
    assert answered == alike
    assert answered.bounds_hold == 50


def test_a_set_of_several_columns_beside_a_plain_one(tmp_path: Path) -> None:
    people = People(
        [(1, [((i,), (("a", "b"[: i % 2] or "a"), ("x" if i else "y",)))]) for i in range(3)],
        sets={"Diagnosis": 2, "Drug": 1},
        has_persons=False,
    )
    with PeopleCounter(people.write(tmp_path)) as counter:
        assert counter.count("Drug = 'y' AND Age = 0").unit is None  # by the view of that column
        assert counter.count("Diagnosis = 'a'").bounds == (3, 3)
        assert counter.count("Diagnosis = 'b'").bounds == (1, 1)
        assert counter.count("Diagnosis IN ('a', 'b') AND Drug = 'x'").bounds == (2, 2)
        with pytest.raises(QueryError, match="several values"):
            figures(counter, "Diagnosis = 'a'", Asked(mean=True))

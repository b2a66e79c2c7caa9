"""What an expression means: with one record a bucket a release is the table, and DuckDB knows the answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dalenius.errors import DaleniusError, NoSuchColumnError, QueryError, ReleaseError
from dalenius.model.estimate import Estimate, GroupEstimate
from dalenius.query.count import Counter
from dalenius.query.count import count as count_and_learn
from dalenius.release.folder import ReleaseFolder, open_release
from tests.query.releases import random_buckets, write_release

count = partial(count_and_learn, learn=False, measure=False)  # quick: what single buckets give

PEOPLE = pa.table(
    {
        "Gender": ["F", "M", "F", None, "M", "F", "X", "F"],
        "Age": pa.array([23, 41, 67, 18, None, 41, 30, 55], pa.int16()),
        "Born": pa.array([date(1950 + i, 1 + i, 3) for i in range(7)] + [None], pa.date32()),
        "Seen": pa.array(
            [datetime(2024, 1, i + 1, 23, 30, tzinfo=UTC) for i in range(8)], pa.timestamp("us", tz="UTC")
        ),
        "Income": pa.array([Decimal("10.50"), None, *[Decimal(i) / 4 for i in range(6)]], pa.decimal128(9, 2)),
        "Insured": [True, False, None, True, True, False, False, True],
        "Weight": [60.5, float("nan"), 71.0, 0.0, -1.5, None, 90.25, 60.5],
        "Town": pa.array(["Köln", "Ulm", "Bonn", "Köln", "O'Hara", "", "Ulm", "x,y"]).dictionary_encode(),
        'the "odd" one': ["1", "2", "3", "4", "5", "6", "7", "8"],
        "select": [1, 2, 3, 4, 5, 6, 7, 8],
        "bucket_2": [1, 1, 1, 1, 2, 2, 2, 2],
        "Größe; --": [1, 2, 3, 1, 2, 3, 1, 2],
        "a.b": [1, 0, 1, 0, 1, 0, 1, 0],
        "Disease": ["HIV", "Flu", "Flu", "Cold", "Flu", "HIV", "Cold", "Ulcer"],
    }
)

EXPRESSIONS = [
    "Gender = 'F'",
    "gender = 'F' AND DISEASE = 'HIV'",
    "\"GENDER\" <> 'F'",
    "NOT Gender = 'F'",
    "Gender IS NULL OR Age IS NULL",
    "Gender IS DISTINCT FROM 'F' AND Disease <> 'Flu'",
    "Gender IN ('F', NULL)",
    "Gender NOT IN ('F', 'X') AND Disease IN ('Flu', 'Cold')",
    "NOT (Gender = 'F' OR Disease = 'Flu')",
    "NOT (Gender = 'F' AND Disease = 'Flu')",
    "Age BETWEEN 20 AND 45 AND NOT (Age BETWEEN 40 AND 50)",
    "Age + 1 > 40 OR -Age < -60",
    "Age - -1 = 42",
    "Age % 2 = 1 AND Age // 10 = 4",
    "Age > '40'",
    "Gender LIKE 'f%' OR Gender ILIKE 'f%'",
    "Town LIKE '%\\_%' ESCAPE '\\' OR Town NOT LIKE 'K%'",
    "Town = 'O''Hara' OR Town = ''",
    "Town = $$Ulm$$ OR Town = e'K\\u00f6ln'",
    "Town ~ '^[A-Z].*n$' AND regexp_matches(Disease, 'F|H')",
    "lower(Town) = 'köln' AND length(Town) = 4",
    "upper(left(Town, 1)) || right(Town, 1) = 'Un' OR starts_with(Town, 'U') OR suffix(Town, 'y') OR Town ^@ 'B'",
    "contains(Town, ',') OR replace(Town, 'U', 'B') = 'Blm' OR substr(Town, 2, 2) = 'on' OR trim(Town) = ''",
    "replace(" * 9 + "Town" + ", 'l', 'b')" * 9 + " = 'Ubm'",
    "Born < DATE '1953-01-01' OR year(Born) = 1955",
    "extract(month FROM Born) IN (2, 4) OR date_part('day', Born) = 4",
    "Born + INTERVAL 3 DAY = DATE '1950-01-06'",
    "date_trunc('month', Born) = DATE '1951-02-01'",
    "Seen >= TIMESTAMPTZ '2024-01-03 00:00:00+00' AND day(Seen) < 6",
    "Income = 0.25 OR Income = 10.5 OR Income IS NULL",
    "CAST(Income AS DECIMAL(9, 1)) = 10.5 OR CAST(Income AS INTEGER) = 1",
    "TRY_CAST(Town AS INTEGER) IS NULL",
    "Insured",
    "NOT Insured AND Disease <> 'HIV'",
    "Insured IS TRUE OR Insured IS NOT FALSE",
    "Insured IS NULL",
    "Weight = 60.5 OR isnan(Weight) OR Weight < 0",
    "round(abs(Weight)) = 2 OR floor(Weight) = 71 OR ceil(Weight) = 91",
    "coalesce(Age, 0) < 20 OR nullif(Gender, 'X') IS NULL",
    "CASE WHEN Age > 40 THEN Disease = 'Flu' WHEN Age > 20 THEN Disease = 'HIV' END",
    "CASE Gender WHEN 'F' THEN 1 ELSE 2 END = 1",
    "if(Gender = 'F', Age, 0) > 30",
    '"the ""odd"" one" > \'5\'',
    '"select" > 3 AND "bucket_2" = 2',
    '"Größe; --" = 2',
    "\"größe; --\" = 2 AND Disease LIKE '%l%'",
    '"a.b" = 1',
    "length(Disease) * 10 > Age",
    "Gender = 'F' AND Disease = 'Flu' OR Gender = 'M' AND Disease = 'HIV' OR Age IS NULL",
    "(Gender = 'F') = (Disease = 'Flu')",
    "TRUE",
    "1 = 2",
    "NULL = 1",
    "Age > 1e1 AND Age < 5_0",
    " OR ".join(f"Age = {i}" for i in range(3000)),
    f"Age IN ({', '.join(map(str, range(5000)))})",
]


@pytest.fixture(scope="module", params=["parquet", "csv"])
def one_by_one(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    """A release that is the table: one record a bucket."""
    return write_release(
        tmp_path_factory.mktemp("one"), PEOPLE, "Disease", list(range(1, 9)), csv=request.param == "csv"
    )


@pytest.fixture(scope="module")
def counter(one_by_one: ReleaseFolder) -> Iterator[Counter]:
    with Counter(one_by_one) as opened:
        yield opened


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda text: text[:60])
def test_only_true_counts(counter: Counter, expression: str) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("people", PEOPLE)
    ((expected,),) = connection.execute(f"SELECT count(*) FROM people WHERE {expression}").fetchall()  # noqa: S608
    found = counter.count(expression)
    assert found.exact
    assert found.bounds == (expected, expected)
    assert found.estimate == expected


@pytest.mark.parametrize("columns", [("Gender",), ("Disease",), ("Gender", "Disease"), ("Town", "Born"), ("Weight",)])
@pytest.mark.parametrize("expression", ["Age > 20", "Disease <> 'Flu'", "Age > 20 OR Disease = 'HIV'"])
def test_groups_of_the_table(counter: Counter, columns: tuple[str, ...], expression: str) -> None:
    connection = duckdb.connect()
    connection.register("people", PEOPLE)
    listed = ", ".join(columns)
    shown = ", ".join(f"CAST({column} AS VARCHAR)" for column in columns)
    expected = connection.execute(
        f"""SELECT {shown}, count(*) FILTER (WHERE {expression}) FROM people
        GROUP BY {listed} ORDER BY {", ".join(f"{column} NULLS LAST" for column in columns)}"""  # noqa: S608
    ).fetchall()
    found = counter.count_by(expression, columns)
    texts = [tuple("nan" if v != v else None if v is None else str(v) for v in g.group.values()) for g in found]
    assert [(*text, g.estimate.bounds[0]) for text, g in zip(texts, found, strict=True)] == expected
    assert all(group.estimate.exact for group in found)


@pytest.fixture(scope="module")
def mixed_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReleaseFolder, ReleaseFolder]:
    """A larger table in random buckets, as Parquet and as CSV."""
    table = pa.table(
        {
            "Gender": [["F", "M", None][i * 7 % 3] for i in range(400)],
            "Age": [18 + i * 13 % 40 for i in range(400)],
            "Disease": [["HIV", "Flu", "Cold"][i * i % 7 % 3] for i in range(400)],
        }
    )
    buckets = random_buckets(400, 5)
    folder = tmp_path_factory.mktemp("mixed")
    return (
        write_release(folder / "a", table, "Disease", buckets, bucket="bucket_2"),
        write_release(folder / "b", table, "Disease", buckets, bucket="bucket_2", csv=True),
    )


QUERIES = [
    "Gender = 'F' AND Disease = 'HIV'",
    "Age > 30",
    "Disease <> 'Flu'",
    "Gender = 'F' AND Disease = 'Flu' OR Gender = 'M' AND Disease = 'HIV'",
    "length(Disease) * 10 > Age",
    "Age > 100 AND Disease = 'Flu'",
]


@pytest.mark.parametrize("query", QUERIES)
def test_text_and_parquet_say_the_same(mixed_up: tuple[ReleaseFolder, ReleaseFolder], query: str) -> None:
    assert count(mixed_up[0], query) == count(mixed_up[1], query)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("columns", [["Gender"], ["Disease"], ["Disease", "Gender"]])
def test_groups_add_up(mixed_up: tuple[ReleaseFolder, ReleaseFolder], query: str, columns: list[str]) -> None:
    whole, groups = count(mixed_up[0], query), count(mixed_up[0], query, columns)
    assert isinstance(whole, Estimate)
    assert isinstance(groups, list)
    assert sum(group.estimate.estimate for group in groups) == pytest.approx(whole.estimate)
    assert sum(group.estimate.bounds[0] for group in groups) <= whole.bounds[0]
    assert sum(group.estimate.bounds[1] for group in groups) >= whole.bounds[1]
    assert [list(group.group) for group in groups] == [columns] * len(groups)


@pytest.mark.parametrize("query", ["Age > 30 AND Disease <> 'Flu'", "Age > 30 OR Disease = 'Flu'"])
def test_a_group_is_a_condition(mixed_up: tuple[ReleaseFolder, ReleaseFolder], query: str) -> None:
    with Counter(mixed_up[0]) as counter:
        groups = counter.count_by(query, ["Gender", "Disease"])
        assert [tuple(group.group.values()) for group in groups] == [
            (gender, disease) for gender in ("F", "M", None) for disease in ("Cold", "Flu", "HIV")
        ]
        for group in groups:
            gender, disease = group.group.values()
            same = f"Gender IS NOT DISTINCT FROM {'NULL' if gender is None else repr(gender)} AND Disease = {disease!r}"
            assert counter.count(f"({query}) AND {same}") == group.estimate


def test_pairs_that_share_no_bucket_are_no_groups(tmp_path: Path) -> None:
    table = pa.table({"A": ["a", "a", "b", "b"], "X": ["x", "y", "x", "z"]})
    folder = write_release(tmp_path, table, "X", [1, 1, 2, 2])
    groups = count(folder, "TRUE", ["A", "X"])
    assert isinstance(groups, list)
    assert [tuple(g.group.values()) for g in groups] == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")]
    assert isinstance(groups[0], GroupEstimate)


@pytest.mark.parametrize(
    ("expression", "error", "said"),
    [
        ("Gendr = 'F'", NoSuchColumnError, "Did you mean 'Gender'"),
        ("Gender = F", NoSuchColumnError, "single quotes"),
        ('Disease = "HIV"', NoSuchColumnError, "single quotes"),
        ("bucket = 1", QueryError, "bucket column"),
        ("a.b = 1", QueryError, '"a.b"'),
        ("Age > 'old'", QueryError, "does not fit"),
        ("Gender > 5", QueryError, "compares text with a number"),
        ("CAST(Town AS INTEGER) = 1", QueryError, "TRY_CAST"),
        ("lower(Age) = 'x'", QueryError, "does not take"),
        ("Age", QueryError, "must be a condition"),
        ("'yes'", QueryError, "must be a condition"),
        ("Age >", QueryError, "not valid SQL"),
        ("regexp_matches(Town, '(')", QueryError, "cannot be evaluated"),
        ("", QueryError, "empty"),
    ],
)
def test_errors_help_and_quote_nobody(counter: Counter, expression: str, error: type[DaleniusError], said: str) -> None:
    with pytest.raises(error) as caught:
        counter.count(expression)
    assert said in str(caught.value)
    assert "Köln" not in str(caught.value)
    assert counter.count("Gender = 'F'").exact  # and the next one is answered


def test_groups_that_cannot_be(counter: Counter) -> None:
    for columns, said in ((["Gendr"], "Did you mean"), (["bucket"], "bucket column"), (["Age", "age"], "twice")):
        with pytest.raises(DaleniusError, match=said):
            counter.count_by("TRUE", columns)


def test_damaged_releases_are_not_counted(tmp_path: Path) -> None:
    folder = write_release(tmp_path / "a", PEOPLE, "Disease", [1, 1, 1, 1, 2, 2, 2, 2])
    write_release(tmp_path / "b", PEOPLE, "Disease", [1, 1, 1, 2, 2, 2, 2, 2])
    (tmp_path / "b" / "st.parquet").replace(tmp_path / "a" / "st.parquet")
    with pytest.raises(ReleaseError, match="2 buckets"):
        count(folder, "TRUE")
    (tmp_path / "a" / "st.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(ReleaseError, match="damaged"):
        count(folder, "TRUE")
    (tmp_path / "a" / "st.parquet").unlink()
    with pytest.raises(ReleaseError, match="No such file"):
        count(ReleaseFolder(folder.path, folder.manifest), "TRUE")
    with pytest.raises(ReleaseError, match="no manifest"):
        open_release(tmp_path)


def test_folders_with_odd_names(tmp_path: Path) -> None:
    folder = write_release(tmp_path / "it's [a] *.x=1 {b}?", PEOPLE, "Disease", [1, 1, 1, 1, 2, 2, 2, 2])
    assert count(folder, "Gender = 'F'") == Estimate.of(4, 0, 4, 4)


def test_too_many_pairs_are_refused(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalenius.query.pairs.MOST_PAIRS", 10)
    with pytest.raises(QueryError, match="at most 10"):
        counter.count("Age > length(Disease)")


def test_too_many_groups_are_refused(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalenius.query.count.MOST_GROUPS", 3)
    monkeypatch.setattr("dalenius.query.count.MOST_SEPARATE_GROUPS", 2)
    with pytest.raises(QueryError, match="more than 3"):
        counter.count_by("TRUE", ["Age"])
    with pytest.raises(QueryError, match="more than 2"):
        counter.count_by("Age > length(Disease)", ["Age"])
    assert len(counter.count_by("TRUE", ["Insured"])) == 3

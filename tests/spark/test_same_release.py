"""DuckDB against Spark: the same counts give the same plan, the same buckets and the same values in each of them.

Which record of a value comes first is the engine's own, and on Spark a matter of the partitions; so QIT differs.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import dalenius
from tests.effort import cases
from tests.spark.tables import COLUMNS, PIECE_ROWS, check_release, publish, town, written

GROUPS = {"tree": {"fever": ["Flu", "HIV"], "joints": ["Gout"]}}  # not in the order of the values
WISHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "strata found": {"strata": "auto"},
    "missing codes": {"missing": ["HIV"], "not_applicable": ["Cold"], "limits": {"odds": 8}},
    "set apart": {"not_applicable": ["Cold"], "strata": ["Gender"], "limits": {"odds": 8, "grouping": GROUPS}},
    "strata with fakes": {"strata": ["Gender"], "fake_values": 2},
    "groups, strata and fakes": {
        "limits": {"odds": 6, "grouping": {"tree": {"Feverish": ["Flu", "HIV"], "Other": ["Cold", "Gout"]}}},
        "strata": ["Gender"],
        "fake_values": 1,
    },
    "fakes": {"fake_values": 1, "known_records": 1},
    "strata by a column": {"strata": ["Gender"]},
}
PARTED = ("plain", "strata with fakes")  # with several numbers of partitions
ROWS = 6000  # enough for strata to be looked for, and few enough for the sample to be the whole table


def compared(release: dalenius.Release) -> dict[str, Any]:
    """The manifest, but for what says how the tables are stored."""
    made = release.manifest.model_dump()
    tables = made.pop("tables")
    return {**made, "rows of tables": {name: table["rows"] for name, table in tables.items()}}


@pytest.fixture(scope="module")
def local() -> dict[str, dalenius.Release]:
    """What DuckDB makes of every wish."""
    return {name: publish(town(ROWS, flu=0.3), seed=7, **wish) for name, wish in WISHES.items()}


@pytest.mark.parametrize("partitions", cases(7, 1, 20, usually=1))
@pytest.mark.parametrize("name", PARTED)
def test_any_number_of_partitions(
    spark: SparkSession, local: dict[str, dalenius.Release], partitions: int, name: str, tmp_path: Path
) -> None:
    """With a value that a third of the records have."""
    table = town(ROWS, flu=0.3)
    source = written(table, tmp_path / "table", files=partitions)
    assert spark.read.parquet(str(source)).rdd.getNumPartitions() == partitions
    release = publish(source, engine="spark", seed=7, **WISHES[name])
    assert compared(release) == compared(local[name])
    assert release.st.equals(local[name].st)
    check_release(release, table)
    parts = release.manifest.tables.qit.parts
    assert parts is not None
    assert len(parts) > 1  # and none has much more than its share, however many have the flu
    assert max(part.rows for part in parts) < PIECE_ROWS + max(group.size for group in release.manifest.setting)


@pytest.mark.parametrize("name", cases(*[name for name in WISHES if name not in PARTED], usually=4))
@pytest.mark.usefixtures("spark")
def test_any_wish(local: dict[str, dalenius.Release], name: str, tmp_path: Path) -> None:
    table = town(ROWS, flu=0.3)
    release = publish(written(table, tmp_path / "table", files=7), engine="spark", seed=7, **WISHES[name])
    assert compared(release) == compared(local[name])
    assert release.st.equals(local[name].st)
    check_release(release, table)


NUMBERS: dict[str, tuple[pa.Array, dict[str, Any], str | dict[str, Any]]] = {
    "whole, with strata": (
        pa.array([None if k % 11 == 0 else -99 if k % 13 == 0 else k * k % 700 for k in range(900)], pa.int32()),
        {"missing": ["-99"], "not_applicable": ["missing"], "strata": ["Gender"]},
        "quantiles:2:8",
    ),
    "text, in wide records": (
        pa.array(["" if k % 9 == 0 else f"{k % 50 / 4}" for k in range(900)]),
        {"missing": [""]},
        {"cuts": [[5], ["2.5", 5]]},
    ),
    "floats": (pa.array([(-1) ** k * 1.7 ** (k % 97) for k in range(900)]), {}, {"cuts": ["-1e9", 0, "1e9"]}),
    "decimals": (pa.array([Decimal(k * 7919 % 1000) / 8 for k in range(900)], pa.decimal128(12, 3)), {}, "width:50:25"),
}


@pytest.mark.parametrize("name", cases(*NUMBERS, usually=2))
@pytest.mark.usefixtures("spark")
def test_numbers_go_with_their_records(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines have the same bands in every bucket, and every bucket has the numbers of its own records."""
    if "wide" in name:
        monkeypatch.setattr("dalenius.publishing.spark.cluster_table.layout_of", lambda *_: None)
    numbers, wish, grouping = NUMBERS[name]
    table = town(900).set_column(2, "id", pa.array(range(900))).set_column(3, "Number", numbers)
    files = 1 if "wide" in name else 3
    source = written(table, tmp_path / "table", files=files)
    asked = {**wish, "sensitive": "Number", "limits": {"odds": 6, "grouping": grouping}, "seed": 7}
    local, release = (publish(source, engine=engine, **asked) for engine in ("duckdb", "spark"))
    assert compared(release) == compared(local)
    check_release(release, table)
    own = dict(zip(table["id"].to_pylist(), numbers.to_pylist(), strict=True))
    codes = wish.get("missing", ())
    shown, expected = dict[int, list[Any]](), dict[int, list[Any]]()
    for row in release.st.to_pylist():
        shown.setdefault(row["bucket"], []).append(row["Number"])
    for row in release.qit.to_pylist():
        number = None if str(own[row["id"]]) in codes else own[row["id"]]
        expected.setdefault(row["bucket"], []).append(float(number) if isinstance(number, str) else number)
    assert shown == {k: sorted(some, key=lambda n: (n is None, n or 0)) for k, some in expected.items()}
    if files == 1:  # then records come in the same order, and the same ones are in each bucket
        assert release.st.equals(local.st)
        assert release.qit.equals(local.qit)


@pytest.mark.usefixtures("spark")
def test_a_seed_and_partitions_give_the_same_rows_and_other_partitions_do_not(tmp_path: Path) -> None:
    table = town(1500, flu=0.3)
    seven, three = (written(table, tmp_path / f"{files}", files=files) for files in (7, 3))
    runs = [publish(source, engine="spark", seed=seed) for source, seed in ((seven, 5), (seven, 5), (seven, 6))]
    other = publish(three, engine="spark", seed=5)
    assert runs[0].qit.equals(runs[1].qit)
    assert compared(runs[0]) == compared(runs[1]) == compared(other)
    assert not runs[0].qit.equals(runs[2].qit)
    assert not runs[0].qit.equals(other.qit)
    assert runs[0].st.equals(other.st)


VALUES: dict[str, pa.Array] = {
    "long": pa.array([2**63 - 1, -(2**63), 10, 9], pa.int64()),
    "text": pa.array(["", "ä", "\U00010000", "\uffff"]),
    "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 2, 29), dt.date(1969, 12, 31)]),
    "double": pa.array([1.5, -0.0, 0.0, float("nan")]),
    "decimal": pa.array([Decimal("1.00"), Decimal("-2.50"), Decimal("0.00"), Decimal("99999.99")], pa.decimal128(9, 2)),
    "instant": pa.array([0, 1, -1, 3_600_000_000], pa.timestamp("us", tz="UTC")),
    "byte": pa.array([1, -2, 1, 3], pa.int8()),
    "boolean": pa.array([True, False, True, False]),
    "float": pa.array([0.1, 1e30, -1e-30, 16777216.0], pa.float32()),
    "local time": pa.array([0, 1, -1, 3_600_000_000], pa.timestamp("us")),
}


@pytest.mark.parametrize("kind", cases(*VALUES, usually=4))
@pytest.mark.usefixtures("spark")
def test_sensitive_values_of_any_type(kind: str, tmp_path: Path) -> None:
    """They have the same names on both, and the same order."""
    table = pa.table({"q": [1, 2, 3, 4], "s": VALUES[kind]})
    source = written(table, tmp_path / "table", files=2)
    asked: dict[str, Any] = {"limits": {"uniform": "1/2"}, "sensitive": "s", "quasi_identifiers": ["q"], "seed": 3}
    local, release = (publish(source, engine=engine, **asked) for engine in ("duckdb", "spark"))
    assert compared(release) == compared(local)
    assert list(map(repr, release.st.to_pylist())) == list(map(repr, local.st.to_pylist()))
    check_release(release, table)


def test_however_spark_knows_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """By a folder, a URL, a name in its catalog, or as a DataFrame; the session goes on."""
    table = town(300).set_column(0, "Age", pa.array([str(k % 40) for k in range(300)]))
    folder = written(table, tmp_path / "table", files=2)
    frame = spark.read.parquet(str(folder))
    frame.createOrReplaceTempView("people")
    frame.coalesce(1).write.orc(str(tmp_path / "table.orc"))
    local = publish(folder, seed=7, quasi_identifiers=["Age", "Gender"])
    for source in (str(folder), folder.as_uri(), "people", frame, tmp_path / "table.orc"):
        known = {} if source is frame else {"engine": "spark"}
        release = publish(source, seed=7, quasi_identifiers=["Age", "Gender"], **known)
        assert compared(release) == compared(local)
        check_release(release, table)
    assert spark.range(5).count() == 5


def test_releases_go_to_urls_too(spark: SparkSession, tmp_path: Path) -> None:
    table = town(300)
    publish(written(table, tmp_path / "table"), engine="spark", out=(tmp_path / "release").as_uri())
    check_release(dalenius.load(tmp_path / "release"), table)
    assert set(COLUMNS) <= set(spark.read.parquet(str(tmp_path / "release" / "qit*")).columns)

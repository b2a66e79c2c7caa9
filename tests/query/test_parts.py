"""Counts and workloads of a release in parts are those of the same release in single files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dalenius
from dalenius.errors import ReleaseError
from dalenius.query.count import Counter, open_tables
from dalenius.query.count import count as count_and_learn
from dalenius.query.workload import evaluate
from dalenius.release.folder import ReleaseFolder, open_release
from tests.effort import cases
from tests.handmade import many_types
from tests.parts import ElsewhereStore, into_parts, patients, published

count = partial(count_and_learn, learn=False, measure=False)  # quick: what single buckets give

CONDITIONS = [
    "Age > 50",
    "Disease = 'disease 3'",
    "Age > 50 AND Disease IN ('disease 3', 'disease 4')",
    "Town IS NULL AND Disease <> 'disease 0'",
    "Age > 40 OR Disease = 'disease 1'",
    "Since > DATE '2001-05-05' AND Weight < 70.5 AND Disease = 'disease 2'",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(patients(), tmp_path_factory.mktemp("counted") / "release").path


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of some rows, for as many parts."""
    return published(patients(90), tmp_path_factory.mktemp("few") / "release", max_size=30).path


@pytest.mark.parametrize("part_rows", cases(50, 1, 10_000, usually=1))
def test_counts(whole: Path, few: Path, tmp_path: Path, part_rows: int) -> None:
    whole = few if part_rows == 1 else whole
    parts = into_parts(whole, tmp_path / "parts", part_rows)
    manifest = open_release(parts).manifest
    elsewhere = ReleaseFolder(Path("nowhere"), manifest, ElsewhereStore(parts))
    for folder in (open_release(parts), elsewhere):
        with Counter(open_release(whole)) as one, Counter(folder) as many:
            for condition in CONDITIONS:
                assert many.count(condition) == one.count(condition)
                assert many.count_by(condition, ["Town"]) == one.count_by(condition, ["Town"])
                assert many.count_by(condition, ["Disease"]) == one.count_by(condition, ["Disease"])


def test_learning(whole: Path, tmp_path: Path) -> None:
    parts = dalenius.load(into_parts(whole, tmp_path / "parts", 64))
    condition = "Age > 50 AND Disease = 'disease 3'"
    assert parts.count(condition, learn=True) == dalenius.load(whole).count(condition, learn=True)


def test_the_workload(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "parts", 64)
    wanted = evaluate(open_release(whole), patients(), queries=60)
    assert evaluate(open_release(parts), patients(), queries=60) == wanted


@pytest.mark.parametrize("part_rows", [1, 3])
def test_columns_of_every_kind(tmp_path: Path, part_rows: int) -> None:
    whole = many_types().write(tmp_path / "whole")
    parts = into_parts(whole, tmp_path / "parts", part_rows)
    elsewhere = ReleaseFolder(Path("nowhere"), open_release(parts).manifest, ElsewhereStore(parts))
    for condition in ("money > 0", "kind = 'x'", "ratio > -1 AND big < 5", "flag", "name LIKE 'Ü%'"):
        wanted = count(open_release(whole), condition)
        assert count(open_release(parts), condition) == wanted
        assert count(elsewhere, condition) == wanted


def test_the_connection_reaches_the_parts_alone(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "k=1" / "[parts]*", 256)
    (parts / "st" / "other.parquet").write_bytes((parts / "st" / "part-00000.parquet").read_bytes())
    with open_tables(open_release(parts)) as tables:
        files = [parts / "st" / "part-00001.parquet", parts / "st" / "other.parquet"]
        names = ["'" + str(file).replace("[", "[[]").replace("*", "[*]") + "'" for file in files]
        assert tables.connection.execute(f"SELECT count(*) FROM read_parquet({names[0]})").fetchall() == [(256,)]  # noqa: S608
        with pytest.raises(Exception, match="disabled by configuration"):
            tables.connection.execute(f"SELECT count(*) FROM read_parquet({names[1]})")  # noqa: S608
        assert tables.types["s"] == "VARCHAR"
        assert "k" not in tables.identifiers


def test_a_part_that_is_not_there_or_of_another_layout(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "parts", 256)
    part = parts / "st" / "part-00001.parquet"
    content = pq.ParquetFile(part).read()
    for other in (
        pa.table({"bucket": content["bucket"], "Illness": content["Disease"]}),
        pa.table({"Disease": content["Disease"], "bucket": content["bucket"]}),
        pa.table({"bucket": content["bucket"].cast(pa.float64()), "Disease": content["Disease"]}),
    ):
        pq.write_table(other, part)
        with pytest.raises(ReleaseError, match=r"part-00001\.parquet has other columns or types"):
            count(open_release(parts), "Disease = 'disease 1'")
    part.unlink()
    with pytest.raises(ReleaseError, match=r"part-00001\.parquet cannot be read"):
        count(open_release(parts), "Disease = 'disease 1'")

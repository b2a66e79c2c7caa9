"""Releases of format 3, whose files Spark itself wrote: they pass, and nothing more than its own entries does."""

from __future__ import annotations

import datetime
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import dalenius
from dalenius.release.folder import open_release
from dalenius.release.manifest import FILE
from dalenius.release.two_tables import TableFile, TablePart, Tables
from dalenius.verify.judge import verify
from dalenius.verify.parquet_bytes import read_footer
from tests.handmade import edit_manifest, restate_hashes
from tests.parts import into_parts
from tests.verify.test_verify import failed

ROWS = 240
TYPES: dict[str, pa.DataType] = {
    "tiny": pa.int8(),
    "small": pa.int16(),
    "whole": pa.int32(),
    "large": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "flag": pa.bool_(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "day": pa.date32(),
    "instant": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "money": pa.decimal128(9, 2),
    "wide": pa.decimal128(38, 10),
    'Größe "x" \\ \x1f': pa.int64(),
}


def _cell(kind: pa.DataType, number: int) -> Any:
    """A value of the type; every eleventh row has none."""
    if number % 11 == 0:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(number - 100).scaleb(-kind.scale)
    if pa.types.is_timestamp(kind):
        moment = datetime.datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)
        return (moment + datetime.timedelta(days=number)).replace(tzinfo=datetime.UTC if kind.tz else None)
    cells = {"string": f"Łódź {number % 7}", "binary": bytes([number % 5, 255]), "bool": number % 2 == 0}
    cells["date32[day]"] = datetime.date(1950, 1, 1) + datetime.timedelta(days=number)
    return cells.get(str(kind), number % 100 - 50)


def _table() -> pa.Table:
    rng = random.Random(1)  # noqa: S311
    columns = {name: pa.array([_cell(kind, row) for row in range(ROWS)], kind) for name, kind in TYPES.items()}
    return pa.table(columns | {"Disease": [f"disease {rng.randrange(8)}" for _ in range(ROWS)]})


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases in three parts a table: `plain`, with comments (`note`) and with Bloom filters (`bloom`)."""
    scratch = tmp_path_factory.mktemp("mr")
    limits = {f"disease {place}": "1/2" for place in range(8)}
    dalenius.publish(_table(), limits, sensitive="Disease", quasi_identifiers=list(TYPES), out=scratch / "release")
    parts = into_parts(scratch / "release", scratch / "parts", ROWS // 3)
    manifest = open_release(parts).manifest
    files = [*manifest.tables.qit.files, *manifest.tables.st.files]
    with _settings(spark):
        for wish in ("plain", "note", "bloom"):
            for name in files:
                _write_anew(spark, parts / name, scratch / f"spark {wish}" / name, wish)
    for wish in ("plain", "note", "bloom"):
        _gather(scratch / f"spark {wish}", scratch / wish, parts)
    return scratch


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Times as they are in the file."""
    wanted = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", "spark.sql.session.timeZone": "UTC"}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.set(name, str(earlier))


def _write_anew(spark: SparkSession, source: Path, target: Path, wish: str) -> None:
    """Rows in their order, by Spark itself; with a comment on every column (`note`), or Bloom filters (`bloom`)."""
    table = spark.read.parquet(str(source))
    if wish == "note":
        for name in table.columns:
            table = table.withMetadata(name, {"comment": "Ann has HIV"})
    writer = table.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.option("parquet.bloom.filter.enabled", str(wish == "bloom").lower()).parquet(str(target))


def _gather(written: Path, out: Path, like: Path) -> None:
    """A release of the files that Spark wrote, one in each folder."""
    manifest = open_release(like).manifest
    tables = {}
    for table, entry in (("qit", manifest.tables.qit), ("st", manifest.tables.st)):
        (out / table).mkdir(parents=True)
        parts = []
        for name, part in zip(entry.files, entry.parts or (), strict=True):
            (file,) = (written / name).glob("*.parquet")
            shutil.copyfile(file, out / table / file.name)
            parts.append(TablePart(file=file.name, rows=part.rows, bytes=1, sha256="0" * 64))
        tables[table] = TableFile.of_parts(table, parts)
    (out / FILE).write_text(manifest.model_copy(update={"tables": Tables(**tables)}).to_json(), encoding="utf-8")
    edit_manifest(out, _as_in_format_3)
    restate_hashes(out)


def _as_in_format_3(manifest: dict[str, Any]) -> None:
    manifest["format"] = 3
    for key in ("groups", "bands", "missing", "people", "persons", "group_table", "others", "together", "chain"):
        del manifest[key]
    del manifest["columns"]["sensitive"]["of"]
    for value in manifest["values"]:
        del value["group"], value["applies"]
    for column in (*manifest["columns"]["quasi_identifiers"], manifest["columns"]["sensitive"]):
        del column["nulls"]


@pytest.fixture
def release(by_spark: Path, tmp_path: Path) -> Path:
    """One to change."""
    return Path(shutil.copytree(by_spark / "plain", tmp_path / "release"))


def _part(release: Path, table: str = "qit") -> Path:
    return release / open_release(release).files("qit" if table == "qit" else "st")[1]


def test_the_files_are_sparks_own(by_spark: Path) -> None:
    metadata = pq.read_metadata(_part(by_spark / "plain"))
    assert metadata.created_by.startswith("parquet-mr")
    assert set(metadata.metadata) == {b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"}
    with _part(by_spark / "plain").open("rb") as file:
        footer = read_footer(file)
    assert footer.rows == [ROWS // 3]
    assert len(footer.columns) == len(TYPES) + 1
    assert len(footer.indexes) == 2 * len(footer.columns)


@pytest.mark.parametrize("wish", ["plain", "bloom"])
def test_what_spark_writes_passes(by_spark: Path, wish: str) -> None:
    verdict = verify(by_spark / wish, against=_table())
    assert verdict.findings == ()
    assert verdict.notes == ()
    assert verdict.verified
    with _part(by_spark / wish).open("rb") as file:
        assert bool(read_footer(file).filters) == (wish == "bloom")


def test_types_and_rows_come_back_as_the_manifest_says(by_spark: Path) -> None:
    made, whole = dalenius.load(by_spark / "plain"), dalenius.load(by_spark / "release")
    stated = {column.name: column.type for column in made.manifest.columns.quasi_identifiers}
    assert stated == {name: str(kind) for name, kind in TYPES.items()}
    read = pq.ParquetFile(_part(made.path)).schema_arrow
    assert {name: read.field(name).type for name in TYPES} == TYPES
    assert made.qit.cast(whole.qit.schema).equals(whole.qit)  # format 3 does not say where nulls are
    assert made.st.cast(whole.st.schema).equals(whole.st)


@pytest.mark.parametrize("condition", ["tiny > 3 AND Disease = 'disease 1'", "money < 0", "instant > '2000-02-01'"])
def test_counts_are_those_of_the_single_files(by_spark: Path, condition: str) -> None:
    made, whole = dalenius.load(by_spark / "plain"), dalenius.load(by_spark / "release")
    assert made.count(condition) == whole.count(condition)
    assert made.count(condition, ["text"]) == whole.count(condition, ["text"])


def test_comments_of_columns_are_found(by_spark: Path) -> None:
    verdict = verify(by_spark / "note")
    assert failed(verdict) == {"schema"}
    assert "what Spark stored in qit/part-" in verdict["schema"].findings[0].message
    assert verdict["schema"].count == 6


REPLACED = {
    "another key": (b"org.apache.spark.version", b"org.apache.spark.comment"),
    "a version that is none": (b"\x054.3.0", b"\x05Ann=1"),
    "another type": (b'"type":"short"', b'"type":"Annie"'),
    "another name": (b'"name":"flag"', b'"name":"Anna"'),
    "another order": (b'"nullable":true,"metadata":{}', b'"metadata":{},"nullable":true'),
    "nulls that cannot be": (b'"nullable":true,"metadata":{}', b'"nullable":false,"metadata":0'),
}


@pytest.mark.parametrize("name", REPLACED)
def test_other_entries_are_found(release: Path, name: str) -> None:
    old, new = REPLACED[name]
    assert len(old) == len(new)
    part = _part(release)
    content = part.read_bytes()
    assert old in content
    part.write_bytes(content.replace(old, new, 1))
    restate_hashes(release)
    verdict = verify(release)
    assert failed(verdict) == {"schema"}


def _between(content: bytes) -> bytes:
    """Bytes between the indexes and the footer."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    return content[:-footer] + b"Ann has HIV" + content[-footer:]


def _truncated(content: bytes) -> bytes:
    """A footer that ends in its middle, of the length that it then has."""
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    return content[: start + length // 2] + (length // 2).to_bytes(4, "little") + b"PAR1"


def _behind(content: bytes) -> bytes:
    """A footer that goes on behind its end."""
    length = int.from_bytes(content[-8:-4], "little") + 11
    return content[:-8] + b"Ann has HIV" + length.to_bytes(4, "little") + b"PAR1"


def _longer(content: bytes) -> bytes:
    return content[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("change", [_between, _truncated, _behind, _longer])
def test_what_is_hidden_or_damaged_is_found(release: Path, change: Callable[[bytes], bytes]) -> None:
    part = _part(release, "st")
    part.write_bytes(change(part.read_bytes()))
    restate_hashes(release)
    assert failed(verify(release)) == {"schema"}


def test_a_garbled_footer_never_breaks_the_judge(release: Path) -> None:
    rng = random.Random(7)  # noqa: S311
    part = _part(release, "st")
    whole = part.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            content[-9 - rng.randrange(length)] = rng.randrange(256)
        part.write_bytes(content)
        verdict = verify(release)
        assert (content == whole) == verdict.verified

"""Old releases keep verifying: small releases of every format that there ever was, read by today's code."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dalenius
from dalenius.release.folder import TableName, open_release
from dalenius.release.manifest import FORMAT
from dalenius.release.parquet_pages import FileWriter
from tests.handmade import csv_cell
from tests.naive_parquet import parquet

FORMATS = Path(__file__).parent / "formats"
RELEASES = sorted(path.parent for path in FORMATS.glob("*/*/manifest.json"))
CSV_ROWS = 450  # the releases in CSV are of the first rows
CHAIN_ROWS = 300, 420  # every other one of the first of these left, and the others are new in the second release


def people(release: Path) -> pa.Table:
    table = pyarrow.parquet.read_table(FORMATS / "people.parquet")
    if release.name == "chain":
        first, both = CHAIN_ROWS
        return table.take([*range(1, first, 2), *range(first, both)])
    return table.slice(0, CSV_ROWS) if release.name == "csv" else table


def test_every_format_that_there_ever_was_has_releases() -> None:
    """Whoever raises the format adds releases of it here, and keeps those that are."""
    for release in RELEASES:
        stated = json.loads((release / "manifest.json").read_text(encoding="utf-8"))["format"]
        assert release.parent.name == str(stated)
    assert {int(release.parent.name) for release in RELEASES} == set(range(1, FORMAT + 1))
    kinds = Counter(path.name for path in RELEASES)
    assert kinds["parquet"] == kinds["csv"] == FORMAT
    assert kinds["parts"] == FORMAT - 2  # since format 3
    assert kinds["groups"] == FORMAT - 4  # since format 5
    assert kinds["chain"] == FORMAT - 6  # since format 7


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: f"{path.parent.name}-{path.name}")
class TestOldReleases:
    """Each of them."""

    def test_it_verifies(self, release: Path) -> None:
        verdict = dalenius.load(release).verify(against=people(release))
        assert verdict.verified, verdict.findings
        assert verdict.notes == () or (
            release.name == "chain" and len(verdict.notes) == 1
        )  # the one before is not here
        assert dalenius.load(release).verify(limits={"uniform": "0.75", "values": {"HIV": "0.25"}}).verified

    def test_it_is_still_judged(self, release: Path) -> None:
        """Other people, and tighter limits, are found."""
        others = people(release).slice(1)
        assert not dalenius.load(release).verify(against=others).verified
        assert not dalenius.load(release).verify(limits={"uniform": "0.2"}).verified

    def test_it_can_be_queried(self, release: Path) -> None:
        table, opened = people(release), dalenius.load(release)
        assert opened.qit.num_rows == table.num_rows
        estimate = opened.count("\"Age (years)\" < 55 AND Disease = 'Flu'")
        rows = zip(table["Age (years)"].to_pylist(), table["Disease"].to_pylist(), strict=True)
        truth = sum(age is not None and age < 55 and disease == "Flu" for age, disease in rows)
        assert estimate.bounds[0] <= truth <= estimate.bounds[1]
        assert estimate.bounds[0] <= estimate.estimate <= estimate.bounds[1]

    def test_it_can_be_audited(self, release: Path) -> None:
        opened = dalenius.load(release)
        audit = opened.audit(truth=people(release))
        assert audit.broken == ()
        played = {attack.name for attack in audit.attacks}
        always = {"corruption", "negative", "learning", "order"}
        assert played == (always | {"minimality"} if opened.manifest.strata is not None else always)

    def test_it_can_be_saved_and_replaced(self, release: Path, tmp_path: Path) -> None:
        opened = dalenius.load(release)
        saved = opened.save(tmp_path / "release")
        assert saved.manifest == opened.manifest
        stored = (tmp_path / "release" / "manifest.json").read_bytes()
        assert stored == (release / "manifest.json").read_bytes()  # of its format, beside files of that format
        assert opened.save(tmp_path / "release", force=True).verify(against=people(release)).verified


def test_strata_fakes_nulls_and_odd_names_are_among_them() -> None:
    manifests = [dalenius.load(release).manifest for release in RELEASES]
    assert {manifest.adversary.fake_values for manifest in manifests} == {0, 1}
    assert {manifest.adversary.known_records for manifest in manifests} == {0, 1}
    assert {manifest.strata is None for manifest in manifests} == {True, False}
    for manifest in manifests:
        names = [column.name for column in manifest.columns.quasi_identifiers]
        assert names == ["Age (years)", "city, or 'town'", "bucket", 'we"ight']
        assert manifest.columns.bucket == "bucket_2"
    for release in RELEASES:
        assert dalenius.load(release).qit["Age (years)"].null_count == 1
    assert {manifest.groups is None for manifest in manifests} == {True, False}
    (chain,) = (dalenius.load(release) for release in RELEASES if release.name == "chain")
    assert chain.manifest.chain is not None
    assert chain.manifest.chain.release == 2
    assert len(set(chain.qit["bucket_2"].to_pylist())) < chain.manifest.buckets  # from some, everybody left


TABLES: tuple[TableName, ...] = ("qit", "st")
STRICT = [release for release in RELEASES if int(release.parent.name) >= 4]


@pytest.mark.parametrize("release", STRICT, ids=lambda path: f"{path.parent.name}-{path.name}")
class TestSpelling:
    """Every byte follows from the rows. Whoever changes what is written raises the format."""

    def test_the_files_are_what_is_written_of_their_rows_today(self, release: Path) -> None:
        folder = open_release(release)
        bucket = folder.manifest.columns.bucket
        for name in TABLES:
            schema = folder.schema(name)
            for file in folder.files(name):
                content = (release / file).read_bytes()
                again = io.BytesIO()
                if file.endswith(".csv"):
                    with pyarrow.csv.CSVWriter(again, schema) as text:
                        for batch in folder.batches_of(name, file):
                            text.write(batch)
                else:
                    metadata = pyarrow.parquet.read_metadata(io.BytesIO(content))
                    rows = pyarrow.parquet.read_table(io.BytesIO(content)).combine_chunks()
                    writer = FileWriter(again, schema, bucket)
                    for start in range(0, len(rows), metadata.row_group(0).num_rows):
                        group = rows.slice(start, metadata.row_group(0).num_rows)
                        writer.write_group([column.combine_chunks() for column in group.columns])
                    writer.finish()
                assert again.getvalue() == content

    def test_the_files_are_what_a_naive_writer_makes_of_their_rows(self, release: Path) -> None:
        folder = open_release(release)
        for name in TABLES:
            types = {field.name: field.type for field in folder.schema(name)}
            nulls = [field.name for field in folder.schema(name) if field.nullable]
            for file in folder.files(name):
                content = (release / file).read_bytes()
                batches = pa.Table.from_batches(list(folder.batches_of(name, file)))
                rows = [tuple(row.values()) for row in batches.to_pylist()]
                if file.endswith(".csv"):
                    lines = [[csv_cell(pa.string(), name) for name in types]]
                    lines += [[csv_cell(*cell) for cell in zip(types.values(), row, strict=True)] for row in rows]
                    assert "".join(",".join(line) + "\n" for line in lines).encode() == content
                else:
                    group = pyarrow.parquet.read_metadata(io.BytesIO(content)).row_group(0).num_rows
                    bucket = folder.manifest.columns.bucket
                    assert parquet(types, rows, bucket=bucket, group=group, nulls=nulls) == content

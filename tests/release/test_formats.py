"""Old releases keep verifying: small releases of every format that there ever was, read by today's code."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.release.manifest import FORMAT

FORMATS = Path(__file__).parent / "formats"
RELEASES = sorted(path.parent for path in FORMATS.glob("*/*/manifest.json"))
CSV_ROWS = 450  # the releases in CSV are of the first rows


def people(release: Path) -> pa.Table:
    table = pyarrow.parquet.read_table(FORMATS / "people.parquet")
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


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: f"{path.parent.name}-{path.name}")
class TestOldReleases:
    """Each of them."""

    def test_it_verifies(self, release: Path) -> None:
        verdict = dalenius.load(release).verify(against=people(release))
        assert verdict.verified, verdict.findings
        assert verdict.notes == ()
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

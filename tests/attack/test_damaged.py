"""Releases that do not hold together are refused, as other commands refuse them; other faults are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dalenius.attack.audit import audit
from dalenius.errors import ReleaseError
from tests.handmade import edit_manifest, hospital


def rewritten(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = folder / "qit.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def in_manifest(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    return lambda folder: edit_manifest(folder, change)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: rewritten(folder, lambda table: table.drop_columns(table.column_names[:1])),
        lambda folder: rewritten(folder, lambda table: table.slice(0, 0)),
        lambda folder: rewritten(folder, lambda table: table.rename_columns([f"_{n}" for n in table.column_names])),
        in_manifest(lambda manifest: manifest.update(rows=10**15)),
        in_manifest(lambda manifest: manifest["setting"][0].update(size=10**12)),
    ],
    ids=["a column less", "no rows", "other names", "other rows", "other sizes"],
)
def test_a_release_that_does_not_hold_together_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = hospital().write(tmp_path / "r")
    damage(folder)
    with pytest.raises(ReleaseError, match="does not hold together"):
        audit(folder)


def test_a_fault_that_attacks_can_live_with_is_told(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "r")
    edit_manifest(folder, lambda manifest: manifest["tables"]["qit"].update(sha256="0" * 64))
    found = audit(folder)
    assert found.notes[0] == "dalenius verify does not pass this release: hashes"
    assert found["corruption"].success is not None


def test_a_huge_number_of_known_records_takes_no_more_than_a_bucket(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "r")
    few, many = (audit(folder, attacks=["corruption"], known=known)["corruption"] for known in (3, 10**30))
    assert few.people_above_limit == many.people_above_limit
    assert len(many.details["by_known"]) == len(few.details["by_known"]) + 1  # that number itself

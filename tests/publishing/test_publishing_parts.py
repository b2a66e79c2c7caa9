"""Releases in parts, from a table to a folder: the rows of one file, cut where the table says and not memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.model.memory import resident_memory
from dalenius.place.budget import Budget
from dalenius.publishing import description as writing
from dalenius.publishing import local_output as output
from dalenius.release.manifest import read_manifest
from tests.handmade import edit_manifest

GROUP, PART = 64, 256


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups and parts so short that a small table has several."""
    monkeypatch.setattr(writing, "_GROUP_BITS", GROUP.bit_length() - 1)
    monkeypatch.setattr(output, "_PART_ROWS", PART)


def table(rows: int = 1000, wide: bool = False) -> pa.Table:
    rng = np.random.default_rng(rows)
    age = rng.integers(18, 90, rows)
    made = pa.table(
        {
            "age": age,
            "place": pa.array([f"place {number}" for number in rng.integers(0, 30, rows)]),
            "s": pa.array([f"value {number}" for number in (rng.integers(0, 4, rows) + age // 30) % 6]),
        }
    )
    return made.add_column(0, "x", pa.array(rng.normal(size=rows))) if wide else made


def publish(source: Any, **options: Any) -> dalenius.Release:
    columns = [name for name in source.schema.names if name != "s"]
    return dalenius.publish(source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=columns, **options)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"strata": "none"}, {"strata": ["age"]}, {"strata": 4}, {"fake_values": 1, "avoid_ruled_out": True}],
    ids=str,
)
def test_parts_hold_the_rows_of_one_file(wide: bool, options: dict[str, Any], tmp_path: Path) -> None:
    source = table(wide=wide)
    whole = publish(source, seed=1, **options)
    parts = publish(source, seed=1, format="parts", out=tmp_path / "release", **options)
    assert parts.qit.equals(whole.qit)
    assert parts.st.equals(whole.st)
    assert parts.notes == whole.notes
    assert parts.manifest.model_copy(update={"tables": whole.manifest.tables}) == whole.manifest
    assert parts.verify(against=source, limits={"uniform": "1/2"}).verified
    files = {"manifest.json"}
    for name, entry in (("qit", parts.manifest.tables.qit), ("st", parts.manifest.tables.st)):
        assert entry.file == name
        assert entry.parts is not None
        assert [part.rows for part in entry.parts[:-1]] == [PART] * (len(entry.parts) - 1)
        assert 0 < entry.parts[-1].rows <= PART
        assert len(entry.parts) == -(-entry.rows // PART) > 3
        files |= {f"{name}/part-{number:05d}.parquet" for number in range(len(entry.parts))}
        first = pyarrow.parquet.ParquetFile(tmp_path / "release" / name / "part-00000.parquet").metadata
        assert [first.row_group(k).num_rows for k in range(first.num_row_groups)] == [GROUP] * (PART // GROUP)
    there = (path.relative_to(tmp_path / "release") for path in (tmp_path / "release").rglob("*") if path.is_file())
    assert {str(path) for path in there} == files


def test_a_part_is_a_million_rows_or_all_there_are() -> None:
    assert output._PART_ROWS == 2**20
    release = publish(table(), format="parts")
    entries = (release.manifest.tables.qit, release.manifest.tables.st)
    assert [[part.rows for part in entry.parts or ()] for entry in entries] == [[1000], [1000]]


@pytest.mark.usefixtures("short_parts")
def test_where_parts_end_does_not_depend_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for memory in (None, resident_memory() + 320 * 2**20):
        for fits in (True, False):
            monkeypatch.setattr(Budget, "copy_fits", lambda _self, _rows, fits=fits: fits)
            monkeypatch.setattr(Budget, "keys_fit", lambda _self, _rows, fits=fits: fits)
            tables = publish(table(), seed=1, format="parts", memory=memory).manifest.tables
            digests.add((tables.qit.sha256, tables.st.sha256))
    assert len(digests) == 1


@pytest.mark.usefixtures("short_parts")
def test_force_replaces_parts_by_fewer_and_by_files(tmp_path: Path) -> None:
    out = tmp_path / "release"
    publish(table(2000), out=out, format="parts")
    fewer = publish(table(700), out=out, format="parts", force=True)
    assert fewer.verify(against=table(700)).verified
    assert len(list((out / "qit").iterdir())) == 3
    publish(table(), out=out, force=True)
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "qit.parquet", "st.parquet"]
    publish(table(), out=out, format="parts", force=True)
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "qit", "st"]
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    (out / "qit" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(dalenius.DaleniusError, match="not a release"):
        publish(table(), out=out, format="parts", force=True)
    assert (out / "qit" / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("short_parts")
def test_what_is_written_is_what_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that change on their way to the disk do not get published."""
    proper = output.LocalOutput.read_back

    def spoilt(self: output.LocalOutput, manifest: Any) -> Any:
        folder = proper(self, manifest)
        last = folder.path / folder.files("qit")[-1]
        data = bytearray(last.read_bytes())
        data[len(data) // 3] ^= 1
        last.write_bytes(data)
        return folder

    monkeypatch.setattr(output.LocalOutput, "read_back", spoilt)
    with pytest.raises(dalenius.DaleniusError, match="did not pass its own verification"):
        publish(table(), out=tmp_path / "release", format="parts")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("short_parts")
def test_the_manifest_that_is_published_is_the_one_that_was_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(folder: Path) -> Any:
        edit_manifest(folder, lambda manifest: manifest.update(rows=manifest["rows"] + 1))
        return read_manifest(folder)

    monkeypatch.setattr(output, "read_manifest", changed)
    with pytest.raises(dalenius.DaleniusError, match="did not pass its own verification"):
        publish(table(), out=tmp_path / "release", format="parts")
    assert list(tmp_path.iterdir()) == []

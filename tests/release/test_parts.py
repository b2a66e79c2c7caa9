"""Tables in parts: how they are written, named and replaced."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dalenius
from dalenius.errors import ReleaseError, UsageError
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import read_manifest, tables_of_release
from dalenius.release.staging import check_target
from dalenius.release.store import LocalStore
from dalenius.release.two_tables import TableFile, TablePart
from dalenius.release.writer import PartsWriter
from tests.effort import cases
from tests.handmade import edit_manifest, hospital
from tests.parts import ElsewhereStore, into_parts, patients, published


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(patients(), tmp_path_factory.mktemp("parts") / "release").path


@pytest.mark.parametrize(
    ("group", "part_rows", "pieces"), [(4, 8, [5, 1, 20, 4]), (1, 1, [3]), (8, 8, [16]), (2, 6, [9, 9])]
)
def test_every_part_but_the_last_has_so_many_rows(
    tmp_path: Path, group: int, part_rows: int, pieces: list[int]
) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.string(), nullable=False)])
    writer = PartsWriter(tmp_path / "qit", schema, group, part_rows, "n")
    numbers = list(range(sum(pieces)))
    start = 0
    for rows in pieces:
        chosen = numbers[start : start + rows]
        writer.write([pa.array(chosen), pa.array([f"t{n}" for n in chosen]).dictionary_encode()])
        start += rows
    made = writer.finish()
    writer.close()
    assert made.parts is not None
    assert made.file == "qit"
    assert made.files == tuple(f"qit/part-{place:05d}.parquet" for place in range(len(made.parts)))
    assert sorted(path.name for path in (tmp_path / "qit").iterdir()) == [part.file for part in made.parts]
    assert {part.rows for part in made.parts[:-1]} <= {part_rows}
    assert 0 < made.parts[-1].rows <= part_rows
    found: list[Any] = []
    for name, part in zip(made.files, made.parts, strict=True):
        content = (tmp_path / name).read_bytes()
        assert (part.bytes, part.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        metadata = pq.read_metadata(tmp_path / name)
        assert metadata.num_rows == part.rows
        groups = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
        assert set(groups[:-1]) <= {group}
        found += pq.read_table(tmp_path / name).to_pylist()
    assert found == [{"n": number, "t": f"t{number}"} for number in numbers]
    assert made.rows == len(numbers)
    assert made.bytes == sum(part.bytes for part in made.parts)
    assert made.sha256 == hashlib.sha256("".join(part.sha256 for part in made.parts).encode()).hexdigest()
    assert made.digests == {name: part.sha256 for name, part in zip(made.files, made.parts, strict=True)}


def test_a_part_has_whole_row_groups(tmp_path: Path) -> None:
    for rows in (0, 3, 5):
        with pytest.raises(ValueError, match="whole row groups"):
            PartsWriter(tmp_path / "qit", pa.schema([("n", pa.int64())]), 2, rows, "n")


@pytest.mark.parametrize("part_rows", cases(8, 16_384, 1, 64, usually=2))
def test_what_is_read_is_the_same(whole: Path, tmp_path: Path, part_rows: int) -> None:
    one, many = dalenius.load(whole), dalenius.load(into_parts(whole, tmp_path / "parts", part_rows))
    rows = one.manifest.rows
    assert len(many.manifest.tables.qit.parts or ()) == -(-rows // part_rows)
    assert many.qit.equals(one.qit)
    assert many.st.equals(one.st)
    saved = many.save(tmp_path / "saved")
    assert LocalStore(saved.path).names() == LocalStore(many.path).names()
    assert saved.verify(against=patients()).verified
    elsewhere = ReleaseFolder(Path("nowhere"), many.manifest, ElsewhereStore(many.path))
    assert elsewhere.table("qit").equals(one.qit)
    assert elsewhere.table("st").equals(one.st)


def test_a_part_that_is_not_there_is_named_without_its_path(whole: Path, tmp_path: Path) -> None:
    folder = into_parts(whole, tmp_path / "parts", 128)
    (folder / "st" / "part-00002.parquet").unlink()
    with pytest.raises(ReleaseError) as caught:
        list(open_release(folder).batches("st"))
    assert str(caught.value) == "st/part-00002.parquet cannot be read: No such file or directory"


WRONG_ENTRIES: dict[str, dict[str, Any]] = {
    "a folder without parts": {"file": "qit", "parts": None},
    "a folder with no part": {"file": "qit", "parts": []},
    "a file with parts": {"file": "qit.parquet"},
    "a folder elsewhere": {"file": "../qit"},
    "a folder of another name": {"file": "qit-0123"},
}
WRONG_PARTS = ["part-0.parquet", "part-00000.csv", "../part-00000.parquet", "part-00000-a/b.parquet", "_SUCCESS", ""]


@pytest.mark.parametrize("name", WRONG_ENTRIES)
def test_names_that_cannot_be(whole: Path, tmp_path: Path, name: str) -> None:
    folder = into_parts(whole, tmp_path / "parts", 256)
    edit_manifest(folder, lambda manifest: manifest["tables"]["qit"].update(WRONG_ENTRIES[name]))
    with pytest.raises(ReleaseError, match="qit"):
        read_manifest(folder)


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_names_of_parts_that_cannot_be(whole: Path, tmp_path: Path, name: str) -> None:
    folder = into_parts(whole, tmp_path / "parts", 256)
    edit_manifest(folder, lambda manifest: manifest["tables"]["st"]["parts"][1].update(file=name))
    with pytest.raises(ReleaseError, match=r"tables\.st\.parts\.1\.file"):
        read_manifest(folder)


def test_names_as_spark_gives_them() -> None:
    name = "part-00012-404f6302-3d85-473f-8fb8-a304a0f08154-c000.snappy.parquet"
    made = TableFile.of_parts("st-0123456789abcdef", [TablePart(file=name, rows=3, bytes=9, sha256="a" * 64)])
    assert made.files == (f"st-0123456789abcdef/{name}",)
    assert (made.rows, made.bytes) == (3, 9)


def test_releases_of_earlier_formats_can_be_read_and_replaced(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release", format=3)
    of_third = read_manifest(folder)
    assert (of_third.made_in, of_third.is_strict) == (3, False)
    for version in (2, 1):

        def as_it_was(manifest: dict[str, Any], version: int = version) -> None:
            manifest["format"] = version
            manifest["strata"] = None if version == 2 else []
            for entry in manifest["tables"].values():
                entry.pop("parts", None)

        edit_manifest(folder, as_it_was)
        assert read_manifest(folder).model_dump() == of_third.model_dump()
        assert read_manifest(folder).made_in == version
        assert tables_of_release(folder) == ["qit.parquet", "st.parquet"]
        check_target(folder, replace=True)
    edit_manifest(folder, lambda manifest: manifest.update(format=8))
    assert tables_of_release(folder) is None


@pytest.mark.parametrize("version", [0, 8, True, 2.0, 1.5, "2", None, [2]])
def test_other_formats_are_refused(version: object, tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    edit_manifest(folder, lambda manifest: manifest.update(format=version))
    with pytest.raises(ReleaseError, match="format is not one of 1 to 7"):
        read_manifest(folder)


def test_a_manifest_has_nothing_that_its_format_did_not_have(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    of_fourth = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["columns"]
    folder = hospital().write(tmp_path / "release", format=3)
    of_later: list[tuple[dict[str, Any], str]] = [
        ({"format": 1}, "there are none in format 1"),
        ({"format": 2}, "there are no parts in format 2"),
        *(({"format": 2, "tables": tables}, "the manifest's tables") for tables in (None, {"qit": 3}, {})),
        ({"format": 3, "columns": of_fourth}, "not said before format 4"),
    ]
    for change, why in of_later:
        edit_manifest(folder, change_to(change))
        with pytest.raises(ReleaseError, match=why):
            read_manifest(folder)


def change_to(change: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest.update(change)


class TestForce:
    """A release in parts is replaced if it is one and nothing else."""

    @pytest.fixture
    def folder(self, whole: Path, tmp_path: Path) -> Path:
        return into_parts(whole, tmp_path / "release", 256, folders=("qit-0123456789abcdef", "st"))

    def test_parts_by_a_file_and_files_by_parts(self, folder: Path, whole: Path) -> None:
        assert sorted(tables_of_release(folder) or []) == LocalStore(folder).names()[1:]
        saved = dalenius.load(whole).save(folder, force=True)
        assert LocalStore(folder).names() == ["manifest.json", "qit.parquet", "st.parquet"]
        again = into_parts(whole, folder.with_name("other"), 256)
        dalenius.load(again).save(folder, force=True)
        assert saved.path == folder
        assert dalenius.load(folder).verify().verified

    def test_not_without_it(self, folder: Path, whole: Path) -> None:
        before = LocalStore(folder).names()
        with pytest.raises(UsageError, match="there already"):
            dalenius.load(whole).save(folder)
        assert LocalStore(folder).names() == before

    @pytest.mark.parametrize("other", ["st/notes.txt", "st/_SUCCESS", "st/deeper/part-00000.parquet", "notes.txt"])
    def test_not_with_other_files(self, folder: Path, other: str, whole: Path) -> None:
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_text("mine", encoding="utf-8")
        with pytest.raises(UsageError, match="replaces releases only"):
            dalenius.load(whole).save(folder, force=True)
        assert (folder / other).read_text(encoding="utf-8") == "mine"

    def test_not_with_an_empty_folder(self, folder: Path, whole: Path) -> None:
        (folder / "st" / "mine").mkdir()
        with pytest.raises(UsageError, match="replaces releases only"):
            dalenius.load(whole).save(folder, force=True)

    def test_not_through_links(self, folder: Path, whole: Path, tmp_path: Path) -> None:
        part = folder / "st" / "part-00001.parquet"
        part.rename(tmp_path / "kept.parquet")
        part.symlink_to(tmp_path / "kept.parquet")
        with pytest.raises(UsageError, match="replaces releases only"):
            check_target(folder, replace=True)
        part.unlink()
        (folder / "st").rename(tmp_path / "kept")
        (folder / "st").symlink_to(tmp_path / "kept")
        with pytest.raises(UsageError, match="replaces releases only"):
            dalenius.load(whole).save(folder, force=True)
        assert (tmp_path / "kept").is_dir()

    def test_a_part_less_is_still_a_release(self, folder: Path, whole: Path) -> None:
        (folder / "st" / "part-00001.parquet").unlink()
        dalenius.load(whole).save(folder, force=True)
        assert dalenius.load(folder).verify().verified


def test_all_files_and_folders_are_brought_to_the_disk(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    release = dalenius.load(into_parts(whole, tmp_path / "parts", 256))
    release.save(tmp_path / "saved")
    wanted = {path.name for path in (tmp_path / "saved").rglob("*")}
    assert wanted <= set(synced)


def test_the_manifest_in_json_says_parts_of_both_kinds(whole: Path, tmp_path: Path) -> None:
    single = json.loads((whole / "manifest.json").read_text(encoding="utf-8"))
    assert single["format"] == 7
    assert single["tables"]["qit"]["parts"] is None
    folder = into_parts(whole, tmp_path / "parts", 256)
    several = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert [sorted(part) for part in several["tables"]["qit"]["parts"]] == [["bytes", "file", "rows", "sha256"]] * 3

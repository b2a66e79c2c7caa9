"""Releases in parts: right ones pass as those of single files do, and whatever is wrong with a part is found."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dalenius
from dalenius.attack.audit import audit, audit_object
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE
from dalenius.verify.judge import verify
from tests.handmade import edit_manifest, hospital, many_types, restate_hashes, three_strata, write_table
from tests.parts import ElsewhereStore, alike, into_parts, patients, published
from tests.verify.test_verify import failed, not_made


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = into_parts(hospital().write(tmp_path / "whole"), tmp_path / "release", 4)
    assert verify(folder)
    return folder


@pytest.mark.parametrize("part_rows", [1, 2, 4, 8, 128])
@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_right_releases_pass(tmp_path: Path, part_rows: int, batch_rows: int) -> None:
    for place, made in enumerate((hospital(), many_types(), three_strata())):
        folder = into_parts(made.write(tmp_path / f"whole {place}"), tmp_path / f"parts {place}", part_rows)
        verdict = verify(folder, batch_rows=batch_rows)
        assert verdict.findings == ()
        assert verdict.notes == ()
        assert verdict == verify(tmp_path / f"whole {place}", batch_rows=batch_rows)


@given(groups=st.sampled_from([1, 2, 4]), group=st.sampled_from([1, 2, 4]), batch_rows=st.integers(1, 20))
def test_row_groups_and_parts_may_cut_within_buckets(
    tmp_path_factory: pytest.TempPathFactory, groups: int, group: int, batch_rows: int
) -> None:
    scratch = tmp_path_factory.mktemp("cut")
    whole = hospital().write(scratch / "whole")
    folder = into_parts(whole, scratch / "parts", groups * group, group)
    assert verify(folder, batch_rows=batch_rows) == verify(whole)


def test_against_its_table_and_another_one(tmp_path: Path) -> None:
    table = patients()
    whole = published(table, tmp_path / "whole", strata=4)
    folder = into_parts(whole.path, tmp_path / "parts", 64)
    assert verify(folder, against=table) == verify(whole.path, against=table)
    assert verify(folder, against=table).verified
    other = table.set_column(0, "Age", pa.array([40] * len(table), pa.int16()))
    assert failed(verify(folder, against=other)) == {"source"}


def test_the_audit_is_that_of_the_single_files(tmp_path: Path) -> None:
    table = patients(300)
    whole = published(table, tmp_path / "whole")
    folder = into_parts(whole.path, tmp_path / "parts", 32)
    wanted = audit_object(audit(whole.path, truth=table))
    assert alike(audit_object(audit(folder, truth=table)), wanted)
    manifest = open_release(folder).manifest
    elsewhere = ReleaseFolder(Path("nowhere"), manifest, ElsewhereStore(folder))
    assert alike(audit_object(audit(elsewhere, truth=table)), wanted)


class TestElsewhere:
    """A release that is not in a folder of this machine, and whose manifest is in the hand alone."""

    @pytest.mark.parametrize("kind", ["parquet", "csv", "parts"])
    def test_it_passes(self, tmp_path: Path, kind: str) -> None:
        made = hospital(types={"Gender": pa.string(), "Zipcode": pa.string(), "Age": pa.uint8()})
        folder = made.write(tmp_path / "whole", "csv" if kind == "csv" else "parquet")
        if kind == "parts":
            folder = into_parts(folder, tmp_path / "parts", 4)
        store = ElsewhereStore(folder)
        verdict = verify(ReleaseFolder(Path("nowhere"), open_release(folder).manifest, store))
        assert verdict.verified
        assert verdict == verify(folder)
        assert set(store.opened) == set(store.names() or ()) - {FILE}

    def test_the_manifest_need_not_be_there(self, release: Path) -> None:
        manifest = open_release(release).manifest
        (release / FILE).unlink()
        assert verify(ReleaseFolder(release, manifest)).verified
        assert failed(verify(release)) == {"files"}

    def test_other_files_are_noted_where_they_can_be_known(self, release: Path) -> None:
        manifest = open_release(release).manifest
        (release / "st" / "_SUCCESS").touch()
        (release / "st" / ".part-00000.parquet.crc").touch()
        (note,) = verify(ReleaseFolder(Path("nowhere"), manifest, ElsewhereStore(release))).notes
        assert "2 other files" in note
        assert verify(ReleaseFolder(Path("nowhere"), manifest, ElsewhereStore(release, lists=False))).notes == ()

    def test_a_part_that_is_not_there(self, release: Path) -> None:
        manifest = open_release(release).manifest
        (release / "st" / "part-00001.parquet").unlink()
        verdict = verify(ReleaseFolder(Path("nowhere"), manifest, ElsewhereStore(release)))
        assert failed(verdict) == {"files"}
        assert {"hashes", "limits", "values"} <= not_made(verdict)


class TestFiles:
    """Parts that are not there, or not the ones."""

    @pytest.mark.parametrize("table", ["qit", "st"])
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_missing(self, release: Path, table: str, place: int) -> None:
        (release / table / f"part-{place:05d}.parquet").unlink()
        verdict = verify(release)
        assert failed(verdict) == {"files"}
        assert f"{table}/part-{place:05d}.parquet is not there" in verdict["files"].findings[0].message

    def test_all_missing_with_their_folder(self, release: Path) -> None:
        shutil.rmtree(release / "st")
        assert failed(verify(release)) == {"files"}

    def test_many_missing_are_counted(self, tmp_path: Path) -> None:
        folder = into_parts(hospital().write(tmp_path / "whole"), tmp_path / "release", 1)
        for path in (folder / "qit").iterdir():
            path.unlink()
        assert verify(folder)["files"].count == 12
        assert len(verify(folder)["files"].findings) == 6

    def test_a_link_in_the_place_of_a_part_or_its_folder(self, release: Path, tmp_path: Path) -> None:
        part = release / "st" / "part-00001.parquet"
        part.rename(tmp_path / "kept.parquet")
        part.symlink_to(tmp_path / "kept.parquet")
        assert failed(verify(release)) == {"files"}
        part.unlink()
        (tmp_path / "kept.parquet").rename(part)
        assert verify(release).verified
        (release / "st").rename(tmp_path / "kept")
        (release / "st").symlink_to(tmp_path / "kept")
        assert failed(verify(release)) == {"files"}

    @pytest.mark.parametrize("fits", [False, True])
    def test_two_parts_exchanged(self, release: Path, fits: bool) -> None:
        one, other = release / "qit" / "part-00000.parquet", release / "qit" / "part-00001.parquet"
        kept = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(kept)
        if fits:
            restate_hashes(release)
        assert failed(verify(release)) == ({"order"} if fits else {"hashes", "order"})

    def test_the_order_in_the_manifest_is_the_order_of_rows(self, release: Path) -> None:
        edit_manifest(release, lambda manifest: manifest["tables"]["st"]["parts"].reverse())
        assert failed(verify(release)) == {"manifest", "hashes", "order"}
        restate_hashes(release)
        assert failed(verify(release)) == {"manifest", "order"}

    @pytest.mark.parametrize("place", [4, 40, -20, -1])
    def test_a_changed_byte(self, release: Path, place: int) -> None:
        part = release / "st" / "part-00002.parquet"
        content = bytearray(part.read_bytes())
        content[place] ^= 255
        part.write_bytes(content)
        verdict = verify(release)
        assert "hashes" in failed(verdict)
        assert "st/part-00002.parquet" in verdict["hashes"].findings[0].message

    def test_other_files_are_noted(self, release: Path) -> None:
        (release / "qit" / "part-00003.parquet").write_bytes(b"mine")
        (release / "st" / "_SUCCESS").touch()
        (release / "spare").mkdir()
        verdict = verify(release)
        assert verdict.verified
        (note,) = verdict.notes
        assert "3 other files" in note
        assert "'qit/part-00003.parquet', 'spare/', 'st/_SUCCESS'" in note

    def test_rows_moved_between_parts(self, release: Path) -> None:
        """Every statement about the whole holds, and the rows of two parts are others."""
        parts = [release / "st" / f"part-0000{place}.parquet" for place in (0, 1)]
        before = [part.read_bytes() for part in parts]
        rows = [tuple(row.values()) for part in parts for row in pq.ParquetFile(part).read().to_pylist()]
        kinds = {"bucket": pa.int64(), "Disease": pa.string()}
        for part, mine in zip(parts, (rows[:3], rows[3:]), strict=True):
            write_table(part, kinds, mine, group=4)
        restate_hashes(release)
        verdict = verify(release)
        assert failed(verdict) == {"schema"}
        assert "st/part-00000.parquet" in verdict["schema"].findings[0].message
        for part, mine in zip(parts, (rows[:4], rows[4:]), strict=True):
            write_table(part, kinds, mine, group=4)
        assert [part.read_bytes() for part in parts] == before

    def test_a_part_of_another_layout(self, release: Path) -> None:
        part = release / "qit" / "part-00001.parquet"
        table = pq.ParquetFile(part).read()
        for other in (
            table.rename_columns(["Gender", "Zip", "Age", "bucket"]),
            table.select([1, 0, 2, 3]),
            table.set_column(2, "Age", table["Age"].cast(pa.int64())),
            table.append_column("Name", pa.array(["Ann"] * len(table))),
        ):
            pq.write_table(other, part)
            restate_hashes(release)
            verdict = verify(release)
            assert failed(verdict) == {"schema"}
            assert "qit/part-00001.parquet" in verdict["schema"].findings[0].message
            assert {"sizes", "order"} <= not_made(verdict)

    def test_metadata_in_a_later_part(self, release: Path) -> None:
        part = release / "qit" / "part-00002.parquet"
        table = pq.ParquetFile(part).read()
        pq.write_table(table.replace_schema_metadata({"note": "Ann has HIV"}), part)
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}

    def test_bytes_between_the_columns_and_the_footer_of_a_part(self, release: Path) -> None:
        part = release / "st" / "part-00001.parquet"
        content = part.read_bytes()
        footer = int.from_bytes(content[-8:-4], "little") + 8
        part.write_bytes(content[:-footer] + b"Ann has HIV" + content[-footer:])
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}


def _swap(manifest: dict[str, Any]) -> None:
    tables = manifest["tables"]
    tables["qit"]["file"], tables["st"]["file"] = "st", "qit"


def _twice(manifest: dict[str, Any]) -> None:
    """A part in the place of the next: with sums that fit."""
    entry = manifest["tables"]["qit"]
    entry["parts"][1] = dict(entry["parts"][0])
    entry["bytes"] = sum(part["bytes"] for part in entry["parts"])
    digests = "".join(part["sha256"] for part in entry["parts"])
    entry["sha256"] = hashlib.sha256(digests.encode()).hexdigest()


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], set[str]]] = {
    "rows of the whole": (lambda m: m["tables"]["qit"].update(rows=13), {"manifest"}),
    "rows of a part": (lambda m: m["tables"]["qit"]["parts"][0].update(rows=3), {"manifest", "schema"}),
    "bytes of the whole": (lambda m: m["tables"]["st"].update(bytes=1), {"manifest"}),
    "bytes of a part": (lambda m: m["tables"]["st"]["parts"][0].update(bytes=1), {"manifest", "hashes"}),
    "hash of the whole": (lambda m: m["tables"]["st"].update(sha256="0" * 64), {"manifest", "hashes"}),
    "hash of a part": (lambda m: m["tables"]["st"]["parts"][0].update(sha256="0" * 64), {"manifest", "hashes"}),
    "one kind": (lambda m: m["tables"]["st"].update(file="st.parquet", parts=None), {"manifest", "files"}),
    "folders exchanged": (_swap, {"manifest", "hashes", "schema"}),
    "the same part twice": (_twice, {"manifest", "order"}),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_statement_about_parts_is_checked(release: Path, name: str) -> None:
    change, wanted = EDITS[name]
    edit_manifest(release, change)
    verdict = verify(release)
    assert failed(verdict) >= {"manifest"}
    assert failed(verdict) == wanted


def test_names_that_differ_in_case_alone(release: Path) -> None:
    """On some file systems they are one file."""
    parts = release / "st"
    for old, new in (("part-00000.parquet", "part-00000-a.parquet"), ("part-00001.parquet", "part-00000-A.parquet")):
        (parts / old).rename(parts / new)

    def renamed(manifest: dict[str, Any]) -> None:
        entries = manifest["tables"]["st"]["parts"]
        entries[0]["file"], entries[1]["file"] = "part-00000-a.parquet", "part-00000-A.parquet"

    edit_manifest(release, renamed)
    assert failed(verify(release)) == {"manifest"}


def test_a_release_in_the_hand_verifies_itself(tmp_path: Path) -> None:
    table = patients(200)
    whole = published(table, tmp_path / "whole")
    made = dalenius.load(into_parts(whole.path, tmp_path / "parts", 64))
    assert made.verify(against=table).verified
    (made.path / "qit" / "part-00001.parquet").unlink()
    assert failed(made.verify()) == {"files"}

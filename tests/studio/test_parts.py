"""Studio with a release in parts, which it found in its folder."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dalenius.errors import ChangedInputError
from dalenius.studio.state import StudioOptions
from dalenius.studio.studio_release import Fingerprint
from dalenius.studio.transfers import zip_parts
from tests.parts import into_parts, patients, published
from tests.studio.site import Site, done, open_site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    whole = published(patients(200), tmp_path / "whole", strata="none")
    return into_parts(whole.path, tmp_path / "out" / "found", 64)


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    with open_site(StudioOptions(releases=(folder,))) as found:
        yield found


def test_it_is_verified_counted_and_taken_home(site: Site, folder: Path) -> None:
    (state,) = site.state()["releases"]
    release = state["id"]
    assert site.work(f"/api/releases/{release}/verify")["verified"] is True
    twin = json.loads(done(site.get(f"/releases/{release}/report.json")).content)
    assert [len(entry["parts"]) for entry in twin["release"]["files"][1:]] == [4, 4]
    content = done(site.get(f"/releases/{release}/release.zip")).content
    wanted = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(wanted) == 9
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert found == wanted
    part = folder / "st" / "part-00002.parquet"
    changed = bytearray(part.read_bytes())
    changed[40] ^= 1
    part.write_bytes(changed)
    (state,) = site.state()["releases"]
    assert state["verified"] is None
    assert site.get(f"/releases/{release}/release.zip").status_code == 400


def test_a_zip_of_parts_that_change_meanwhile_breaks_off(folder: Path, tmp_path: Path) -> None:
    about = Fingerprint.of(folder)
    tables = json.loads((folder / "manifest.json").read_bytes())["tables"].values()
    digests = {f"{entry['file']}/{part['file']}": part["sha256"] for entry in tables for part in entry["parts"]}
    with zipfile.ZipFile(io.BytesIO(b"".join(zip_parts(folder, about, digests, "first")))) as archive:
        assert {name: hashlib.sha256(archive.read(f"first/{name}")).hexdigest() for name in digests} == digests
    (folder / "st").rename(tmp_path / "kept")
    (folder / "st").symlink_to(tmp_path / "kept")
    with pytest.raises(ChangedInputError):
        b"".join(zip_parts(folder, Fingerprint.of(folder), digests, "first"))
    assert Fingerprint.of(folder) != about

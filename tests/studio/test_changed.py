"""Files that change under Studio: releases after they were verified, and tables after they were read."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dalenius
from dalenius.errors import ChangedInputError
from dalenius.report.facts import Facts
from dalenius.report.twin import twin_text
from dalenius.studio.state import StudioOptions
from dalenius.studio.studio_release import Fingerprint
from dalenius.studio.transfers import zip_parts
from dalenius.verify.judge import verify
from tests.handmade import edit_manifest
from tests.studio.site import ROLES, Site, done, limits, one, open_site, people, until

SECRET = b"nothing of this leaves the machine"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    return path


@pytest.fixture
def site(table: Path, tmp_path: Path) -> Iterator[Site]:
    """A Studio that was given the table, and keeps releases."""
    with open_site(StudioOptions(table=table, out=tmp_path / "out")) as found:
        chosen = found.state()["table"]
        assert found.table(chosen)["status"] == "ready"
        found.send("/api/roles", ROLES)
        assert found.counted()["status"] == "ready"
        yield found


@pytest.fixture
def release(site: Site) -> str:
    site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.5"), "protection": {"strata": "none"}})
    return str(site.work("/api/publish", {"name": "first"})["release"])


@pytest.fixture
def folder(release: str, tmp_path: Path) -> Path:
    assert release
    return tmp_path / "out" / "first"


def known(site: Site, release: str) -> tuple[Any, bool]:
    state = one(site.state()["releases"], release)
    return state["verified"], state["audited"]


def counted(site: Site) -> Any:
    """The state once the sensitive column is counted."""
    return until(site.state, lambda state: state["counted"] is not None and state["counted"]["status"] == "ready")


def report(site: Site, release: str) -> Any:
    return json.loads(done(site.get(f"/releases/{release}/report.json")).content)


def refused(answer: Any, status: int, kind: str) -> None:
    assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind), answer.text


def replaced(table: Path, frame: pd.DataFrame) -> None:
    """Another file in the place of the table, as an editor or a copy leaves it."""
    beside = table.with_suffix(".new")
    frame.to_csv(beside, index=False)
    beside.replace(table)


def test_another_release_in_its_place_is_not_what_was_asked_for(
    site: Site, release: str, folder: Path, table: Path
) -> None:
    """It keeps every limit, and has one fake value in every bucket."""
    assert site.work(f"/api/releases/{release}/verify")["verified"] is True
    roles = {"sensitive": ROLES["sensitive"], "quasi_identifiers": ROLES["quasi_identifiers"]}
    dalenius.publish(table, {"uniform": "0.5"}, out=folder, force=True, fake_values=1, strata="none", **roles)
    verdict = site.work(f"/api/releases/{release}/verify")
    assert [check["check"] for check in verdict["checks"] if not check["passed"]] == ["job"]


def test_a_verdict_is_about_the_files_that_it_was_made_of(site: Site, release: str, folder: Path) -> None:
    assert known(site, release) == (None, False)
    assert site.work(f"/api/releases/{release}/verify")["verified"] is True
    site.work(f"/api/releases/{release}/audit")
    assert known(site, release) == (True, True)
    assert report(site, release)["audit"] is not None

    manifest = folder / "manifest.json"
    edit_manifest(folder, lambda stated: stated["program"].update(version="0.0.1"))  # the same promises in another file
    assert known(site, release) == (None, False)
    twin = report(site, release)  # which verifies it
    assert known(site, release) == (True, False)
    assert twin["release"]["files"][0]["sha256"] == hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert (twin["holds"], twin["audit"]) == (True, None)

    edit_manifest(folder, lambda stated: [value.update(limit="1/1000") for value in stated["values"]])
    assert known(site, release) == (None, False)
    twin = report(site, release)
    assert twin["release"]["files"][0]["sha256"] == hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert (twin["holds"], twin["verify"]["verified"]) == (False, False)
    assert known(site, release) == (False, False)


@pytest.mark.parametrize("name", ["qit.parquet", "st.parquet"])
def test_a_table_of_a_release_that_changed(site: Site, release: str, folder: Path, name: str) -> None:
    site.work(f"/api/releases/{release}/verify")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert known(site, release) == (None, False)
    assert report(site, release)["holds"] is False
    assert known(site, release) == (False, False)
    answer = site.get(f"/releases/{release}/release.zip")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
    (folder / name).write_bytes(content)
    assert known(site, release) == (None, False)  # it may be what it was: verifying tells
    assert site.work(f"/api/releases/{release}/verify")["verified"] is True
    assert known(site, release) == (True, False)


def test_a_manifest_that_cannot_be_read_any_more(site: Site, release: str, folder: Path) -> None:
    site.work(f"/api/releases/{release}/verify")
    (folder / "manifest.json").write_text("{}")
    assert known(site, release) == (None, False)
    twin = report(site, release)
    assert (twin["holds"], twin["release"]) == (False, None)
    assert site.get(f"/releases/{release}/release.zip").status_code == 400
    (folder / "manifest.json").unlink()
    assert known(site, release) == (None, False)
    assert report(site, release)["release"] is None


def test_facts_are_about_the_manifest_that_was_judged(folder: Path) -> None:
    verdict = verify(folder)
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert Facts.of(folder, verdict, about=digest).manifest_sha256 == digest
    with (folder / "manifest.json").open("a") as file:
        file.write(" ")
    with pytest.raises(ChangedInputError):
        Facts.of(folder, verdict, about=digest)


def test_counts_are_of_the_release_as_it_is(site: Site, release: str, folder: Path) -> None:
    asked = {"expression": "Disease = 'Flu'"}
    before = site.send(f"/api/releases/{release}/count", asked)["answers"][0]["estimate"]
    columns = site.ask(f"/api/releases/{release}/columns")["sensitive"]["values"]
    site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.5"), "protection": {"strata": "none"}})
    frame = people()
    frame["Disease"] = frame["Disease"].replace({"Flu": "Fever"})
    frame.to_csv(folder.parent / "other.csv", index=False)
    other = done(site.upload("other.csv", (folder.parent / "other.csv").read_bytes())).json()["id"]
    site.table(other)
    site.send("/api/table", {"id": other})
    assert site.counted()["status"] == "ready"
    site.work("/api/publish", {"name": "second"})
    for path in (folder.parent / "second").iterdir():
        path.replace(folder / path.name)
    assert before > 0
    assert site.send(f"/api/releases/{release}/count", asked)["answers"][0]["estimate"] == 0
    assert "Flu" in columns
    assert "Flu" not in site.ask(f"/api/releases/{release}/columns")["sensitive"]["values"]


def test_the_page_and_the_json_are_one_report(site: Site, release: str) -> None:
    seen = set()
    for work in (None, ("audit", {"truth": True}), ("verify", {"against": True})):
        if work is not None:
            site.work(f"/api/releases/{release}/{work[0]}", work[1])
        twin = done(site.get(f"/releases/{release}/report.json")).content
        assert twin.decode() == twin_text(json.loads(twin))
        digest = hashlib.sha256(twin).hexdigest()
        assert digest in done(site.get(f"/releases/{release}/report")).text
        assert digest in done(site.get(f"/releases/{release}/report.html")).text
        assert done(site.get(f"/releases/{release}/report.json")).content == twin
        seen.add(digest)
    assert len(seen) == 3


def test_figures_from_the_table_come_with_the_banner(site: Site, release: str) -> None:
    for truth in (True, False, True):
        site.work(f"/api/releases/{release}/audit", {"truth": truth})
        twin = report(site, release)
        assert twin["from_raw_table"] is truth
        assert (twin["audit"]["learning"]["success"] is not None) is truth


def test_a_link_in_a_release_is_not_followed(site: Site, release: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    (folder / "st.parquet").unlink()
    (folder / "st.parquet").symlink_to(tmp_path / "secret")
    assert site.get(f"/releases/{release}/release.zip").status_code == 400
    assert known(site, release) == (False, False)
    assert not any(SECRET in answer for answer in site.heard)


def test_a_zip_of_files_that_change_meanwhile_breaks_off(folder: Path, tmp_path: Path) -> None:
    about, made = Fingerprint.of(folder), verify(folder)
    assert made.verified
    stated = json.loads((folder / "manifest.json").read_bytes())
    digests = {entry["file"]: entry["sha256"] for entry in stated["tables"].values()}

    def zipped() -> bytes:
        return b"".join(zip_parts(folder, about, digests, "first"))

    with zipfile.ZipFile(io.BytesIO(zipped())) as archive:
        assert {name: hashlib.sha256(archive.read(f"first/{name}")).hexdigest() for name in digests} == digests
    with pytest.raises(ChangedInputError):
        b"".join(zip_parts(folder, about, {**digests, "st.parquet": "0" * 64}, "first"))
    (tmp_path / "same").write_bytes((folder / "st.parquet").read_bytes())
    kept = (folder / "st.parquet").rename(tmp_path / "kept")
    for put in (lambda path: path.symlink_to(kept), os.mkfifo, lambda path: (tmp_path / "same").rename(path)):
        put(folder / "st.parquet")  # a link, a pipe that would never end, the same content in another file
        with pytest.raises(ChangedInputError):
            zipped()
        (folder / "st.parquet").unlink()
    with pytest.raises(ChangedInputError):
        zipped()


def test_there_is_no_truth_in_another_table(site: Site, release: str, table: Path) -> None:
    asked = {"expression": "Disease = 'Flu'", "truth": True}
    (answer,) = site.send(f"/api/releases/{release}/count", asked)["answers"]
    assert answer["truth"] == int((people()["Disease"] == "Flu").sum())
    replaced(table, people(seed=2))  # as many people
    for address, body in (("count", asked), ("verify", {"against": True}), ("audit", {"truth": True})):
        answer = site.post(f"/api/releases/{release}/{address}", body)
        refused(answer, 409, "table-changed")
        assert "changed since" in answer.json()["error"]["message"]
    assert one(site.state()["releases"], release)["with_truth"] is False
    assert site.ask(f"/api/releases/{release}/columns")["truth"] is False
    (answer,) = site.send(f"/api/releases/{release}/count", {**asked, "truth": False})["answers"]
    assert answer["truth"] is None


def test_a_table_that_changed_is_read_and_counted_again(site: Site, table: Path) -> None:
    site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.5")})
    site.send("/api/pin", {"label": "A"})
    other = people(300, seed=3)
    other["Disease"] = other["Disease"].replace({"Flu": "Fever"})
    replaced(table, other.drop(columns=["Age"]))
    answer = site.post("/api/explore", {"limits": limits(rule="uniform", uniform="0.5")})
    refused(answer, 409, "not-ready")
    state = counted(site)
    assert state["tables"][0]["rows"] == 300
    assert "Age" not in state["roles"]["quasi_identifiers"]
    assert (state["pinned"], state["explored"]) == (None, None)
    counts = site.ask("/api/counts")
    wanted = other["Disease"].value_counts()
    assert dict(zip(counts["values"], counts["counts"], strict=True)) == wanted.to_dict()
    assert site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.5")})["n"] == 300
    table.unlink()
    assert site.get("/api/counts").status_code == 409
    failed = site.table(state["table"])
    assert failed["status"] == "failed"
    assert str(table.parent) not in json.dumps(failed)
    replaced(table, people())
    assert (
        until(site.state, lambda found: (found["counted"] or {}).get("status") == "ready")["tables"][0]["rows"] == 400
    )


def test_whether_the_limits_can_be_kept_is_known_on_every_page(site: Site) -> None:
    assert site.state()["explored"] is None

    def step() -> str:
        text = done(site.get("/table")).text
        return text.partition('data-step="limits"')[2].partition('data-state="')[2].partition('"')[0]

    assert step() == "to do"
    for uniform, explored, words in (("0.01", "infeasible", "cannot be kept"), ("0.5", "feasible", "done")):
        site.send("/api/explore", {"limits": limits(rule="uniform", uniform=uniform)})
        assert (site.state()["explored"], step()) == (explored, words)
    site.send("/api/explore", {"limits": limits(rule="uniform", uniform="0.01"), "draft": False})
    assert site.state()["explored"] == "feasible"  # it was only asked about
    site.send("/api/roles", {**ROLES, "quasi_identifiers": ["Age"]})
    assert site.state()["explored"] == "feasible"
    site.send("/api/roles", {**ROLES, "sensitive": "Age", "quasi_identifiers": ["Disease"]})
    assert site.state()["explored"] is None

"""The report on a release in parts: the same figures, the files by their names, and the page checks them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from dalenius.report.facts import collect
from dalenius.report.page import MOST_ROWS, report_html
from dalenius.report.twin import report_object
from tests.parts import alike, into_parts, patients, published
from tests.report.reading import read


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(patients(300), tmp_path_factory.mktemp("told") / "release").path


def twin_of(folder: Path, **wanted: Any) -> dict[str, Any]:
    return report_object(collect(folder, **wanted))


def hashes(page: str) -> tuple[str, str]:
    """The command on the page, and what stands behind it."""
    text = "".join(read(page).texts)
    start = text.index("sha256sum -c")
    end = text.index("END", text.index("END'") + 4) + 3
    return text[start:end], text[end : end + 200]


def test_it_says_the_same_but_for_the_files(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "parts", 128)
    one, many = (twin_of(folder, audit=True, truth=patients(300)) for folder in (whole, parts))
    for twin in (one, many):
        twin["workload"].pop("seconds")
    files = many["release"].pop("files")
    assert [entry["file"] for entry in files] == ["manifest.json", "qit", "st"]
    assert [len(entry["parts"]) for entry in files[1:]] == [3, 3]
    assert [entry["parts"] for entry in one["release"].pop("files")[1:]] == [None, None]
    assert alike(many, one)
    assert many["other_files"] == 0


def test_the_page_names_every_file_and_checks_it(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "parts", 128)
    page = report_html(twin_of(parts))
    command, behind = hashes(page)
    done = subprocess.run(["sh"], input=command, cwd=parts, capture_output=True, text=True, check=False)
    names = [f"{table}/part-0000{place}.parquet" for table in ("qit", "st") for place in range(3)]
    assert done.stdout.splitlines() == ["manifest.json: OK", *(f"{name}: OK" for name in names)]
    assert "says OK 7 times." in behind
    assert "300 rows" in page
    assert "in 3 files" in page
    assert "by the way they are spelled" not in page


def test_of_very_many_files_the_manifest_is_named_alone(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "parts", 128)
    twin = twin_of(parts)
    for entry in twin["release"]["files"][1:]:
        entry["parts"] *= MOST_ROWS // 6
    assert len(hashes(report_html(twin))[0].splitlines()) == 1 + 2 * 3 * (MOST_ROWS // 6) + 2
    for entry in twin["release"]["files"][1:]:
        entry["parts"] *= 2
    command, behind = hashes(report_html(twin))
    assert len(command.splitlines()) == 3
    assert command.splitlines()[1].endswith("manifest.json")
    assert "says OK 1 time. The manifest has the hashes of the files of both tables" in behind


def test_other_files_in_the_folder_of_a_table_are_counted(whole: Path, tmp_path: Path) -> None:
    parts = into_parts(whole, tmp_path / "parts", 256)
    (parts / "st" / "_SUCCESS").touch()
    (parts / "qit" / "notes.txt").touch()
    assert twin_of(parts)["other_files"] == 2

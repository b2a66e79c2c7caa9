"""Both files whole, or what was there before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dalenius.errors import OutputError, UsageError
from dalenius.report.report_files import check_target, twin_path, write_both


def listing(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}


def test_both_are_written_and_replaced(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_both(page, "<p>é", "{}", replace=False)
    assert listing(tmp_path) == {"report.html": "<p>é", "report.json": "{}"}
    write_both(page, "new", "twin", replace=True)
    assert listing(tmp_path) == {"report.html": "new", "report.json": "twin"}


def test_permissions_are_those_of_any_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_both(tmp_path / "report.html", "page", "twin", replace=False)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.parametrize("there", ["report.html", "report.json"])
def test_what_comes_in_between_is_spared(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("somebody's", encoding="utf-8")
    with pytest.raises(UsageError, match="already exists"):
        write_both(tmp_path / "report.html", "page", "twin", replace=False)
    assert listing(tmp_path) == {there: "somebody's"}


@pytest.mark.parametrize("there", [{}, {"report.json": "old twin"}])
def test_a_failure_of_the_second_takes_the_first_back(there: dict[str, str], tmp_path: Path) -> None:
    for name, content in there.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "report.html").mkdir()  # which a file cannot replace
    with pytest.raises(OutputError):
        write_both(tmp_path / "report.html", "page", "twin", replace=True)
    assert listing(tmp_path) == there


def test_an_interrupt_between_the_two_takes_the_first_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "report.html"
    write_both(page, "old page", "old twin", replace=False)
    rename = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if target == page and self.suffix == ".part":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_both(page, "page", "twin", replace=True)
    assert listing(tmp_path) == {"report.html": "old page", "report.json": "old twin"}


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "thesis.txt"
    elsewhere.write_text("draft", encoding="utf-8")
    (tmp_path / "report.html").symlink_to(elsewhere)
    write_both(tmp_path / "report.html", "page", "twin", replace=True)
    assert elsewhere.read_text(encoding="utf-8") == "draft"
    assert not (tmp_path / "report.html").is_symlink()


def test_places_that_are_refused(tmp_path: Path) -> None:
    release = tmp_path / "release"
    (release / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(release)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "dangling.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "there.json").write_text("", encoding="utf-8")
    for name, why in {
        "report.txt": "HTML",
        "report": "HTML",
        "report.json": "HTML",
        "none/report.html": "not there",
        "release/report.html": "nothing but the release",
        "release/inner/report.html": "nothing but the release",
        "release/../release/report.html": "nothing but the release",
        "link/report.html": "nothing but the release",
        "folder.html": "is a folder",
        "dangling.html": "already exists",
        "there.html": "already exists",
    }.items():
        with pytest.raises(UsageError, match=why) as error:
            check_target(tmp_path / name, release, replace=False)
        assert str(tmp_path) not in str(error.value)
    check_target(tmp_path / "there.html", release, replace=True)
    check_target(tmp_path / "new.HTM", release, replace=False)
    assert twin_path(tmp_path / "new.HTM").name == "new.json"

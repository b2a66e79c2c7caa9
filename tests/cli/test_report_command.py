"""The command as scripts and people see it."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main
from tests.handmade import edit_manifest, hospital

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in a folder that has a release and the table that it was made of."""
    monkeypatch.chdir(tmp_path)
    hospital().write(tmp_path / "release")
    pyarrow.parquet.write_table(hospital().source(), "hospital.parquet")
    return lambda *words: CliRunner().invoke(main, ["report", *words], catch_exceptions=False)


def names(folder: str = ".") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_it_writes_a_page_and_its_twin(run: Run) -> None:
    result = run("release")
    assert result.exit_code == 0
    assert result.stderr == ""
    exposure, finding, answer, *_, verdict, written = result.stdout.splitlines()
    assert exposure.startswith("Nobody's value is published outright.")
    assert finding.startswith("Look   Not attacked: ")
    assert "--audit --truth TABLE" in answer
    assert (verdict, written) == ("Verdict: look at this first.", "Written: report.html, report.json")
    assert names() == ["hospital.parquet", "release", "report.html", "report.json"]
    assert names("release") == ["manifest.json", "qit.parquet", "st.parquet"]
    twin = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert (twin["format"], twin["holds"], twin["audit"], twin["from_raw_table"]) == (2, True, None, False)
    assert "<title>Privacy report: Look at this first</title>" in Path("report.html").read_text(encoding="utf-8")


def test_a_clean_report_says_that_nothing_was_found(run: Run) -> None:
    result = run("release", "--audit", "--truth", "hospital.parquet")
    assert result.exit_code == 0
    exposure, verdict, written = result.stdout.splitlines()
    assert exposure.startswith("Nobody's value is published outright.")
    assert (verdict, written) == ("Verdict: publish.", "Written: report.html, report.json")
    assert "\\x" not in result.stdout  # nothing of the page that a terminal does not show


def test_json_prints_the_twin_as_well(run: Run) -> None:
    result = run("release", "--audit", "--truth", "hospital.parquet", "-o", "2026.html", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert json.loads(result.stdout) == json.loads(Path("2026.json").read_text(encoding="utf-8"))
    assert json.loads(result.stdout)["audit"]["learning"]["success"] is not None
    assert json.loads(result.stdout)["workload"] is not None
    assert result.stdout.isascii()
    assert Path("2026.html").exists()


def test_what_is_there_stays_unless_it_may_be_replaced(run: Run) -> None:
    Path("report.json").write_text("mine", encoding="utf-8")
    refused = run("release")
    assert refused.exit_code == 2
    assert "report.json already exists" in refused.stderr
    assert "--force" in refused.stderr
    assert Path("report.json").read_text(encoding="utf-8") == "mine"
    assert names() == ["hospital.parquet", "release", "report.json"]
    assert run("release", "--force").exit_code == 0
    assert json.loads(Path("report.json").read_text(encoding="utf-8"))["holds"]


def test_a_failure_leaves_the_old_report(run: Run) -> None:
    assert run("release").exit_code == 0
    before = Path("report.html").read_bytes(), Path("report.json").read_bytes()
    assert run("nowhere", "--force").exit_code == 2
    assert run("release", "--truth", "none.parquet", "--force").exit_code == 2
    assert (Path("report.html").read_bytes(), Path("report.json").read_bytes()) == before
    assert names() == ["hospital.parquet", "release", "report.html", "report.json"]


HEAD = (
    """
[report]
title = "Discharges 2026"
controller = "City Hospital"
purpose = """
    + "'''\nResearch on <b>epidemics</b>\nand teaching'''"
)


def test_the_head_of_the_first_page(run: Run) -> None:
    """From the job file, options first; text and nothing but text; on one line each, and not too long."""
    Path("job.toml").write_text(HEAD, encoding="utf-8")
    assert run("release", "--job", "job.toml", "--title", "Discharges & more").exit_code == 0
    twin = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert (twin["title"], twin["dataset"], twin["controller"]) == ("Discharges & more", None, "City Hospital")
    assert twin["purpose"] == "Research on <b>epidemics</b> and teaching"
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<title>Discharges &amp; more: Look at this first</title>" in page
    assert "Research on &lt;b&gt;epidemics&lt;/b&gt; and teaching" in page
    assert "<dt>Dataset</dt>" not in page
    assert run("release", "--force", "--title", " ", "--dataset", "discharges").exit_code == 0
    again = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert (again["title"], again["dataset"]) == (None, "discharges")
    for words, code in ((["--title", "x" * 101], "usage"), (["--job", "long.toml"], "job-file")):
        Path("long.toml").write_text(f'[report]\npurpose = "{"x" * 201}"\n', encoding="utf-8")
        refused = run("release", "--force", "--json", *words)
        assert refused.exit_code == 2
        assert json.loads(refused.stdout)["error"]["kind"] == code
    assert json.loads(Path("report.json").read_text(encoding="utf-8")) == again
    Path("long.toml").write_text('[report]\ntitel = "x"\n', encoding="utf-8")
    assert "Did you mean 'title'" in run("release", "--force", "--job", "long.toml").stderr


def test_the_release_is_compared_with_the_whole_job(run: Run) -> None:
    """Unless the job has nothing but the head of the page."""
    Path("job.toml").write_text(HEAD, encoding="utf-8")
    twin = json.loads(run("release", "--job", "job.toml", "--json").stdout)
    assert "job" not in [check["check"] for check in twin["verify"]["checks"]]
    Path("job.toml").write_text(f"{HEAD}\n[adversary]\ncorrupted = 0\n", encoding="utf-8")
    result = run("release", "--job", "job.toml", "--force", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verify"]["checks"][-1]["message"].endswith("adversary.corrupted")
    Path("job.toml").write_text(f"{HEAD}\n[adversary]\ncorrupted = 3\n", encoding="utf-8")
    assert run("release", "--job", "job.toml", "--force").exit_code == 1
    page = Path("report.html").read_text(encoding="utf-8")
    assert "The job says 3 known records, and the release was made against 0." in page
    assert "Do not publish</title>" in page


@pytest.mark.parametrize("damage", ["limit", "manifest"])
def test_a_release_that_fails_has_a_report_that_says_so(damage: str, run: Run) -> None:
    if damage == "limit":
        edit_manifest(Path("release"), lambda manifest: manifest["values"][1].update(limit="1/5"))
    else:
        Path("release/manifest.json").write_text("nonsense", encoding="utf-8")
    result = run("release", "--audit")
    assert result.exit_code == 1
    assert "STOP   The check of manifest did not pass: " in result.stdout
    assert "Verdict: do not publish." in result.stdout
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<title>Privacy report: Do not publish</title>" in page
    assert not json.loads(Path("report.json").read_text(encoding="utf-8"))["holds"]
    again = run("release", "--force", "--json")
    assert again.exit_code == 1
    assert not json.loads(again.stdout)["verify"]["verified"]


def test_a_broken_promise(run: Run) -> None:
    edit_manifest(Path("release"), lambda manifest: manifest["adversary"].update(known_records=1))
    result = run("release", "--audit")
    assert result.exit_code == 1
    assert "STOP   12 people" in result.stdout


def test_the_wrong_table(run: Run) -> None:
    pyarrow.parquet.write_table(hospital().source().slice(1), "other.parquet")
    result = run("release", "--truth", "other.parquet")
    assert result.exit_code == 1
    assert "STOP   The check of source did not pass: " in result.stdout
    assert "NOT verified" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["release", "--table", "t"], "--table is for"),
        (["release", "--control", "hospital.parquet"], "--control is for"),
        (["release", "-o", "report.pdf"], "HTML"),
        (["release", "-o", "release/report.html"], "nothing but the release"),
        (["release", "-o", "none/report.html"], "not there"),
        (["nowhere"], "no folder"),
        (["hospital.parquet"], "not a folder"),
        ([], "Missing argument"),
    ],
)
def test_wrong_use(words: list[str], why: str, run: Run) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert why in result.stderr
    again = run(*words, "--json")
    assert again.exit_code == 2
    assert why in json.loads(again.stdout)["error"]["message"]
    assert names() == ["hospital.parquet", "release"]
    assert names("release") == ["manifest.json", "qit.parquet", "st.parquet"]


def test_from_within_the_release(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the default is no place for the report."""
    monkeypatch.chdir("release")
    assert run(".").exit_code == 2
    assert names() == ["manifest.json", "qit.parquet", "st.parquet"]
    assert run(".", "-o", "../report.html").exit_code == 0
    assert Path("../report.html").exists()
    assert Path("../report.json").exists()


LIMITED = "from dalenius.cli.main import entry; entry()"


def test_a_full_disk(run: Run, tmp_path: Path) -> None:
    """Files that may not grow beyond 4 kB fail where a full disk does; what was there stays."""
    assert run("release").exit_code == 0
    before = Path("report.html").read_bytes(), Path("report.json").read_bytes()

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [sys.executable, "-B", "-c", LIMITED, "report", "release", "--force", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "output"
    assert (Path("report.html").read_bytes(), Path("report.json").read_bytes()) == before
    assert names() == ["hospital.parquet", "release", "report.html", "report.json"]


def test_without_the_libraries_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("altair", "jinja2"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, library, None)
            result = run("release", "--json")
        assert result.exit_code == 2
        error = json.loads(result.stdout)["error"]
        assert error["kind"] == "missing-extra"
        assert "dalenius[report]" in error["hint"]
    assert names() == ["hospital.parquet", "release"]

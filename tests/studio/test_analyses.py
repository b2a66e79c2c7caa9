"""Cross-tabs and completed tables: what Python gives, refusals in words, and nothing that a page should not ask."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import pytest

import dalenius
from dalenius.analysis.completing import MARK, NOT_DATA
from dalenius.errors import UsageError
from dalenius.studio import analyses
from dalenius.studio.analyses import ranges_of
from dalenius.studio.analyst import SEED, cross_tab_object
from dalenius.studio.state import StudioOptions
from dalenius.tables.killable import Allowance
from tests.studio.site import HTML_COLUMN, HTML_VALUE, Site, done, open_site, people, until, visits

ZIP = 'Zip "code" & more'
ASKED: dict[str, Any] = {"rows": ["Age"], "columns": ["Disease"], "draws": 3}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dalenius.Release:
    identifiers = ["Age", HTML_COLUMN, ZIP]
    folder = tmp_path_factory.mktemp("releases") / "hospital"
    return dalenius.publish(
        people(300), {"odds": 4}, sensitive="Disease", quasi_identifiers=identifiers, out=folder, seed=1
    )


@pytest.fixture(scope="module")
def site(release: dalenius.Release) -> Iterator[Site]:
    with open_site(StudioOptions(releases=(release.path,))) as opened:
        yield opened


def address(site: Site, what: str, prefix: str = "/api") -> str:
    return f"{prefix}/releases/{site.state()['releases'][-1]['id']}/{what}"


def refused(site: Site, what: str, body: Any) -> Any:
    answer = site.post(address(site, what), body)
    assert 400 <= answer.status_code < 500, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize(
    ("asked", "bins"),
    [
        ({"rows": ["Age"], "columns": ["Disease"], "ranges": {"Age": "3"}}, {"Age": 3}),
        ({"rows": ["Age", HTML_COLUMN], "columns": ["Disease"], "ranges": {"Age": "24; 27"}}, {"Age": [24, 27]}),
        ({"rows": ["Disease"], "columns": [ZIP]}, {}),
    ],
    ids=["ranges", "two", "sensitive"],
)
def test_a_cross_tab_is_that_of_python(
    site: Site, release: dalenius.Release, asked: dict[str, Any], bins: dict[str, Any]
) -> None:
    found = site.work(address(site, "crosstab"), {**asked, "draws": 4})
    how: dict[str, Any] = {"bins": bins, "draws": 4, "seed": SEED}
    mine = release.crosstab(asked["rows"], asked["columns"], **how)
    expected = cross_tab_object(mine)
    assert {name: found[name] for name in expected} == expected
    assert found["estimate"] == mine.table.to_numpy().tolist()
    assert sum(map(sum, found["estimate"])) == pytest.approx(300)
    test = release.chi2(asked["rows"], asked["columns"], **how)
    assert (found["test"]["chi2"], found["test"]["p_value"]) == (test.chi2, test.p_value)
    scope: dict[str, Any] = {}
    exec(found["python"].replace('"release"', repr(str(release.path))), scope)  # noqa: S102 (what the page shows)
    assert scope["release"].manifest == release.manifest


def test_what_was_learned_is_kept_and_values_are_names(site: Site) -> None:
    site.work(address(site, "crosstab"), ASKED)
    (process,) = [site.studio.analysing._idle]
    again = site.work(address(site, "crosstab"), {**ASKED, "columns": [ZIP], "rows": ["Disease"]})
    assert again["learned_before"]
    assert site.studio.analysing._idle is process
    assert [HTML_VALUE] in again["rows"]["values"]
    assert again["columns"]["names"] == [ZIP]
    about = site.ask(address(site, "analysis"))
    assert about["refused"] == {"Disease": None}
    assert about["missing"] == dict.fromkeys(("crosstab", "dta", "sav"))
    for page in ("crosstab", "completed"):
        text = site.get(f"/{page}").text
        assert HTML_VALUE not in text
        assert "hospital</option>" in text
    assert NOT_DATA in site.get("/completed").text


def unzipped(site: Site) -> dict[str, bytes]:
    answer = done(site.get(address(site, "completed.zip", "")))
    assert answer.headers["content-disposition"] == 'attachment; filename="hospital-completed.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"hospital-completed"}
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def test_completed_tables_are_taken_home_and_replace_those_before(site: Site, release: dalenius.Release) -> None:
    assert site.get(address(site, "completed.zip", "")).status_code == 404
    made = site.work(address(site, "completed"), {"columns": ["Disease"], "draws": 3})
    assert (made["draws"], made["format"]) == (3, "parquet")
    files = unzipped(site)
    assert list(files) == ["draw-01.parquet", "draw-02.parquet", "draw-03.parquet", "README.txt"]
    assert NOT_DATA.encode() in files["README.txt"]
    assert made["bytes"] == sum(map(len, files.values()))
    table = pyarrow.parquet.read_table(io.BytesIO(files["draw-02.parquet"]))
    assert table.column_names == ["Age", HTML_COLUMN, ZIP, "Disease", MARK]
    assert table.select(table.column_names[:3]).to_pylist() == release.qit.drop_columns(["bucket"]).to_pylist()
    assert table.schema.metadata[b"dalenius"].decode() == NOT_DATA
    assert site.ask(address(site, "analysis"))["completed"] == {"draws": 3, "format": "parquet", "bytes": made["bytes"]}
    site.work(address(site, "completed"), {"columns": ["Disease"], "draws": 2, "format": "csv"})
    text = unzipped(site)["draw-01.csv"].decode()
    assert len(pd.read_csv(io.StringIO(text))) == 300
    assert len(list((site.studio.private.path / "completed").iterdir())) == 1


def test_what_can_be_known_before_is_refused_at_once(site: Site) -> None:
    crosstab = [
        ({"rows": ["Disease"], "columns": ["../Age"]}, "no-such-column"),
        ({"rows": ["C(Age)"], "columns": ["Disease"]}, "no-such-column"),
        ({"rows": ["Age"], "columns": [ZIP]}, "usage"),
        ({"rows": ["Disease"], "columns": ["Disease"]}, "usage"),
        ({**ASKED, "ranges": {ZIP: "8"}}, "usage"),
        ({**ASKED, "ranges": {"Age": "__import__('os')"}}, "usage"),
        ({**ASKED, "draws": 1}, "request"),
        ({**ASKED, "draws": 10**9}, "request"),
        ({**ASKED, "rows": []}, "request"),
        ({**ASKED, "seed": 1}, "request"),
        ({**ASKED, "path": "/etc/passwd"}, "request"),
    ]
    completed = [
        ({"columns": []}, "usage"),
        ({"columns": ["Age"]}, "usage"),
        ({"columns": ["nothing"]}, "no-such-column"),
        ({"columns": ["Disease"], "format": "../x"}, "request"),
        ({"columns": ["Disease"], "target": "/tmp/x"}, "request"),  # noqa: S108
        ({"columns": ["Disease"], "draws": 1}, "request"),
        ({"columns": ["Disease"], "format": "sav"}, "input"),  # names with spaces and brackets
    ]
    for what, cases in (("crosstab", crosstab), ("completed", completed)):
        for body, kind in cases:
            assert refused(site, what, body)["kind"] == kind, body
        assert site.post(f"/api/releases/nothing/{what}", ASKED).status_code in (400, 404)
        plain = site.client.post(address(site, what), json=ASKED)  # without an origin
        assert plain.status_code == 403
    assert not site.studio.tasks.running()


@pytest.mark.parametrize("text", ["", "x", "1", "8.5", "1001", "nan,", "1e999,", "30, 30", "50 30", "30, x"])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        ranges_of("age", text)


def test_ranges_as_they_are_typed() -> None:
    typed = [ranges_of("age", text) for text in (" 8 ", "30,50, 70", "30.5;50", "30 50", "-5,")]
    assert typed == [8, [30, 50, 70], [30.5, 50], [30, 50], [-5]]


def test_a_failure_of_the_work_is_in_words_for_a_page(site: Site) -> None:
    task = site.task(site.send(address(site, "crosstab"), {**ASKED, "rows": [ZIP], "ranges": {ZIP: "8"}})["task"])
    assert task["status"] == "failed"
    assert "has no numbers" in task["error"]["message"]


def test_cancel_kills_and_the_next_question_learns_anew(site: Site) -> None:
    task = site.send(address(site, "crosstab"), {**ASKED, "draws": 1000})["task"]
    busy = site.post(address(site, "crosstab"), ASKED)
    assert (busy.status_code, busy.json()["error"]["kind"]) == (409, "busy")
    until(lambda: site.studio.analysing.processes, bool)
    site.send(f"/api/tasks/{task}/cancel")
    assert site.task(task)["status"] == "cancelled"
    until(lambda: site.studio.analysing.processes, lambda found: not found)
    assert not site.work(address(site, "crosstab"), ASKED)["learned_before"]


def test_missing_libraries_are_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyses, "find_spec", lambda name: None if name in ("scipy", "pyreadstat") else object())
    missing = site.ask(address(site, "analysis"))["missing"]
    assert missing["dta"] is None
    assert missing["crosstab"]["hint"] == "Install it with: pip install 'dalenius[analysis]'"
    answer = site.post(address(site, "crosstab"), ASKED)
    assert answer.json()["error"] == missing["crosstab"]


def test_releases_of_which_nothing_can_be_drawn_say_why(tmp_path: Path) -> None:
    rows = visits(200)
    several = dalenius.publish(
        rows, {"uniform": "0.95"}, sensitive="insulin", quasi_identifiers=["age"], person="patient_nbr",
        out=tmp_path / "several",
    )  # fmt: skip
    with open_site(StudioOptions(releases=(several.path,), allowance=Allowance(0.001))) as site:
        (reason,) = refusals = list(analyses.refusals(site.studio.releases.all()[0]).values())
        assert len(refusals) == 1
        assert reason is not None
        assert "200 people" in reason["message"]
        assert reason["hint"] == "Count on the first tab, or ask for a release with one row a person."
        asked = {"rows": ["age"], "columns": ["insulin"]}
        assert refused(site, "crosstab", asked) == reason
        assert refused(site, "completed", {"columns": ["insulin"]}) == reason


def test_it_keeps_to_its_time_and_broken_releases_are_not_drawn_from(tmp_path: Path) -> None:
    made = dalenius.publish(
        people(60), {"uniform": "0.9"}, sensitive="Disease", quasi_identifiers=["Age"], out=tmp_path / "small"
    )
    with open_site(StudioOptions(releases=(made.path,), allowance=Allowance(0.01))) as site:
        task = site.task(site.send(address(site, "crosstab"), ASKED)["task"])
        assert task["error"]["kind"] == "timeout"
        assert task["error"]["message"].startswith("this took more than 0.01 seconds")
        asked = {"columns": ["Disease"], "draws": 2, "format": "sav"}
        assert site.work(address(site, "completed"), asked)["format"] == "sav"  # it has all the time it needs
        st = next(made.path.glob("st*.parquet"))
        st.write_bytes(st.read_bytes()[:-1] + b"x")
        assert site.get(address(site, "completed.zip", "")).status_code == 404
        task = site.task(site.send(address(site, "completed"), {"columns": ["Disease"], "draws": 2})["task"])
        assert "does not pass its checks" in task["error"]["message"]
        assert len(list((site.studio.private.path / "completed").iterdir())) == 1

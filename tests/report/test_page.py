"""The page says what the twin says, in a file that needs nothing else."""

from __future__ import annotations

import copy
import hashlib
import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dalenius.report.charts import audit_chart
from dalenius.report.facts import collect
from dalenius.report.formatting import chance, interval, percent, share_of_limit, tenths, times, visible
from dalenius.report.page import MOST_ROWS, report_html
from dalenius.report.statements import statements
from dalenius.report.twin import report_object, twin_text
from tests.handmade import Handmade, hospital, three_strata
from tests.report.reading import Read, read
from tests.report.releases import many_values, published

Twin = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    """The twin of a release in strata, with fakes, room for known records, an audit and the table."""
    folder = tmp_path_factory.mktemp("whole") / "release"
    table = published(folder)
    return {**report_object(collect(folder, audit=True, truth=table)), "_folder": folder}


@pytest.fixture
def twin(whole: Twin) -> Twin:
    return {key: copy.deepcopy(value) for key, value in whole.items() if key != "_folder"}


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def share(cell: str) -> float:
    """A percentage as a share; its last digit is the third."""
    return float(cell.replace("\N{NO-BREAK SPACE}%", "").replace(",", "")) / 100


def close(exact: float | Fraction) -> object:
    return pytest.approx(float(exact), rel=5e-3)


def test_every_number_of_the_values_is_the_twins(twin: Twin) -> None:
    header, *rows = read(report_html(twin)).tables["values-table"]
    assert len(header) == 7
    values = twin["release"]["values"]
    assert len(rows) == len(values)
    for value, (name, count, worst, probability, limit, limit_percent, used) in zip(values, rows, strict=True):
        assert name == value["value"]
        assert number(count) == value["count"]
        ours, of = map(number, worst.split(" for "))
        assert (ours, of) == (value["worst"]["count"], value["worst"]["size"] - 1)
        assert Fraction(ours, of) == Fraction(value["probability"])
        assert share(probability) == close(Fraction(value["probability"]))
        assert limit == value["limit"]
        assert share(limit_percent) == close(Fraction(value["limit"]))
        assert share(used) <= value["share_of_limit"] + 1e-9 < share(used) + 0.001 + 2e-9


def test_every_number_of_the_sizes_and_the_workload_is_the_twins(twin: Twin) -> None:
    tables = read(report_html(twin)).tables
    _, *rows = tables["sizes-table"]
    for group, (size, buckets, records, part) in zip(twin["release"]["setting"], rows, strict=True):
        assert (number(size), number(buckets), number(records)) == (group["size"], group["buckets"], group["records"])
        assert share(part) == close(group["records"] / twin["release"]["rows"])
    _, *rows = tables["workload-table"]
    measured = [twin["workload"], twin["workload"]["learned"]]
    for key, row in zip(("mean_relative_error", "median_relative_error", "coverage"), rows, strict=False):
        assert [share(cell) for cell in row[1:]] == [close(one[key]) for one in measured]
    assert [float(cell) for cell in rows[3][1:]] == [close(one["mean_interval_width"]) for one in measured]


def test_every_number_of_the_attacks_is_the_twins(twin: Twin) -> None:
    _, *rows = read(report_html(twin)).tables["audit-table"]
    audit = twin["audit"]
    assert [row[0] for row in rows] == ["corruption", "negative", "learning", "minimality", "order"]
    for name, people, *shares, above, claims, right, limit in rows:
        attack = audit[name]
        assert number(people) == attack["people"]
        for kind, cell in zip(("success", "baseline", "control"), shares, strict=True):
            middle, ends = cell.split("\n")
            low, high = ends.split(" to ")
            assert share(middle) == close(attack[kind])
            assert [share(low), share(high)] == [close(end) for end in attack[f"{kind}_interval"]]
        assert number(above) == attack["people_above_limit"]
        assert number(claims) == attack["claims"]
        if attack["claims"]:
            assert share(right) == close(attack["claims_right"] / attack["claims"])
            assert share(limit) == close(attack["mean_limit"])
        else:
            assert (right, limit) == ("–", "–")


def tenths_of(cell: str) -> object:
    return pytest.approx(share(cell), abs=5.1e-4)


def test_every_number_of_the_first_two_pages_is_the_twins(twin: Twin) -> None:
    page = read(report_html(twin))
    for name, *shares, above, claims, right, allowed, points in page.tables["attackers-table"][1:]:
        attack = twin["audit"][name]
        assert [attack[kind] for kind in ("success", "baseline", "control")] == [tenths_of(cell) for cell in shares]
        assert (number(above), number(claims)) == (attack["people_above_limit"], attack["claims"])
        if attack["claims"]:
            assert attack["claims_right"] / attack["claims"] == tenths_of(right)
            assert attack["mean_limit"] == tenths_of(allowed)
        assert float(points.split()[-1]) == pytest.approx(attack["points"], abs=0.051)
    exposed = {value["value"]: value for value in twin["exposure"]["values"]}
    limits = {value["value"]: Fraction(value["limit"]) for value in twin["release"]["values"]}
    _, *rows = page.tables["exposure-table"]
    assert {row[0] for row in rows} == set(exposed)
    for name, people, limit, mean, highest, outright in rows:
        value = exposed[name]
        assert (number(people), number(outright)) == (round(value["people"]), round(value["outright"]))
        assert [float(limits[name]), value["mean"], value["highest"]] == [tenths_of(c) for c in (limit, mean, highest)]
    highest_first = [share(row[4]) for row in rows]
    assert highest_first == sorted(highest_first, reverse=True)
    for band in twin["exposure"]["bands"]:
        assert f"{round(band):,}" in page.by_id["exposure-chart-words"] or not band
    assert f"probability of {tenths(twin['exposure']['mean'])} on average".replace("\xa0", " ") in page.section(
        "exposure"
    )
    fractions = re.compile(r"\d+/\d+")
    for name in ("verdict", "exposure", "findings", "attackers", "by-value", "counts"):
        assert not fractions.search(page.section(name)), name


def test_what_is_found_is_listed_by_weight_as_far_as_there_is_room(twin: Twin) -> None:
    finding: dict[str, Any] = {
        "code": "x",
        "severity": "stop",
        "people": None,
        "points": None,
        "attacker": None,
        "columns": [],
        "groups": [],
        "answer": "Do <it>.",
    }
    many = [{**finding, "message": f"number {k} " + k * "word "} for k in range(60)]
    page = read(report_html({**twin, "findings": many, "verdict": "do not publish"}))
    shown = page.section("findings")
    assert "Number 0." in shown
    assert "Do <it>." in shown
    assert "more findings in section 1 of the annex" in shown
    assert shown.count("✗") < 6
    assert page.section("summary").count("✗ Stop") == 60


def test_what_is_not_known_is_a_dash_and_no_interval_promises_too_much(twin: Twin, tmp_path: Path) -> None:
    alone = report_object(collect(hospital().write(tmp_path / "release"), audit=True))
    _, *rows = read(report_html(alone)).tables["audit-table"]
    assert [row[2] == "–" for row in rows] == [False, True, True, True]  # all but corruption
    assert all(row[3] != "–" for row in rows)
    twin["audit"]["approximate"] = True
    page = read(report_html(twin))
    assert not any("\n" in cell for row in page.tables["audit-table"] for cell in row)
    assert "with 95" not in page.by_id["audit-chart-title"]


def test_checks_are_all_there(twin: Twin) -> None:
    _, *rows = read(report_html(twin)).tables["checks-table"]
    assert len(rows) == len(twin["verify"]["checks"]) + 1  # and what no check can see
    assert [row[1] for row in rows] == [*["✓ passed"] * 10, "? not checked"]
    twin["verify"]["checks"][6] |= {
        "outcome": "failed",
        "passed": False,
        "message": "all is wrong",
        "findings": [{"count": 3, "message": "3 buckets are wrong"}, {"count": 1, "message": "and <one> more"}],
    }
    twin["verify"]["verified"] = False
    page = read(report_html(twin))
    failed = page.tables["checks-table"][7]
    assert failed[1] == "✗ FAILED"
    assert failed[0].split("\n")[1:] == ["3 buckets are wrong.", "And <one> more."]


def test_it_needs_nothing_else(twin: Twin) -> None:
    html = report_html(twin)
    page = read(html)
    assert html.startswith("<!DOCTYPE html>")
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "image", "use"}
    policy = [given["content"] for tag, given in page.elements if given.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert all(link.startswith("#") for link in page.attributes("href"))
    assert not page.attributes("src")
    assert not re.search(r"@import|url\((?!#)", html)
    addresses = set(re.findall(r"\w+://[^\"' <]+", html))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not places
    assert not [name for _, given in page.elements for name in given if name.startswith("on")]


def test_names_within_it_are_one_each_and_lead_somewhere(twin: Twin) -> None:
    page = read(report_html(twin))
    ids = page.attributes("id")
    assert len(set(ids)) == len(ids)
    wanted = [link.removeprefix("#") for link in page.attributes("href")]
    for name in ("aria-labelledby", "aria-describedby"):
        wanted += page.attributes(name)
    assert len(wanted) > 15
    assert set(wanted) <= set(ids)
    assert [given for tag, given in page.elements if given.get("role") == "img"] == [
        {"role": "img", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-words"}
        for name in ("exposure-chart", "values-chart", "sizes-chart", "audit-chart")
    ]
    drawings = [given for tag, given in page.elements if tag == "svg"]
    assert len(drawings) == 4 + 5  # charts and their keys
    assert all(given["aria-hidden"] == "true" for given in drawings)


def test_charts_say_in_words_what_they_show(twin: Twin) -> None:
    page = read(report_html(twin))
    for name in ("exposure-chart", "values-chart", "sizes-chart", "audit-chart"):
        assert len(page.by_id[f"{name}-words"]) > 80
    for name in ("corruption", "learning"):
        assert f"{name}: success {percent(twin['audit'][name]['success'])}" in page.by_id["audit-chart-words"]
    largest = max(twin["release"]["setting"], key=lambda group: group["records"])
    assert f"size with the most records is {largest['size']:,}, with {largest['records']:,}" in page.text


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onload='alert(3)",
    "</style></svg></table>",
    "&lt;b&gt; &amp; &#60;",
    "{{ 7 * 7 }}{% raw %}",
    "right\u202eleft\u2066\u200b",
    "line\nbreak\ttab\x1b[31m\x00nul",
    "\\u0041 datum.value']",
    "x" * 5000,
    "=1+1",
    " ",
    "שלום",
]


def test_names_from_the_data_are_only_ever_text(tmp_path: Path) -> None:
    rows = [(k,) for k in range(2 * len(HOSTILE))]
    made = Handmade(
        types={'<script>alert("c")</script>\u202e': pa.int64()},
        rows=rows,
        values=[*HOSTILE, *HOSTILE],
        buckets=[*[1] * len(HOSTILE), *[2] * len(HOSTILE)],
        name="</title><script>alert(4)</script>",
        limits={value: str(Fraction(1, k % 5 + 1)) for k, value in enumerate(HOSTILE)},
    )
    twin = report_object(collect(made.write(tmp_path / "release"), audit=True))
    html = report_html(twin)
    page = read(html)
    assert "script" not in {tag for tag, _ in page.elements}
    assert "img" not in {tag for tag, _ in page.elements}
    assert not [name for _, given in page.elements for name in given if name.startswith("on")]
    for character in "\u202e\u2066\u200b\x1b\x00":
        assert character not in html
    names = [row[0] for row in page.tables["values-table"][1:]]
    assert sorted(names) == sorted(visible(value) for value in HOSTILE)
    assert "<script>alert(1)</script>" in names
    assert "right\\u202eleft\\u2066\\u200b" in names
    assert "line\\nbreak\\ttab\\x1b[31m\\x00nul" in names
    assert '" "' in names
    assert max(map(len, names)) == 200
    drawn = "".join(page.by_id["values-chart"].split())
    for value in HOSTILE[:5]:
        assert "".join(visible(value, 26).split()) in drawn


def test_many_values(tmp_path: Path) -> None:
    """The nearest thousand on the page, and a word that the twin has all; in the annex."""
    twin = report_object(collect(many_values(tmp_path / "release", 1500)))
    html = report_html(twin)
    page = read(html)
    rows = page.tables["values-table"][1:]
    assert len(rows) == MOST_ROWS == 1000
    assert [row[0] for row in rows] == [value["value"] for value in twin["release"]["values"][:1000]]
    assert (
        "The 1,000 values nearest to their limits, of 1,500. The JSON twin of this report lists them all." in page.text
    )
    assert html.index('class="signature"') < html.index('id="annex"') < html.index('id="all-values"')
    assert len(page.tables["exposure-table"]) == 1 + 12
    assert "1,488 more values expose people no more than these." in page.text
    assert "the 60 values nearest to their limits" in page.by_id["values-chart-title"]
    assert len(html.encode()) < 600_000


def test_a_usual_page_is_small(tmp_path: Path) -> None:
    twin = report_object(collect(many_values(tmp_path / "release", 50), audit=True))
    assert len(report_html(twin).encode()) < 300_000


def test_the_commands_on_the_page_check_the_release(whole: Twin, twin: Twin) -> None:
    folder = whole["_folder"]
    html = report_html(twin)
    text = "".join(read(html).texts)
    command = text[text.index("sha256sum -c") : text.index("END", text.index("END'") + 4) + 3]
    done = subprocess.run(["sh"], input=command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["manifest.json: OK", "qit.parquet: OK", "st.parquet: OK"]
    assert done.returncode == 0
    assert hashlib.sha256(twin_text(twin).encode()).hexdigest() in html
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    with (other / "st.parquet").open("ab") as file:
        file.write(b"x")
    assert subprocess.run(["sh"], input=command, cwd=other, capture_output=True, text=True, check=False).returncode == 1
    assert "dalenius verify ." in text


def about(page: Read) -> dict[str, bool]:
    """Which of the things that hang on the release are said."""
    wanted = [
        "What strata reveal",
        "Values without a limit",
        "That fake values stay unknown",
        "a single record",
    ]
    return {words: words in page.text for words in wanted}


def test_what_is_not_promised_goes_by_the_release(twin: Twin, tmp_path: Path) -> None:
    always = [
        *["Who is in the table", "not differential privacy", "More knowledge", "Learning across buckets"],
        *["That limits reveal nothing", "Several releases", "good random numbers"],
    ]
    page = read(report_html(twin))
    assert all(words in page.text for words in always)
    assert list(about(page).values()) == [True, False, True, False]
    assert "knows more than 1 record of a bucket" in page.text
    strata = read(report_html(report_object(collect(three_strata().write(tmp_path / "strata")))))
    assert all(words in strata.text for words in always)
    assert list(about(strata).values()) == [True, False, False, False]
    ones = hospital(limits={"HIV": "1"}, buckets=list(range(1, 13)))
    alone = read(report_html(report_object(collect(ones.write(tmp_path / "ones")))))
    assert list(about(alone).values()) == [False, True, False, True]
    assert "12 buckets have a single record" in alone.text
    assert "knows the value of any other record" in alone.text


def test_whom_it_is_for(twin: Twin, tmp_path: Path) -> None:
    """A banner if figures are from the raw table, and the example without a quasi-identifier."""
    page = read(report_html(twin))
    assert "not for publication" in page.text
    assert statements(twin)[1].title in page.text
    lowest = min(twin["release"]["values"], key=lambda value: Fraction(value["limit"]))
    assert f"Take “\u2068{lowest['value']}\u2069”, whose limit is {chance(lowest['limit'])}." in "".join(page.texts)
    alone = read(report_html(report_object(collect(hospital().write(tmp_path / "release")))))
    assert "not for publication" not in alone.text
    assert "Not attacked" in alone.text
    assert "--audit" in alone.text
    assert "Take “\u2068HIV\u2069”, whose limit is 1 in 4 (25\N{NO-BREAK SPACE}%)" in "".join(alone.texts)
    assert "is 1 of the 4 values shown for 4 people" in alone.text


def test_a_seeded_release_is_not_for_publication(tmp_path: Path) -> None:
    published(tmp_path / "release", seed=1)
    twin = report_object(collect(tmp_path / "release"))
    assert twin["holds"]
    page = read(report_html(twin))
    assert "Do not publish" in page.section("verdict")
    assert "made with a seed" in page.section("verdict")
    assert "<title>Privacy report: Do not publish</title>" in report_html(twin)
    assert page.tables["checks-table"][-1][1] == "✗ not kept"


def test_the_same_twin_gives_the_same_page(twin: Twin) -> None:
    assert report_html(twin) == report_html(copy.deepcopy(twin))


def test_attacks_without_any_share_have_no_chart(twin: Twin) -> None:
    """As where every bucket is too large to be attacked."""
    empty = dict.fromkeys(twin["audit"]["order"]) | {"people": 0, "details": {}, "notes": []}
    twin["audit"] |= dict.fromkeys(("corruption", "negative", "learning", "minimality", "order"), empty)
    assert audit_chart({"order": empty}, approximate=False) is None
    page = read(report_html(twin))
    assert "audit-chart" not in page.by_id
    assert len(page.tables["audit-table"]) == 6


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.99996, "99.996 %"),
        (1 - 1e-8, "99.999999 %"),
        (0.5, "50 %"),
        (0.12345, "12.3 %"),
        (0.0012345, "0.123 %"),
        (2.5, "250 %"),
        (12.3456, "1,235 %"),
        (1e-9, "1.0e-07 %"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_percentages(given: float | None, shown: str) -> None:
    assert percent(given) == shown.replace(" %", "\N{NO-BREAK SPACE}%")


@pytest.mark.parametrize(
    ("given", "shown"),
    [(0.27, "27.0 %"), (0.449, "44.9 %"), (0.0, "0.0 %"), (1.0, "100.0 %"), (0.9999, "99.99 %"), (1e-5, "0.001 %")],
)
def test_percentages_in_columns(given: float, shown: str) -> None:
    assert tenths(given) == shown.replace(" %", "\N{NO-BREAK SPACE}%")
    assert tenths(None) == "–"


def test_limits_and_intervals_in_words() -> None:
    space = "\N{NO-BREAK SPACE}"
    assert chance("1/50") == f"1 in 50 (2{space}%)"
    assert chance("1/3") == f"1 in 3 (33.33{space}%)"
    assert chance("1564/3125") == f"50.048{space}%"
    assert chance("2/3") == f"66.67{space}%"
    assert chance("1") == f"100{space}%"
    assert interval([0.1234, 0.5]) == f"12.3 to 50{space}%"
    assert share_of_limit(0.99999) == f"99.9{space}%"
    assert share_of_limit(1.0) == f"100{space}%"
    assert share_of_limit(0.29) == f"29{space}%"
    assert share_of_limit(2.0) == f"200{space}%"
    assert share_of_limit(None) == "–"
    assert [times(1.0), times(1.471), times(1.0001), times(0.99996)] == [
        "1.00 times",
        "1.47 times",
        "1.0001 times",
        "0.99996 times",
    ]

"""The report as people see it: opened from disk, with the network off."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from dalenius.policy.job import ReportSection
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.twin import report_object
from tests.browser.conftest import Picture, Visits, faults
from tests.effort import cases
from tests.handmade import hospital
from tests.report.releases import many_values, published

NARROW = 360


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of four kinds: a whole one, one with many values, one of a release that is damaged, and a full one."""
    made = tmp_path_factory.mktemp("reports")
    table = published(made / "release")
    whole = collect(made / "release", audit=True, truth=table, head=ReportSection(title="Discharges 2026"))
    many = collect(many_values(made / "many", 200))
    hospital(limits={"Flu": "1/4"}).write(made / "broken")
    for name, facts in {"report": whole, "many": many, "broken": collect(made / "broken", audit=True)}.items():
        (made / f"{name}.html").write_text(report_html(report_object(facts)), encoding="utf-8")
    (made / "full.html").write_text(report_html(full(report_object(whole))), encoding="utf-8")
    return made


def full(twin: dict[str, Any]) -> dict[str, Any]:
    """As much on the first two pages as there may be: long texts everywhere, and everybody's value in the clear.

    Groups of values, within each other, have limits, and every attacker makes claims about them.
    """
    line = "Words of a usual length for a line of text, "
    finding: dict[str, Any] = {
        "code": "x",
        "severity": "stop",
        "people": None,
        "points": None,
        "attacker": "learning",
        "columns": [],
        "groups": [],
    }
    exposure = twin["exposure"]
    values = [
        {**exposure["values"][0], "value": f"{k} {line}", "outright": 7, "people": 1_000_000, "highest": 1.0}
        for k in range(40)
    ]
    group = {"level": "", "limit": "1/3", "count": 9, "values": 2, "worst": {"count": 1, "size": 9}}
    group |= {"probability": "1/8", "share_of_limit": 0.4}
    names = ("people_above_limit", "claims", "claims_right", "mean_limit", "points")
    claims = {name: twin["audit"]["negative"][name] for name in names}
    for attack in ("corruption", "negative", "learning", "minimality"):
        twin["audit"][attack]["groups"] = {**claims, "worst_groups": []}
    groups = [{**group, "name": f"{k} {3 * line}", "parent": k - 1 if k % 4 else None} for k in range(40)]
    return {
        **twin,
        "release": {**twin["release"], "groups": groups},
        **dict.fromkeys(("title", "dataset", "controller"), (3 * line)[:100]),
        "purpose": (5 * line)[:200],
        "verdict": "do not publish",
        "findings": [{**finding, "message": 12 * line, "answer": (3 * line)[:110]} for _ in range(9)],
        "exposure": {**exposure, "outright": 280, "values": values, "bands": [*exposure["bands"][:-1], 280]},
    }


def opened(visits: Visits, path: Path, **how: Any) -> Page:
    before = len(visits.requests)
    page = visits.open(path.as_uri(), offline=True, **how)
    assert visits.requests[before:] == [path.as_uri()]  # nothing but the file itself
    return page


@pytest.mark.parametrize(
    ("name", "scheme"),
    cases(
        *[("report", "light"), ("broken", "dark"), ("many", "dark")],
        *[("report", "dark"), ("broken", "light"), ("many", "light")],
        usually=3,
    ),
)
def test_it_opens_from_disk_without_a_fault(
    name: str, scheme: str, folder: Path, visits: Visits, picture: Picture
) -> None:
    page = opened(visits, folder / f"{name}.html", scheme=scheme)
    assert page.locator("h1").inner_text() == ("Discharges 2026" if name == "report" else "Privacy report")
    words = {"✓": "Publish", "!": "Look at this first", "✗": "Do not publish"}
    verdict = page.locator(".verdict h2")
    assert words[verdict.locator(".symbol").inner_text()] in verdict.inner_text()  # not by colour alone
    assert name != "broken" or "Do not publish" in verdict.inner_text()
    picture(page, f"report-{name}-{scheme}")
    assert faults(page) == []
    for summary in page.locator("summary").all():
        summary.click()
    assert faults(page) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == ("rgb(16, 23, 22)" if scheme == "dark" else "rgb(255, 255, 255)")


def test_colours_of_charts_are_those_of_the_page(folder: Path, visits: Visits) -> None:
    """The drawings name the page's colours; a browser that did not know them would draw in black."""
    drawn = "[...document.querySelectorAll('[role=img] svg path, [role=img] svg line, [role=img] svg text')]"
    colour = f"[...new Set({drawn}.map(e => getComputedStyle(e).fill))]"
    report = folder / "report.html"
    light, dark = (set(opened(visits, report, scheme=scheme).evaluate(colour)) for scheme in ("light", "dark"))
    assert "rgb(0, 105, 92)" in light
    assert "rgb(92, 195, 179)" in dark
    for black in ("rgb(0, 0, 0)", "rgb(255, 255, 255)"):
        assert black not in light | dark


def test_a_narrow_screen_does_not_scroll_sideways(folder: Path, visits: Visits, picture: Picture) -> None:
    for name in ("report", "many", "broken", "full"):
        page = opened(visits, folder / f"{name}.html", width=NARROW)
        picture(page, f"report-{name}-narrow")
        for summary in page.locator("summary").all():
            summary.click()
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW


def test_the_keyboard_reaches_everything(folder: Path, visits: Visits) -> None:
    page = opened(visits, folder / "report.html")
    wanted = page.evaluate("document.querySelectorAll('a, summary, [tabindex=\"0\"]').length")
    closed = page.evaluate("document.querySelectorAll('details [tabindex=\"0\"]').length")
    reached = []
    for _ in range(wanted - closed):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.outerHTML.slice(0, 120)"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert len(set(reached)) == wanted - closed
    first = page.locator("summary").first
    first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#values-table").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Table of values and limits"


def test_the_contents_lead_to_their_sections(folder: Path, visits: Visits) -> None:
    page = opened(visits, folder / "many.html")
    links = page.locator("nav a").all()
    assert len(links) == 9
    for number, link in enumerate(links, 1):
        link.click()
        target = page.locator(page.evaluate("location.hash"))
        assert target.inner_text().startswith(f"{number} ")
        top = target.evaluate("e => e.getBoundingClientRect().top")
        assert -1 <= top < page.evaluate("innerHeight")


@pytest.mark.parametrize("name", ["report", "many", "broken"])
def test_on_paper_tables_are_open_and_there_is_room_to_sign(
    name: str, folder: Path, visits: Visits, tmp_path: Path
) -> None:
    page = opened(visits, folder / f"{name}.html", scheme="dark")
    last = page.locator("#values-table tbody tr").last
    shown = "e => e.checkVisibility() && e.getBoundingClientRect().height > 0"
    assert not last.evaluate(shown)
    path = tmp_path / "report.pdf"
    page.pdf(path=path, prefer_css_page_size=True, print_background=True)
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    assert 5 <= pages <= 20
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".signature").is_visible()
    assert last.evaluate(shown)
    if shutil.which("pdftotext") is not None:
        name_of_last = last.locator("th").text_content()
        assert name_of_last is not None
        _check_text(path, pages, name_of_last)


def _check_text(path: Path, pages: int, last_value: str) -> None:
    """What is on the paper, page by page."""
    text = subprocess.run(["pdftotext", path, "-"], capture_output=True, text=True, check=True).stdout
    every = ["".join(page.split()) for page in text.rstrip("\f").split("\f")]
    assert len(every) == pages
    assert all(f"{number}/{pages}" in page for number, page in enumerate(every, 1))
    for wanted in ("Share of limit", "Table of bucket sizes", "What is not promised", "Signature", last_value):
        assert any(wanted.replace(" ", "") in page for page in every), wanted


@pytest.mark.parametrize("name", ["report", "many", "broken", "full"])
def test_the_first_two_pages_are_a_sheet_each(name: str, folder: Path, visits: Visits, tmp_path: Path) -> None:
    """Verdict and signature on the first, figures on the second, and then the annex: counted without what follows."""
    page = opened(visits, folder / f"{name}.html")
    first = page.locator(".sheet").first
    for part in (".verdict", "#exposure-chart", "#findings", ".signature"):
        assert first.locator(part).count() == 1
    assert page.locator(".sheet").nth(1).locator("#attackers").count() == 1
    assert page.locator(".sheet").nth(2).locator("#annex").count() == 1
    for sheets in (2, 1):
        page.evaluate(
            f"document.querySelectorAll('footer, .sheet:nth-child(n + {sheets + 1})').forEach(e => e.remove())"
        )
        path = tmp_path / f"{sheets}.pdf"
        page.pdf(path=path, prefer_css_page_size=True, print_background=True)
        assert len(re.findall(rb"/Type\s*/Page\b", path.read_bytes())) == sheets


def test_the_verdict_can_be_read_from_two_metres(folder: Path, visits: Visits) -> None:
    """Letters of 10 mm, which is what signs have for that distance, on one line of the paper."""
    page = opened(visits, folder / "many.html", width=673)  # the width between the margins of A4
    page.emulate_media(media="print")
    verdict = page.locator(".verdict h2")
    assert verdict.inner_text().endswith("Look at this first")  # the longest of the three
    size = float(verdict.evaluate("e => parseFloat(getComputedStyle(e).fontSize)"))
    assert 0.7 * size / 96 * 25.4 > 9.5  # a capital is 0.7 of the size
    assert verdict.evaluate("e => e.getBoundingClientRect().height") < 1.3 * size


def test_letters_of_charts_can_be_read(folder: Path, visits: Visits) -> None:
    """On a telephone charts scroll in their own box rather than shrink."""
    for width in (NARROW, 1280):
        page = opened(visits, folder / "many.html", width=width)
        heights = page.evaluate(
            "[...document.querySelectorAll('[role=img] svg text')].filter(e => e.textContent)"
            ".map(e => e.getBoundingClientRect().height)"
        )
        assert min(heights) > 9
        boxes = page.evaluate(
            "[...document.querySelectorAll('[role=img] svg')].flatMap(s => [...s.querySelectorAll('text')].map("
            "t => t.getBoundingClientRect().left - s.getBoundingClientRect().left))"
        )
        assert min(boxes) >= 0  # no name is cut off

"""An analyst in a real browser: a cross-tab, completed tables, and why there are none of some releases."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

import dalenius
from dalenius.studio.analyst import SEED
from dalenius.studio.state import StudioOptions
from tests.browser.conftest import Picture, Visits, faults
from tests.browser.studio_steps import hook
from tests.studio.site import HTML_COLUMN, HTML_VALUE, Site, open_site, people
from tests.studio.site import visits as hospital_visits


@pytest.fixture
def releases(tmp_path: Path) -> tuple[dalenius.Release, dalenius.Release]:
    table = people(300).rename(columns={'Zip "code" & more': "Zip"})
    table["Age"] += table.index % 40
    of_people: dict[str, Any] = {"sensitive": "insulin", "quasi_identifiers": ["age"], "person": "patient_nbr"}
    return (
        dalenius.publish(hospital_visits(200), {"uniform": "0.95"}, out=tmp_path / "visits", **of_people),
        dalenius.publish(
            table,
            {"odds": 4},
            sensitive="Disease",
            quasi_identifiers=["Age", HTML_COLUMN, "Zip"],
            out=tmp_path / "hospital",
        ),
    )


@pytest.fixture
def site(releases: tuple[dalenius.Release, dalenius.Release]) -> Iterator[Site]:
    with open_site(StudioOptions(releases=tuple(release.path for release in releases))) as opened:
        yield opened


def look(page: Page, picture: Picture, name: str) -> None:
    """Without serious faults of access, light and dark, and without anything cut off on a phone."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert faults(page) == [], (name, scheme)
        picture(page, f"studio-analyses-{name}-{scheme}")
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
    picture(page, f"studio-analyses-{name}-phone")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_an_analyst_makes_a_cross_tab_and_takes_completed_tables_home(
    visits: Visits,
    site: Site,
    releases: tuple[dalenius.Release, dalenius.Release],
    tmp_path: Path,
    picture: Picture,
) -> None:
    page = visits.open(f"{site.home}/?token={site.keys.token}")
    page.goto(urljoin(page.url, "/query"))
    hook(page, "tab-crosstab").click()

    # a cross-tab: what is proposed, with a second column of rows whose name would like to be HTML
    expect(hook(page, "ask")).to_be_enabled()
    expect(hook(page, "ranges")).to_have_value("8")
    hook(page, "ranges").fill("30, 50")
    hook(page, "rows-too").select_option(label=HTML_COLUMN)
    hook(page, "draws").fill("3")
    hook(page, "ask").click()
    expect(hook(page, "crosstab-row")).to_have_count(9)
    expect(hook(page, "crosstab")).to_contain_text(HTML_COLUMN)
    expect(hook(page, "estimates")).to_contain_text("These are estimates")
    how: dict[str, Any] = {"bins": {"Age": [30, 50]}, "draws": 3, "seed": SEED}
    mine = releases[1].crosstab(["Age", HTML_COLUMN], "Disease", **how)
    with page.expect_download() as download:
        hook(page, "download-crosstab").click()
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["estimate"]) for line in lines] == pytest.approx(mine.tidy()["estimate"].tolist())
    assert HTML_VALUE in {line["Disease"] for line in lines}
    look(page, picture, "crosstab")

    # a mistake is said, and another question needs no learning
    hook(page, "ranges").fill("old")
    hook(page, "ask").click()
    expect(hook(page, "query-error")).to_contain_text("are no numbers")
    visits.problems.clear()  # the browser notes the refusal
    hook(page, "rows").select_option(label="Zip")
    hook(page, "rows-too").select_option(label="nothing more")
    hook(page, "ask").click()
    expect(hook(page, "crosstab-row")).to_have_count(4)
    expect(hook(page, "found")).to_contain_text("learned before")

    # completed tables
    hook(page, "tab-completed").click()
    expect(hook(page, "not-data")).to_contain_text("It is not the data")
    hook(page, "draws").fill("2")
    hook(page, "format").select_option("csv")
    hook(page, "ask").click()
    expect(hook(page, "made-words")).to_contain_text("2 tables, CSV")
    look(page, picture, "completed")
    page.reload()
    with page.expect_download() as download:
        hook(page, "download-completed").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert [Path(name).name for name in archive.namelist()] == ["draw-01.csv", "draw-02.csv", "README.txt"]

    # of people with several rows there are none
    hook(page, "release").select_option(label="visits")
    expect(hook(page, "refusal")).to_contain_text("200 people have")
    expect(hook(page, "ask")).to_be_disabled()

"""A careless publisher in a real browser: what the pages say before, what they refuse, and the verdict after."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Picture, Visits, faults
from tests.browser.studio_process import studio
from tests.browser.studio_steps import go, hook

JOB = """
[limits]
uniform = 1

[solve]
min_size = 1
"""


@pytest.fixture
def careless(tmp_path: Path) -> tuple[Path, Path]:
    """A table in which the ward says the disease and people are there twice, and limits that hide nobody."""
    table, job, draw = tmp_path / "visits.csv", tmp_path / "job.toml", random.Random(1)  # noqa: S311 (made up)
    with table.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["Patient_ID", "Age", "Ward", "Shoe size", "Disease"])
        for row in range(400):
            disease = draw.choice(["Flu", "Cold", "Gout"])
            writer.writerow(
                [f"P{row // 2}", draw.randrange(20, 60), f"{disease} ward", draw.randrange(35, 46), disease]
            )
    job.write_text(JOB, encoding="utf-8")
    return table, job


def look(page: Page, picture: Picture, name: str) -> None:
    """Without serious faults of access, light and dark, and without anything cut off on a phone."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert faults(page) == [], (name, scheme)
        picture(page, f"studio-card-{name}-{scheme}")
    page.set_viewport_size({"width": 360, "height": 800})
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, name
    picture(page, f"studio-card-{name}-phone")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_nobody_gets_a_green_tick_for_values_in_the_clear(
    visits: Visits, careless: tuple[Path, Path], tmp_path: Path, picture: Picture
) -> None:
    table, job = careless
    with studio(str(table), "--job", str(job), "--out", str(tmp_path / "out")) as url:
        page = visits.open(url)

        # the table: what is left out can be found and included, and what weighs is said
        expect(hook(page, "column")).to_have_count(5)
        hook(page, "filter-left-out").check(force=True)
        expect(page.locator('[data-test="column"]:visible')).to_have_count(1)
        page.locator('[data-column="Shoe size"][data-role="quasi-identifier"]').check(force=True)
        expect(hook(page, "role-filter")).to_contain_text("Left out 0")
        expect(page.locator('[data-test="column"]:visible')).to_have_count(1)  # it does not run away
        page.locator('[data-column="Shoe size"][data-role="left-out"]').check(force=True)
        hook(page, "filter-all").check(force=True)
        page.locator('[data-test="role"][data-column="Ward"][data-role="quasi-identifier"]').check(force=True)
        page.locator('[data-test="role"][data-column="Patient_ID"][data-role="identifier"]').check(force=True)
        expect(hook(page, "repeats")).to_contain_text("200 different entries in 400 rows")
        worst = page.locator('[data-test="finding"][data-severity="stop"]')
        expect(worst.filter(has_text="determines")).to_contain_text("'Ward' determines 'Disease'")
        expect(worst.filter(has_text="Patient_ID")).to_contain_text("limits are about a row, not about a person")
        expect(hook(page, "look-link")).to_contain_text("to look at first")
        look(page, picture, "table")
        hook(page, "continue").click()
        expect(page.locator("#limits")).to_be_visible()

        # publishing is refused until it is confirmed twice
        go(page, "publish")
        expect(hook(page, "clear-words")).to_contain_text("400 of 400 people would have their value published outright")
        expect(hook(page, "look")).to_contain_text("determines")
        expect(hook(page, "publish")).to_be_disabled()
        hook(page, "clear-open").click()
        hook(page, "clear-meant").check()
        expect(hook(page, "publish")).to_be_disabled()
        look(page, picture, "refused")
        hook(page, "clear-typed").fill("in the clear")
        hook(page, "publish").click()

        # the card: one verdict, and nothing green; the next release has to be confirmed again
        verdict = hook(page, "verdict")
        expect(verdict).to_have_attribute("data-advice", "do not publish")
        expect(hook(page, "audited-badge")).to_have_text("not attacked yet")
        expect(hook(page, "publish")).to_be_disabled()
        expect(hook(page, "clear-meant")).not_to_be_checked()
        hook(page, "audit-now").click()
        expect(hook(page, "audit-result")).to_be_visible()
        expect(hook(page, "audit-words")).to_contain_text("published outright")
        expect(verdict).to_have_attribute("data-advice", "do not publish")
        expect(hook(page, "exposure-chart")).to_be_visible()
        assert page.locator(".release .good, .release .good-word").count() == 0

        # the head of the report
        hook(page, "report-head").locator("summary").click()
        hook(page, "head-title").fill("Visits 2026")
        hook(page, "head-controller").fill("City Hospital")
        hook(page, "head-purpose").focus()
        expect(hook(page, "head-state")).to_contain_text("Kept")
        look(page, picture, "card")
        with page.context.expect_page() as opened:
            hook(page, "report-link").click()
        expect(opened.value.locator("body")).to_contain_text("Visits 2026")
        opened.value.close()
        page.reload()
        expect(verdict).to_have_attribute("data-advice", "do not publish")
        expect(hook(page, "audit-result")).to_be_visible()
        hook(page, "report-head").locator("summary").click()
        expect(hook(page, "head-title")).to_have_value("Visits 2026")

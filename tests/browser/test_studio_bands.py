"""Numbers that are nearly all different, in a real browser: from the offer of bands to a verified release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, Route, expect

import dalenius
from tests.browser.conftest import Picture, Visits, faults
from tests.browser.studio_process import plan, studio
from tests.browser.studio_steps import draft_job, go, hook, settled

ROWS = 2000


@pytest.fixture
def incomes(tmp_path: Path) -> Path:
    """Incomes, with -9 where somebody did not answer."""
    rng = np.random.default_rng(3)
    income = rng.lognormal(10.4, 0.7, ROWS).astype(int)
    income[rng.random(ROWS) < 0.05] = -9
    columns = {"Age": rng.integers(20, 70, ROWS), "Region": rng.choice(["North", "South"], ROWS), "Income": income}
    path = tmp_path / "incomes.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def bands(page: Page) -> list[str]:
    return [row.get_attribute("data-value") or "" for row in hook(page, "limit-row").all()]


def test_numbers_are_published_under_limits_on_bands(
    visits: Visits, incomes: Path, tmp_path: Path, picture: Picture
) -> None:
    with studio(str(incomes), "--out", str(tmp_path / "kept")) as url:
        page = visits.open(url)
        hook(page, "use-suggested").click()
        for column, role in (("Income", "sensitive"), ("Region", "quasi-identifier")):
            page.locator(f'[data-test="role"][data-column="{column}"][data-role="{role}"]').check(force=True)
        hook(page, "codes").locator("summary").click()
        hook(page, "missing").fill("-9")

        # bands are offered, and one click takes them
        hook(page, "continue").click()
        expect(hook(page, "bands-offer")).to_contain_text("numbers says little")
        picture(page, "studio-bands-1-offer")
        hook(page, "use-bands").click()
        expect(page.locator("#chart-title")).to_have_text("Limits by band")
        first = settled(page)
        names = bands(page)
        assert names[0].startswith("below ")
        assert (names[-2].endswith(" and above"), names[-1]) == (True, "missing")

        # a band has a limit of its own
        field = hook(page.locator(f'[data-test="limit-row"][data-value="{names[-2]}"]'), "limit-field")
        field.fill("15 %")
        field.press("Enter")
        expect(hook(page, "setting")).not_to_have_attribute("data-setting", first)
        assert settled(page) == plan(incomes, draft_job(page, tmp_path, "job.toml"))
        assert faults(page) == []
        picture(page, "studio-bands-2-limits")

        # somebody in a hurry publishes before the page knows what strata cost
        late: list[Route] = []
        page.route("**/api/strata-figures", lambda route: late.append(route))
        with page.expect_request("**/api/strata-figures"):
            go(page, "publish")
        hook(page, "release-name").fill("incomes-2026")
        hook(page, "publish").click()
        expect(hook(page, "verified-badge")).to_have_text("verified")
        for route in late:
            route.continue_()
        expect(page.locator("#policy")).to_contain_text("Nobody's value is published outright")
        expect(hook(page, "notice")).to_have_count(0)
        hook(page, "verify").click()
        expect(page.locator('[data-check="source"]')).to_have_attribute("data-outcome", "passed")
        expect(page.locator('[data-check="job"]')).to_have_attribute("data-outcome", "passed")
        picture(page, "studio-bands-3-publish")
        kept = dalenius.load(tmp_path / "kept" / "incomes-2026")
        assert kept.manifest.missing == ["-9"]

"""What outlives a page of Studio: the first screen, steps back, work that goes on, two tabs, and names for values."""

from __future__ import annotations

import csv
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Picture, Visits, faults
from tests.browser.studio_process import plan, studio
from tests.browser.studio_steps import choose_roles, draft_job, go, hook, settled


def look(page: Page, picture: Picture, name: str) -> None:
    """Light, dark and on a phone: nothing serious for axe, and nothing cut off."""
    wide = page.viewport_size
    assert wide is not None
    page.emulate_media(color_scheme="dark")
    assert faults(page) == []
    picture(page, f"studio-{name}-dark")
    page.emulate_media(color_scheme="light")
    assert faults(page) == []
    picture(page, f"studio-{name}-light")
    page.set_viewport_size({"width": 360, "height": 780})
    picture(page, f"studio-{name}-phone")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
    page.set_viewport_size(wide)


def limit(page: Page, value: str) -> str:
    return page.locator(f'[data-test="limit-field"][data-value="{value}"]').input_value()


def test_from_the_first_screen_to_figures(visits: Visits, picture: Picture, tmp_path: Path) -> None:
    with studio() as url:
        page = visits.open(url)
        expect(hook(page, "welcome")).to_contain_text("A row per person")
        look(page, picture, "welcome")
        hook(page, "demo").click()
        expect(hook(page, "column")).to_have_count(5)
        expect(hook(page, "table")).to_contain_text("made up")
        expect(hook(page, "not-saved")).to_be_visible()
        hook(page, "continue").click()

        # steps back, by button and by key, here and from another page
        first = settled(page)
        expect(page.locator('[data-test="limit-row"][data-value="HIV"]')).to_be_visible()
        before = limit(page, "HIV")
        page.locator('[data-test="limit-field"][data-value="HIV"]').fill("4,5 %")
        assert settled(page) != first
        page.locator("#rules").click(position={"x": 1, "y": 1})
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Control+z")
        expect(page.locator('[data-test="limit-field"][data-value="HIV"]')).to_have_value(before)
        assert settled(page) == first
        go(page, "protection")
        settled(page)
        hook(page, "redo").click()
        expect(hook(page, "redo")).to_be_disabled()
        expect(hook(page, "setting")).not_to_have_attribute("data-setting", first)
        settled(page)
        hook(page, "known").fill("1")
        expect(hook(page, "undo")).to_have_attribute("title", "Undo: protection (Ctrl+Z)")
        hook(page, "undo").click()
        expect(hook(page, "known")).to_have_value("0")
        go(page, "limits")
        settled(page)
        assert limit(page, "HIV") == "0.045"

        # strata are priced in the background, and the release has just that error
        expect(hook(page, "mse-strata")).not_to_have_text("…")
        promised = hook(page, "mse-strata").inner_text()
        expect(hook(page, "exposure-strata")).to_contain_text("strata")
        expect(hook(page, "exposure")).to_contain_text("strata: nobody's value is published outright")
        expect(hook(page, "count-error")).to_contain_text("strata: a count of one value")
        look(page, picture, "limits")

        # a rule begins with a number that can be kept; one that cannot be kept is not published
        hook(page, "rule-uniform").check(force=True)
        expect(hook(page, "uniform")).to_have_value("0.38")
        expect(hook(page, "exact")).to_have_attribute("data-state", "exact")
        hook(page, "uniform").fill("30%")
        expect(hook(page, "exact")).to_have_attribute("data-state", "problem")
        go(page, "publish")
        expect(hook(page, "publish-reason")).to_contain_text("more frequent than the limit allows")
        expect(hook(page, "publish")).to_be_disabled()
        look(page, picture, "infeasible")
        hook(page, "undo").click()
        hook(page, "undo").click()
        expect(hook(page, "publish")).to_be_enabled()

        # an audit goes on while the page is loaded again, and stays
        hook(page, "publish").click()
        expect(hook(page, "release-card")).to_contain_text(promised)
        expect(hook(page, "verified")).to_be_visible()
        expect(hook(page, "saved-badge")).to_have_text("not saved")
        hook(page, "audit").click()
        expect(hook(page, "progress")).to_be_visible()
        page.reload()
        expect(hook(page, "audit-result")).to_be_visible()
        expect(hook(page, "dot-plot")).to_be_visible()
        page.reload()
        expect(hook(page, "dot-plot")).to_be_visible()
        expect(hook(page, "verified")).to_be_visible()
        look(page, picture, "audited")
        with page.expect_download():
            hook(page, "download-release").click()
        with page.expect_download():
            hook(page, "save-job").click()
        expect(hook(page, "not-saved")).to_be_hidden()
        page.reload()
        expect(hook(page, "saved-badge")).to_have_text("downloaded")

        # figures for analysts
        hook(page, "to-figures").click()
        expect(hook(page, "bar")).to_have_count(8)
        hook(page, "where").fill("Age < 40")
        hook(page, "of").select_option(label="Disease: Asthma")
        hook(page, "by").select_option(label="Gender")
        expect(hook(page, "bar")).to_have_count(2)
        look(page, picture, "figures")
        with page.expect_download() as download:
            hook(page, "download-figures").click()
        with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
            figures = list(csv.DictReader(file))
        assert {row["Gender"] for row in figures} == {"F", "M"}
        assert all(float(row["interval_low"]) <= float(row["estimate"]) for row in figures)


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    """88 codes of ICD-10, one of which is none and long, in 21,000 rows: an audit takes some seconds."""
    path = tmp_path / "codes.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["Age", "Code"])
        for row in range(21_000):
            code = row * row % 700
            known = f"{'CDEFGIJK'[code % 8]}{code // 8:02d}"
            writer.writerow([row % 80, known if code else "A code with a long name that ends in 000"])
    return path


CANCER = "Neoplasms (C00-D49)"


def share_of(page: Page | Locator, group: str) -> Locator:
    """The line that says how much of a bucket a group takes at most."""
    return hook(page, "group-shares").locator(f'[data-group="{group}"]')


def test_two_tabs_and_many_codes(visits: Visits, codes: Path, picture: Picture, tmp_path: Path) -> None:
    with studio(str(codes)) as url:
        page = visits.open(url)
        choose_roles(page, "Code")
        settled(page)
        expect(hook(page, "other-tab")).to_be_hidden()

        # names from a file, a search in them, and one limit for all that were found
        names = tmp_path / "names.csv"
        names.write_text("code;name\nD00;Heart failure\nG00;Heart attack\nD01;Asthma\n", encoding="utf-8")
        hook(page, "labels").set_input_files(names)
        hook(page, "search").fill("heart")
        expect(hook(page, "limit-row")).to_have_count(2)
        expect(hook(page, "limit-row").first).to_contain_text("D00 · Heart failure")
        hook(page, "found-limit").fill("many")
        hook(page, "found-set").click()
        expect(page.locator("#found-error")).to_contain_text("2 %")
        hook(page, "found-limit").fill("1.5 %")
        hook(page, "found-set").click()
        hook(page, "search").fill("")
        expect(page.locator("#exceptions-text")).to_have_text("2 values have a limit of their own.")
        settled(page)
        for sort, top in {"limit": "D00", "cost": "D00", "name": "A code with a long name that ends in 000"}.items():
            hook(page, "sort").select_option(sort)
            expect(hook(page, "limit-row").first).to_have_attribute("data-value", top)
        settled(page)
        expect(hook(page, "mse-strata")).not_to_have_text("…")
        look(page, picture, "codes")

        # groups: what they do not know is set apart with a click; a limit on any cancer changes the setting
        hook(page, "grouping-icd10").check(force=True)
        expect(hook(page, "groups-problem")).to_contain_text("1 of 88 sensitive values is unknown to icd10")
        expect(hook(page, "unknown")).to_contain_text("A code with a long")
        hook(page, "groups-offer").click()
        cancer = page.locator(f'[data-test="group-row"][data-value="{CANCER}"]')
        expect(cancer).to_contain_text("of a bucket")
        before = settled(page)
        cancer.locator('[data-test="group-field"]').fill("42,5 %")
        expect(hook(page, "setting")).not_to_have_attribute("data-setting", before)
        expect(share_of(page, CANCER)).to_have_attribute("data-limit", "0.425")
        assert settled(page) == plan(codes, draft_job(page, tmp_path, "groups.toml"))
        cancer.locator('[data-test="group-open"]').click()
        page.locator('[data-test="group-row"][data-value$="(D00-D09)"] [data-test="group-open"]').click()
        expect(page.locator('[data-test="member-row"][data-value="D00"]')).to_contain_text("Heart failure")
        look(page, picture, "groups")

        # the second tab is told; the first is told of a change, cannot overwrite it, and takes it over
        other = page.context.new_page()
        other.goto(urljoin(page.url, "/limits"))
        expect(hook(other, "other-tab")).to_be_visible()
        settled(other)
        hook(other, "odds").fill("7")
        settled(other)
        expect(hook(page, "stale")).to_be_visible()
        hook(page, "odds").fill("3")
        expect(hook(page, "odds")).to_have_value("3")
        page.wait_for_timeout(300)
        assert page.request.get(urljoin(page.url, "/api/state")).json()["limits"]["odds"] == "7"
        look(page, picture, "stale")
        hook(page, "take-newer").click()
        expect(hook(page, "odds")).to_have_value("7")
        expect(hook(page, "stale")).to_have_count(0)
        hook(page, "odds").fill("6")
        settled(page)
        expect(hook(other, "stale")).to_be_visible()
        other.close()
        expect(hook(page, "other-tab")).to_be_hidden()

        # work that goes on is seen on other pages, and can be cancelled there
        go(page, "publish")
        hook(page, "publish").click()
        expect(hook(page, "verified")).to_have_attribute("data-verified", "true")
        found = share_of(hook(page, "release-card"), CANCER)
        assert (
            0 < float(found.get_attribute("data-share") or 1) <= 0.425 == float(found.get_attribute("data-limit") or 0)
        )
        picture(page, "studio-groups-published")
        hook(page, "audit").click()
        expect(hook(page, "progress")).to_be_visible()
        go(page, "table")
        expect(hook(page, "running")).to_have_attribute("data-kind", "audit")
        picture(page, "studio-running")
        hook(page, "running-cancel").click()
        expect(hook(page, "running")).to_have_count(0)
        go(page, "publish")
        expect(hook(page, "verified")).to_be_visible()
        expect(hook(page, "audit-result")).to_have_count(0)
        page.close()
    visits.problems[:] = [problem for problem in visits.problems if "409" not in problem]  # which Chromium notes

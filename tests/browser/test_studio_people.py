"""Studio in a real browser, with people who have several rows and several sensitive columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import dalenius
from tests.browser.conftest import Picture, Visits, faults
from tests.browser.studio_process import published, studio
from tests.browser.studio_steps import draft_job, go, hook
from tests.studio.site import visits as made_up

FRAME = made_up()
PEOPLE = FRAME["patient_nbr"].nunique()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("visits") / "visits.parquet"
    FRAME.to_parquet(path)
    return path


def test_from_a_hurried_choice_to_a_release_of_people(
    visits: Visits, table: Path, tmp_path: Path, picture: Picture
) -> None:
    with studio(str(table), "--out", str(tmp_path / "kept")) as url:
        page = visits.open(url)

        def role(column: str, name: str) -> None:
            page.locator(f'[data-test="role"][data-column="{column}"][data-role="{name}"]').check(force=True)

        # 1 the table: whoever calls the patient's number an identifier is told, and has one click to mend it
        hook(page, "use-suggested").click()
        assert page.locator('[data-test="column"][data-column="patient_nbr"]').get_attribute("data-role") == "person"
        role("patient_nbr", "identifier")
        expect(hook(page, "repeats")).to_contain_text(f"{PEOPLE} different entries in {len(FRAME)} rows")
        picture(page, "people-1-hurried")
        hook(page, "make-person").click()
        expect(hook(page, "repeats")).to_have_count(0)
        expect(hook(page, "person-words")).to_contain_text(f"{PEOPLE} people have {len(FRAME)} rows")
        for column in ("diag_1", "diag_2", "insulin"):
            role(column, "sensitive")
        for box in ("diag_1", "diag_2"):
            page.locator(f'[data-test="together"][value="{box}"]').check()
        hook(page, "set-name").fill("diagnosis")
        hook(page, "put-together").click()
        expect(page.locator('[data-test="set"][data-set="diagnosis"]')).to_contain_text("any of diag_1 and diag_2")
        expect(hook(page, "roles-state")).to_contain_text("diagnosis and insulin of a person")
        picture(page, "people-1-table")
        assert faults(page) == []
        hook(page, "continue").click()

        # 2 limits, set by set: numbers are of people, and what a release costs is worked out on demand
        expect(hook(page, "whom")).to_contain_text(f"{PEOPLE} people with {len(FRAME)} rows")
        hook(page, "rule-odds").check(force=True)
        hook(page, "odds").fill("8")
        hook(page, "floor").fill("0.05")
        expect(hook(page, "exact")).to_have_text("not worked out yet")
        row = page.locator('[data-test="limit-row"]').first
        most = FRAME.melt("patient_nbr", ["diag_1", "diag_2"]).groupby("value")["patient_nbr"].nunique().max()
        expect(row).to_contain_text(f"{most} ·")
        page.locator('[data-test="set-tab"][data-set="insulin"]').click()
        taken = FRAME[FRAME["insulin"] == "No"]["patient_nbr"].nunique()
        expect(page.locator('[data-test="limit-row"][data-value="No"]')).to_contain_text(f"{taken} ·")
        hook(page, "rule-own").check()
        hook(page, "rule-uniform").check(force=True)
        hook(page, "uniform").fill("0.3")
        expect(hook(page, "problem")).to_contain_text("More people have 'No'")
        picture(page, "people-2-refused")
        hook(page, "uniform").fill("0.95")
        hook(page, "work-out").click()
        expect(hook(page, "plan-words")).to_contain_text(f"{PEOPLE} people go into")
        expect(hook(page, "rows-each")).to_have_count(3)
        expect(hook(page, "exact")).to_have_text("can be kept")
        picture(page, "people-2-limits")
        assert faults(page) == []

        # 3 protection: no fakes; another number of known people makes the plan an old one
        go(page, "protection")
        expect(hook(page, "no-fakes")).to_be_visible()
        expect(hook(page, "fakes")).not_to_be_visible()
        hook(page, "known").fill("1")
        expect(hook(page, "plan-stale")).to_be_visible()
        picture(page, "people-3-protection")

        # 4 publish, and verify with the job
        go(page, "publish")
        expect(hook(page, "policy")).to_contain_text(f"{PEOPLE} people with {len(FRAME)} rows")
        job = draft_job(page, tmp_path, "job.toml")
        hook(page, "release-name").fill("visits-2026")
        hook(page, "publish").click()
        card = hook(page, "release-card")
        expect(hook(page, "verified-badge")).to_have_text("verified")
        expect(card.locator(".release-facts")).to_contain_text(f"people{PEOPLE}")
        picture(page, "people-4-publish")
        kept = dalenius.load(tmp_path / "kept" / "visits-2026")
        assert kept.verify(against=table, person="patient_nbr", job=job).verified
        assert (kept.manifest.people, kept.manifest.adversary.known_records) == (PEOPLE, 1)
        assert published(table, job, tmp_path / "again")["people"] == PEOPLE

        # 5 count people, and rows
        go(page, "query")
        hook(page, "expression").fill("age < 50 AND insulin = 'Up'")
        for unit in ("people", "rows"):
            hook(page, f"unit-{unit}").check(force=True)
            hook(page, "count").click()
            expect(hook(page, "answer")).to_contain_text(f", {unit}")
        expect(hook(page, "truth-note")).to_be_visible()
        picture(page, "people-5-query")
        page.locator('[data-test="tab-figures"]').click()
        hook(page, "by").select_option(label="insulin")
        bar = hook(page, "bar").filter(has_text="No")
        expect(bar).to_contain_text(f"{taken}")
        hook(page, "unit").select_option("rows")
        expect(bar).to_contain_text(f"{int((FRAME['insulin'] == 'No').sum())}")
        picture(page, "people-6-figures")

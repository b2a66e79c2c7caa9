"""Studio in a real browser: from a table to a count, as a publisher goes."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from playwright.sync_api import Page, expect

import dalenius
from paper.dataset import census_shaped
from tests.browser.conftest import Picture, Visits
from tests.browser.studio_process import plan, published, studio
from tests.browser.studio_steps import choose_roles, draft_job, go, hook, settled

ROWS = 20_000


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up table in the shape of the ACS extract, with occupations that have names."""
    table = census_shaped(ROWS)
    names = [f"Occupation {code:02d}" for code in range(50)]
    jobs = pa.DictionaryArray.from_arrays(table["Occupation"].combine_chunks(), pa.array(names)).dictionary_decode()
    path = tmp_path_factory.mktemp("census") / "census.parquet"
    pyarrow.parquet.write_table(table.set_column(table.schema.get_field_index("Occupation"), "Occupation", jobs), path)
    return path


def drag(page: Page, value: str, by: int) -> None:
    handle = page.locator(f'[data-test="limit-handle"][data-value="{value}"]')
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 6):
        page.mouse.move(x + by * step / 5, y)
    page.mouse.up()


def test_the_whole_path(visits: Visits, census: Path, tmp_path: Path, picture: Picture) -> None:
    with studio(str(census), "--out", str(tmp_path / "kept")) as url:
        page = visits.open(url)
        assert "token" not in page.url

        # 1 the table: columns with a suggested role
        expect(hook(page, "column")).to_have_count(8)
        assert page.locator('[data-test="column"][data-column="Occupation"]').inner_text().count("50") >= 1
        picture(page, "studio-1-table")
        choose_roles(page, "Occupation")

        # 2 limits: the setting is what plan gives, before and after a limit was dragged
        first = settled(page)
        assert first == plan(census, draft_job(page, tmp_path, "before.toml"))
        hook(page, "pin").click()
        expect(hook(page, "compare")).to_be_visible()
        rare = page.locator('[data-test="limit-row"]').nth(3).get_attribute("data-value") or ""
        drag(page, rare, -60)
        expect(page.locator(f'[data-test="limit-row"][data-value="{rare}"]')).to_have_class(re.compile("by-hand"))
        second = settled(page)
        job = draft_job(page, tmp_path, "after.toml")
        assert f'"{rare}" = ' in job.read_text(encoding="utf-8")
        assert second != first
        assert second == plan(census, job)
        expect(hook(page, "gain").first).to_be_visible()
        expect(hook(page, "exact")).to_have_text("exact")
        picture(page, "studio-2-limits")

        # 3 protection, with its price
        go(page, "protection")
        assert settled(page) == second
        hook(page, "known").fill("1")
        hook(page, "known").press("Enter")
        expect(hook(page, "price")).to_contain_text("times")
        third = settled(page)
        assert third == plan(census, draft_job(page, tmp_path, "protected.toml"))
        hook(page, "strata-price").click()
        expect(hook(page, "strata-result")).to_contain_text("strata")
        picture(page, "studio-3-protection")

        # 4 publish, verify, audit, the report, the downloads
        go(page, "publish")
        expect(hook(page, "release-name")).to_have_value("census-release")
        hook(page, "release-name").fill("census-2026")
        hook(page, "publish").click()
        expect(hook(page, "release-card")).to_be_visible()
        expect(hook(page, "verified-badge")).to_have_text("verified")
        hook(page, "verify").click()
        expect(hook(page, "verified")).to_have_attribute("data-verified", "true")
        expect(page.locator('[data-check="source"]')).to_have_attribute("data-outcome", "passed")
        hook(page, "audit").click()
        expect(hook(page, "audit-result")).to_have_attribute("data-broken", "0", timeout=120_000)
        picture(page, "studio-4-publish")
        kept = dalenius.load(tmp_path / "kept" / "census-2026")
        assert kept.verify(against=census).verified
        assert kept.manifest.adversary.known_records == 1
        with page.expect_download() as download:
            hook(page, "download-job").click()
        job.write_bytes(Path(download.value.path()).read_bytes())
        again = published(census, job, tmp_path / "again")
        assert again["setting"] == [group.model_dump() for group in kept.manifest.setting]
        assert again["strata"]["number"] == len(kept.manifest.strata.strata) if kept.manifest.strata else 1
        with page.expect_download() as download:
            hook(page, "download-release").click()
        with zipfile.ZipFile(download.value.path()) as archive:
            archive.extractall(tmp_path / "unpacked")
        unpacked = dalenius.load(next((tmp_path / "unpacked").rglob("manifest.json")).parent)
        assert unpacked.verify(against=census).verified
        with page.context.expect_page() as opened:
            hook(page, "report-link").click()
        report = opened.value
        report.wait_for_load_state()
        expect(report.locator("body")).to_contain_text(kept.manifest.tables.qit.sha256)
        picture(report, "studio-report")
        report.close()

        # 5 count, with the truth beside
        go(page, "query")
        hook(page, "expression").fill("Age < 40 AND Occupation = 'Occupation 45'")
        hook(page, "count").click()
        table = pyarrow.parquet.read_table(census)
        true = pc.sum(pc.and_(pc.less(table["Age"], 40), pc.equal(table["Occupation"], "Occupation 45"))).as_py()
        expect(hook(page, "truth")).to_have_text(f"{true:,}")
        estimate = kept.count("Age < 40 AND Occupation = 'Occupation 45'")
        expect(hook(page, "interval")).to_contain_text(f"{estimate.interval[0]:,}")
        picture(page, "studio-5-query")

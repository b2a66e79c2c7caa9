"""Studio's pages: odd names, limits that cannot be kept, keys alone, narrow screens, and what axe-core finds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Picture, Visits, faults
from tests.browser.studio_process import plan, run, studio
from tests.browser.studio_steps import choose_roles, draft_job, go, hook, settled
from tests.query.releases import SLOW, write_long_texts

IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("dark", "light")
LONG = "A name that goes on and on, as names of measurements in exports of hospital systems do, " * 3
VALUES = {"Flu": 60, IMAGE: 25, SCRIPT: 10, "Grippe é ü 流感 🤒": 4, LONG: 1}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A table whose names and values are as odd as they come: 1,000 rows."""
    path = tmp_path / 'odd "table" <b>.csv'
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["Name", 'Zip "code"', f"Age {IMAGE}", "Diagnosis"])
        for row, value in enumerate(value for value, share in VALUES.items() for _ in range(10 * share)):
            writer.writerow([f"Person {row}", f"{row % 7:03d}", row % 90, value])
    return path


def upload(page: Page, path: Path) -> None:
    hook(page, "file").set_input_files(path)
    expect(hook(page, "column")).to_have_count(4)


def test_odd_names_are_shown_and_never_run(visits: Visits, odd: Path, picture: Picture) -> None:
    with studio() as url:
        page = visits.open(url)
        page.on("dialog", lambda dialog: visits.problems.append(f"a dialog: {dialog.message}"))
        upload(page, odd)
        expect(page.locator("body")).to_contain_text(IMAGE)
        choose_roles(page, "Diagnosis")
        settled(page)
        for value in (IMAGE, SCRIPT):
            expect(page.locator(".row .name", has_text=value)).to_be_visible()
        picture(page, "studio-odd-names")
        go(page, "publish")
        hook(page, "publish").click()
        expect(hook(page, "release-card")).to_be_visible()
        go(page, "query")
        page.locator("#add").select_option(label="Diagnosis (sensitive)")
        hook(page, "condition").locator("label.check", has_text=IMAGE).click()
        hook(page, "count").click()
        expect(hook(page, "truth")).to_have_text("250")
        expect(hook(page, "expression")).to_have_value(f"\"Diagnosis\" = '{IMAGE}'")
        assert page.locator("img, script:not([src]):not([type='application/json'])").count() == 0


def test_limits_that_cannot_be_kept_are_marked_and_the_offer_can(visits: Visits, odd: Path, tmp_path: Path) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url)
        choose_roles(page, "Diagnosis")
        hook(page, "rule-uniform").check(force=True)
        hook(page, "uniform").fill("0.3")
        row = page.locator('[data-test="limit-row"][data-value="Flu"]')
        expect(row).to_contain_text("cannot be kept")
        expect(hook(page, "exact")).to_have_attribute("data-state", "problem")
        hook(page, "offer").click()
        expect(hook(page, "exact")).to_have_attribute("data-state", "exact")
        expect(row.locator('[data-test="limit-field"]')).to_have_value("0.6")
        assert settled(page) == plan(odd, draft_job(page, tmp_path, "offer.toml"))


def test_a_limit_is_moved_by_keys_and_typed_as_a_ratio(visits: Visits, odd: Path, tmp_path: Path) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url)
        choose_roles(page, "Diagnosis")
        before = settled(page)
        field = page.locator('[data-test="limit-field"][data-value="Flu"]')
        handle = page.locator('[data-test="limit-handle"][data-value="Flu"]')
        handle.focus()
        page.keyboard.press("PageDown")
        expect(field).to_have_value("0.686")
        field.fill("2/3")
        expect(handle).to_have_attribute("aria-valuenow", "0.6666666666666666")
        assert settled(page) != before
        job = draft_job(page, tmp_path, "ratio.toml")
        assert 'Flu = "2/3"' in job.read_text(encoding="utf-8")
        assert settled(page) == plan(odd, job)
        field.fill("2")
        expect(field).to_have_attribute("aria-invalid", "true")
        handle.focus()
        page.keyboard.press("Home")
        expect(field).to_have_value("0.6")
        hook(page, "reset-limit").first.click()
        assert settled(page) == before


def test_the_table_page_by_keys_alone(visits: Visits, odd: Path) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url)
        expect(hook(page, "column")).to_have_count(4)
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.test") == "continue":
                break
        expect(hook(page, "continue")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#limits")).to_be_visible()


def test_no_serious_fault_of_access(visits: Visits, odd: Path, picture: Picture) -> None:
    """On light pages and on dark ones."""

    def look(name: str | None = None) -> None:
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert faults(page) == [], scheme
            if name is not None:
                picture(page, f"{name}-{scheme}")

    with studio(str(odd)) as url:
        page = visits.open(url)
        expect(hook(page, "column")).to_have_count(4)
        look()
        choose_roles(page, "Diagnosis")
        settled(page)
        hook(page, "pin").click()
        expect(hook(page, "compare")).to_be_visible()
        look()
        go(page, "protection")
        settled(page)
        look()
        go(page, "publish")
        hook(page, "publish").click()
        expect(hook(page, "release-card")).to_be_visible()
        hook(page, "audit").click()
        expect(hook(page, "audit-result")).to_be_visible()
        look("studio-publish")
        go(page, "query")
        hook(page, "expression").fill("Diagnosis = 'Flu'")
        hook(page, "count").click()
        expect(hook(page, "truth")).to_have_text("600")
        look()


def test_nothing_is_cut_off_on_a_phone(visits: Visits, odd: Path, picture: Picture) -> None:
    def look(name: str) -> None:
        for width in (360, 390):
            page.set_viewport_size({"width": width, "height": 844})
            picture(page, f"studio-phone-{width}-{name}")
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, (name, width)

    with studio(str(odd)) as url:
        page = visits.open(url, width=390, height=844)
        expect(hook(page, "column")).to_have_count(4)
        choose_roles(page, "Diagnosis")
        settled(page)
        for step in ("table", "limits", "protection", "publish", "query"):
            go(page, step)
            page.wait_for_load_state("networkidle")
            look(step)
        go(page, "publish")
        hook(page, "publish").click()
        expect(hook(page, "verified")).to_be_visible()
        hook(page, "audit").click()
        expect(hook(page, "audit-result")).to_be_visible()
        look("released")
        go(page, "query")
        hook(page, "learn").check()
        hook(page, "expression").fill(f"Diagnosis <> '{LONG}' AND \"Age {IMAGE}\" < 40")
        hook(page, "count").click()
        expect(hook(page, "asked")).to_have_count(1)
        look("answer")
        page.locator("#group-details summary").click()
        hook(page, "group-column").last.check()
        hook(page, "count").click()
        expect(hook(page, "group").first).to_be_visible()
        look("groups")


def held_back(page: Page, script: str) -> list[Route]:
    """A script that does not arrive until it is let through: the route, once it was asked for."""
    routes: list[Route] = []
    page.route(f"**/static/{script}", lambda route: routes.append(route))
    return routes


def let_through(page: Page, routes: list[Route]) -> None:
    expect(hook(page, "quit")).to_be_visible()
    while not routes:
        page.wait_for_timeout(20)
    for route in routes:
        route.continue_()
    page.unroute_all()


def test_what_is_typed_before_a_page_is_ready_stays(visits: Visits, odd: Path) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url)
        choose_roles(page, "Diagnosis")
        settled(page)

        routes = held_back(page, "page_protection.js")
        page.goto(urljoin(page.url, "/protection"), wait_until="commit")
        hook(page, "known").fill("1")
        expect(hook(page, "fakes")).to_have_value("0")
        for name in ("strata-price", "strata-none"):
            expect(hook(page, name)).to_be_disabled()
        let_through(page, routes)
        settled(page)
        expect(hook(page, "known")).to_have_value("1")
        expect(hook(page, "strata-price")).to_be_enabled()
        protection = page.request.get(urljoin(page.url, "/api/state")).json()["protection"]
        assert (protection["known_records"], protection["fake_values"]) == (1, 0)

        routes = held_back(page, "page_publish.js")
        page.goto(urljoin(page.url, "/publish"), wait_until="commit")
        hook(page, "release-name").fill("mine")
        expect(hook(page, "publish")).to_be_disabled()
        let_through(page, routes)
        hook(page, "publish").click()
        expect(hook(page, "release-card")).to_contain_text("mine")

        routes = held_back(page, "page_query.js")
        page.goto(urljoin(page.url, "/query"), wait_until="commit")
        hook(page, "expression").fill("Diagnosis = 'Flu'")
        expect(hook(page, "count")).to_be_disabled()
        let_through(page, routes)
        hook(page, "count").click()
        expect(hook(page, "truth")).to_have_text("600")
        expect(hook(page, "expression")).to_have_value("Diagnosis = 'Flu'")


def test_a_count_can_be_cancelled(visits: Visits, tmp_path: Path) -> None:
    with studio("--release", str(write_long_texts(tmp_path / "release").path)) as url:
        page = visits.open(url)
        page.goto(urljoin(page.url, "/query"))
        expect(hook(page, "counting")).to_be_hidden()
        hook(page, "expression").fill(SLOW)
        hook(page, "count").click()
        expect(hook(page, "counting")).to_contain_text("of at most 300 s")
        expect(hook(page, "count")).to_be_disabled()
        assert faults(page) == []
        hook(page, "cancel-count").click()
        expect(page.locator("#query-problem")).to_have_text("The count was cancelled.")
        expect(hook(page, "counting")).to_be_hidden()
        hook(page, "expression").fill("Gender = 'F'")
        hook(page, "count").click()
        expect(hook(page, "answer")).to_contain_text("20")


def test_a_file_that_is_chosen_before_the_page_is_ready_arrives(visits: Visits, odd: Path) -> None:
    with studio() as url:
        page = visits.open(url)
        routes = held_back(page, "page_table.js")
        page.goto(urljoin(page.url, "/table"), wait_until="commit")
        hook(page, "file").set_input_files(odd)
        let_through(page, routes)
        expect(hook(page, "column")).to_have_count(4)


def test_a_file_that_is_too_large_is_not_sent(visits: Visits, odd: Path) -> None:
    with studio("--upload-limit", "1KB") as url:
        page = visits.open(url)
        hook(page, "file").set_input_files(odd)
        expect(hook(page, "notice")).to_have_attribute("data-kind", "too-large")
        expect(hook(page, "notice")).to_contain_text("1 kB")
        assert not any("/api/tables" in address for address in visits.requests)


def test_a_file_that_is_refused_while_it_is_sent(visits: Visits, odd: Path) -> None:
    """The server may close the connection before it has read everything, and then no answer arrives."""
    with studio() as url:
        page = visits.open(url)
        page.route("**/api/tables?*", lambda route: route.abort("connectionreset"))
        hook(page, "file").set_input_files(odd)
        expect(hook(page, "notice")).to_have_attribute("data-kind", "not-taken")
        expect(hook(page, "notice")).to_contain_text("room")
    assert len(visits.problems) == 1  # Chromium notes the request that failed
    assert "ERR_CONNECTION_RESET" in visits.problems.pop()


def test_a_release_that_changed_is_not_called_verified(visits: Visits, odd: Path, tmp_path: Path) -> None:
    with studio(str(odd), "--out", str(tmp_path / "out")) as url:
        page = visits.open(url)
        choose_roles(page, "Diagnosis")
        settled(page)
        go(page, "publish")
        hook(page, "release-name").fill("first")
        hook(page, "publish").click()
        expect(hook(page, "verified-badge")).to_have_text("verified")
        (tmp_path / "out" / "first" / "st.parquet").write_bytes(b"something else")
        page.reload()
        expect(hook(page, "verified-badge")).to_have_text("not verified yet")
        expect(hook(page, "no-verdict")).to_be_visible()
        page.wait_for_load_state("networkidle")  # nothing arrives any more that moves the button
        hook(page, "verify").click()
        expect(hook(page, "verified-badge")).to_have_text("✗ NOT verified")
        expect(hook(page, "verified")).to_have_attribute("data-verified", "false")
        assert faults(page) == []


def test_a_table_that_changed_is_counted_again(visits: Visits, odd: Path) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url)
        choose_roles(page, "Diagnosis")
        settled(page)
        other = odd.read_text(encoding="utf-8").replace("Flu", "Fever")
        odd.with_suffix(".new").write_text(other, encoding="utf-8")
        odd.with_suffix(".new").replace(odd)
        hook(page, "odds").fill("5")
        expect(page.locator('[data-test="limit-row"][data-value="Fever"]')).to_be_visible()
        expect(hook(page, "odds")).to_have_value("5")
        settled(page)
    visits.problems[:] = [problem for problem in visits.problems if "409" not in problem]  # which Chromium notes


def test_without_the_token_there_is_nothing(visits: Visits, odd: Path) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url.split("?")[0])
        expect(hook(page, "error-page")).to_be_visible()
        assert "Diagnosis" not in page.content()
        assert odd.name not in page.content()
    assert len(visits.problems) == 1, (
        visits.problems
    )  # Chromium notes the refusal itself, and nothing else was asked for
    assert "403" in visits.problems.pop()


def test_how_exposed_people_are_comes_first(visits: Visits, odd: Path, tmp_path: Path, picture: Picture) -> None:
    with studio(str(odd)) as url:
        page = visits.open(url)
        choose_roles(page, "Diagnosis")
        settled(page)
        expect(hook(page, "preset-4")).to_have_attribute("aria-pressed", "true")
        expect(hook(page, "outright")).to_have_text("nobody")
        expect(hook(page, "count-error")).to_contain_text("count of one value among a tenth of the records")
        expect(hook(page, "clear")).to_be_hidden()

        # a point of the curve, and a preset, are numbers of the rule
        hook(page, "trade-off-table").click()
        page.locator('[data-test="trade-off"] button', has_text="16").click()
        expect(hook(page, "odds")).to_have_value("16")
        expect(hook(page, "preset-4")).to_have_attribute("aria-pressed", "false")
        open_mean = float(hook(page, "exposure-mean").get_attribute("data-number") or 0)
        hook(page, "preset-2").click()
        expect(hook(page, "odds")).to_have_value("2")
        settled(page)
        assert float(hook(page, "exposure-mean").get_attribute("data-number") or 0) < open_mean
        page.locator('[data-test="trade-off-point"][data-odds="1.5"] circle').click()
        expect(hook(page, "odds")).to_have_value("1.5")

        # values in the clear, in red, with a way out of it in one click
        hook(page, "rule-theta").check(force=True)
        page.locator("#sizes-range summary").click()
        hook(page, "min-size").fill("1")
        expect(hook(page, "clear")).to_contain_text("people have their value published outright")
        settled(page)
        job = draft_job(page, tmp_path, "outright.toml")
        outright = run("plan", odd, "--job", job, "--strata", "none")["exposure"]["outright"]
        expect(hook(page, "outright")).to_have_attribute("data-number", str(outright))
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert faults(page) == [], scheme
            picture(page, f"studio-clear-{scheme}")
        hook(page, "use-odds").click()
        expect(hook(page, "outright")).to_have_text("nobody")
        expect(hook(page, "odds")).to_have_value("8")
        expect(hook(page, "clear")).to_be_hidden()
        settled(page)
        assert "publish_in_the_clear" not in draft_job(page, tmp_path, "hidden.toml").read_text(encoding="utf-8")

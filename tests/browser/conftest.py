"""Pages in a real browser: Debian's Chromium, driven by Playwright.

While Playwright runs, its event loop is the running one of this thread. So it runs for this package alone, and other
tests of the same process are not disturbed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

SERIOUS = {"serious", "critical"}
LONGEST = 60_000  # milliseconds that a test waits for anything: the machine may be busy
expect.set_options(timeout=LONGEST)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium: $CHROMIUM, or the one that is installed."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("there is no Chromium: install it, or say where it is with CHROMIUM")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()


class Visits:
    """Opens pages in contexts of their own, and notes whatever should not happen on them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.requests: list[str] = []  # all of them, in order
        self.problems: list[str] = []

    def open(
        self,
        url: str,
        *,
        scheme: str = "light",
        width: int = 1280,
        height: int = 900,
        offline: bool = False,
        allowed: Callable[[str], bool] | None = None,
    ) -> Page:
        """A page at this address; requests to elsewhere, or that are not `allowed`, are stopped and noted."""
        context = self._browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": height}
        )
        self._contexts.append(context)
        context.set_default_timeout(LONGEST)
        context.set_offline(offline)
        may = allowed or (lambda requested: _is_same(url, requested))

        def watch(route: Route) -> None:
            self.requests.append(route.request.url)
            if may(route.request.url):
                route.continue_()
            else:
                self.problems.append(f"requested {route.request.url}")
                route.abort()

        context.route("**/*", watch)
        context.on("weberror", lambda error: self.problems.append(f"error on the page: {error.error}"))
        context.on("console", lambda message: self._note(message.type, message.text))
        page = context.new_page()
        page.goto(url)
        return page

    def _note(self, kind: str, text: str) -> None:
        if kind == "error":
            self.problems.append(f"console: {text}")

    def close(self) -> None:
        """End all visits."""
        for context in self._contexts:
            context.close()


@pytest.fixture
def visits(browser: Browser) -> Iterator[Visits]:
    """Visits without console errors, errors of scripts, and requests to elsewhere; a test may empty `problems`."""
    made = Visits(browser)
    yield made
    made.close()
    assert made.problems == []


Picture = Callable[[Page, str], None]


@pytest.fixture(scope="package")
def picture() -> Picture:
    """Takes a picture of a page, for people to look at, if $DALENIUS_SCREENSHOTS says where; drawing takes long."""
    given = os.environ.get("DALENIUS_SCREENSHOTS")

    def take(page: Page, name: str) -> None:
        if given:
            folder = Path(given)
            folder.mkdir(parents=True, exist_ok=True)
            page.mouse.move(0, 0)  # as it looks when nobody points at anything
            page.evaluate("document.activeElement.blur()")
            page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
            page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")

    return take


def faults(page: Page) -> list[str]:
    """What axe-core finds serious or critical on a page, as it is."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {[node['target'] for node in one['nodes']][:3]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


def _is_same(url: str, requested: str) -> bool:
    """The file itself, or any address of the same server."""
    here, there = urlsplit(url), urlsplit(requested)
    if here.scheme == "file":
        return here.path == there.path and there.scheme == "file"
    return there.scheme in ("data", "blob") or (here.scheme, here.netloc) == (there.scheme, there.netloc)

"""Another site in the same browser, with Studio's cookie in it: what it gets of Studio, which is nothing."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from dalenius.studio.state import StudioOptions
from tests.studio.site import Site, open_site, people

PAGE = """<!doctype html><title>strange</title>
<a id="start" href="{home}/?token={token}">start</a>
<a id="state" href="{home}/api/state">state</a>
<form method="post" action="{home}/api/quit"><button id="plain">plain</button></form>
<form method="post" action="{home}/api/quit" enctype="text/plain">
<input name='{{"a":"' value='"}}'><button id="text">text</button></form>
<iframe src="{home}/table"></iframe>
"""
ATTEMPTS = """async ([home, mode]) => {
  const tried = { mode, credentials: "include" };
  const post = { ...tried, method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" };
  const outcome = async (path, options) => {
    try { return (await (await fetch(home + path, options)).text()).slice(0, 40); } catch (error) { return error.name; }
  };
  const answers = [outcome("/api/state", tried), outcome("/api/quit", post), outcome("/static/page.css", tried)];
  return Promise.all(answers);
}"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    people().to_csv(tmp_path / "people.csv", index=False)
    with open_site(StudioOptions(table=tmp_path / "people.csv")) as found:
        yield found


@pytest.fixture
def stranger(site: Site) -> Iterator[int]:
    """The port of another server on this machine: as localhost it is another site, as 127.0.0.1 another origin."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.format(home=site.home, token=site.keys.token).encode())

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_another_site_gets_nothing(site: Site, stranger: int, page: Page, host: str) -> None:
    page.goto(f"{site.home}/?token={site.keys.token}")
    page.wait_for_url(f"{site.home}/table")
    there = f"http://{host}:{stranger}/"
    page.goto(there)
    for mode in ("no-cors", "cors"):
        assert page.evaluate(ATTEMPTS, [site.home, mode]) == ["TypeError"] * 3
    (framed,) = page.frames[1:]
    assert "Studio" not in framed.content()
    for button in ("plain", "text"):
        page.goto(there)
        with page.expect_navigation() as answered:
            page.click(f"#{button}")
        assert answered.value is not None
        assert answered.value.status == 403
    page.goto(there)
    with page.expect_navigation() as answered:
        page.click("#state")
    assert answered.value is not None
    assert answered.value.status == 403
    assert not site.server.should_exit


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_link_with_the_token_works_from_anywhere(site: Site, stranger: int, page: Page, host: str) -> None:
    page.goto(f"http://{host}:{stranger}/")
    page.click("#start")
    page.wait_for_url(f"{site.home}/table")
    assert page.evaluate("document.cookie") == ""  # scripts do not see it
    assert page.evaluate("async () => (await fetch('/api/state')).status") == 200

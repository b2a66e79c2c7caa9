"""Who may ask: everything that a stranger, another site or a wrong address can try, and what they get."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.studio.site import Site, open_site

ADDRESSES = [
    "/",
    "/table",
    "/limits",
    "/protection",
    "/publish",
    "/query",
    "/static/page.css",
    "/static/nothing.css",
    "/job.toml",
    "/releases/x/report",
    "/releases/x/release.zip",
    "/api/state",
    "/api/counts",
    "/api/tasks/x",
    "/api/releases/x/columns",
    "/api/releases/x/outcomes",
    "/api/history",
    "/figures",
    "/crosstab",
    "/completed",
    "/releases/x/completed.zip",
    "/api/releases/x/analysis",
    "/nothing",
]
POSTS = [
    *("/api/table", "/api/roles", "/api/explore", "/api/pin", "/api/publish", "/api/strata-price", "/api/quit"),
    *("/api/undo", "/api/redo", "/api/demo", "/api/labels", "/api/start", "/api/strata-figures"),
    *("/api/look", "/api/releases/x/head", "/api/releases/x/crosstab", "/api/releases/x/completed"),
]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as found:
        yield found


@pytest.fixture
def stranger(site: Site) -> Iterator[Site]:
    """The same, as a browser without the cookie sees it."""
    kept = dict(site.client.cookies)
    site.client.cookies.clear()
    yield site
    site.client.cookies.clear()
    site.client.cookies.update(kept)


def test_without_the_token_there_is_nothing(stranger: Site) -> None:
    for address in ADDRESSES:
        answer = stranger.get(address)
        assert answer.status_code == 403, address
        if address.startswith("/api/"):
            assert answer.json()["error"]["kind"] == "forbidden"
        else:
            assert "text/html" in answer.headers["content-type"]
        assert "set-cookie" not in answer.headers
    for address in [*POSTS, "/api/tables?name=a.csv"]:
        assert stranger.post(address).status_code == 403, address
    assert stranger.remove("/api/pin").status_code == 403
    assert not stranger.server.should_exit


@pytest.mark.parametrize("token", ["", "x", "0" * 43, "%00", "\u00e9", "a&token=b"])
def test_a_wrong_token(stranger: Site, token: str) -> None:
    answer = stranger.get(f"/?token={token}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert stranger.keys.token not in answer.text


def test_the_token_twice_in_one_address_is_no_token(stranger: Site) -> None:
    assert stranger.get(f"/?token=x&token={stranger.keys.token}").status_code == 403


def test_the_token_gives_a_cookie_and_goes_from_the_address(stranger: Site) -> None:
    answer = stranger.get(f"/?token={stranger.keys.token}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/table"
    cookie = answer.headers["set-cookie"]
    name, _, rest = cookie.partition("=")
    assert name == f"dalenius-{stranger.port}"
    assert rest.split(";")[0] == stranger.keys.cookie != stranger.keys.token
    assert {part.strip().lower() for part in rest.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}
    assert stranger.get("/api/state").status_code == 200
    stranger.client.cookies.clear()
    assert stranger.get("/api/state").status_code == 403
    assert stranger.get(f"/?token={stranger.keys.token}").status_code == 303  # a second browser


def test_a_token_for_one_use(stranger: Site) -> None:
    token = stranger.keys.once()
    assert stranger.get(f"/?token={token}").status_code == 303
    stranger.client.cookies.clear()
    assert stranger.get(f"/?token={token}").status_code == 403


def test_the_token_is_good_at_the_first_address_alone(stranger: Site) -> None:
    for address in ("/table", "/api/state", "/static/page.css"):
        assert stranger.get(address, params={"token": stranger.keys.token}).status_code == 403
    assert stranger.client.head("/", params={"token": stranger.keys.token}).status_code == 403
    assert stranger.client.post("/", params={"token": stranger.keys.token}).status_code == 403


def test_a_wrong_cookie(stranger: Site) -> None:
    right = stranger.keys.cookie
    for cookie in (
        f"dalenius-{stranger.port}=x",
        f"dalenius-{stranger.port}={right}x",
        f"dalenius-{stranger.port + 1}={right}",
        f"dalenius={right}",
        f"other=1; dalenius-{stranger.port}=",
    ):
        assert stranger.get("/api/state", headers={"Cookie": cookie}).status_code == 403, cookie
    assert (
        stranger.get("/api/state", headers={"Cookie": f"a=b; dalenius-{stranger.port}={right}; c=d"}).status_code == 200
    )


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:PORT",
        "127.0.0.1:PORT.evil.example",
        "127.0.0.1:PORT@evil.example",
        "evil.example@127.0.0.1:PORT",
        "[::1]:PORT",
        "0.0.0.0:PORT",
        "127.1:PORT",
        "",
    ],
)
def test_another_name_for_this_machine(site: Site, host: str) -> None:
    host = host.replace("PORT", str(site.port))
    for address in ("/", f"/?token={site.keys.token}", "/table", "/api/state", "/static/page.css"):
        answer = site.get(address, headers={"Host": host})
        assert answer.status_code == 421, address
        assert "set-cookie" not in answer.headers
    own = {"Host": host, "Origin": f"http://{host}"}
    assert site.client.post("/api/quit", json={}, headers=own).status_code == 421
    assert not site.server.should_exit


def test_no_name_and_two_names(site: Site) -> None:
    right = ("Host", f"127.0.0.1:{site.port}")
    assert site.raw("GET", "/api/state", [right])[0] == 200
    for hosts in ([right, ("Host", "evil.example")], [("Host", "evil.example"), right], [right, right]):
        assert site.raw("GET", "/api/state", hosts)[0] in (400, 421)
    absolute = f"http://evil.example:{site.port}/api/state"
    assert site.raw("GET", absolute, [right])[0] in (400, 404, 421)


def test_localhost_is_a_name_too(site: Site) -> None:
    cookie = {"Cookie": f"{site.keys.cookie_name}={site.keys.cookie}", "Host": f"localhost:{site.port}"}
    assert site.get("/api/state", headers=cookie).status_code == 200
    own = {**cookie, "Origin": f"http://localhost:{site.port}"}
    assert site.client.post("/api/pin", json={"label": ""}, headers=own).status_code == 409  # let through: no table
    assert site.client.post("/api/pin", json={}, headers={**cookie, "Origin": site.home}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "",
        "http://evil.example",
        "http://evil.example:PORT",
        "https://127.0.0.1:PORT",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:PORT",
        "http://127.0.0.1:PORT/",
        "http://127.0.0.1:PORT, http://evil.example",
    ],
)
def test_whatever_changes_anything_has_to_come_from_here(site: Site, origin: str | None) -> None:
    headers = {"Origin": origin.replace("PORT", str(site.port))} if origin is not None else {}
    for address in [*POSTS, "/api/tables?name=a.csv", "/api/tasks/x/cancel", "/api/releases/x/count"]:
        answer = site.client.post(address, json={}, headers=headers)
        assert answer.status_code == 403, address
        assert answer.json()["error"]["kind"] == "forbidden"
    for address in ("/api/pin", "/api/tables/x"):
        assert site.client.request("DELETE", address, headers=headers).status_code == 403
    assert site.client.put("/api/state", headers=headers).status_code == 403
    assert site.client.options("/api/state", headers=headers).status_code == 403
    assert not site.server.should_exit


@pytest.mark.parametrize("said", ["cross-site", "same-site", "nonsense"])
def test_what_the_browser_says_is_of_another_site(site: Site, said: str) -> None:
    for address in ADDRESSES:
        assert site.get(address, headers={"Sec-Fetch-Site": said}).status_code == 403, address
    headers = {"Sec-Fetch-Site": said, "Origin": site.home}
    assert site.client.post("/api/quit", json={}, headers=headers).status_code == 403
    assert not site.server.should_exit


@pytest.mark.parametrize("said", ["none", "same-origin"])
def test_what_the_browser_says_is_of_this_site(site: Site, said: str) -> None:
    assert site.get("/api/state", headers={"Sec-Fetch-Site": said}).status_code == 200


def test_the_start_address_may_be_a_link_elsewhere(stranger: Site) -> None:
    answer = stranger.get(f"/?token={stranger.keys.token}", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200  # a redirect would go without the cookie
    assert 'content="0;url=/table"' in answer.text
    assert "set-cookie" in answer.headers
    assert stranger.keys.token not in answer.text
    assert stranger.get("/?token=x", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


WANTED = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def test_headers_of_every_answer(site: Site) -> None:
    answers = [
        site.get("/table"),
        site.get("/api/state"),
        site.get("/static/page.css"),
        site.get("/"),
        site.get(f"/?token={site.keys.token}"),
        site.get("/nothing"),
        site.get("/static/nothing.js"),
        site.get("/api/quit"),
        site.get("/api/counts"),
        site.get("/api/state", headers={"Host": "evil.example"}),
        site.client.post("/api/quit"),
        site.post("/api/roles", {"nonsense": 1}),
    ]
    assert [a.status_code for a in answers] == [200, 200, 200, 303, 303, 404, 404, 405, 409, 421, 403, 400]
    for answer in answers:
        for name, value in WANTED.items():
            assert answer.headers[name] == value
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "permissions-policy" in answer.headers
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_websockets_are_refused(site: Site) -> None:
    handshake = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    for address in ("/", "/api/state"):
        for origin in (site.home, "http://evil.example"):
            assert site.raw("GET", address, [*handshake, ("Origin", origin)])[0] == 403


@pytest.mark.parametrize(
    "address",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/%2e%2e%2f%2e%2e%2ferrors.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/.%00.css",
        "/static/",
        "/static",
        "/static/page.css/",
        "/static/./page.css",
        "/static/PAGE.CSS",
        "/releases/..%2f..%2fetc/report",
        "/releases/%2e%2e/report",
        "/releases/x%2freport",
        "/releases/x/../../table",
        "/api/../table",
        "/table/",
        "//table",
        "/static/page.css%00.js",
    ],
)
def test_paths_lead_nowhere_else(site: Site, address: str) -> None:
    assert site.raw("GET", "/static/page.css")[0] == 200
    status, text = site.raw("GET", address)
    assert status == 404
    assert "import annotations" not in text
    assert "root:" not in text


@pytest.mark.parametrize("identifier", ["x", "..", "%2e%2e", "..%2f..%2fetc", "%00", "a" * 5000, "';DROP%20TABLE%20x"])
def test_unknown_ids_are_all_alike(site: Site, identifier: str) -> None:
    for method, address, own in (
        ("GET", "/api/tasks/{}", False),
        ("GET", "/api/releases/{}/columns", False),
        ("POST", "/api/tasks/{}/cancel", True),
        ("POST", "/api/releases/{}/verify", True),
        ("DELETE", "/api/tables/{}", True),
    ):
        headers = [("Origin", site.home), ("Content-Type", "application/json"), ("Content-Length", "0")] if own else []
        status, text = site.raw(method, address.format(identifier), headers)
        assert (status, json.loads(text)["error"]["kind"]) == (404, "not-found")
        assert identifier not in text.replace("x", "") or identifier == "x"
    assert site.post("/api/table", {"id": identifier}).status_code == 404


def test_an_unexpected_error_tells_nothing_of_the_data(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ValueError("Jane Doe has HIV")

    monkeypatch.setattr(site.studio, "state", broken)
    answer = site.get("/api/state")
    assert answer.status_code == 500
    assert answer.json()["error"]["kind"] == "internal"
    page = site.get("/table")
    assert page.status_code == 500
    assert "probably a bug" in page.text
    told = capsys.readouterr()
    for text in (answer.text, page.text, told.err):
        assert "Jane" not in text
        assert "Traceback" not in text
        assert "ValueError" in text
    assert told.out == ""

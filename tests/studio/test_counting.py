"""Counts that take long: the server goes on, they keep to their time and memory, and end when nobody waits for them."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from dalenius.studio.state import StudioOptions
from dalenius.tables.killable import Allowance
from tests.query.releases import BOMB, LARGE, REPEATS, SLOW, write_long_texts
from tests.studio.site import LONGEST, Site, open_site, until

GROUPS = {"expression": "Disease = 'Flu'", "group_by": ["Gender"], "learn": False}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_long_texts(tmp_path_factory.mktemp("long") / "release").path


@pytest.fixture(scope="module")
def site(release: Path) -> Iterator[Site]:
    with open_site(StudioOptions(releases=(release,))) as opened:
        yield opened


def address(site: Site) -> str:
    return f"/api/releases/{site.state()['releases'][0]['id']}/count"


def exists(process: int) -> bool:
    with suppress(OSError):
        os.kill(process, 0)
        return True
    return False


def ask(site: Site, where: str) -> http.client.HTTPConnection:
    """Ask for something slow. Whoever closes the connection does not wait for the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=LONGEST)
    headers = {"Origin": site.home, "Content-Type": "application/json"}
    cookie = f"{site.keys.cookie_name}={site.keys.cookie}"
    connection.request("POST", where, json.dumps({"expression": SLOW}), {**headers, "Cookie": cookie})
    return connection


def processes(site: Site, number: int) -> tuple[int, ...]:
    """The processes at work, once there are so many."""
    found: tuple[int, ...] = until(lambda: site.studio.counting.processes, lambda found: len(found) == number)
    return found


@pytest.mark.parametrize("expression", [BOMB, REPEATS], ids=["text", "repeats"])
def test_what_could_not_be_stopped_is_refused(site: Site, expression: str) -> None:
    answer = site.post(address(site), {"expression": expression})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "query")


def test_a_slow_count_keeps_nobody_from_working_and_ends_with_its_page(site: Site) -> None:
    connection = ask(site, address(site))
    (process,) = processes(site, 1)
    assert site.state()["releases"]
    assert len(site.send(address(site), GROUPS)["answers"]) == 2  # another process answers
    assert exists(process)
    connection.close()
    until(lambda: exists(process), lambda alive: not alive)
    processes(site, 0)
    assert len(site.send(address(site), GROUPS)["answers"]) == 2


def test_what_waits_is_given_up_too(site: Site) -> None:
    where = address(site)
    connections = [ask(site, where) for _ in range(5)]
    processes(site, 2)
    for connection in connections:
        connection.close()
    processes(site, 0)
    assert site.send(where, {"expression": "Gender = 'F'"})["answers"][0]["bounds"] == [20, 20]


@pytest.mark.parametrize(
    ("allowance", "expression", "kind"),
    [(Allowance(1), SLOW, "timeout"), (Allowance(None, 300 * 2**20), LARGE, "memory")],
    ids=["time", "memory"],
)
def test_a_count_keeps_to_its_allowance(release: Path, allowance: Allowance, expression: str, kind: str) -> None:
    with open_site(StudioOptions(releases=(release,), allowance=allowance)) as site:
        answer = site.post(address(site), {"expression": expression})
        error: dict[str, Any] = answer.json()["error"]
        assert (answer.status_code, error["kind"]) == (400, kind), error
        assert site.studio.counting.processes == ()


def test_closing_waits_for_no_count(release: Path) -> None:
    with open_site(StudioOptions(releases=(release,))) as site:
        answers: list[httpx.Response] = []
        where = address(site)
        asking = threading.Thread(target=lambda: answers.append(site.post(where, {"expression": SLOW})))
        asking.start()
        (process,) = processes(site, 1)
        site.server.should_exit = True
        asking.join(LONGEST)
        assert answers[0].json()["error"]["kind"] == "abandoned"
    assert not exists(process)

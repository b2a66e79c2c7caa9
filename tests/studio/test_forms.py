"""Bodies of requests that are not what the contract says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.studio.site import Site, limits, open_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as found:
        yield found


def sent(site: Site, body: bytes, kind: str = "application/json") -> tuple[int, Any]:
    answer = site.client.post("/api/roles", content=body, headers={"Origin": site.home, "Content-Type": kind})
    return answer.status_code, answer.json()["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
def test_only_json_is_read_as_json(site: Site, kind: str) -> None:
    status, error = sent(site, b"{}", kind)
    assert (status, error["kind"]) == (415, "unsupported")


def test_a_parameter_of_the_type_does_not_matter(site: Site) -> None:
    status, error = sent(site, b"{}", "Application/JSON; charset=utf-8")
    assert (status, error["kind"]) == (409, "no-table")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"sensitive": 5}',
        b'{"sensitive": NaN}',
        b'{"sensitive": "\\ud800"}',
        b'{"sensitive": "x", "sensitive": 5}',
        b'{"unknown": 1}',
        b'{"quasi_identifiers": "Age"}',
        b'{"quasi_identifiers": [null]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"quasi_identifiers": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_is_no_form(site: Site, body: bytes) -> None:
    status, error = sent(site, body)
    assert (status, error["kind"]) in {(400, "request"), (409, "no-table")}
    assert (status == 409) == (body == b"")  # nothing at all is an empty form


def test_bodies_are_bounded(site: Site) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(9):
            yield b" " * 10**6

    status, error = sent(site, b" " * 9_000_000)
    assert (status, error["kind"]) == (413, "too-large")
    streamed = site.client.post(
        "/api/roles", content=parts(), headers={"Origin": site.home, "Content-Type": "application/json"}
    )
    assert streamed.status_code == 413


def test_limits_for_as_many_values_as_there_may_be_fit(site: Site) -> None:
    values = {f"a value with a name of some length {number}": "0.02" for number in range(100_000)}
    body = {"limits": limits(values=values), "exact": False, "sequence": 1, "draft": False}
    assert len(json.dumps(body)) < 8_000_000
    assert site.post("/api/explore", body).json()["error"]["kind"] == "no-table"


@pytest.mark.parametrize(
    "given",
    [
        {"limits": limits(theta=8)},
        {"limits": limits(values={"Flu": 0.02})},
        {"limits": limits(rule="nonsense")},
        {"limits": limits(), "solve": {"min_size": "2"}},
        {"limits": limits(), "solve": {"min_size": 0}},
        {"limits": limits(), "solve": {"max_size": 2.5}},
        {"limits": limits(), "protection": {"known_records": -1}},
        {"limits": limits(), "protection": {"known_records": True}},
        {"limits": limits(), "protection": {"strata": "some"}},
        {"limits": limits(), "protection": {"strata": 0}},
        {"limits": limits(), "protection": {"path": "/etc/passwd"}},
        {},
    ],
)
def test_what_are_no_limits(site: Site, given: dict[str, Any]) -> None:
    answer = site.post("/api/explore", given)
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "request"


@pytest.mark.parametrize(
    "given",
    [
        {"theta": "eight"},
        {"theta": "-1"},
        {"base": ""},
        {"rule": "uniform", "uniform": "1.5"},
        {"values": {"Flu": "0"}},
    ],
)
def test_numbers_that_are_none(site: Site, given: dict[str, Any]) -> None:
    before = site.state()["limits"]
    answer = site.post("/api/explore", {"limits": limits(**given)})
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "policy"
    assert site.state()["limits"] == before

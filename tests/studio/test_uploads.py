"""Files that are dragged in: bounded, private, read as what their names say, and gone when they should be."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from dalenius.studio.state import StudioOptions
from tests.studio.site import HTML_COLUMN, Site, done, one, open_site, people, until


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site(StudioOptions(upload_limit=200_000)) as found:
        yield found


def files(site: Site) -> list[Path]:
    """Whatever Studio keeps of uploads."""
    return sorted((site.studio.private.path / "uploads").iterdir())


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.parametrize("name", ["people.csv", "PEOPLE.TSV", "a.b.csv", "people.csv.gz", "people.parquet"])
def test_a_table_is_described(site: Site, name: str, tmp_path: Path) -> None:
    path, frame = tmp_path / name.lower(), people(50)
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in name.lower() else ",")
    identifier = done(site.upload(name, path.read_bytes())).json()["id"]
    table = site.table(identifier)
    assert (table["status"], table["error"], table["rows"]) == ("ready", None, 50)
    assert (table["name"], table["origin"]) == (name, "uploaded")
    assert [column["name"] for column in table["columns"]] == list(frame.columns)
    age = table["columns"][1]
    assert (age["distinct"], age["nulls"]) == (frame["Age"].nunique(), 0)
    assert {column["suggested"] for column in table["columns"]} <= {
        "sensitive",
        "quasi-identifier",
        "identifier",
        "left-out",
    }


def test_files_are_private_and_named_by_the_server(site: Site) -> None:
    before = files(site)
    done(site.upload("../../../etc/passwd.csv", b"a,b\n1,2\n"))
    (path,) = set(files(site)) - set(before)
    assert "passwd" not in path.name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, site.studio.private.path):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert site.state()["tables"][-1]["name"] == "passwd.csv"


@pytest.mark.parametrize(
    "name", ["", "a", "a.exe", "a.csv.exe", "a.gz", "a.parquet.gz", "a.html", "csv", "a.csv/", ".."]
)
def test_other_kinds_of_file_are_refused(site: Site, name: str) -> None:
    before = files(site)
    answer = site.upload(name, b"a,b\n1,2\n")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (415, "unsupported")
    assert files(site) == before


def test_only_plain_bytes_are_an_upload(site: Site) -> None:
    for kind in ("multipart/form-data", "application/json", "text/plain"):
        assert site.upload("a.csv", b"a\n1\n", **{"Content-Type": kind}).status_code == 415


def test_a_file_that_says_it_is_too_large(site: Site) -> None:
    before = files(site)
    answer = site.upload("a.csv", b"a" * 200_001)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "too-large")
    assert files(site) == before
    done(site.upload("a.csv", b"a\n" * 100_000))


def test_a_file_that_turns_out_too_large(site: Site) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(21):
            yield b"a\n" * 5_000

    before = files(site)
    answer = site.upload("a.csv", parts())
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "too-large")
    assert files(site) == before


def test_an_empty_file(site: Site) -> None:
    before = files(site)
    assert site.upload("a.csv", b"").status_code == 400
    assert files(site) == before


def test_a_disk_without_room(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        total: int
        used: int
        free: int

    before = files(site)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(10**9, 10**9, 10**5))
    answer = site.upload("a.csv", b"a\n1\n")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "no-room")
    assert files(site) == before


def test_an_upload_that_breaks_off_leaves_nothing(site: Site) -> None:
    before = files(site)
    head = (
        f"POST /api/tables?name=a.csv HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nOrigin: {site.home}\r\n"
        f"Cookie: {site.keys.cookie_name}={site.keys.cookie}\r\nContent-Type: application/octet-stream\r\n"
        "Content-Length: 100000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        connection.sendall(head.encode() + b"a\n" * 1000)
        until(lambda: files(site), lambda found: len(found) == len(before) + 1)
        # while it is going on there is no other
        answer = site.upload("b.csv", b"a\n1\n")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "busy")
    until(lambda: files(site), lambda found: found == before)
    done(site.upload("c.csv", b"a\n1\n"))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_what_cannot_be_read_says_so(site: Site, name: str) -> None:
    identifier = done(site.upload(name, b'"\xff\xfe' + b"\0" * 100)).json()["id"]
    table = site.table(identifier)
    assert table["status"] == "failed"
    assert table["error"]["kind"] == "input"
    site.send("/api/table", {"id": identifier})
    answer = site.post("/api/roles", {"sensitive": "a"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "not-ready")


def test_what_is_no_database_is_not_kept(site: Site) -> None:
    before = files(site)
    answer = site.upload("a.duckdb", b"SQLite format 3" + b"\0" * 5000)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "input")
    assert files(site) == before


def test_every_table_of_a_database_is_one(tmp_path: Path) -> None:
    path = database(
        tmp_path / "two.duckdb",
        "CREATE TABLE visits AS SELECT 1 AS a, 2 AS b",
        "CREATE TABLE people AS SELECT 'x' AS c FROM range(7)",
    )
    with open_site(StudioOptions()) as site:
        answer = done(site.upload("two.duckdb", path.read_bytes())).json()
        tables = [site.table(identifier) for identifier in answer["ids"]]
        assert [(table["name"], table["rows"]) for table in tables] == [
            ("two.duckdb: people", 7),
            ("two.duckdb: visits", 1),
        ]
        (kept,) = {path for path in files(site) if path.suffix == ".duckdb"}
        done(site.remove(f"/api/tables/{tables[0]['id']}"))
        assert kept.exists()  # the other table is in it
        done(site.remove(f"/api/tables/{tables[1]['id']}"))
        assert not kept.exists()


def test_views_of_an_uploaded_database_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\n")
    reads = f"AS FROM read_csv('{secret}')"
    path = database(
        tmp_path / "sly.duckdb",
        f"CREATE VIEW reads {reads}",
        "CREATE TABLE honest AS SELECT 1 AS a",
        "CREATE SCHEMA s",
        f"CREATE VIEW s.double {reads}",
        'CREATE TABLE "s.double" AS SELECT 1 AS a',  # named like the view, as Studio would call it
    )
    with open_site() as site:
        answer = done(site.upload("sly.duckdb", path.read_bytes())).json()
        tables = [site.table(identifier) for identifier in answer["ids"]]
        assert [table["name"] for table in tables] == ["sly.duckdb"]
        assert [column["name"] for column in tables[0]["columns"]] == ["a"]
        only = database(tmp_path / "only.duckdb", f"CREATE VIEW reads {reads}")
        answer = site.upload("only.duckdb", only.read_bytes())
        assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "input")


def test_a_table_is_removed_with_what_is_known_of_it(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    people(50).to_parquet(path)
    before = files(site)
    identifier = site.begin(path, sensitive="Disease", quasi_identifiers=["Age"])
    assert site.state()["table"] == identifier
    done(site.remove(f"/api/tables/{identifier}"))
    assert files(site) == before
    state = site.state()
    assert (state["table"], state["counted"]) == (None, None)
    assert identifier not in [table["id"] for table in state["tables"]]
    assert site.get("/api/counts").json()["error"]["kind"] == "no-table"
    assert site.remove(f"/api/tables/{identifier}").status_code == 404


def test_a_table_that_was_given_stays(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people(20).to_csv(path, index=False)
    with open_site(StudioOptions(table=path)) as site:
        (table,) = site.state()["tables"]
        assert site.table(table["id"])["status"] == "ready"
        assert site.state()["table"] == table["id"]
        assert (table["origin"], table["name"]) == ("given", "people.csv")
        assert site.remove(f"/api/tables/{table['id']}").status_code == 404
    assert path.exists()


def test_nothing_is_left_at_the_end(tmp_path: Path) -> None:
    with open_site() as site:
        done(site.upload("a.csv", b"a\n1\n"))
        folder = site.studio.private.path
        assert files(site)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>.csv", "a\r\nSet-Cookie: x=y.csv", "\u202egnp.csv"])
def test_odd_names_are_only_shown(site: Site, name: str) -> None:
    identifier = done(site.upload(name, f'"{HTML_COLUMN}"\n1\n'.encode())).json()["id"]
    site.table(identifier)
    shown: str = one(site.state()["tables"], identifier)["name"]
    assert shown.isprintable()
    for address in ("/api/state", "/table", "/limits"):
        answer = done(site.get(address))
        assert "<img src=x" not in answer.text
        assert HTML_COLUMN not in answer.text
        assert "set-cookie" not in answer.headers


def test_whose_folder_it_is(site: Site) -> None:
    owner: Any = site.studio.private.path.stat().st_uid
    assert owner == os.getuid()

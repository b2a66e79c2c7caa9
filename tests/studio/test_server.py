"""The command itself: what it prints, where it listens, how it ends, and that nothing of it is left."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dalenius.cli.main import main
from tests.effort import cases
from tests.query.releases import SLOW, write_long_texts
from tests.studio.site import HTML_VALUE, LONGEST, ROLES, done, people, until

COMMAND = [sys.executable, "-c", "from dalenius.cli.main import entry; entry()", "studio"]


class Running:
    """A running `dalenius studio`, and a browser that opened its address."""

    def __init__(self, process: subprocess.Popen[str], client: httpx.Client, url: str) -> None:
        self.process, self.client, self.url = process, client, url

    def post(self, path: str, body: Any = None) -> Any:
        origin = {"Origin": str(self.client.base_url).rstrip("/")}
        return done(self.client.post(path, json=body or {}, headers=origin)).json()

    def upload(self, path: Path) -> str:
        headers = {"Origin": str(self.client.base_url).rstrip("/"), "Content-Type": "application/octet-stream"}
        answer = self.client.post("/api/tables", params={"name": path.name}, content=path.read_bytes(), headers=headers)
        return str(done(answer).json()["id"])

    def state(self) -> Any:
        return done(self.client.get("/api/state")).json()

    def end(self, how: signal.Signals | None = None) -> tuple[int, str, str]:
        """The exit code and what it printed since its start."""
        if how is not None:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, out, err


@contextmanager
def studio(temporary: Path, *words: str) -> Iterator[Running]:
    """The command, with a folder of its own for temporary files."""
    temporary.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*COMMAND, "--no-browser", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = json.loads(line)["url"] if line.startswith("{") else line.strip()
        home = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=[\w-]{43}", url)
        assert home is not None, (line, process.communicate())
        with httpx.Client(base_url=home[1], timeout=LONGEST, trust_env=False) as client:
            assert client.get(url).status_code == 303
            yield Running(process, client, url)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def left(temporary: Path) -> list[str]:
    return sorted(path.name for path in temporary.iterdir())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, None])
def test_it_ends_in_good_order(tmp_path: Path, table: Path, how: signal.Signals | None) -> None:
    with studio(tmp_path / "t") as running:
        running.upload(table)
        (folder,) = left(tmp_path / "t")
        assert folder.startswith("dalenius-studio-")
        if how is None:
            assert running.post("/api/quit") == {"ok": True}
        code, out, err = running.end(how)
    assert (code, out) == (0, "")
    assert err == "Studio is running; Ctrl-C ends it.\nStudio: stopped; all temporary files were removed.\n"
    assert left(tmp_path / "t") == []


def test_what_a_kill_leaves_is_removed_by_the_next_start(tmp_path: Path, table: Path) -> None:
    with studio(tmp_path / "t") as killed:
        killed.upload(table)
        killed.end(signal.SIGKILL)
    (behind,) = left(tmp_path / "t")
    with studio(tmp_path / "t") as first, studio(tmp_path / "t") as second:
        assert behind not in left(tmp_path / "t")
        assert len(left(tmp_path / "t")) == 2  # and what is in use stays
        first.upload(table)
        second.end(signal.SIGTERM)
        assert len(left(tmp_path / "t")) == 1
        first.end(signal.SIGTERM)
    assert left(tmp_path / "t") == []


def test_what_a_kill_leaves_beside_releases_is_removed_by_the_next_start(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with _publishing_for_long(tmp_path, "never") as killed:
        killed.end(signal.SIGKILL)
    (behind,) = left(out)
    assert behind.startswith(".never.staging-")
    mine = [".lock", ".notes.staging-of-mine", ".notes.staging-0123456789abcdef", "march.staging-0123456789abcdef"]
    for name in mine:
        (out / name).mkdir()
    busy = out / ".busy.staging-0123456789abcdef"
    busy.mkdir()
    (out / ".link.staging-0123456789abcdef").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".lock").touch()
    kept = sorted([*mine, busy.name, ".link.staging-0123456789abcdef"])
    with (busy / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody is publishing there
        with studio(tmp_path / "t", "--out", str(out)) as running:
            assert left(out) == kept
            assert running.end(signal.SIGTERM)[0] == 0
    assert left(out) == kept
    assert left(tmp_path / "elsewhere") == [".lock"]


def test_temporary_files_that_cannot_be_removed_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    code = "import shutil; shutil.rmtree = lambda *_, **__: None; from dalenius.cli.main import entry; entry()"
    command = subprocess.Popen(
        [sys.executable, "-c", code, "studio", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "t")},
    )
    assert command.stdout is not None
    assert command.stdout.readline().startswith("http://")
    command.terminate()
    _, err = command.communicate(timeout=LONGEST)
    assert command.returncode == 0
    assert err.splitlines()[-1] == "Studio: stopped; some temporary files could not be removed."
    assert len(left(tmp_path / "t")) == 1


def test_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    with studio(tmp_path / "t", "--json") as running:
        port = running.client.base_url.port
        assert port is not None
        entries = [line.split() for line in Path(f"/proc/{running.process.pid}/net/tcp").read_text().splitlines()[1:]]
        addresses = {entry[1] for entry in entries if entry[3] == "0A" and entry[1].endswith(f":{port:04X}")}
        assert addresses == {f"0100007F:{port:04X}"}  # 127.0.0.1
        six = Path(f"/proc/{running.process.pid}/net/tcp6").read_text()
        assert f":{port:04X} " not in six
        with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=2):  # noqa: PT011
            pass


def test_the_token_is_told_once(tmp_path: Path, table: Path) -> None:
    with studio(tmp_path / "t", str(table)) as running:
        token = running.url.partition("token=")[2]
        for address in (running.url, "/?token=wrong", "/nothing", "/table"):
            running.client.get(address)
        code, out, err = running.end(signal.SIGTERM)
    assert code == 0
    assert token not in out + err


def test_json(tmp_path: Path) -> None:
    command = subprocess.Popen(
        [*COMMAND, "--json", "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert command.stdout is not None
    found = json.loads(command.stdout.readline())
    assert list(found) == ["format", "url", "port"]
    assert found["format"] == 1
    assert f"http://127.0.0.1:{found['port']}/?token=" in found["url"]
    command.terminate()
    assert command.wait(LONGEST) == 0
    command.communicate()


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        words = ["studio", "--json", "--no-browser", "--port", str(other.getsockname()[1])]
        found = CliRunner().invoke(main, words)
    assert found.exit_code == 2
    assert json.loads(found.stdout)["error"]["kind"] == "usage"


@pytest.mark.parametrize(
    "words",
    [
        ["nothing.csv"],
        ["--table", "visits"],
        ["--release", "nothing"],
        ["--job", "nothing.toml"],
        ["--out", "people.csv"],
        ["--upload-limit", "much"],
        ["--upload-limit", "0"],
        ["--port", "70000"],
        ["--host", "0.0.0.0"],  # noqa: S104 (there is no such option)
    ],
)
def test_what_it_cannot_be_started_with(
    tmp_path: Path, table: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, ["studio", "--json", "--no-browser", *words])
    assert found.exit_code == 2, found.output
    assert "error" in json.loads(found.stdout)
    assert left(tmp_path / "t") == []


def test_releases_are_kept_where_they_are_asked_for(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "releases"
    with studio(tmp_path / "t", str(table), "--out", str(out)) as running:
        until(running.state, lambda state: state["tables"][0]["status"] == "ready")
        assert running.state()["saves_to"] is True
        running.post("/api/roles", ROLES)
        until(running.state, lambda state: (state["counted"] or {}).get("status") == "ready")
        running.post("/api/explore", {"limits": {"rule": "uniform", "uniform": "0.5", "values": {HTML_VALUE: "0.4"}}})
        task = running.post("/api/publish", {"name": "march", "format": "csv"})["task"]
        ended = until(
            lambda: running.client.get(f"/api/tasks/{task}").json(), lambda found: found["status"] != "running"
        )
        assert ended["status"] == "done", ended
        assert running.state()["releases"][0]["saved"] is True
        running.end(signal.SIGTERM)
    assert left(out) == ["march"]
    assert left(out / "march") == ["manifest.json", "qit.csv", "st.csv"]
    assert left(tmp_path / "t") == []
    with studio(tmp_path / "t", "--release", str(out / "march")) as running:
        (release,) = running.state()["releases"]
        assert (release["name"], release["saved"], release["with_truth"]) == ("march", True, False)


@contextmanager
def _publishing_for_long(folder: Path, name: str) -> Iterator[Running]:
    """A Studio that solves for a minute, in the middle of publishing."""
    rng = np.random.default_rng(2)
    values = [f"disease {number}" for number in np.minimum(rng.zipf(1.3, 60_000), 300)]
    pd.DataFrame({"Disease": values, "Age": rng.integers(0, 90, 60_000)}).to_parquet(folder / "many.parquet")
    words = [str(folder / "many.parquet"), "--out", str(folder / "out")]
    with studio(folder / "t", *words) as running:
        until(running.state, lambda state: state["tables"][0]["status"] == "ready")
        running.post("/api/roles", {"sensitive": "Disease", "quasi_identifiers": ["Age"]})
        until(running.state, lambda state: (state["counted"] or {}).get("status") == "ready")
        protection = {"known_records": 2, "fake_values": 1}
        proven, hard = {"solve": {"gap": 0}}, {"rule": "theta", "theta": "3", "base": "0.011"}
        running.post("/api/explore", {"limits": hard, "protection": protection, **proven})
        task = running.post("/api/publish", {"name": name})["task"]
        until(lambda: running.client.get(f"/api/tasks/{task}").json(), lambda found: found["stage"] == "Solving")
        yield running


def test_it_does_not_wait_for_a_solver(tmp_path: Path) -> None:
    with _publishing_for_long(tmp_path, "never") as running:
        code, _, err = running.end(signal.SIGTERM)
    assert code == 0
    assert err.endswith("all temporary files were removed.\n")
    assert left(tmp_path / "t") == []
    assert left(tmp_path / "out") == []


def _counting_for_long(running: Running) -> int:
    """The process that counts something slow, for which nobody waits."""
    (release,) = running.state()["releases"]
    words = {"json": {"expression": SLOW}, "headers": {"Origin": str(running.client.base_url).rstrip("/")}}
    address = f"/api/releases/{release['id']}/count"
    threading.Thread(target=suppressed, args=(running.client.post, address), kwargs=words).start()
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
    return int(until(lambda: children.read_text().split(), lambda found: len(found) == 1)[0])


def suppressed(call: Callable[..., Any], *words: Any, **named: Any) -> None:
    with suppress(httpx.HTTPError):
        call(*words, **named)


@pytest.mark.parametrize("how", cases(signal.SIGTERM, signal.SIGKILL, signal.SIGINT, None, usually=2))
def test_no_count_keeps_it_from_ending(tmp_path: Path, table: Path, how: signal.Signals | None) -> None:
    release = write_long_texts(tmp_path / "release").path
    with studio(tmp_path / "t", "--release", str(release)) as running:
        running.upload(table)
        child = _counting_for_long(running)
        if how is None:
            running.post("/api/quit")
        code, _, err = running.end(how)
        until(lambda: Path(f"/proc/{child}").exists(), lambda alive: not alive)
    assert "Traceback" not in err
    if how is not signal.SIGKILL:
        assert code == 0
        assert err.endswith("all temporary files were removed.\n")
    else:
        (behind,) = (tmp_path / "t").iterdir()
        assert list((behind / "uploads").iterdir())
        with studio(tmp_path / "t") as running:
            assert not behind.exists()
            running.end(signal.SIGTERM)
    assert left(tmp_path / "t") == []


def test_without_the_libraries_for_it() -> None:
    code = "import sys; sys.modules['starlette'] = None; from dalenius.cli.main import entry; entry()"
    found = subprocess.run(
        [sys.executable, "-c", code, "studio", "--json"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    error = json.loads(found.stdout)["error"]
    assert (error["kind"], error["message"]) == ("missing-extra", "Starlette is not installed")


def test_a_browser_that_goes_away_does_not_end_it(tmp_path: Path, table: Path) -> None:
    with studio(tmp_path / "t", str(table)) as running:
        port, cookie = running.client.base_url.port, next(iter(running.client.cookies.jar))
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                head = (
                    f"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie.name}={cookie.value}\r\n\r\n"
                )
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.sendall(head.encode() * 50)
        assert running.state()["tables"]
        assert running.end(signal.SIGTERM)[0] == 0

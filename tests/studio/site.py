"""A Studio to ask, on a port of this machine, and tables to give it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import uvicorn
from httpx import Response

from dalenius.studio.guard import Keys
from dalenius.studio.serve import listening, server_of
from dalenius.studio.state import Studio, StudioOptions
from dalenius.tables.killable import PrivateFolder

LONGEST = 60.0  # seconds that a test waits for anything


class Site:
    """A browser that may ask: it has the cookie, and says where it comes from."""

    def __init__(self, client: httpx.Client, studio: Studio, keys: Keys, server: uvicorn.Server, port: int) -> None:
        self.client, self.studio, self.keys, self.server = client, studio, keys, server
        self.port, self.home = port, f"http://127.0.0.1:{port}"
        self.heard: list[bytes] = []  # every answer
        client.event_hooks["response"].append(lambda answer: self.heard.append(answer.read()))

    def get(self, path: str, **extra: Any) -> Response:
        return self.client.get(path, **extra)

    def ask(self, path: str) -> Any:
        return done(self.get(path)).json()

    def post(self, path: str, body: Any = None, **extra: Any) -> Response:
        return self.client.post(path, json={} if body is None else body, headers={"Origin": self.home}, **extra)

    def send(self, path: str, body: Any = None) -> Any:
        return done(self.post(path, body)).json()

    def remove(self, path: str) -> Response:
        headers = {"Origin": self.home, "Content-Type": "application/json"}
        return self.client.request("DELETE", path, headers=headers)

    def upload(self, name: str, content: Any, **headers: str) -> Response:
        given = {"Origin": self.home, "Content-Type": "application/octet-stream", **headers}
        return self.client.post("/api/tables", params={"name": name}, content=content, headers=given)

    def state(self) -> Any:
        return self.ask("/api/state")

    def table(self, identifier: str) -> Any:
        """The table, when it is no longer being read."""
        return until(lambda: one(self.state()["tables"], identifier), lambda table: table["status"] != "reading")

    def counted(self) -> Any:
        """The sensitive column, when it is no longer being counted."""
        return until(lambda: self.state()["counted"], lambda found: found is not None and found["status"] != "counting")

    def task(self, identifier: str) -> Any:
        """The task, when it is over."""
        return until(lambda: self.ask(f"/api/tasks/{identifier}"), lambda task: task["status"] != "running")

    def work(self, path: str, body: Any = None) -> Any:
        """The result of a task that is to succeed."""
        task = self.task(self.send(path, body)["task"])
        assert task["status"] == "done", task["error"]
        return task["result"]

    def begin(self, path: Path, **roles: Any) -> str:
        """Upload a table, choose it, set roles, and wait for the counts."""
        identifier: str = done(self.upload(path.name, path.read_bytes())).json()["id"]
        assert self.table(identifier)["status"] == "ready"
        self.send("/api/table", {"id": identifier})
        self.send("/api/roles", {"identifiers": [], "null_value": None, **roles})
        assert self.counted()["status"] == "ready"
        return identifier

    def raw(self, method: str, target: str, headers: Sequence[tuple[str, str]] = ()) -> tuple[int, str]:
        """A request whose target and headers are sent as they are, with the cookie; the status and the text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST)
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        own = [("Host", f"127.0.0.1:{self.port}")] if not any(name == "Host" for name, _ in headers) else []
        for name, value in (*own, ("Cookie", f"{self.keys.cookie_name}={self.keys.cookie}"), *headers):
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer.status, text


@contextmanager
def open_site(options: StudioOptions | None = None, *, cookie: bool = True) -> Iterator[Site]:
    """A Studio from its start to its end, in a thread of this process."""
    with listening(0) as listener:
        port = int(listener.getsockname()[1])
        studio, keys = Studio(options or StudioOptions(), PrivateFolder("studio-")), Keys(port)
        server = server_of(studio, keys, port)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST, trust_env=False) as client:
                if cookie:
                    assert client.get("/", params={"token": keys.token}).status_code == 303
                yield Site(client, studio, keys, server, port)
        finally:
            server.should_exit = True
            thread.join()
            studio.close()


def done(response: Response) -> Response:
    assert response.status_code < 300, response.text
    return response


def one(entries: Sequence[Any], identifier: str) -> Any:
    return next(entry for entry in entries if entry["id"] == identifier)


def until(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    """Look until it is enough."""
    deadline = time.monotonic() + LONGEST
    while not enough(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def limits(**given: Any) -> dict[str, Any]:
    """Limits as the page sends them."""
    rule = {"rule": "theta", "theta": "8", "base": "0.02", "uniform": "0.2", "l_diversity": "5", "beta": "3"}
    return {**rule, "values": {}, **given}


def people(rows: int = 400, seed: int = 1) -> pd.DataFrame:
    """A table about people whose names and values would like to be HTML."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "Name": [f"person {number}" for number in range(rows)],
            "Age": rng.integers(20, 30, rows),
            "<script>alert(1)</script>": rng.choice(["a", "b", "c"], rows),
            'Zip "code" & more': [f"0{code}" for code in rng.integers(1000, 1004, rows)],
            "Disease": rng.choice(["Flu", "</script><img src=x onerror=alert(2)>", "Cold", "Gout"], rows),
        }
    )


def visits(patients: int = 500, seed: int = 2) -> pd.DataFrame:
    """A table of hospital visits: a patient has one to three rows, with two diagnoses and a medicine in each."""
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 2, 3], patients, p=[0.6, 0.25, 0.15])
    patient = np.repeat(np.arange(patients), rows)
    total = len(patient)
    frame = pd.DataFrame(
        {
            "encounter_id": [f"E{number:05d}" for number in range(total)],
            "patient_nbr": [f"P{number * 7919 % 100_003:06d}" for number in patient],
            "age": rng.integers(3, 8, patients)[patient] * 10,
            "gender": rng.choice(["Female", "Male"], patients)[patient],
            "diag_1": rng.choice([f"D{number:02d}" for number in range(24)], total),
            "diag_2": rng.choice([f"D{number:02d}" for number in range(24)], total),
            "insulin": rng.choice(["No", "Steady", "Up", "Down"], total, p=[0.4, 0.3, 0.15, 0.15]),
        }
    )
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


HTML_COLUMN = "<script>alert(1)</script>"
HTML_VALUE = "</script><img src=x onerror=alert(2)>"
ROLES: dict[str, Any] = {
    "sensitive": "Disease",
    "quasi_identifiers": ["Age", HTML_COLUMN, 'Zip "code" & more'],
    "identifiers": ["Name"],
    "null_value": None,
}

"""Work that is cancelled, at whatever point, leaves nothing behind and touches nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.attack.audit import audit
from dalenius.errors import CancelledError
from dalenius.policy.roles import Roles
from dalenius.publishing.flow import price_strata
from dalenius.publishing.options import PublishOptions, PublishRequest
from dalenius.verify.judge import verify


class StopAt:
    """Cancels when it is told something for the n-th time, and remembers the stages that began."""

    def __init__(self, number: int | None = None) -> None:
        self._number = number
        self.log: list[str | None] = []  # the stage that began, or None

    @property
    def told(self) -> int:
        return len(self.log)

    def _count(self, stage: str | None = None) -> None:
        self.log.append(stage)
        if self.told == self._number:
            raise CancelledError

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        self._count(name)

    def advance(self, number: int) -> None:
        self._count()

    def tell(self, sentence: str) -> None:
        self._count()


def table(rows: int = 3000, seed: int = 0) -> pa.Table:
    """The sensitive value goes with the first quasi-identifier, so that there are strata."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 4, rows)
    return pa.table(
        {
            "place": pa.array(place),
            "age": pa.array(rng.integers(20, 90, rows)),
            "s": pa.array((place * 2 + rng.integers(0, 5, rows)) % 9),
        }
    )


WAYS: dict[str, dict[str, Any]] = {
    "one stratum": {"strata": "none"},
    "strata": {"strata": ["place"]},
    "fakes": {"strata": "none", "fake_values": 1, "avoid_ruled_out": True},
    "from text": {"strata": "auto", "source": "csv"},
}


def publish(source: Any, out: Path, progress: StopAt | None, **options: Any) -> dalenius.Release:
    return dalenius.publish(
        source,
        {"uniform": "1/2"},
        sensitive="s",
        quasi_identifiers=["place", "age"],
        out=out,
        progress=progress,
        force=True,
        **options,
    )


@pytest.mark.parametrize("way", WAYS)
def test_cancelled_publishing_leaves_what_was_there(way: str, tmp_path: Path) -> None:
    options = {**WAYS[way], "seed": 25}  # how often fakes are exchanged is chance: twice with this seed
    source: Any = table()
    if options.pop("source", None) == "csv":
        source = tmp_path / "table.csv"
        table().to_pandas().to_csv(source, index=False)
    out = tmp_path / "out" / "release"
    old = publish(table(200), out, None).manifest
    watching = StopAt()
    publish(source, tmp_path / "watched", watching, **options)
    assert {"Counting", "Solving", "Placing", "Writing", "Verifying", "Publishing"} <= set(watching.log)
    files = sorted(path.name for path in tmp_path.iterdir())
    threads = threading.active_count()
    for number in range(1, watching.told + 1):
        with pytest.raises(CancelledError) as raised:
            publish(source, out, StopAt(number), **options)
        assert raised.value.kind == "cancelled"
        assert [path.name for path in out.parent.iterdir()] == ["release"], number
        assert sorted(path.name for path in tmp_path.iterdir()) == files
        assert threading.active_count() == threads
    assert dalenius.load(out).manifest == old
    assert dalenius.load(out).verify(against=table(200)).verified


def test_cancelled_publishing_leaves_no_folder_that_was_not_there(tmp_path: Path) -> None:
    with pytest.raises(CancelledError):
        publish(table(), tmp_path / "a" / "b" / "release", StopAt(3), strata="none")
    assert list(tmp_path.iterdir()) == []


def test_cancelled_publishing_without_a_folder_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for number in range(1, 12):
        with pytest.raises(CancelledError):
            dalenius.publish(
                table(), {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["age"], progress=StopAt(number)
            )
        assert list(tmp_path.iterdir()) == []


def test_a_cancelled_price_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    roles = Roles("s", ("place", "age"))

    def priced(progress: StopAt) -> int:
        options = PublishOptions(strata=["place"])
        request = PublishRequest(table=table(), roles=roles, limits={"uniform": "1/2"}, options=options)
        return price_strata(request, progress).strata

    watching = StopAt()
    assert priced(watching) == 4
    threads = threading.active_count()
    for number in range(1, watching.told + 1):
        with pytest.raises(CancelledError):
            priced(StopAt(number))
        assert threading.active_count() == threads
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_verification_and_audit_leave_nothing(tmp_path: Path) -> None:
    released = publish(table(), tmp_path / "release", None, strata="none")
    threads = threading.active_count()

    for number in (1, 2):
        with pytest.raises(CancelledError):
            verify(released.path, against=table(), progress=StopAt(number))
    watching = StopAt()
    audit(released.path, truth=table(), progress=watching)
    firsts = [k + 1 for k, name in enumerate(watching.log) if name is not None]
    for number in {*firsts, watching.told}:
        with pytest.raises(CancelledError):
            audit(released.path, truth=table(), progress=StopAt(number))
    assert threading.active_count() == threads
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    assert dalenius.load(released.path).verify(against=table()).verified


def test_from_another_thread(tmp_path: Path) -> None:
    """As Studio does it: the work is in a thread, and the wish to stop comes from elsewhere."""
    begun, stop = threading.Event(), threading.Event()

    class Watched(StopAt):
        def _count(self, stage: str | None = None) -> None:
            begun.set()
            assert stop.wait(60)
            raise CancelledError

    ended: list[BaseException] = []

    def work() -> None:
        try:
            publish(table(), tmp_path / "release", Watched())
        except CancelledError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(ended) == 1
    assert list(tmp_path.iterdir()) == []

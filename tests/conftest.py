"""Habits of the whole suite: how hard generated tests try, nothing is skipped in CI, and who runs which file when."""

from __future__ import annotations

import gc
import os
import signal
import time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded: its threads would wait by spinning

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.clocks import Clock
from tests.effort import load_profile

load_profile()

for number in (signal.SIGINT, signal.SIGHUP):  # ignored by what runs in the background, and by all that it starts
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# Files that share what is expensive to start run in one process: a session of Spark, a cluster, a browser.
GROUPS = {
    "tests/spark/test_cluster.py": "cluster",
    "tests/spark/test_connect.py": "cluster",
    "tests/spark/": "spark",
    "tests/browser/": "browser",
}
# Which of these take long, in seconds or so. All others are taken to be short.
SECONDS = {
    "spark": 300,
    "cluster": 200,
    "browser": 150,
    "tests/publishing/test_publishing.py": 30,
    "tests/studio/test_server.py": 30,
    "tests/report/test_publication.py": 25,
    "tests/publishing/test_strata.py": 25,
    "tests/fakes/test_quotas.py": 20,
    "tests/property/test_tampering.py": 20,
    "tests/publishing/test_faults.py": 20,
    "tests/publishing/test_protection.py": 20,
    "tests/publishing/test_chain_columns.py": 10,
    "tests/publishing/test_chain_faults.py": 20,
    "tests/publishing/test_chain_flow.py": 20,
    "tests/publishing/test_chain_worlds.py": 20,
    "tests/report/test_twin.py": 20,
    "tests/fakes/test_marks.py": 10,
    "tests/paper/test_run.py": 10,
    "tests/query/test_semantics.py": 10,
    "tests/report/test_honesty.py": 10,
    "tests/studio/test_changed.py": 10,
    "tests/studio/test_exploring.py": 10,
    "tests/studio/test_walk.py": 10,
    "tests/tables/test_text_pieces.py": 10,
    "tests/verify/test_adversary.py": 10,
    "tests/verify/test_tampering.py": 10,
}


class Longest(LoadScopeScheduling):  # type: ignore[misc]
    """Files go to whichever process is free, so that fixtures of a module are made once; the longest go first."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for start, group in GROUPS.items() if nodeid.startswith(start)), nodeid.split("::")[0])

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._seconds), last=False)
        super()._assign_work_unit(node)

    def _seconds(self, scope: str) -> float:
        return SECONDS.get(scope, len(self.workqueue[scope]) / 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still until the test says how fast it goes."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Longest:
    """How tests are spread over processes. (The mark `xdist_group` does nothing with some versions of pytest.)"""
    return Longest(config, log)


def pytest_collection_finish() -> None:
    """What is there by now stays: no garbage is looked for among it."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end everything is garbage: libraries would complain about objects that nobody freed."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A skipped test is a failed one in CI: there, everything that tests need is installed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report

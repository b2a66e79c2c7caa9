"""Habits of the whole suite: generated tests are not timed, in CI nothing may be skipped, and one JVM is enough."""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

hypothesis.settings.register_profile("dalenius", deadline=None, max_examples=100)
hypothesis.settings.load_profile("dalenius")

SPARK = ("tests/spark/", "tests/verify/test_parquet_mr.py")  # tests that start Java


class OneJava(LoadScopeScheduling):  # type: ignore[misc]
    """Tests go to whichever process is free, but those that start Java to one and the same, and first."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneJava:
    """How tests are spread over processes. (The mark `xdist_group` does nothing with some versions of pytest.)"""
    return OneJava(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A skipped test is a failed one in CI: there, everything that tests need is installed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report

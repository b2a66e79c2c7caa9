"""Habits of the whole suite: generated tests are not timed, and in CI nothing may be skipped."""

from __future__ import annotations

import os

import hypothesis
import pytest

hypothesis.settings.register_profile("dalenius", deadline=None, max_examples=100)
hypothesis.settings.load_profile("dalenius")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A skipped test is a failed one in CI: there, everything that tests need is installed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report

"""Reports for tests of what they say, and not of how well counts are answered."""

from __future__ import annotations

from functools import partial

import pytest

from dalenius.query.workload import evaluate


@pytest.fixture(autouse=True)
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred count queries in place of five thousand."""
    monkeypatch.setattr("dalenius.report.facts.evaluate", partial(evaluate, queries=100))

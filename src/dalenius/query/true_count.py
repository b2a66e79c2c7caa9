"""True counts beside estimates, for those who hold the table that a release was made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dalenius.engines.counting import both, same_group
from dalenius.engines.true_counting import true_counts
from dalenius.errors import InputError
from dalenius.model.estimate import GroupEstimate
from dalenius.query.count import MOST_GROUPS, Counter


def true_count(counter: Counter, source: Any, expression: str, *, table: str | None = None) -> int:
    """How many records of the table meet the condition that `Counter.count` estimates."""
    return _counts(counter, source, expression, (), table).get((), 0)


def true_counts_of(
    counter: Counter, source: Any, expression: str, answers: Sequence[GroupEstimate], *, table: str | None = None
) -> list[int]:
    """The same for each group that `Counter.count_by` answered with, in its order."""
    if not answers:
        return []
    by = tuple(answers[0].group)
    counts = _counts(counter, source, expression, by, table)
    return [counts.get(same_group(answer.group[name] for name in by), 0) for answer in answers]


def _counts(
    counter: Counter, source: Any, expression: str, by: Sequence[str], table: str | None
) -> dict[tuple[Any, ...], int]:
    conditions = counter.tables.conditions(expression)
    columns = frozenset[str]().union(*(condition.columns for condition in conditions))
    sql = both(*(condition.sql for condition in conditions))
    null_value = counter.manifest.null_value
    found = true_counts(counter.tables, source, table, sql, columns, by, null_value, MOST_GROUPS)
    if found.total != counter.manifest.rows:
        raise InputError(
            f"the table has {found.total:,} rows and the release {counter.manifest.rows:,}",
            "Give the table that the release was made from.",
        )
    return found.counts

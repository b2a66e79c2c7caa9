"""The query page: what there is to pick from in a release, and counts from it, with true ones where they are known."""

from __future__ import annotations

import time
from typing import Any

from dalenius.engines.release_columns import PublishedColumn, published_columns
from dalenius.model.estimate import ASSUMPTION, LEARNING, Estimate, GroupEstimate
from dalenius.model.problem import MOST_VALUES
from dalenius.query.count import Counter
from dalenius.query.objects import answer_object
from dalenius.query.true_count import true_count, true_counts_of
from dalenius.web.failures import RequestError
from dalenius.web.forms import CountForm
from dalenius.web.release import StudioRelease


def columns_object(release: StudioRelease) -> dict[str, Any]:
    """GET /api/releases/ID/columns, all of it read from the release."""
    known, about = release.columns, release.found().about
    if known is None or known[0] != about:
        with release.counter() as counter:
            known = release.columns = (about, _columns(counter))
    return {**known[1], "truth": release.has_truth}


def _columns(counter: Counter) -> dict[str, Any]:
    made = counter.manifest
    named = made.columns
    columns = published_columns(counter.tables, [column.name for column in named.quasi_identifiers])
    (sensitive,) = published_columns(counter.tables, [named.sensitive.name], MOST_VALUES)
    return {"rows": made.rows, "columns": [_column(column) for column in columns], "sensitive": _column(sensitive)}


def _column(column: PublishedColumn) -> dict[str, Any]:
    ends = {"min": column.smallest, "max": column.largest}
    return {
        "name": column.name,
        "type": column.type,
        "kind": column.kind,
        "sql": column.sql,
        "nulls": column.nulls,
        "values": list(column.values) if column.values is not None else None,
        "literals": list(column.literals) if column.literals is not None else None,
        **ends,
        **{f"{end}_literal": None if text is None else column.literal(text) for end, text in ends.items()},
    }


def count_object(release: StudioRelease, form: CountForm) -> dict[str, Any]:
    """POST /api/releases/ID/count."""
    began = time.perf_counter()
    try:
        with release.counter() as counter:
            groups = _answers(counter, form)
            truths = _truths(release, counter, form, groups) if form.truth else [None] * len(groups)
    except KeyboardInterrupt:  # the query was interrupted, for Studio is being closed
        raise RequestError(409, "abandoned", "the query was interrupted") from None
    estimates = [group.estimate for group in groups]
    learned = any(estimate.learned is not None and not estimate.exact for estimate in estimates)
    return {
        "answers": [
            {"group": {}, "tight": True, "learned": None, "note": None, **answer, "truth": truth}
            for answer, truth in zip(answer_object(groups, form.learn), truths, strict=True)
        ],
        "assumption": f"{ASSUMPTION} {LEARNING}" if learned else ASSUMPTION,
        "seconds": round(time.perf_counter() - began, 3),
    }


def _answers(counter: Counter, form: CountForm) -> list[GroupEstimate]:
    if form.group_by:
        return counter.count_by(form.expression, form.group_by, learn=form.learn)
    found: Estimate = counter.count(form.expression, learn=form.learn)
    return [GroupEstimate({}, found)]


def _truths(release: StudioRelease, counter: Counter, form: CountForm, groups: list[GroupEstimate]) -> list[int]:
    table = release.source()
    if form.group_by:
        found = true_counts_of(counter, table.path, form.expression, groups, table=table.table)
    else:
        found = [true_count(counter, table.path, form.expression, table=table.table)]
    table.require_unchanged()
    return found

"""The four kinds of long work: the price of strata, publishing, verifying, auditing. Each runs as a task.

The query page: what there is to pick from in a release, and counts from it, with true ones where they are known.

Limits as they are tried out: counts, explorations, the pin. All of it works on counts alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dalenius.attack.audit import audit_object
from dalenius.model.estimate import ASSUMPTION, LEARNING, Estimate, GroupEstimate
from dalenius.model.problem import MOST_VALUES
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.publishing.flow import price_strata, publish_request
from dalenius.publishing.options import PublishRequest
from dalenius.query.count import Counter, answer_object
from dalenius.query.release_tables import PublishedColumn, published_columns
from dalenius.query.true_count import true_count, true_counts_of
from dalenius.release.folder import open_release
from dalenius.release.writer import Format
from dalenius.studio.draft import Draft
from dalenius.studio.exploration import exploration_object
from dalenius.studio.forms import CountForm, ExploreForm, NothingForm, PinForm, PublishForm, read_form
from dalenius.studio.given_tables import Counted, TableEntry, by_count
from dalenius.studio.known_release import StudioRelease
from dalenius.studio.messages import RequestError, json_answer
from dalenius.studio.releases import new_id
from dalenius.studio.state import Studio
from dalenius.studio.tasks import Task
from dalenius.studio.worker import Abandoned
from dalenius.verify.findings import verdict_object


def start_price(studio: Studio) -> Task:
    """What strata would cost or save; nothing is placed or written."""
    table, draft = studio.table(), studio.draft
    request = _request(table, draft)

    def work(task: Task) -> dict[str, Any]:
        return asdict(price_strata(request(), task))

    return studio.tasks.start("strata-price", table.id, work)


def _request(table: TableEntry, draft: Draft, format: Format = "parquet") -> Callable[[], PublishRequest]:
    """What to publish, as the draft stands now. The request is made, and checked, where the work is done."""
    return partial(
        PublishRequest,
        table=table.path,
        roles=draft.to_publish(),
        limits=draft.limits.policy(),
        solving=draft.options,
        options=draft.publish_options(table.table, format),
    )


def start_publishing(studio: Studio, form: PublishForm) -> Task:
    """Publish the draft under a name."""
    table, draft = studio.table(), studio.draft
    request = _request(table, draft, form.format)
    target = studio.releases.target(form.name)
    judged_by = _judged_by(studio, draft, table)

    def work(task: Task) -> dict[str, Any]:
        studio.releases.begin(target)
        published = publish_request(request(), target, task)
        release = StudioRelease(
            new_id(),
            form.name,
            open_release(published.path),
            saved=studio.options.out is not None,
            job_text=studio.job(draft, table, form.format, form.name),
            table=table,
            policy=judged_by,
            notes=published.notes,
        )
        studio.releases.add(release)
        return {"release": release.id, "notes": list(published.notes)}

    return studio.tasks.start("publish", table.id, work)


def _judged_by(studio: Studio, draft: Draft, table: TableEntry) -> LimitPolicy | None:
    """The publisher's limits: by rule, or, where fakes hide the counts that a rule goes by, one by one."""
    policy = draft.limits.policy()
    if not draft.protection.fake_values:
        return policy
    counts, _ = studio.counts.want(table, draft.roles.sensitive or "", draft.roles.null_value).ready()
    return LimitPolicy(values=dict(zip(counts.values, resolve_limits(policy, counts).limits, strict=True)))


def start_verifying(studio: Studio, release: StudioRelease, against: bool) -> Task:
    """Check every promise of a release."""
    table = release.source() if against else None

    def work(task: Task) -> dict[str, Any]:
        return verdict_object(release.verify(table, task))

    return studio.tasks.start("verify", table.id if table is not None else "", work)


def start_auditing(studio: Studio, release: StudioRelease, truth: bool) -> Task:
    """Play simulated attackers against a release."""
    table = release.source() if truth else None

    def work(task: Task) -> dict[str, Any]:
        return audit_object(release.audit(table, task))

    return studio.tasks.start("audit", table.id if table is not None else "", work)


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


class Exploring:
    """The endpoints of the limits and protection pages."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def counts(self, _request: Request) -> Response:
        """GET /api/counts."""
        counted = self._studio.counted()
        counts, _ = counted.ready()
        values, numbers = by_count(counts)
        return json_answer({"column": counted.key.column, "total": counts.total, "values": values, "counts": numbers})

    async def explore(self, request: Request) -> Response:
        """POST /api/explore. It puts an end to an older exact one, which would only tell of limits that are past."""
        form = await read_form(request, ExploreForm)
        form.limits.policy()
        draft = self._studio.take_over(form)
        self._studio.abandon()
        found = await self._explored(draft, form.exact)
        return json_answer({"sequence": form.sequence, **found})

    async def _explored(self, draft: Draft, exact: bool) -> dict[str, Any]:
        counted = self._studio.counted()
        counted.ready()
        known = self._studio.explored(counted.key, draft, complete=True)
        if known is not None and exact:
            return known
        found = await (self._exact(counted, draft) if exact else self._quick(counted, draft))
        self._studio.remember(counted.key, draft, found, complete=exact)
        return found

    async def _quick(self, counted: Counted, draft: Draft) -> dict[str, Any]:
        _, explorer = counted.ready()
        policy = draft.limits.policy()
        return await run_in_threadpool(lambda: exploration_object(explorer.quick(policy, draft.options)))

    async def _exact(self, counted: Counted, draft: Draft) -> dict[str, Any]:
        counts, explorer = counted.ready()
        try:
            found = await asyncio.wrap_future(self._studio.ask(counts, draft))
        except Abandoned:
            raise RequestError(409, "abandoned", "newer limits came in") from None
        explorer.learn(found, draft.limits.policy(), draft.options)
        return await run_in_threadpool(exploration_object, found)

    async def pin(self, request: Request) -> Response:
        """POST /api/pin."""
        form = await read_form(request, PinForm)
        draft, counted = self._studio.draft, self._studio.counted()
        known = self._studio.explored(counted.key, draft)
        found = known if known is not None else await self._quick(counted, draft)
        self._studio.pin(form.label, counted.key, draft, found)
        return json_answer({"ok": True})

    async def unpin(self, request: Request) -> Response:
        """DELETE /api/pin."""
        await read_form(request, NothingForm)
        self._studio.unpin()
        return json_answer({"ok": True})

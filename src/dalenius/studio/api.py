"""What the pages ask for: long work as tasks, counts from a release, and explorations of limits.

- Tasks: the price of strata, publishing, verifying, auditing.
- The query page: the columns of a release, and counts from it, with the true counts where the table is known.
- The limits and protection pages: counts, explorations and the pinned policy. They work on counts alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from fractions import Fraction
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dalenius.attack.audit import audit_object
from dalenius.errors import ClearValuesError
from dalenius.model.estimate import AT_RANDOM, LEARNED, MEASURED, Estimate, GroupEstimate
from dalenius.model.problem import MOST_VALUES
from dalenius.policy.job import ReportSection
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.publishing.flow import price_strata, publish_request
from dalenius.query.count import Counter, answer_object
from dalenius.query.release_tables import PublishedColumn, published_columns
from dalenius.query.true_count import true_count, true_counts_of
from dalenius.release.folder import open_release
from dalenius.studio.draft import Draft, Tab
from dalenius.studio.exploration import exploration_object, price_object
from dalenius.studio.forms import (
    CountForm,
    ExploreForm,
    NothingForm,
    PinForm,
    PublishForm,
    RolesForm,
    StartForm,
    plan_options,
    read_form,
)
from dalenius.studio.messages import RequestError, json_answer
from dalenius.studio.offers import first_number
from dalenius.studio.releases import new_id, on_card
from dalenius.studio.state import Studio
from dalenius.studio.studio_release import StudioRelease
from dalenius.studio.table_entries import ColumnCounts, TableEntry, by_count
from dalenius.studio.tasks import Task
from dalenius.studio.worker import Abandoned
from dalenius.verify.findings import verdict_object


def start_price(studio: Studio) -> Task:
    """What strata would cost or save. Nothing is placed or written."""
    table, draft = studio.table(), studio.draft
    request = studio.request(table, draft)

    def work(task: Task) -> dict[str, Any]:
        price = price_strata(request(), task)
        studio.keep_price((table.id, table.stamp, draft), price)
        return price_object(price)

    return studio.tasks.start("strata-price", table.id, work)


def start_publishing(studio: Studio, form: PublishForm) -> Task:
    """Publish the draft under a name."""
    table, draft = studio.table(), studio.draft
    request = studio.request(table, draft, form)
    target = studio.releases.target(form.name)
    policy_to_verify = _policy_to_verify(studio, draft, table)

    def work(task: Task) -> dict[str, Any]:
        studio.releases.begin(target)
        try:
            published = publish_request(request(), target, task)
        except ClearValuesError as error:
            raise RequestError(400, "in-the-clear", error.message, "Choose other limits.") from None
        release = StudioRelease(
            id=new_id(),
            name=form.name,
            folder=open_release(published.path),
            saved=studio.options.out is not None,
            write_job=partial(studio.job, draft, table, form),
            table=table,
            job=draft.job(ReportSection(), form.in_the_clear),
            policy=policy_to_verify,
            draft=draft,
            notes=published.notes,
            concerns=published.concerns,
        )
        studio.releases.add(release)
        return {"release": release.id, "notes": list(published.notes)}

    return studio.tasks.start("publish", table.id, work)


def _policy_to_verify(studio: Studio, draft: Draft, table: TableEntry) -> LimitPolicy | None:
    """The publisher's limits: by rule, or one by one where fakes hide the counts that the rule needs."""
    policy = draft.limits.policy()
    if not draft.protection.fake_values:
        return policy
    counts, _ = studio.counts.request(table, draft.roles.sensitive or "", draft.roles.null_value).ready()
    return LimitPolicy(values=dict(zip(counts.values, resolve_limits(policy, counts).limits, strict=True)))


def start_verifying(studio: Studio, release: StudioRelease, against: bool) -> Task:
    """Check every promise of a release."""
    table = release.source() if against else None

    def work(task: Task) -> dict[str, Any]:
        return verdict_object(release.verify(table, task))

    return studio.tasks.start("verify", table.id if table is not None else "", work, release.id)


def start_auditing(studio: Studio, release: StudioRelease, truth: bool) -> Task:
    """Play simulated attackers against a release."""
    table = release.source() if truth else None

    def work(task: Task) -> dict[str, Any]:
        return audit_object(release.audit(table, task))

    return studio.tasks.start("audit", table.id if table is not None else "", work, release.id)


def columns_object(release: StudioRelease) -> dict[str, Any]:
    """GET /api/releases/ID/columns, all of it read from the release."""
    known, about = release.columns, release.knowledge().about
    if known is None or known[0] != about:
        with release.counter() as counter:
            known = release.columns = (about, _columns(counter))
    return {**known[1], "truth": release.has_truth}


def _columns(counter: Counter) -> dict[str, Any]:
    manifest = counter.manifest
    roles = manifest.columns
    columns = published_columns(counter.tables, [column.name for column in roles.quasi_identifiers])
    (sensitive,) = published_columns(counter.tables, [roles.sensitive.name], MOST_VALUES)
    return {"rows": manifest.rows, "columns": [_column(column) for column in columns], "sensitive": _column(sensitive)}


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
    except KeyboardInterrupt:  # Studio is being closed, and interrupted the query
        raise RequestError(409, "abandoned", "the query was interrupted") from None
    estimates = [group.estimate for group in groups]
    methods = {estimate.method for estimate in estimates}
    words = [text for method, text in (("learned", LEARNED), ("at random", AT_RANDOM)) if method in methods]
    return {
        "answers": [
            {"group": {}, "tight": True, **answer, "truth": truth}
            for answer, truth in zip(answer_object(groups), truths, strict=True)
        ],
        "assumption": " ".join([*words, MEASURED] if words else []),
        "seconds": round(time.perf_counter() - began, 3),
    }


def _answers(counter: Counter, form: CountForm) -> list[GroupEstimate]:
    if form.group_by:
        return counter.count_by(form.expression, form.group_by, learn=form.learn, measure=True)
    estimate: Estimate = counter.count(form.expression, learn=form.learn, measure=True)
    return [GroupEstimate({}, estimate)]


def _truths(release: StudioRelease, counter: Counter, form: CountForm, groups: list[GroupEstimate]) -> list[int]:
    table = release.source()
    if form.group_by:
        counts = true_counts_of(counter, table.path, form.expression, groups, table=table.table)
    else:
        counts = [true_count(counter, table.path, form.expression, table=table.table)]
    table.require_unchanged()
    return counts


_TAB = re.compile(r"[A-Za-z0-9_-]{1,64}")


def tab_of(request: Request) -> Tab | None:
    """The tab that asks, and the number of the draft that it shows, where it says so."""
    name, number = request.headers.get("studio-tab", ""), request.headers.get("studio-draft", "")
    if not _TAB.fullmatch(name) or not re.fullmatch(r"[0-9]{1,9}", number):
        return None
    return Tab(name, int(number))


class Exploring:
    """The endpoints of the limits and protection pages."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def counts(self, _request: Request) -> Response:
        """GET /api/counts."""
        column = self._studio.column_counts()
        counts, _ = column.ready()
        values, numbers = by_count(counts)
        given, known = self._studio.labels(), set(values)
        labels = {value: label for value, label in given.items() if value in known}
        return json_answer(
            {"column": column.key.column, "total": counts.total, "values": values, "counts": numbers, "labels": labels}
        )

    async def explore(self, request: Request) -> Response:
        """POST /api/explore. It ends an older search for an exact answer, which is about other limits."""
        form = await read_form(request, ExploreForm)
        form.limits.policy()
        draft = self._studio.take_over(form, tab_of(request))
        history = self._studio.history() if form.draft else None
        self._studio.abandon()
        exploration = await self._explore(draft, form.exact)
        return json_answer({"sequence": form.sequence, "history": history, **exploration})

    async def start(self, request: Request) -> Response:
        """POST /api/start: the number with which a rule can begin, as it is or the nearest that can be kept."""
        form = await read_form(request, StartForm)
        counts, _ = self._studio.column_counts().ready()
        given = form.limits.model_copy(update={"rule": form.rule})
        options = plan_options(form.solve, form.protection)

        def policy(number: str) -> LimitPolicy:
            return given.model_copy(update={form.rule: number}).policy()

        number = await run_in_threadpool(first_number, form.rule, getattr(given, form.rule), policy, counts, options)
        return json_answer({"number": number})

    async def trade_off(self, request: Request) -> Response:
        """POST /api/trade-off: exposure against error for the rule by odds, with the draft's floor and protection."""
        await read_form(request, NothingForm)
        draft = self._studio.draft
        counts, explorer = self._studio.column_counts().ready()
        floor = LimitPolicy.of(odds=1, floor=draft.limits.floor).floor or Fraction(0)
        points = explorer.known_trade_off(floor, draft.options)
        if points is None:
            try:
                points = await asyncio.wrap_future(self._studio.ask_trade_off(counts, floor, draft))
            except Abandoned:
                raise RequestError(409, "abandoned", "newer limits came in") from None
            explorer.learn_trade_off(floor, draft.options, points)
        return json_answer({"points": [point.as_object() for point in points]})

    async def strata(self, request: Request) -> Response:
        """POST /api/strata-figures: the price of the draft's strata, from a process in the background."""
        await read_form(request, NothingForm)
        self._studio.require_fresh(tab_of(request))
        key, future = self._studio.price()
        if future is not None:
            try:
                self._studio.keep_price(key, await asyncio.wrap_future(future))
            except Abandoned:
                raise RequestError(409, "abandoned", "newer limits came in") from None
        price = self._studio.price_state()
        if price is None:
            raise RequestError(409, "abandoned", "another table was chosen")
        return json_answer(price)

    async def look(self, request: Request) -> Response:
        """POST /api/look: what to know about the table before it is published with these roles."""
        roles = await read_form(request, RolesForm)
        self._studio.require_fresh(tab_of(request))
        try:
            concerns = await asyncio.wrap_future(self._studio.look(roles))
        except Abandoned:
            raise RequestError(409, "abandoned", "newer roles came in") from None
        return json_answer({"concerns": [on_card(concern.as_object()) for concern in concerns]})

    async def _explore(self, draft: Draft, exact: bool) -> dict[str, Any]:
        column = self._studio.column_counts()
        column.ready()
        known = self._studio.known_exploration(column.key, draft, complete=True)
        if known is not None and exact:
            return known
        exploration = await (self._exact(column, draft) if exact else self._quick(column, draft))
        self._studio.remember(column.key, draft, exploration, complete=exact)
        return exploration

    async def _quick(self, column: ColumnCounts, draft: Draft) -> dict[str, Any]:
        _, explorer = column.ready()
        policy = draft.limits.policy()
        return await run_in_threadpool(lambda: exploration_object(explorer.quick(policy, draft.options)))

    async def _exact(self, column: ColumnCounts, draft: Draft) -> dict[str, Any]:
        counts, explorer = column.ready()
        try:
            exploration = await asyncio.wrap_future(self._studio.ask(counts, draft))
        except Abandoned:
            raise RequestError(409, "abandoned", "newer limits came in") from None
        explorer.learn(exploration, draft.limits.policy(), draft.options)
        return await run_in_threadpool(exploration_object, exploration)

    async def pin(self, request: Request) -> Response:
        """POST /api/pin."""
        form = await read_form(request, PinForm)
        draft, column = self._studio.draft, self._studio.column_counts()
        known = self._studio.known_exploration(column.key, draft)
        exploration = known if known is not None else await self._quick(column, draft)
        self._studio.pin(form.label, column.key, draft, exploration)
        return json_answer({"ok": True})

    async def unpin(self, request: Request) -> Response:
        """DELETE /api/pin."""
        await read_form(request, NothingForm)
        self._studio.unpin()
        return json_answer({"ok": True})

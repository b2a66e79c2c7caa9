"""What the pages ask for: long work as tasks, counts from a release, and explorations of limits.

- Tasks: the price of strata, publishing, verifying, auditing.
- The query page: the columns of a release, and counts from it, with the true counts where the table is known.
- The limits and protection pages: counts, explorations and the pinned policy. They work on counts alone.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dalenius.attack.audit import audit_object
from dalenius.errors import ClearValuesError
from dalenius.policy.job import ReportSection
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.publishing.flow import price_strata, publish_request
from dalenius.release.folder import open_release
from dalenius.studio.child import Count, Counted, ReadColumns
from dalenius.studio.counted_people import counts_object, explore_people
from dalenius.studio.draft import Draft
from dalenius.studio.exploration import Curve, exploration_object, price_object
from dalenius.studio.explorer import Explorer
from dalenius.studio.forms import (
    CountForm,
    ExploreForm,
    NothingForm,
    PinForm,
    PublishForm,
    StartForm,
    plan_options,
    read_form,
)
from dalenius.studio.history import Tab
from dalenius.studio.messages import RequestError, json_answer
from dalenius.studio.offers import first_number
from dalenius.studio.prices import people_plan
from dalenius.studio.releases import new_id, on_card
from dalenius.studio.role_forms import RolesForm
from dalenius.studio.state import Studio
from dalenius.studio.studio_release import StudioRelease
from dalenius.studio.table_entries import TableEntry
from dalenius.studio.tasks import Task
from dalenius.studio.worker import Abandoned
from dalenius.verify.findings import verdict_object

_BETWEEN_LOOKS = 0.25  # seconds, at whether somebody still waits for a count


def start_price(studio: Studio) -> Task:
    """What strata would cost or save. Nothing is placed or written."""
    table, draft = studio.table(), studio.draft
    if draft.by_people:
        studio.column_counts()  # which says why there is no such price
    request = studio.request(table, draft)

    def work(task: Task) -> dict[str, Any]:
        price = price_strata(request(), task)
        studio.prices.keep((table.id, table.stamp, draft), price)
        return price_object(price)

    return studio.tasks.start("strata-price", table.id, work)


def start_planning(studio: Studio) -> Task:
    """What a release of people would come to, and whether it would publish somebody's value. Nothing is written."""
    table, draft = studio.table(), studio.draft
    studio.people_columns()
    request = studio.request(table, draft)

    def work(task: Task) -> dict[str, Any]:
        plan = people_plan(request(), task)
        studio.prices.keep_plan((table.id, table.stamp, draft), plan)
        return plan

    return studio.tasks.start("people-plan", table.id, work)


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
    """The publisher's limits: by rule, or one by one where fakes hide the counts that the rule needs.

    Of people, those of each sensitive set are compared with the job.
    """
    if draft.by_people:
        return None
    policy = draft.policy()
    if not draft.protection.fake_values:
        return policy
    counts = studio.counts.request(table, draft).explorer().counts
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


async def columns_object(studio: Studio, release: StudioRelease, request: Request) -> dict[str, Any]:
    """GET /api/releases/ID/columns, all of it read from the release."""
    opened = await run_in_threadpool(release.opened, studio.options.allowance.engine)
    known = release.columns
    if known is None or known[0] != opened.about:
        counted = await _counted(studio, ReadColumns(opened), request)
        known = release.columns = (opened.about, counted.content)
    return {**known[1], "truth": await run_in_threadpool(lambda: release.has_truth)}


async def count_object(studio: Studio, release: StudioRelease, form: CountForm, request: Request) -> dict[str, Any]:
    """POST /api/releases/ID/count."""
    opened = await run_in_threadpool(release.opened, studio.options.allowance.engine)
    table = await run_in_threadpool(release.source) if form.truth else None
    truth = (table.path, table.table) if table is not None else None
    asked = Count(opened, form.expression, tuple(form.group_by), form.learn, truth, form.unit)
    counted = await _counted(studio, asked, request)
    if table is not None:
        await run_in_threadpool(table.require_unchanged)
    release.calibration = (opened.about, counted.calibration)
    return counted.content


async def _counted(studio: Studio, question: ReadColumns | Count, request: Request) -> Counted:
    """The answer from another process, which is killed if whoever asked goes away, or presses Cancel."""
    future = studio.counting.ask(question)
    waiting = asyncio.wrap_future(future)
    try:
        while not (await asyncio.wait([waiting], timeout=_BETWEEN_LOOKS))[0]:
            if await request.is_disconnected():
                raise RequestError(409, "cancelled", "the count was cancelled")
        return await waiting
    except Abandoned:
        raise RequestError(409, "abandoned", "Studio is being closed") from None
    finally:
        studio.counting.abandon(future)
        waiting.cancel()


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

    async def counts(self, request: Request) -> Response:
        """GET /api/counts; of people, those of the sensitive set that the address names."""
        draft = self._studio.draft
        if draft.by_people:
            shown = request.query_params.get("set", "")
            labels = self._studio.labels(shown)
            return json_answer(await run_in_threadpool(counts_object, self._studio.people_columns(), shown, labels))
        explorer = await run_in_threadpool(self._studio.explorer, draft)
        values, numbers = explorer.in_order
        given, known = self._studio.labels(), set(values)
        return json_answer(
            {
                "column": draft.roles.sensitive,
                "total": explorer.counts.total,
                "values": values,
                "counts": numbers,
                "labels": {value: label for value, label in given.items() if value in known},
                "are_bands": explorer.counts.are_bands,
            }
        )

    async def explore(self, request: Request) -> Response:
        """POST /api/explore. It ends an older search for an exact answer, which is about other limits."""
        form = await read_form(request, ExploreForm)
        draft = self._studio.take_over(form, tab_of(request))
        history = self._studio.history() if form.draft else None
        self._studio.abandon()
        if draft.by_people:
            shown = form.of_set or draft.roles.sensitive or ""
            exploration = await run_in_threadpool(explore_people, self._studio.people_columns(), draft, shown)
        else:
            exploration = await self._explore(draft, form.exact)
        return json_answer({"sequence": form.sequence, "history": history, **exploration})

    async def start(self, request: Request) -> Response:
        """POST /api/start: the number with which a rule can begin, as it is or the nearest that can be kept."""
        form = await read_form(request, StartForm)
        if self._studio.draft.by_people:  # what can be kept is not known without making buckets
            return json_answer({"number": getattr(form.limits, form.rule)})
        given = form.limits.model_copy(update={"rule": form.rule})
        options = plan_options(form.solve, form.protection)
        draft = replace(self._studio.draft, limits=given, source=self._studio.groups.get(given.grouping))
        counts = (await run_in_threadpool(self._studio.explorer, draft)).counts

        def policy(number: str) -> LimitPolicy:
            return replace(draft, limits=given.model_copy(update={form.rule: number})).policy()

        number = await run_in_threadpool(first_number, form.rule, getattr(given, form.rule), policy, counts, options)
        return json_answer({"number": number})

    async def trade_off(self, request: Request) -> Response:
        """POST /api/trade-off: exposure against error for the rule by odds, with the draft's floor and protection."""
        await read_form(request, NothingForm)
        draft = self._studio.draft
        explorer, policy = await run_in_threadpool(self._studio.explorer, draft), draft.policy()
        curve = Curve(LimitPolicy.of(odds=1, floor=draft.limits.floor, grouping=policy.grouping, levels=policy.levels))
        points = explorer.known_trade_off(curve, draft.options)
        if points is None:
            try:
                points = await asyncio.wrap_future(self._studio.ask_trade_off(explorer, curve, draft))
            except Abandoned:
                raise RequestError(409, "abandoned", "newer limits came in") from None
            explorer.learn_trade_off(curve, draft.options, points)
        return json_answer({"points": [point.as_object() for point in points]})

    async def strata(self, request: Request) -> Response:
        """POST /api/strata-figures: the price of the draft's strata, from a process in the background."""
        await read_form(request, NothingForm)
        self._studio.require_fresh(tab_of(request))
        key, future = self._studio.price()
        if future is not None:
            try:
                self._studio.prices.keep(key, await asyncio.wrap_future(future))
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
        column, explorer = self._studio.column_counts(), await run_in_threadpool(self._studio.explorer, draft)
        known = self._studio.explored.known(column.key, draft, complete=True)
        if known is not None and exact:
            return known
        exploration = await (self._exact(explorer, draft) if exact else self._quick(explorer, draft))
        self._studio.remember(column.key, draft, exploration, complete=exact)
        return exploration

    async def _quick(self, explorer: Explorer, draft: Draft) -> dict[str, Any]:
        policy = draft.policy()
        return await run_in_threadpool(lambda: exploration_object(explorer.quick(policy, draft.options)))

    async def _exact(self, explorer: Explorer, draft: Draft) -> dict[str, Any]:
        try:
            exploration = await asyncio.wrap_future(self._studio.ask(explorer, draft))
        except Abandoned:
            raise RequestError(409, "abandoned", "newer limits came in") from None
        explorer.learn(exploration, draft.policy(), draft.options)
        return await run_in_threadpool(exploration_object, exploration)

    async def pin(self, request: Request) -> Response:
        """POST /api/pin."""
        form = await read_form(request, PinForm)
        draft, column = self._studio.draft, self._studio.column_counts()
        known = self._studio.explored.known(column.key, draft)
        exploration = known or await self._quick(await run_in_threadpool(self._studio.explorer, draft), draft)
        self._studio.explored.pin(form.label, column.key, draft, exploration)
        return json_answer({"ok": True})

    async def unpin(self, request: Request) -> Response:
        """DELETE /api/pin."""
        await read_form(request, NothingForm)
        self._studio.explored.unpin()
        return json_answer({"ok": True})

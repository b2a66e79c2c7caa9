"""Limits as they are tried out: counts, explorations, the pin. All of it works on counts alone."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dalenius.exploring.objects import exploration_object
from dalenius.exploring.worker import Abandoned
from dalenius.web.answers import json_answer
from dalenius.web.counts import Counted, by_count
from dalenius.web.draft import Draft
from dalenius.web.failures import RequestError
from dalenius.web.forms import ExploreForm, NothingForm, PinForm, read_form
from dalenius.web.studio import Studio


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

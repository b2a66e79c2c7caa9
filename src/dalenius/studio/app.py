"""The application: which code answers which address."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dalenius.errors import DaleniusError
from dalenius.policy.job import ReportSection
from dalenius.studio.analyses import Analysing
from dalenius.studio.api import (
    Exploring,
    columns_object,
    count_object,
    start_auditing,
    start_planning,
    start_price,
    start_publishing,
    start_verifying,
    tab_of,
)
from dalenius.studio.forms import (
    AuditForm,
    ChooseForm,
    CountForm,
    HeadForm,
    NothingForm,
    PublishForm,
    VerifyForm,
    read_form,
)
from dalenius.studio.guard import FIRST_PAGE, Guard, Keys
from dalenius.studio.messages import RequestError, error_answer, json_answer, not_found, status_of
from dalenius.studio.pages import PAGES, Pages, is_for_scripts, static_file
from dalenius.studio.releases import card_object
from dalenius.studio.role_forms import RolesForm
from dalenius.studio.state import Studio
from dalenius.studio.transfers import Downloads, Uploads

Endpoint = Callable[[Request], Awaitable[Response]]


def complain(sentence: str) -> None:
    """Tell whoever started Studio."""
    print(f"Studio: {sentence}", file=sys.stderr, flush=True)  # noqa: T201


def make_app(studio: Studio, keys: Keys, port: int, quit_server: Callable[[], None]) -> ASGIApp:
    """The whole application behind its guard. `quit_server` is called when a page asks to quit."""
    pages = Pages()
    inside = Starlette(
        routes=[*_pages(studio, pages), *_api(studio, quit_server), *_downloads(studio), _static()],
        exception_handlers={
            HTTPException: _wrong_address(pages),
            RequestError: _failure(pages),
            DaleniusError: _failure(pages),
            Exception: _bug(pages),
        },
        lifespan=_lifespan(studio),
    )
    inside.router.redirect_slashes = False
    return Guard(inside, keys, port, pages, complain)


def _lifespan(studio: Studio) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(studio.close)

    return lifespan


def _pages(studio: Studio, pages: Pages) -> list[Route]:
    def page(name: str) -> Endpoint:
        async def render(_request: Request) -> Response:
            return await run_in_threadpool(pages.page, studio, name)

        return render

    async def first(_request: Request) -> Response:
        return RedirectResponse(FIRST_PAGE, 303)

    return [Route("/", first), *(Route(f"/{name}", page(name)) for name in PAGES)]


def _static() -> Route:
    return Route("/static/{name:path}", static_file)


def _downloads(studio: Studio) -> list[Route]:
    files = Downloads(studio)
    return [
        Route("/job.toml", files.draft_job),
        Route("/releases/{id}/report", files.report),
        Route("/releases/{id}/report.html", files.report_file),
        Route("/releases/{id}/report.json", files.report_object),
        Route("/releases/{id}/release.zip", files.zipped),
        Route("/releases/{id}/job.toml", files.job),
        Route("/releases/{id}/completed.zip", Analysing(studio).zipped),
    ]


def _api(studio: Studio, quit_server: Callable[[], None]) -> list[Route]:
    async def state(_request: Request) -> Response:
        return json_answer(await run_in_threadpool(studio.state))

    async def history(request: Request) -> Response:
        return json_answer({"history": studio.history(tab_of(request))})

    async def step(request: Request) -> Response:
        await read_form(request, NothingForm)
        studio.step(tab_of(request), back=request.url.path.endswith("undo"))
        return changed()

    async def remove_table(request: Request) -> Response:
        await read_form(request, NothingForm)
        studio.remove_table(request.path_params["id"])
        return json_answer({"ok": True})

    async def choose(request: Request) -> Response:
        studio.choose((await read_form(request, ChooseForm)).id, tab_of(request))
        return changed()

    async def roles(request: Request) -> Response:
        studio.set_roles(await read_form(request, RolesForm), tab_of(request))
        return changed()

    def changed() -> Response:
        return json_answer({"ok": True, "history": studio.history()})

    async def stop(request: Request) -> Response:
        await read_form(request, NothingForm)
        quit_server()
        return json_answer({"ok": True})

    exploring, uploads = Exploring(studio), Uploads(studio)
    return [
        Route("/api/state", state),
        Route("/api/history", history),
        Route("/api/undo", step, methods=["POST"]),
        Route("/api/redo", step, methods=["POST"]),
        Route("/api/demo", uploads.demo, methods=["POST"]),
        Route("/api/labels", uploads.labels, methods=["POST"]),
        Route("/api/groups", uploads.groups, methods=["POST"]),
        Route("/api/tables", uploads.receive, methods=["POST"]),
        Route("/api/tables/{id}", remove_table, methods=["DELETE"]),
        Route("/api/table", choose, methods=["POST"]),
        Route("/api/roles", roles, methods=["POST"]),
        Route("/api/counts", exploring.counts),
        Route("/api/explore", exploring.explore, methods=["POST"]),
        Route("/api/start", exploring.start, methods=["POST"]),
        Route("/api/trade-off", exploring.trade_off, methods=["POST"]),
        Route("/api/strata-figures", exploring.strata, methods=["POST"]),
        Route("/api/look", exploring.look, methods=["POST"]),
        Route("/api/pin", exploring.pin, methods=["POST"]),
        Route("/api/pin", exploring.unpin, methods=["DELETE"]),
        *_tasks(studio),
        *_queries(studio),
        Route("/api/quit", stop, methods=["POST"]),
    ]


def _tasks(studio: Studio) -> list[Route]:
    async def price(request: Request) -> Response:
        await read_form(request, NothingForm)
        return json_answer({"task": start_price(studio).id})

    async def plan(request: Request) -> Response:
        await read_form(request, NothingForm)
        studio.require_fresh(tab_of(request))
        return json_answer({"task": start_planning(studio).id})

    async def publish(request: Request) -> Response:
        studio.require_fresh(tab_of(request))  # nobody publishes limits that they do not see
        return json_answer({"task": start_publishing(studio, await read_form(request, PublishForm)).id})

    async def verify(request: Request) -> Response:
        form = await read_form(request, VerifyForm)
        release = studio.releases.get(request.path_params["id"])
        return json_answer({"task": start_verifying(studio, release, form.against).id})

    async def audit(request: Request) -> Response:
        form = await read_form(request, AuditForm)
        release = studio.releases.get(request.path_params["id"])
        return json_answer({"task": start_auditing(studio, release, form.truth).id})

    async def progress(request: Request) -> Response:
        return json_answer(studio.tasks.get(request.path_params["id"]).state())

    async def cancel(request: Request) -> Response:
        await read_form(request, NothingForm)
        studio.tasks.get(request.path_params["id"]).cancel()
        return json_answer({"ok": True})

    return [
        Route("/api/strata-price", price, methods=["POST"]),
        Route("/api/people-plan", plan, methods=["POST"]),
        Route("/api/publish", publish, methods=["POST"]),
        Route("/api/releases/{id}/verify", verify, methods=["POST"]),
        Route("/api/releases/{id}/audit", audit, methods=["POST"]),
        Route("/api/tasks/{id}", progress),
        Route("/api/tasks/{id}/cancel", cancel, methods=["POST"]),
    ]


def _queries(studio: Studio) -> list[Route]:
    async def outcomes(request: Request) -> Response:
        release = studio.releases.get(request.path_params["id"])
        return json_answer(await run_in_threadpool(card_object, release))

    async def head(request: Request) -> Response:
        form = await read_form(request, HeadForm)
        release = studio.releases.get(request.path_params["id"])
        studio.releases.set_head(release, ReportSection().but(**form.model_dump()))
        return json_answer({"report": release.head.model_dump()})

    async def columns(request: Request) -> Response:
        release = studio.releases.get(request.path_params["id"])
        return json_answer(await columns_object(studio, release, request))

    async def count(request: Request) -> Response:
        form = await read_form(request, CountForm)
        release = studio.releases.get(request.path_params["id"])
        return json_answer(await count_object(studio, release, form, request))

    analysing = Analysing(studio)
    return [
        Route("/api/releases/{id}/outcomes", outcomes),
        Route("/api/releases/{id}/head", head, methods=["POST"]),
        Route("/api/releases/{id}/columns", columns),
        Route("/api/releases/{id}/count", count, methods=["POST"]),
        Route("/api/releases/{id}/analysis", analysing.about),
        Route("/api/releases/{id}/crosstab", analysing.cross_tab, methods=["POST"]),
        Route("/api/releases/{id}/completed", analysing.complete, methods=["POST"]),
    ]


def _failure(pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestError | DaleniusError):
            raise error
        if is_for_scripts(request.scope["path"]):
            return error_answer(error)
        status = error.status if isinstance(error, RequestError) else status_of(error)
        return pages.error(status, "Not here" if status == 404 else "This cannot be done", error.message, error.hint)

    return answer


def _bug(pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        return pages.bug(request.scope["path"], error)  # Starlette passes the error on to the guard, which complains

    return answer


def _wrong_address(pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    failure = _failure(pages)

    async def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        refusal = not_found() if status == 404 else RequestError(status, "request", "Studio does not answer this")
        return await failure(request, refusal)

    return answer

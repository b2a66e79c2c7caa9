"""The analyst's pages beyond counting: cross-tabs, and completed tables. Both are tasks, and need the release alone.

A process of its own does the work. It keeps what it has learned of a release for the next question, until it is killed:
by Cancel, or because it takes more than it may.
"""

from __future__ import annotations

import math
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from dalenius.analysis.completing import MARK
from dalenius.analysis.draw_files import require_format
from dalenius.analysis.groupings import MOST_RANGES
from dalenius.analysis.outcomes import sort_out
from dalenius.analysis.pieces import slot_tables
from dalenius.errors import ChangedInputError, MissingExtraError, OutputError, ReleaseError, UsageError
from dalenius.release.release_views import all_tables
from dalenius.studio.api import columns_object
from dalenius.studio.child import Complete, Counted, OpenRelease, Tabulate
from dalenius.studio.forms import CompletedForm, CrossTabForm, read_form
from dalenius.studio.messages import RequestError, error_object, json_answer, not_found
from dalenius.studio.state import Studio
from dalenius.studio.studio_release import Fingerprint, StudioRelease
from dalenius.studio.tasks import Task
from dalenius.studio.transfers import ZIP, ZipTarget, as_file
from dalenius.studio.worker import Abandoned
from dalenius.tables.killable import Allowance

_LIBRARIES = {"crosstab": ("pandas", "scipy"), "dta": ("pandas",), "sav": ("pandas", "pyreadstat")}
_BETWEEN_LOOKS = 0.1  # seconds, at whether somebody has cancelled the task
_SPARE = 2**28  # bytes of the disk that completed tables leave free
_CHUNK = 2**20
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_EDGES = re.compile(r"[,;\s]+")


@dataclass(frozen=True)
class Completed:
    """Completed tables that were drawn from a release with these files, in a folder of their own."""

    about: Fingerprint
    folder: Path
    files: tuple[str, ...]
    bytes: int
    draws: int
    format: str

    def state(self) -> dict[str, Any]:
        """What the page shows."""
        return {"draws": self.draws, "format": self.format, "bytes": self.bytes}


class Analysing:
    """The endpoints."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def about(self, request: Request) -> Response:
        """GET /api/releases/ID/analysis: the columns, which of them cannot be analysed, and what is not installed."""
        release = self._release(request)
        columns = await columns_object(self._studio, release, request)
        made = await run_in_threadpool(_completed_of, release)
        return json_answer(
            {
                **columns,
                "refused": refusals(release),
                "missing": {kind: _missing(kind) for kind in _LIBRARIES},
                "completed": made.state() if made is not None else None,
            }
        )

    async def cross_tab(self, request: Request) -> Response:
        """POST /api/releases/ID/crosstab."""
        release, form = self._release(request), await read_form(request, CrossTabForm)
        return json_answer({"task": (await run_in_threadpool(self._tabulate, release, form)).id})

    async def complete(self, request: Request) -> Response:
        """POST /api/releases/ID/completed."""
        release, form = self._release(request), await read_form(request, CompletedForm)
        return json_answer({"task": (await run_in_threadpool(self._complete, release, form)).id})

    async def zipped(self, request: Request) -> Response:
        """GET /releases/ID/completed.zip: the completed tables that were made last."""
        release = self._release(request)
        made = await run_in_threadpool(_completed_of, release)
        if made is None:
            raise not_found()
        name = f"{release.file_name}-completed"
        return StreamingResponse(_zip_parts(made, name), 200, as_file(f"{name}.zip"), ZIP)

    def _release(self, request: Request) -> StudioRelease:
        return self._studio.releases.get(request.path_params["id"])

    def _tabulate(self, release: StudioRelease, form: CrossTabForm) -> Task:
        _require_libraries("crosstab")
        rows, columns = tuple(form.rows), tuple(form.columns)
        both = (*rows, *columns)
        if len(set(both)) < len(both):
            raise UsageError("a cross-tab has different columns for its rows and its columns", "Choose each once.")
        _require_sensitive(release, both)
        if not form.ranges.keys() <= set(both):
            raise UsageError("ranges are given for a column that is not in the cross-tab", "Leave them out.")
        bins = {name: ranges_of(name, text) for name, text in form.ranges.items()}
        question = Tabulate(self._opened(release), rows, columns, bins, form.draws)
        allowance = self._studio.options.allowance

        def work(task: Task) -> dict[str, Any]:
            return self._answer(task, question, Allowance(allowance.seconds, allowance.memory, "this"))

        return self._studio.tasks.start("crosstab", "", work, release.id)

    def _complete(self, release: StudioRelease, form: CompletedForm) -> Task:
        _require_libraries(form.format)
        chosen = _require_sensitive(release, form.columns)
        manifest = release.manifest
        names = [column.name for column in manifest.columns.quasi_identifiers]
        require_format(form.format, [*names, *chosen, MARK], manifest.rows)
        folder = self._studio.private.folder("completed") / secrets.token_hex(12)
        opened, target = partial(self._opened, release), folder / "tables"

        def work(task: Task) -> dict[str, Any]:
            known = release.verified_knowledge(task)
            if not known.verified:
                raise ReleaseError(
                    "the release does not pass its checks, so nothing is drawn from it",
                    "Verify it to see what is wrong.",
                )
            folder.mkdir(mode=0o700)
            try:
                content = self._write(task, release, Complete(opened(), chosen, form.draws, form.format, target))
                made = Completed(
                    known.about, folder, tuple(content["files"]), content["bytes"], form.draws, form.format
                )
                _keep(release, made)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            return {**made.state(), "seconds": content["seconds"], "learned_before": content["learned_before"]}

        return self._studio.tasks.start("completed", "", work, release.id)

    def _write(self, task: Task, release: StudioRelease, question: Complete) -> dict[str, Any]:
        """Completed tables in a folder. There is no limit of time, as for other files that Studio makes."""
        _require_room(release, question)
        return self._answer(task, question, Allowance(None, self._studio.options.allowance.memory, "this"))

    def _opened(self, release: StudioRelease) -> OpenRelease:
        return release.opened(self._studio.options.allowance.engine)

    def _answer(self, task: Task, question: Tabulate | Complete, allowance: Allowance) -> dict[str, Any]:
        """The answer of the process, which is killed when somebody cancels the task."""
        task.stage("Waiting for other work" if self._studio.analysing.processes else "Starting")
        future = self._studio.analysing.ask(question, task, allowance)
        try:
            while True:
                try:
                    counted: Counted = future.result(_BETWEEN_LOOKS)
                except TimeoutError:
                    task.advance(0)  # an error if somebody has cancelled it
                else:
                    return counted.content
        except Abandoned:
            raise RequestError(409, "abandoned", "Studio is being closed") from None
        finally:
            self._studio.analysing.abandon(future)


def _completed_of(release: StudioRelease) -> Completed | None:
    """The completed tables that were drawn last, if the release is still the same."""
    made = release.completed
    return made if made is not None and made.about == release.knowledge().about else None


def _keep(release: StudioRelease, made: Completed) -> None:
    """Offer these completed tables in the place of those before, which are removed."""
    if release.knowledge().about != made.about:
        raise ChangedInputError("the release changed while it was being read", "Run it again.")
    before, release.completed = release.completed, made
    if before is not None:
        shutil.rmtree(before.folder, ignore_errors=True)


def refusals(release: StudioRelease) -> dict[str, dict[str, Any] | None]:
    """For each sensitive column why nothing can be drawn of it, if so."""
    found: dict[str, dict[str, Any] | None] = {}
    for name in release.manifest.sensitive_names:
        try:
            slot_tables(release.folder, [name])
        except UsageError as error:
            found[name] = error_object(error)
        else:
            found[name] = None
    return found


def ranges_of(name: str, text: str) -> int | list[float]:
    """Ranges as somebody types them: how many, or where all but the first begin, with commas or semicolons."""
    wrong = UsageError(
        f"the ranges of {name!r} are no numbers",
        f"Write how many there are, 2 to {MOST_RANGES:,}, or where all but the first begin: 30, 50, 70.",
    )
    try:
        numbers = [float(word) for word in _EDGES.split(text.strip()) if word]
    except ValueError:
        raise wrong from None
    if not numbers or not all(math.isfinite(number) for number in numbers):
        raise wrong
    if len(numbers) == 1 and not _EDGES.search(text.strip()):
        if not (numbers[0].is_integer() and 2 <= numbers[0] <= MOST_RANGES):
            raise wrong
        return int(numbers[0])
    if any(after <= before for before, after in pairwise(numbers)):
        raise UsageError(f"the ranges of {name!r} do not ascend", "Write where they begin in order: 30, 50, 70.")
    return numbers


def _require_sensitive(release: StudioRelease, names: Sequence[str]) -> tuple[str, ...]:
    """The sensitive ones among published columns; an error if there is none, or one of which nothing can be drawn."""
    sensitive, _ = sort_out(release.folder, names)
    if not sensitive:
        raise UsageError("no sensitive column is chosen", "Choose one: all others are published as they are.")
    slot_tables(release.folder, sensitive)
    return tuple(dict.fromkeys(sensitive))


def _require_libraries(kind: str) -> None:
    for library in _LIBRARIES.get(kind, ()):
        if find_spec(library) is None:
            raise MissingExtraError.of(library, "analysis")


def _missing(kind: str) -> dict[str, Any] | None:
    try:
        _require_libraries(kind)
    except MissingExtraError as error:
        return error_object(error)
    return None


def _require_room(release: StudioRelease, question: Complete) -> None:
    """Refuse draws for which the disk certainly has no room."""
    needed = question.draws * sum(one.bytes for one in all_tables(release.manifest))
    if shutil.disk_usage(question.target.parent).free < needed + _SPARE:
        raise OutputError("the disk has no room for so many tables", "Ask for fewer draws.")


def _zip_parts(made: Completed, inside: str) -> Iterator[bytes]:
    """A ZIP file of completed tables, made while it is sent."""
    target = ZipTarget()
    with zipfile.ZipFile(target, "w", allowZip64=True) as archive:
        for name in made.files:
            entry = zipfile.ZipInfo(f"{inside}/{name}", _NO_DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            with (made.folder / "tables" / name).open("rb") as file, archive.open(entry, "w", force_zip64=True) as into:
                while chunk := file.read(_CHUNK):
                    into.write(chunk)
                    yield target.drain()
            yield target.drain()
    yield target.drain()

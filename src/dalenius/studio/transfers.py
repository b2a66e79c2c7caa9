"""Downloads and uploads.

A release is downloaded as a ZIP file, with its report and its job file. An upload is streamed to a private folder under
a name that Studio chooses. Its size is bounded, and an incomplete file is removed.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from dalenius.errors import ChangedInputError, InputError, ReleaseError
from dalenius.release.manifest import FILE, SIGNATURE_FILE
from dalenius.release.release_views import all_tables
from dalenius.report.page import report_html
from dalenius.report.twin import twin_text
from dalenius.studio import demo_table
from dalenius.studio.api import tab_of
from dalenius.studio.counted_people import counts_object
from dalenius.studio.forms import NothingForm, read_body, read_form, require_type
from dalenius.studio.messages import RequestError, json_answer
from dalenius.studio.releases import job_of
from dalenius.studio.role_forms import RolesForm
from dalenius.studio.state import Studio
from dalenius.studio.studio_release import Fingerprint, StudioRelease, mark_of, open_file
from dalenius.studio.tasks import Task

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# The report has no script, and no name or value that it shows could run one: the sandbox lets nothing through.
REPORT_CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-popups"
)
_CHUNK = 2**20
_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the time of publication stays private


class Downloads:
    """The endpoints that give files."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def report(self, request: Request) -> Response:
        """GET /releases/ID/report: the report as a page."""
        page = await run_in_threadpool(self._page, self._release(request))
        headers = {"Content-Security-Policy": REPORT_CSP, "X-Frame-Options": "SAMEORIGIN"}
        return Response(page, media_type="text/html", headers=headers)

    async def report_file(self, request: Request) -> Response:
        """GET /releases/ID/report.html: the same as a file."""
        release = self._release(request)
        page = await run_in_threadpool(self._page, release)
        return _file(page, "text/html", f"{release.file_name}-report.html")

    async def report_object(self, request: Request) -> Response:
        """GET /releases/ID/report.json: the twin of the page, whose SHA-256 the page states."""
        release = self._release(request)
        twin = await run_in_threadpool(self._twin, release)
        return _file(twin_text(twin), "application/json", f"{release.file_name}-report.json")

    async def zipped(self, request: Request) -> Response:
        """GET /releases/ID/release.zip: the files of the release, in a folder with its name."""
        release = self._release(request)
        known = await run_in_threadpool(release.verified_knowledge)
        if not known.verified:
            raise ReleaseError(
                "the release does not pass its checks, so it cannot be downloaded", "Verify it to see what is wrong."
            )
        digests = {name: digest for one in all_tables(release.manifest) for name, digest in one.digests.items()}
        release.downloaded = True
        parts = zip_parts(release.path, known.about, digests, release.file_name)
        return StreamingResponse(parts, 200, as_file(f"{release.file_name}.zip"), ZIP)

    async def job(self, request: Request) -> Response:
        """GET /releases/ID/job.toml: the job file of the release."""
        release = self._release(request)
        if release.draft is not None:
            self._studio.saved(release.draft)
        return _file(job_of(release), "application/toml", "job.toml")

    async def draft_job(self, _request: Request) -> Response:
        """GET /job.toml: the draft as a job file."""
        draft = self._studio.draft
        self._studio.saved(draft)
        return _file(self._studio.job(draft, self._studio.chosen_table()), "application/toml", "job.toml")

    def _release(self, request: Request) -> StudioRelease:
        return self._studio.releases.get(request.path_params["id"])

    def _page(self, release: StudioRelease) -> str:
        return report_html(self._twin(release))

    def _twin(self, release: StudioRelease) -> dict[str, Any]:
        """The twin of the report. If it has to be made, that is a task, which every page can see and cancel."""

        def work(task: Task) -> dict[str, Any]:
            release.twin(task)
            return {}

        while (known := release.knowledge().twin) is None:
            self._studio.tasks.run("report", work, release.id)
        return known


ZIP = "application/zip"


def _file(text: str, media_type: str, name: str) -> Response:
    return Response(text.encode("utf-8", "backslashreplace"), media_type=media_type, headers=as_file(name))


def as_file(name: str) -> dict[str, str]:
    """Headers that save the answer as a file; the name has plain characters."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


class ZipTarget(io.RawIOBase):
    """The target of a ZIP file; `drain` gives what was written since the last call."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Buffer) -> int:
        """Take a part."""
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def drain(self) -> bytes:
        """What was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def zip_parts(folder: Path, about: Fingerprint, digests: Mapping[str, str], inside: str) -> Iterator[bytes]:
    """A ZIP file of a release, made while it is sent. Parquet is compressed already, and is stored as it is.

    The files must be those of the fingerprint `about`, and the tables must have the SHA-256 in `digests`. If anything
    differs, the ZIP file breaks off.
    """
    parts = ZipTarget()
    with zipfile.ZipFile(parts, "w", allowZip64=True) as archive:
        signature = {SIGNATURE_FILE: None} if SIGNATURE_FILE in about.marks else {}
        for name, expected in {**digests, FILE: about.manifest_sha256, **signature}.items():
            entry = zipfile.ZipInfo(f"{inside}/{name}", _NO_DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            digest = hashlib.sha256()
            with _same_file(folder, name, about) as file, archive.open(entry, "w", force_zip64=True) as into:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    into.write(chunk)
                    yield parts.drain()
            if name not in signature and digest.hexdigest() != expected:
                raise _changed()
            yield parts.drain()
    yield parts.drain()


@contextmanager
def _same_file(folder: Path, name: str, about: Fingerprint) -> Iterator[BinaryIO]:
    """A file of the release that is still the one in the fingerprint, and not a link or a pipe."""
    try:
        file = os.fdopen(open_file(folder / name), "rb")
    except OSError:
        raise _changed() from None
    with file:
        if mark_of(os.fstat(file.fileno())) != about.marks.get(name):
            raise _changed()
        yield file


def _changed() -> ChangedInputError:
    return ChangedInputError("the release changed after it was verified", "Verify it again.")


SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq", ".duckdb", ".db")
_SPARE = 2**28  # bytes of the disk that an upload leaves free
_BETWEEN_CHECKS = 2**26  # bytes between checks of the disk
_AT_ONCE = 2**20  # bytes to write
_LONGEST_NAME = 200


class Uploads:
    """One upload at a time."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._folder = studio.private.folder("uploads")
        self._one_at_a_time = asyncio.Lock()

    async def receive(self, request: Request) -> Response:
        """POST /api/tables?name=FILENAME."""
        require_type(request, "application/octet-stream")
        name = _display_name(request.query_params.get("name", ""))
        suffix = max((known for known in SUFFIXES if name.lower().endswith(known)), key=len, default=None)
        if suffix is None:
            raise RequestError(415, "unsupported", "Studio does not read this kind of file", f"Give {_SUFFIX_LIST}.")
        length = request.headers.get("content-length", "")
        self._check(int(length) if length.isdecimal() else 0)
        if self._one_at_a_time.locked():
            raise RequestError(409, "busy", "another file is being uploaded", "Wait until it has arrived.")
        async with self._one_at_a_time:
            path = self._folder / f"{secrets.token_hex(12)}{suffix}"
            try:
                await self._stream(request, path)
                added = await run_in_threadpool(self._studio.tables.add, path, name, "uploaded")
            except BaseException:
                with suppress(OSError):
                    path.unlink()
                raise
        return json_answer({"id": added[0], "ids": added}, 201)

    async def demo(self, request: Request) -> Response:
        """POST /api/demo: a made-up table, with its roles."""
        await read_form(request, NothingForm)
        path = self._folder / f"{secrets.token_hex(12)}.csv"
        await run_in_threadpool(demo_table.write_table, path)
        (added,) = await run_in_threadpool(self._studio.tables.add, path, demo_table.NAME, "made-up")
        roles = RolesForm(
            sensitive=demo_table.SENSITIVE,
            quasi_identifiers=demo_table.QUASI_IDENTIFIERS,
            identifiers=demo_table.IDENTIFIERS,
        )
        self._studio.choose(added, tab_of(request), roles)
        return json_answer({"id": added, "history": self._studio.history()}, 201)

    async def labels(self, request: Request) -> Response:
        """POST /api/labels: a CSV file of values and their names. They stay in Studio."""
        require_type(request, "application/octet-stream")
        of_set = request.query_params.get("set", "")
        if self._studio.draft.by_people:
            counts = counts_object(self._studio.people_columns(), of_set, {})["values"]
        else:
            counts = (await run_in_threadpool(self._studio.explorer, self._studio.draft)).counts.values
        labels, values = read_labels(await read_body(request)), set(counts)
        known = {value: label for value, label in labels.items() if value in values}
        if not known:
            raise InputError(
                "no value of the sensitive column is in this file",
                "Each line has a value and its name, such as 250.83,Type 1 diabetes.",
            )
        self._studio.label(known, of_set)
        return json_answer({"labels": len(known), "of": len(counts), "others": len(labels) - len(known)})

    async def groups(self, request: Request) -> Response:
        """POST /api/groups?name=FILENAME: a CSV file that says which values are in which groups."""
        require_type(request, "application/octet-stream")
        name = _display_name(request.query_params.get("name", "")) or "groups.csv"
        content = await read_body(request)
        source = await run_in_threadpool(self._studio.groups.receive, name, content)
        return json_answer(source.state(), 201)

    async def _stream(self, request: Request, path: Path) -> None:
        received, checked, waiting = 0, 0, bytearray()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            try:
                async for chunk in request.stream():
                    received += len(chunk)
                    waiting += chunk
                    if received > self._studio.options.upload_limit or received - checked > _BETWEEN_CHECKS:
                        checked = received
                        self._check(received, left=len(waiting))
                    if len(waiting) >= _AT_ONCE:
                        await run_in_threadpool(file.write, bytes(waiting))
                        waiting.clear()
                file.write(waiting)
                file.flush()
            except ClientDisconnect:
                raise RequestError(400, "request", "the upload is incomplete") from None
            except OSError:
                raise _no_room() from None
        if not received:
            raise RequestError(400, "request", "the file is empty")

    def _check(self, size: int, left: int | None = None) -> None:
        """Refuse a file above the limit, and one that the disk has no room for."""
        most = self._studio.options.upload_limit
        if size > most:
            raise RequestError(
                413,
                "too-large",
                f"the file is larger than {most:,} bytes",
                "Start Studio with its path, or with a larger --upload-limit.",
            )
        if shutil.disk_usage(self._folder).free < (size if left is None else left) + _SPARE:
            raise _no_room()


_LONGEST_LABEL = 300


def read_labels(content: bytes) -> dict[str, str]:
    """Values and their names from the first two columns of a CSV file, separated by commas, semicolons or tabs."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8 text", "Save it as CSV in UTF-8.") from None
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=first.count))
    try:
        return {row[0]: row[1].strip()[:_LONGEST_LABEL] for row in rows if len(row) > 1 and row[1].strip()}
    except csv.Error:
        raise InputError("the file is not a CSV file", "Each line has a value and its name.") from None


def _no_room() -> RequestError:
    return RequestError(
        413, "no-room", "the disk has no room for the file", "Start Studio with its path: then nothing is copied."
    )


def _display_name(name: str) -> str:
    """The last part of the browser's name for the file, for people to read. Nothing is ever opened by it."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c if c.isprintable() else "?" for c in last)[-_LONGEST_NAME:]


_SUFFIX_LIST = ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]}"

"""What can be taken home: the release as a ZIP file, its report, and job files."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from dalenius.errors import ChangedInputError, ReleaseError
from dalenius.release.manifest import FILE
from dalenius.report.page import report_html
from dalenius.report.twin import twin_text
from dalenius.web.found import Fingerprint, mark_of, open_file
from dalenius.web.release import StudioRelease
from dalenius.web.studio import Studio

# The report has no script, and whatever names and values it shows could not run one: the sandbox lets nothing through.
REPORT_CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-popups"
)
_CHUNK = 2**20
_NO_DATE = (1980, 1, 1, 0, 0, 0)  # when it was made is nobody's business


class Downloads:
    """The endpoints that give files."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def report(self, request: Request) -> Response:
        """GET /releases/ID/report: the report as a page."""
        page = await run_in_threadpool(_report_page, self._release(request))
        headers = {"Content-Security-Policy": REPORT_CSP, "X-Frame-Options": "SAMEORIGIN"}
        return Response(page, media_type="text/html", headers=headers)

    async def report_file(self, request: Request) -> Response:
        """GET /releases/ID/report.html: the same to keep."""
        release = self._release(request)
        page = await run_in_threadpool(_report_page, release)
        return _file(page, "text/html", f"{release.file_name}-report.html")

    async def report_object(self, request: Request) -> Response:
        """GET /releases/ID/report.json: the page's twin, whose SHA-256 the page states."""
        release = self._release(request)
        twin = await run_in_threadpool(release.twin)
        return _file(twin_text(twin), "application/json", f"{release.file_name}-report.json")

    async def zipped(self, request: Request) -> Response:
        """GET /releases/ID/release.zip: the files of the release in a folder of its name, as they are read."""
        release = self._release(request)
        found = await run_in_threadpool(release.judged)
        if not found.verified:
            raise ReleaseError(
                "the release does not pass its checks, and is not given out", "Verify it: that says what is wrong."
            )
        tables = release.manifest.tables
        digests = {**tables.qit.digests, **tables.st.digests}
        parts = zip_parts(release.path, found.about, digests, release.file_name)
        return StreamingResponse(parts, 200, _as_file(f"{release.file_name}.zip"), _ZIP)

    async def job(self, request: Request) -> Response:
        """GET /releases/ID/job.toml: the job file that it was made by."""
        return _file(self._release(request).job_text, "application/toml", "job.toml")

    async def draft_job(self, _request: Request) -> Response:
        """GET /job.toml: the draft as a job file."""
        return _file(self._studio.job(self._studio.draft, self._studio.chosen()), "application/toml", "job.toml")

    def _release(self, request: Request) -> StudioRelease:
        return self._studio.releases.get(request.path_params["id"])


_ZIP = "application/zip"


def _file(text: str, kind: str, name: str) -> Response:
    return Response(text.encode("utf-8", "backslashreplace"), media_type=kind, headers=_as_file(name))


def _as_file(name: str) -> dict[str, str]:
    """To be saved, not shown; the name is of plain characters."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _report_page(release: StudioRelease) -> str:
    return report_html(release.twin())


class _Parts(io.RawIOBase):
    """Where a ZIP file is written to; `taken` gives what has come in since it was last asked."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        """What has come in."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def zip_parts(folder: Path, about: Fingerprint, digests: Mapping[str, str], inside: str) -> Iterator[bytes]:
    """A ZIP file of a release, made while it is sent. Parquet is compressed already, and goes in as it is.

    What is sent are the files that `about` tells, with the tables' SHA-256 as in `digests`; if anything turns out to be
    something else, the ZIP file breaks off.
    """
    parts = _Parts()
    with zipfile.ZipFile(parts, "w", allowZip64=True) as archive:
        for name, wanted in {**digests, FILE: about.manifest_sha256}.items():
            entry = zipfile.ZipInfo(f"{inside}/{name}", _NO_DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            digest = hashlib.sha256()
            with _same_file(folder, name, about) as file, archive.open(entry, "w", force_zip64=True) as into:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    into.write(chunk)
                    yield parts.taken()
            if digest.hexdigest() != wanted:
                raise _changed()
            yield parts.taken()
    yield parts.taken()


@contextmanager
def _same_file(folder: Path, name: str, about: Fingerprint) -> Iterator[BinaryIO]:
    """A file of the release that is the one that was looked at, and neither a link nor a pipe in its place."""
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

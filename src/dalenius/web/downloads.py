"""What can be taken home: the release as a ZIP file, its report, and job files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from dalenius.errors import MissingExtraError, ReleaseError
from dalenius.release.manifest import FILE
from dalenius.web.answers import json_text
from dalenius.web.releases import StudioRelease
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
        release = self._release(request)
        page = await run_in_threadpool(_report_page, release)
        headers = {"Content-Security-Policy": REPORT_CSP, "X-Frame-Options": "SAMEORIGIN"}
        return Response(page, media_type="text/html", headers=headers)

    async def report_file(self, request: Request) -> Response:
        """GET /releases/ID/report.html: the same to keep."""
        release = self._release(request)
        page = await run_in_threadpool(_report_page, release)
        return _file(page, "text/html", f"{release.file_name}-report.html")

    async def report_object(self, request: Request) -> Response:
        """GET /releases/ID/report.json: what the report says, for scripts."""
        release = self._release(request)
        found = await run_in_threadpool(_report_object, release)
        return _file(json_text(found), "application/json", f"{release.file_name}-report.json")

    async def zipped(self, request: Request) -> Response:
        """GET /releases/ID/release.zip: the three files of the release in a folder of its name, as they are read."""
        release = self._release(request)
        if not all((release.path / name).is_file() for name in _files(release)):
            raise ReleaseError("the files of the release are not there any more", "Were they moved?")
        headers = _as_file(f"{release.file_name}.zip")
        return StreamingResponse(zip_parts(release.path, _files(release), release.file_name), 200, headers, _ZIP)

    async def job(self, request: Request) -> Response:
        """GET /releases/ID/job.toml: the job file that it was made by."""
        return _file(self._release(request).job_text, "application/toml", "job.toml")

    async def draft_job(self, _request: Request) -> Response:
        """GET /job.toml: the draft as a job file."""
        state = self._studio.state()
        table = self._studio.tables.get(state["table"]) if state["table"] is not None else None
        return _file(self._studio.job(self._studio.draft, table), "application/toml", "job.toml")

    def _release(self, request: Request) -> StudioRelease:
        return self._studio.releases.get(request.path_params["id"])


_ZIP = "application/zip"


def _file(text: str, kind: str, name: str) -> Response:
    return Response(text.encode("utf-8", "backslashreplace"), media_type=kind, headers=_as_file(name))


def _as_file(name: str) -> dict[str, str]:
    """To be saved, not shown; the name is of plain characters."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _files(release: StudioRelease) -> tuple[str, ...]:
    tables = release.manifest.tables
    return tables.qit.file, tables.st.file, FILE


def _report_object(release: StudioRelease) -> dict[str, Any]:
    try:
        from dalenius.report.facts import Facts
        from dalenius.report.twin import report_object
    except ImportError:
        raise MissingExtraError.of("Altair", "report") from None
    facts = Facts.of(release.path, release.judged(), audit=release.audit, from_raw_table=release.audited_with_truth)
    return report_object(facts)


def _report_page(release: StudioRelease) -> str:
    try:
        from dalenius.report.page import report_html
    except ImportError:
        raise MissingExtraError.of("Altair", "report") from None
    return report_html(_report_object(release))


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


def zip_parts(folder: Path, names: tuple[str, ...], inside: str) -> Iterator[bytes]:
    """A ZIP file of some files, made while it is sent. Parquet is compressed already, and goes in as it is."""
    parts = _Parts()
    with zipfile.ZipFile(parts, "w", allowZip64=True) as archive:
        for name in names:
            entry = zipfile.ZipInfo(f"{inside}/{name}", _NO_DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            with (folder / name).open("rb") as file, archive.open(entry, "w", force_zip64=True) as into:
                while chunk := file.read(_CHUNK):
                    into.write(chunk)
                    yield parts.taken()
            yield parts.taken()
    yield parts.taken()

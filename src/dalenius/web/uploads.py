"""Uploads: streamed to a private folder under a name of our choice, bounded, and gone if they do not arrive whole."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from dalenius.web.answers import json_answer
from dalenius.web.failures import RequestError
from dalenius.web.forms import require_type
from dalenius.web.studio import Studio

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq", ".duckdb", ".db")
_SPARE = 2**28  # bytes of the disk that an upload leaves free
_BETWEEN_LOOKS = 2**26  # bytes between looks at what is left
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
        name = _shown_name(request.query_params.get("name", ""))
        suffix = max((known for known in SUFFIXES if name.lower().endswith(known)), key=len, default=None)
        if suffix is None:
            raise RequestError(415, "unsupported", "this is not a kind of file that is read", f"Give {_LISTED}.")
        length = request.headers.get("content-length", "")
        self._check(int(length) if length.isdecimal() else 0)
        if self._one_at_a_time.locked():
            raise RequestError(409, "busy", "another file is being uploaded", "Wait until it is there.")
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

    async def _stream(self, request: Request, path: Path) -> None:
        received, looked, waiting = 0, 0, bytearray()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            try:
                async for chunk in request.stream():
                    received += len(chunk)
                    waiting += chunk
                    if received > self._studio.options.upload_limit or received - looked > _BETWEEN_LOOKS:
                        looked = received
                        self._check(received, left=len(waiting))
                    if len(waiting) >= _AT_ONCE:
                        await run_in_threadpool(file.write, bytes(waiting))
                        waiting.clear()
                file.write(waiting)
                file.flush()
            except ClientDisconnect:
                raise RequestError(400, "request", "the upload did not arrive whole") from None
            except OSError:
                raise _no_room() from None
        if not received:
            raise RequestError(400, "request", "the file is empty")

    def _check(self, size: int, left: int | None = None) -> None:
        """Refuse more than is allowed, and more than the disk has room for: all of it, or what is left to come."""
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


def _no_room() -> RequestError:
    return RequestError(
        413, "no-room", "the disk has no room for the file", "Start Studio with its path: then nothing is copied."
    )


def _shown_name(name: str) -> str:
    """The last part of what the browser calls the file, for people to read; nothing is ever opened by it."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c if c.isprintable() else "?" for c in last)[-_LONGEST_NAME:]


_LISTED = ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]}"

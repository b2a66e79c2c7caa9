"""A report from start to end: collect, tell it twice, write both files.

The page and its twin on disk: both whole, or what was there before.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dalenius.errors import UsageError
from dalenius.model.progress import Progress, Silent
from dalenius.release.staging import writable
from dalenius.report.facts import collect
from dalenius.report.page import report_html, require_libraries
from dalenius.report.twin import report_object, twin_text

_SUFFIXES = (".html", ".htm")


def twin_path(page: Path) -> Path:
    """Where the twin of a page goes."""
    return page.with_suffix(".json")


def check_target(page: Path, release: Path, replace: bool) -> None:
    """Refuse a place for the page that is in the way, or in the release, before any work is done."""
    if page.suffix.lower() not in _SUFFIXES:
        raise UsageError("the report is an HTML page", "Give --out a name that ends in .html.")
    if not page.parent.is_dir():
        raise UsageError("the folder for the report is not there", "Make it first, or give another --out.")
    if _is_inside(page.parent, release):
        raise UsageError(
            "the report would be in the folder of the release, which holds nothing but the release",
            "Give --out a place outside of it, such as ../report.html.",
        )
    for path in (page, twin_path(page)):
        if path.is_dir() and not path.is_symlink():
            raise UsageError(f"{path.name} is a folder", "Give another --out.")
        _is_there(path, replace)


def write_both(page: Path, html: str, twin: str, replace: bool) -> None:
    """Write both files beside their places, bring them to the disk, and put them there together."""
    contents = {twin_path(page): twin, page: html}
    with writable(), _beside(contents) as parts:
        for part, content in zip(parts, contents.values(), strict=True):
            with part.open("xb") as file:
                file.write(content.encode())
                file.flush()
                os.fsync(file.fileno())
        _put(dict(zip(contents, parts, strict=True)), replace)
        with suppress(OSError):  # the report is in its place: too late for an error
            _sync(page.parent)


@contextmanager
def _beside(contents: Mapping[Path, str]) -> Iterator[list[Path]]:
    """Names for the files before they are complete; what has them at the end is removed."""
    token = secrets.token_hex(8)
    parts = [path.with_name(f".{path.name}.{token}.part") for path in contents]
    try:
        yield parts
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _put(parts: Mapping[Path, Path], replace: bool) -> None:
    """Each in its place, in one step; if one cannot be, the other is as it was."""
    before: dict[Path, Path | None] = {}
    try:
        for path, part in parts.items():
            there = _is_there(path, replace)
            aside = part.with_suffix(".old")
            if there:
                shutil.copy2(path, aside, follow_symlinks=False)
            before[path] = aside if there else None
            part.replace(path)
    except BaseException:
        for path, kept in before.items():
            if kept is not None:
                kept.replace(path)
            elif not parts[path].exists():  # it went to its place
                path.unlink(missing_ok=True)
        raise
    finally:
        for part in parts.values():
            part.with_suffix(".old").unlink(missing_ok=True)


def _is_there(path: Path, replace: bool) -> bool:
    """Whether something has the place already, which may be replaced."""
    there = os.path.lexists(path)
    if there and not replace:
        raise UsageError(f"{path.name} is there already", "Give another --out, or --force to replace it.")
    return there


def _is_inside(folder: Path, release: Path) -> bool:
    here = folder.resolve()
    there = release.resolve()
    return here == there or there in here.parents


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_report(
    folder: Path,
    page: Path,
    *,
    force: bool = False,
    audit: bool = False,
    truth: Any = None,
    table: str | None = None,
    control: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the page about the release in a folder, with its twin beside it, whole or not at all. Gives the twin."""
    progress = progress or Silent()
    require_libraries()
    check_target(page, folder, force)
    facts = collect(folder, audit=audit, truth=truth, table=table, control=control, progress=progress)
    progress.stage("Writing")
    twin = report_object(facts)
    write_both(page, report_html(twin), twin_text(twin), force)
    return twin

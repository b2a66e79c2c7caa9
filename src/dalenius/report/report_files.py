"""A report from start to end: collect the facts, put them into a page and its JSON twin, and write both files.

Both files are written whole, or whatever was there before stays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dalenius.errors import UsageError
from dalenius.model.progress import Progress, Silent
from dalenius.policy.job import Job, ReportSection
from dalenius.release.atomic import writable, write_files
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
        _check_place(path, replace)


def write_both(page: Path, html: str, twin: str, replace: bool) -> None:
    """Write the page and its twin: both, or neither."""
    with writable():
        write_files(
            {twin_path(page): twin.encode(), page: html.encode()}, check=lambda path: _check_place(path, replace)
        )


def _check_place(path: Path, replace: bool) -> None:
    """Refuse a place that is taken, unless what is there may be replaced."""
    if os.path.lexists(path) and not replace:
        raise UsageError(f"{path.name} already exists", "Give another --out, or --force to replace it.")


def _is_inside(folder: Path, release: Path) -> bool:
    here = folder.resolve()
    there = release.resolve()
    return here == there or there in here.parents


def make_report(
    folder: Path,
    page: Path,
    *,
    force: bool = False,
    audit: bool = False,
    truth: Any = None,
    table: str | None = None,
    person: str | None = None,
    control: Any = None,
    head: ReportSection | None = None,
    job: Job | None = None,
    previous: Sequence[Path] = (),
    memory: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the page about the release in a folder, with its twin beside it, whole or not at all. Gives the twin."""
    progress = progress or Silent()
    require_libraries()
    check_target(page, folder, force)
    facts = collect(
        folder,
        audit=audit,
        truth=truth,
        table=table,
        person=person,
        control=control,
        head=head,
        job=job,
        previous=previous,
        memory=memory,
        progress=progress,
    )
    progress.stage("Writing")
    twin = report_object(facts)
    write_both(page, report_html(twin), twin_text(twin), force)
    return twin

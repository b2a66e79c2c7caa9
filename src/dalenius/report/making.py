"""A report from start to end: collect, tell it twice, write both files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dalenius.model.progress import Progress, Silent
from dalenius.report.facts import collect
from dalenius.report.files import check_target, write_both
from dalenius.report.page import report_html, require_libraries
from dalenius.report.twin import report_object, twin_text


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
    told = progress or Silent()
    require_libraries()
    check_target(page, folder, force)
    facts = collect(folder, audit=audit, truth=truth, table=table, control=control, progress=told)
    told.stage("Writing")
    twin = report_object(facts)
    write_both(page, report_html(twin), twin_text(twin), force)
    return twin

"""The report from Python: what it gives is what it wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import dalenius
from tests.report.releases import published


def test_a_release_reports_on_itself(tmp_path: Path) -> None:
    table = published(tmp_path / "release")
    release = dalenius.load(tmp_path / "release")
    twin = release.report(tmp_path / "page.html", truth=table)
    written = (tmp_path / "page.json").read_bytes()
    assert json.loads(written) == twin
    assert hashlib.sha256(written).hexdigest() in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert twin["holds"]
    assert twin["from_raw_table"]
    assert twin["verify"] == {**twin["verify"], "verified": True, "rows": table.num_rows}

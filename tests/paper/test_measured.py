"""Measurements are made once, for the same table, program and machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from paper.experiment import MEASUREMENTS, Measurements


def never() -> int:
    raise AssertionError("measured again")


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    assert Measurements(tmp_path, {"data": "a"}).get({"theta": 2}, lambda: [1, 2]) == [1, 2]
    again = Measurements(tmp_path, {"data": "a"})
    assert again.get({"theta": 2}, never) == [1, 2]
    assert again.get({"theta": 4}, lambda: 7) == 7


def test_another_table_starts_anew(tmp_path: Path) -> None:
    Measurements(tmp_path, {"data": "a"}).get({"theta": 2}, lambda: 1)
    assert Measurements(tmp_path, {"data": "b"}).get({"theta": 2}, lambda: 2) == 2


def test_fresh_measures_what_is_asked_for_and_keeps_the_rest(tmp_path: Path) -> None:
    before = Measurements(tmp_path, {})
    before.get({"theta": 2}, lambda: 1)
    before.get({"theta": 4}, lambda: 1)
    fresh = Measurements(tmp_path, {}, fresh=True)
    assert fresh.get({"theta": 2}, lambda: 5) == 5
    assert fresh.get({"theta": 2}, never) == 5
    assert Measurements(tmp_path, {}).get({"theta": 4}, never) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": {}}', '{"of": {}, "found": 3}'])
def test_a_broken_file_is_not_used(tmp_path: Path, text: str) -> None:
    (tmp_path / MEASUREMENTS).write_text(text)
    assert Measurements(tmp_path, {}).get({"theta": 2}, lambda: 3) == 3

"""Draws held as places in ST are the completed tables."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dalenius.analysis import completing, pieces
from dalenius.analysis.completing import Completion
from dalenius.analysis.draw_files import tables_of
from dalenius.analysis.groupings import Axis, coded
from dalenius.analysis.outcomes import draw_outcomes, possible_values, sort_out
from dalenius.errors import MemoryLimitError, NoSuchColumnError, UsageError
from dalenius.model.memory import ReadingMemory
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import lines, patients, released


@pytest.fixture(scope="module", name="folder")
def made(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    random = np.random.default_rng(0)
    stay = pa.array([None if place % 9 == 0 else int(random.integers(-3, 4)) for place in range(240)], pa.int32())
    sensitive: list[Any] = ["disease", {"columns": ["stay"], "null_value": "unknown"}]
    table = patients(240).append_column("stay", stay)
    target = tmp_path_factory.mktemp("made") / "release"
    return released(table, target, sensitive, quasi_identifiers=["age", "ward"])


@pytest.mark.parametrize("rows", [10, 2**17])
@pytest.mark.parametrize("identifiers", [["ward", "age"], ["age"], []])
def test_outcomes_are_the_completed_tables(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch, rows: int, identifiers: list[str]
) -> None:
    monkeypatch.setattr(completing, "_ROWS", rows)
    monkeypatch.setattr(pieces, "_BATCH", 16)
    drawn = draw_outcomes(folder, ["stay", "disease"], identifiers, draws=3, seed=4)
    tables = tables_of(Completion(folder, 3, columns=["stay", "disease"], seed=4))
    assert drawn.rows.num_rows == 240
    if identifiers:
        assert lines(drawn.rows, identifiers) == lines(tables[0], identifiers)
    for column in ("stay", "disease"):
        values, codes = drawn.kinds(column)
        assert values == sorted({cell for cell in tables[0][column].to_pylist() if cell is not None})
        for table, own in zip(tables, codes, strict=True):
            assert [values[code] if code >= 0 else None for code in own.tolist()] == table[column].to_pylist()


def test_one_draw_is_too_few(folder: ReleaseFolder) -> None:
    with pytest.raises(UsageError, match="got 1"):
        draw_outcomes(folder, ["disease"], [], draws=1)


def test_columns_are_sorted_out(folder: ReleaseFolder) -> None:
    assert sort_out(folder, ["ward", "stay", "age"]) == (["stay"], ["ward", "age"])
    with pytest.raises(NoSuchColumnError, match="wart"):
        sort_out(folder, ["wart"])


def test_draws_take_four_bytes_for_each_person(tmp_path: Path) -> None:
    """Whatever is worked out is so for one draw at a time."""
    rows, draws = 2000, 100
    drawn = draw_outcomes(released(patients(rows), tmp_path / "r"), ["disease"], ["age", "ward"], draws=draws, seed=1)
    tracemalloc.start()
    try:
        axes = [Axis(drawn, [coded(drawn, name) for name in names]) for names in (["ward"], ["age", "disease"])]
        tables = [np.bincount(row * 300 + column) for row, column in zip(*(one.of_draws for one in axes), strict=True)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(tables) == draws
    assert peak - sum(one.nbytes for one in tables) < 4 * rows * draws
    assert sum(one.nbytes for one in drawn._drawn.values()) == 4 * rows * draws


def test_what_does_not_fit_is_refused_before_it_is_drawn(folder: ReleaseFolder) -> None:
    spare = 240 * 2 * (4 * 800 + 200)  # half of it is for draws
    small = ReleaseFolder(folder.path, folder.manifest, memory=ReadingMemory(total=2 * spare, spare=spare))
    assert draw_outcomes(small, ["disease"], [], draws=700).draws == 700
    with pytest.raises(MemoryLimitError, match="what everybody has in all draws"):
        draw_outcomes(small, ["disease"], [], draws=900)


@pytest.mark.parametrize("column", ["age", "ward", "disease"])
def test_values_are_known_before_anything_is_drawn(folder: ReleaseFolder, column: str) -> None:
    drawn = draw_outcomes(folder, ["disease"], ["age", "ward"], draws=2, seed=1)
    assert possible_values(folder, column) == drawn.kinds(column)[0]

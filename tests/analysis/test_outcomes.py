"""Draws held as places in ST are the completed tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dalenius.analysis import completing, pieces
from dalenius.analysis.completing import Completion
from dalenius.analysis.draw_files import tables_of
from dalenius.analysis.outcomes import draw_outcomes, sort_out
from dalenius.errors import NoSuchColumnError, UsageError
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

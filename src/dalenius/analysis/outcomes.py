"""What everybody has in each of many draws, held as numbers: for models, cross-tabs and figures.

A draw is not held as a table, but as the place in ST that every row has: four bytes for a row and a draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.analysis.completing import DRAWS, Completion, require_draws
from dalenius.analysis.learned import Further, Lesson
from dalenius.analysis.pieces import distinct_rows, slot_tables
from dalenius.errors import NoSuchColumnError, UsageError, did_you_mean
from dalenius.infer.candidates import Integers
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder
from dalenius.release.release_views import view_of
from dalenius.verify.stated_bands import value_codes

Places = npt.NDArray[np.int32]
_BAND = "band"


@dataclass(frozen=True)
class Outcomes:
    """The rows' columns that were asked for, what slots hold by sensitive column, and the slot of each row by draw.

    `buckets` are numbered from 0, in the order of rows.
    """

    folder: ReleaseFolder
    rows: pa.Table
    buckets: Places
    _slots: dict[str, pa.ChunkedArray]
    _drawn: dict[str, Places]  # draws x rows
    draws: int
    notes: tuple[str, ...]

    def kinds(self, column: str, level: str | None = None) -> tuple[list[Any], list[Integers]]:
        """The values of a sensitive column, sorted, and for every draw which of them each row has; -1 for a null.

        With a `level`, their groups on this level; values that are in none stay what they are.
        """
        held = self._slots[column]
        values, places = distinct_rows(pa.table({"value": held}))
        every = values.column("value").to_pylist()
        if level is not None:
            named = _groups(self.folder, column, values.column("value"), level)
            every, of_values = np.unique(np.array(named, dtype=object), return_inverse=True)
            every, places = every.tolist(), of_values[places]
        order = sorted((place for place, value in enumerate(every) if value is not None), key=every.__getitem__)
        rank = np.full(len(every), -1)
        rank[order] = np.arange(len(order))
        of_slots = rank[places]
        return [every[place] for place in order], [of_slots[drawn] for drawn in self._drawn[column]]


def draw_outcomes(
    folder: ReleaseFolder,
    sensitive: Sequence[str],
    identifiers: Sequence[str],
    *,
    draws: int = DRAWS,
    seed: int | None = None,
    further: Further | None = None,
    lesson: Lesson | None = None,
    progress: Progress | None = None,
) -> Outcomes:
    """Draw values of some sensitive columns, and keep some of the quasi-identifiers.

    `lesson` is what was learned of these sensitive columns before.
    """
    require_draws(draws, seed, 2)
    manifest = folder.manifest
    needed = manifest.rows * 4 * (draws * len(sensitive) + len(identifiers) + 1)
    folder.memory.require(needed, folder.memory.engine, "what everybody has in all draws")
    completion = Completion(
        folder, draws, columns=sensitive, seed=seed, further=further, lesson=lesson, progress=progress
    )
    rows: list[pa.Table] = []
    slots: dict[str, list[pa.Array]] = {name: [] for one in completion.tables for name in one.names}
    drawn = [np.empty((draws, manifest.rows), np.int32) for _ in completion.tables]
    done, held, buckets = 0, [0] * len(drawn), np.empty(manifest.rows, np.int32)
    for piece, found in completion.drawn():
        before = buckets[done - 1] + 1 if done else 0
        buckets[done : done + len(piece)] = before + np.cumsum(np.diff(piece.buckets, prepend=piece.buckets[0]) > 0)
        rows.append(some_columns(piece.rows, identifiers))
        for place, table in enumerate(piece.slots):
            for number, own in enumerate(found):
                drawn[place][number, done : done + len(piece)] = own[place] + held[place]
            held[place] += table.num_rows
            for name in table.column_names:
                slots[name] += table.column(name).chunks
        done += len(piece)
    return Outcomes(
        folder=folder,
        rows=pa.concat_tables(rows).unify_dictionaries(),
        buckets=buckets,
        _slots={name: pa.chunked_array(chunks).unify_dictionaries() for name, chunks in slots.items()},
        _drawn={name: own for one, own in zip(completion.tables, drawn, strict=True) for name in one.names},
        draws=draws,
        notes=tuple(completion.notes),
    )


def _groups(folder: ReleaseFolder, column: str, values: pa.ChunkedArray, level: str) -> list[str]:
    """The group of every value on a level, by the manifest; "band" are the bands of numbers."""
    view = view_of(folder, column)
    manifest, groups = view.manifest, view.manifest.groups or []
    levels = dict.fromkeys([group.level for group in groups if group.level] + [_BAND] * (manifest.bands is not None))
    if level not in levels:
        there = did_you_mean(level, levels) if levels else "It was released without groups."
        raise UsageError(f"{column!r} has no level {level!r}", there)
    names = []
    for entry in manifest.values:
        place = entry.group
        while place is not None and groups[place].level != level:
            place = groups[place].parent
        names.append(entry.value if place is None else groups[place].name)
    codes = value_codes(manifest, [entry.value for entry in manifest.values], view.memory)
    of_values = [int(code) for chunk in values.chunks for code in codes.of(chunk)]
    return [names[code] if code < len(names) else str(codes.texts[code]) for code in of_values]


def require_one_table(folder: ReleaseFolder, sensitive: Sequence[str]) -> None:
    """Refuse sensitive columns whose values nothing in the release puts together."""
    if len(slot_tables(folder, sensitive)) > 1:
        raise UsageError(
            f"{' and '.join(map(repr, sensitive))} are published apart: which of their values go together is not in "
            "the release, and cannot be learned from it",
            "Ask about one of them by quasi-identifiers, or for a release made with --keep-together.",
        )


def sort_out(folder: ReleaseFolder, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which of these columns are sensitive, and which are quasi-identifiers; a NoSuchColumnError for any other."""
    manifest = folder.manifest
    sensitive = list(manifest.sensitive_names)
    identifiers = [column.name for column in manifest.columns.quasi_identifiers]
    for name in names:
        if name not in sensitive and name not in identifiers:
            hint = did_you_mean(name, (*identifiers, *sensitive))
            raise NoSuchColumnError(f"the release has no column {name!r}", hint)
    return [name for name in names if name in sensitive], [name for name in names if name in identifiers]


def some_columns(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Some columns; or one without a name that says nothing, since a table without columns has no rows."""
    return rows.select(list(names)) if names else pa.table({"": np.zeros(rows.num_rows, np.int8)})


def with_floats(table: pa.Table) -> pa.Table:
    """Decimals as floating-point numbers: pandas, and most of what takes its tables, knows no decimals."""
    columns = []
    for column in table.columns:
        coded = pa.types.is_dictionary(column.type)
        decimal = pa.types.is_decimal(column.type.value_type if coded else column.type)
        columns.append(
            (column.cast(column.type.value_type) if coded else column).cast(pa.float64()) if decimal else column
        )
    return pa.table(columns, names=table.column_names)


def plain_values(table: pa.Table) -> pa.Table:
    """Categories as the values that they stand for."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)

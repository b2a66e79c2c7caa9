"""What everybody has in each of many draws, held as numbers: for models, cross-tabs and figures.

A draw is not held as a table, but as the place in ST that every row has: four bytes for a row and a draw. Whatever else
there is to know of a draw is worked out from that when it is asked for, one draw after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.analysis.completing import DRAWS, Completion, require_draws
from dalenius.analysis.learned import Further, Lesson
from dalenius.analysis.pieces import distinct_rows, slot_tables
from dalenius.errors import NoSuchColumnError, UsageError, did_you_mean
from dalenius.infer.candidates import Integers
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.release_views import view_of
from dalenius.verify.stated_bands import value_codes

Places = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.integer[Any]]
_BAND = "band"
_QIT: TableName = "qit"
_MOST_KEY = 2**62
_WORKED = 160  # bytes for a row, beside the draws: what is worked out for one of them, or for a column


class DrawByDraw(Sequence[Places]):
    """A number of every row in each draw, worked out for a draw whenever it is asked for."""

    def __init__(self, draws: int) -> None:
        self._draws = draws

    def of(self, draw: int) -> Places:
        """The numbers of one draw."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._draws

    @overload
    def __getitem__(self, draw: int) -> Places: ...

    @overload
    def __getitem__(self, draw: slice) -> list[Places]: ...

    def __getitem__(self, draw: int | slice) -> Places | list[Places]:
        wanted = range(self._draws)[draw]
        return self.of(wanted) if isinstance(wanted, int) else [self.of(one) for one in wanted]


class Codes(DrawByDraw):
    """Which value of a sensitive column every row has; -1 for a null."""

    def __init__(self, of_slots: Integers, drawn: Places) -> None:
        super().__init__(len(drawn))
        self._of_slots, self._drawn = of_slots.astype(np.int32), drawn

    def of(self, draw: int) -> Places:
        """The values of everybody in one draw."""
        found: Places = self._of_slots[self._drawn[draw]]
        return found

    @property
    def nulls(self) -> bool:
        """Whether anybody may have a null."""
        return bool((self._of_slots < 0).any())

    def through(self, places: Integers) -> Codes:
        """The same, where each value is put into another place."""
        return Codes(np.where(self._of_slots >= 0, places[self._of_slots], -1), self._drawn)

    def filled(self, place: int) -> Codes:
        """The same, with a place for nulls."""
        return Codes(np.where(self._of_slots >= 0, self._of_slots, place), self._drawn)


class Combinations(DrawByDraw):
    """Which combination of values of some columns every row has: a place among the combinations that there are.

    A column has for each draw the code of every row, and so many different ones. `used` are the keys of combinations
    that somebody has in some draw; the first column counts most in a key.
    """

    def __init__(self, columns: Sequence[tuple[Sequence[Numbers], int]], rows: int, draws: int) -> None:
        super().__init__(draws)
        self._columns, self._rows = columns, rows
        if math.prod(kinds for _, kinds in columns) >= _MOST_KEY:
            raise UsageError("the columns have too many combinations of values", "Choose fewer columns.")
        self.used: Integers = np.zeros(0, np.int64)
        for draw in range(draws):
            self.used = np.union1d(self.used, np.unique(self._keys(draw)))

    def of(self, draw: int) -> Places:
        """The combinations of everybody in one draw."""
        return np.searchsorted(self.used, self._keys(draw)).astype(np.int32)

    def _keys(self, draw: int) -> Integers:
        keys = np.zeros(self._rows, np.int64)
        for codes, kinds in self._columns:
            keys *= kinds
            keys += codes[draw]
        return keys


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

    def published(self, column: str) -> bool:
        """Whether a column is one of the rows', and so alike in all draws."""
        return column in self.rows.column_names

    def kinds(self, column: str, level: str | None = None) -> tuple[list[Any], Codes]:
        """The values of a column, sorted, and for every draw which of them each row has; -1 for a null, or a NaN.

        With a `level`, the groups of sensitive values on this level, in the order of the manifest; values that are in
        none stay what they are.
        """
        held = self.rows.select([column]) if self.published(column) else pa.table({column: self._slots[column]})
        different, places = distinct_rows(held)
        if level is None:
            values, of_values = _ordered(different.column(0).to_pylist())
        else:
            values, of_values = _groups(self.folder, column, different.column(0), level)
        if self.published(column):
            return values, Codes(of_values, np.broadcast_to(places.astype(np.int32), (self.draws, len(places))))
        return values, Codes(of_values[places], self._drawn[column])


def _ordered(cells: Sequence[Any]) -> tuple[list[Any], Integers]:
    """Different values in their order, and the place of each there; -1 for a null, and for a NaN."""
    there = [place for place, cell in enumerate(cells) if cell is not None and not _is_nan(cell)]
    order = sorted(there, key=cells.__getitem__)
    rank = np.full(len(cells), -1)
    rank[order] = np.arange(len(order))
    return [cells[place] for place in order], rank


def _is_nan(cell: Any) -> bool:
    return isinstance(cell, float) and math.isnan(cell)


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
    tables = slot_tables(folder, sensitive)
    numbers = draws * len(tables) + 2 * sum(len(one.names) for one in tables) + 2 * len(identifiers) + 1
    needed = manifest.rows * (4 * numbers + _WORKED)
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


def possible_values(folder: ReleaseFolder, column: str) -> list[Any]:
    """The different values of a column in their order, without nulls and NaNs, before anything is drawn."""
    source, table = folder, _QIT
    if column in folder.manifest.sensitive_names:
        slots = slot_tables(folder, [column])[0]
        source, table = slots.folder, slots.table
    batches = source.batches(table, [column], coded=True)
    parts = [distinct_rows(pa.Table.from_batches([batch]))[0] for batch in batches]
    different = distinct_rows(pa.concat_tables(parts).unify_dictionaries())[0] if parts else pa.table({column: []})
    needed = different.num_rows * _WORKED
    folder.memory.require(needed, folder.memory.engine, f"the different values of {column!r}")
    return _ordered(different.column(0).to_pylist())[0]


def _groups(folder: ReleaseFolder, column: str, values: pa.ChunkedArray, level: str) -> tuple[list[str], Integers]:
    """The groups on a level, in the order of the manifest's values, and that of every value.

    "band" are the bands of numbers.
    """
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
    names += [str(text) for text in codes.texts[len(names) :]]
    first = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return list(first), np.array([first[names[code]] for code in of_values], np.int64)


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

"""Learned estimates for the answers of one release. Its classes of buckets are found once; queries come in batches.

Columns become integer codes by the text of their values: the same text has the same code, whatever the type. Under
DuckDB, ST is a stream of such codes, from which the classes are found; then the rows of QIT that match a condition are
counted by class. Numbers in bands are learned by band: the placement gave the records of each band to its slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.infer.candidates import encode_column
from dalenius.infer.compositions import UnsupportedError, find_compositions, first_buckets
from dalenius.infer.pooling import Associations
from dalenius.infer.simulation import BucketSample
from dalenius.model.estimate import Coverage, Estimate, GroupEstimate
from dalenius.query.attached_tables import Group, same_group
from dalenius.query.calibration import MOST_RECORDS, Calibration, calibrate
from dalenius.query.numbers import band_sql
from dalenius.query.release_tables import ReleaseTables, kind_of_type
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.tables.connections import quote_name
from dalenius.tables.open_table import Table
from dalenius.tables.table_errors import plain_errors, query_errors, release_errors

MIXED = "The condition ties quasi-identifiers to the sensitive column. Only conditions that separate them are learned."
_SINGLE_NUMBERS = "Numbers in bands are learned by band, not one by one."
_PART_OF_A_BAND = "The condition cuts through a band of numbers. Only conditions on whole bands are learned."
_TEXT = "CAST(s AS VARCHAR)"
_MOST_BANDS = 64  # whose covariances are found pair by pair
_ROWS_AT_ONCE = 2**18
_FETCHED_AT_ONCE = 10_000

Codes = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Learner:
    """Learns the association that a release shows. Raises UnsupportedError if a release does not allow that."""

    def __init__(self, folder: ReleaseFolder, tables: ReleaseTables, known: Calibration | None = None) -> None:
        self.known = known
        self._tables, self._sensitive = tables, folder.manifest.columns.sensitive.name
        self._codes = Dictionary(folder.manifest.null_value)
        self._manifest = folder.manifest
        self._banded = folder.manifest.bands is not None
        self._text = f"CAST({band_sql(tables, folder.manifest, 's')} AS VARCHAR)" if self._banded else _TEXT
        compositions = find_compositions(
            coded_values(tables, self._codes, self._text), first_buckets(folder.manifest.strata)
        )
        if tables.people_left:
            filling = compositions.filling(*tables.filled_buckets())
        else:
            filling = compositions.with_fakes(folder.manifest.adversary.fake_values)
        self._association = Associations(compositions, filling)
        keep_runs(tables, compositions.firsts, compositions.classes)

    def measure(self) -> Calibration:
        """How often intervals hold: measured when it is first needed."""
        if self.known is None:
            self.known = measured(self._tables, self._codes, self._manifest, self._text)
        return self.known

    def learn(
        self, answers: Sequence[GroupEstimate], rows: str, values: str, *, measure: bool = True
    ) -> list[GroupEstimate]:
        """The same answers, to a condition on rows and one on values, with learned estimates.

        `measure` how often intervals hold, and widen learned ones until they do. Raises UnsupportedError if the
        condition on values cannot be learned.
        """
        columns = list(answers[0].group) if answers else []
        place = columns.index(self._sensitive) if self._sensitive in columns else None
        own = [i for i in range(len(columns)) if i != place]
        waiting: dict[Group, list[int]] = {}  # answers by their group of rows
        for number, answer in enumerate(answers):
            cells = list(answer.group.values())
            waiting.setdefault(same_group(cells[i] for i in own), []).append(number)
        sets = self._value_sets(values, grouped=place is not None)
        learned = list(answers)
        pending: list[tuple[int, Floats, Floats]] = []

        def flush() -> None:
            if pending:
                numbers, matching, wanted = zip(*pending, strict=True)
                for number, estimate in zip(
                    numbers, self._estimates(learned, numbers, matching, wanted, measure), strict=True
                ):
                    learned[number] = replace(learned[number], estimate=estimate)
                pending.clear()

        for group, matching in self._matching(rows, [columns[i] for i in own], list(waiting)):
            for number in waiting.get(group, ()):
                cells = list(answers[number].group.values())
                value = same_group([cells[place]]) if place is not None else ()
                pending.append((number, matching, sets.get(value, self._nothing)))
                if len(pending) == self._association.at_once:
                    flush()
        flush()
        return learned

    @property
    def _nothing(self) -> Floats:
        return np.zeros(self._association.values)

    def _value_sets(self, values: str, *, grouped: bool) -> dict[Group, Floats]:
        """The set C, by group of the sensitive column; if there are none, all under ()."""
        sets: dict[Group, Floats] = {}
        if self._banded:
            sets[()] = self._whole_bands(values)
            if grouped:
                raise UnsupportedError(_SINGLE_NUMBERS)
            return sets
        for text, value in values_that_match(self._tables, values, self._sensitive):
            chosen = sets.setdefault(same_group(value) if grouped else (), self._nothing)
            chosen[self._codes.code(text)] = 1.0
        return sets

    def _whole_bands(self, values: str) -> Floats:
        """The bands all of whose numbers match; none may match in part."""
        chosen = self._nothing
        query = f"SELECT {self._text}, count(*) FILTER (WHERE {values}), count(*) FROM {self._tables.values} GROUP BY 1"  # noqa: S608
        with query_errors():
            for text, matching, every in self._tables.connection.execute(query).fetchall():
                if 0 < matching < every:
                    raise UnsupportedError(_PART_OF_A_BAND)
                chosen[self._codes.code(text)] = float(matching > 0)
        return chosen

    def bands(self, rows: str) -> dict[str, tuple[float, Floats]]:
        """For a condition on rows, and by band: how many records are expected, and their covariances with all bands.

        Posterior means and variances are linear and quadratic in what is wanted, so that those of single bands and of
        pairs are enough: Cov(x, y) = (Var(x + y) - Var x - Var y) / 2. Raises UnsupportedError if there are too many.
        """
        if len(self._codes) > _MOST_BANDS:
            raise UnsupportedError(f"There are more than {_MOST_BANDS} bands.")
        names = {self._codes.code(text): text for text in self._codes.texts}
        ((_, matching),) = self._matching(rows, [], [()])
        one = np.eye(self._association.values)
        first, second = np.triu_indices(len(one), 1)
        wanted = np.concatenate([one, one[first] + one[second]])
        at_once = self._association.at_once
        parts = [
            self._association.posterior(np.tile(matching, (len(some), 1)), some)
            for some in (wanted[i : i + at_once] for i in range(0, len(wanted), at_once))
        ]
        means = np.concatenate([part.mean for part in parts])[: len(one)]
        variances = np.concatenate([part.deviation for part in parts]) ** 2
        covariance = np.diag(variances[: len(one)])
        covariance[first, second] = (variances[len(one) :] - variances[first] - variances[second]) / 2
        covariance[second, first] = covariance[first, second]
        return {name: (float(means[code]), covariance[code]) for code, name in sorted(names.items())}

    def _matching(self, rows: str, by: Sequence[str], groups: Sequence[Group]) -> Iterator[tuple[Group, Floats]]:
        """The y of every group of rows; zeros where nothing matches."""
        missing = dict.fromkeys(groups)
        for group, entries in groupby(rows_by_class(self._tables, rows, by), key=lambda entry: same_group(entry[0])):
            matching = np.zeros(self._association.classes)
            for _, kind, count in entries:
                matching[kind] += count
            missing.pop(group, None)
            yield group, matching
        for group in missing:
            yield group, np.zeros(self._association.classes)

    def _estimates(
        self,
        answers: Sequence[GroupEstimate],
        numbers: Sequence[int],
        matching: Sequence[Floats],
        wanted: Sequence[Floats],
        measure: bool,
    ) -> Iterator[Estimate]:
        targets = np.array(wanted)
        found = self._association.posterior(np.array(matching), targets)
        plain = [answers[number].estimate for number in numbers]
        coverages: list[tuple[Coverage | None, Coverage | None]] = [(None, None)] * len(plain)
        if measure:
            calibration = self.measure()
            found = calibration.widened(found, targets)
            coverages = calibration.coverages(targets, np.array([estimate.estimate for estimate in plain]))
        for i, (estimate, known) in enumerate(zip(plain, coverages, strict=True)):
            ends = float(found.mean[i]), float(found.deviation[i]), float(found.low[i]), float(found.high[i])
            yield estimate.with_learning(*ends, known)


class Dictionary:
    """The codes of one column, from 0 in order of first appearance. A null is -1, or counts as the null's name.

    Texts that are codes for what is `missing` are nulls: a table may have them, and its release has none.
    """

    def __init__(self, null_name: str | None = None, missing: Sequence[str] = ()) -> None:
        self._codes: dict[str, int] = {}
        self._null_name, self._missing = null_name, frozenset(missing)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def texts(self) -> list[str]:
        """All texts that have appeared, in the order of their codes."""
        return list(self._codes)

    def code(self, text: str | None) -> int:
        """The code of a text that has appeared."""
        name = self._name(text)
        return -1 if name is None else self._codes[name]

    def encode(self, texts: Any) -> Codes:
        """The codes of a column of texts."""
        encoded = texts.dictionary_encode()
        listed = [*encoded.dictionary.to_pylist(), *([None] if encoded.null_count else [])]
        names = [self._name(text) for text in listed]
        known = [-1 if name is None else self._codes.setdefault(name, len(self._codes)) for name in names]
        places = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        codes: Codes = np.array(known, dtype=np.int32)[places]
        return codes

    def _name(self, text: str | None) -> str | None:
        return self._null_name if text is None or text in self._missing else text


def table_codes(table: Table, columns: Sequence[str], dictionaries: Sequence[Dictionary]) -> list[Codes]:
    """The codes of columns of a table."""
    with plain_errors():
        return _codes(table.relation, [quote_name(name) for name in columns], dictionaries)


def release_codes(
    tables: ReleaseTables, columns: Sequence[str], dictionaries: Sequence[Dictionary]
) -> tuple[npt.NDArray[np.int64], list[Codes]]:
    """The codes of columns of QIT, or of the one of ST, with the buckets of their rows."""
    names = [tables.identifiers[name] for name in columns]
    view = tables.connection.table("st" if names == ["s"] else "qit")
    with release_errors():
        buckets = np.concatenate([np.asarray(batch["b"]) for batch in view.project("b").to_arrow_reader(_ROWS_AT_ONCE)])
        return buckets.astype(np.int64), _codes(view, names, dictionaries)


def _codes(relation: Any, columns: Sequence[str], dictionaries: Sequence[Dictionary]) -> list[Codes]:
    texts = ", ".join(f"CAST({column} AS VARCHAR) AS c{i}" for i, column in enumerate(columns))
    parts: list[list[Codes]] = [[np.zeros(0, dtype=np.int32)] for _ in columns]
    for batch in relation.project(texts).to_arrow_reader(_ROWS_AT_ONCE):
        for part, dictionary, column in zip(parts, dictionaries, batch.columns, strict=True):
            part.append(dictionary.encode(column))
    return [np.concatenate(part) for part in parts]


def coded_values(
    tables: ReleaseTables, values: Dictionary, text: str = _TEXT, rows: int = _ROWS_AT_ONCE
) -> Iterator[tuple[Integers, Codes]]:
    """The buckets of ST and the codes of its values, in the order of the file. `text` is a value's text in SQL.

    Buckets without rows are left out.
    """
    with release_errors():
        filled = tables.filled_buckets()[0] if tables.people_left else None
        stream = tables.connection.table("st").project(f"b, {text} AS s")
        for batch in stream.to_arrow_reader(rows):
            buckets, texts = np.asarray(batch["b"]).astype(np.int64), batch["s"]
            if filled is not None:
                there = np.isin(buckets, filled)
                buckets, texts = buckets[there], texts.filter(pa.array(there))
            yield buckets, values.encode(texts)


def measured(tables: ReleaseTables, values: Dictionary, manifest: Manifest, text: str = _TEXT) -> Calibration:
    """How often the intervals of a release hold, for the codes of its values."""
    sample = bucket_sample(tables, values, manifest, MOST_RECORDS / max(manifest.rows, 1), text)
    return calibrate(sample, max(1, round(manifest.rows / max(sample.rows, 1))))


def bucket_sample(
    tables: ReleaseTables, values: Dictionary, manifest: Manifest, share: float, text: str = _TEXT
) -> BucketSample:
    """All buckets, or if the share is below 1 so many of them, chosen by their numbers; the same ones every time."""
    names = [name for name, identifier in tables.identifiers.items() if identifier != "s"]
    chosen = f"hash(b) % 1000000 < {int(1_000_000 * share)}" if share < 1 else "TRUE"
    cells = "".join(f"{_plain_cells(tables, tables.identifiers[name])}, " for name in names)
    order = ", ".join(str(place + 1) for place in (len(names), *range(len(names))))  # the same whatever the files are
    with release_errors():
        read = tables.connection.sql
        rows = read(f"SELECT {cells} b FROM qit WHERE {chosen} ORDER BY {order}").to_arrow_table()  # noqa: S608
        slots = read(f"SELECT {text} AS s, b FROM {tables.values} WHERE {chosen} ORDER BY 2, 1").to_arrow_table()  # noqa: S608
    numbers, slot_buckets = np.unique(slots["b"].to_numpy().astype(np.int64), return_inverse=True)
    if not len(numbers):  # few large buckets: none was chosen
        return bucket_sample(tables, values, manifest, 1.0, text)
    columns = [encode_column(name, rows.column(i), len(values)) for i, name in enumerate(names)]
    return BucketSample(
        columns=tuple(column for column in columns if column is not None),
        row_buckets=np.searchsorted(numbers, rows["b"].to_numpy().astype(np.int64)),
        slot_buckets=slot_buckets,
        slot_values=np.concatenate(
            [values.encode(chunk).astype(np.int64) for chunk in slots["s"].chunks] or [np.zeros(0, dtype=np.int64)]
        ),
        stratum_of=np.searchsorted(first_buckets(manifest.strata), numbers, side="right"),
        values=len(values),
    )


def _plain_cells(tables: ReleaseTables, identifier: str) -> str:
    """A column as arrays can hold it."""
    return identifier if kind_of_type(tables.types[identifier]) != "other" else f"CAST({identifier} AS VARCHAR)"


def keep_runs(tables: ReleaseTables, firsts: Integers, classes: Integers) -> None:
    """Keep the class of every bucket: that of the last run that begins at it or before it."""
    with release_errors():
        tables.connection.register("new_runs", pa.table({"first": firsts, "class": classes}))
        tables.connection.execute("CREATE OR REPLACE TEMP TABLE runs AS SELECT * FROM new_runs")
        tables.connection.unregister("new_runs")


def rows_by_class(tables: ReleaseTables, rows: str, by: Sequence[str]) -> Iterator[tuple[Group, int, int]]:
    """After `keep_runs`: group, class and number of the rows that match, one group of QIT columns after another."""
    names, selected, order = tables.group_sql(by)
    return _fetch(
        tables,
        f"""SELECT {selected} class, count(*)
        FROM (SELECT * FROM qit WHERE {rows}) AS q ASOF JOIN runs ON q.b >= runs.first
        GROUP BY {names} class ORDER BY {order} class""",  # noqa: S608
    )


def values_that_match(tables: ReleaseTables, values: str, sensitive: str) -> list[tuple[str | None, Group]]:
    """The values of ST that match, as text and as in groups."""
    _, selected, _ = tables.group_sql([sensitive])
    query = f"SELECT CAST(s AS VARCHAR), {selected} 0 FROM {tables.values} WHERE {values} GROUP BY s"  # noqa: S608
    with query_errors():
        return [(text, (value,)) for text, value, _ in tables.connection.execute(query).fetchall()]


def _fetch(tables: ReleaseTables, query: str) -> Iterator[tuple[Group, int, int]]:
    with query_errors():
        result = tables.connection.execute(query)
        while batch := result.fetchmany(_FETCHED_AT_ONCE):
            for row in batch:
                yield tuple(row[:-2]), int(row[-2]), int(row[-1])

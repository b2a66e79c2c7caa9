"""Who of a table was in the release before, with which value: the table, the ledger and the release before, joined.

DuckDB joins keyed hashes, in memory and a scratch folder within a budget. What comes out is `Whereabouts`: the bucket
of every row of the table, in its order, 0 for rows of people who are in none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dalenius.errors import LedgerError, SelfCheckError, UsageError
from dalenius.place.domains import Integers
from dalenius.place.numbering import person_texts, refuse_nobody
from dalenius.publishing.whereabouts import ValueTexts, Whereabouts, as_type
from dalenius.release.folder import ReleaseFolder
from dalenius.release.ledger_file import ENTRY, Entries, Ledger, LedgerKey
from dalenius.tables.arrays import arrow_array, numpy_array
from dalenius.tables.arrow import Source
from dalenius.tables.connections import connect

_NAMES = ("high", "low", "bucket", "slot", "seen")  # of an entry
_CHUNK = 2**18  # rows at a time
_NUMBER = 8  # bytes
_NOT_HERE = "Name the column that the release before was made with, written as it was then."


@dataclass(frozen=True)
class Movements:
    """Who stayed, left, came back, came for the first time, or changed their value since the release before."""

    stayed: int
    returned: int
    left: int
    new: int
    changed: int


class FollowedPeople:
    """The people of a table, and of the ledger of the release before, if there is one."""

    def __init__(self, scratch: Path, memory: int, key: LedgerKey) -> None:
        self._stack = ExitStack()
        self._connection = connect(str(scratch), self._stack, memory)
        self._scratch, self._key = scratch, key
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(
        self,
        source: Source,
        person: str,
        sensitive: pa.Field,
        values: ValueTexts,
        batch_rows: int,
        advance: Callable[[int], None],
    ) -> None:
        """The persons of the table, and their values; an error if a person has several rows."""
        schema = pa.schema([("row", pa.int64()), ("person", pa.string()), ("value", pa.int32())])
        nulls = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal nulls
            for batch in source.batches([person, sensitive.name], batch_rows):
                texts = person_texts(batch.column(0))
                nulls += texts.null_count
                numbers = values.numbers(as_type(batch.column(1), sensitive))
                row = np.arange(self.rows, self.rows + len(texts))
                self.rows += len(texts)
                yield pa.record_batch([arrow_array(row), texts, arrow_array(numbers)], schema=schema)
                advance(len(texts))

        inner, outer = self._key.pads
        hashed = "sha256($outer::BLOB || unhex(sha256($inner::BLOB || encode(person))))"
        self._create(
            "here AS SELECT row, ('0x' || hash[1:16])::UBIGINT AS high, ('0x' || hash[17:32])::UBIGINT AS low, value "
            f"FROM (SELECT row, value, {hashed} AS hash FROM given)",
            schema,
            batches(),
            inner=inner,
            outer=outer,
        )
        refuse_nobody(person, nulls, self.rows)
        values.refuse_nulls()
        different = self._one("SELECT count(*) FROM (SELECT DISTINCT high, low FROM here)")
        if different < self.rows:
            raise UsageError(
                f"{self.rows - different:,} of {self.rows:,} rows are of a person who has another one, or whose "
                f"{person!r} differs from another's by case, blanks or '.0' alone; a chain of releases follows people "
                "with one row each",
                "Make one row of each person's rows first. Without --ledger, --person publishes several rows a person, "
                "once.",
            )

    def join(self, ledger: Ledger | None, before: ReleaseFolder | None, values: ValueTexts) -> Movements:
        """Find out who was in the release before; afterwards `whereabouts` knows where."""
        schema = pa.schema(
            {"high": pa.uint64(), "low": pa.uint64(), "bucket": pa.int64(), "slot": pa.int64()}
            | {"seen": pa.int32(), "had": pa.int32()}
        )
        both = _with_values(ledger, before, values) if ledger is not None and before is not None else iter(())
        self._create("before AS SELECT * FROM given", schema, _named(both, schema))
        self._run(
            "CREATE TABLE everybody AS SELECT before.*, here.row, here.value, here.value = had AS same "
            "FROM before LEFT JOIN here USING (high, low)"
        )
        self._run("DROP TABLE before")
        last = ledger.belongs.release if ledger is not None else 0
        counts = self._connection.execute(
            "SELECT count(*) FILTER (same AND seen = $last), count(*) FILTER (same AND seen < $last), "
            "count(*) FILTER (row IS NULL AND seen = $last), count(*) FILTER (NOT same), count(*) FROM everybody",
            {"last": last},
        ).fetchall()
        stayed, returned, left, changed, known = (int(count) for count in counts[0])
        found = Movements(stayed, returned, left, self.rows - stayed - returned - changed, changed)
        if known and not stayed + returned + changed:
            raise UsageError(
                "nobody of the table was in the release before: is --person the right column, or are people written in "
                "another way than they were?",
                _NOT_HERE,
            )
        return found

    def whereabouts(self) -> Whereabouts:
        """The bucket of every row: of those who stay, or come back, the one where they were."""
        found = Whereabouts(self.rows, self._scratch)
        query = "SELECT row, bucket FROM everybody WHERE same ORDER BY row"
        start = 0
        for batch in self._connection.sql(query).to_arrow_reader(_CHUNK):
            rows, buckets = (numpy_array(column) for column in batch.columns)
            if not len(rows):
                continue
            end = int(rows[-1]) + 1
            filled_in = np.zeros(end - start, np.int64)
            filled_in[rows - start] = buckets
            for first in range(0, len(filled_in), _CHUNK):
                found.write(start + first, filled_in[first : first + _CHUNK])
            start = end
        return found

    def counts_of_new(self, where: Whereabouts, values: ValueTexts) -> dict[str, int]:
        """How many of the rows without a bucket have each value."""
        reader = self._connection.sql("SELECT row, value FROM here ORDER BY row").to_arrow_reader(_CHUNK)
        counts = np.zeros(len(values.texts), np.int64)
        for batch in reader:
            rows, numbers = (numpy_array(column) for column in batch.columns)
            if len(rows):
                new = where.read(int(rows[0]), len(rows)) == 0
                counts += np.bincount(numbers[new], minlength=len(counts))
        return {text: int(count) for text, count in zip(values.texts, counts, strict=True) if count}

    def place(self, rows_and_buckets: Iterator[tuple[Integers, Integers]], slots: Iterator[list[Any]]) -> None:
        """Tell where the new rows went, and which slots their buckets have: runs of (bucket, value, slot, length)."""
        schema = pa.schema([("row", pa.int64()), ("bucket", pa.int64())])
        placed = (pa.record_batch([arrow_array(one) for one in pair], schema=schema) for pair in rows_and_buckets)
        self._create("placed AS SELECT * FROM given", schema, placed)
        runs = pa.schema([(name, pa.int64()) for name in ("bucket", "value", "slot", "length")])
        batches = (pa.record_batch([arrow_array(one) for one in run], schema=runs) for run in slots)
        self._create(
            "slots AS SELECT bucket, value, min(slot) AS slot, sum(length) AS length FROM given GROUP BY ALL",
            runs,
            batches,
        )
        self._run(
            "CREATE TABLE added AS SELECT high, low, bucket, slot + turn AS slot, turn < length AS fits FROM (SELECT "
            "high, low, bucket, value, row_number() OVER (PARTITION BY bucket, value ORDER BY high, low) - 1 AS turn "
            "FROM placed JOIN here USING (row)) JOIN slots USING (bucket, value)"
        )
        fitting = self._one("SELECT count(*) FILTER (fits) FROM added")
        if fitting != self._one("SELECT count(*) FROM placed"):
            raise SelfCheckError("somebody is in a bucket that does not have their value")

    def entries(self, release: int, held_back: bool) -> Iterator[Entries]:
        """The ledger of the next release. Whoever changed their value and is held back stays as they were."""
        query = (
            "SELECT high, low, bucket, slot, (CASE WHEN same THEN $release ELSE seen END)::INTEGER AS seen "
            "FROM everybody WHERE row IS NULL OR same OR $held_back"
        )
        if not held_back:
            query += " UNION ALL SELECT high, low, bucket, slot, $release::INTEGER FROM added"
        parameters = {"release": release, "held_back": held_back}
        found = self._connection.sql(f"{query} ORDER BY bucket, slot", params=parameters)
        for batch in found.to_arrow_reader(_CHUNK):
            entries = np.empty(batch.num_rows, ENTRY)
            for name, column in zip(_NAMES, batch.columns, strict=True):
                entries[name] = numpy_array(column)
            yield entries

    def _create(self, what: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], **parameters: bytes) -> None:
        """A table of what there is in `given`; errors of whoever gives it come through as they are."""
        failed: list[BaseException] = []

        def given() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as error:
                failed.append(error)
                raise

        self._connection.register("given", pa.RecordBatchReader.from_batches(schema, given()))
        try:
            self._connection.execute(f"CREATE TABLE {what}", parameters or None).fetchall()
        except Exception:
            if failed:
                raise failed[0] from None
            raise
        finally:
            self._connection.unregister("given")

    def _run(self, statement: str) -> None:
        self._connection.execute(statement).fetchall()

    def _one(self, query: str) -> int:
        ((number,),) = self._connection.execute(query).fetchall()
        return int(number)


def _with_values(ledger: Ledger, before: ReleaseFolder, values: ValueTexts) -> Iterator[tuple[Any, ...]]:
    """The entries of a ledger, each with the number of its value, by the slots of ST. Both are in the same order."""
    manifest = before.manifest
    sizes = max(group.size for group in manifest.setting) + manifest.adversary.fake_values
    shift = sizes.bit_length()
    if manifest.buckets.bit_length() + shift > 62:
        raise UsageError("the release before has too many buckets to be followed", "Begin a new chain.")
    entries = ledger.entries()
    open_entries = np.empty(0, ENTRY)
    bucket_of, before_it = 0, 0  # of the last row, and how many rows its bucket had
    for batch in before.batches("st", coded=True):
        buckets = numpy_array(batch.column(0)).astype(np.int64)
        numbers = values.numbers(batch.column(1))
        if not len(buckets):
            continue
        firsts = np.flatnonzero(np.diff(buckets, prepend=-1))
        lengths = np.diff(firsts, append=len(buckets))
        slots = np.arange(len(buckets)) - np.repeat(firsts, lengths)
        if buckets[0] == bucket_of:
            slots[: lengths[0]] += before_it
        bucket_of, before_it = int(buckets[-1]), int(slots[-1]) + 1
        keys = buckets << shift | slots
        while not len(open_entries) or _keys(open_entries[-1:], shift)[0] <= keys[-1]:
            more = next(entries, None)
            if more is None:
                break
            open_entries = np.concatenate([open_entries, more])
        cut = int(np.searchsorted(_keys(open_entries, shift), keys[-1], side="right"))
        now, open_entries = open_entries[:cut], open_entries[cut:]
        wanted = _keys(now, shift)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        if (keys[places] != wanted).any():
            raise _contradiction()
        yield (*(now[name] for name in _NAMES), numbers[places])
    if len(open_entries) or next(entries, None) is not None:
        raise _contradiction()


def _keys(entries: Entries, shift: int) -> Integers:
    keys: Integers = entries["bucket"] << shift | entries["slot"]
    return keys


def _contradiction() -> LedgerError:
    return LedgerError(
        "the ledger speaks of values that the release before does not have",
        "Restore the release, and the ledger that was written with it.",
    )


def _named(columns: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for some in columns:
        yield pa.record_batch([arrow_array(np.ascontiguousarray(one)) for one in some], schema=schema)

"""Who of a table was in the release before, with which value: the persons of the table and of the ledger, matched.

Persons are pseudonyms (`LedgerKey.pseudonyms`), which are as good as random. So they are cut by their first bits into
parts of about equal size, which are stored in a scratch file, and matched part by part with the ledger, whose entries
are in order. No more than some parts are in memory at a time, however long the table is.

What comes out is `Whereabouts`: the bucket of every row of the table, 0 for rows of people who are in none yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import UsageError
from dalenius.place.budget import Budget, in_parallel
from dalenius.place.domains import Integers
from dalenius.place.numbering import person_texts, refuse_nobody
from dalenius.publishing.followed_rows import Parts, ValueTexts, Whereabouts, as_type, taken
from dalenius.release.ledger_file import ENTRY, Entries, Ledger, LedgerKey
from dalenius.tables.arrow import Source

_PARTS = 256
_SHIFT = np.uint64(64 - 8)  # the first bits of a pseudonym say its part
_HERE = np.dtype([("high", "<u8"), ("low", "<u4"), ("value", "<i4"), ("row", "<i8")])
_AWAY, _STAYS, _MOVED = range(3)  # what became of somebody in the ledger
_NOBODY = np.empty(0, ENTRY)
_LOW = np.uint64(2**32 - 1)
_LOW_WORD = 2**32 - 1
_KEY_BYTES = 8
_FEW = 20  # people, of whom most may have another value
_MANY = 5  # people who had a value, and all have the same other one
_MOST_RELEASES, _MOST_BUCKETS = 2**32 - 1, 2**32 - 1
_NOT_HERE = "Name the column that the release before was made with, written as it was then."


@dataclass(frozen=True)
class Movements:
    """Who stayed, left, came back, came for the first time, or changed their value since the release before."""

    stayed: int
    returned: int
    left: int
    new: int
    changed: int
    recoded: tuple[int, int, int] | None = None  # a value that everybody lost for another one, that one, and how many

    @property
    def matched(self) -> int:
        """Those who were in the chain before."""
        return self.stayed + self.returned + self.changed


class FollowedPeople:
    """The people of a table, and of the ledger of the release before, if there is one."""

    def __init__(self, scratch: Path, key: LedgerKey, budget: Budget, rows: int | None) -> None:
        """`rows` is how many the table has, if that is known: then they may be kept in memory."""
        self._key, self._scratch = key, scratch
        small = rows is not None and budget.keys_fit(rows * _HERE.itemsize // _KEY_BYTES)
        self._here = Parts(_HERE, _PARTS, None if small else scratch)  # everybody in the table
        self._new = Parts(_HERE, _PARTS, None if small else scratch)  # those who are in no bucket yet
        self._fates: list[npt.NDArray[np.uint8]] = []  # of everybody in the ledger, part by part: a byte each
        self._ledger: Ledger | None = None
        self._renumbered = np.empty(0, np.uint32)
        self._where: Whereabouts | None = None
        self.rows = 0

    def close(self) -> None:
        """Let go of memory and scratch files."""
        for parts in (self._here, self._new):
            parts.close()
        if self._where is not None:
            self._where.close()

    def read(
        self,
        source: Source,
        person: str,
        sensitive: pa.Field,
        values: ValueTexts,
        batch_rows: int,
        workers: Executor,
        advance: Callable[[int], None],
    ) -> None:
        """The persons of the table, and their values."""
        nulls = 0

        def numbered() -> Iterator[tuple[int, pa.RecordBatch]]:
            for batch in source.batches([person, sensitive.name], batch_rows):
                yield self.rows, batch
                self.rows += batch.num_rows

        def hashed(numbered: tuple[int, pa.RecordBatch]) -> tuple[int, int, npt.NDArray[np.void], list[int]]:
            first, batch = numbered
            texts, column = person_texts(batch.column(0)), as_type(batch.column(1), sensitive)
            if texts.null_count:
                return len(texts), texts.null_count, np.empty(0, _HERE), []
            pseudonyms = self._key.pseudonyms(texts)
            parts = (pseudonyms[:, 0] >> _SHIFT).astype(np.uint8)
            entries = _entries(pseudonyms, first, values.numbers(column))
            ordered = taken(entries, np.argsort(parts, kind="stable"))
            return len(texts), 0, ordered, np.bincount(parts, minlength=_PARTS).tolist()

        for rows, missing, entries, counts in in_parallel(hashed, numbered(), workers):
            nulls += missing
            self._here.add(entries, counts)
            advance(rows)
        refuse_nobody(person, nulls, self.rows)
        values.refuse_nulls()

    def match(
        self, person: str, ledger: Ledger | None, values: ValueTexts, workers: Executor
    ) -> tuple[Whereabouts, Movements]:
        """Where everybody is who was there before, with the same value; an error if a person has several rows."""
        self._where = where = Whereabouts(self.rows, self._scratch)
        counts, several, changes = np.zeros(4, np.int64), 0, _Changes()
        release = ledger.belongs.release if ledger is not None else 0
        if release >= _MOST_RELEASES:
            raise UsageError(f"a chain has at most {_MOST_RELEASES:,} releases", "Begin a new chain.")
        self._ledger = ledger
        self._renumbered = np.array(
            [values.number(text) for text in ledger.belongs.values] if ledger else [], np.uint32
        )

        def compare(numbered: tuple[int, Entries]) -> _Compared:
            part, there = numbered
            return _compared(_in_order(self._here.part(part)), there, self._renumbered, release, where)

        for part, one in enumerate(in_parallel(compare, enumerate(_by_part(ledger)), workers)):
            several += one.repeated
            counts += one.counts
            changes.add(one.before, one.now)
            self._fates.append(one.fates)
            self._new.append(part, one.new)
        self._here.close()
        if several:
            raise UsageError(
                f"{several:,} of {self.rows:,} rows are of a person who has another one, or whose {person!r} differs "
                "from another's by case, blanks or '.0' alone; a chain of releases follows people with one row each",
                "Make one row of each person's rows first. Without --ledger, --person publishes several rows a person, "
                "once.",
            )
        stayed, returned, left, changed = (int(count) for count in counts)
        if ledger is not None and not stayed + returned + changed:
            raise UsageError(
                "nobody of the table was in a release of the chain before: is --person the right column, or are people "
                "written in another way than they were?",
                _NOT_HERE,
            )
        new = self.rows - stayed - returned - changed
        return where, Movements(stayed, returned, left, new, changed, changes.recoded())

    def counts_of_new(self, values: ValueTexts) -> dict[str, int]:
        """How many of those who are in no bucket yet have each value."""
        texts = values.texts
        counts = np.zeros(len(texts), np.int64)
        for part in range(_PARTS):
            counts += np.bincount(self._new.part(part)["value"], minlength=len(counts))
        return {text: count for text, count in zip(texts, counts.tolist(), strict=True) if count}

    def entries(self, release: int, where: Whereabouts) -> Iterator[Entries]:
        """The ledger of the next release, once the new people have buckets. Who is held back stays as they were."""
        for part, there in enumerate(_by_part(self._ledger)):
            new, fates = self._new.part(part), self._fates[part]
            buckets = where.take(new["row"])
            placed, buckets = new[buckets > 0], buckets[buckets > 0]
            if len(buckets) and int(buckets.max()) > _MOST_BUCKETS:
                raise UsageError(f"a chain has at most {_MOST_BUCKETS:,} buckets", "Begin a new chain.")
            known = there.copy()
            known["value"] = self._renumbered[there["value"]]
            known["seen"][fates == _STAYS] = release
            if not len(placed):
                yield known
                continue
            moved = np.flatnonzero(fates == _MOVED)
            _, is_placed = _places(known[moved], placed)  # the others are held back
            known = np.delete(known, moved[is_placed])
            added = np.empty(len(placed), ENTRY)
            for name in ("high", "low", "value"):
                added[name] = placed[name]
            added["bucket"], added["seen"] = buckets, release
            yield _in_order(np.concatenate([known, added]), "stable")  # two runs in order

    def pairs_of_new(self, where: Whereabouts) -> Iterator[tuple[Integers, Integers]]:
        """The bucket and the number of the value of everybody who is new, in no order."""
        for part in range(_PARTS):
            new = self._new.part(part)
            yield where.take(new["row"]), new["value"].astype(np.int64)


@dataclass(frozen=True)
class _Compared:
    """One part of the people: those of the table with those of the ledger.

    `counts` are those who stayed, came back, left and changed; `before` and `now` the values of everybody in both.
    """

    repeated: int
    counts: Integers
    before: npt.NDArray[np.uint32]
    now: npt.NDArray[np.int32]
    fates: npt.NDArray[np.uint8]
    new: npt.NDArray[np.void]


def _compared(
    here: npt.NDArray[np.void],
    there: Entries,
    renumbered: npt.NDArray[np.uint32],
    release: int,
    where: Whereabouts,
) -> _Compared:
    """Both in the order of pseudonyms. Whoever has the same value is in the bucket where they were."""
    place, found = _places(here, there)
    before, now = renumbered[there["value"][place[found]]], here["value"][found]
    same = found.copy()
    same[found] = before == now
    stay, moved = place[same], place[found & ~same]
    where.put(here["row"][same], there["bucket"][stay].astype(np.int64))
    last = there["seen"] == release
    stayed, changed = np.count_nonzero(last[stay]), np.count_nonzero(last[moved])
    counts = np.array([stayed, len(stay) - stayed, np.count_nonzero(last) - stayed - changed, len(moved)])
    fates = np.zeros(len(there), np.uint8)
    fates[stay], fates[moved] = _STAYS, _MOVED
    return _Compared(_repeated(here), counts, before, now, fates, here[~same])


def refuse_other_people(moves: Movements, texts: Sequence[str], person: str) -> None:
    """An error if most people have another value, or all who had one have the same other one: that is not likely."""
    if moves.recoded is not None:
        before, now, many = moves.recoded
        raise UsageError(
            f"all {many:,} people who had {texts[before]!r} have {texts[now]!r} now: is it another name for it? "
            "Whoever sees all of them move would know who they are",
            "Write values as in the release before. If it is true of all of them, say so: --values-change.",
        )
    if moves.matched >= _FEW and 2 * moves.changed > moves.matched:
        raise UsageError(
            f"{moves.changed:,} of {moves.matched:,} people who were there before have another value: does {person!r} "
            "name the same people in both tables?",
            "Name the column that does: --person. If values do change so much, say so: --values-change.",
        )


class _Changes:
    """How many people had each value, and how many of them have which other one now."""

    def __init__(self) -> None:
        self._had: Counter[int] = Counter()
        self._pairs: Counter[tuple[int, int]] = Counter()

    def add(self, before: npt.NDArray[np.uint32], now: npt.NDArray[np.int32]) -> None:
        """Some people who were there before."""
        counts = np.bincount(before)
        for value in np.flatnonzero(counts).tolist():
            self._had[value] += int(counts[value])
        moved = np.flatnonzero(before != now)
        keys, times = np.unique(before[moved].astype(np.int64) << 32 | now[moved].astype(np.int64), return_counts=True)
        for key, count in zip(keys.tolist(), times.tolist(), strict=True):
            self._pairs[key >> 32, key & _LOW_WORD] += count

    def recoded(self) -> tuple[int, int, int] | None:
        """A value that all who had it have another name for, as it seems: that of most people, if there are several."""
        found = [(count, *pair) for pair, count in self._pairs.items() if count == self._had[pair[0]] >= _MANY]
        count, before, now = max(found, default=(0, 0, 0))
        return (before, now, count) if count else None


def _entries(pseudonyms: npt.NDArray[np.uint64], first_row: int, values: npt.NDArray[np.int32]) -> npt.NDArray[np.void]:
    found = np.empty(len(values), _HERE)
    found["high"], found["low"] = pseudonyms[:, 0], pseudonyms[:, 1] & _LOW
    found["row"], found["value"] = np.arange(first_row, first_row + len(values)), values
    return found


def _repeated(entries: npt.NDArray[np.void]) -> int:
    """How many entries have the pseudonym of the one before."""
    high, low = entries["high"], entries["low"]
    same = np.flatnonzero(high[1:] == high[:-1])
    return int(np.count_nonzero(low[same + 1] == low[same]))


def _in_order(
    entries: npt.NDArray[np.void], kind: Literal["quicksort", "stable"] = "quicksort"
) -> npt.NDArray[np.void]:
    """By pseudonym. Two that agree in 64 bits are put in order where there are any."""
    found = taken(entries, np.argsort(np.ascontiguousarray(entries["high"]), kind=kind))
    high = found["high"]
    if (high[1:] == high[:-1]).any():
        found = entries[np.lexsort((entries["low"], entries["high"]))]
    return found


def _places(wanted: npt.NDArray[np.void], entries: npt.NDArray[np.void]) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Where each pseudonym is among entries in their order, and whether it is."""
    if not len(entries):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    high, low = np.ascontiguousarray(entries["high"]), entries["low"]
    place = np.searchsorted(high, np.ascontiguousarray(wanted["high"]))
    np.minimum(place, len(high) - 1, out=place)
    found = (high[place] == wanted["high"]) & (low[place] == wanted["low"])
    for at in np.flatnonzero((high[place] == wanted["high"]) & ~found).tolist():  # once in 2^64 pairs
        same = np.flatnonzero((high == wanted["high"][at]) & (low == wanted["low"][at]))
        if len(same):
            place[at], found[at] = same[0], True
    return place, found


def _by_part(ledger: Ledger | None) -> Iterator[Entries]:
    """The entries of a ledger, part by part."""
    rest, entries = _NOBODY, ledger.entries() if ledger is not None else iter(())
    for part in range(_PARTS):
        pieces: list[Entries] = []
        while not len(rest) or int(rest["high"][-1] >> _SHIFT) <= part:
            pieces += [rest] if len(rest) else []
            rest = next(entries, _NOBODY)
            if not len(rest):
                break
        first = np.uint64(part + 1) << _SHIFT if part + 1 < _PARTS else None
        cut = int(np.searchsorted(rest["high"], first)) if first is not None and len(rest) else len(rest)
        pieces += [rest[:cut]] if cut else []
        rest = rest[cut:]
        yield pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [_NOBODY])

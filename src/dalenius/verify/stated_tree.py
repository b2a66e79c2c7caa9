"""The tree of cuts that a manifest states: whether it is one, and where rows arrive in it.

A row starts at place 0. A cut asks it one question and sends it on to one of two later places; a leaf is where it
stays. The tree is well-formed if every place but the first is where exactly one answer leads, from an earlier place:
then every row arrives at a leaf, and no place is in vain.

Every record is in a bucket of its stratum: the one that its quasi-identifiers lead to.

The buckets say which stratum a row should be in, and rows are in the order of buckets: so for long stretches of rows it
is the same. The ranks of rows are compared with the bounds of the leaves of that stratum, column by column, which takes
little; only rows that are in none of its first leaves are led through the tree, question by question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.release.manifest import Cut, Leaf, Manifest, Strata
from dalenius.release.two_tables import named_type
from dalenius.verify.buckets import Integers
from dalenius.verify.findings import MANIFEST, STRATA, Report, plural
from dalenius.verify.row_order import AnyIntegers
from dalenius.verify.thresholds import Ranks, UnreadableError, can_be_cut, threshold

_ENDLESS = 2**31 - 1


def check_tree(manifest: Manifest, report: Report) -> bool:
    """Whether rows can be led through the tree; what keeps them from it goes into the report."""
    problems = list(_problems(manifest, manifest.strata)) if manifest.strata is not None else []
    for problem in problems:
        report.found(MANIFEST, problem)
    if problems:
        report.not_checked([STRATA], "the manifest's tree cannot be followed")
    return manifest.strata is not None and not problems


def _problems(manifest: Manifest, strata: Strata) -> Iterator[str]:
    """Whatever keeps the tree from being one, or from being asked; never what it is cut at, which is somebody's."""
    places = range(len(strata.tree))
    cuts = [(place, node) for place, node in enumerate(strata.tree) if isinstance(node, Cut)]
    pointed = Counter(place for _, cut in cuts for place in (cut.below, cut.above))
    outside = sum(count for place, count in pointed.items() if place not in places)
    backwards = sum((cut.below <= place) + (cut.above <= place) for place, cut in cuts)
    lost = sum(1 for place in places[1:] if not pointed[place])
    shared = sum(1 for place in places if pointed[place] > 1)
    if outside:
        yield f"the tree has {plural(outside, 'answer that leads', 'answers that lead')} to no place of it"
    if backwards:
        yield f"the tree has {plural(backwards, 'answer that leads', 'answers that lead')} backwards"
    if lost:
        yield f"the tree has {plural(lost, 'place')} to which no answer leads"
    if shared:
        yield f"the tree has {plural(shared, 'place')} to which several answers lead"
    yield from _cut_problems(manifest, [cut for _, cut in cuts])
    numbers = {node.stratum for node in strata.tree if isinstance(node, Leaf)}
    unknown = sum(1 for number in numbers if number > len(strata.strata))
    missing = sum(1 for number in range(1, len(strata.strata) + 1) if number not in numbers)
    if unknown:
        yield f"leaves name {plural(unknown, 'stratum', 'strata')} beyond the {len(strata.strata):,} that are listed"
    if missing:
        yield f"to {plural(missing, 'stratum', 'strata')} no leaf leads"


def _cut_problems(manifest: Manifest, cuts: list[Cut]) -> Iterator[str]:
    types = {column.name: column.type for column in manifest.columns.quasi_identifiers}
    unknown = sum(1 for cut in cuts if cut.column not in types)
    if unknown:
        yield f"{plural(unknown, 'cut is', 'cuts are')} of a column that is no quasi-identifier"
    for name, kind in _kinds({cut.column: types[cut.column] for cut in cuts if cut.column in types}):
        texts = {cut.at_most for cut in cuts if cut.column == name}
        if not can_be_cut(kind):
            yield f"the column {name!r} is cut, and values of its type have no text"
        elif wrong := sum(1 for text in texts if not _is_readable(text, kind)):
            yield f"{plural(wrong, 'cut')} of {name!r} at what is no value of its type"


def _kinds(types: Mapping[str, str]) -> Iterator[tuple[str, pa.DataType]]:
    for name, text in types.items():
        try:
            yield name, named_type(text)
        except ValueError:
            continue  # the schema says so


def _is_readable(text: str, kind: pa.DataType) -> bool:
    try:
        threshold(text, kind)
    except UnreadableError:
        return False
    return True


@dataclass(frozen=True)
class Tree:
    """A well-formed tree as arrays. `asked` are the columns with cuts; a row is known by its ranks among these cuts.

    At place p the row goes on at `below[p]` if its rank in column `column[p]` is at most `most[p]`, else at `above[p]`;
    a leaf has `below` 0. Leaf l is at place `leaf_places[l]`, its rows belong to stratum `stratum_of[l]`, from 0, and
    have ranks from `lowest[c, l]` to `highest[c, l]` in every column c, and no other rows do.
    """

    asked: tuple[str, ...]
    ranks: tuple[Ranks, ...]
    column: Integers
    most: Integers
    below: Integers
    above: Integers
    leaf_places: Integers
    stratum_of: Integers
    lowest: npt.NDArray[np.int32]
    highest: npt.NDArray[np.int32]

    @classmethod
    def of(cls, strata: Strata, types: Mapping[str, pa.DataType]) -> Tree:
        """`types` are those of the quasi-identifiers."""
        cuts = [(place, node) for place, node in enumerate(strata.tree) if isinstance(node, Cut)]
        asked = tuple(dict.fromkeys(cut.column for _, cut in cuts))
        column, most, below, above = np.zeros((4, len(strata.tree)), np.int64)
        ranks = []
        for number, name in enumerate(asked):
            mine = [(place, cut) for place, cut in cuts if cut.column == name]
            found = Ranks(types[name], [cut.at_most for _, cut in mine])
            ranks.append(found)
            at = [place for place, _ in mine]
            column[at], most[at] = number, found.places
            below[at], above[at] = [cut.below for _, cut in mine], [cut.above for _, cut in mine]
        leaves = [place for place, node in enumerate(strata.tree) if isinstance(node, Leaf)]
        numbers = [node.stratum - 1 for node in strata.tree if isinstance(node, Leaf)]
        bounds = _bounds(len(asked), column, most, below, above)
        return cls(
            asked,
            tuple(ranks),
            column,
            most,
            below,
            above,
            np.array(leaves, np.int64),
            np.array(numbers, np.int64),
            bounds[0][:, leaves],
            bounds[1][:, leaves],
        )

    def ranked(self, batch: pa.RecordBatch) -> list[AnyIntegers]:
        """The ranks of a batch's rows, by column."""
        return [ranks.of(batch.column(name)) for name, ranks in zip(self.asked, self.ranks, strict=True)]

    def leaves(self, ranked: list[AnyIntegers], rows: int) -> Integers:
        """The leaf of every row, as a place in `leaf_places`."""
        if not ranked:
            return np.zeros(rows, np.int64)
        table = np.stack([ranks.astype(np.int32) for ranks in ranked])
        at: Integers = np.zeros(rows, np.int64)
        moving = np.arange(rows)
        while len(moving):
            here = at[moving]
            low = table[self.column[here], moving] <= self.most[here]
            there = np.where(low, self.below[here], self.above[here])
            at[moving] = there
            moving = moving[self.below[there] > 0]
        return np.searchsorted(self.leaf_places, at)


def _bounds(
    columns: int, column: Integers, most: Integers, below: Integers, above: Integers
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The lowest and highest ranks of the rows that arrive at each place, by column."""
    lowest = np.zeros((columns, len(column)), np.int32)
    highest = np.full((columns, len(column)), _ENDLESS, np.int32)
    for place in np.flatnonzero(below).tolist():
        asked, rank, low, high = column[place], most[place], below[place], above[place]
        lowest[:, low] = lowest[:, high] = lowest[:, place]
        highest[:, low] = highest[:, high] = highest[:, place]
        highest[asked, low] = min(highest[asked, low], rank)
        lowest[asked, high] = max(lowest[asked, high], rank + 1)
    return lowest, highest


_LEAVES = 8  # of a stratum that are tried before the tree is


class StrataOfRows:
    """Counts the rows of QIT in buckets of another stratum than theirs, batch by batch."""

    def __init__(self, strata: Strata, tree: Tree) -> None:
        self._tree = tree
        self._last_buckets = np.cumsum([stratum.buckets for stratum in strata.strata], dtype=np.int64)
        self._wrong = 0
        self._first_wrong: tuple[int, int, int] | None = None
        # the leaves of each stratum; those that ask few questions first, since they are likely to have more rows
        asked = ((tree.lowest > 0) | (tree.highest < np.iinfo(np.int32).max)).sum(axis=0)
        self._leaves = np.lexsort((asked, tree.stratum_of))
        self._counts = np.bincount(tree.stratum_of)
        self._firsts = np.cumsum(self._counts) - self._counts

    def add(self, batch: pa.RecordBatch, buckets: Integers) -> None:
        """The next batch, with the numbers of its buckets, ascending."""
        first = int(np.searchsorted(buckets, 1))
        last = int(np.searchsorted(buckets, self._last_buckets[-1], side="right"))
        if first >= last:
            return  # a bucket that is in no stratum is found by the sizes
        ranked = self._tree.ranked(batch.slice(first, last - first))
        buckets = buckets[first:last]
        low, high = np.searchsorted(self._last_buckets, buckets[[0, -1]])
        ends = np.searchsorted(buckets, self._last_buckets[low:high], side="right")
        lengths = np.diff(ends, prepend=0, append=len(buckets))
        rest = self._not_inside(ranked, np.arange(low, high + 1), lengths)
        if len(rest):
            arrived = self._tree.stratum_of[self._tree.leaves([ranks[rest] for ranks in ranked], len(rest))]
            wanted = np.searchsorted(self._last_buckets, buckets[rest])
            self._count(buckets[rest], arrived, wanted)

    def conclude(self, file: str, report: Report) -> None:
        """Add what was wrong to the report."""
        if self._first_wrong is not None:
            bucket, arrived, wanted = self._first_wrong
            rows = plural(self._wrong, "row is", "rows are")
            report.found(
                STRATA,
                f"in {file} {rows} in a bucket of another stratum; the first: a row of stratum {arrived + 1:,} is in "
                f"bucket {bucket:,}, of stratum {wanted + 1:,}",
                self._wrong,
            )

    def _not_inside(self, ranked: list[AnyIntegers], strata: Integers, lengths: Integers) -> npt.NDArray[np.intp]:
        """The rows in none of the first leaves of their buckets' strata; so many rows in turn for each stratum."""
        firsts, others = self._firsts[strata], self._counts[strata] - 1
        found = self._inside(ranked, self._leaves[firsts], lengths)
        for number in range(1, min(_LEAVES, int(others.max()) + 1)):
            if found.all():
                break
            found |= self._inside(ranked, self._leaves[firsts + np.minimum(number, others)], lengths)
        return np.flatnonzero(~found)

    def _inside(self, ranked: list[AnyIntegers], leaves: Integers, lengths: Integers) -> npt.NDArray[np.bool_]:
        """Whether each row is in its leaf; so many rows in turn for each of the leaves."""
        found = np.ones(int(lengths.sum()), bool)
        for ranks, lowest, highest in zip(ranked, self._tree.lowest, self._tree.highest, strict=True):
            most = np.iinfo(ranks.dtype).max
            low, high = lowest[leaves], highest[leaves]
            if low.any():
                found &= ranks >= _spread(np.minimum(low, most).astype(ranks.dtype), lengths)
            if (high < most).any():
                found &= ranks <= _spread(np.minimum(high, most).astype(ranks.dtype), lengths)
        return found

    def _count(self, buckets: Integers, arrived: Integers, wanted: Integers) -> None:
        wrong = np.flatnonzero(arrived != wanted)
        self._wrong += len(wrong)
        if len(wrong) and self._first_wrong is None:
            at = wrong[0]
            self._first_wrong = int(buckets[at]), int(arrived[at]), int(wanted[at])


def _spread(numbers: AnyIntegers, lengths: Integers) -> AnyIntegers:
    """A number a stretch as a number a row; of a single stretch one is enough."""
    return numbers if len(numbers) == 1 else np.repeat(numbers, lengths)

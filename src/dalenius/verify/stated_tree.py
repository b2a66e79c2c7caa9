"""The tree of cuts that a manifest states: is it a tree, and is every record in a bucket of the stratum it leads to?

A row starts at place 0. A cut asks it one question and sends it on to one of two later places; a leaf is where it
stays. The tree is well-formed if every place but the first is where exactly one answer leads, from an earlier place:
then every row arrives at a leaf, and no place is in vain (`check_tree`).

A bucket says which stratum its rows should be in, and rows are in the order of buckets, so for long stretches of rows
it is the same (`StrataOfRows`). The ranks of rows are compared with the bounds of the leaves of that stratum, column by
column, which takes little; only rows that are in none of its first leaves are led through the tree, question by
question (`Tree`).
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
from dalenius.tables.arrays import texts
from dalenius.verify.buckets import Integers
from dalenius.verify.findings import MANIFEST, STRATA, Report, plural
from dalenius.verify.row_order import AnyIntegers
from dalenius.verify.thresholds import Ranks, UnreadableError, can_be_cut, threshold

_ENDLESS = 2**31 - 1
_ROWS = pa.int64()  # the type of a number of rows
_LEAVES = 8  # of a stratum that are tried before the tree is


def check_tree(manifest: Manifest, report: Report) -> bool:
    """Whether rows can be led through the tree; what keeps them from it goes into the report."""
    problems = list(_problems(manifest, manifest.strata)) if manifest.strata is not None else []
    for problem in problems:
        report.fail(MANIFEST, problem)
    if problems:
        report.not_checked([STRATA], "the manifest's tree cannot be followed")
    return manifest.strata is not None and bool(manifest.strata.tree) and not problems


def _problems(manifest: Manifest, strata: Strata) -> Iterator[str]:
    """Whatever keeps rows from being led through the tree; never the value of a cut, which is somebody's."""
    cuts = {place: node for place, node in enumerate(strata.tree) if isinstance(node, Cut)}
    yield from _shape_problems(cuts, len(strata.tree))
    yield from _column_problems(manifest, list(cuts.values()))
    yield from _leaf_problems(strata, manifest.newest)


def _shape_problems(cuts: Mapping[int, Cut], places: int) -> Iterator[str]:
    """Answers that lead nowhere or backwards, and places to which not exactly one answer leads."""
    answers = [(place, answer) for place, cut in cuts.items() for answer in (cut.below, cut.above)]
    number_of = Counter(answer for _, answer in answers)
    if outside := sum(1 for _, answer in answers if answer not in range(places)):
        yield f"the tree has {plural(outside, 'answer that leads', 'answers that lead')} to no place of it"
    if backwards := sum(1 for place, answer in answers if answer <= place):
        yield f"the tree has {plural(backwards, 'answer that leads', 'answers that lead')} backwards"
    if lost := sum(1 for place in range(1, places) if not number_of[place]):
        yield f"the tree has {plural(lost, 'place')} to which no answer leads"
    if shared := sum(1 for place in range(places) if number_of[place] > 1):
        yield f"the tree has {plural(shared, 'place')} to which several answers lead"


def _column_problems(manifest: Manifest, cuts: list[Cut]) -> Iterator[str]:
    """Cuts of no quasi-identifier, or at no value of its type."""
    types: dict[str | None, str] = {column.name: column.type for column in manifest.columns.quasi_identifiers}
    if manifest.persons is not None:
        types[None] = str(_ROWS)
    if unknown := sum(1 for cut in cuts if cut.column not in types):
        yield f"{plural(unknown, 'cut is', 'cuts are')} of a column that is no quasi-identifier"
    for name, data_type in _data_types(
        {name: types[name] for name in dict.fromkeys(cut.column for cut in cuts) if name in types}
    ):
        at = {cut.at_most for cut in cuts if cut.column == name}
        name = name if name is not None else "the number of rows"
        if not can_be_cut(data_type):
            yield f"the column {name!r} is cut, and values of its type have no text"
        elif wrong := sum(1 for text in at if not _is_readable(text, data_type)):
            yield f"{plural(wrong, 'cut')} of {name!r} at what is no value of its type"
        elif manifest.is_strict and not _are_spelled(sorted(at), data_type):
            yield f"cuts of {name!r} are not spelled as values of its type are"


def _leaf_problems(strata: Strata, newest: int) -> Iterator[str]:
    """Strata that are not listed, or have no leaf; of a chain, those whose buckets are new in this release."""
    new = {k for k, stratum in enumerate(strata.strata, 1) if stratum.applies and stratum.since == newest}
    numbers = {node.stratum for node in strata.tree if isinstance(node, Leaf)}
    if unknown := len(numbers - new):
        yield f"leaves name {plural(unknown, 'stratum', 'strata')} beyond the {len(new):,} that are listed for them"
    if missing := len(new - numbers):
        yield f"to {plural(missing, 'stratum', 'strata')} no leaf leads"


def _data_types(types: Mapping[str | None, str]) -> Iterator[tuple[str | None, pa.DataType]]:
    for name, text in types.items():
        try:
            yield name, named_type(text)
        except ValueError:
            continue  # the check of the schema says so


def _is_readable(text: str, data_type: pa.DataType) -> bool:
    try:
        threshold(text, data_type)
    except UnreadableError:
        return False
    return True


def _are_spelled(cuts: list[str], data_type: pa.DataType) -> bool:
    """Whether the values that the texts stand for have these texts and no others."""
    values = pa.concat_arrays([threshold(cut, data_type) for cut in cuts])
    if pa.types.is_decimal(values.type):  # of which the engine does not know the longest
        return [format(value, "f") for value in values.to_pylist()] == cuts
    return texts(values) == cuts


@dataclass(frozen=True)
class Tree:
    """A well-formed tree as arrays. `columns` are those with cuts; a row is known by its ranks among these cuts.

    At place p the row goes on at `below[p]` if its rank in column `column[p]` is at most `most[p]`, else at `above[p]`;
    a leaf has `below` 0. Leaf l is at place `leaf_places[l]`, its rows belong to stratum `stratum_of[l]`, from 0, and
    have ranks from `lowest[c, l]` to `highest[c, l]` in every column c, and no other rows do. Where a question is about
    the number of rows of a person, `row_ranks` ranks these, and they come after the columns.
    """

    columns: tuple[str, ...]
    ranks: tuple[Ranks, ...]
    row_ranks: Ranks | None
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
        columns = tuple(dict.fromkeys(cut.column for _, cut in cuts if cut.column is not None))
        asked = [*columns, *([None] if any(cut.column is None for _, cut in cuts) else [])]
        column, most, below, above = np.zeros((4, len(strata.tree)), np.int64)
        every = []
        for number, name in enumerate(asked):
            mine = [(place, cut) for place, cut in cuts if cut.column == name]
            ranks = Ranks(types[name] if name is not None else _ROWS, [cut.at_most for _, cut in mine])
            every.append(ranks)
            at = [place for place, _ in mine]
            column[at], most[at] = number, ranks.places
            below[at], above[at] = [cut.below for _, cut in mine], [cut.above for _, cut in mine]
        leaves = [place for place, node in enumerate(strata.tree) if isinstance(node, Leaf)]
        numbers = [node.stratum - 1 for node in strata.tree if isinstance(node, Leaf)]
        lowest, highest = _bounds(len(asked), column, most, below, above)
        return cls(
            columns=columns,
            ranks=tuple(every[: len(columns)]),
            row_ranks=every[-1] if len(asked) > len(columns) else None,
            column=column,
            most=most,
            below=below,
            above=above,
            leaf_places=np.array(leaves, np.int64),
            stratum_of=np.array(numbers, np.int64),
            lowest=lowest[:, leaves],
            highest=highest[:, leaves],
        )

    def rank(self, batch: pa.RecordBatch) -> list[AnyIntegers]:
        """The ranks of a batch's rows, by column."""
        return [ranks.of(batch.column(name)) for name, ranks in zip(self.columns, self.ranks, strict=True)]

    def leaves(self, ranks: list[AnyIntegers], rows: int) -> Integers:
        """The leaf of every row, as a place in `leaf_places`."""
        if not ranks:
            return np.zeros(rows, np.int64)
        table = np.stack([own.astype(np.int32) for own in ranks])
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
        cut, rank, low, high = column[place], most[place], below[place], above[place]
        lowest[:, low] = lowest[:, high] = lowest[:, place]
        highest[:, low] = highest[:, high] = highest[:, place]
        highest[cut, low] = min(highest[cut, low], rank)
        lowest[cut, high] = max(lowest[cut, high], rank + 1)
    return lowest, highest


class StrataOfRows:
    """Counts the rows of QIT in buckets of another stratum than theirs, batch by batch.

    Of a chain of releases these are the rows of the buckets that are new in the `newest`, which come last.
    """

    what = ("row", "rows")  # one and several of what is counted

    def __init__(self, strata: Strata, tree: Tree, newest: int = 1) -> None:
        self._tree = tree
        by_tree = [stratum.buckets for stratum in strata.strata if stratum.applies]  # the last need not be
        self._last_buckets = np.cumsum(by_tree, dtype=np.int64)
        self._first_bucket = 1 + sum(stratum.buckets for stratum in strata.strata if stratum.since < newest)
        self._wrong = 0
        self._first_wrong: tuple[int, int, int] | None = None
        # the leaves of each stratum; those that ask few questions first, since they are likely to have more rows
        questions = ((tree.lowest > 0) | (tree.highest < np.iinfo(np.int32).max)).sum(axis=0)
        self._leaves = np.lexsort((questions, tree.stratum_of))
        self._counts = np.bincount(tree.stratum_of)
        self._firsts = np.cumsum(self._counts) - self._counts

    def add(self, batch: pa.RecordBatch, buckets: Integers) -> None:
        """The next batch, with the numbers of its buckets, ascending."""
        first = int(np.searchsorted(buckets, self._first_bucket))
        last = int(np.searchsorted(buckets, self._last_buckets[-1], side="right"))
        if first >= last:
            return  # a bucket that is in no stratum is found by the sizes
        self.add_ranked(self._tree.rank(batch.slice(first, last - first)), buckets[first:last])

    def add_ranked(self, ranks: list[AnyIntegers], buckets: Integers) -> None:
        """The same by ranks, for buckets that are all in a stratum."""
        low, high = np.searchsorted(self._last_buckets, buckets[[0, -1]])
        ends = np.searchsorted(buckets, self._last_buckets[low:high], side="right")
        lengths = np.diff(ends, prepend=0, append=len(buckets))
        rest = self._not_inside(ranks, np.arange(low, high + 1), lengths)
        if len(rest):
            arrived = self._tree.stratum_of[self._tree.leaves([own[rest] for own in ranks], len(rest))]
            stated = np.searchsorted(self._last_buckets, buckets[rest])
            self._count(buckets[rest], arrived, stated)

    def conclude(self, file: str, strict: bool, report: Report) -> None:
        """Add what was wrong to the report. Strictly, a text at which a column is cut is one that a row has."""
        foreign = sum(len(ranks.unseen) for ranks in self._tree.ranks if ranks.unseen is not None)
        if strict and foreign:
            report.fail(STRATA, f"{plural(foreign, 'cut is', 'cuts are')} at a text that no row of {file} has", foreign)
        if self._first_wrong is not None:
            bucket, arrived, stated = self._first_wrong
            one, several = self.what
            rows = plural(self._wrong, f"{one} is", f"{several} are")
            report.fail(
                STRATA,
                f"in {file} {rows} in a bucket of another stratum; the first: a {one} of stratum {arrived + 1:,} is in "
                f"bucket {bucket:,}, of stratum {stated + 1:,}",
                self._wrong,
            )

    def _not_inside(self, ranks: list[AnyIntegers], strata: Integers, lengths: Integers) -> npt.NDArray[np.intp]:
        """The rows in none of the first leaves of their buckets' strata; so many rows in turn for each stratum."""
        firsts, others = self._firsts[strata], self._counts[strata] - 1
        inside = self._inside(ranks, self._leaves[firsts], lengths)
        for number in range(1, min(_LEAVES, int(others.max()) + 1)):
            if inside.all():
                break
            inside |= self._inside(ranks, self._leaves[firsts + np.minimum(number, others)], lengths)
        return np.flatnonzero(~inside)

    def _inside(self, ranks: list[AnyIntegers], leaves: Integers, lengths: Integers) -> npt.NDArray[np.bool_]:
        """Whether each row is in its leaf; so many rows in turn for each of the leaves."""
        inside = np.ones(int(lengths.sum()), bool)
        for own, lowest, highest in zip(ranks, self._tree.lowest, self._tree.highest, strict=True):
            most = np.iinfo(own.dtype).max
            low, high = lowest[leaves], highest[leaves]
            if low.any():
                inside &= own >= _spread(np.minimum(low, most).astype(own.dtype), lengths)
            if (high < most).any():
                inside &= own <= _spread(np.minimum(high, most).astype(own.dtype), lengths)
        return inside

    def _count(self, buckets: Integers, arrived: Integers, stated: Integers) -> None:
        wrong = np.flatnonzero(arrived != stated)
        self._wrong += len(wrong)
        if len(wrong) and self._first_wrong is None:
            at = wrong[0]
            self._first_wrong = int(buckets[at]), int(arrived[at]), int(stated[at])


def _spread(numbers: AnyIntegers, lengths: Integers) -> AnyIntegers:
    """A number a stretch as a number a row; of a single stretch one is enough."""
    return numbers if len(numbers) == 1 else np.repeat(numbers, lengths)

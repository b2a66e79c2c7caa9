"""The tables of a release by people, and its manifest.

QIT has the rows of people, bucket by bucket; the people of a bucket are in the order of their rows, which says nothing
else. Each sensitive set has an ST of its own: a line for each value of a person, in the order of buckets and values. So
the lists of two sets have nothing to do with each other but their buckets, unless a table of tuples joins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.model import VERSION
from dalenius.model.plan import Method
from dalenius.model.problem import BucketSetting
from dalenius.place.domains import Integers
from dalenius.place.items import Items, Tuples
from dalenius.place.people import People
from dalenius.place.survey import Survey
from dalenius.publishing.description import group_entries, setting_entries
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.people_buckets import Buckets
from dalenius.publishing.people_limits import LimitedSet
from dalenius.publishing.people_strata import PeopleCut
from dalenius.publishing.together_table import PIECE_ROWS, Lines, lines_of, together_fields, write_together
from dalenius.release import manifest
from dalenius.release.column_entries import KeptTogether, SensitiveEntry, SensitiveSet
from dalenius.release.folder import group_column
from dalenius.release.two_tables import TableFile, Tables
from dalenius.release.writer import TableWriter, published_schema
from dalenius.strata.growing import MARGIN
from dalenius.tables.arrays import arrow_array

_GROUP_BYTES, _GROUP_BITS = 2**23, 17


@dataclass(frozen=True)
class Names:
    """The columns that a release has beside those of the table."""

    bucket: str
    person: str
    rows: str

    @classmethod
    def beside(cls, published: Sequence[str]) -> Names:
        """Names that no published column has; case does not count."""
        taken = {name.casefold() for name in published}

        def free(name: str) -> str:
            number, found = 1, name
            while found in taken:
                number += 1
                found = f"{name}_{number}"
            return found

        return cls(free("bucket"), free("person"), free("rows"))


class PeopleTables:
    """Writes the tables of a release into a folder, and describes them."""

    def __init__(
        self, request: PublishRequest, survey: Survey, people: People, sets: Sequence[LimitedSet], cut: PeopleCut
    ) -> None:
        self._request, self._survey, self._people, self._sets, self._cut = request, survey, people, sets, cut
        self._buckets = Buckets.of_cut(cut)
        self.has_persons = int(people.rows_each.max()) > 1 or people.dropped > 0
        published = [*survey.domains, *(one.column.name for one in sets)]
        self._names = Names.beside(published)
        self._row_group = int(2 ** min(max(_GROUP_BYTES // survey.row_bytes, 1).bit_length() - 1, _GROUP_BITS))

    def write(self, folder: Path) -> manifest.Manifest:
        """All tables, and the manifest that goes with them, which is not written."""
        qit = self._write_qit(folder)
        entries = [self._write_set(folder, number, one) for number, one in enumerate(self._sets)]
        together = [self._write_together(folder, number, one) for number, one in enumerate(self._people.tuples)]
        return self._manifest(qit, entries, together)

    def _writer(self, folder: Path, name: str, schema: pa.Schema) -> TableWriter:
        path = folder / f"{name}.{self._request.format}"
        return TableWriter(path, schema, self._request.format, self._row_group, self._names.bucket)

    def _write_qit(self, folder: Path) -> TableFile:
        fields = [
            self._survey.schema.field(name).with_nullable(self._survey.nullable[name]) for name in self._survey.domains
        ]
        number = [_whole(self._names.person)] if self.has_persons else []
        schema = published_schema(pa.schema([*number, *fields, _whole(self._names.bucket)]), self._request.format)
        self._qit_schema = schema
        writer = self._writer(folder, "qit", schema)
        try:
            for numbers, keys, buckets in self._rows():
                for start in range(0, len(keys), PIECE_ROWS):
                    piece = slice(start, start + PIECE_ROWS)
                    columns = self._people.combinations.decode(keys[piece])
                    own = [arrow_array(numbers[piece])] if self.has_persons else []
                    writer.write([*own, *columns, arrow_array(buckets[piece])])
            return writer.finish()
        finally:
            writer.close()

    def _rows(self) -> Iterator[tuple[Integers, np.ndarray, Integers]]:
        """For each stratum the number of each row's person, the row's key and its bucket, in the order of QIT."""
        start = 0
        for stratum, count in zip(self._cut.strata, self._buckets.strata, strict=True):
            people, buckets = self._buckets.people[start : start + count], self._buckets.of[start : start + count]
            start += count
            each = stratum.rows_each
            keys = self._people.keys[self._people.offsets[people][:, None] + np.arange(each)]
            order = np.lexsort((*(keys[:, column] for column in range(each - 1, -1, -1)), buckets))
            keys, buckets = keys[order], buckets[order]
            firsts = np.flatnonzero(np.diff(buckets, prepend=0))
            numbers = np.arange(count) - np.repeat(firsts, np.diff(firsts, append=count)) + 1
            yield np.repeat(numbers, each), keys.ravel(), np.repeat(buckets, each)

    def _lines(self, items: Items) -> Lines:
        """For each stratum bucket, code and rows of each item, in this order."""
        return lines_of(items, self._buckets.people, self._buckets.of, self._buckets.strata)

    def _write_set(self, folder: Path, number: int, one: LimitedSet) -> SensitiveSet:
        name = "st" if number == 0 else f"st{number + 1}"
        column = one.column
        field = pa.field(column.name, column.listing.data_type, column.publishes_nulls)
        rows = [_whole(self._names.rows)] if self.has_persons else []
        schema = published_schema(pa.schema([_whole(self._names.bucket), field, *rows]), self._request.format)
        writer = self._writer(folder, name, schema)
        values = _WorstCases(len(column.texts), self._buckets.sizes, self._request.solving.known_records)
        try:
            for buckets, codes, of_rows in self._lines(one.items):
                values.add(buckets, codes)
                for start in range(0, len(codes), PIECE_ROWS):
                    piece = slice(start, start + PIECE_ROWS)
                    last = [arrow_array(of_rows[piece])] if self.has_persons else []
                    writer.write([arrow_array(buckets[piece]), column.decode(codes[piece]), *last])
            table = writer.finish()
        finally:
            writer.close()
        groups = _WorstCases(len(one.groups) + 1, self._buckets.sizes, self._request.solving.known_records)
        group_table = None
        of = list(self._request.roles.all_sets[number].columns)
        if one.in_groups is not None:
            several = self.has_persons or len(of) > 1
            group_table = self._write_groups(folder, name, one, groups, write=several)
        stated = schema.field(1)
        return SensitiveSet(
            table=table,
            group_table=group_table,
            column=SensitiveEntry(name=stated.name, type=str(stated.type), nulls=stated.nullable, of=of),
            null_value=self._null_name(number) if column.null_code is not None else None,
            missing=sorted(set(self._missing(number))) if column.null_code is not None else [],
            groups=group_entries(one.groups, islice(groups.found(), len(one.groups))) or None,
            bands=None,
            values=[
                manifest.Value(
                    value=text,
                    count=count,
                    limit=str(limit),
                    worst=worst,
                    group=path[-1] if path else None,
                    applies=True,
                )
                for text, limit, path, (count, worst) in zip(
                    column.texts, one.limits, one.holders, values.found(), strict=True
                )
            ],
        )

    def _write_together(self, folder: Path, number: int, tuples: Tuples) -> KeptTogether:
        """A table of tuples; `number` is its place among those tables."""
        columns = [self._sets[place].column for place in tuples.sets]
        rows = [_whole(self._names.rows)] if self.has_persons else []
        fields = [_whole(self._names.bucket), *together_fields(columns), *rows]
        name = "together" if number == 0 else f"together{number + 1}"
        writer = self._writer(folder, name, published_schema(pa.schema(fields), self._request.format))
        return write_together(writer, self._lines(tuples.items), tuples, columns, with_rows=self.has_persons)

    def _write_groups(
        self, folder: Path, name: str, one: LimitedSet, cases: _WorstCases, *, write: bool
    ) -> TableFile | None:
        """The groups that people have values of, by name; `cases` counts them."""
        if one.in_groups is None:
            raise SelfCheckError("there are no groups")
        number = len(one.groups)
        names = [group.name for group in one.groups]
        order = sorted(range(number), key=lambda place: names[place].encode())
        rank = np.empty(number + 1, dtype=np.int64)
        rank[[*order, number]] = np.arange(number + 1)
        texts = pa.array([names[place] for place in order])
        nulls = any(not path for path in one.holders)
        bucket = self._names.bucket
        field = pa.field(group_column(bucket), pa.string(), nulls)
        schema = published_schema(pa.schema([_whole(bucket), field]), self._request.format)
        writer = self._writer(folder, f"{name}_groups", schema) if write else None
        try:
            for buckets, codes, _ in self._lines(one.in_groups):
                cases.add(buckets, codes)
                if writer is None:
                    continue
                ranks = rank[codes]
                ranks = ranks[np.lexsort((ranks, buckets))]
                for start in range(0, len(ranks), PIECE_ROWS):
                    piece = ranks[start : start + PIECE_ROWS]
                    places = arrow_array(np.minimum(piece, number - 1).astype(np.int32), piece == number)
                    column = pa.DictionaryArray.from_arrays(places, texts)
                    writer.write([arrow_array(buckets[start : start + PIECE_ROWS]), column])
            return writer.finish() if writer is not None else None
        finally:
            if writer is not None:
                writer.close()

    def _null_name(self, number: int) -> str | None:
        return self._request.roles.all_sets[number].null_name

    def _missing(self, number: int) -> tuple[str, ...]:
        return self._request.roles.all_sets[number].missing

    def _manifest(
        self, qit: TableFile, entries: Sequence[SensitiveSet], together: list[KeptTogether]
    ) -> manifest.Manifest:
        people, cut, names = self._people, self._cut, self._names
        if qit.rows != len(people.keys):
            raise SelfCheckError(f"{len(people.keys):,} records went in, and {qit.rows:,} came out")
        groups = [(g.size, g.buckets) for stratum in cut.strata for g in stratum.solution.setting.groups]
        setting = BucketSetting.of(groups)
        first, *others = entries
        options = self._request.options
        persons = manifest.Persons(
            number=names.person, rows=names.rows, most_rows=options.most_rows, dropped=people.dropped
        )
        return manifest.Manifest(
            format=manifest.FORMAT,
            program=manifest.Program(name="dalenius", version=VERSION),
            randomness=manifest.CRYPTOGRAPHIC if options.seed is None else manifest.SEEDED,
            tables=Tables(qit=qit, st=first.table),
            columns=manifest.Columns(
                bucket=names.bucket,
                quasi_identifiers=[_column(self._qit_schema.field(name)) for name in self._survey.domains],
                sensitive=first.column,
            ),
            null_value=first.null_value,
            missing=first.missing,
            rows=len(people.keys),
            people=people.number,
            persons=persons if self.has_persons else None,
            buckets=setting.buckets,
            setting=setting_entries(setting),
            loss=setting.loss,
            mse=float(setting.mse),
            method=Method.OPTIMAL,
            status=cut.status(self._request.solving.strata_gap),
            bound=cut.bound,
            gap=cut.gap,
            adversary=manifest.Adversary(known_records=self._request.solving.known_records, fake_values=0),
            chain=None,
            strata=self._strata(),
            groups=first.groups,
            bands=None,
            values=first.values,
            group_table=first.group_table,
            others=others,
            together=together,
        )

    def _strata(self) -> manifest.Strata | None:
        if not self.has_persons and len(self._cut.strata) == 1:
            return None
        tree: list[manifest.Cut | manifest.Leaf] = [
            manifest.Leaf(stratum=one + 1)
            if isinstance(one, int)
            else manifest.Cut(column=one[0], at_most=one[1], below=one[2], above=one[3])
            for one in self._cut.questions
        ]
        strata = [
            manifest.Stratum(
                rows=len(one.people) * one.rows_each,
                setting=setting_entries(one.solution.setting),
                rows_each=one.rows_each,
                applies=True,
                since=1,
            )
            for one in self._cut.strata
        ]
        return manifest.Strata(tree=tree, margin=str(MARGIN), strata=strata)


class _WorstCases:
    """How many people have each of some things, and the bucket where the largest share of those not known has it."""

    def __init__(self, things: int, sizes: Integers, known: int) -> None:
        self._totals = np.zeros(things, dtype=np.int64)
        self._sizes, self._known = sizes, known
        self._cases: list[set[tuple[int, int]]] = [set() for _ in range(things)]

    def add(self, buckets: Integers, things: Integers) -> None:
        """The next lines, in the order of buckets."""
        many = len(self._totals)
        pairs = buckets * many + things
        pairs.sort()
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        counts = np.diff(starts, append=len(pairs))
        of, thing = pairs[starts] // many, pairs[starts] % many
        np.add.at(self._totals, thing, counts)
        size = self._sizes[of - 1]
        for number in np.unique(size).tolist():
            here = size == number
            most = np.zeros(many, dtype=np.int64)
            np.maximum.at(most, thing[here], counts[here])
            for place in np.flatnonzero(most).tolist():
                self._cases[place].add((int(most[place]), number))

    def found(self) -> Iterator[tuple[int, manifest.Worst]]:
        """The people of each thing that somebody has, and its worst case."""
        for total, cases in zip(self._totals.tolist(), self._cases, strict=True):
            if cases:
                _, count, size = max((Fraction(count, size - self._known), count, size) for count, size in cases)
                yield total, manifest.Worst(count=count, size=size)


def _column(field: pa.Field) -> manifest.Column:
    return manifest.Column(name=field.name, type=str(field.type), nulls=field.nullable)


def _whole(name: str) -> pa.Field:
    return pa.field(name, pa.int64(), nullable=False)

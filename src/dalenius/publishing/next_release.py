"""One run that publishes the next release of a chain: where people are, the buckets of new ones, and the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from dalenius.errors import AbsentCodesError, InputError, NoSolutionError, SelfCheckError
from dalenius.model.concern import Concern
from dalenius.model.exposure import TypicalError
from dalenius.model.problem import SizeGroup
from dalenius.model.progress import Progress
from dalenius.place.columns import published_field
from dalenius.place.sensitive import SensitiveCounter
from dalenius.place.slots import values_by_bucket
from dalenius.place.survey import Survey
from dalenius.policy.whose_rows import changed_values, few_stayed
from dalenius.publishing.arrangement import Arrangement, release_notes
from dalenius.publishing.description import TableSpecs, check_values, columns_of, describe, table_specs
from dalenius.publishing.engine import SurveySpec
from dalenius.publishing.followed_people import FollowedPeople, Movements, refuse_other_people
from dalenius.publishing.followed_rows import ValueTexts, Whereabouts, sum_of_pairs
from dalenius.publishing.followed_table import FollowedTable, PlacedRows
from dalenius.publishing.followed_tables import SomeRows, TypedSource, describe_next, sizes_of
from dalenius.publishing.local_output import LocalOutput
from dalenius.publishing.new_people import NewBuckets, NewPeople, of_rows, rule_of
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.placements import Placements
from dalenius.release.folder import BATCH_ROWS, ReleaseFolder
from dalenius.release.ledger import OpenLedger
from dalenius.release.ledger_file import Belongs, Entries
from dalenius.release.manifest import Manifest
from dalenius.release.strata_entries import MOST_SURPLUS
from dalenius.release.two_tables import TableFile, Tables
from dalenius.strata.growing import MARGIN
from dalenius.tables.arrays import arrow_array

_LINKED_BYTES = 2**6  # of a person and a value


@dataclass(frozen=True)
class Followed:
    """What became of the people of the release before."""

    release: int
    moves: Movements
    held_back: int
    counterfeits: int
    surplus: int
    places: int

    def sentences(self) -> Iterator[str]:
        """What the publisher should know."""
        moves, first = self.moves, self.release == 1
        if first:
            yield (
                "this is the first release of a chain. Keep the ledger, its key and this folder: the next release is "
                "made from them (--after). The ledger and the key are for nobody else"
            )
            return
        yield (
            f"release {self.release} of its chain: {moves.stayed:,} people stay in their buckets, {moves.left:,} left, "
            f"{moves.returned:,} came back, {moves.new:,} are new, and {moves.changed:,} have another value than before"
        )
        if self.held_back:
            yield f"{self.held_back:,} people are held back: they are in no bucket yet, and not in this release"
        if self.counterfeits:
            yield (
                f"{self.counterfeits:,} counterfeits, which are nobody's values, fill up the buckets of new people: "
                "whoever can tell them from values of people infers more than the limits say"
            )
        if self.surplus:
            share = Fraction(self.surplus, self.places)
            advice = ""
            if share > MOST_SURPLUS:
                advice = (
                    ". Counts get worse with it: consider a new chain, whose price is that both can be compared "
                    "('dalenius audit' estimates it)"
                )
            yield f"{self.surplus:,} of {self.places:,} values ({float(share):.0%}) are nobody's{advice}"

    def as_object(self) -> dict[str, int]:
        """For JSON."""
        moves = self.moves
        return {
            "release": self.release,
            "stayed": moves.stayed,
            "returned": moves.returned,
            "left": moves.left,
            "new": moves.new,
            "changed": moves.changed,
            "held_back": self.held_back,
            "counterfeits": self.counterfeits,
            "surplus": self.surplus,
            "places": self.places,
        }


class NextRelease:
    """One run: what is known of the people, their new buckets, and the tables of the next release."""

    def __init__(
        self,
        request: PublishRequest,
        before: ReleaseFolder | None,
        ledger: OpenLedger,
        people: FollowedPeople,
        progress: Progress,
    ) -> None:
        self._before, self._ledger, self._people, self._progress = before, ledger, people, progress
        self._said = before.manifest if before is not None else None
        self._asked, self._request = request, of_rows(request, self._said)
        self._values = ValueTexts(
            request.roles.sensitive,
            self._request.options.null_name,
            self._request.options.missing,
            [value.value for value in self._said.values] if self._said is not None else (),
        )
        self._new: NewBuckets | None = None
        self._held_back = 0
        self.number = ledger.now.belongs.release + 1 if ledger.now is not None else 1

    def find(self, table: FollowedTable) -> None:
        """Who of the table was in the release before, and where."""
        said, roles = self._said, self._request.roles
        if said is not None:
            table = table.wrapped(lambda source: TypedSource(source, said))
        self._table = table
        field = published_field(table.source.schema([roles.sensitive]).field(0))
        self._progress.stage("Linking", table.source.rows)
        rows = self._request.budget.batch_rows(_LINKED_BYTES)
        person = self._asked.roles.person or ""
        advance = self._progress.advance
        self._people.read(table.source, person, field, self._values, rows, table.workers, advance)
        absent = [code for code in self._asked.options.missing if code not in self._values.found_missing]
        if said is not None and not {*absent} <= {*said.missing}:
            raise AbsentCodesError.of(absent, "missing", self._values.texts)
        self._where, self._moves = self._people.match(person, self._ledger.now, self._values, table.workers)
        self._counts = self._people.counts_of_new(self._values)
        if not self._asked.options.values_change:
            refuse_other_people(self._moves, self._values.texts, person)

    def place_new(self, scratch: Path) -> None:
        """Buckets for the new people, if they can have any; if not, they wait, or counterfeits fill the buckets up."""
        number = sum(self._counts.values())
        rule = self._ledger.now.belongs.rule if self._ledger.now is not None else ""
        new = NewPeople(self._request, self._before, self._counts, self._table, self._where, self._progress, rule)
        if not number:
            return
        options = self._asked.options
        try:
            if (options.hold_back or options.counterfeits) and new.are_few:
                raise new.too_few()
            self._new = new.buckets()
        except NoSolutionError:
            if self._said is None:
                raise
            if options.hold_back:
                self._held_back = number
                self._refuse_nobody()
                return
            if not options.counterfeits:
                raise new.too_few() from None
            self._new = new.buckets_with_counterfeits()
        self._find_buckets(self._new, scratch)

    def _refuse_nobody(self) -> None:
        if self._held_back == self._where.rows:
            raise InputError(
                "nobody would be in the release: all who were there have left, and all who are new are held back",
                "Publish it when there is somebody.",
            )

    def _find_buckets(self, new: NewBuckets, scratch: Path) -> None:
        """Place the new people, and tell where they went."""
        arrangement = new.arrangement
        offset = self._said.buckets if self._said is not None else 0
        placement = Placements(arrangement, self._request).first()
        if placement is None:
            raise SelfCheckError("new people have no placement")
        own = Whereabouts(arrangement.survey.rows, scratch)
        try:
            new.table.find_buckets(arrangement, placement, PlacedRows(own), self._progress)
            taken = 0
            for start, buckets in self._where.chunks():
                rows = np.flatnonzero(buckets == 0)
                buckets[rows] = own.read(taken, len(rows)) + offset
                taken += len(rows)
                self._where.write(start, buckets)
        finally:
            own.close()
        if not new.counterfeits and not arrangement.fake_values:
            self._check_values(arrangement, offset)

    def _check_values(self, arrangement: Arrangement, offset: int) -> None:
        """The new people have the values of their buckets, compared by the sum of a number for each pair."""
        have, are_there = 0, 0
        for buckets, values in self._people.pairs_of_new(self._where):
            have += sum_of_pairs(buckets, values)
        sensitive = arrangement.survey.sensitive
        texts = sensitive.as_published(sensitive.texts)
        number_of = np.array([self._values.number(text) for text in texts], np.int64)
        for buckets, places in values_by_bucket(arrangement.partitions, BATCH_ROWS, sensitive.published):
            are_there += sum_of_pairs(buckets + offset, number_of[places])
        if (have - are_there) % 2**64:
            raise SelfCheckError("somebody is in a bucket that does not have their value")

    def write(self, output: LocalOutput) -> Manifest:
        """Both tables, and what the manifest says of them."""
        survey, progress = self._survey(), self._progress
        specs = self._specs(survey)
        present = self._where.rows - self._held_back
        progress.stage("Writing", 2 * present)
        kind = specs.st.schema.field(1).type
        counter = SensitiveCounter(survey.sensitive.name, kind)
        with self._table.keep(survey, self._groups, self._where, progress.advance) as kept:
            qit = kept.columns_in_order(progress.advance)
            of_qit, of_st = output.write_columns(qit, self._values_in_order(counter, kind), (specs.qit, specs.st))
        listed = counter.finish(self._request.options.null_name)
        return describe_next(
            self._said,
            self._fresh(specs),
            str(MARGIN),
            Tables(qit=of_qit, st=of_st),
            columns_of(specs, self._request.roles),
            dict(zip(listed.texts, listed.counts, strict=True)),
            self._where,
            self._held_back,
        )

    def _survey(self) -> Survey:
        """What the quasi-identifiers hold of everybody who is in the release."""
        if self._new is not None and not self._new.counterfeits and self._new.survey.rows == self._where.rows:
            return self._new.survey
        present = self._where.rows - self._held_back
        table = self._table
        if self._held_back:
            table = table.wrapped(lambda source: SomeRows(source, self._where, placed=True, rows=present))
        roles, options = self._request.roles, self._request.options
        self._progress.stage("Reading", present)
        spec = SurveySpec(roles.sensitive, roles.quasi_identifiers, options.null_name, missing=options.missing)
        survey = table.survey(spec, self._progress)
        check_values(survey, self._request.format)
        return survey

    @property
    def _groups(self) -> list[SizeGroup]:
        return sizes_of(self._said, self._new.arrangement if self._new is not None else None)

    def _specs(self, survey: Survey) -> TableSpecs:
        """The columns of both tables: nulls of values that are nobody's any more count, too."""
        specs, said = table_specs(self._request.roles, survey, self._request.format), self._said
        new = self._new.survey.sensitive if self._new is not None else None
        nulls = (said is not None and said.columns.sensitive.nulls) or (new is not None and new.publishes_nulls)
        schema = specs.st.schema
        schema = schema.set(1, schema.field(1).with_nullable(nulls))
        if said is not None and said.columns.bucket != specs.bucket:
            raise SelfCheckError("the bucket column has another name than in the release before")
        return replace(specs, st=replace(specs.st, schema=schema))

    def _values_in_order(self, counter: SensitiveCounter, kind: pa.DataType) -> Iterator[list[pa.Array]]:
        """ST: what it was, and the values of the new buckets behind it."""
        for batch in self._before.batches("st", coded=True) if self._before is not None else ():
            counter.add(batch.column(1))
            yield [batch.column(0), _widely_coded(batch.column(1), kind)]
        if self._new is not None:
            arrangement = self._new.arrangement
            sensitive, offset = arrangement.survey.sensitive, self._said.buckets if self._said is not None else 0
            rows = self._request.budget.piece_rows(arrangement.groups)
            for buckets, values in values_by_bucket(arrangement.partitions, rows, sensitive.published):
                decoded = sensitive.decode(values)
                counter.add(decoded)
                yield [arrow_array(buckets + offset), _widely_coded(decoded, kind)]

    def _fresh(self, specs: TableSpecs) -> Manifest | None:
        """The new buckets as a release by themselves would describe them."""
        if self._new is None:
            return None
        arrangement = self._new.arrangement
        rows = arrangement.survey.rows
        qit = TableFile(file="qit.parquet", rows=rows, bytes=1, sha256="0" * 64, parts=None)
        st = qit.model_copy(update={"rows": rows + arrangement.fake_values * arrangement.setting.buckets})
        return describe(self._request, arrangement, specs, qit, st)

    def belongs(self, manifest: Manifest, target: Path) -> Belongs:
        """What the next ledger belongs to."""
        before = self._said.digest if self._said is not None else None
        now = self._ledger.now
        rule = now.belongs.rule if now is not None else rule_of(self._new.policy) if self._new is not None else ""
        return Belongs(self.number, manifest.digest, before, str(target), self._values.texts, rule)

    def entries(self) -> Iterator[Entries]:
        """The ledger that belongs to the release."""
        return self._people.entries(self.number, self._where)

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What was seen in the rows of new people, and of people whose values changed."""
        seen = self._new.concerns if self._new is not None else ()
        if self._said is not None:
            seen = tuple(replace(one, message=f"of the new people: {one.message}") for one in seen)
        moves = self._moves
        if moves.changed:
            seen = (*seen, changed_values(moves.changed, moves.matched))
        if 2 * moves.left > moves.left + moves.matched and 2 * moves.new > moves.new + moves.matched:
            seen = (*seen, few_stayed(moves.left, moves.new))
        return seen

    @property
    def error(self) -> TypicalError | None:
        """How far off counts will be, where it was worked out: for the first release."""
        return self._new.arrangement.error if self._new is not None and self._said is None else None

    def notes(self, unused: tuple[str, ...], followed: Followed) -> tuple[str, ...]:
        """What the publisher should know."""
        own: tuple[str, ...] = ()
        if self._new is not None:
            own = release_notes(self._new.arrangement, self._request, unused if self._said is None else ())
            own = own if self._said is None else tuple(f"of the new people: {note}" for note in own)
        return (*followed.sentences(), *own)

    def followed(self, manifest: Manifest) -> Followed:
        """What became of everybody."""
        chain = manifest.chain
        return Followed(
            release=self.number,
            moves=self._moves,
            held_back=self._held_back,
            counterfeits=self._new.counterfeits if self._new is not None else 0,
            surplus=chain.surplus if chain is not None else 0,
            places=sum(group.size * group.buckets for group in manifest.setting),
        )


def _widely_coded(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of which several batches can be written together: dictionaries have one type of codes and of values."""
    if pa.types.is_dictionary(values.type):
        return values.cast(pa.dictionary(pa.int32(), kind.value_type if pa.types.is_dictionary(kind) else kind))
    return values

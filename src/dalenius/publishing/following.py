"""A release that is one of a chain: the people of the release before stay where they were, and new ones come behind.

followed_people.py   who of the table was in the release before, with which value
followed_tables.py   which rows are read, and what the two tables and the manifest are made of

Whoever was there and has the same value stays in the same bucket, whose values stay what they are. Who left leaves the
value behind. So all releases of a chain together say no more of anybody than one of them: in a bucket of S values, each
remaining person has a value that c of them are with the probability c / S. Who is new, or has another value than before,
goes into new buckets, which are solved, cut and placed as any release is.

The release and the ledger that knows who is where change together (`release.ledger`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from dalenius.errors import AbsentCodesError, NoSolutionError, ReleaseError, SelfCheckError, UsageError
from dalenius.model.concern import Concern
from dalenius.model.exposure import TypicalError
from dalenius.model.problem import SizeGroup
from dalenius.model.progress import LAST_STAGE, Progress, Silent
from dalenius.place.columns import published_field
from dalenius.place.domains import Integers
from dalenius.place.sensitive import SensitiveCounter
from dalenius.place.slots import values_by_bucket
from dalenius.place.survey import Survey
from dalenius.policy.limits import LimitPolicy
from dalenius.publishing.arrangement import release_notes
from dalenius.publishing.counting import find_columns
from dalenius.publishing.description import TableSpecs, check_values, columns_of, describe, table_specs
from dalenius.publishing.engine import SurveySpec, open_engine
from dalenius.publishing.flow import Placements, check
from dalenius.publishing.followed_people import FollowedPeople, Movements, ValueTexts, Whereabouts
from dalenius.publishing.followed_tables import (
    PlacedRows,
    SomeRows,
    TypedSource,
    describe_next,
    runs_of_values,
    sizes_of,
)
from dalenius.publishing.local import LocalTable
from dalenius.publishing.local_output import LocalOutput
from dalenius.publishing.new_people import NewBuckets, NewPeople, of_rows
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.published import Release
from dalenius.release.folder import BATCH_ROWS, ReleaseFolder, open_release
from dalenius.release.ledger import Belongs, Entries, OpenLedger, digest_of_release, open_ledger
from dalenius.release.manifest import Manifest
from dalenius.release.neighbours import releases_in
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
        if moves.changed:
            yield (
                f"whoever sees {moves.changed:,} people move to other buckets knows that their values changed, and so "
                "that the old is not the new one: 'dalenius audit' of both releases says what that comes to"
            )
        if self.held_back:
            yield f"{self.held_back:,} people are held back: they are in no bucket yet, and not in this release"
        if self.counterfeits:
            yield (
                f"{self.counterfeits:,} counterfeits, which are nobody's values, fill up the buckets of new people: "
                "whoever can tell them from values of people infers more than the limits say"
            )
        if self.surplus:
            share = self.surplus / self.places
            advice = ""
            if share > MOST_SURPLUS:
                advice = (
                    ". Counts get worse with it: consider a new chain, whose price is that both can be compared "
                    "('dalenius audit' estimates it)"
                )
            yield f"{self.surplus:,} of {self.places:,} values ({share:.0%}) are nobody's any more{advice}"

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


MOST_SURPLUS = 1 / 3  # of the values of a release: from here on a new chain is worth its price


def publish_following(
    request: PublishRequest, out: str | os.PathLike[str], progress: Progress | None = None
) -> Release:
    """Publish a release of a chain to a folder, and the ledger that belongs to it."""
    progress = progress or Silent()
    options, target = request.options, Path(os.path.abspath(out))  # noqa: PTH100 (links are not followed)
    after = Path(options.after) if options.after is not None else None
    before = open_release(after) if after is not None else None
    _refuse_neighbours(after, target)
    with (
        open_ledger(Path(os.path.abspath(options.ledger or "")), after) as ledger,  # noqa: PTH100
        open_engine(request.table, options, request.budget) as engine,
        engine.output(str(target), options.force) as output,
    ):
        if not isinstance(output, LocalOutput):
            raise SelfCheckError("a chain is published by the local engine alone")
        if before is not None:
            _check_before(before, request)
        with ExitStack() as stack:
            with (
                engine.open(request.table, options.table) as table,
                FollowedPeople(output.scratch, request.budget.engine, ledger.key) as people,
            ):
                if not isinstance(table, LocalTable):
                    raise SelfCheckError("a chain is published by the local engine alone")
                unused = find_columns(table, request.roles)
                following = _Following(request, before, ledger, people, progress)
                following.find(table)
                following.place_new(output.scratch)
                manifest = following.write(output)
                stack.enter_context(ledger.written(following.belongs(manifest, target), following.entries()))
            folder = output.read_back(manifest)
            limits = LimitPolicy(values={value.value: Fraction(value.limit) for value in manifest.values})
            verdict = check(folder, limits, BATCH_ROWS, progress, before)
            progress.stage(LAST_STAGE)
            published = _commit(output, ledger, manifest, request, target)
    return Release(
        published,
        following.notes(unused, following.followed(manifest)),
        verdict=verdict,
        concerns=following.concerns,
        error=following.error,
        followed=following.followed(manifest).as_object(),
    )


def _commit(
    output: LocalOutput, ledger: OpenLedger, manifest: Manifest, request: PublishRequest, target: Path
) -> ReleaseFolder:
    """The release takes its place, and then the ledger; or neither does."""
    ledger.wait()
    try:
        published = output.commit(manifest, request.signature(manifest))
    except BaseException:
        if digest_of_release(target) != manifest.digest:
            ledger.withdraw()
        else:
            ledger.settle()
        raise
    ledger.settle()
    return published


def _refuse_neighbours(after: Path | None, target: Path) -> None:
    """An error if another release follows already on the one given, as far as anybody can see."""
    if after is None:
        return
    place = Path(os.path.abspath(after))  # noqa: PTH100
    if place == target:
        raise UsageError(
            "the release would replace the one that it follows on",
            "Give another --out, and keep the release before: the chain is verified with it.",
        )
    digest = digest_of_release(place)
    for folder in {place.parent, target.parent}:
        if digest is not None and any(one.previous == digest for one in releases_in(folder)):
            raise UsageError(
                "another release follows already on the one given; two that do can be compared with each other",
                "Give the latest release of the chain as --after, with its ledger. Was that one never given to anybody? "
                "Then remove its folder, and restore the ledger of the release before.",
            )


def _check_before(before: ReleaseFolder, request: PublishRequest) -> None:
    """An error if the release before is not one that this one can follow on, or has been changed."""
    said, roles = before.manifest, request.roles
    if said.chain is None:
        raise UsageError("the release to follow on is not one of a chain", "Publish with --ledger from the first on.")
    named = [column.name for column in said.columns.quasi_identifiers]
    if named != list(roles.quasi_identifiers) or said.columns.sensitive.name != roles.sensitive:
        raise UsageError(
            "the release before has other columns: " + ", ".join([*named, said.columns.sensitive.name]),
            "All releases of a chain have the same quasi-identifiers, in the same order, and the same sensitive column.",
        )
    adversary, solving = said.adversary, request.solving
    if (adversary.known_records, adversary.fake_values) != (solving.known_records, solving.fake_values):
        raise UsageError(
            f"the release before was made with --corrupted {adversary.known_records} and --fakes "
            f"{adversary.fake_values}",
            "Give the same: all releases of a chain protect against the same adversary.",
        )
    if request.options.null_name is not None and said.null_value not in (None, request.options.null_name):
        raise UsageError(
            f"nulls were called {said.null_value!r} in the release before", f"Say --null-value {said.null_value}."
        )
    for name, digest in said.tables.st.digests.items():
        found = hashlib.sha256()
        try:
            with before.store.open(name) as file:
                while chunk := file.read(2**20):
                    found.update(chunk)
        except OSError:
            raise ReleaseError("a file of the release before cannot be read", "Restore the release.") from None
        if found.hexdigest() != digest:
            raise ReleaseError(f"{name} of the release before was changed", "Restore the release as it was published.")


class _Following:
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

    def find(self, table: LocalTable) -> None:
        """Who of the table was in the release before, and where."""
        said, roles = self._said, self._request.roles
        if said is not None:
            table = table.wrapped(lambda source: TypedSource(source, said))
        self._table = table
        field = published_field(table.source.schema([roles.sensitive]).field(0))
        self._progress.stage("Linking", table.source.rows)
        rows = self._request.budget.batch_rows(_LINKED_BYTES)
        person = self._asked.roles.person or ""
        self._people.read(table.source, person, field, self._values, rows, self._progress.advance)
        absent = [code for code in self._asked.options.missing if code not in self._values.found_missing]
        if said is not None and not {*absent} <= {*said.missing}:
            raise AbsentCodesError.of(absent, "missing", self._values.texts)
        self._moves = self._people.join(self._ledger.now, self._before, self._values)
        self._where = self._people.whereabouts()
        self._counts = self._people.counts_of_new(self._where, self._values)

    def place_new(self, scratch: Path) -> None:
        """Buckets for the new people, if they can have any; if not, they wait, or counterfeits fill the buckets up."""
        number = sum(self._counts.values())
        if not number:
            return
        new = NewPeople(self._request, self._before, self._counts, self._table, self._where, self._progress)
        try:
            self._new = new.buckets()
        except NoSolutionError as error:
            if self._said is None:
                raise
            if self._asked.options.hold_back:
                self._held_back = number
                return
            if not self._asked.options.counterfeits:
                raise new.too_few(error) from None
            self._new = new.buckets_with_counterfeits(error)
        self._find_buckets(self._new, scratch)

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
            self._people.place(
                self._fill_in(own, offset),
                runs_of_values(arrangement, offset, BATCH_ROWS, self._values.number),
            )
        finally:
            own.close()

    def _fill_in(self, own: Whereabouts, offset: int) -> Iterator[tuple[Integers, Integers]]:
        """The rows of new people, some at a time, and their buckets, which are known from then on."""
        taken = 0
        for start, buckets in self._where.chunks():
            new = np.flatnonzero(buckets == 0)
            buckets[new] = own.read(taken, len(new)) + offset
            taken += len(new)
            self._where.write(start, buckets)
            yield new + start, buckets[new]

    def write(self, output: LocalOutput) -> Manifest:
        """Both tables, and what the manifest says of them."""
        survey, progress = self._survey(), self._progress
        specs = self._specs(survey)
        present = self._where.rows - self._held_back
        progress.stage("Writing", 2 * present)
        counter = SensitiveCounter(survey.sensitive.name, specs.st.schema.field(1).type)
        with self._table.keep(survey, self._groups, self._where, progress.advance) as kept:
            qit = kept.columns_in_order(progress.advance)
            of_qit, of_st = output.write_columns(qit, self._values_in_order(counter), (specs.qit, specs.st))
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
        if self._new is not None and self._new.survey.rows == self._where.rows:
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

    def _values_in_order(self, counter: SensitiveCounter) -> Iterator[list[pa.Array]]:
        """ST: what it was, and the values of the new buckets behind it."""
        for batch in self._before.batches("st", coded=True) if self._before is not None else ():
            counter.add(batch.column(1))
            yield batch.columns
        if self._new is not None:
            arrangement = self._new.arrangement
            sensitive, offset = arrangement.survey.sensitive, self._said.buckets if self._said is not None else 0
            rows = self._request.budget.piece_rows(arrangement.groups)
            for buckets, values in values_by_bucket(arrangement.partitions, rows, sensitive.published):
                decoded = sensitive.decode(values)
                counter.add(decoded)
                yield [arrow_array(buckets + offset), decoded]

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
        return Belongs(release=self.number, manifest=manifest.digest, before=before, target=str(target))

    def entries(self) -> Iterator[Entries]:
        """The ledger that belongs to the release."""
        return self._people.entries(self.number, self._held_back > 0)

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What was seen in the rows of new people."""
        return self._new.concerns if self._new is not None else ()

    @property
    def error(self) -> TypicalError | None:
        """How far off counts will be, where it was worked out: for the first release."""
        return self._new.arrangement.error if self._new is not None and self._said is None else None

    def notes(self, unused: tuple[str, ...], followed: Followed) -> tuple[str, ...]:
        """What the publisher should know."""
        own: tuple[str, ...] = ()
        if self._new is not None:
            own = release_notes(self._new.arrangement, self._request, unused if self._said is None else ())
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

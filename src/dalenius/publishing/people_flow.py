"""Publishing people who have several rows, or several sensitive values: the same stages as `flow`, for people.

people_limits.py   limits from how many people have a value
people_strata.py   people cut into strata, those with equally many rows together, and each stratum solved
people_tables.py   the tables of the release, and its manifest
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dalenius.errors import SelfCheckError
from dalenius.model.concern import Concern, by_weight
from dalenius.model.exposure import Exposure
from dalenius.model.plan import Method, Status
from dalenius.model.progress import LAST_STAGE, Progress, Silent
from dalenius.place.people import People, SetSpec
from dalenius.place.survey import Survey
from dalenius.policy.roles import identifying_columns
from dalenius.policy.whose_rows import alike_people
from dalenius.publishing.counting import find_columns
from dalenius.publishing.description import check_column, check_values
from dalenius.publishing.engine import Engine, SurveySpec, open_engine
from dalenius.publishing.inspection import inspect, look, unique_people, weigh
from dalenius.publishing.local import LocalTable
from dalenius.publishing.local_output import LocalOutput
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.people_buckets import Buckets, exposure_of, refuse_clear_values
from dalenius.publishing.people_limits import LimitedSet, limit_set
from dalenius.publishing.people_rules import check_method
from dalenius.publishing.people_strata import PeopleCut, PeopleStratifier
from dalenius.publishing.people_tables import PeopleTables
from dalenius.publishing.placements import check
from dalenius.publishing.published import Release
from dalenius.publishing.stratify import Stratifier
from dalenius.release.folder import BATCH_ROWS
from dalenius.tables.killable import PrivateFolder


@dataclass(frozen=True)
class SolvedPeople:
    """Everything that is decided before tables are written."""

    survey: Survey
    people: People
    sets: tuple[LimitedSet, ...]
    cut: PeopleCut
    concerns: tuple[Concern, ...]
    unused: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """What the publisher should know."""
        people, cut = self.people, self.cut
        several = int((people.rows_each > 1).sum())
        found = [note for one in self.sets for note in one.notes]
        if several:
            found.append(
                f"{people.number:,} people have {len(people.keys):,} rows; {several:,} of them have several. Limits "
                "are about people, and people of a bucket have equally many rows"
            )
        if people.dropped:
            found.append(f"{people.dropped:,} rows were left out: nobody keeps more rows than --most-rows says")
        for tuples in people.tuples:
            names = " and ".join(repr(self.sets[place].column.name) for place in tuples.sets)
            found.append(
                f"values of {names} are published together, row by row: whoever knows one of somebody's values learns "
                "more of the others than limits say"
            )
        if len(cut.strata) > 1:
            found.append(f"people are in {len(cut.strata):,} strata, by number of rows and quasi-identifiers")
        if self.unused:
            named = ", ".join(repr(name) for name in self.unused[:12]) + (" and more" if len(self.unused) > 12 else "")
            have = "1 column has" if len(self.unused) == 1 else f"{len(self.unused)} columns have"
            found.append(f"{have} no role and {'is' if len(self.unused) == 1 else 'are'} not published: {named}")
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class PeoplePlan:
    """What a release of people would cost."""

    solved: SolvedPeople
    status: Status

    @cached_property
    def exposure(self) -> Exposure:
        """How much the buckets would show of everybody."""
        return exposure_of(Buckets.of_cut(self.solved.cut), self.solved.sets)

    @property
    def sentences(self) -> Sequence[str]:
        """For people, a line each."""
        cut, people = self.solved.cut, self.solved.people
        buckets = sum(stratum.solution.setting.buckets for stratum in cut.strata)
        return (
            f"{people.number:,} people with {len(people.keys):,} rows go into {buckets:,} buckets",
            f"loss {cut.loss:,} (MSE {cut.loss / max(1, people.number - 1):.2f}); no buckets of these strata lose less "
            f"than {cut.bound:,}, so it is within {cut.gap:.2g} of the optimum",
            *self.solved.sentences(),
        )

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        cut, people = self.solved.cut, self.solved.people
        return {
            "exposure": self.exposure.as_object(),
            "people": people.number,
            "rows": len(people.keys),
            "dropped_rows": people.dropped,
            "status": str(self.status),
            "loss": cut.loss,
            "bound": cut.bound,
            "gap": cut.gap,
            "mse": cut.loss / max(1, people.number - 1),
            "strata": [
                {
                    "people": len(stratum.people),
                    "rows_each": stratum.rows_each,
                    "loss": stratum.solution.setting.loss,
                    "bound": stratum.solution.bound,
                    "setting": [
                        {"size": group.size, "buckets": group.buckets} for group in stratum.solution.setting.groups
                    ],
                }
                for stratum in cut.strata
            ],
            "sensitive": [
                {
                    "column": one.column.name,
                    "values": [
                        {"value": text, "people": count, "limit": str(limit)}
                        for text, count, limit in zip(one.column.texts, one.column.counts, one.limits, strict=True)
                    ],
                }
                for one in self.solved.sets
            ],
            "notes": list(self.solved.sentences()),
        }


def publish_people(
    request: PublishRequest,
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    temporary: PrivateFolder | None = None,
) -> Release:
    """Publish to a folder, as `publish_request` does; by that, if every person has one row and one value."""
    progress = progress or Silent()
    plain = as_plain(request)
    if plain is not None:
        from dalenius.publishing.flow import publish_rows  # which calls this function otherwise

        return publish_rows(plain, out, progress, temporary)
    with (
        open_engine(request.table, request.options, request.budget) as engine,
        engine.output(os.fspath(out), request.options.force) as output,
    ):
        with _solved(engine, request, progress) as solved:
            if not request.options.in_the_clear:
                refuse_clear_values(Buckets.of_cut(solved.cut), solved.sets)
            if not isinstance(output, LocalOutput):
                raise SelfCheckError("people are published by the local engine alone")
            tables = PeopleTables(request, solved.survey, solved.people, solved.sets, solved.cut)
            manifest = output.write_people(tables, progress)
            folder = output.read_back(manifest)
        verdict = check(folder, None, BATCH_ROWS // 2, progress)
        progress.stage(LAST_STAGE)
        published = output.commit(manifest, request.signature(manifest))
    return Release(published, solved.sentences(), verdict=verdict, concerns=solved.concerns, temporary=temporary)


def plan_people(request: PublishRequest, progress: Progress | None = None) -> PeoplePlan:
    """What the release would cost; no release."""
    with (
        open_engine(request.table, request.options, request.budget) as engine,
        _solved(engine, request, progress or Silent()) as solved,
    ):
        return PeoplePlan(solved, solved.cut.status(request.solving.strata_gap))


def inspect_people(request: PublishRequest, progress: Progress) -> tuple[Concern, ...]:
    """What a publisher should know about the table before people are published, the heaviest first; no release."""
    with (
        open_engine(request.table, request.options, request.budget) as engine,
        engine.open(request.table, request.options.table) as table,
    ):
        if not isinstance(table, LocalTable):
            raise SelfCheckError("people are read by the local engine alone")
        find_columns(table, request.roles)
        return inspect(table, _survey(table, request, _specs(request)[0], progress), request, progress)


def _specs(request: PublishRequest) -> list[SetSpec]:
    return [SetSpec(one.name, one.columns, one.null_name, one.missing) for one in request.roles.all_sets]


def as_plain(request: PublishRequest) -> PublishRequest | None:
    """The same request about rows, if each is a person's only one and has one sensitive value; else None."""
    roles = request.roles
    if roles.person is None or len(roles.sensitive_columns) > 1:
        return None
    with (
        open_engine(request.table, request.options, request.budget) as engine,
        engine.open(request.table, request.options.table) as table,
    ):
        find_columns(table, roles)
        if not isinstance(table, LocalTable) or not table.nobody_repeats(roles.person):
            return None
    of_rows = replace(roles, person=None, sets=(), identifiers=roles.all_identifiers)
    plain = replace(request, roles=of_rows, set_limits=(), options=replace(request.options, most_rows=None))
    object.__setattr__(plain, "key", request.key)  # of the same request
    return plain


@contextmanager
def _solved(engine: Engine, request: PublishRequest, progress: Progress) -> Iterator[SolvedPeople]:
    """Open the table, count people, resolve limits, cut and solve."""
    check_method(request.roles, Method(request.method))
    with engine.open(request.table, request.options.table) as table:
        if not isinstance(table, LocalTable):
            raise SelfCheckError("people are read by the local engine alone")
        unused = find_columns(table, request.roles)
        progress.stage("Counting")
        specs = _specs(request)
        table.check_room(specs, request.roles.together)
        survey = _survey(table, request, specs[0], progress)
        concerns = look(table, survey, request, progress)
        progress.stage("Counting", 2 * survey.rows)
        roles, most = request.roles, request.options.most_rows
        people = table.people(survey, specs, roles.person, most, request.key, progress, roles.together)
        concerns = by_weight((*concerns, *weigh(tuple(_of_people(people, request)), request, progress)))
        sets = tuple(
            limit_set(column, items, limits, spec.null_value)
            for column, items, limits, spec in zip(people.columns, people.items, request.set_limits, specs, strict=True)
        )
        for one, spec in zip(sets, specs, strict=True):
            check_column(one.column.name, one.column.listing.data_type, one.column.listing, request.format)
            one.column.refuse_absent_codes(spec.missing, one.policy.allow_absent)
        request.budget.check_values(sum(len(one.column.texts) for one in sets))
        cut = PeopleStratifier(request, survey, people, sets).cut(progress)
        yield SolvedPeople(survey, people, sets, cut, concerns, unused)


def _of_people(people: People, request: PublishRequest) -> Iterator[Concern]:
    """What can be said once it is known whose rows are whose."""
    person = request.roles.person
    if person is None:
        return
    if people.alike:
        yield alike_people(person, people.number, people.alike)
    yield from unique_people(people, request.roles.quasi_identifiers)


def _survey(table: LocalTable, request: PublishRequest, first: SetSpec, progress: Progress) -> Survey:
    """What the quasi-identifiers hold, and the first sensitive column, row by row."""
    spec = SurveySpec(
        first.columns[0],
        request.roles.quasi_identifiers,
        first.null_value,
        Stratifier(request).sample,
        identifying_columns(request.roles, table.names),
        missing=first.missing,
    )
    survey = table.survey(spec, progress)
    check_values(survey, request.format)
    return survey

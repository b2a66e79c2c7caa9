"""The main job, one call a stage: read, count, look, resolve the limits, solve, cut, place, write, verify.

options.py       what the publisher asks for, checked
engine.py        what publishing asks of an engine; local.py (this process) and spark/ answer
inspection.py    what to know about the table before it is published; determining.py measures
stratify.py      the table cut into strata, each of them solved
arrangement.py   everything that is decided before records are placed
description.py   what the two tables look like, and the manifest that describes them
published.py     the release in the hand
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dalenius.errors import NoSolutionError, UsageError
from dalenius.fakes.quotas import price_notes
from dalenius.model.concern import Concern
from dalenius.model.plan import Method, Plan, PlanOptions, Status
from dalenius.model.progress import LAST_STAGE, Progress, Silent
from dalenius.place.slots import Placement
from dalenius.place.survey import Survey
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.sensitive_sets import Sensitive, read_sets
from dalenius.policy.together import Together, read_together
from dalenius.policy.whose_rows import earlier_releases
from dalenius.publishing.arrangement import Arrangement, StrataPrice, arrange_whole, not_cut, release_notes
from dalenius.publishing.counting import count, counting_notes, find_columns
from dalenius.publishing.description import describe, table_specs
from dalenius.publishing.engine import OpenTable, open_engine
from dalenius.publishing.inspection import inspect, look, weigh
from dalenius.publishing.options import LOCAL, PublishOptions, PublishRequest, refuse_url
from dalenius.publishing.placements import Placements, check, limits_to_verify
from dalenius.publishing.published import Release
from dalenius.publishing.stratify import Stratifier
from dalenius.release.folder import BATCH_ROWS
from dalenius.release.neighbours import comparable
from dalenius.release.signature import SigningKey
from dalenius.release.writer import Format
from dalenius.tables.killable import PrivateFolder


def publish(
    table: Any,
    limits: LimitPolicy | Mapping[Any, Any],
    *,
    sensitive: Sensitive,
    quasi_identifiers: Sequence[str],
    identifiers: Sequence[str] = (),
    person: str | None = None,
    most_rows: int | None = None,
    ledger: str | os.PathLike[str] | None = None,
    after: str | os.PathLike[str] | None = None,
    hold_back: bool = False,
    counterfeits: bool = False,
    values_change: bool = False,
    keep_together: Together = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    format: Format | None = None,
    table_name: str | None = None,
    method: Method | str = Method.OPTIMAL,
    min_size: int | None = None,
    max_size: int | None = None,
    gap: float | None = None,
    time_limit: float = 60.0,
    known_records: int = 0,
    fake_values: int = 0,
    avoid_ruled_out: bool = False,
    strata: str | int | Sequence[str] | None = "auto",
    publish_in_the_clear: bool = False,
    strict: bool = False,
    null_value: str | None = None,
    missing: Sequence[str] = (),
    not_applicable: Sequence[str] = (),
    memory: int | None = None,
    seed: int | None = None,
    sign: SigningKey | str | os.PathLike[str] | None = None,
    engine: str = "duckdb",
    master: str | None = None,
    spark_remote: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Release:
    """Publish a table under limits on what may be inferred.

    `table` is a path (CSV, TSV, Parquet or DuckDB, or a folder of Parquet files), a pandas or polars DataFrame, a
    pyarrow Table or a DuckDB relation. Only the `quasi_identifiers` and the `sensitive` column are published, and the
    two are linked by bucket alone. With `out` the release is written to that folder, whole or not at all; without,
    `save` does it later. `memory` is the most that the whole program may take, in bytes. A `seed` makes the release
    reproducible and unfit for publication. `format` is "parquet" (one file for each table), "csv" or
    "parts" (folders of Parquet files). `sign` is a private key, or its file, with which to sign the release.

    With `engine="spark"` a cluster does the work. Then `table` is a path or a URL of Parquet, ORC or text files, the
    name of a table in the catalog, or a DataFrame of Spark (which needs no engine named); `out` may be a URL; and the
    release is in parts. The session is that of the DataFrame, the active one, or one made for a `master` or a Spark
    Connect server (`spark_remote`) with the settings of `spark_conf`.

    Buckets have two records or more, unless `min_size=1` is given. A release that gives somebody's value away outright
    is refused, unless the value's own limit is 1 or `publish_in_the_clear` says that it is meant.

    The limits hold even for an adversary who knows any `known_records` records of a bucket. `fake_values` fake values
    go into every bucket, against adversaries who know more. The notes say how many of them are ruled out for a record
    of their bucket by what can be learned from the release; `avoid_ruled_out` exchanges those, which has a price.

    `sensitive` is a column, or a list of columns and of sets of columns of one kind, each with its own limits:
    `[{"columns": ["diag_1", "diag_2"], "name": "diagnosis", "limits": {"odds": 4}}, "insulin"]`. Where people have
    several rows, `person` is the column that says whose they are: then limits are about people. It is not published. Of
    people with more than `most_rows` rows, so many are kept, at random.

    Releases of the same people over time are a chain: with a `ledger`, a private file that the first release makes,
    each next one is published `after` the one before, and all together tell no more of anybody than one. New people who
    are too few for buckets of their own are an error, unless they are to wait (`hold_back`), or values that are
    nobody's fill their buckets up (`counterfeits`). So it is if most people have another value than before, unless
    `values_change` says that it is true.

    What goes with what in different sensitive columns is not published, unless they are in one list of `keep_together`:
    `[["diag_1", "insulin"]]`. Then their values are published as tuples, too, and whoever knows one of somebody's
    values learns more of the others than limits say: `Release.concerns` says how much.

    Nulls of the sensitive column count as `null_value`, and so do the texts that are `missing`. People whose value is
    `not_applicable` are set apart: it is published outright that the question does not apply to them.

    Before anything is written, the table is looked at: `Release.concerns`. With `strict`, a concern that is more than
    a note is an error.

    >>> import dalenius, pyarrow
    >>> table = pyarrow.table({"Age": [31, 42, 53, 64], "Disease": ["Flu", "Flu", "HIV", "Flu"]})
    >>> release = dalenius.publish(table, {"Flu": 1, "HIV": "1/2"}, sensitive="Disease", quasi_identifiers=["Age"])
    >>> release.verify(against=table).verified
    True
    """
    said = read_sets(sensitive, limits, null_value, _names(missing))
    roles = said.roles(_names(quasi_identifiers), _names(identifiers), person, read_together(keep_together))
    request = PublishRequest(
        table=table,
        roles=roles,
        limits=said.limits[0],
        set_limits=said.limits_by_set(roles),
        method=method,
        solving=PlanOptions.of(
            min_size=min_size,
            max_size=max_size,
            gap=gap,
            time_limit=time_limit,
            known_records=known_records,
            fake_values=fake_values,
        ),
        options=PublishOptions(
            null_value=said.sets[0].null_value,
            missing=said.sets[0].missing,
            not_applicable=_names(not_applicable),
            table=table_name,
            format=format,
            force=force,
            memory=memory,
            seed=seed,
            avoid_ruled_out=avoid_ruled_out,
            strata=strata,
            in_the_clear=publish_in_the_clear,
            strict=strict,
            engine=engine,
            master=master,
            spark_remote=spark_remote,
            spark_conf=tuple((spark_conf or {}).items()),
            sign=sign,
            most_rows=most_rows,
            ledger=ledger,
            after=after,
            hold_back=hold_back,
            counterfeits=counterfeits,
            values_change=values_change,
        ),
    )
    if out is not None:
        return publish_request(request, out, progress)
    if ledger is not None:
        raise UsageError("a release of a chain is published to a folder, since its ledger says so", "Give out.")
    temporary = PrivateFolder()
    try:
        return publish_request(request, temporary.path / "release", progress, temporary)
    except BaseException:
        temporary.remove()
        raise


def publish_request(
    request: PublishRequest,
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    temporary: PrivateFolder | None = None,
) -> Release:
    """Publish to a folder. A `temporary` folder around it is removed with the release object."""
    progress = progress or Silent()
    options = request.options
    if options.engine == LOCAL:
        refuse_url(out, "the output")
    earlier = weigh(_earlier_releases(request, out), request, progress) if temporary is None else ()
    if options.ledger is not None:
        from dalenius.publishing.following import publish_following

        return publish_following(request, out, progress).knowing(earlier)
    if request.by_people:
        from dalenius.publishing.people_flow import publish_people

        return publish_people(request, out, progress, temporary).knowing(earlier)
    return publish_rows(request, out, progress, temporary).knowing(earlier)


def _earlier_releases(request: PublishRequest, out: str | os.PathLike[str]) -> tuple[Concern, ...]:
    """Releases beside the target that this one can be compared with, where the target is on this machine."""
    if request.options.engine != LOCAL:
        return ()
    roles, after = request.roles, request.options.after
    target = Path(os.path.abspath(out))  # noqa: PTH100 (links are not followed)
    names = [name for one in roles.all_sets for name in (one.name, *one.columns)]
    number = comparable(target, roles.quasi_identifiers, names, Path(after) if after is not None else None)
    return (earlier_releases(number, roles.person, request.options.ledger is not None),) if number else ()


def publish_rows(
    request: PublishRequest,
    out: str | os.PathLike[str],
    progress: Progress,
    temporary: PrivateFolder | None = None,
) -> Release:
    """Publish a table in which every row is a person's only one, stage by stage."""
    options = request.options
    with (
        open_engine(request.table, options, request.budget) as engine,
        engine.output(os.fspath(out), options.force) as output,
    ):
        with engine.open(request.table, options.table) as table:  # read
            unused = find_columns(table, request.roles)
            survey, policy = count(table, request, progress)  # count
            concerns = look(table, survey, request, progress)  # look
            plan = solve(survey, policy, request, progress)  # solve
            arrangement = cut(table, survey, plan, request, progress)  # cut
            if not request.options.in_the_clear:
                arrangement.refuse_clear_values(policy)
            specs = table_specs(request.roles, survey, request.format)
            placements = Placements(arrangement, request)
            placement: Placement | None = placements.first()
            while placement is not None:  # once; with fake values again, as long as fewer of them can be ruled out
                with table.place(arrangement, placement, progress) as placed:  # place
                    qit, st = output.write(arrangement, placed, specs.qit, specs.st, progress)  # write
                manifest = describe(request, arrangement, specs, qit, st)
                folder = output.read_back(manifest)
                placement = placements.next(folder, progress)
        verdict = check(folder, limits_to_verify(policy, plan), min(survey.batch_rows, BATCH_ROWS), progress)  # verify
        progress.stage(LAST_STAGE)
        published = output.commit(manifest, request.signature(manifest))
    notes = (
        *counting_notes(survey),
        *release_notes(arrangement, request, unused),
        *price_notes(plan),
        *placements.notes(),
    )
    return Release(published, notes, verdict=verdict, concerns=concerns, error=arrangement.error, temporary=temporary)


def inspect_table(request: PublishRequest, progress: Progress | None = None) -> tuple[Concern, ...]:
    """What a publisher should know about the table before it is published, the heaviest first; no release."""
    progress = progress or Silent()
    if request.by_people:
        from dalenius.publishing.people_flow import inspect_people

        return inspect_people(request, progress)
    with _counted(request, progress) as (table, survey, _):
        return inspect(table, survey, request, progress)


def price_strata(request: PublishRequest, progress: Progress | None = None) -> StrataPrice:
    """What publishing in strata would cost, against the table as one: every stage before placing, and no release."""
    progress = progress or Silent()
    with _counted(request, progress) as (table, survey, policy):
        plan = solve(survey, policy, request, progress)
        arrangement = cut(table, survey, plan, request, progress)
    sentences = (*counting_notes(survey), *arrangement.sentences(), *not_cut(arrangement, request), *price_notes(plan))
    return arrangement.price(policy, sentences)


@contextmanager
def _counted(request: PublishRequest, progress: Progress) -> Iterator[tuple[OpenTable, Survey, LimitPolicy]]:
    """The open table, what it holds and the policy, for whoever does not publish it."""
    with (
        open_engine(request.table, request.options, request.budget) as engine,
        engine.open(request.table, request.options.table) as table,
    ):
        find_columns(table, request.roles)
        yield table, *count(table, request, progress)


def solve(survey: Survey, policy: LimitPolicy, request: PublishRequest, progress: Progress) -> Plan:
    """The best bucket setting for the table as one; an error if no setting keeps the limits."""
    progress.stage("Solving")
    plan = plan_counts(survey.sensitive.value_counts, policy, request.method, request.solving)
    if plan.status is Status.INFEASIBLE or plan.solution.partition is None:
        reason = plan.no_solution.reason if plan.no_solution is not None else "infeasible"
        raise NoSolutionError(f"no release exists under these limits ({reason})", "See 'dalenius plan'.", plan)
    for sentence in (*counting_notes(survey), *price_notes(plan)):
        progress.tell(sentence)
    return plan


def cut(table: OpenTable, survey: Survey, plan: Plan, request: PublishRequest, progress: Progress) -> Arrangement:
    """The table in strata, each of them solved, or as one; the publisher hears the price before anything is placed."""
    random = request.random_bits()
    if request.strata.kind == "none":
        arrangement = arrange_whole(survey, plan, table.count(survey, None, progress), random)
    else:
        arrangement = Stratifier(request).cut(table, survey, plan, random, progress)
    for sentence in arrangement.sentences()[:1]:
        progress.tell(sentence)
    request.budget.check_fakes(request.solving.fake_values * arrangement.setting.buckets)
    return arrangement


def _names(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)

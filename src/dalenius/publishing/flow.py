"""The main job, one line a stage: read, count, resolve the limits, solve, place, write, verify.

engines.py     who reads, places and writes
preparing.py   as far as solving, and cutting into strata
placing.py     every record to its bucket and into the tables

The first half of publishing: the table is read and counted, the limits resolved, the setting found, strata cut.

Nothing is placed or written yet. What is left to do needs the table again, so it stays open as long as it takes.

The second half of publishing: every record to its bucket and into the tables.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dalenius.errors import NoSolutionError, SelfCheckError, UsageError
from dalenius.fakes.avoiding import MOST_ROUNDS, FakeImprover
from dalenius.fakes.marking import draw_marks
from dalenius.fakes.quotas import price_notes, unprotected_notes
from dalenius.model.plan import Method, Plan, PlanOptions, Status
from dalenius.model.progress import LAST_STAGE, Progress, Silent
from dalenius.place.budget import Budget
from dalenius.place.permutation import KEY_BYTES
from dalenius.place.slots import Placement
from dalenius.place.survey import Survey
from dalenius.planning import plan_counts, single_record_notes
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.policy.roles import Roles
from dalenius.publishing.deal import Deal, StrataPrice, whole
from dalenius.publishing.description import Work, manifest_of, shapes
from dalenius.publishing.engine import Engine, Job, OpenTable, Output, Wanted
from dalenius.publishing.engine_choice import LOCAL, engine_for, refuse_url, settled
from dalenius.publishing.options import PublishOptions, StrataWish
from dalenius.publishing.published import Release
from dalenius.publishing.stratify import Stratifier
from dalenius.release.atomic import writable
from dalenius.release.folder import BATCH_ROWS, ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.release.writer import Format
from dalenius.tables.delimited import missing_column
from dalenius.verify.judge import verify


@dataclass(frozen=True)
class Ready:
    """A table that is open, counted, planned and cut, and what is known of it."""

    opened: OpenTable
    survey: Survey
    policy: LimitPolicy
    plan: Plan
    deal: Deal
    left_out: tuple[str, ...]


class Preparation:
    """What was asked for, checked before anything is read or written.

    `key` is that of everything random in a release but fakes; it is forgotten at the end.
    """

    def __init__(
        self,
        roles: Roles,
        limits: LimitPolicy | Mapping[Any, Any],
        method: Method | str,
        solving: PlanOptions,
        options: PublishOptions,
    ) -> None:
        _check(roles, options)
        self.budget = Budget.of(options.memory)
        self.key = _key(options.seed)
        self.wish = StrataWish.of(options.strata, roles.quasi_identifiers)
        self._roles, self._limits, self._method = roles, limits, method
        self._solving, self._options = solving, options

    @contextmanager
    def ready(self, engine: Engine, table: Any, progress: Progress) -> Iterator[Ready]:
        """Count, resolve the limits, solve and cut; the table is open until the end of the context."""
        roles, options, budget = self._roles, self._options, self.budget
        stratifier = Stratifier(self.wish, self._solving, budget, self.key) if self.wish.kind != "none" else None
        with engine.open(table, options.table) as opened:
            left_out = _left_out(opened, roles)
            progress.stage("Counting")
            sample = stratifier.sample if stratifier is not None else None
            found = opened.survey(
                Wanted(roles.sensitive, roles.quasi_identifiers, options.null_value, sample), progress
            )
            budget.check_values(len(found.sensitive.texts))
            if stratifier is not None:
                stratifier.check(found)
            progress.stage("Solving")
            counts = found.sensitive.value_counts
            policy = as_policy(self._limits, counts)
            plan = _solved(plan_counts(counts, policy, self._method, self._solving))
            for sentence in price_notes(plan):
                progress.tell(sentence)
            rng = random_bits(options.seed)
            if stratifier is None:
                deal = whole(plan, found, opened.count(found, None, progress), rng)
            else:
                deal = stratifier.cut(opened, found, plan, rng, progress)
            for sentence in deal.sentences(plan)[:1]:  # the price, before anything is placed
                progress.tell(sentence)
            yield Ready(opened, found, policy, plan, deal, left_out)


def _check(roles: Roles, options: PublishOptions) -> None:
    if not roles.quasi_identifiers:
        raise UsageError("no quasi-identifiers are named", "Say which columns to publish beside the sensitive one.")
    named = [*roles.quasi_identifiers, *roles.identifiers, roles.sensitive]
    if not all(isinstance(name, str) and name for name in named):
        raise UsageError("column names must be text")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the column {twice!r} has more than one role", "Name each column once.")
    if options.seed is not None and (isinstance(options.seed, bool) or not isinstance(options.seed, int)):
        raise UsageError(f"the seed must be a whole number, got {type(options.seed).__name__}")
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"the seed must not be negative, got {options.seed}")
    if options.memory is not None and (isinstance(options.memory, bool) or not isinstance(options.memory, int)):
        raise UsageError(f"memory is a number of bytes, got {type(options.memory).__name__}", "Give 2 * 10**9.")


def _left_out(opened: OpenTable, roles: Roles) -> tuple[str, ...]:
    """The columns in no role, once every named one is known to be there."""
    named = [roles.sensitive, *roles.quasi_identifiers, *roles.identifiers]
    for name in named:
        if name not in opened.names:
            raise missing_column(name, opened.names)
    return tuple(name for name in opened.names if name not in named)


def _solved(plan: Plan) -> Plan:
    if plan.status is Status.INFEASIBLE or plan.solution.partition is None:
        reason = plan.no_solution.reason if plan.no_solution is not None else "infeasible"
        raise NoSolutionError(f"no release exists under these limits ({reason})", "See 'dalenius plan'.", plan)
    return plan


def random_bits(seed: int | None) -> random.Random:
    """Where fakes come from: the operating system, or, for tests, a seed."""
    return secrets.SystemRandom() if seed is None else random.Random(f"dalenius seed {seed}")  # noqa: S311 (for tests)


def _key(seed: int | None) -> bytes:
    """The key of everything that is random in a release but fakes; it is forgotten at the end."""
    return secrets.token_bytes(KEY_BYTES) if seed is None else hashlib.sha256(f"dalenius seed {seed}".encode()).digest()


class Placing:
    """Places the records of one table into one output, again if need be."""

    def __init__(self, ready: Ready, roles: Roles, work: Work, output: Output) -> None:
        self._ready, self._roles, self._work, self._output = ready, roles, work, output

    def placed(self, key: bytes, progress: Progress) -> tuple[Manifest, ReleaseFolder, tuple[str, ...]]:
        """The manifest, the release as it can be read back, and what to know about its fakes.

        Every record goes to its bucket; with fakes, again until none is ruled out, as far as possible.
        """
        parts, options = self._work.deal.parts, self._work.options
        marks = draw_marks(parts, key) if self._work.deal.fake_values else None
        made, folder = self._place(Placement(parts, key, marks), progress)
        if marks is None:
            return made, folder, ()
        avoiding = FakeImprover(parts, random_bits(options.seed), MOST_ROUNDS if options.avoid_ruled_out else 0)
        progress.stage("Learning")
        while (marks := avoiding.improve(folder, marks)) is not None:
            made, folder = self._place(Placement(parts, key, marks), progress)
            progress.stage("Learning")
        return made, folder, (*unprotected_notes(parts), *avoiding.sentences())

    def _place(self, placement: Placement, progress: Progress) -> tuple[Manifest, ReleaseFolder]:
        """Place every record, write both tables, and read them back."""
        found, deal = self._work.survey, self._work.deal
        job = Job(found, deal.counted, deal.cutter, deal.parts, placement)
        with self._ready.opened.place(job, progress) as placed:
            looks = shapes(self._roles, found, self._work.options.format or "parquet")
            qit, st = self._output.write(job, placed, looks.qit, looks.st, progress)
        made = manifest_of(self._roles, self._work, looks, qit, st)
        return made, self._output.read_back(made)


def publish(
    table: Any,
    limits: LimitPolicy | Mapping[Any, Any],
    *,
    sensitive: str,
    quasi_identifiers: Sequence[str],
    identifiers: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    format: Format | None = None,  # noqa: A002 (what everybody calls it)
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
    null_value: str | None = None,
    memory: int | None = None,
    seed: int | None = None,
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
    reproducible and unfit for publication. `format` is "parquet" (one file for each of the two tables), "csv" or
    "parts" (folders of Parquet files).

    With `engine="spark"` a cluster does the work. Then `table` is a path or a URL of Parquet, ORC or text files, the
    name of a table in the catalog, or a DataFrame of Spark (which needs no engine named); `out` may be a URL; and the
    release is in parts. The session is that of the DataFrame, the active one, or one made for a `master` or a Spark
    Connect server (`spark_remote`) with the settings of `spark_conf`.

    The limits hold even for an adversary who knows any `known_records` records of a bucket. `fake_values` fake values
    go into every bucket, against adversaries who know more. The notes say how many of them are ruled out for a record
    of their bucket by what can be learned from the release; `avoid_ruled_out` exchanges those, which has a price.

    >>> import dalenius, pyarrow
    >>> table = pyarrow.table({"Age": [31, 42, 53, 64], "Disease": ["Flu", "Flu", "HIV", "Flu"]})
    >>> release = dalenius.publish(table, {"Flu": 1, "HIV": "1/2"}, sensitive="Disease", quasi_identifiers=["Age"])
    >>> release.verify(against=table).verified
    True
    """
    roles = Roles(sensitive, _listed(quasi_identifiers), _listed(identifiers))
    options = PublishOptions(
        null_value,
        table_name,
        format,
        force,
        memory,
        seed,
        avoid_ruled_out,
        strata,
        engine,
        master,
        spark_remote,
        tuple((spark_conf or {}).items()),
    )
    solving = PlanOptions.of(min_size, max_size, gap, time_limit, known_records, fake_values)
    if out is not None:
        return publish_table(table, roles, limits, out, method, solving, options, progress)
    temporary = tempfile.mkdtemp(prefix="dalenius-")
    try:
        target = Path(temporary, "release")
        return publish_table(table, roles, limits, target, method, solving, options, progress, temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def publish_table(
    table: Any,
    roles: Roles,
    limits: LimitPolicy | Mapping[Any, Any],
    out: str | os.PathLike[str],
    method: Method | str,
    solving: PlanOptions,
    options: PublishOptions,
    progress: Progress | None = None,
    temporary: str | None = None,
) -> Release:
    """Publish to a folder, stage by stage. A `temporary` folder around it goes with the release in hand."""
    progress = progress or Silent()
    options = settled(table, options)
    if options.engine == LOCAL:
        refuse_url(out, "the output")
    preparation = Preparation(roles, limits, method, solving, options)
    with (
        engine_for(table, options, preparation.budget) as engine,
        engine.output(os.fspath(out), options.force) as output,
    ):
        with preparation.ready(engine, table, progress) as ready:
            found, plan, deal = ready.survey, ready.plan, ready.deal
            preparation.budget.check_fakes(solving.fake_values * deal.setting.buckets)
            work = Work(found, plan, deal, options)
            made, folder, avoided = Placing(ready, roles, work, output).placed(preparation.key, progress)
        progress.stage("Verifying", made.tables.qit.rows + made.tables.st.rows)
        with writable():  # which may be gone by now
            _verify(folder, _judged(ready.policy, plan), min(found.batch_rows, BATCH_ROWS), progress)
        progress.stage(LAST_STAGE)
        published = output.commit(made)
    notes = (*_notes(ready, preparation.wish), *price_notes(plan), *avoided)
    return Release(published, notes, temporary=temporary)


def price_of_strata(
    table: Any,
    roles: Roles,
    limits: LimitPolicy | Mapping[Any, Any],
    method: Method | str,
    solving: PlanOptions,
    options: PublishOptions,
    progress: Progress | None = None,
) -> StrataPrice:
    """What publishing in strata would cost, against the table as one: everything as far as placing, and no release."""
    progress = progress or Silent()
    options = settled(table, options)
    preparation = Preparation(roles, limits, method, solving, options)
    with engine_for(table, options, preparation.budget) as engine, preparation.ready(engine, table, progress) as ready:
        sentences = (
            *ready.deal.sentences(ready.plan),
            *_not_cut(ready.deal, preparation.wish),
            *price_notes(ready.plan),
        )
        return ready.deal.price(ready.plan, sentences)


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _verify(folder: ReleaseFolder, policy: LimitPolicy, batch_rows: int, progress: Progress) -> None:
    """The release as anybody could judge it who knows the limits, before anybody else can see it."""
    verdict = verify(folder, policy=policy, progress=_Steps(progress), batch_rows=batch_rows)
    if not verdict.verified:
        failed = ", ".join(check.check for check in verdict.checks if not check.passed)
        raise SelfCheckError(
            f"the release did not pass its own verification ({failed}), and was not published",
            "This is probably a bug in Dalenius: please report it.",
        )


class _Steps:
    """Rows done so far, as verification tells them, turned into steps."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._done = progress, 0

    def __call__(self, done: int, _total: int) -> None:
        self._progress.advance(done - self._done)
        self._done = done


def _judged(policy: LimitPolicy, plan: Plan) -> LimitPolicy:
    """The policy by which the release is verified: itself, or, where fakes hide its counts, what it comes to."""
    if not plan.problem.fake_values:
        return policy
    return LimitPolicy(values=dict(zip(plan.problem.values, plan.problem.limits, strict=True)))


def _notes(ready: Ready, wish: StrataWish) -> tuple[str, ...]:
    found, plan, deal, left_out = ready.survey, ready.plan, ready.deal, ready.left_out
    notes = list(plan.notes)
    if deal.cutter is not None and plan.solution.setting is not None:  # what is said of the setting of one stratum
        about_one = (*plan.solution.notes, *single_record_notes(plan.solution.setting, deal.fake_values))
        notes = [note for note in notes if note not in about_one]
        notes += [*deal.sentences(plan), *single_record_notes(deal.setting, deal.fake_values)]
    notes += _not_cut(deal, wish)
    if left_out:
        named = ", ".join(repr(name) for name in left_out[:12]) + (" and more" if len(left_out) > 12 else "")
        have = "1 column has no role and is" if len(left_out) == 1 else f"{len(left_out)} columns have no role and are"
        notes.append(f"{have} not published: {named}")
    notes += [
        f"the order of the categories of {name!r} is not published: rows may show in it" for name in found.unordered
    ]
    notes += [
        f"{name!r} has a value of its own for nearly every record; if it identifies people, name it an identifier"
        for name in found.nearly_unique
    ]
    return tuple(notes)


def _not_cut(deal: Deal, wish: StrataWish) -> tuple[str, ...]:
    """A sentence for those who asked for strata and get none."""
    if deal.cutter is not None or wish.kind not in ("number", "columns"):
        return ()
    return ("the table was not cut: there are no two parts that differ beyond chance and can keep the limits",)

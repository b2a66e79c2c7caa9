"""The main job, one line a stage: read, count, resolve the limits, solve, place, write, verify."""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from dalenius.audit.verify import verify
from dalenius.dealing import Deal, whole
from dalenius.engines.arrays import plain_arrow_errors
from dalenius.engines.arrow import Source
from dalenius.engines.delimited import missing_column
from dalenius.engines.sources import open_source
from dalenius.errors import NoSolutionError, SelfCheckError, UsageError
from dalenius.model.plan import Plan, PlanOptions
from dalenius.model.progress import LAST_STAGE, Progress, Silent
from dalenius.model.solution import Method, Status
from dalenius.place.budget import Budget
from dalenius.place.cutting import Virtual
from dalenius.place.marking import draw_marks
from dalenius.place.packed import PackedRecords
from dalenius.place.permutation import KEY_BYTES
from dalenius.place.pieces import Pieces
from dalenius.place.slots import Placement
from dalenius.place.stream import Records, place_kept, place_records
from dalenius.place.survey import Survey, survey
from dalenius.place.wide import WideRecords
from dalenius.planning import plan_counts, single_records
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.policy.strata import StrataWish
from dalenius.protect.avoiding import MOST_ROUNDS, Avoiding
from dalenius.protect.partition import price, unprotected
from dalenius.published import Release
from dalenius.release.folder import BATCH_ROWS, ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.release.staging import Staging, staging, writable
from dalenius.release.write import FORMATS, Format
from dalenius.stratifying import Stratifier
from dalenius.writing import PublishOptions, Roles, Work, write_release


def publish(
    table: Any,
    limits: LimitPolicy | Mapping[Any, Any],
    *,
    sensitive: str,
    quasi_identifiers: Sequence[str],
    identifiers: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    format: Format = "parquet",  # noqa: A002 (what everybody calls it)
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
    progress: Progress | None = None,
) -> Release:
    """Publish a table under limits on what may be inferred.

    `table` is a path (CSV, TSV, Parquet or DuckDB), a pandas or polars DataFrame, a pyarrow Table or a DuckDB relation.
    Only the `quasi_identifiers` and the `sensitive` column are published, and the two are linked by bucket alone. With
    `out` the release is written to that folder, whole or not at all; without, `save` does it later. `memory` is the
    most that the whole program may take, in bytes. A `seed` makes the release reproducible and unfit for publication.

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
    options = PublishOptions(null_value, table_name, format, force, memory, seed, avoid_ruled_out, strata)
    solving = PlanOptions.of(min_size, max_size, gap, time_limit, known_records, fake_values)
    if out is not None:
        return publish_table(table, roles, limits, Path(out), method, solving, options, progress)
    temporary = tempfile.mkdtemp(prefix="dalenius-")
    try:
        made = publish_table(table, roles, limits, Path(temporary, "release"), method, solving, options, progress)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return Release(ReleaseFolder(made.path, made.manifest), made.notes, temporary=temporary)


def publish_table(
    table: Any,
    roles: Roles,
    limits: LimitPolicy | Mapping[Any, Any],
    out: Path,
    method: Method | str,
    solving: PlanOptions,
    options: PublishOptions,
    progress: Progress | None = None,
) -> Release:
    """Publish to a folder, stage by stage."""
    told = progress if progress is not None else Silent()
    _check(roles, options)
    budget = Budget.of(options.memory)
    key = _key(options.seed)
    wish = StrataWish.of(options.strata, roles.quasi_identifiers)
    stratifier = Stratifier(wish, solving, budget, key) if wish.kind != "none" else None
    with staging(out, options.force) as stage:
        with plain_arrow_errors(), open_source(table, options.table, budget.engine) as source:
            left_out = _left_out(source, roles)
            told.stage("Counting")
            columns = [*roles.quasi_identifiers, roles.sensitive]
            sample = stratifier.sample(source, columns) if stratifier is not None else None
            found = survey(
                source, roles.sensitive, roles.quasi_identifiers, options.null_value, budget, told.advance, sample
            )
            budget.check_values(len(found.sensitive.texts))
            if stratifier is not None:
                stratifier.check(found)
            told.stage("Solving")
            counts = found.sensitive.value_counts
            policy = as_policy(limits, counts)
            plan = _solved(plan_counts(counts, policy, method, solving))
            for sentence in price(plan):
                told.tell(sentence)
            with ThreadPoolExecutor(_cores()) as workers, writable():
                rng = _random(options.seed)
                if stratifier is None:
                    deal = whole(plan, found, rng)
                else:
                    deal = stratifier.cut(source, found, plan, workers, rng, told)
                for sentence in deal.sentences(plan)[:1]:  # the price, before anything is placed
                    told.tell(sentence)
                budget.check_fakes(solving.fake_values * deal.setting.buckets)
                work = Work(found, plan, deal, budget, options, stage)
                made, avoided = _placed(source, roles, work, key, workers, told)
        told.stage("Verifying", made.tables.qit.rows + made.tables.st.rows)
        with ThreadPoolExecutor(1) as disk:
            stage.sync(disk)
            _verify(stage, _judged(policy, plan), min(found.batch_rows, BATCH_ROWS), told)
        told.stage(LAST_STAGE)
        with writable():
            stage.commit(options.force)
    return Release(ReleaseFolder(out, made), (*_notes(found, plan, deal, wish, left_out), *price(plan), *avoided))


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _check(roles: Roles, options: PublishOptions) -> None:
    if not roles.quasi_identifiers:
        raise UsageError("no quasi-identifiers are named", "Say which columns to publish beside the sensitive one.")
    named = [*roles.quasi_identifiers, *roles.identifiers, roles.sensitive]
    if not all(isinstance(name, str) and name for name in named):
        raise UsageError("column names must be text")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the column {twice!r} has more than one role", "Name each column once.")
    if options.format not in FORMATS:
        raise UsageError(f"there is no format {options.format!r}", f"Known: {', '.join(FORMATS)}.")
    if options.seed is not None and (isinstance(options.seed, bool) or not isinstance(options.seed, int)):
        raise UsageError(f"the seed must be a whole number, got {type(options.seed).__name__}")
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"the seed must not be negative, got {options.seed}")
    if options.memory is not None and (isinstance(options.memory, bool) or not isinstance(options.memory, int)):
        raise UsageError(f"memory is a number of bytes, got {type(options.memory).__name__}", "Give 2 * 10**9.")


def _verify(stage: Staging, policy: LimitPolicy, batch_rows: int, told: Progress) -> None:
    """The release as anybody could judge it who knows the limits, before anybody else can see it."""
    verdict = verify(stage.folder, policy=policy, progress=_Steps(told), batch_rows=batch_rows)
    if not verdict.verified:
        failed = ", ".join(check.check for check in verdict.checks if not check.passed)
        raise SelfCheckError(
            f"the release did not pass its own verification ({failed}), and was not published",
            "This is probably a bug in Dalenius: please report it.",
        )


class _Steps:
    """Rows done so far, as verification tells them, turned into steps."""

    def __init__(self, told: Progress) -> None:
        self._told, self._done = told, 0

    def __call__(self, done: int, _total: int) -> None:
        self._told.advance(done - self._done)
        self._done = done


def _left_out(source: Source, roles: Roles) -> tuple[str, ...]:
    """The columns in no role, once every named one is known to be there."""
    named = [roles.sensitive, *roles.quasi_identifiers, *roles.identifiers]
    for name in named:
        if name not in source.names:
            raise missing_column(name, source.names)
    return tuple(name for name in source.names if name not in named)


def _solved(plan: Plan) -> Plan:
    if plan.status is Status.INFEASIBLE or plan.solution.partition is None:
        reason = plan.no_solution.reason if plan.no_solution is not None else "infeasible"
        raise NoSolutionError(f"no release exists under these limits ({reason})", "See 'dalenius plan'.", plan)
    return plan


def _judged(policy: LimitPolicy, plan: Plan) -> LimitPolicy:
    """The policy by which the release is verified: itself, or, where fakes hide its counts, what it comes to."""
    if not plan.problem.fake_values:
        return policy
    return LimitPolicy(values=dict(zip(plan.problem.values, plan.problem.limits, strict=True)))


def _random(seed: int | None) -> random.Random:
    return secrets.SystemRandom() if seed is None else random.Random(f"dalenius seed {seed}")  # noqa: S311 (for tests)


def _key(seed: int | None) -> bytes:
    """The key of everything that is random in a release but fakes; it is forgotten at the end."""
    return secrets.token_bytes(KEY_BYTES) if seed is None else hashlib.sha256(f"dalenius seed {seed}".encode()).digest()


def _placed(
    source: Source, roles: Roles, work: Work, key: bytes, workers: ThreadPoolExecutor, told: Progress
) -> tuple[Manifest, tuple[str, ...]]:
    """Every record to its bucket and into the tables; with fakes, again until none is ruled out, as far as possible."""
    parts = work.deal.parts
    marks = draw_marks(parts, key) if work.deal.fake_values else None
    made = _place(source, roles, work, Placement(parts, key, marks), workers, told)
    if marks is None:
        return made, ()
    rounds = MOST_ROUNDS if work.options.avoid_ruled_out else 0
    avoiding = Avoiding(parts, _random(work.options.seed), rounds)
    told.stage("Learning")
    while (marks := avoiding.improved(ReleaseFolder(work.stage.folder, made), marks)) is not None:
        made = _place(source, roles, work, Placement(parts, key, marks), workers, told)
        told.stage("Learning")
    return made, (*unprotected(parts), *avoiding.sentences())


def _place(
    source: Source, roles: Roles, work: Work, placement: Placement, workers: ThreadPoolExecutor, told: Progress
) -> Manifest:
    """Read the table, place every record, and write the release."""
    told.stage("Placing", work.survey.rows)
    records = _records(roles, work)
    try:
        deal, found = work.deal, work.survey
        if deal.kept is not None and isinstance(records, PackedRecords):
            place_kept(deal.kept, placement, deal.counts, records, workers, told.advance)
        else:
            schema = pa.schema([found.schema.field(name) for name in roles.quasi_identifiers])
            numbers = Virtual(found.sensitive, deal.cutter)
            place_records(
                source, schema, numbers, deal.counts, placement, records, workers, found.batch_rows, told.advance
            )
        told.stage("Writing", work.survey.rows)
        return write_release(roles, work, records, workers, told)
    finally:
        records.close()


def _records(roles: Roles, work: Work) -> Records:
    groups, found = work.deal.groups, work.survey
    layout = found.layout(work.deal.setting.buckets)
    if layout is not None:
        pieces = Pieces.of(groups, work.budget.piece_rows(groups))
        return PackedRecords(layout, pieces, None if work.budget.keys_fit(found.rows) else work.stage.folder)
    schema = pa.schema([*(found.schema.field(name) for name in roles.quasi_identifiers), ("bucket", pa.int64())])
    pieces = Pieces.of(groups, work.budget.piece_rows(groups, 6 * found.row_bytes + 40))
    return WideRecords(schema, found.domains, pieces, work.stage.folder)


def _notes(found: Survey, plan: Plan, deal: Deal, wish: StrataWish, left_out: Sequence[str]) -> tuple[str, ...]:
    notes = list(plan.notes)
    if deal.cutter is not None and plan.solution.setting is not None:  # what is said of the setting of one stratum
        about_one = (*plan.solution.notes, *single_records(plan.solution.setting, deal.fake_values))
        notes = [note for note in notes if note not in about_one]
        notes += [*deal.sentences(plan), *single_records(deal.setting, deal.fake_values)]
    elif wish.kind in ("number", "columns"):
        notes.append("the table was not cut: there are no two parts that differ beyond chance and can keep the limits")
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

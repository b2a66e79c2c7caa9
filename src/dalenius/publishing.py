"""The main job, one line a stage: read, count, resolve the limits, solve, place, write, verify."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from dalenius import __version__
from dalenius.audit.verify import verify
from dalenius.engines.arrays import arrow_array
from dalenius.engines.arrow import Source
from dalenius.engines.sources import open_source
from dalenius.errors import NoSolutionError, NoSuchColumnError, SelfCheckError, UsageError
from dalenius.model.nearest import nearest
from dalenius.model.plan import Plan, PlanOptions
from dalenius.model.progress import Progress, Silent
from dalenius.model.setting import Partition
from dalenius.model.solution import Method, Status
from dalenius.place.budget import Budget
from dalenius.place.domains import Domain, Listing, Range
from dalenius.place.packed import Layout, PackedRecords
from dalenius.place.permutation import KEY_BYTES
from dalenius.place.pieces import Pieces
from dalenius.place.slots import Placement, values_by_bucket
from dalenius.place.stream import Records, in_parallel, place_records
from dalenius.place.survey import Survey, survey
from dalenius.place.wide import WideRecords
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.published import Release
from dalenius.release import manifest as form
from dalenius.release.folder import ReleaseFolder
from dalenius.release.staging import Staging, staging, writable
from dalenius.release.write import FORMATS, Format, TableWriter, published_schema

_FEW_CODES = 2**16


@dataclass(frozen=True)
class Roles:
    """Which column is what. Columns that are not named here are not published."""

    sensitive: str
    quasi_identifiers: tuple[str, ...]
    identifiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishOptions:
    """How a release is made and written."""

    null_value: str | None = None
    table: str | None = None
    format: Format = "parquet"
    force: bool = False
    memory: int | None = None
    seed: int | None = None


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
    gap: float = 1e-4,
    time_limit: float = 60.0,
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

    >>> import dalenius, pyarrow
    >>> table = pyarrow.table({"Age": [31, 42, 53, 64], "Disease": ["Flu", "Flu", "HIV", "Flu"]})
    >>> release = dalenius.publish(table, {"Flu": 1, "HIV": "1/2"}, sensitive="Disease", quasi_identifiers=["Age"])
    >>> release.verify(against=table).verified
    True
    """
    columns = (quasi_identifiers,) if isinstance(quasi_identifiers, str) else tuple(quasi_identifiers)
    roles = Roles(sensitive, columns, (identifiers,) if isinstance(identifiers, str) else tuple(identifiers))
    options = PublishOptions(null_value, table_name, format, force, memory, seed)
    solving = PlanOptions(min_size, max_size, gap, time_limit)
    if out is not None:
        return publish_table(table, roles, limits, Path(out), method, solving, options, progress)
    temporary = tempfile.TemporaryDirectory(prefix="dalenius-")
    made = publish_table(table, roles, limits, Path(temporary.name, "release"), method, solving, options, progress)
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
    with staging(out, options.force) as stage:
        with open_source(table, options.table, budget.engine) as source:
            left_out = _left_out(source, roles)
            told.stage("Counting")
            found = survey(
                source, roles.sensitive, roles.quasi_identifiers, options.null_value, budget.lists, told.advance
            )
            told.stage("Solving")
            counts = found.sensitive.value_counts
            plan = _solved(plan_counts(counts, as_policy(limits, counts), method, solving))
            work = _Work(found, plan, _partition(found, plan), budget, options, stage)
            told.stage("Placing", found.rows)
            with ThreadPoolExecutor(_cores() + 1) as workers, writable():
                records = _place(source, roles, work, workers, told)
                try:
                    told.stage("Writing", found.rows)
                    made = _write(roles, work, records, workers, told)
                finally:
                    records.close()
        told.stage("Verifying", 2 * found.rows)
        verdict = verify(stage.folder, progress=_Steps(told))
        if not verdict.verified:
            failed = ", ".join(check.check for check in verdict.checks if not check.passed)
            raise SelfCheckError(
                f"the release did not pass its own verification ({failed}), and was not published",
                "This is probably a bug in Dalenius: please report it.",
            )
        with writable():
            stage.commit(options.force)
    return Release(ReleaseFolder(out, made), _notes(found, plan, left_out))


@dataclass(frozen=True)
class _Work:
    """What the later stages need to know from the earlier ones."""

    survey: Survey
    plan: Plan
    partition: Partition
    budget: Budget
    options: PublishOptions
    stage: Staging


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
            close = nearest(name, source.names)
            number = f"It has {len(source.names)} columns; is the first line of the file its header?"
            raise NoSuchColumnError(
                f"the table has no column {name!r}", f"Did you mean {close!r}?" if close is not None else number
            )
    return tuple(name for name in source.names if name not in named)


def _solved(plan: Plan) -> Plan:
    if plan.status is Status.INFEASIBLE or plan.solution.partition is None:
        reason = plan.no_solution.reason if plan.no_solution is not None else "infeasible"
        raise NoSolutionError(f"no release exists under these limits ({reason})", "See 'dalenius plan'.", plan)
    return plan


def _partition(found: Survey, plan: Plan) -> Partition:
    """The solution's quotas with the values in the order of the sensitive column's type, the order of ST."""
    partition = plan.solution.partition
    if partition is None:  # pragma: no cover (_solved has seen to it)
        raise SelfCheckError("a plan without a partition")
    quotas = dict(zip(plan.problem.values, partition.quotas, strict=True))
    return Partition(partition.setting, tuple(quotas[text] for text in found.sensitive.texts))


def _place(source: Source, roles: Roles, work: _Work, workers: ThreadPoolExecutor, told: Progress) -> Records:
    """Every record to its bucket, in the key's random order. The key is forgotten with the placement."""
    seed = work.options.seed
    key = secrets.token_bytes(KEY_BYTES) if seed is None else hashlib.sha256(f"dalenius seed {seed}".encode()).digest()
    records = _records(roles, work)
    try:
        placement = Placement(work.partition, key)
        place_records(source, roles.quasi_identifiers, work.survey.sensitive, placement, records, workers, told.advance)
    except BaseException:
        records.close()
        raise
    return records


def _records(roles: Roles, work: _Work) -> Records:
    setting, found = work.partition.setting, work.survey
    known = {name: domain for name, domain in found.domains.items() if domain is not None}
    if len(known) == len(roles.quasi_identifiers):
        layout = Layout(known, setting.buckets)
        if layout.fits:
            pieces = Pieces.of(setting, work.budget.piece_rows(setting))
            return PackedRecords(layout, pieces, None if work.budget.keys_fit(found.rows) else work.stage.folder)
    schema = pa.schema([*(found.schema.field(name) for name in roles.quasi_identifiers), ("bucket", pa.int64())])
    pieces = Pieces.of(setting, work.budget.piece_rows(setting, 200 * len(schema)))
    return WideRecords(schema, found.domains, pieces, work.stage.folder)


def _write(roles: Roles, work: _Work, records: Records, workers: ThreadPoolExecutor, told: Progress) -> form.Manifest:
    """Both tables and the manifest into the staging folder."""
    found, folder, kind = work.survey, work.stage.folder, work.options.format
    bucket = _bucket_name([*roles.quasi_identifiers, roles.sensitive])
    fields = [found.schema.field(name) for name in roles.quasi_identifiers]
    qit_schema = published_schema(pa.schema([*fields, (bucket, pa.int64())]), kind)
    st_schema = published_schema(pa.schema([(bucket, pa.int64()), found.schema.field(roles.sensitive)]), kind)
    short = {bucket, *(name for name, domain in found.domains.items() if _is_short(domain))}
    qit = TableWriter(folder / f"qit.{kind}", qit_schema, kind, short)
    st = TableWriter(
        folder / f"st.{kind}", st_schema, kind, {bucket, roles.sensitive} & {bucket, *_short_sensitive(found)}
    )
    writing_st = workers.submit(_write_st, work, st)
    try:
        for columns in in_parallel(records.piece, records.pieces(), workers):
            qit.write(columns)
            told.advance(len(columns[-1]))
        made = _manifest(roles, work, bucket, qit_schema, st_schema, qit.finish(), writing_st.result())
    finally:
        qit.close()
        writing_st.cancel()
    with (folder / form.FILE).open("w", encoding="utf-8", newline="\n") as file:
        file.write(made.to_json())
        file.flush()
        os.fsync(file.fileno())
    return made


def _write_st(work: _Work, st: TableWriter) -> form.TableFile:
    """ST follows from the quotas alone: no record is looked at."""
    rows = work.budget.piece_rows(work.partition.setting)
    try:
        for buckets, values in values_by_bucket(work.partition, rows):
            st.write([arrow_array(buckets), work.survey.sensitive.decode(values)])
        return st.finish()
    finally:
        st.close()


def _is_short(domain: Domain | None) -> bool:
    whole = isinstance(domain, Range) and domain.codes <= _FEW_CODES
    return whole and isinstance(domain, Range) and (pa.types.is_integer(domain.kind) or pa.types.is_date(domain.kind))


def _short_sensitive(found: Survey) -> tuple[str, ...]:
    listing: Listing = found.sensitive.listing
    return (found.sensitive.name,) if pa.types.is_integer(listing.kind) and listing.codes <= _FEW_CODES else ()


def _bucket_name(columns: Sequence[str]) -> str:
    """`bucket`, or `bucket_2` and so on if a column has that name; case does not count."""
    taken = {name.casefold() for name in columns}
    name, number = "bucket", 1
    while name in taken:
        number += 1
        name = f"bucket_{number}"
    return name


def _manifest(
    roles: Roles,
    work: _Work,
    bucket: str,
    qit_schema: pa.Schema,
    st_schema: pa.Schema,
    qit: form.TableFile,
    st: form.TableFile,
) -> form.Manifest:
    found, setting, solution = work.survey, work.partition.setting, work.plan.solution
    if qit.rows != found.rows or st.rows != found.rows:
        raise SelfCheckError(f"{found.rows:,} records went in, and {qit.rows:,} and {st.rows:,} came out")
    limits = dict(zip(work.plan.problem.values, work.plan.problem.limits, strict=True))
    return form.Manifest(
        format=form.FORMAT,
        program=form.Program(name="dalenius", version=__version__),
        randomness=form.CRYPTOGRAPHIC if work.options.seed is None else form.SEEDED,
        tables=form.Tables(qit=qit, st=st),
        columns=form.Columns(
            bucket=bucket,
            quasi_identifiers=[
                form.Column(name=name, type=str(qit_schema.field(name).type)) for name in roles.quasi_identifiers
            ],
            sensitive=form.Column(name=roles.sensitive, type=str(st_schema.field(roles.sensitive).type)),
        ),
        null_value=work.options.null_value if found.sensitive.null_code is not None else None,
        rows=found.rows,
        buckets=setting.buckets,
        setting=[form.SizeGroupPart(size=group.size, buckets=group.buckets) for group in setting.groups],
        loss=setting.loss,
        mse=float(setting.mse),
        method=solution.method,
        status=solution.status,
        bound=solution.bound,
        gap=solution.gap,
        adversary=form.Adversary(known_records=0, fake_values=0),
        strata=[],
        values=[
            form.Value(value=text, count=count, limit=str(limits[text]), worst=_worst(work.partition, place))
            for place, (text, count) in enumerate(zip(found.sensitive.texts, found.sensitive.counts, strict=True))
        ],
    )


def _worst(partition: Partition, value: int) -> form.Worst:
    """Round-robin puts at most ceil(quota / buckets) records of a value into a bucket of a size group."""
    found = [
        (Fraction(-(-quota // group.buckets), group.size), -(-quota // group.buckets), group.size)
        for quota, group in zip(partition.quotas[value], partition.setting.groups, strict=True)
        if quota
    ]
    _, count, size = max(found)
    return form.Worst(count=count, size=size)


def _notes(found: Survey, plan: Plan, left_out: Sequence[str]) -> tuple[str, ...]:
    notes = list(plan.notes)
    if left_out:
        named = ", ".join(repr(name) for name in left_out[:12]) + (" and more" if len(left_out) > 12 else "")
        notes.append(f"{len(left_out)} columns have no role and are not published: {named}")
    notes += [
        f"{name!r} has a value of its own for nearly every record; if it identifies people, name it an identifier"
        for name in found.nearly_unique
    ]
    return tuple(notes)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

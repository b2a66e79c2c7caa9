"""Both tables and the manifest of a release, from placed records and a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dalenius.dealing import Deal
from dalenius.engines.arrays import arrow_array
from dalenius.errors import SelfCheckError
from dalenius.model.plan import Plan
from dalenius.model.progress import Progress
from dalenius.model.setting import BucketSetting
from dalenius.model.version import VERSION
from dalenius.place.budget import Budget
from dalenius.place.domains import Domain, Range
from dalenius.place.in_parallel import in_parallel
from dalenius.place.slots import values_by_bucket
from dalenius.place.stream import Records
from dalenius.place.survey import Survey
from dalenius.release import manifest as form
from dalenius.release.staging import Staging
from dalenius.release.write import Format, TableWriter, published_schema
from dalenius.strata.choosing import MARGIN

_FEW_CODES = 2**16
_GROUP_BYTES = 2**25
_GROUP_BITS = 17


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
    avoid_ruled_out: bool = False
    strata: str | int | Sequence[str] | None = "auto"


@dataclass(frozen=True)
class Work:
    """What the later stages need to know from the earlier ones."""

    survey: Survey
    plan: Plan
    deal: Deal
    budget: Budget
    options: PublishOptions
    stage: Staging


def write_release(roles: Roles, work: Work, records: Records, workers: Executor, told: Progress) -> form.Manifest:
    """Both tables and the manifest into the staging folder."""
    found, folder, kind = work.survey, work.stage.folder, work.options.format
    bucket = _bucket_name([*roles.quasi_identifiers, roles.sensitive])
    number = pa.field(bucket, pa.int64(), nullable=False)
    fields = [found.schema.field(name).with_nullable(found.nullable[name]) for name in roles.quasi_identifiers]
    sensitive = found.schema.field(roles.sensitive).with_nullable(found.sensitive.publishes_nulls)
    qit_schema = published_schema(pa.schema([*fields, number]), kind)
    st_schema = published_schema(pa.schema([number, sensitive]), kind)
    short = {bucket, *(name for name, domain in found.domains.items() if _is_short(domain))}
    group = _row_group(found)
    qit = TableWriter(folder / f"qit.{kind}", qit_schema, kind, group, short)
    st = TableWriter(folder / f"st.{kind}", st_schema, kind, group, {bucket, *_short_sensitive(found)})
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
    return made


def _write_st(work: Work, st: TableWriter) -> form.TableFile:
    """ST follows from the quotas alone: no record is looked at."""
    rows = work.budget.piece_rows(work.deal.groups)
    try:
        for buckets, values in values_by_bucket(work.deal.parts, rows):
            st.write([arrow_array(buckets), work.survey.sensitive.decode(values)])
        return st.finish()
    finally:
        st.close()


def _row_group(found: Survey) -> int:
    """Rows to a row group: a function of what is published, and not of the memory that there is."""
    rows = _GROUP_BYTES // found.row_bytes
    return int(2 ** min(max(rows, 1).bit_length() - 1, _GROUP_BITS))


def _is_short(domain: Domain | None) -> bool:
    """Whole numbers in a narrow range, which a file can store in a few bits each without a dictionary."""
    if not isinstance(domain, Range) or domain.codes > _FEW_CODES:
        return False
    return bool(pa.types.is_integer(domain.kind) or pa.types.is_date(domain.kind))


def _short_sensitive(found: Survey) -> tuple[str, ...]:
    listing = found.sensitive.listing
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
    work: Work,
    bucket: str,
    qit_schema: pa.Schema,
    st_schema: pa.Schema,
    qit: form.TableFile,
    st: form.TableFile,
) -> form.Manifest:
    found, deal, setting = work.survey, work.deal, work.deal.setting
    fakes = deal.fake_values
    if qit.rows != found.rows or st.rows != found.rows + fakes * setting.buckets:
        raise SelfCheckError(f"{found.rows:,} records went in, and {qit.rows:,} and {st.rows:,} came out")
    limits = dict(zip(work.plan.problem.values, work.plan.problem.limits, strict=True))
    return form.Manifest(
        format=form.FORMAT,
        program=form.Program(name="dalenius", version=VERSION),
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
        setting=_setting(setting),
        loss=setting.loss,
        mse=float(setting.mse),
        method=deal.method,
        status=deal.status,
        bound=deal.bound,
        gap=deal.gap,
        adversary=form.Adversary(known_records=work.plan.problem.known_records, fake_values=fakes),
        strata=_strata(deal),
        values=[
            form.Value(value=text, count=count, limit=str(limits[text]), worst=worst)
            for text, (count, worst) in zip(found.sensitive.texts, _slots(work), strict=True)
        ],
    )


def _strata(deal: Deal) -> form.Strata | None:
    if deal.cutter is None:
        return None
    tree: list[form.Cut | form.Leaf] = [
        form.Leaf(stratum=found + 1)
        if isinstance(found, int)
        else form.Cut(column=found[0], at_most=found[1], below=found[2], above=found[3])
        for found in deal.cutter.questions()
    ]
    strata = [form.Stratum(rows=part.setting.records, setting=_setting(part.setting)) for part in deal.parts]
    return form.Strata(tree=tree, margin=str(MARGIN), strata=strata)


def _setting(setting: BucketSetting) -> list[form.SizeGroupPart]:
    return [form.SizeGroupPart(size=group.size, buckets=group.buckets) for group in setting.groups]


def _slots(work: Work) -> Iterator[tuple[int, form.Worst]]:
    """For each value its slots, and the worst case: round-robin puts at most ceil(slots / buckets) into a bucket."""
    known = work.plan.problem.known_records
    totals = np.zeros(len(work.survey.sensitive.texts), dtype=np.int64)
    cases: list[set[tuple[int, int]]] = [set() for _ in totals]
    for part in work.deal.parts:
        slots = np.asarray(part.slots, dtype=np.int64)
        most = -(-slots // [group.buckets for group in part.setting.groups])
        totals += slots.sum(axis=1)
        for value, j in np.argwhere(most).tolist():
            cases[value].add((int(most[value, j]), part.setting.groups[j].size))
    for total, found in zip(totals.tolist(), cases, strict=True):
        _, count, size = max((Fraction(count, size - known), count, size) for count, size in found)
        yield total, form.Worst(count=count, size=size)

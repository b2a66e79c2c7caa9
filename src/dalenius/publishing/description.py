"""What both tables of a release are to look like, and the manifest that describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.model import VERSION
from dalenius.model.plan import Plan
from dalenius.model.problem import BucketSetting
from dalenius.place.domains import Domain, Range
from dalenius.place.survey import Survey
from dalenius.policy.roles import Roles
from dalenius.publishing.deal import Deal
from dalenius.publishing.engine import TableSpec
from dalenius.publishing.options import PublishOptions
from dalenius.release import manifest as form
from dalenius.release.two_tables import TableFile, Tables
from dalenius.release.writer import Format, published_schema
from dalenius.strata.growing import MARGIN

_FEW_CODES = 2**16
_GROUP_BYTES = 2**25
_GROUP_BITS = 17


@dataclass(frozen=True)
class Work:
    """What the later stages need to know from the earlier ones."""

    survey: Survey
    plan: Plan
    deal: Deal
    options: PublishOptions


@dataclass(frozen=True)
class Shapes:
    """Both tables as they are to be written, and the name of the column that links them."""

    bucket: str
    qit: TableSpec
    st: TableSpec


def shapes(roles: Roles, found: Survey, kind: Format) -> Shapes:
    """The columns, types and row groups of both tables: a function of what is published."""
    bucket = _bucket_name([*roles.quasi_identifiers, roles.sensitive])
    number = pa.field(bucket, pa.int64(), nullable=False)
    fields = [found.schema.field(name).with_nullable(found.nullable[name]) for name in roles.quasi_identifiers]
    sensitive = found.schema.field(roles.sensitive).with_nullable(found.sensitive.publishes_nulls)
    qit_schema = published_schema(pa.schema([*fields, number]), kind)
    st_schema = published_schema(pa.schema([number, sensitive]), kind)
    short = frozenset({bucket, *(name for name, domain in found.domains.items() if _is_short(domain))})
    group = _row_group(found)
    return Shapes(
        bucket,
        TableSpec(qit_schema, short, group),
        TableSpec(st_schema, frozenset({bucket, *_short_sensitive(found)}), group),
    )


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


def manifest_of(roles: Roles, work: Work, made: Shapes, qit: TableFile, st: TableFile) -> form.Manifest:
    """What is said about two tables that are written."""
    found, deal, setting = work.survey, work.deal, work.deal.setting
    fakes = deal.fake_values
    if qit.rows != found.rows or st.rows != found.rows + fakes * setting.buckets:
        raise SelfCheckError(f"{found.rows:,} records went in, and {qit.rows:,} and {st.rows:,} came out")
    limits = dict(zip(work.plan.problem.values, work.plan.problem.limits, strict=True))
    return form.Manifest(
        format=form.FORMAT,
        program=form.Program(name="dalenius", version=VERSION),
        randomness=form.CRYPTOGRAPHIC if work.options.seed is None else form.SEEDED,
        tables=Tables(qit=qit, st=st),
        columns=form.Columns(
            bucket=made.bucket,
            quasi_identifiers=[
                form.Column(name=name, type=str(made.qit.schema.field(name).type)) for name in roles.quasi_identifiers
            ],
            sensitive=form.Column(name=roles.sensitive, type=str(made.st.schema.field(roles.sensitive).type)),
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

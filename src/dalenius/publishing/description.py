"""What the two tables of a release look like, and the manifest that describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dalenius.errors import InputError, SelfCheckError
from dalenius.model import VERSION
from dalenius.model.groups import NO_GROUP, Group
from dalenius.model.problem import BucketSetting
from dalenius.place.banded import BandedColumn
from dalenius.place.domains import Domain, Range, is_integer_like, require_in_span
from dalenius.place.survey import Survey
from dalenius.policy.bands import exact_text
from dalenius.policy.roles import Roles
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.engine import TableSpec
from dalenius.publishing.options import PublishRequest
from dalenius.release import manifest
from dalenius.release.column_entries import SensitiveEntry
from dalenius.release.two_tables import TableFile, Tables, named_type
from dalenius.release.writer import Format, published_schema
from dalenius.strata.growing import MARGIN
from dalenius.tables.arrays import numpy_array

_GROUP_BYTES = 2**24
_GROUP_BITS = 17


@dataclass(frozen=True)
class TableSpecs:
    """Both tables as they are to be written, and the name of the column that links them."""

    bucket: str
    qit: TableSpec
    st: TableSpec


def table_specs(roles: Roles, survey: Survey, format: Format) -> TableSpecs:
    """The columns, types and row groups of both tables: a function of what is published."""
    bucket = _bucket_name([*roles.quasi_identifiers, roles.sensitive])
    number = pa.field(bucket, pa.int64(), nullable=False)
    fields = [survey.schema.field(name).with_nullable(survey.nullable[name]) for name in roles.quasi_identifiers]
    sensitive = survey.schema.field(roles.sensitive).with_nullable(survey.sensitive.publishes_nulls)
    qit_schema = published_schema(pa.schema([*fields, number]), format)
    st_schema = published_schema(pa.schema([number, sensitive]), format)
    group = _row_group(survey)
    return TableSpecs(bucket, TableSpec(qit_schema, bucket, group), TableSpec(st_schema, bucket, group))


def check_values(survey: Survey, format: Format) -> None:
    """Refuse what would be written and could not be read back, before anything else is done with the table."""
    for field in survey.schema:
        check_column(field.name, field.type, survey.listed(field.name), format)


def check_column(name: str, data_type: pa.DataType, domain: Domain | None, format: Format) -> None:
    """The same of one column, with what it holds, if that is known."""
    try:
        named_type(str(data_type))
    except ValueError:
        raise InputError(
            f"the column {name!r} has the type {data_type}, which cannot be read back",
            "Is its time zone one that this machine knows? Turn the column into UTC, or into text.",
        ) from None
    ends = _ends(domain)
    if ends is not None:
        require_in_span(name, data_type, *ends)
        if format == "csv":
            require_in_span(name, data_type, *ends, as_text=True)


def _ends(domain: Domain | None) -> tuple[int, int] | None:
    """The smallest and the largest value of an integer-like column."""
    if isinstance(domain, Range):
        return domain.low, domain.high
    if domain is None or not len(domain.values) or not is_integer_like(domain.data_type):
        return None
    first, last = numpy_array(domain.values)[[0, -1]].tolist()
    return int(first), int(last)


def _row_group(survey: Survey) -> int:
    """Rows to a row group: a function of what is published, and not of the memory that there is."""
    rows = _GROUP_BYTES // survey.row_bytes
    return int(2 ** min(max(rows, 1).bit_length() - 1, _GROUP_BITS))


def _bucket_name(columns: Sequence[str]) -> str:
    """`bucket`, or `bucket_2` and so on if a column has that name; case does not count."""
    taken = {name.casefold() for name in columns}
    name, number = "bucket", 1
    while name in taken:
        number += 1
        name = f"bucket_{number}"
    return name


def describe(
    request: PublishRequest, arrangement: Arrangement, specs: TableSpecs, qit: TableFile, st: TableFile
) -> manifest.Manifest:
    """The manifest of two tables that are written."""
    roles, options = request.roles, request.options
    survey, setting, problem = arrangement.survey, arrangement.setting, arrangement.plan.problem
    fakes = arrangement.fake_values
    if qit.rows != survey.rows or st.rows != survey.rows + fakes * setting.buckets:
        raise SelfCheckError(f"{survey.rows:,} records went in, and {qit.rows:,} and {st.rows:,} came out")
    limits = dict(zip(problem.values, problem.limits, strict=True))
    groups, paths = _groups(arrangement)
    sensitive = survey.sensitive
    alone = [(place,) for place in range(len(paths))]
    return manifest.Manifest(
        format=manifest.FORMAT,
        program=manifest.Program(name="dalenius", version=VERSION),
        randomness=manifest.CRYPTOGRAPHIC if options.seed is None else manifest.SEEDED,
        tables=Tables(qit=qit, st=st),
        columns=columns_of(specs, roles),
        null_value=options.null_name if survey.sensitive.null_code is not None else None,
        missing=sorted(set(options.missing)) if survey.sensitive.null_code is not None else [],
        rows=survey.rows,
        people=survey.rows,
        persons=None,
        buckets=setting.buckets,
        setting=setting_entries(setting),
        loss=setting.loss,
        mse=float(setting.mse),
        method=arrangement.method,
        status=arrangement.status,
        bound=arrangement.bound,
        gap=arrangement.gap,
        adversary=manifest.Adversary(known_records=problem.known_records, fake_values=fakes),
        chain=None,
        strata=_strata(arrangement),
        groups=group_entries(groups, _worst_cases(arrangement, paths, len(groups))) or None,
        bands=[exact_text(cut) for cut in sensitive.bands.cuts] if isinstance(sensitive, BandedColumn) else None,
        values=[
            manifest.Value(
                value=text,
                count=count,
                limit=str(limits.get(text, 1)),
                worst=worst,
                group=path[-1] if path else None,
                applies=text in limits,
            )
            for text, path, (count, worst) in survey.sensitive.as_published(
                zip(survey.sensitive.texts, paths, _worst_cases(arrangement, alone, len(paths)), strict=True)
            )
        ],
        group_table=None,
        others=[],
        together=[],
    )


def columns_of(specs: TableSpecs, roles: Roles) -> manifest.Columns:
    """The columns of both tables by role."""
    return manifest.Columns(
        bucket=specs.bucket,
        quasi_identifiers=[_column(specs.qit.schema.field(name)) for name in roles.quasi_identifiers],
        sensitive=_sensitive(specs.st.schema.field(roles.sensitive)),
    )


def _column(field: pa.Field) -> manifest.Column:
    return manifest.Column(name=field.name, type=str(field.type), nulls=field.nullable)


def _sensitive(field: pa.Field) -> SensitiveEntry:
    return SensitiveEntry(name=field.name, type=str(field.type), nulls=field.nullable, of=[field.name])


def _strata(arrangement: Arrangement) -> manifest.Strata | None:
    apart = arrangement.survey.sensitive.apart > 0
    if arrangement.cutter is None and not apart:
        return None
    tree: list[manifest.Cut | manifest.Leaf] = [
        manifest.Leaf(stratum=node + 1)
        if isinstance(node, int)
        else manifest.Cut(column=node[0], at_most=node[1], below=node[2], above=node[3])
        for node in (arrangement.cutter.questions() if arrangement.cutter is not None else [0])
    ]
    strata = [
        manifest.Stratum(
            rows=part.setting.records,
            setting=setting_entries(part.setting),
            rows_each=1,
            applies=not apart or place < len(arrangement.own_partitions),
            since=1,
        )
        for place, part in enumerate(arrangement.partitions)
    ]
    return manifest.Strata(tree=tree, margin=str(MARGIN), strata=strata)


def group_entries(groups: Sequence[Group], cases: Iterable[tuple[int, manifest.Worst]]) -> list[manifest.GroupEntry]:
    """Groups of a manifest, with their counts and worst cases."""
    return [
        manifest.GroupEntry(
            name=group.name,
            level=group.level,
            parent=None if group.parent == NO_GROUP else group.parent,
            limit=None if group.limit is None else str(group.limit),
            count=count,
            worst=worst,
        )
        for group, (count, worst) in zip(groups, cases, strict=True)
    ]


def setting_entries(setting: BucketSetting) -> list[manifest.SizeGroupPart]:
    """A setting of a manifest."""
    return [manifest.SizeGroupPart(size=group.size, buckets=group.buckets) for group in setting.groups]


def _groups(arrangement: Arrangement) -> tuple[list[Group], list[tuple[int, ...]]]:
    """The groups that hold a value, in the order of a manifest, and for each value the places of those that hold it.

    The order is that of their paths, the names from the top down. A parent is given by its place in it.
    """
    texts, problem = arrangement.survey.sensitive.texts, arrangement.plan.problem
    if problem.groups is None:
        return [], [()] * len(texts)
    tree = problem.groups
    path_of = {text: tree.path(value) for value, text in enumerate(problem.values)}
    names = {place: tuple(tree.groups[above].name for above in tree.paths[place]) for place in range(len(tree.groups))}
    used = sorted({place for path in path_of.values() for place in path}, key=names.__getitem__)
    new = {place: number for number, place in enumerate(used)}
    groups = [replace(tree.groups[place], parent=new.get(tree.groups[place].parent, NO_GROUP)) for place in used]
    return groups, [tuple(new[place] for place in path_of.get(text, ())) for text in texts]


def _worst_cases(
    arrangement: Arrangement, holders: Sequence[Sequence[int]], number: int
) -> Iterator[tuple[int, manifest.Worst]]:
    """For each of so many things (values, or groups) its slots, and the worst case; `holders` has the things that each
    value counts for.

    Round-robin puts at most ceil(slots / buckets) of a value into a bucket. The values of a group are dealt out one
    after the other, so the same holds of a group.
    """
    last = len(arrangement.own_partitions)  # of those who are to be protected
    value_of = np.array([value for value, of in enumerate(holders) for _ in of], dtype=np.intp)
    thing_of = np.array([thing for of in holders for thing in of], dtype=np.intp)
    totals = np.zeros(number, dtype=np.int64)
    cases: list[set[tuple[int, int, int]]] = [set() for _ in totals]
    for stratum, part in enumerate(arrangement.partitions):
        known = arrangement.plan.problem.known_records if stratum < last else 0
        slots = np.zeros((number, len(part.setting.groups)), dtype=np.int64)
        np.add.at(slots, thing_of, np.asarray(part.slots, dtype=np.int64)[value_of])
        most = -(-slots // [group.buckets for group in part.setting.groups])
        totals += slots.sum(axis=1)
        for thing, j in np.argwhere(most).tolist():
            cases[thing].add((int(most[thing, j]), part.setting.groups[j].size, known))
    for total, found in zip(totals.tolist(), cases, strict=True):
        _, count, size = max((Fraction(count, size - known), count, size) for count, size, known in found)
        yield total, manifest.Worst(count=count, size=size)

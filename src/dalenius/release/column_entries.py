"""The parts of a manifest that describe columns: what they are, and what a sensitive one holds, under which limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dalenius.model.groups import LONGEST_NAME
from dalenius.model.problem import MOST_CODES
from dalenius.release.two_tables import Count, Entry, Place, Ratio, TableFile

MOST_BANDS = 1000

Number = Annotated[str, Field(pattern=r"^-?[0-9]{1,400}(\.[0-9]{1,400}|/[1-9][0-9]{0,399})?$")]


class Column(Entry):
    """A published column."""

    name: str
    type: Annotated[str, Field(description="Its Arrow type, such as int64, string or date32[day].")]
    nulls: Annotated[bool, Field(description="Whether any of its rows is null.")]


class SensitiveEntry(Column):
    """A sensitive column of ST: a column of the source, or several of one kind under one name."""

    of: Annotated[
        list[str],
        Field(min_length=1, fail_fast=True, description="The columns of the source that it has the values of."),
    ]


class Worst(Entry):
    """The bucket where count / (size - adversary.known_records) is largest, which a value's or group's limit bounds."""

    count: Annotated[
        Count, Field(description="Rows of ST in the bucket with the value, or with one of the group, real or fake.")
    ]
    size: Annotated[Count, Field(description="People in the bucket.")]


class Value(Entry):
    """A sensitive value, how often ST has it, its limit, and the most that the release lets anybody infer."""

    value: Annotated[str, Field(description="Its text.")]
    count: Annotated[Count, Field(description="Rows of ST with the value; without fake values, its records.")]
    limit: Annotated[Ratio, Field(description="The exact limit: 1/50, or 1.")]
    worst: Worst
    group: Annotated[Place | None, Field(description="The lowest group that it is in, a place in `groups`, if any.")]
    applies: Annotated[bool, Field(description="False if it says that there is no value to be known: not applicable.")]


class GroupEntry(Entry):
    """Some sensitive values under one name, which may have a limit of their own: together, as if they were one."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    level: Annotated[
        str,
        Field(max_length=LONGEST_NAME, description="What groups of this kind are called, such as chapter, or empty."),
    ]
    parent: Annotated[Place | None, Field(description="The group that it is part of, a place before its own, if any.")]
    limit: Annotated[Ratio | None, Field(description="The exact limit of all values under it together, if any.")]
    count: Annotated[Count, Field(description="Rows of ST with a value under it.")]
    worst: Worst


Codes = Annotated[
    list[Annotated[str, Field(max_length=LONGEST_NAME)]],
    Field(max_length=MOST_CODES, fail_fast=True, description="Texts of the source that count as nulls, in order."),
]
GroupList = Annotated[
    list[GroupEntry] | None,
    Field(
        min_length=1,
        fail_fast=True,
        description="Groups of values, if there are any: each followed by those within it, and those with the same "
        "parent in the order of their names.",
    ),
]
BandList = Annotated[
    list[Number] | None,
    Field(
        max_length=MOST_BANDS,
        fail_fast=True,
        description="If the sensitive column has numbers that count by bands: the cuts between bands, exactly, in "
        "ascending order. The values are then the bands: 'below 5', '5 to below 9.5', '9.5 and above'.",
    ),
]
ValueList = Annotated[
    list[Value], Field(min_length=1, fail_fast=True, description="In the order of the sensitive column's type.")
]


class KeptTogether(Entry):
    """A table of tuples: the values of several sensitive columns that are in one row."""

    table: TableFile
    columns: Annotated[
        list[str],
        Field(
            min_length=2,
            fail_fast=True,
            description="The names of the sensitive columns, in the order in which they are sensitive.",
        ),
    ]


class SensitiveSet(Entry):
    """A further sensitive column, with a table, limits and groups of its own."""

    table: TableFile
    group_table: TableFile | None
    column: SensitiveEntry
    null_value: str | None
    missing: Codes
    groups: GroupList
    bands: BandList
    values: ValueList

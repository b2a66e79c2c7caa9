"""The parts of a manifest about buckets: strata and their sizes, against whom they protect, and what they follow on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dalenius.release.two_tables import Count, Entry, Ratio

MOST_IN_A_BUCKET = 2**31 - 1  # known records or fake values: with any size of a bucket, sums fit into 64 bits


class SizeGroupPart(Entry):
    """So many buckets of this size."""

    size: Annotated[Count, Field(description="People in a bucket; fake values do not count.")]
    buckets: Count


class Cut(Entry):
    """A question to a row: is its value at most this one? Then go on at `below`; if not, or null or NaN, at `above`.

    Where people have several rows, it is a question to a person: about the least value of their rows.
    """

    column: Annotated[str | None, Field(description="A quasi-identifier; null for the number of rows of a person.")]
    at_most: Annotated[str, Field(description="The text of a value, in the order of the column's type.")]
    below: Annotated[Count, Field(description="A place in `tree`, from 0; behind this one.")]
    above: Annotated[Count, Field(description="A place in `tree`, from 0; behind this one.")]


class Leaf(Entry):
    """Where a row arrives. Leaves that were merged have the same stratum."""

    stratum: Annotated[Count, Field(description="The number of the stratum, from 1.")]


class Stratum(Entry):
    """The records of some leaves, in buckets of their own: those that follow on the buckets of the stratum before."""

    rows: Annotated[int, Field(ge=0, description="Rows of QIT: in a chain, of those who have not left.")]
    setting: Annotated[
        list[SizeGroupPart], Field(min_length=1, fail_fast=True, description="In ascending order of size.")
    ]

    rows_each: Annotated[Count, Field(description="The rows of each of its people.")]
    applies: Annotated[
        bool, Field(description="False of the last stratum, if it has the records whose values do not apply.")
    ]
    since: Annotated[
        Count, Field(description="The release of its chain in which its buckets were made; 1 if there is no chain.")
    ]

    @property
    def buckets(self) -> int:
        """How many buckets it has."""
        return sum(group.buckets for group in self.setting)


class Strata(Entry):
    """How the table was cut. The stratum of a record is a function of its quasi-identifiers.

    In a chain, this is true of the records that are new in a release. Those of earlier buckets were in strata by what
    their quasi-identifiers were then.
    """

    tree: Annotated[
        list[Cut | Leaf],
        Field(
            fail_fast=True,
            description="Every row starts at place 0; in a chain, every row of a bucket that is new. Without such "
            "buckets it is empty.",
        ),
    ]
    margin: Annotated[
        Ratio,
        Field(
            description="A leaf in which the share of a value, or of a group, is above f + margin * (limit - f), with "
            "f its share in the table and a limit below 1, was merged with others."
        ),
    ]
    strata: Annotated[list[Stratum], Field(min_length=1, fail_fast=True, description="In the order of their buckets.")]


class Adversary(Entry):
    """What the adversary is assumed to know beyond the release and the quasi-identifiers."""

    known_records: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_IN_A_BUCKET,
            description="Records of a bucket that the adversary may know; every bucket has more.",
        ),
    ]
    fake_values: Annotated[
        int, Field(ge=0, le=MOST_IN_A_BUCKET, description="Fake sensitive values in each bucket, in ST alone.")
    ]


class Chain(Entry):
    """Where a release is one of several of the same people, whose buckets go on from release to release."""

    release: Annotated[Count, Field(description="Its number in the chain; the first is 1.")]
    previous: Annotated[
        Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None,
        Field(description="The SHA-256 of manifest.json of the release before; null of the first."),
    ]
    surplus: Annotated[
        int,
        Field(
            ge=0,
            description="Values of ST that are nobody's, fake values aside: of people who left, and counterfeits.",
        ),
    ]
    held_back: Annotated[int, Field(ge=0, description="New people who are in no bucket yet, and not in the release.")]

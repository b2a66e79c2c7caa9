"""Units that have sets of items: the problem, and what a solution is.

A unit is a person, and has items: the values of all sensitive columns in all rows, and the groups of values that have
limits. A bucket of P units, of which h_x have item x, keeps

    h_x  <=  cap_x(P)  =  floor(f'_x * max(0, P - Q))        for every item x,

with Q known units. A bucketization shares out all units to buckets; its loss is the sum of (P - 1)^2. With one item a
unit that is the problem of the paper (`model/problem.py`); with sets a setting alone does not say whether it is valid,
so that a solution has the bucket of every unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dalenius.model.plan import Status
from dalenius.model.problem import BucketSetting
from dalenius.solve.caps import Integers


@dataclass(frozen=True, eq=False)
class UnitProblem:
    """Unit u has `items[offsets[u] : offsets[u + 1]]`, ascending and distinct; item x has `limits[x]`.

    No bucket is smaller than `min_size`, nor does it have Q = `known_records` units or fewer: whoever knows all units
    of a bucket has nothing left to learn. `max_size` gives way where nothing else is found.
    """

    offsets: npt.NDArray[np.int64]
    items: npt.NDArray[np.int32]
    limits: tuple[Fraction, ...]
    min_size: int
    max_size: int
    known_records: int = 0

    @property
    def units(self) -> int:
        """n, the number of units."""
        return len(self.offsets) - 1

    @cached_property
    def people(self) -> Integers:
        """h_x over all units, for each item."""
        return np.bincount(self.items, minlength=len(self.limits)).astype(np.int64)

    @property
    def first_size(self) -> int:
        """The smallest bucket there may be."""
        return max(self.min_size, self.known_records + 1)

    def most(self, item: int, size: int) -> int:
        """cap_x(P)."""
        limit = self.limits[item]
        return limit.numerator * max(0, size - self.known_records) // limit.denominator


@dataclass(frozen=True, eq=False)
class UnitSolution:
    """A valid bucketization, and how good it is proven to be.

    `bucket_of` has the bucket of each unit; buckets are numbered from 0 in ascending order of size, as `setting` has
    them. No bucketization in sizes up to `max_size`, which may have grown beyond the problem's, has a loss below
    `bound`. `gap` is (loss - bound) / loss; the status is OPTIMAL only if that is within the gap asked for.
    """

    setting: BucketSetting
    bucket_of: npt.NDArray[np.int32]
    bound: int
    status: Status
    gap: float
    max_size: int


@dataclass(frozen=True)
class IneligibleItem:
    """An item that `people` of all `units` have, where one bucket of everybody may have at most `most`."""

    item: int
    people: int
    units: int
    most: int


class IneligibleItems(Exception):  # noqa: N818 (it is handled, and worded for users, by callers)
    """No bucketization exists: these items have too many units even for one bucket of everybody."""

    def __init__(self, items: list[IneligibleItem]) -> None:
        super().__init__(f"{len(items)} items have more units than one bucket of everybody may have")
        self.items = items


def is_eligible(problem: UnitProblem) -> list[IneligibleItem]:
    """The items for which one bucket of all units breaks the limit; a bucketization exists iff there are none.

    As for records (Lemma 1, `sizes.py`): adding up h_x <= f'_x (P - Q) over any buckets gives h_x <= f'_x (n - Q).
    """
    units = problem.units
    return [
        IneligibleItem(item, people, units, problem.most(item, units))
        for item, people in enumerate(problem.people.tolist())
        if people > problem.most(item, units)
    ]

"""What `plan` answers: the solution, the limits it was solved under, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dalenius.model.problem import Problem
from dalenius.model.setting import SizeGroup
from dalenius.model.solution import Solution, Status


@dataclass(frozen=True)
class PlanOptions:
    """How to look for a setting. `max_size=None` finds a largest size that works by itself.

    `known_records` and `fake_values` are what `Problem` says.
    """

    min_size: int | None = None
    max_size: int | None = None
    gap: float = 1e-4
    time_limit: float = 60.0
    known_records: int = 0
    fake_values: int = 0
    strata_gap: float = 0.01

    @classmethod
    def of(
        cls,
        min_size: int | None,
        max_size: int | None,
        gap: float | None,
        time_limit: float,
        known_records: int,
        fake_values: int,
    ) -> PlanOptions:
        """With the gap that was asked for, of a table and of all strata together; where none was, with its own each."""
        gaps = {} if gap is None else {"gap": gap, "strata_gap": gap}
        return cls(
            min_size, max_size, time_limit=time_limit, known_records=known_records, fake_values=fake_values, **gaps
        )


@dataclass(frozen=True)
class IneligibleValue:
    """A value whose limit no bucketization can keep (Lemma 1).

    `smallest_limit` is the smallest that one could: count / (n - Q), which is the frequency if no records are known;
    None if that is above 1.
    """

    value: str
    frequency: Fraction
    limit: Fraction
    smallest_limit: Fraction | None


@dataclass(frozen=True)
class NoSolution:
    """Why the method has no setting.

    `reason` is "not-eligible" (values whose limit is below their frequency), "no-room-for-fakes" (the limits of all
    values together leave no room for the fake values), "max-size" (the largest size is too small), "not-l-diverse"
    (Anatomy alone) or "undecided" (in a comparison: the method did not finish).
    `smallest_max_size` is a largest size with which the method has a setting, the smallest one if `is_smallest`; None
    if none was found.
    """

    reason: str
    ineligible: tuple[IneligibleValue, ...] = ()
    smallest_max_size: int | None = None
    is_smallest: bool = True


@dataclass(frozen=True)
class Plan:
    """A solution, or the reason why there is none, and what a publisher should know about it.

    `unprotected` is what the same method finds where the adversary knows no records and there are no fake values; None
    if that is the plan itself, if there is no setting to compare with it, or if it was not found in time.
    """

    problem: Problem
    solution: Solution
    no_solution: NoSolution | None = None
    notes: tuple[str, ...] = ()
    unprotected: Solution | None = None

    @property
    def status(self) -> Status:
        """How far the answer is proven."""
        return self.solution.status

    def needed_by(self) -> dict[SizeGroup, tuple[str, ...]]:
        """For each size group, the values that no smaller bucket of the setting may hold."""
        groups = self.solution.setting.groups if self.solution.setting is not None else ()
        needs: dict[SizeGroup, list[str]] = {group: [] for group in groups}
        for value, limit in sorted(
            zip(self.problem.values, self.problem.limits, strict=True), key=lambda pair: pair[1]
        ):
            known = self.problem.known_records
            group = next((group for group in groups if limit * (group.size - known) >= 1), None)
            if group is not None:
                needs[group].append(value)
        return {group: tuple(values) for group, values in needs.items()}

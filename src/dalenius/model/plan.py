"""The answer of a solver, and the plan that is made of it.

A solution is a setting, how good it is, and the proof of that. A plan is the solution with its problem, or the reason
why there is none, with notes for the publisher.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from dalenius.model.exposure import Exposure, GroupShare, TypicalError
from dalenius.model.problem import BucketSetting, Partition, Problem, SizeGroup


class Method(StrEnum):
    """The ways to find a bucket setting."""

    OPTIMAL = "optimal"
    TWO_SIZE = "two-size"
    MULTI_SIZE = "multi-size"
    ANATOMY = "anatomy"


class Status(StrEnum):
    """How far the answer is proven, for the problem over all bucket settings in the range of sizes.

    `OPTIMAL`: the loss is within the requested gap of a proven lower bound. `FEASIBLE`: the setting is valid, and
    the gap is larger than requested or unknown. `INFEASIBLE`: the method has no valid setting.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class CertificateRow:
    """One inequality that every valid setting satisfies, with its multiplier.

    Write b(S) for the number of buckets of size S, and
        cap(i, S) = ceil(K * floor(limit_i * max(0, S - known_records)) * S / (S + fake_values)),
    where K >= 1 is the certificate's `units`. Without known records and fake values, and with K = 1, that is
    floor(limit_i * S).
    With `sizes` empty the row is the privacy constraint of the one value in `values`:
        sum over S of cap(i, S) b(S)  >=  K count_i.
    Otherwise it is Gale's condition for the sizes in `sizes` (closed ranges) and the values in `values`:
        sum over S in `sizes` of (sum over i not in `values` of cap(i, S)  -  K S) b(S)
            >=  - sum over i in `values` of K count_i.

    In a problem with groups every row has `sizes` empty, and is about a set X of values, `values`:
        sum over S of r(X, S) b(S)  >=  sum over i in X of K count_i,
    where r(X, S) = min(K S, the sum of g over the top of the tree). Here g of a value is its cap if it is in X, and
    else 0; g of a group is the sum of g over its children, and at most the group's cap if it has a limit. That is how
    much of X fits into a bucket: a flow from the values up the tree. With one value in X and no groups above it, it
    is the privacy constraint.
    """

    multiplier: Fraction
    values: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...] = ()


Proof = Literal["loss", "no-setting"]


@dataclass(frozen=True)
class Certificate:
    """A proof that anybody can check with exact arithmetic: a lower bound on the loss, or that no setting exists.

    The multipliers y are not negative, so each valid setting b loses at least
        sum of y_r * rhs_r  +  n * min over S of ((S - 1)^2 - sum of y_r * a_r(S)) / S,
    where a_r(S) and rhs_r are the coefficients and the right-hand side of row r. `bound` is that number.

    If `proves` is "no-setting", `bound` is the same formula without the (S - 1)^2: it is above 0, which no valid
    setting could be, so there is none.

    A setting is valid if its buckets can be filled so that at most a share limit_i of the records that are not known
    have value i, fake values included, each size's fakes in proportion to its records; and likewise of every group of
    values that has a limit. The rows hold for every such setting whatever K = `units` is.
    """

    bound: Fraction
    rows: tuple[CertificateRow, ...]
    proves: Proof = "loss"
    units: int = 1


@dataclass(frozen=True)
class Solution:
    """The answer of one method to one problem.

    `partition` has the quotas of records alone: fake values are drawn for one release (`fakes.quotas.draw_fakes`).
    """

    method: Method
    status: Status
    min_size: int
    max_size: int
    setting: BucketSetting | None
    partition: Partition | None
    bound: int | None = None
    seconds: float = 0.0
    certificate: Certificate | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def loss(self) -> int | None:
        """The loss of the setting."""
        return None if self.setting is None else self.setting.loss

    @property
    def mse(self) -> float | None:
        """The mean squared error of the setting."""
        return None if self.setting is None else float(self.setting.mse)

    @property
    def gap(self) -> float | None:
        """(loss - bound) / loss: the largest share of the loss that any other setting could still save."""
        if self.loss is None or self.bound is None:
            return None
        return 0.0 if self.loss == 0 else (self.loss - self.bound) / self.loss


@dataclass(frozen=True)
class PlanOptions:
    """How to look for a setting. `max_size=None` finds a largest size that works by itself.

    `known_records` and `fake_values` are what `Problem` says.
    """

    min_size: int | None = None
    max_size: int | None = None
    gap: float = 1e-3
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
        """A `gap` holds for a table and for all strata together; without one, each has its own default."""
        gaps = {} if gap is None else {"gap": gap, "strata_gap": gap}
        return cls(
            min_size=min_size,
            max_size=max_size,
            time_limit=time_limit,
            known_records=known_records,
            fake_values=fake_values,
            **gaps,
        )


@dataclass(frozen=True)
class IneligibleValue:
    """A value, or a group of values, whose limit no bucketization can keep (Lemma 1).

    `smallest_limit` is the smallest that one could: count / (n - Q), which is the frequency if no records are known;
    None if that is above 1.
    """

    value: str
    frequency: Fraction
    limit: Fraction
    smallest_limit: Fraction | None
    is_group: bool = False


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

    `unprotected` is what the same method finds where the attacker knows no records and there are no fake values; None
    if that is the plan itself, if there is no setting to compare with it, or if it was not found in time. `exposure`,
    `error` and `group_shares` are those of the table as one stratum; there are none if there is no setting.
    """

    problem: Problem
    solution: Solution
    no_solution: NoSolution | None = None
    notes: tuple[str, ...] = ()
    unprotected: Solution | None = None
    exposure: Exposure | None = None
    error: TypicalError | None = None
    group_shares: tuple[GroupShare, ...] = ()

    @property
    def status(self) -> Status:
        """How far the answer is proven."""
        return self.solution.status

    def needed_by(self) -> dict[SizeGroup, tuple[str, ...]]:
        """For each size group, the values that no smaller bucket of the setting may hold."""
        groups = self.solution.setting.groups if self.solution.setting is not None else ()
        needs: dict[SizeGroup, list[str]] = {group: [] for group in groups}
        for value, limit in sorted(
            zip(self.problem.values, self.problem.tightest, strict=True), key=lambda pair: pair[1]
        ):
            known = self.problem.known_records
            group = next((group for group in groups if limit * (group.size - known) >= 1), None)
            if group is not None:
                needs[group].append(value)
        return {group: tuple(values) for group, values in needs.items()}

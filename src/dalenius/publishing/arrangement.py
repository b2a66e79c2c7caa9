"""Everything that is decided before records are placed.

A table is arranged as one, or cut into strata, each of which has a partition of its own: how many records of each value
go to buckets of each size. What the publisher should know about it is said in notes, which are not part of the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dalenius.errors import ClearValuesError
from dalenius.fakes.quotas import draw_partition
from dalenius.fakes.rooms import RandomBits
from dalenius.model.exposure import Exposure, GroupShare, TypicalError, exposure_sentence
from dalenius.model.plan import Method, Plan, Status
from dalenius.model.problem import BucketSetting, Partition, SizeGroup
from dalenius.place.cutting import Cutter, sortable_type
from dalenius.place.survey import Survey
from dalenius.policy.limits import LimitPolicy
from dalenius.publishing.options import PublishRequest
from dalenius.solve.foresight import foresee_error, foresee_exposure, foresee_groups

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer]


class StratumCounts(Protocol):
    """How many records each stratum has of each value, and what the engine needs besides to place them."""

    @property
    def totals(self) -> Integers:
        """A line for each stratum, a column for each value."""

    def renumber(self, table: Numbers) -> StratumCounts:
        """Merge strata: `table` gives the new number of every number (stratum after stratum, value by value)."""


@dataclass(frozen=True)
class ClearValues:
    """How many people would have their value published outright though nobody has asked for it.

    Their values come with the number of people, most first. There are none if the values are meant, and only people
    who are alone in a bucket are not.
    """

    people: int
    of: int
    values: tuple[tuple[str, int], ...]

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        values = [{"value": value, "people": people} for value, people in self.values]
        return {"people": self.people, "of": self.of, "values": values}


@dataclass(frozen=True)
class StrataPrice:
    """What strata cost, beside the same table as one. `columns` are those by which it is cut; `plan` is as one.

    A release with these strata is refused if values would be in the clear.
    """

    plan: Plan
    strata: int
    columns: tuple[str, ...]
    loss: int
    mse: float
    loss_of_one: int | None
    mse_of_one: float | None
    sentences: tuple[str, ...]
    exposure: Exposure
    error: TypicalError
    group_shares: tuple[GroupShare, ...] = ()
    in_the_clear: ClearValues | None = None

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "strata": self.strata,
            "columns": list(self.columns),
            "loss": self.loss,
            "mse": self.mse,
            "loss_of_one": self.loss_of_one,
            "mse_of_one": self.mse_of_one,
            "sentences": list(self.sentences),
            "exposure": self.exposure.as_object(),
            "exposure_sentence": exposure_sentence(self.exposure),
            "count_error": self.error.as_object(),
            "in_the_clear": self.in_the_clear.as_object() if self.in_the_clear is not None else None,
            "groups": [share.as_object() for share in self.group_shares],
        }


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """What the table holds, the plan for it, and the partitions of its strata in the order of their buckets.

    `plan` is that of the table as one; `method`, `status` and `bound` are those of all partitions together. Without a
    `cutter` the table is one stratum. `given_up` strata were found at first, and would not have made counts better.
    If records are set apart because their values do not apply, the last partition is theirs (`set_apart`). Whatever
    is said of people and counts is then about the others.
    """

    survey: Survey
    plan: Plan
    counts: StratumCounts
    partitions: tuple[Partition, ...]
    method: Method
    status: Status
    bound: int | None
    cutter: Cutter | None = None
    given_up: int = 0

    @cached_property
    def groups(self) -> tuple[SizeGroup, ...]:
        """All size groups, in the order of their buckets."""
        return tuple(group for partition in self.partitions for group in partition.setting.groups)

    @cached_property
    def setting(self) -> BucketSetting:
        """All buckets together."""
        return BucketSetting.of((group.size, group.buckets) for group in self.groups)

    @cached_property
    def own_partitions(self) -> tuple[Partition, ...]:
        """The partitions of records whose values apply, with lines for these values alone."""
        applying = self.survey.sensitive.applying
        if applying == len(self.survey.sensitive.texts):
            return self.partitions
        return tuple(replace(part, quotas=part.quotas[:applying]) for part in self.partitions[:-1])

    @cached_property
    def own_setting(self) -> BucketSetting:
        """The buckets of these."""
        return BucketSetting.of((g.size, g.buckets) for part in self.own_partitions for g in part.setting.groups)

    @property
    def own_values(self) -> tuple[str, ...]:
        """The values that apply, in the order in which they are dealt."""
        return self.survey.sensitive.texts[: self.survey.sensitive.applying]

    @property
    def fake_values(self) -> int:
        """Fake values in every bucket."""
        return self.partitions[0].fake_values

    @cached_property
    def exposure(self) -> Exposure:
        """How exposed people will be."""
        return foresee_exposure(self.own_values, self.own_partitions)

    @cached_property
    def error(self) -> TypicalError:
        """How far off counts will be."""
        return foresee_error(self.own_values, self.own_partitions)

    @cached_property
    def group_shares(self) -> tuple[GroupShare, ...]:
        """The largest share of a bucket that each group of values will have."""
        problem = self.plan.problem
        place = {value: place for place, value in enumerate(problem.values)}
        dealt = problem.take([place[text] for text in self.own_values])
        return foresee_groups(dealt.groups, self.own_partitions, problem.known_records)

    def clear_values(self, policy: LimitPolicy) -> ClearValues | None:
        """Whose value would be published outright though nobody has asked for it; None if there is nobody.

        A limit of 1 for a value by its name asks for it, but not for buckets of a single record.
        """
        clear = [value for value in self.exposure.values if value.outright and policy.values.get(value.value) != 1]
        smallest = self.own_setting.groups[0]
        if not clear and smallest.size > 1:
            return None
        people = round(sum(value.outright for value in clear)) or smallest.buckets
        clear.sort(key=lambda value: -value.outright)
        values = tuple((value.value, round(value.outright)) for value in clear)
        return ClearValues(people, self.own_setting.records, values)

    def refuse_clear_values(self, policy: LimitPolicy) -> None:
        """An error if somebody's value would be published outright though nobody has asked for it."""
        clear = self.clear_values(policy)
        if clear is None:
            return
        named = ", ".join(f"{value!r}" for value, _ in clear.values[:3])
        named += " and others" if len(clear.values) > 3 else ""
        raise ClearValuesError(
            f"{clear.people:,} of {clear.of:,} people would have their value published outright"
            + (f" ({named})" if named else ""),
            ("Choose limits that stay below 1, such as --odds 8. " if len(self.exposure.values) > 1 else "")
            + "If it is meant, say so: --publish-in-the-clear.",
        )

    @property
    def gap(self) -> float | None:
        """As of a solution."""
        loss = self.setting.loss
        return None if self.bound is None else (loss - self.bound) / loss if loss else 0.0

    def sentences(self) -> tuple[str, ...]:
        """What the publisher should know about the strata; their price comes first."""
        one = self.plan.solution.loss
        if self.cutter is None or one is None:
            return self._given_up()
        loss = self.own_setting.loss
        times = f", {loss / one:.2f} times" if one else ""
        price = f"with {len(self.own_partitions):,} strata the loss is {loss:,} instead of {one:,}{times}"
        return (price, *self._given_up(), *self._merged_records(self.cutter))

    def _given_up(self) -> tuple[str, ...]:
        if not self.given_up:
            return ()
        if self.cutter is None:
            return (f"the table was not cut: counts would not be better with the {self.given_up:,} strata found",)
        strata = len(self.own_partitions)
        return (f"strata were reduced from {self.given_up:,} to {strata:,}: counts would not be better with more",)

    def _merged_records(self, cutter: Cutter) -> tuple[str, ...]:
        leaves = np.bincount(cutter.strata)
        merged = sum(
            part.setting.records for part, number in zip(self.own_partitions, leaves, strict=True) if number > 1
        )
        if 2 * merged <= self.own_setting.records:
            return ()
        return (
            f"the limits are tight: {merged / self.own_setting.records:.0%} of the records are in strata merged from "
            "unlike leaves. Counts improve all the same, but so may the guesses of an attacker who learns: compare the "
            "audit with that of a release made with --strata none",
        )

    def price(self, policy: LimitPolicy, sentences: tuple[str, ...]) -> StrataPrice:
        """What the strata cost against the plan for the table as one."""
        questions = self.cutter.questions() if self.cutter is not None else []
        columns = dict.fromkeys(question[0] for question in questions if not isinstance(question, int))
        one = self.plan.solution
        return StrataPrice(
            plan=self.plan,
            strata=len(self.own_partitions),
            columns=tuple(columns),
            loss=self.own_setting.loss,
            mse=float(self.own_setting.mse),
            loss_of_one=one.loss,
            mse_of_one=one.mse,
            sentences=sentences,
            exposure=self.exposure,
            error=self.error,
            group_shares=self.group_shares,
            in_the_clear=self.clear_values(policy),
        )


def arrange_whole(survey: Survey, plan: Plan, counts: StratumCounts, random: RandomBits) -> Arrangement:
    """The table as one stratum."""
    solution, values = plan.solution, survey.sensitive.texts[: survey.sensitive.applying]
    whole = Arrangement(
        survey=survey,
        plan=plan,
        counts=counts,
        partitions=(draw_partition(plan, values, random),),
        method=solution.method,
        status=solution.status,
        bound=solution.bound,
    )
    return set_apart(whole)


def set_apart(arrangement: Arrangement) -> Arrangement:
    """The same with a last stratum for records whose values do not apply, if there are any.

    Its partition has buckets of two records, one of them of three if their number is odd: nothing is to be hidden
    there. (A single record is alone.) Partitions of the others have lines for their own values until here.
    """
    sensitive = arrangement.survey.sensitive
    if not sensitive.apart:
        return arrangement
    applying, values, strata = sensitive.applying, len(sensitive.texts), len(arrangement.partitions)
    own = tuple(
        replace(part, quotas=part.quotas + ((0,) * len(part.setting.groups),) * sensitive.apart)
        for part in arrangement.partitions
    )
    last = _in_pairs(sensitive.counts[applying:])
    nothing = ((0,) * len(last.setting.groups),) * applying
    table = np.arange(strata * values).reshape(strata, values)
    table[:, applying:] = strata * values + np.arange(applying, values)
    kind = sortable_type((strata + 1) * values)
    return replace(
        arrangement,
        counts=arrangement.counts.renumber(table.ravel().astype(kind)),
        partitions=(*own, replace(last, quotas=nothing + last.quotas)),
        bound=None if arrangement.bound is None else arrangement.bound + last.setting.loss,
    )


def _in_pairs(counts: Sequence[int]) -> Partition:
    """Buckets of two; the first three records of all, as values are dealt, are one of three if their number is odd."""
    rows = sum(counts)
    odd = 3 if rows % 2 and rows > 1 else 0
    setting = BucketSetting.of([(2, (rows - odd) // 2), (3, odd // 3)] if rows > 1 else [(1, 1)])
    quotas: list[tuple[int, ...]] = []
    left = odd
    for count in counts:
        of_three = min(left, count)
        left -= of_three
        both = {1: count, 2: count - of_three, 3: of_three}
        quotas.append(tuple(both[group.size] for group in setting.groups))
    return Partition(setting, tuple(quotas))


def release_notes(arrangement: Arrangement, request: PublishRequest, unused: Sequence[str]) -> tuple[str, ...]:
    """On the limits, the strata, and columns that are not what they were in the table."""
    plan, survey = arrangement.plan, arrangement.survey
    notes = list(plan.notes)
    if arrangement.cutter is not None:  # leave out remarks on the setting of one stratum
        notes = [note for note in notes if note not in plan.solution.notes]
    notes += arrangement.sentences()
    notes += not_cut(arrangement, request)
    if unused:
        named = ", ".join(repr(name) for name in unused[:12]) + (" and more" if len(unused) > 12 else "")
        have = "1 column has no role and is" if len(unused) == 1 else f"{len(unused)} columns have no role and are"
        notes.append(f"{have} not published: {named}")
    notes += [
        f"the order of the categories of {name!r} is not published: it may show the order of rows"
        for name in survey.unordered
    ]
    notes += [
        f"{name!r} has a different value for nearly every record; if it identifies people, name it an identifier"
        for name in survey.nearly_unique
    ]
    return tuple(notes)


def not_cut(arrangement: Arrangement, request: PublishRequest) -> tuple[str, ...]:
    """A sentence for those who asked for strata and get none."""
    if arrangement.cutter is not None or request.strata.kind not in ("number", "columns"):
        return ()
    return ("the table was not cut: no two parts of it differ beyond chance and can keep the limits",)

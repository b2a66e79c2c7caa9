"""What is dealt to the buckets: one partition for the whole table, or one for each of its strata."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dalenius.fakes.quotas import RandomBits, draw_partition
from dalenius.model.plan import Method, Plan, Status
from dalenius.model.problem import BucketSetting, Partition, SizeGroup
from dalenius.place.cutting import Cutter
from dalenius.place.survey import Survey
from dalenius.publishing.engine import Counted


@dataclass(frozen=True)
class StrataPrice:
    """What strata cost, beside the same table as one. `columns` are those by which it is cut."""

    strata: int
    columns: tuple[str, ...]
    loss: int
    mse: float
    loss_of_one: int | None
    mse_of_one: float | None
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Deal:
    """The partitions of the strata, in the order of their buckets, and how good they are together."""

    parts: tuple[Partition, ...]
    method: Method
    status: Status
    bound: int | None
    counted: Counted
    cutter: Cutter | None = None

    @cached_property
    def groups(self) -> tuple[SizeGroup, ...]:
        """All size groups, in the order of their buckets."""
        return tuple(group for part in self.parts for group in part.setting.groups)

    @cached_property
    def setting(self) -> BucketSetting:
        """All buckets together."""
        return BucketSetting.of((group.size, group.buckets) for group in self.groups)

    @property
    def fake_values(self) -> int:
        """Fake values in every bucket."""
        return self.parts[0].fake_values

    @property
    def gap(self) -> float | None:
        """As of a solution."""
        loss = self.setting.loss
        return None if self.bound is None else (loss - self.bound) / loss if loss else 0.0

    def sentences(self, plan: Plan) -> tuple[str, ...]:
        """What the publisher should know about the strata."""
        if self.cutter is None or plan.solution.loss is None:
            return ()
        loss, without = self.setting.loss, plan.solution.loss
        times = f", {loss / without:.2f} times" if without else ""
        found = [f"with {len(self.parts):,} strata the loss is {loss:,} instead of {without:,}{times}"]
        leaves = np.bincount(self.cutter.strata)
        merged = sum(part.setting.records for part, number in zip(self.parts, leaves, strict=True) if number > 1)
        if 2 * merged > self.setting.records:
            share = merged / self.setting.records
            found.append(
                f"the limits are tight: {share:.0%} of the records are in strata that were merged of unlike leaves. "
                "Counts get better all the same, and so may the guesses of somebody who learns: compare the audit with "
                "that of a release with --strata none"
            )
        return tuple(found)

    def price(self, plan: Plan, sentences: tuple[str, ...]) -> StrataPrice:
        """Against the plan for the table as one."""
        questions = self.cutter.questions() if self.cutter is not None else []
        columns = dict.fromkeys(question[0] for question in questions if not isinstance(question, int))
        setting, one = self.setting, plan.solution
        return StrataPrice(
            len(self.parts), tuple(columns), setting.loss, float(setting.mse), one.loss, one.mse, sentences
        )


def whole(plan: Plan, found: Survey, counted: Counted, rng: RandomBits) -> Deal:
    """The table as one."""
    solution = plan.solution
    partition = draw_partition(plan, found.sensitive.texts, rng)
    return Deal((partition,), solution.method, solution.status, solution.bound, counted)

"""The partition that is dealt: quotas in the order of ST, and fakes; with what it costs, and whom it does not help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dalenius.errors import SelfCheckError
from dalenius.model.plan import Plan
from dalenius.model.setting import Partition
from dalenius.solve.fakes import RandomBits, with_fakes


def dealt(plan: Plan, values: Sequence[str], rng: RandomBits) -> Partition:
    """The plan's quotas with the values in this order, the one in which they are dealt, and fakes drawn for it.

    Whether fakes can be marked depends on the order: it comes first.
    """
    problem, partition = plan.problem, plan.solution.partition
    if partition is None:
        raise SelfCheckError("a plan without a partition")
    place = {value: place for place, value in enumerate(problem.values)}
    order = [place[value] for value in values]
    ordered = replace(
        problem,
        values=tuple(values),
        counts=tuple(problem.counts[i] for i in order),
        limits=tuple(problem.limits[i] for i in order),
    )
    return with_fakes(ordered, Partition(partition.setting, tuple(partition.quotas[i] for i in order)), rng)


def price(plan: Plan) -> tuple[str, ...]:
    """What known records and fake values cost, as a sentence for the publisher; none where there is nothing to say."""
    loss, without = plan.solution.loss, plan.unprotected.loss if plan.unprotected is not None else None
    if loss is None or without is None:
        return ()
    times = f", {loss / without:.2f} times" if without else ""
    return (f"the price of protection: a loss of {loss:,} instead of {without:,}{times}",)


def unprotected(parts: Sequence[Partition]) -> tuple[str, ...]:
    """Whom fakes do not help: quotas can be worked out from the counts, and so can sizes without a fake of a value."""
    number = sum(
        records
        for part in parts
        for quotas, fakes in zip(part.quotas, part.fakes, strict=True)
        for records, fake in zip(quotas, fakes, strict=True)
        if not fake
    )
    if not number:
        return ()
    return (f"fakes do not help {number:,} records: there is no fake of their value in buckets of their size",)

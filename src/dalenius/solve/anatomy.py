"""The l-diversity baseline: Anatomy's buckets of sizes l and l + 1 (Remark 1 and Section 7.1).

The smallest l that enforces F'-privacy is l = ceil(1 / min_i f'_i). Anatomy makes floor(n / l) buckets of l records
with different values, and adds each of the n mod l residual records to a bucket of its own. It exists iff no value
has more than n / l records (the eligibility requirement) and there are enough buckets for the residue.

If the attacker may know Q records of a bucket, l different values must be left without them: the buckets are of
l + Q records with different values, and a value has at most n / (l + Q) records. With sigma fake values a bucket holds
l + Q + sigma different values, and a value at most n / (l + Q + sigma) records, so that its fakes, in proportion, have
buckets of their own too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dalenius.model.problem import BucketSetting, Partition, Problem
from dalenius.solve.caps import smallest_size
from dalenius.solve.gale import validate_setting


@dataclass(frozen=True)
class Anatomy:
    """Anatomy's l, its smaller size l + Q, its setting (None if there is none), and whether the table is eligible.

    An ineligible setting is only good for comparing losses, as the paper does: no record assignment makes it private.
    """

    diversity: int
    size: int
    setting: BucketSetting | None
    eligible: bool
    largest_frequency: Fraction


def find_anatomy(problem: Problem) -> Anatomy:
    """Anatomy's setting for the l-diversity that the limits need."""
    total = problem.total
    diversity = smallest_size(min(problem.tightest))
    size = diversity + problem.known_records
    buckets, residue = divmod(total, size)
    largest = max(problem.counts)
    setting = None
    if residue <= buckets:
        setting = BucketSetting.of([(size, buckets - residue), (size + 1, residue)])
    eligible = setting is not None and largest * (size + problem.fake_values) <= total
    if eligible and setting is not None and (problem.fake_values or problem.groups is not None):
        # The residue takes buckets, and its fakes as well; and different values may be of one group.
        eligible = isinstance(validate_setting(problem, setting), Partition)
    return Anatomy(
        diversity=diversity,
        size=size,
        setting=setting,
        eligible=eligible,
        largest_frequency=Fraction(largest, total),
    )

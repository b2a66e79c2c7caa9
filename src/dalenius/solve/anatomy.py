"""The l-diversity baseline: Anatomy's buckets of sizes l and l + 1 (Remark 1 and Section 7.1).

The smallest l that enforces F'-privacy is l = ceil(1 / min_i f'_i). Anatomy makes floor(n / l) buckets of l records
with different values, and adds each of the n mod l residual records to a bucket of its own. It exists iff no value
has more than n / l records (the eligibility requirement) and there are enough buckets for the residue.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dalenius.model.problem import Problem
from dalenius.model.setting import BucketSetting
from dalenius.solve.caps import smallest_size


@dataclass(frozen=True)
class Anatomy:
    """What Anatomy would do: its l, its bucket setting (None if l records cannot even fill the buckets), eligibility.

    An ineligible setting is only good for comparing losses, as the paper does: no record assignment makes it private.
    """

    diversity: int
    setting: BucketSetting | None
    eligible: bool
    largest_frequency: Fraction


def anatomy(problem: Problem) -> Anatomy:
    """Anatomy's setting for the l-diversity that the limits need."""
    total = problem.total
    diversity = smallest_size(min(problem.limits))
    buckets, residue = divmod(total, diversity)
    largest = max(problem.counts)
    setting = None
    if residue <= buckets:
        setting = BucketSetting.of([(diversity, buckets - residue), (diversity + 1, residue)])
    eligible = setting is not None and largest * diversity <= total
    return Anatomy(diversity, setting, eligible, Fraction(largest, total))

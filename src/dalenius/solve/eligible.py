"""Does any setting exist at all? Lemma 1, with known records and fake values.

**Records alone.** With Q known records, some F'-private bucketization exists iff o_i <= floor(f'_i (n - Q)) for all i.
If: one bucket that holds everybody. Only if: bucket j holds at most f'_i (S_j - Q) records of value i (none at all if
S_j <= Q, so that every bucket is larger than Q). Over q >= 1 buckets that adds up to

    o_i  <=  sum_j f'_i (S_j - Q)  =  f'_i (n - q Q)  <=  f'_i (n - Q).

**Fakes in proportion.** By the same sum a setting whose fakes are in proportion exists iff one bucket of everybody is
one, o_i (n + sigma) <= floor(f'_i (n - Q)) n for all i: with c_j = floor(f'_i (S_j - Q)),

    o_i  <=  sum_j c_j S_j / (S_j + sigma)  <=  n / (n + sigma) sum_j c_j  <=  floor(f'_i (n - Q)) n / (n + sigma).

**Fakes that only fit.** If that fails, one bucket of everybody may still have room for sigma fakes of other values:
sum_i floor(f'_i (n - Q)) >= n + sigma. Otherwise there is nothing.
"""

from __future__ import annotations

from fractions import Fraction

from dalenius.model.plan import IneligibleValue, NoSolution
from dalenius.model.problem import Problem


def why_impossible(problem: Problem) -> NoSolution | None:
    """Why no setting of any sizes exists; None if one bucket that holds everybody is one."""
    total, most = problem.total, most_in_one_bucket(problem)
    values = tuple(
        _ineligible(problem, value, count, limit)
        for value, count, limit, room in zip(problem.values, problem.counts, problem.limits, most, strict=True)
        if room < count
    )
    if values:
        return NoSolution("not-eligible", values)
    if problem.fake_values and sum(most) < total + problem.fake_values:
        return NoSolution("no-room-for-fakes")
    return None


def fakes_can_be_in_proportion(problem: Problem) -> bool:
    """Whether some setting has room for fakes in proportion to the records."""
    slots = problem.total + problem.fake_values
    most = most_in_one_bucket(problem)
    return all(count * slots <= room * problem.total for count, room in zip(problem.counts, most, strict=True))


def most_in_one_bucket(problem: Problem) -> list[int]:
    """floor(f'_i (n - Q)): how often each value may be in one bucket that holds everybody."""
    unknown = max(0, problem.total - problem.known_records)
    return [limit.numerator * unknown // limit.denominator for limit in problem.limits]


def _ineligible(problem: Problem, value: str, count: int, limit: Fraction) -> IneligibleValue:
    unknown = problem.total - problem.known_records
    smallest = Fraction(count, unknown) if count <= unknown else None
    return IneligibleValue(value, Fraction(count, problem.total), limit, smallest)

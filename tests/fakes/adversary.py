"""What somebody learns who knows the rule, ST, QIT and some records of a bucket: by counting all cases, in fractions.

Written from the definition alone: a case is a marking of all buckets and, in the bucket that is looked at, a way to
give its unmarked slots to its records. Nothing is shared with the code that places records.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

Places = tuple[int, ...]
Posterior = dict[int, Fraction]


def fakes_of_bucket(markings: Iterable[Sequence[Places]], bucket: int) -> dict[Places, Fraction]:
    """How likely each set of fake places is in one bucket, where all markings are equally likely."""
    count = Counter(marking[bucket] for marking in markings)
    return {places: Fraction(number, count.total()) for places, number in count.items()}


def posteriors(held: Sequence[int], fakes: Mapping[Places, Fraction], known: int) -> dict[Places, Posterior]:
    """The chance of each value for the next record, by the values of the first `known` records, wherever possible.

    `held` are the values of the bucket's slots, and `fakes` says how likely each set of fake places is.
    """
    cases: dict[Places, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for places, chance in fakes.items():
        real = [value for place, value in enumerate(held) if place not in places]
        ways = list(itertools.permutations(real))
        for way in ways:
            cases[way[:known]][way[known]] += chance / len(ways)
    return {
        told: {value: weight / sum(after.values()) for value, weight in after.items()} for told, after in cases.items()
    }


def by_size(held: Sequence[int], told: Sequence[int], others: int) -> Posterior:
    """The promise: occurrences that are left, divided by `others` slots or records."""
    left = Counter(held) - Counter(told)
    return {value: Fraction(count, others) for value, count in left.items()}

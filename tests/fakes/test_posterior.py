"""What fake values promise, and what they do not: exact posteriors of small buckets, and simulated corruption."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dalenius.fakes.marking import draw_marks
from dalenius.place.slots import Placement
from tests.fakes.adversary import Places, by_size, fakes_of_bucket, posteriors
from tests.fakes.grids import deal, markings, partition_of


def alike(choices: list[Places]) -> dict[Places, Fraction]:
    return {places: Fraction(1, len(choices)) for places in choices}


def buckets_of(slots: int) -> list[tuple[int, ...]]:
    """Every bucket with so many slots, up to the names of its values: how often each occurs."""
    shapes: set[tuple[int, ...]] = set()
    for held in itertools.product(range(slots), repeat=slots):
        shapes.add(tuple(sorted(Counter(held).values())))
    return [tuple(value for value, count in enumerate(shape) for _ in range(count)) for shape in sorted(shapes)]


CORRUPTIONS = [(size, fakes, known) for size in (1, 2, 3, 4) for fakes in (1, 2) for known in range(size)]


@pytest.mark.parametrize(("size", "fakes", "known"), [case for case in CORRUPTIONS if sum(case[:2]) <= 5])
def test_with_independent_marks_the_chance_is_what_is_left_of_the_slots(size: int, fakes: int, known: int) -> None:
    """Exactly v / (S + sigma - q), for any repetitions and whatever the known records hold."""
    for held in buckets_of(size + fakes):
        found = posteriors(held, alike(list(itertools.combinations(range(len(held)), fakes))), known)
        for told, posterior in found.items():
            assert posterior == by_size(held, told, size + fakes - known)


TOTALS = [  # quotas and fakes of each value, buckets; the worst chance relative to v / (S + sigma - q), for each q
    ((6, 3, 3), (2, 1, 1), 4, ("1", "1", "1")),  # proportional, and all buckets alike
    ((4, 4, 4), (2, 2, 2), 6, ("1", "1")),
    ((1, 1, 1), (1, 1, 1), 3, ("1",)),
    ((3, 3, 3), (1, 1, 1), 3, ("13/12", "15/13", "5/4")),  # proportional, but the buckets are not alike
    ((6, 6, 6), (2, 2, 2), 6, ("34/33", "18/17", "12/11")),  # the same, twice as many buckets
    ((4, 4), (4, 4), 4, ("1", "264/227")),  # two fakes a bucket
    ((4, 3, 2), (1, 1, 1), 3, ("8/7", "6/5", "4/3")),  # 1, 1, 1 where 4/3, 1, 2/3 would be proportional
    ((6, 4, 2), (2, 1, 1), 4, ("10/9", "7/6", "4/3")),
    ((5, 3, 1), (2, 1, 0), 3, ("4/3", "3/2", "2")),  # known never to be fake: no protection for that value
]


@pytest.mark.parametrize(("quotas", "fakes", "buckets", "worst"), TOTALS)
def test_whoever_knows_the_totals_knows_a_little_more(
    quotas: tuple[int, ...], fakes: tuple[int, ...], buckets: int, worst: tuple[str, ...]
) -> None:
    """All markings with the totals are equally likely. Never above v / (S - q), which is what no fake values give."""
    size, sigma = sum(quotas) // buckets, sum(fakes) // buckets
    grid = deal([own + fake for own, fake in zip(quotas, fakes, strict=True)], buckets)
    every = markings(grid, sigma, fakes)
    for known, ratio in enumerate(worst):
        found = Fraction(0)
        for bucket, held in enumerate(grid):
            for told, posterior in posteriors(held, fakes_of_bucket(every, bucket), known).items():
                promised = by_size(held, told, size + sigma - known)
                without = by_size(held, told, size - known)
                assert all(chance <= without[value] for value, chance in posterior.items())
                found = max(found, *(chance / promised[value] for value, chance in posterior.items()))
        assert found == Fraction(ratio)


def test_a_value_is_fake_as_often_as_its_totals_say() -> None:
    """Over all buckets of the group, however much single buckets differ."""
    quotas, fakes, buckets = (4, 3, 2), (1, 1, 1), 3
    grid = deal([5, 4, 3], buckets)
    every = markings(grid, 1, fakes)
    for value, (own, fake) in enumerate(zip(quotas, fakes, strict=True)):
        chance = Fraction(0)
        for bucket, held in enumerate(grid):
            for places, weight in fakes_of_bucket(every, bucket).items():
                chance += weight * sum(held[place] == value for place in places)
        assert chance / (own + fake) == Fraction(fake, own + fake)


def test_fakes_drawn_from_the_domain_leave_common_values_known() -> None:
    """Seven in ten records have value 0, one in ten each of three others; a fake value is any of the four."""
    share = [Fraction(7, 10), Fraction(1, 10), Fraction(1, 10), Fraction(1, 10)]
    held = (0, 1, 2)
    weights: dict[Places, Fraction] = {}
    for place in range(3):
        real = [share[value] for other, value in enumerate(held) if other != place]
        weights[(place,)] = real[0] * real[1] * Fraction(1, 4)
    fakes = {places: weight / sum(weights.values()) for places, weight in weights.items()}
    (posterior,) = posteriors(held, fakes, 0).values()
    assert posterior[0] == Fraction(7, 15)  # where v / (S + sigma) is 1/3, and v / S is 1/2
    assert posteriors(held, fakes, 1)[(1,)][0] == Fraction(7, 8)  # where v / (S + sigma - 1) is 1/2


def test_fakes_that_are_absent_from_the_bucket_mark_every_repeated_value_as_real() -> None:
    held = (0, 0, 1, 2)
    fakes = alike([(2,), (3,)])
    (posterior,) = posteriors(held, fakes, 0).values()
    assert posterior[0] == Fraction(2, 3)  # v / S, as if there were no fake values; v / (S + sigma) is 1/2
    assert posteriors(held, fakes, 2)[(0, 1)][0] == 1  # where v / (S + sigma - 2) is 1/2


@pytest.mark.parametrize(("fakes", "known"), [(1, 0), (1, 1), (1, 2), (2, 2)])
def test_corruption_of_placed_records_is_right_as_often_as_promised(fakes: int, known: int) -> None:
    """An adversary learns some records of a bucket, and gives each value what is left of it for the next record."""
    size, buckets = 3, 120
    quotas = np.asarray([150, 90, 75, 45])
    extra = quotas * fakes // size
    partition = partition_of([(size, buckets)], quotas[:, None], extra[:, None])
    values = np.repeat(np.arange(4), quotas).astype(np.uint16)
    grid = deal((quotas + extra).tolist(), buckets)
    random = np.random.default_rng(known)
    hits, claims = np.zeros(4), np.zeros(4)
    spread = np.zeros(4)
    for number in range(40):
        key = number.to_bytes(32, "little")
        order, placed = Placement([partition], key, draw_marks([partition], key)).buckets(values, np.zeros(4, np.int64))
        held_by: list[list[int]] = [[] for _ in range(buckets)]
        for record, bucket in zip(order.tolist(), placed.tolist(), strict=True):
            held_by[bucket - 1].append(int(values[record]))
        for held, real in zip(grid, held_by, strict=True):
            told = random.permutation(real).tolist()
            for value, chance in by_size(held, told[:known], size + fakes - known).items():
                claims[value] += float(chance)
                spread[value] += float(chance * (1 - chance))
                hits[value] += told[known] == value
    assert claims.min() > 100
    assert (
        np.abs(hits - claims) < 3.3 * np.sqrt(spread) + 0.01 * claims
    ).all()  # p = 0.001 each, and 1 % for the totals

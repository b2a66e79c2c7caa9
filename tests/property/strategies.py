"""Generated problems."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from dalenius.model.groups import NO_GROUP, Group, Groups
from dalenius.model.problem import Problem
from dalenius.solve.sizes import least_min_size
from tests.problems import problem


@st.composite
def limits_for(draw: st.DrawFn, counts: list[int]) -> list[Fraction]:
    """Limits from a rule, or one by one; often close to the frequencies, where things are tight."""
    total = sum(counts)
    kind = draw(st.sampled_from(["theta", "free", "tight"]))
    if kind == "theta":
        theta, base = draw(st.integers(0, 4)), Fraction(draw(st.integers(1, 30)), 100)
        return [min(Fraction(1), theta * Fraction(count, total) + base) for count in counts]
    if kind == "tight":
        extra = draw(st.lists(st.integers(0, 3), min_size=len(counts), max_size=len(counts)))
        return [min(Fraction(1), Fraction(count + more, total)) for count, more in zip(counts, extra, strict=True)]
    return [Fraction(draw(st.integers(1, 12)), 12) for _ in counts]


@st.composite
def small_problems(draw: st.DrawFn, most_records: int = 14, most_values: int = 5) -> Problem:
    """Tables small enough for brute force, eligible or not, with any range of sizes."""
    counts = draw(st.lists(st.integers(1, most_records), min_size=1, max_size=most_values))
    while sum(counts) > most_records:
        counts = [max(1, count // 2) for count in counts] if max(counts) > 1 else counts[:most_records]
    limits = draw(limits_for(counts))
    total = sum(counts)
    low = draw(st.none() | st.integers(1, 4))
    made = problem(counts, limits, max_size=draw(st.integers(1, total)))
    return made if low is None else problem(counts, limits, max(low, made.min_size), made.max_size)


@st.composite
def guarded_problems(
    draw: st.DrawFn, most_records: int = 14, known: tuple[int, int] = (0, 2), fakes: tuple[int, int] = (0, 0)
) -> Problem:
    """Small tables whose adversary knows records, or is given fakes; more often solvable than not."""
    plain = draw(small_problems(most_records))
    known_records, fake_values = draw(st.integers(*known)), draw(st.integers(*fakes))
    limits = plain.limits
    if draw(st.booleans()):
        looser = Fraction(draw(st.integers(1, 5)), 10)
        limits = tuple(min(Fraction(1), limit + looser) for limit in limits)
    max_size = draw(st.sampled_from([plain.max_size, plain.total]))
    low = max(plain.min_size, least_min_size(limits, known_records))
    return replace(
        plain, limits=limits, min_size=low, max_size=max_size, known_records=known_records, fake_values=fake_values
    )


@st.composite
def large_problems(draw: st.DrawFn, most_records: int = 10**12, most_values: int = 40) -> Problem:
    """Tables of any number of records: eligible, with sizes up to about 40."""
    counts = draw(st.lists(st.integers(1, most_records // most_values), min_size=2, max_size=most_values))
    theta, base = draw(st.fractions(1, 6, max_denominator=7)), Fraction(draw(st.integers(3, 30)), 100)
    total = sum(counts)
    limits = [min(Fraction(1), theta * Fraction(count, total) + base) for count in counts]
    return problem(counts, limits, max_size=draw(st.integers(20, 40)))


@st.composite
def grouped_problems(
    draw: st.DrawFn, most_records: int = 14, known: tuple[int, int] = (0, 0), fakes: tuple[int, int] = (0, 0)
) -> Problem:
    """Small tables whose values are in random trees of groups, with limits near what the groups have."""
    plain = draw(guarded_problems(most_records, known, fakes))
    values = len(plain.values)
    number = draw(st.integers(1, 5))
    parents = [draw(st.integers(NO_GROUP, place - 1)) for place in range(number)]
    of_value = tuple(draw(st.integers(NO_GROUP, number - 1)) for _ in range(values))
    bare = Groups(tuple(Group(f"g{k}", None, parent) for k, parent in enumerate(parents)), of_value)
    sums = bare.sums(plain.counts)
    groups = []
    for group, count in zip(bare.groups, sums, strict=True):
        room = draw(st.none() | st.integers(0, 4))
        limit = None if room is None else min(Fraction(1), Fraction(max(1, count + room), plain.total))
        groups.append(replace(group, limit=limit))
    made = replace(plain, groups=Groups(tuple(groups), of_value))
    return replace(made, min_size=max(plain.min_size, least_min_size(made.tightest, plain.known_records)))

"""Certificates of problems with groups: what they prove is true, and nobody can make them prove more."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.cli.render_plan import certificate_object
from dalenius.errors import InputError
from dalenius.model.groups import NO_GROUP, Group, Groups
from dalenius.model.plan import Certificate, CertificateRow, Method, Plan, Solution, Status
from dalenius.model.problem import Problem, ValueCounts
from dalenius.verify.certificate_file import Claim, read_certificate
from dalenius.verify.proof import ProofVerdict, certified_bound, check_certificate
from tests.effort import examples

HALF, QUARTER, ONE = Fraction(1, 2), Fraction(1, 4), Fraction(1)

# Four of sixteen records are in a group that may have a quarter of a bucket: four buckets of four, and not smaller.
TREE = Groups((Group("top", None), Group("g", QUARTER, parent=0), Group("other", ONE)), (1, 1, 2, NO_GROUP))
TABLE = Problem(("a", "b", "c", "d"), (2, 2, 6, 6), (HALF, HALF, ONE, HALF), min_size=1, max_size=8, groups=TREE)
ROWS = (CertificateRow(Fraction(9), (0, 1)),)


def optimum(problem: Problem) -> int | None:
    """The least loss of any valid setting, by trying all of them; None if there is none."""
    losses = [
        sum(buckets * (size - 1) ** 2 for size, buckets in setting)
        for setting in every_setting(problem.total, problem.min_size, problem.max_size)
        if is_valid(problem, setting)
    ]
    return min(losses, default=None)


def every_setting(records: int, smallest: int, largest: int) -> Iterator[tuple[tuple[int, int], ...]]:
    if records == 0:
        yield ()
    for size in range(smallest, min(largest, records) + 1):
        for buckets in range(1, records // size + 1):
            for rest in every_setting(records - size * buckets, size + 1, largest):
                yield ((size, buckets), *rest)


def is_valid(problem: Problem, setting: tuple[tuple[int, int], ...]) -> bool:
    """Whether the records can be shared out: a number of each value to the buckets of each size."""
    nodes = limited_nodes(problem)

    @cache
    def fits(left: tuple[int, ...], at: int) -> bool:
        if at == len(setting):
            return not any(left)
        size, buckets = setting[at]
        most = [int(limit * max(0, size - problem.known_records)) * size * buckets for _, limit in nodes]
        for quota in quotas(left, size * buckets):
            held = [sum(quota[i] for i in under) * (size + problem.fake_values) for under, _ in nodes]
            if all(a <= b for a, b in zip(held, most, strict=True)):
                rest = tuple(a - b for a, b in zip(left, quota, strict=True))
                if fits(rest, at + 1):
                    return True
        return False

    return fits(problem.counts, 0)


def limited_nodes(problem: Problem) -> list[tuple[list[int], Fraction]]:
    """Each limit, and the values that it is on together."""
    nodes = [([value], limit) for value, limit in enumerate(problem.limits)]
    assert problem.groups is not None
    for place, group in enumerate(problem.groups.groups):
        under = [value for value in range(len(problem.values)) if place in problem.groups.path(value)]
        if group.limit is not None:
            nodes.append((under, group.limit))
    return nodes


def quotas(left: Sequence[int], records: int) -> Iterator[tuple[int, ...]]:
    """All ways to take so many records out of those that are left."""
    if not left:
        if records == 0:
            yield ()
        return
    for own in range(min(left[0], records) + 1):
        for rest in quotas(left[1:], records - own):
            yield (own, *rest)


RATIOS = st.sampled_from([Fraction(1, 5), QUARTER, Fraction(1, 3), Fraction(2, 5), HALF, Fraction(2, 3), ONE])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to twelve records of up to four values, under up to three groups."""
    values = draw(st.integers(1, 4))
    counts = tuple(draw(st.integers(1, 3)) for _ in range(values))
    places = draw(st.integers(1, 3))
    groups = tuple(
        Group(f"g{place}", draw(st.none() | RATIOS), draw(st.integers(NO_GROUP, place - 1))) for place in range(places)
    )
    of_value = tuple(draw(st.integers(NO_GROUP, places - 1)) for _ in range(values))
    limits = tuple(draw(RATIOS) for _ in range(values))
    low = draw(st.integers(1, 2))
    known, fakes = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1), (1, 2)]))
    names = tuple("abcd"[:values])
    return Problem(names, counts, limits, low, 6, known, fakes, Groups(groups, of_value))


@given(problems(), st.data(), st.sampled_from([1, 3, 2**20, 2**61]))
@settings(max_examples=examples(300))
def test_no_certificate_proves_more_than_is_true(problem: Problem, data: st.DataObject, units: int) -> None:
    least = optimum(problem)
    sets = [x for k in range(1, len(problem.values) + 1) for x in combinations(range(len(problem.values)), k)]
    weights = st.fractions(0, 40, max_denominator=6)
    several = tuple(CertificateRow(data.draw(weights) / units, data.draw(st.sampled_from(sets))) for _ in range(3))
    tries = [several, *((CertificateRow(Fraction(weight, units), x),) for weight in (1, 3, 5, 8, 9, 25) for x in sets)]
    if problem.min_size > problem.total:
        return
    for rows in tries:
        bound = certified_bound(problem, Certificate(Fraction(0), rows, units=units))
        nothing = certified_bound(problem, Certificate(Fraction(0), rows, "no-setting", units=units))
        assert least is None or (bound <= least and nothing <= 0)


def test_a_bound_that_needs_the_limit_of_a_group() -> None:
    assert optimum(TABLE) == 36
    assert certified_bound(TABLE, Certificate(Fraction(0), ROWS)) == 36
    alone = Groups((), (NO_GROUP,) * 4)
    assert certified_bound(replace(TABLE, groups=alone), Certificate(Fraction(0), ROWS)) < 36
    best = max(
        certified_bound(TABLE, Certificate(Fraction(0), tuple(CertificateRow(Fraction(y, 4), (i,)) for i in (0, 1))))
        for y in range(60)
    )
    assert best < 36  # the values one by one do not prove it


@pytest.mark.parametrize("units", [1, 2**20, 2**61])
@pytest.mark.parametrize(("known", "fakes"), [(0, 0), (3, 2), (0, 2**62)])
def test_the_bound_is_what_the_definition_says(units: int, known: int, fakes: int) -> None:
    """Sizes are taken together, in 64 bits where that is enough; here they are taken one by one, value by value."""
    long = Fraction(10**60 + 1, 3 * 10**60)
    limits = tuple([long, Fraction(1, 7), HALF, ONE][value % 4] for value in range(30))
    groups = tuple(
        Group(f"g{place}", [None, Fraction(1, 6), Fraction(2, 3), long][place % 4], (place - 1) // 2)
        for place in range(7)
    )
    tree = Groups(groups, tuple(value % 8 - 1 for value in range(30)))
    names = tuple(map(str, range(30)))
    problem = Problem(names, tuple(range(100, 130)), limits, 2, 120, known, fakes, tree)
    rows = tuple(CertificateRow(Fraction(1, 3 + k) / units, tuple(range(k, 30, 1 + k % 5))) for k in range(9))
    right = sum(row.multiplier * units * sum(problem.counts[i] for i in row.values) for row in rows)
    rates = (
        (Fraction((size - 1) ** 2) - sum(row.multiplier * slow_most(problem, row.values, size, units) for row in rows))
        / size
        for size in range(2, 121)
    )
    bound = right + problem.total * min(rates)
    assert certified_bound(problem, Certificate(Fraction(0), rows, units=units)) == bound


def slow_most(problem: Problem, chosen: Sequence[int], size: int, units: int) -> int:
    """r(X, S), from the top down."""
    tree = problem.groups
    assert tree is not None
    number, fakes = size - problem.known_records, problem.fake_values

    def cap(limit: Fraction) -> int:
        exact = Fraction(units * max(0, limit.numerator * number // limit.denominator) * size, size + fakes)
        return -(-exact.numerator // exact.denominator)

    def under(place: int) -> int:
        own = sum(cap(problem.limits[i]) for i in chosen if tree.of_value[i] == place)
        all_of_it = own + sum(under(child) for child, group in enumerate(tree.groups) if group.parent == place)
        limit = tree.groups[place].limit if place != NO_GROUP else None
        return all_of_it if limit is None else min(all_of_it, cap(limit))

    return min(units * size, under(NO_GROUP))


def test_rows_of_another_form_are_refused() -> None:
    for row in (CertificateRow(ONE, ()), CertificateRow(ONE, (0,), ((1, 3),))):
        with pytest.raises(ValueError, match="sets of values"):
            certified_bound(TABLE, Certificate(Fraction(0), (row,)))


# The file.


def written(problem: Problem = TABLE) -> dict[str, Any]:
    certificate = Certificate(Fraction(36), ROWS)
    solution = Solution(Method.OPTIMAL, Status.FEASIBLE, problem.min_size, problem.max_size, None, None)
    found: dict[str, Any] = json.loads(json.dumps(certificate_object(Plan(problem, solution), certificate)))
    return found


def read(document: object, folder: Path) -> Claim:
    path = folder / "proof.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return read_certificate(path)


def check(claim: Claim, problem: Problem = TABLE) -> ProofVerdict:
    """Against the publisher's own: the values in another order than in the file."""
    back = list(range(len(problem.values)))[::-1]
    own = problem.take(back)
    return check_certificate(
        claim, ValueCounts(own.values, own.counts), own.limits, groups=own.groups, min_size=1, max_size=8
    )


def test_a_file_says_what_was_written(tmp_path: Path) -> None:
    document = written()
    assert document["format"] == 2
    claim = read(document, tmp_path)
    levels = replace(TABLE, groups=replace(TREE, groups=tuple(replace(group, level="") for group in TREE.groups)))
    assert claim == Claim(levels, Certificate(Fraction(36), ROWS))
    verdict = check(claim)
    assert verdict.verified, verdict.findings
    assert verdict.proven == 36
    flat = written(replace(TABLE, groups=None))
    assert flat["format"] == 1
    assert "groups" not in flat
    assert all("group" not in value for value in flat["values"])


def numbers(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Where every number of a document is, and what else could be there."""
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from numbers(value, (*at, key))
    elif isinstance(document, int):
        yield from ((at, document + step) for step in (-1, 1))
        yield at, None
    elif document is None:
        yield from ((at, other) for other in (0, 1, 2, "1/3"))
    elif at[-1] in ("limit", "bound", "multiplier"):
        yield from ((at, str(Fraction(document) + step)) for step in (-1, Fraction(-1, 9), Fraction(1, 9), 1))
        yield at, None


def test_whatever_number_is_changed_no_false_bound_is_proven(tmp_path: Path) -> None:
    document, passed = written(), []
    for at, other in numbers(document):
        changed = copy.deepcopy(document)
        entry = changed
        for key in at[:-1]:
            entry = entry[key]
        entry[at[-1]] = other
        try:
            verdict = check(read(changed, tmp_path))
        except InputError:
            continue
        assert verdict.proven <= 36
        if verdict.verified:
            assert verdict.stated == verdict.proven == 36
            passed.append(at)
    # A wider range, units that round nothing, and rows that prove the very same, are no false claims.
    assert {at[0] for at in passed} <= {"max_size", "units", "rows"}
    assert len(passed) < 10


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (None, "the certificate has groups that you do not have: 'g', 'other', 'top'"),
        (replace(TREE, of_value=(1, 1, NO_GROUP, NO_GROUP)), "groups that you do not have: 'other'"),
        (replace(TREE, of_value=(1, 1, 2, 2)), "1 group has another parent or other values: 'other'"),
        (
            replace(TREE, groups=(TREE.groups[0], replace(TREE.groups[1], limit=HALF), TREE.groups[2])),
            "1 limit of a group differs from yours: of 'g' it has 0.25, and you have 0.5",
        ),
        (
            replace(TREE, groups=(TREE.groups[0], replace(TREE.groups[1], limit=None), TREE.groups[2])),
            "of 'g' it has 0.25, and you have none",
        ),
        (
            replace(TREE, groups=(TREE.groups[0], TREE.groups[1], replace(TREE.groups[2], parent=0))),
            "another parent or other values: 'other'",
        ),
    ],
)
def test_your_own_groups_count(groups: Groups | None, words: str, tmp_path: Path) -> None:
    own = replace(TABLE, groups=groups)
    verdict = check(read(written(), tmp_path), own)
    assert not verdict.verified
    assert any(words in finding for finding in verdict.findings), verdict.findings
    least = optimum(replace(own, groups=groups or Groups((), (NO_GROUP,) * 4)))
    assert least is not None
    assert verdict.proven <= least


def test_a_certificate_without_groups_proves_its_bound_with_them_too(tmp_path: Path) -> None:
    flat = replace(TABLE, groups=None)
    row = CertificateRow(ONE, (3,))
    bound = certified_bound(flat, Certificate(Fraction(0), (row,)))
    verdict = check(Claim(flat, Certificate(bound, (row,))))
    assert verdict.proven == bound
    assert verdict.findings == ("the certificate does not have your groups 'g', 'other', 'top'",)


def test_groups_without_values_and_another_order_make_no_difference(tmp_path: Path) -> None:
    top, g, other = TREE.groups
    own = Groups((other, Group("empty", QUARTER), top, replace(g, parent=2)), (3, 3, 0, NO_GROUP))
    verdict = check(read(written(), tmp_path), replace(TABLE, groups=own))
    assert verdict.verified, verdict.findings


def broken() -> dict[str, dict[str, Any]]:
    proof = written()
    row, group, value = proof["rows"][0], proof["groups"][1], proof["values"][0]
    cases: dict[str, dict[str, Any]] = {
        "sizes": {"rows": [{**row, "sizes": [[1, 3]]}]},
        "no values": {"rows": [{**row, "values": []}]},
        "a value that is not listed": {"rows": [{**row, "values": [0, 4]}]},
        "a group twice": {"groups": [proof["groups"][0], group, {**group, "parent": None}]},
        "a child first": {"groups": [group, *proof["groups"]]},
        "a group without a name": {"groups": [{**proof["groups"][0], "name": ""}, *proof["groups"][1:]]},
        "a group that is not listed": {"values": [{**value, "group": 3}, *proof["values"][1:]]},
        "no group said": {"values": [{k: value[k] for k in value if k != "group"}, *proof["values"][1:]]},
        "format 1": {"format": 1},
        "true": {"format": True},
    }
    return {name: {**proof, **change} for name, change in cases.items()}


def test_files_that_are_no_certificates(tmp_path: Path) -> None:
    for document in broken().values():
        with pytest.raises(InputError, match="the certificate is not one"):
            read(document, tmp_path)


def test_the_brute_force_is_right_about_a_few() -> None:
    """By hand: one value alone, and two that may together have half of a bucket."""
    one = Problem(("a",), (3,), (ONE,), 1, 6, groups=Groups((), (NO_GROUP,)))
    assert optimum(one) == 0
    both = Groups((Group("g", HALF),), (0, 0, NO_GROUP))
    assert optimum(Problem(("a", "b", "c"), (1, 1, 2), (ONE,) * 3, 1, 6, groups=both)) == 2
    assert optimum(Problem(("a", "b"), (1, 1), (ONE,) * 2, 1, 6, groups=replace(both, of_value=(0, 0)))) is None
    assert len(list(every_setting(6, 1, 6))) == 11  # the partitions of 6

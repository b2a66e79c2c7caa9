"""Problems that share their caps: one linear program and one list of cuts for the relaxations of all of them.

The values of all members are put together; a member has 0 records of the values that it lacks. PC and Gale's condition
(`cuts.py`) hold for such values too, with the same coefficients for every member, since caps depend on limits alone. So
the relaxations of all members have the same matrix, and only their right-hand sides differ: the cuts that one member
needed are there for the next, and the optimal basis of one is a start for the next.

What is proven of a member is proven with its own values: leaving the absent ones out of cap[not I, S] keeps the cut
valid and makes it stronger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dalenius.model.groups import NO_GROUP
from dalenius.model.problem import Problem
from dalenius.solve.caps import Floats, Integers, Mask, caps_in_units
from dalenius.solve.certificate import ExactBound, dense_bound
from dalenius.solve.cuts import Cut, violated_cuts
from dalenius.solve.forest import Forest
from dalenius.solve.highs import LinearFamily
from dalenius.solve.set_cuts import SetCut

_TOLERANCE = 0.25  # of a record: smaller violations are left to the rounding
_MANY_CUTS = 100  # and as many as there are sizes; then those that have been of no use for longest are forgotten
_MOST_ROUNDS = 50
_PRIVACY_ROWS_A_ROUND = 8  # and more, where there are many values
_NOTHING = 1e-12  # a share of the records


@dataclass(frozen=True, eq=False)
class Member:
    """One problem of a family: its counts among all values of the family, in units, and where its own values are."""

    problem: Problem
    counts: Integers
    own: Integers
    units: int
    forest: Forest | None = None

    @property
    def demands(self) -> Integers:
        """What PC asks room for."""
        return self.counts

    @cached_property
    def total(self) -> int:
        """n."""
        return self.problem.total


@dataclass(frozen=True, eq=False)
class MemberRelaxation:
    """The best fractional setting of a member (`buckets` of each of the family's sizes), and an exact bound.

    `matrix` and `rights` are the cuts behind the bound, among the member's own values, and `multipliers` theirs.
    """

    buckets: Floats
    bound: ExactBound
    multipliers: Floats
    matrix: Integers
    rights: Integers


@dataclass(frozen=True, eq=False)
class _Rows:
    """Cuts as arrays, one row a cut: a(S) = inside(S) (sum of cap[i, S] over i in `values` - drain S).

    The right-hand side is the counts of these values for PC, and for Gale's condition less the counts of the others.
    """

    values: Integers
    inside: Mask
    drain: Integers

    @classmethod
    def of(cls, cuts: Sequence[Cut], values: int, sizes: Integers) -> _Rows:
        rows = cls(
            np.zeros((len(cuts), values), dtype=np.int64),
            np.ones((len(cuts), len(sizes)), dtype=np.bool_),
            np.zeros(len(cuts), dtype=np.int64),
        )
        for k, cut in enumerate(cuts):
            rows.values[k] = ~cut.values if cut.sizes else cut.values
            if cut.sizes:
                rows.inside[k] = np.any([(sizes >= low) & (sizes <= high) for low, high in cut.sizes], axis=0)
                rows.drain[k] = cut.units
        return rows

    def __add__(self, other: _Rows) -> _Rows:
        return _Rows(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.inside, other.inside]),
            np.concatenate([self.drain, other.drain]),
        )

    def __getitem__(self, index: Integers) -> _Rows:
        return _Rows(self.values[index], self.inside[index], self.drain[index])

    def coefficients(self, caps: Integers, sizes: Integers, own: Integers | slice = slice(None)) -> Integers:
        """a(S), with the caps of these values alone."""
        return np.asarray(self.inside * (self.values[:, own] @ caps[own] - self.drain[:, None] * sizes))

    def rights(self, counts: Integers) -> Integers:
        """The right-hand sides for these counts."""
        return np.asarray(self.values @ counts - (self.drain > 0) * counts.sum())


@dataclass(frozen=True, eq=False)
class _SetRows:
    """The same for inequalities of sets of values (`set_cuts.py`): a(S) = r(X, S), X the set of a row."""

    values: Integers
    units: int
    forest: Forest

    @property
    def drain(self) -> Integers:
        """None takes records away from other values."""
        return np.zeros(len(self.values), dtype=np.int64)

    def __add__(self, other: _SetRows) -> _SetRows:
        return replace(self, values=np.concatenate([self.values, other.values]))

    def __getitem__(self, index: Integers) -> _SetRows:
        return replace(self, values=self.values[index])

    def coefficients(self, caps: Integers, sizes: Integers, own: Integers | slice = slice(None)) -> Integers:
        """a(S), with these values alone."""
        there = np.zeros(self.values.shape[1], dtype=np.bool_)
        there[own] = True
        lines = np.empty((len(self.values), len(sizes)), dtype=np.int64)
        for k, chosen in enumerate(self.values):
            lines[k] = np.minimum(self.forest.most((chosen > 0) & there, caps), sizes * self.units)
        return lines

    def rights(self, counts: Integers) -> Integers:
        """The right-hand sides for these counts."""
        return np.asarray(self.values @ counts)


class Family:
    """Members with the same sizes, known records, fake values and units (`many.py` sorts them), and the same groups."""

    def __init__(self, problems: Sequence[Problem], sizes: Integers, units: int) -> None:
        places: dict[tuple[str, int, int, int], int] = {}  # a limit as two numbers: the hash of a fraction takes long
        owned = [
            np.asarray(
                [
                    places.setdefault((value, limit.numerator, limit.denominator, group), len(places))
                    for value, limit, group in zip(problem.values, problem.limits, _groups_of(problem), strict=True)
                ]
            )
            for problem in problems
        ]
        first = problems[0]
        everything = replace(
            first,
            values=tuple(value for value, _, _, _ in places),
            counts=(0,) * len(places),
            limits=tuple(Fraction(above, below) for _, above, below, _ in places),
            groups=None if first.groups is None else replace(first.groups, of_value=tuple(p[3] for p in places)),
        )
        self._forest, self._units = Forest.of(everything), units
        limits = everything.limits + (self._forest.limits if self._forest is not None else ())
        self.sizes = sizes
        self.caps = caps_in_units(limits, sizes, first.known_records, first.fake_values, units)
        self.members = [
            _member(p, own, len(places), units, self._forest) for p, own in zip(problems, owned, strict=True)
        ]
        self._clock = 0
        self._cuts: list[Cut | SetCut] = []
        self._known: set[object] = set()
        self._used = np.zeros(0, dtype=np.int64)  # when each cut was last of use
        self._program, self._rows, self._scales = self._program_of([])

    def relax(self, member: Member) -> MemberRelaxation | None:
        """The member's relaxation; None if it has no solution, by floating point. `LinearTrouble` may be raised."""
        self._clock += 1
        if len(self._cuts) > _MANY_CUTS + len(self.sizes):
            self._forget()
        a_round = max(_PRIVACY_ROWS_A_ROUND, len(member.counts) // 20)
        for _ in range(_MOST_ROUNDS):
            answer = self._program.solve(self._rows.rights(member.counts) / (member.total * self._scales))
            if answer is None:
                return None
            shares, multipliers = answer
            multipliers /= self._scales
            used = np.flatnonzero(shares > _NOTHING)
            sizes, buckets = self.sizes[used], shares[used] * member.total / self.sizes[used]
            cuts = violated_cuts(member, sizes, self.caps[:, used], buckets, _TOLERANCE * member.units, a_round)
            if not self._add(list(cuts)):
                break
        whole = np.zeros(len(self.sizes))
        whole[used] = buckets
        return self._prove(member, whole, multipliers)

    def _prove(self, member: Member, buckets: Floats, multipliers: Floats) -> MemberRelaxation:
        """The relaxation with the bound that its multipliers prove. PC for values that the member lacks is left out."""
        used = np.flatnonzero(multipliers > 0.0)
        self._used[used] = self._clock
        present = (self._rows.drain[used] > 0) | (self._rows.values[used] @ member.counts > 0)
        used = used[present]
        rows = self._rows[used]
        matrix, rights = rows.coefficients(self.caps, self.sizes, member.own), rows.rights(member.counts)
        cuts = [
            replace(self._cuts[k], values=self._cuts[k].values[member.own], right=right)
            for k, right in zip(used.tolist(), rights.tolist(), strict=True)
        ]
        bound = dense_bound(member, self.sizes, matrix, cuts, multipliers[used])
        return MemberRelaxation(
            buckets=buckets, bound=bound, multipliers=multipliers[used], matrix=matrix, rights=rights
        )

    def _add(self, cuts: Sequence[Cut | SetCut]) -> bool:
        """Add the cuts that are new; False if none is."""
        new = [cut for cut in cuts if cut.key not in self._known]
        if new:
            self._cuts += new
            self._known |= {cut.key for cut in new}
            rows = self._rows_of(new)
            matrix, scales = self._scale(rows)
            self._program.add_rows(matrix)
            self._rows = self._rows + rows  # type: ignore[operator]
            self._scales = np.concatenate([self._scales, scales])
            self._used = np.concatenate([self._used, np.full(len(new), self._clock)])
        return bool(new)

    def _forget(self) -> None:
        """Half of the cuts go, those that have been of no use for longest."""
        recent = np.sort(np.argsort(-self._used, kind="stable")[: len(self._cuts) // 2])
        self._cuts, self._used = [self._cuts[k] for k in recent], self._used[recent]
        self._known = {cut.key for cut in self._cuts}
        self._program, self._rows, self._scales = self._program_of(self._cuts)

    def _rows_of(self, cuts: Sequence[Cut | SetCut]) -> _Rows | _SetRows:
        if self._forest is None:
            return _Rows.of([cut for cut in cuts if isinstance(cut, Cut)], len(self.caps), self.sizes)
        masks = np.asarray([cut.values for cut in cuts], dtype=np.int64).reshape(len(cuts), self._forest.values)
        return _SetRows(masks, self._units, self._forest)

    def _program_of(self, cuts: Sequence[Cut | SetCut]) -> tuple[LinearFamily, _Rows | _SetRows, Floats]:
        """A linear program with these cuts alone, their rows, and what the rows were divided by."""
        rows = self._rows_of(cuts)
        matrix, scales = self._scale(rows)
        return LinearFamily((self.sizes - 1.0) ** 2 / self.sizes, matrix), rows, scales

    def _scale(self, rows: _Rows | _SetRows) -> tuple[Floats, Floats]:
        """Rows for shares of the records, a(S) / S, divided by their largest coefficients, and these."""
        matrix = rows.coefficients(self.caps, self.sizes) / self.sizes
        scales = np.abs(matrix).max(axis=1, initial=0.0)
        scales[scales == 0.0] = 1.0
        return matrix / scales[:, None], scales


def _groups_of(problem: Problem) -> tuple[int, ...]:
    return (NO_GROUP,) * len(problem.values) if problem.groups is None else problem.groups.of_value


def _member(problem: Problem, own: Integers, values: int, units: int, forest: Forest | None) -> Member:
    counts = np.zeros(values, dtype=np.int64)
    counts[own] = np.asarray(problem.counts, dtype=np.int64) * units
    return Member(problem=problem, counts=counts, own=own, units=units, forest=forest)

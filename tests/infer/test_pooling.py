"""Learning across strata: against brute force, against placements, and where nothing is left to learn."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from dalenius.infer import pooling
from dalenius.infer.association import Association
from dalenius.infer.compositions import Block, Compositions
from dalenius.infer.pooling import Associations

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FIRST = (np.array([0, 1, 2, 3]), np.array([[40.0, 20, 0, 60], [30, 30, 30, 0], [0, 50, 20, 10]]))
SECOND = (np.array([0, 2, 4]), np.array([[30.0, 30, 30], [60, 10, 20]]))
SETS = np.array([[(number >> bit) & 1 for bit in range(5)] for number in range(32)], dtype=np.float64)
MATCHING = np.array([50.0, 20, 40, 60, 20])


def found(*parts: tuple[Integers, Floats]) -> Compositions:
    """Values and slots of every stratum as classes, each of one bucket."""
    blocks = tuple(Block(values, slots, np.ones(len(slots), dtype=np.int64)) for values, slots in parts)
    kinds = np.arange(sum(len(slots) for _, slots in parts))
    return Compositions(blocks, kinds + 1, kinds)


def test_one_stratum_is_the_association() -> None:
    values = np.array([1, 3, 4, 6])
    one, alone = Associations(found((values, FIRST[1]))), Association(FIRST[1])
    wanted = np.zeros((2, 7))
    wanted[0, [1, 6]] = wanted[1, [3, 5]] = 1  # nobody has 5
    matching = np.array([[50.0, 20, 40], [5, 2, 70]])
    posterior, expected = one.posterior(matching, wanted), alone.posterior(matching, wanted[:, values])
    for name in ("mean", "deviation", "low", "high"):
        assert getattr(posterior, name) == pytest.approx(getattr(expected, name))
    assert one.records.tolist() == [0, 70, 0, 100, 50, 0, 70]
    assert one.at_once == alone.at_once


@pytest.mark.parametrize(("own", "common"), [(1e-3, 1e-9), (1e-9, 1e-2), (0.05, 0.2), (0.5, 0.03)])
def test_the_closed_form_is_gaussian_conditioning(monkeypatch: pytest.MonkeyPatch, own: float, common: float) -> None:
    monkeypatch.setattr(pooling, "_OWN", np.array([own]))
    monkeypatch.setattr(pooling, "_COMMON", np.array([0.0, common]))
    associations = Associations(found(FIRST, SECOND))
    monkeypatch.setattr(associations._pool, "_common_prior", np.array([0.0, 1.0]))
    posterior = associations.posterior(np.tile(MATCHING, (32, 1)), SETS)

    vague = 1e5  # the variance of the mean of a stratum, which has none to speak of
    spans, rows, blocks = [slice(0, 4), slice(4, 7)], [slice(0, 3), slice(3, 5)], (FIRST, SECOND)
    prior, noise, slots = np.zeros((7, 7)), np.zeros((5, 5)), np.zeros((5, 7))
    centre, roots, chosen = np.zeros(7), np.zeros(7), np.zeros((32, 7))
    for span, lines, (values, held) in zip(spans, rows, blocks, strict=True):
        records, total, matching = held.sum(axis=0), held.sum(), MATCHING[lines]
        s = Association(held).traits(matching[None], np.ones((1, len(values)))).noise[0]
        prior[span, span] = vague + s * (own * np.eye(len(values)) + np.diag(1 / records))
        noise[lines, lines] = s * (np.diag(held.sum(axis=1)) - (held / records) @ held.T)
        slots[lines, span], centre[span], roots[span] = held, matching.sum() / total, np.sqrt(s)
        chosen[:, span] = SETS[:, values] * records
    codes = np.concatenate([FIRST[0], SECOND[0]])
    prior += common * np.outer(roots, roots) * (codes[:, None] == codes)
    gain = np.linalg.solve(slots @ prior @ slots.T + noise, slots @ prior)
    shares, left = centre + gain.T @ (MATCHING - slots @ centre), prior - prior @ slots.T @ gain
    assert posterior.mean == pytest.approx(chosen @ shares, abs=1e-3)
    variances = np.einsum("qx,xz,qz->q", chosen, left, chosen)
    assert posterior.deviation**2 == pytest.approx(variances, rel=1e-3, abs=0.05)


def test_strata_that_share_no_value_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is nothing in common, and without a common part N is a sum of independent counts."""
    apart = (np.array([5, 6, 7]), SECOND[1])
    monkeypatch.setattr(pooling, "_COMMON", np.array([0.0]))
    monkeypatch.setattr(pooling, "_OWN", np.array([0.02]))
    one, other, both = (Associations(found(*parts)) for parts in ((FIRST, FIRST), (apart, apart), (FIRST, apart)))
    for association in (one, other, both):
        monkeypatch.setattr(association._pool, "_common_prior", np.array([1.0]))
    wanted = np.array([[1.0, 0, 0, 1, 0, 1, 0, 1]])
    first = one.posterior(np.array([[50.0, 20, 40, 50, 20, 40]]), wanted[:, :4])
    second = other.posterior(np.array([[60.0, 20, 60, 20]]), wanted)
    whole = both.posterior(MATCHING[None], wanted)
    assert whole.mean == pytest.approx((first.mean + second.mean) / 2)
    assert whole.deviation**2 == pytest.approx((first.deviation**2 + second.deviation**2) / 2)


def test_no_values_and_all_values_are_exact() -> None:
    posterior = Associations(found(FIRST, SECOND)).posterior(np.tile(MATCHING, (2, 1)), SETS[[0, 31]])
    assert posterior.mean == pytest.approx([0, MATCHING.sum()], abs=1e-4)
    assert posterior.deviation == pytest.approx([0, 0], abs=1e-3)


def test_none_and_all_of_the_rows_are_exact() -> None:
    """By strata, too: the condition may be the one by which the table was cut."""
    whole = np.array([120.0, 90, 80, 90, 90])
    lines = np.array([whole * 0, whole, [*whole[:3], 0, 0]])
    posterior = Associations(found(FIRST, SECOND)).posterior(lines, np.tile(SETS[0b00101], (3, 1)))
    assert posterior.mean == pytest.approx([0, 70 + 50 + 90 + 40, 70 + 50])
    assert posterior.deviation == pytest.approx(np.zeros(3), abs=1e-6)


def test_strata_of_one_bucket_teach_nothing() -> None:
    parts = [(np.array([0, 1, 2]), np.array([[2.0, 1, 1]])), (np.array([1, 3]), np.array([[3.0, 1]]))]
    posterior = Associations(found(*parts)).posterior(np.array([[2.0, 1]]), np.array([[0, 1.0, 0, 0]]))
    assert posterior.mean[0] == pytest.approx(2 / 4 + 3 / 4)
    assert posterior.deviation[0] > 0
    single = [(np.array([0]), np.array([[2.0]])), (np.array([1]), np.array([[3.0], [4.0]]))]
    exact = Associations(found(*single)).posterior(np.array([[2.0, 1, 3]]), np.array([[0, 1.0]]))
    assert exact.mean[0] == pytest.approx(4)
    assert exact.deviation[0] == pytest.approx(0, abs=1e-9)


def test_other_queries_make_no_difference() -> None:
    association = Associations(found(FIRST, SECOND))
    lines = np.array([MATCHING, MATCHING / 2, [0, 0, 0, 1, 2], MATCHING * 0])
    whole = association.posterior(lines, SETS[[3, 9, 20, 5]])
    for k, chosen in enumerate((3, 9, 20, 5)):
        alone = association.posterior(lines[k : k + 1], SETS[chosen][None])
        assert alone.mean[0] == pytest.approx(whole.mean[k], abs=1e-4)
        assert alone.high[0] == pytest.approx(whole.high[k], abs=1e-3)


class _Strata:
    """Strata of different composition, whose records are placed at random, again for every query."""

    def __init__(self, strata: int, values: int, seed: int, *, buckets: int = 60, size: int = 5) -> None:
        self.random = np.random.default_rng(seed)
        self.values, self.parts = values, []
        for _ in range(strata):
            shares = self.random.dirichlet(np.full(values, 3.0))
            quotas = self.random.multinomial(buckets * size, shares)
            slots = np.repeat(np.arange(values), quotas)
            cells = np.arange(len(slots)) % buckets  # dealt in turn
            table = np.zeros((buckets, values), dtype=np.int64)
            np.add.at(table, (cells, slots), 1)
            contents, kinds = np.unique(table, axis=0, return_inverse=True)
            held = np.zeros(contents.shape)
            np.add.at(held, (kinds[cells], slots), 1)
            there = np.flatnonzero(held.any(axis=0))
            self.parts.append((there, held[:, there]))
        self.found = found(*self.parts)

    def query(self, common: float, own: float, chosen: int) -> tuple[Floats, Floats, int, float]:
        """Matching rows by class, wanted values, the truth, and the estimate that takes all to be at random."""
        wanted = np.zeros(self.values)
        wanted[self.random.choice(self.values, chosen, replace=False)] = 1
        shared, lines, truth, plain = self.random.normal(size=self.values) * common, [], 0, 0.0
        for values, held in self.parts:
            scatter = np.sqrt(0.21) * (shared[values] + own * self.random.normal(size=len(values)))
            share = np.clip(self.random.choice([0.2, 0.3, 0.45]) + scatter, 0.01, 0.99)
            records = held.sum(axis=0).astype(np.int64)
            matches = self.random.binomial(records, share)
            placed = [
                self.random.multivariate_hypergeometric(column.astype(np.int64), number)
                for column, number in zip(held.T, matches, strict=True)
            ]
            line = np.sum(placed, axis=0)
            lines.append(line)
            truth += int(matches[wanted[values] > 0].sum())
            plain += float((line * (held @ wanted[values]) / held.sum(axis=1)).sum())
        return np.concatenate(lines).astype(np.float64), wanted, truth, plain


@pytest.mark.parametrize(
    ("strata", "common", "own", "ratio"),
    [(3, 0.0, 0.0, 2.0), (3, 0.15, 0.1, 1.2), (40, 0.0, 0.0, 1.7), (40, 0.15, 0.1, 0.75), (40, 0.0, 0.5, 0.97)],
)
def test_the_truth_is_where_the_interval_says(strata: int, common: float, own: float, ratio: float) -> None:
    """Strata of 300 rows: what they have in common is learned from many; where there is nothing, that has its price."""
    world = _Strata(strata, 8, seed=strata)
    queries = [world.query(common, own, 3) for _ in range(250)]
    matching, wanted = (np.array([query[part] for query in queries]) for part in (0, 1))
    truth, plain = (np.array([query[part] for query in queries], dtype=np.float64) for part in (2, 3))
    posterior = Associations(world.found).posterior(matching, wanted)
    within = (np.floor(posterior.low) <= truth) & (truth <= np.ceil(posterior.high))
    assert within.mean() >= 0.92  # 0.95 less two and a bit standard errors
    errors = posterior.mean - truth
    assert abs(errors.mean()) <= 4 * errors.std() / np.sqrt(len(errors))
    learned, at_random = np.sqrt((errors**2).mean()), np.sqrt(((plain - truth) ** 2).mean())
    assert learned < ratio * at_random


def test_a_common_part_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is left out, errors of strata that go the same way are taken to cancel out."""
    world = _Strata(60, 8, seed=1)
    queries = [world.query(0.15, 0.0, 3) for _ in range(150)]
    matching, wanted = (np.array([query[part] for query in queries]) for part in (0, 1))
    truth = np.array([query[2] for query in queries])

    def error_and_coverage() -> tuple[float, float]:
        associations = Associations(world.found)
        if len(pooling._COMMON) == 1:
            monkeypatch.setattr(associations._pool, "_common_prior", np.array([1.0]))
        posterior = associations.posterior(matching, wanted)
        within = (posterior.low <= truth) & (truth <= posterior.high)
        return float(np.abs(posterior.mean - truth).mean()), float(within.mean())

    error, coverage = error_and_coverage()
    monkeypatch.setattr(pooling, "_COMMON", np.array([0.0]))
    error_without, coverage_without = error_and_coverage()
    assert error < 0.9 * error_without
    assert coverage > coverage_without
    assert coverage >= 0.9


def test_many_values_are_learned_in_few_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _Strata(12, 20, seed=3)
    queries = [world.query(0.15, 0.05, 4) for _ in range(60)]
    matching, wanted = (np.array([query[part] for query in queries]) for part in (0, 1))
    truth = np.array([query[2] for query in queries])
    whole = Associations(world.found).posterior(matching, wanted)
    monkeypatch.setattr(pooling, "_MOST_DIRECTIONS", 8)
    few = Associations(world.found)
    assert few._pool._basis.shape == (20, 8)
    part = few.posterior(matching, wanted)
    within = (np.floor(part.low) <= truth) & (truth <= np.ceil(part.high))
    assert within.mean() >= 0.9
    assert np.abs(part.mean - truth).mean() < 1.25 * np.abs(whole.mean - truth).mean()


def test_fakes_in_strata_widen_the_interval() -> None:
    slots = [np.array([[8.0, 4, 4], [4, 8, 4]]), np.array([[4.0, 8, 4], [8, 4, 4]])]
    blocks = tuple(Block(np.arange(3), part, np.array([4, 4])) for part in slots)
    matching, wanted = np.array([[5.0, 6, 4, 7]] * 3), np.array([[1.0, 0, 0], [0, 0, 0], [1, 1, 1]])
    compositions = Compositions(blocks, np.arange(4) + 1, np.arange(4))
    fake = Associations(compositions, compositions.with_fakes(1))
    assert fake.records == pytest.approx(np.array([24, 24, 16]) * 3 / 4)
    posterior = fake.posterior(matching, wanted)
    assert posterior.mean[1:] == pytest.approx([0, 22], abs=1e-4)
    assert posterior.deviation[1:] == pytest.approx([0, 0], abs=1e-3)
    scaled = tuple(Block(np.arange(3), part * 3 / 4, np.array([4, 4])) for part in slots)
    bare = Associations(Compositions(scaled, np.arange(4) + 1, np.arange(4))).posterior(matching, wanted)
    assert posterior.deviation[0] > bare.deviation[0]


def test_queries_come_in_blocks() -> None:
    blocks = list(itertools.repeat(FIRST, 40))
    association = Associations(found(*blocks))
    cells = pooling._CELLS_AT_ONCE
    assert 1 <= association.at_once <= cells // association.classes

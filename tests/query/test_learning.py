"""Learned estimates of published tables: better where there is something to learn, and honest about the rest."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.query.count import Counter
from dalenius.query.people_count import open_counter
from dalenius.query.workload import Answers, answer, encode, generate
from dalenius.release.folder import open_release
from tests.query.releases import write_release

IDENTIFIERS = [f"q{i}" for i in range(6)]


def generated(rows: int, values: int, strength: float, seed: int) -> pa.Table:
    """Six attributes whose distributions differ from value to value: not at all for strength 0, much for 1.5."""
    random = np.random.default_rng(seed)
    sensitive = random.choice(values, rows, p=random.dirichlet(np.full(values, 2.0)))
    columns = {}
    for name in IDENTIFIERS:
        domain = int(random.integers(3, 9))
        logits = np.log(random.dirichlet(np.full(domain, 3.0))) + strength * random.normal(size=(values, domain))
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        columns[name] = (
            (random.random(rows)[:, None] > shares[sensitive].cumsum(axis=1)).sum(axis=1).clip(0, domain - 1)
        )
    return pa.table({**columns, "X": sensitive})


def answered(
    values: int, strength: float, seed: int = 2, strata: str | int | list[str] = "none", placement: int = 2
) -> tuple[Answers, Answers]:
    """400 queries on a release of 20,000 records: both kinds of estimates."""
    table = generated(20_000, values, strength, seed)
    release = dalenius.publish(
        table,
        {"theta": 4, "base": "0.05"},
        sensitive="X",
        quasi_identifiers=IDENTIFIERS,
        seed=placement,
        strata=strata,
        min_size=1,
        publish_in_the_clear=True,
    )
    assert (release.manifest.strata is None) == (strata == "none")
    truth, coded = encode(open_release(release.path), table)
    found = answer(truth, coded, generate(truth.domains, truth.sensitive_domain, 400, 0.05, seed), learn=True)
    assert found.learned is not None
    return found, found.learned


def error(answers: Answers) -> float:
    return math.sqrt(((answers.estimate - answers.actual) ** 2).mean())


def coverage(answers: Answers) -> float:
    return float(((answers.interval_low <= answers.actual) & (answers.actual <= answers.interval_high)).mean())


@pytest.mark.parametrize(("values", "ratio"), [(5, 0.3), (14, 0.6), (50, 0.8)])
def test_association_is_learned(values: int, ratio: float) -> None:
    at_random, learned = answered(values, 1.5)
    assert error(learned) < ratio * error(at_random)
    assert coverage(at_random) < 0.3
    assert 0.9 <= coverage(learned) <= 0.99


@pytest.mark.parametrize("values", [5, 14, 50])
def test_weak_association_does_not_break_the_interval(values: int) -> None:
    at_random, learned = answered(values, 0.3)
    assert error(learned) < 1.02 * error(at_random)
    assert 0.9 <= coverage(learned) <= 0.995


@pytest.mark.parametrize(("values", "ratio"), [(5, 1.27), (14, 1.22), (50, 1.08)])
def test_where_nothing_is_to_be_learned_little_is_lost(values: int, ratio: float) -> None:
    """A mean of three placements; the bounds are four standard deviations of such a mean above what is expected.

    Over 28 placements (18 for 50 values) of this table, the error of learned estimates was 1.12, 1.11 and 1.03 times
    that of the others, with standard deviations of 0.062, 0.045 and 0.020. Tables differ more than placements do: over
    20 tables it was 1.53 (1.1 to 2.7), 1.14 (1.03 to 1.34) and 1.04 (1.02 to 1.10) times. Coverage was always above
    0.97.
    """
    found = [answered(values, 0, placement=placement) for placement in range(3)]
    assert np.mean([error(learned) / error(at_random) for at_random, learned in found]) < ratio
    assert all(coverage(learned) >= 0.95 for _, learned in found)


@pytest.mark.parametrize(("strength", "ratio", "least"), [(1.5, 0.9, 0.9), (0.5, 1.1, 0.9), (0.0, 1.4, 0.95)])
def test_strata_are_learned_from(strength: float, ratio: float, least: float) -> None:
    at_random, learned = answered(14, strength, strata=["q0", "q1"])
    assert error(learned) < ratio * error(at_random)
    assert coverage(learned) >= least
    assert (learned.low == at_random.low).all()
    assert ((learned.low <= learned.actual) & (learned.actual <= learned.high)).all()


@pytest.fixture(scope="module", params=["none", ["q0"]])
def release(request: pytest.FixtureRequest) -> dalenius.Release:
    table = generated(3_000, 8, 1.0, 5)
    sensitive = pa.array([None if value == 7 else float(value) for value in table["X"].to_pylist()])
    flag = pa.array([None if value == 1 else value / 2 for value in table["q5"].to_pylist()])
    table = table.set_column(6, "X", sensitive).set_column(5, "q5", flag)
    return dalenius.publish(
        table,
        {"theta": 3, "base": "0.05"},
        sensitive="X",
        quasi_identifiers=IDENTIFIERS,
        null_value="unknown",
        seed=5,
        strata=request.param,
    )


@pytest.mark.parametrize("columns", [["q5"], ["X"], ["X", "q5"], ["q5", "X", "q1"]])
def test_a_group_is_a_condition(release: dalenius.Release, columns: list[str]) -> None:
    groups = release.count("q0 < 2 AND (X < 4 OR X IS NULL)", columns)
    plain = release.count("q0 < 2 AND (X < 4 OR X IS NULL)", columns, learn=False, measure=False)
    assert [group.estimate.bounds for group in groups] == [group.estimate.bounds for group in plain]
    assert len({group.estimate.interval for group in groups}) > 3

    def same(name: str, value: object) -> str:
        return f"{name} IS NOT DISTINCT FROM {'NULL' if value is None else value}"

    with open_counter(open_release(release.path), calibration=release._calibration) as counter:
        for group in groups[:: max(1, len(groups) // 12)]:
            where = " AND ".join(same(name, value) for name, value in group.group.items())
            found = counter.count(f"q0 < 2 AND (X < 4 OR X IS NULL) AND {where}", learn=True, measure=True)
            assert found.bounds == group.estimate.bounds
            assert found.estimate == pytest.approx(group.estimate.estimate, abs=1e-6)
            assert (found.interval, found.coverage) == (group.estimate.interval, group.estimate.coverage)


def test_what_was_learned_is_in_front_and_the_rest_beside(release: dalenius.Release) -> None:
    plain = release.count("q2 < 2 AND X < 4", learn=False, measure=False)
    found = release.count("q2 < 2 AND X < 4")
    assert (plain.method, plain.at_random, plain.coverage) == ("at random", None, None)
    assert found.method == "learned"
    assert found.bounds[0] <= found.interval[0] <= found.estimate <= found.interval[1] <= found.bounds[1]
    beside = found.at_random
    assert beside is not None
    assert (beside.estimate, beside.interval) == (plain.estimate, plain.interval)
    assert beside.standard_error == plain.standard_error
    assert found.bounds == plain.bounds


def test_every_interval_says_how_often_it_holds(release: dalenius.Release) -> None:
    found = release.count("q2 < 2 AND X < 4")
    assert found.coverage is not None
    assert found.coverage.share > 0.85
    assert found.coverage.widened >= 1
    assert found.at_random is not None
    assert found.at_random.coverage is not None
    single = release.count("q2 < 2 AND X < 4", learn=False)
    assert single.method == "at random"
    assert single.coverage is not None
    narrow = release.count("q2 < 2 AND X < 4", measure=False)
    assert (narrow.coverage, narrow.estimate) == (None, found.estimate)
    assert found.interval[0] <= narrow.interval[0] <= narrow.interval[1] <= found.interval[1]
    assert narrow.standard_error <= found.standard_error
    assert release.count("q2 < 2 AND X < 4") == found
    assert dalenius.load(release.path).count("q2 < 2 AND X < 4") == found  # measured again, with the same result


def test_what_is_exact_stays_exact(release: dalenius.Release) -> None:
    for condition in ("q0 = 1", "X < 4", "q0 = 99 AND X < 4", "q0 < 3 AND X > 99", "TRUE"):
        found = release.count(condition)
        assert found == release.count(condition, learn=False, measure=False)
        assert (found.method, found.standard_error, found.interval) == ("exact", 0.0, found.bounds)


def test_a_condition_on_both_is_not_learned(release: dalenius.Release) -> None:
    found = release.count("q2 < 2 OR X < 4")
    assert (found.method, found.at_random) == ("at random", None)
    assert found.coverage is not None
    assert "separate them" in str(found.not_learned)
    groups = release.count("q2 < 2 OR X < 4", "q1")
    assert all(group.estimate.not_learned == found.not_learned for group in groups)


def test_fake_values_are_learned_from(tmp_path: Path) -> None:
    table = pa.table({"A": ["a", "b", "a", "b"], "X": ["x", "y", "x", "z"]})
    folder = write_release(tmp_path, table, "X", [1, 1, 2, 2], fakes=[(1, "z"), (2, "y")])
    with Counter(folder) as counter:
        found = counter.count("A = 'a' AND X = 'x'", learn=True)
        assert (found.method, found.not_learned) == ("learned", None)
        alone = counter.count("X = 'x'", learn=True)
        assert alone.at_random is not None
        assert alone.estimate == pytest.approx(alone.at_random.estimate)
        assert alone.standard_error == pytest.approx(alone.at_random.standard_error)
        exact = counter.count("A = 'a'", learn=True)
        assert (exact.method, exact.bounds) == ("exact", (2, 2))

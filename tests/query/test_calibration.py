"""Coverage measured on simulated truths, and intervals that are widened by it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dalenius
from dalenius.infer.association import Posterior
from dalenius.model.estimate import Coverage
from dalenius.query.calibration import Calibration, _Asked, _fit, _Judged, _spread
from dalenius.query.learner import Dictionary
from dalenius.query.workload import answer, calibration_of, encode, generate, summarise
from dalenius.release.folder import open_release

needs = st.lists(st.floats(0, 30), min_size=4, max_size=40)


def asked(needed: list[float], values: int = 3) -> _Asked:
    """Queries on single values in turn, every fourth on two values."""
    targets = np.zeros((len(needed), values))
    for number, line in enumerate(targets):
        line[number % values] = 1
        if number % 4 == 3:
            line[(number + 1) % values] = 1
    nothing = np.zeros(len(needed))
    return _Asked(targets, nothing, np.array(needed), nothing.astype(np.bool_))


@given(needs)
def test_widened_intervals_hold_what_they_were_fitted_to(needed: list[float]) -> None:
    own = asked(needed)
    records = np.array([5.0, 10.0, 1.0])
    spreads, factors = _fit([own], records)
    kinds = (own.targets.sum(axis=1) > 1).astype(int)
    allowed = np.maximum(1.0, np.take(factors, kinds) * _spread(own.targets, spreads, records))  # never narrower
    for kind in (0, 1):
        held = np.minimum(own.needed, 20)[kinds == kind] <= allowed[kinds == kind] + 1e-9
        assert held.sum() >= np.floor(0.95 * (len(held) - 1))


@given(needs, st.floats(1, 5))
def test_the_more_is_needed_the_wider_it_gets(needed: list[float], more: float) -> None:
    records = np.ones(3)
    widths = []
    for factor in (1.0, more):
        own = asked([factor * min(one, 4.0) for one in needed])
        spreads, factors = _fit([own], records)
        widths.append(factors[0] * _spread(own.targets, spreads, records))
    assert (widths[1] >= widths[0] * (1 - 1e-9)).all()


def test_an_interval_never_gets_narrower() -> None:
    spread = np.array([0.01, 4.0])
    nobody = _Judged(np.zeros(0), np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_))
    calibration = Calibration(spread, np.ones(2), (1.5, 1.5), (nobody, nobody))
    assert calibration.at_random(7) is None
    targets = np.array([[1.0, 0], [0, 1], [1, 1]])
    assert calibration.widening(targets) == pytest.approx([1, 3, 1.5 * np.sqrt(4.01 / 2)])
    found = Posterior(np.full(3, 10.0), np.ones(3), np.full(3, 8.0), np.full(3, 13.0))
    wide = calibration.widened(found, targets)
    assert wide.low[:2] == pytest.approx([8, 4])
    assert wide.high[:2] == pytest.approx([13, 19])
    assert wide.deviation[:2] == pytest.approx([1, 3])
    assert (wide.mean == found.mean).all()


def people(rows: int, kind: str, seed: int) -> pa.Table:
    """Values that go with columns one by one; or with pairs of them; or one value that goes with a column alone."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, kinds, rows) for kinds in (4, 6, 9, 12)]
    values = 8
    logs = np.tile(-0.3 * np.arange(values), (rows, 1))
    if kind == "columns":
        for codes, kinds in zip(columns, (4, 6, 9, 12), strict=True):
            logs += rng.normal(0, 0.5, (kinds, values))[codes]
    elif kind == "pairs":
        for one, other in ((0, 1), (1, 2), (2, 3)):
            logs += rng.normal(0, 0.9, (12, 12, values))[columns[one], columns[other]]
    else:
        logs[:, 7] += np.where(columns[1] == 2, 5.0, -1.0)
    drawn = (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
    return pa.table({f"q{i}": codes for i, codes in enumerate(columns)} | {"X": drawn})


@pytest.mark.parametrize("strata", ["none", "auto"])
@pytest.mark.parametrize("kind", ["columns", "pairs", "one value"])
def test_intervals_hold_whatever_goes_together(kind: str, strata: str) -> None:
    table = people(5_000, kind, 4)
    release = dalenius.publish(
        table,
        {"uniform": "0.4"},
        sensitive="X",
        quasi_identifiers=["q0", "q1", "q2", "q3"],
        strata=strata,
        min_size=2,
        seed=2,
    )
    folder = open_release(release.path)
    kinds = Dictionary(folder.manifest.null_value)
    truth, coded = encode(folder, table, None, kinds)
    calibration = calibration_of(folder, kinds)
    assert calibration is not None
    for one_value in (True, False):
        queries = generate(truth.domains, 8, 250, 0.05, 6, most_attributes=3, one_value=one_value)
        found = summarise(answer(truth, coded, queries, learn=True, calibration=calibration))
        assert found.learned is not None
        assert found.learned.coverage >= 0.9
        assert found.learned.mean_interval_width < found.mean_bounds_width
    known = calibration.at_random(50)
    assert known is not None
    assert known.queries == 200


def test_a_column_that_nothing_is_learned_of_leaves_coverage_unknown() -> None:
    table = pa.table({"q": [f"p{i}" for i in range(300)], "X": [i % 3 for i in range(300)]})
    release = dalenius.publish(table, {"uniform": "0.5"}, sensitive="X", quasi_identifiers=["q"], seed=2)
    found = release.count("q < 'p2' AND X = 1")
    assert (found.method, found.coverage) == ("learned", None)


def test_what_is_said_is_a_share_of_similar_queries() -> None:
    sizes = np.log1p(np.arange(1000.0))
    judged = _Judged(sizes, np.arange(1000) >= 500, np.arange(1000) < 500)
    calibration = Calibration(np.ones(2), np.ones(2), (1.0, 1.0), (judged, judged))
    targets = np.array([[1.0, 0], [1, 1], [0, 1]])
    small, large, middle = calibration.coverages(targets, np.array([3.0, 990.0, 500.0]))
    assert small == (Coverage(0.0, 200), Coverage(1.0, 200))
    assert large == (Coverage(1.0, 200), Coverage(0.0, 200))
    assert middle == (Coverage(0.5, 200), Coverage(0.5, 200))

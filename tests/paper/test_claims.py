"""Claims are judged by the numbers: made-up rows on both sides of every line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paper.adversary import Adversary
from paper.experiment import Experiment, Verdict, percents, span
from paper.loss import ANATOMY, Loss
from paper.pictures import Rows
from paper.relative_error import RelativeError
from paper.releases import MULTI_SIZE, ONE_BUCKET, OPTIMAL, STRATA, TWO_SIZE
from paper.runtime_domain import RuntimeDomain
from paper.runtime_records import RuntimeRecords
from paper.runtimes import CLOSED, EXACT, FULL, ILP, LOSS, NONE
from paper.theory import Inference
from tests.paper.tiny import TINY, context

AGREES, PARTLY, DIFFERS, UNDECIDED = Verdict.AGREES, Verdict.PARTLY, Verdict.DIFFERS, Verdict.UNDECIDED


def verdicts(experiment: Experiment, rows: Rows, folder: Path) -> list[Verdict]:
    return [claim.verdict for claim in experiment.claims(rows, context(folder))]


def grid(column: str, values: dict[str, Any], **more: Any) -> Rows:
    return [
        {"sensitive": sensitive, "theta": theta, "method": method, column: value, **more}
        for sensitive in ("Occupation", "Education")
        for theta in (2, 8)
        for method, value in values.items()
    ]


def test_verdicts() -> None:
    assert Verdict.of([True, True]) is AGREES
    assert Verdict.of([True, False]) is PARTLY
    assert Verdict.of([False]) is DIFFERS
    assert Verdict.of([None, True]) is AGREES
    assert Verdict.of([]) is Verdict.of([None]) is UNDECIDED


def test_spans() -> None:
    assert span([3, 1.26, 2], ".1f") == "1.3 to 3.0"
    assert span([2.0, 2.01], ".1f") == "2.0"
    assert span([-0.001, 1], ".1f") == "0.0 to 1.0"
    assert span([], ".1f") == "nothing"
    assert percents([0.831, 0.97]) == "83 to 97 %"


@pytest.mark.parametrize(
    ("anatomy", "two", "multi", "expected"),
    [
        (40.0, 10.5, 10.2, [AGREES] * 6),
        (40.0, 18.0, 12.0, [AGREES, DIFFERS, DIFFERS, DIFFERS, AGREES, AGREES]),
        (15.0, 10.5, 9.0, [DIFFERS, DIFFERS, AGREES, AGREES, DIFFERS, AGREES]),
    ],
)
def test_loss(tmp_path: Path, anatomy: float, two: float, multi: float, expected: list[Verdict]) -> None:
    rows = grid("mse", {ANATOMY: anatomy, TWO_SIZE: two, MULTI_SIZE: multi, OPTIMAL: 10.0, STRATA: 12.0})
    assert verdicts(Loss(), rows, tmp_path) == expected


def test_methods_without_a_setting_are_left_out(tmp_path: Path) -> None:
    rows = grid("mse", {ANATOMY: None, TWO_SIZE: None, MULTI_SIZE: None, OPTIMAL: 10.0, STRATA: 12.0})
    assert set(verdicts(Loss(), rows, tmp_path)) == {UNDECIDED}
    assert "-" in Loss().table(rows).lines[0]


@pytest.mark.parametrize(
    ("two", "multi", "best", "one", "expected"),
    [
        (9.0, 7.0, 7.0, 40.0, [AGREES, AGREES, AGREES, PARTLY, AGREES, AGREES]),
        (9.5, 7.5, 5.5, 10.0, [AGREES, DIFFERS, AGREES, AGREES, AGREES, DIFFERS]),
        (18.0, 12.0, 11.0, 19.0, [DIFFERS, DIFFERS, DIFFERS, PARTLY, DIFFERS, PARTLY]),
    ],
)
def test_relative_error(
    tmp_path: Path, two: float, multi: float, best: float, one: float, expected: list[Verdict]
) -> None:
    errors = {TWO_SIZE: two, MULTI_SIZE: multi, OPTIMAL: best, STRATA: 5.0, ONE_BUCKET: one}
    rows = grid("percent", errors, queries=100, empty=1)
    assert verdicts(RelativeError(), rows, tmp_path) == expected


def test_relative_error_of_other_columns_is_judged_by_the_common_claims(tmp_path: Path) -> None:
    errors = {TWO_SIZE: 9.0, MULTI_SIZE: 8.0, OPTIMAL: 7.0, STRATA: 5.0, ONE_BUCKET: 30.0}
    rows = [row | {"sensitive": "Disease"} for row in grid("percent", errors, queries=100, empty=0)]
    assert verdicts(RelativeError(), rows, tmp_path) == [AGREES, AGREES]


@pytest.mark.parametrize(("top", "expected"), [(0.205, AGREES), (0.4, DIFFERS)])
def test_the_adversary(tmp_path: Path, top: float, expected: Verdict) -> None:
    rows = grid("top1", {OPTIMAL: top, STRATA: 0.2}, baseline=0.2, relative_error=0.1, strata="none", guessing=0.1)
    assert verdicts(Adversary(), rows, tmp_path) == [expected]


def times(column: str, places: tuple[int, int], **seconds: tuple[float, float]) -> Rows:
    """Times at the first and the last place; those that are negative were stopped."""
    names = {"none": NONE, "loss": LOSS, "full": FULL, "ilp": ILP, "closed": CLOSED, "exact": EXACT}
    return [
        {
            "sensitive": "Occupation",
            column: place,
            "method": names[name],
            "seconds": abs(pair[number]),
            "finished": pair[number] > 0,
            "values": 50,
            "feasible_pairs": 1000 // (number + 1),
            "gap": 0.0,
        }
        for name, pair in seconds.items()
        for number, place in enumerate(places)
    ]


def test_runtime_against_records(tmp_path: Path) -> None:
    papers = times(
        "records", (100, 500), none=(8, 40), loss=(2, 10), full=(1, 1.1), ilp=(4, 5), closed=(0.01, 0.01), exact=(1, 1)
    )
    assert verdicts(RuntimeRecords(), papers, tmp_path) == [AGREES] * 5
    others = times(
        "records",
        (100, 500),
        none=(2, 2),
        loss=(1.9, 2),
        full=(3, 9),
        ilp=(-60, -60),
        closed=(0.01, 0.01),
        exact=(1, 1),
    )
    assert verdicts(RuntimeRecords(), others, tmp_path) == [DIFFERS] * 5


def test_runtime_against_the_domain(tmp_path: Path) -> None:
    last = max(TINY.gammas)
    same = {"loss": (1.0, 1.5), "full": (1.0, 1.0), "closed": (0.01, 0.01), "exact": (0.1, 0.2)}
    papers = times("gamma", (2, last), none=(8.0, 4.0), ilp=(2.0, -60.0), **same)
    assert verdicts(RuntimeDomain(), papers, tmp_path) == [AGREES] * 5 + [DIFFERS, AGREES]
    stopped = times("gamma", (2, last), none=(80.0, 90.0), ilp=(-60.0, -60.0), **same)
    found = verdicts(RuntimeDomain(), stopped, tmp_path)
    assert found == [UNDECIDED, AGREES, DIFFERS, AGREES, UNDECIDED, DIFFERS, AGREES]


def test_the_theorem_holds_as_an_approximation(tmp_path: Path) -> None:
    here = context(tmp_path)
    assert [claim.verdict for claim in Inference().claims(Inference().run(here), here)] == [AGREES, PARTLY, AGREES]

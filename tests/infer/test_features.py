"""Features and designs against plain loops over rows."""

from __future__ import annotations

import numpy as np
import pytest

from dalenius.infer import features as module
from dalenius.infer.candidates import Column, Floats
from dalenius.infer.features import Coding, Design, frequent_kinds, places_in
from tests.infer.designs import Made, candidates_of, column, make, tiny


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket or two are a piece already."""
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 4)


def dense(coding: Coding, *columns: Column) -> Floats:
    whole: Floats = coding.dense(columns, slice(0, len(columns[0].codes))).astype(np.float64)
    return whole


def test_every_code_has_a_feature() -> None:
    one, other = column([0, 2, 1, 2, 0], name="one"), column([1, 0, 0, 1, 1], name="other")
    coding = Coding([one, other], 5)
    expected = np.zeros((5, 5))
    for row in range(5):
        expected[row, one.codes[row]] = 1
        expected[row, 3 + other.codes[row]] = 1
    assert (dense(coding, one, other) == expected).all()
    assert coding.parts == ["one", "other"]
    assert coding.part_of.tolist() == [0, 0, 0, 1, 1]


def test_some_rows_are_those_of_the_whole() -> None:
    made = tiny(0)
    whole, places = made.features(), np.array([5, 0, 3])
    coding, columns = made.design.coding, made.design.candidates.columns
    further = np.arange(made.design.rows, dtype=np.float32)[:, None]
    assert (coding.dense(columns, places, further)[:, :-1] == whole[places][:, :-1]).all()
    assert coding.dense(columns, places, further)[:, -1].tolist() == [5, 0, 3]


def test_a_code_that_no_row_has_is_no_feature() -> None:
    plain, curved = column([0, 1, 2, 3]), Column("age", np.array([0, 1, 2, 3, 4, 5], np.int32), 6, True)
    others = [Column("q", np.array([4], np.int32), 4), Column("age", np.array([6], np.int32), 6, True)]
    coding = Coding([plain, curved], 4)
    assert (coding.dense(others, slice(0, 1)) == 0).all()


def test_rare_codes_share_a_feature() -> None:
    """Of 200 codes, 96 have a feature: the 95 most frequent have one each, and all others one."""
    codes = np.repeat(np.arange(200), np.arange(200) % 50 + 1)
    coding = Coding([column(codes)], len(codes))
    assert coding.width == 96
    of_code = {
        int(code): int(np.flatnonzero(line)[0]) for code, line in zip(codes, dense(coding, column(codes)), strict=True)
    }
    by_count = sorted(range(200), key=lambda code: -(code % 50 + 1))
    own, shared = by_count[:95], by_count[95:]
    assert len({of_code[code] for code in own}) == 95
    assert len({of_code[code] for code in shared}) == 1


def test_neighbours_of_an_ordered_column_share_a_feature() -> None:
    """Ranges have about as many rows each."""
    codes = np.sort(np.random.default_rng(0).integers(0, 300, 3000))
    own = column(codes, ordered=True)
    plain = dense(Coding([own], 3000), own)[:, :-2]
    assert plain.shape[1] == 96
    assert (plain.sum(axis=1) == 1).all()
    assert (np.diff(plain.argmax(axis=1)) >= 0).all()
    assert plain.sum(axis=0).max() < 3 * 3000 / 96


def test_many_columns_have_fewer_features_each() -> None:
    columns = [column(np.arange(60) % 30, name=str(place)) for place in range(40)]
    coding = Coding(columns, 60)
    assert coding.width == 40 * (module.MOST_FEATURES // 40)


def test_curves_are_the_rank_and_its_square_without_it() -> None:
    codes = np.random.default_rng(2).integers(0, 9, 400)
    own = column(codes, ordered=True)
    coding = Coding([own], 400)
    assert coding.parts == ["q", "q, curved"]
    rank, square = dense(coding, own)[:, -2:].T
    for curve in (rank, square):
        assert curve.mean() == pytest.approx(0, abs=1e-5)
        assert curve.std() == pytest.approx(1, abs=1e-5)
    assert (rank * square).mean() == pytest.approx(0, abs=1e-5)
    assert np.corrcoef(rank, codes)[0, 1] == pytest.approx(1)
    fitted = np.polynomial.Polynomial.fit(codes, square, 2)
    assert fitted(codes) == pytest.approx(square, abs=1e-4)


@pytest.mark.parametrize("kinds", [1, 4])
def test_a_few_codes_have_no_curve(kinds: int) -> None:
    own = column(np.arange(12) % kinds, ordered=True)
    assert Coding([own], 12).parts == ["q"]


def test_people_outside_of_the_release_have_no_say() -> None:
    inside = Column("q", np.array([0, 1, 2, 3, 4, 4], np.int32), 5, True)
    with_others = Column("q", np.array([0, 1, 2, 3, 4, 4, 0, 0, 0, 5], np.int32), 5, True)
    expected = dense(Coding([inside], 6), inside)
    assert (Coding([with_others], 6).dense([with_others], slice(0, 6)) == expected).all()


CASES = {"one": (0, 0, 0, 0, 0), "apart": (2, 2, 5, 5, 9), "many": (0, 1, 2, 3, 4, 5)}


@pytest.fixture(params=CASES, name="made")
def each_case(request: pytest.FixtureRequest) -> Made:
    return tiny(3, strata=CASES[request.param], fakes=1)


def test_pieces_are_whole_buckets_and_all_rows(made: Made) -> None:
    pieces = list(made.design.pieces())
    assert len(pieces) > 1
    rows = [row for piece in pieces for row in range(piece.rows.start, piece.rows.stop)]
    buckets = [bucket for piece in pieces for bucket in range(piece.buckets.start, piece.buckets.stop)]
    assert rows == list(range(made.design.rows))
    assert buckets == list(range(len(made.held)))
    for piece in pieces:
        own = [row for bucket in range(piece.buckets.start, piece.buckets.stop) for row in made.rows[bucket]]
        assert own == list(range(piece.rows.start, piece.rows.stop))
        assert len(own) <= 4 or piece.buckets.stop - piece.buckets.start == 1


def test_strata_are_numbered_as_they_come(made: Made, request: pytest.FixtureRequest) -> None:
    strata = CASES[request.node.callspec.params["made"]]
    assert [int(made.design.numbers[one]) for one in made.design.stratum_of] == list(strata)
    assert made.design.strata == len(set(strata))


def test_compositions_count_the_slots_of_strata(made: Made) -> None:
    expected = np.zeros((made.design.strata, made.design.kinds))
    for bucket, held in enumerate(made.held):
        for value in held:
            expected[made.stratum(bucket), value] += 1
    assert (made.design.compositions == expected).all()


def test_moments_are_those_of_the_rows(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CELLS", 2)
    again = Design(made.design.candidates, made.design.stratum_of, made.design.coding, made.design._further)
    features = made.features()
    totals, rows = np.zeros((again.cells, again.width, again.width)), np.zeros(again.cells)
    for stratum in range(again.strata):
        own = features[again.row_strata == stratum]
        assert again.means[stratum] == pytest.approx(own.mean(axis=0), abs=1e-5)
        totals[again.cell_of[stratum]] += (own - own.mean(axis=0)).T @ (own - own.mean(axis=0))
        rows[again.cell_of[stratum]] += len(own)
    assert again.cells == min(2, again.strata)
    assert again.spreads == pytest.approx(totals / rows[:, None, None], abs=1e-5)


def test_logits_and_sums_are_those_of_the_rows(made: Made) -> None:
    random, design, features = np.random.default_rng(1), made.design, made.features()
    slopes = random.normal(size=(design.width, design.kinds))
    levels = random.normal(size=(design.strata, design.kinds))
    residuals = random.normal(size=(design.rows, design.kinds)).astype(np.float32)
    weights = random.normal(size=len(made.held)).astype(np.float32)
    logits, by_slope, by_level = np.zeros((design.rows, design.kinds)), np.zeros_like(slopes), np.zeros_like(levels)
    for bucket, rows in enumerate(made.rows):
        for row in rows:
            logits[row] = features[row] @ slopes + levels[made.stratum(bucket)]
            by_slope += np.outer(features[row], residuals[row] * weights[bucket])
            by_level[made.stratum(bucket)] += residuals[row] * weights[bucket]
    assert design.logits(slopes, levels) == pytest.approx(logits, abs=1e-4)
    sums = design.sums(residuals, weights)
    assert sums[0] == pytest.approx(by_slope, abs=1e-4)
    assert sums[1] == pytest.approx(by_level, abs=1e-4)
    plain = design.sums(residuals)
    assert plain[0] == pytest.approx(features.T @ residuals, abs=1e-4)


def test_kinds_put_values_together() -> None:
    columns = [column([0, 1, 0, 1])]
    candidates = candidates_of([[0, 1], [2, 1]], [2, 2], 3, columns)
    coding = Coding(columns, 4)
    design = Design.of_values(candidates, np.array([0, 1, 1]), 2, np.array([0, 1]), coding)
    assert design.kinds == 2
    assert design.compositions.tolist() == [[1, 1], [0, 2]]


def test_the_most_frequent_values_are_told_apart() -> None:
    kind_of, kinds = frequent_kinds(np.array([5.0, 1, 9, 2, 9]), 3)
    assert kinds == 3
    assert kind_of[2] != kind_of[4]
    assert len({int(kind_of[place]) for place in (0, 1, 3)}) == 1
    assert sorted(set(kind_of.tolist())) == [0, 1, 2]
    few, number = frequent_kinds(np.array([1.0, 5.0]), 3)
    assert (few.tolist(), number) == ([0, 1], 2)


def test_places_are_those_of_rows_and_values() -> None:
    candidates = tiny(3).design.candidates
    table = np.arange(candidates.rows * 3).reshape(-1, 3)
    for block in candidates.blocks:
        places = places_in(block, 3)
        for bucket, row, value in np.ndindex(places.shape):
            assert places[bucket, row, value] == table[block.rows[bucket, row], block.values[bucket, value]]


def test_what_is_asked_is_a_part_of_its_own() -> None:
    further = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    made = make([0, 1, 1, 0], [2, 2], [column([0, 1, 1, 0])], further=further)
    assert made.design.coding.parts == ["q", "asked"]
    assert made.features()[:, 2:] == pytest.approx(further)

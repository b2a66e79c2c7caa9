"""Completed tables: what every draw has to have, what draws have learned, and how they are made."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dalenius.analysis import completing, pieces
from dalenius.analysis.completing import MARK, Completion
from dalenius.analysis.draw_files import tables_of
from dalenius.analysis.learned import Learned, Lesson
from dalenius.analysis.weighing import Weighing
from dalenius.errors import NoSuchColumnError, UsageError
from dalenius.infer import candidates
from dalenius.infer.candidates import Floats
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import DISEASES, assert_possible, lines, patients, released, truth_of
from tests.effort import examples

DISEASE = [("disease",)]


@pytest.fixture(scope="module", name="folder")
def made(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return released(patients(), tmp_path_factory.mktemp("made") / "release")


def drawn(folder: ReleaseFolder, draws: int = 3, **options: Any) -> list[pa.Table]:
    return tables_of(Completion(folder, draws, **{"seed": 1, **options}))


def share(table: pa.Table, disease: str, ward: str) -> float:
    """How many of those in a ward have a disease."""
    held = [own for own, where in lines(table, ["disease", "ward"]) if where == ward]
    return held.count(disease) / len(held)


TEXTS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=3)
CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "ints": (pa.int16(), st.none() | st.integers(-3, 3)),
    "many ints": (pa.int64(), st.integers(-(2**60), 2**60)),
    "dates": (pa.date32(), st.none() | st.dates(datetime.date(1900, 1, 1), datetime.date(1900, 2, 1))),
    "flags": (pa.bool_(), st.none() | st.booleans()),
    "decimals": (pa.decimal128(6, 2), st.none() | st.integers(0, 9).map(lambda cents: Decimal(cents) / 100)),
    "reals": (pa.float64(), st.none() | st.floats(-1e9, 1e9)),
}
NAMES = st.sampled_from(["Straße 3", "a b", "`x` ~ y", "drawn_not_data", "person", "I(a)", "Intercept", "年齢", '"q"'])

VALUES: list[list[Any]] = [
    ["α", "b", "c", "d", "é", ""],
    [1, 2, 3, 5, 8, 13],
    [None, "b", "c", "d", "e", "f"],
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows of one to three columns, and a sensitive column of numbers or text in which no value is frequent."""
    rows = draw(st.integers(12, 40))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    columns = {}
    for name in names:
        kind, cells = CELLS[draw(st.sampled_from(sorted(CELLS)))]
        columns[name] = pa.array(draw(st.lists(cells, min_size=rows, max_size=rows)), kind)
    values = draw(st.sampled_from(VALUES))
    places = draw(st.permutations([place % len(values) for place in range(rows)]))
    return pa.table({**columns, "what is it?": pa.array([values[place] for place in places])})


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(table=tables(), seed=st.integers(0, 99), fakes=st.sampled_from([0, 0, 1]), size=st.sampled_from([3, 2**17]))
def test_draws_have_the_rows_and_in_every_bucket_its_values(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, seed: int, fakes: int, size: int
) -> None:
    nulls = {"null_value": "unknown"} if table["what is it?"].null_count else {}
    target = tmp_path_factory.mktemp("made") / "release"
    folder = released(table, target, "what is it?", fake_values=fakes, seed=seed, **nulls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completing, "_ROWS", size)
        completion = Completion(folder, 2, seed=seed)
        for number, one in enumerate(tables_of(completion), 1):
            assert_possible(folder, one, [("what is it?",)])
            assert one.column_names == completion.names
            assert set(one[completion.mark].to_pylist()) == {number}
            assert one.num_rows == completion.rows == table.num_rows


def with_more(rows: int = 300) -> pa.Table:
    """A drug that goes with the disease, and a stay that goes with nothing."""
    table, random = patients(rows), np.random.default_rng(1)
    place = {disease: number for number, disease in enumerate(DISEASES)}
    drugs = [
        f"drug {place[one] if random.random() < 0.8 else int(random.integers(0, 5))}"
        for one in table["disease"].to_pylist()
    ]
    stay = pa.array(random.integers(1, 6, rows).tolist(), pa.int32())
    return table.append_column("drug", pa.array(drugs)).append_column("stay", stay)


SENSITIVE = ["disease", "drug", "stay"]


def test_several_sensitive_columns_are_each_possible(tmp_path: Path) -> None:
    folder = released(with_more(), tmp_path / "r", SENSITIVE)
    for one in drawn(folder):
        assert_possible(folder, one, [(name,) for name in SENSITIVE])
    completion = Completion(folder, 2, columns=["stay"])
    assert completion.names == ["age", "ward", "name", "stay", MARK]
    assert not any("each by itself" in note for note in completion.notes)
    assert any("each by itself" in note for note in Completion(folder, 2).notes)


def test_columns_that_are_kept_together_stay_together(tmp_path: Path) -> None:
    """Whoever has a disease of a bucket has the drug that goes with it; drawn apart, they come apart."""
    table = with_more(500)
    kept = released(table, tmp_path / "kept", SENSITIVE, keep_together=[["disease", "drug"]])
    apart = released(table, tmp_path / "apart", SENSITIVE)
    for one in drawn(kept):
        assert_possible(kept, one, [("disease", "drug"), ("stay",)])

    def agree(one: pa.Table) -> float:
        pairs = lines(one, ["disease", "drug"])
        return [drug == f"drug {DISEASES.index(disease)}" for disease, drug in pairs].count(True) / len(pairs)

    assert {agree(one) for one in drawn(kept)} == {agree(table)}
    assert max(agree(one) for one in drawn(apart)) < agree(table) - 0.2


def test_a_strong_association_comes_back_in_the_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At random it is lost; learned, it is nearly what it was."""
    table = patients(1200, strength=2.5)
    folder = released(table, tmp_path / "release", strata=None)
    truth = share(table, "cold", "north") - share(table, "cold", "south")
    found = np.mean([share(one, "cold", "north") - share(one, "cold", "south") for one in drawn(folder, 8)])
    monkeypatch.setattr(completing, "SWEEPS", 0)
    lost = np.mean([share(one, "cold", "north") - share(one, "cold", "south") for one in drawn(folder, 8)])
    assert truth > 0.4
    assert lost < 0.6 * truth
    assert found == pytest.approx(truth, abs=0.12 * truth)


def test_draws_say_more_of_people_than_buckets_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = patients(1200, strength=2.5)
    folder = released(table, tmp_path / "release", strata=None)
    truth = truth_of(table, folder)

    def right() -> float:
        found = [np.array(one["disease"].to_pylist()) == np.array(truth) for one in drawn(folder, 6)]
        return float(np.mean(found))

    learned = right()
    monkeypatch.setattr(completing, "SWEEPS", 0)
    assert learned > right() + 0.05


def test_what_draws_say_is_as_uncertain_as_it_is(tmp_path: Path) -> None:
    """Over many tables, intervals of 95% hold what is true of the table nine times out of ten, or more."""
    within = []
    for seed in range(12):
        table = patients(400, strength=1.5, seed=seed)
        folder = released(table, tmp_path / f"r{seed}", strata=None)
        every = drawn(folder, 12, seed=seed)
        for disease, ward in (("cold", "north"), ("gout", "south"), ("ague", "west"), ("flux", "north")):
            found = np.array([share(one, disease, ward) for one in every])
            half = 2.2 * found.std(ddof=1) * np.sqrt(1 + 1 / len(found))  # the t distribution of 11 degrees
            within.append(abs(found.mean() - share(table, disease, ward)) <= half)
    assert np.mean(within) >= 0.85  # 48 of them: 0.95 less three standard errors


@pytest.mark.parametrize("fakes", [0, 2])
def test_values_are_drawn_as_often_as_they_are_probable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fakes: int
) -> None:
    """Where slopes are what they are, draws of a person have the weights of that person."""
    folder = released(patients(250, strength=3.0), tmp_path / "r", fake_values=fakes)
    monkeypatch.setattr(Learned, "draw", lambda self, random: None)
    monkeypatch.setattr(completing, "SWEEPS", 80)
    every = [one["disease"].to_pylist() for one in drawn(folder, 600)]
    weighed = pa.concat_tables(list(Weighing(folder, "learned").pieces()))
    apart = []
    for person, disease, weight in lines(weighed, ["person", "disease", "weight"]):
        seen = sum(held[person - 1] == disease for held in every) / len(every)
        apart.append((seen - weight) / np.sqrt(weight * (1 - weight) / len(every) + 1e-4))
    assert np.abs(apart).max() < 5
    assert np.std(apart) < 1.1


def test_where_there_is_nothing_to_learn_draws_are_as_at_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = released(patients(800, strength=0), tmp_path / "release", strata=None)

    def contrasts() -> Floats:
        every = drawn(folder, 40)
        return np.array([[share(one, each, "north") - share(one, each, "south") for each in DISEASES] for one in every])

    learned = contrasts()
    monkeypatch.setattr(completing, "SWEEPS", 0)
    random = contrasts()
    error = np.sqrt(learned.var(axis=0, ddof=1) / 40 + random.var(axis=0, ddof=1) / 40)
    assert (np.abs(learned.mean(axis=0) - random.mean(axis=0)) < 4 * error + 0.03).all()
    assert (learned.std(axis=0) > 0.7 * random.std(axis=0)).all()


def test_without_a_column_that_tells_anything_values_are_dealt_at_random(tmp_path: Path) -> None:
    """Names alone: everybody has one of their own."""
    folder = released(patients(200), tmp_path / "r", quasi_identifiers=["name"], strata=None)
    completion = Completion(folder, 3, seed=1)
    assert any("nothing was learned" in note for note in completion.notes)
    for one in tables_of(completion):
        assert_possible(folder, one, DISEASE)


def test_the_same_seed_gives_the_same_draws(folder: ReleaseFolder) -> None:
    one, same, other = (drawn(folder, 2, seed=seed) for seed in (5, 5, 6))
    assert one == same
    assert one[0] != other[0]
    assert one[0].drop_columns([MARK]) != one[1].drop_columns([MARK])


def test_what_was_drawn_once_is_drawn_again(folder: ReleaseFolder) -> None:
    """Two files of one completion are of the same draws."""
    completion = Completion(folder, 2)
    assert tables_of(completion) == tables_of(completion)


def test_without_a_seed_draws_differ(folder: ReleaseFolder) -> None:
    one, other = (drawn(folder, 1, seed=None) for _ in range(2))
    assert one != other


def test_more_draws_begin_as_fewer(folder: ReleaseFolder) -> None:
    assert drawn(folder, 2) == drawn(folder, 4)[:2]


@pytest.mark.parametrize(("fakes", "rows"), [(0, 900), (1, 3000)])
def test_pieces_of_any_size_make_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fakes: int, rows: int) -> None:
    """However little is held at a time: the association is in all of them. With fakes it takes more people to see."""
    table = patients(rows, strength=2.5)
    folder = released(table, tmp_path / "release", fake_values=fakes, strata=None)
    truth = share(table, "cold", "north") - share(table, "cold", "south")
    monkeypatch.setattr(completing, "_ROWS", 25)
    monkeypatch.setattr(completing, "_LEAST_ROWS", 1)
    monkeypatch.setattr(completing, "DRAWS", 4)  # for as many, pieces are as large
    monkeypatch.setattr(pieces, "_BATCH", 10)
    completion = Completion(folder, 4, seed=2)
    parts = list(completion.pieces())
    assert len(parts) > 30
    assert max(part[0].num_rows for part in parts) <= 25
    every = [pa.concat_tables(one) for one in zip(*parts, strict=True)]
    for one in every:
        assert_possible(folder, one, DISEASE)
    found = np.mean([share(one, "cold", "north") - share(one, "cold", "south") for one in every])
    assert found == pytest.approx(truth, abs=0.3 * truth)


def learned_from_few(folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch, cells: int) -> Completion:
    monkeypatch.setattr(completing, "Lesson", partial(Lesson, most_cells=cells))
    return Completion(folder, 3, seed=1)


def test_what_is_learned_from_some_buckets_holds_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = patients(2000, strength=2.5)
    folder = released(table, tmp_path / "release")
    completion = learned_from_few(folder, monkeypatch, 5 * 800)
    assert any("of 2,000 rows" in note for note in completion.notes)
    assert 500 < completion.lesson.rows < 1100
    truth = share(table, "cold", "north") - share(table, "cold", "south")
    for one in tables_of(completion):
        assert_possible(folder, one, DISEASE)
        assert share(one, "cold", "north") - share(one, "cold", "south") == pytest.approx(truth, abs=0.3 * truth)


def test_codes_of_pieces_are_those_that_were_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of more texts than are told apart is coded alike when it is learned from and when it is applied."""
    monkeypatch.setattr(candidates, "_CELLS", 64 * 8)  # eight texts for 64 kinds of values, and 102 for five
    wards = [f"ward {place}" for place in range(20)]
    folder = released(patients(800, wards=wards), tmp_path / "release", strata=None)
    lesson = Completion(folder, 2, seed=1).lesson
    rows = pa.table([folder.table("qit")[name] for name in ("age", "ward", "name")], names=["age", "ward", "name"])
    assert [column.name for column in lesson.columns] == ["age", "ward"]
    for own, again in zip(lesson.columns, lesson.columns_of(rows), strict=True):
        assert own.kinds == again.kinds
        assert (own.codes == again.codes).all()


WRONG: list[tuple[int, Sequence[str] | None]] = [(0, None), (1001, None), (2, ["diseases"])]


@pytest.mark.parametrize(("draws", "columns"), WRONG)
def test_what_cannot_be_drawn_is_refused(folder: ReleaseFolder, draws: int, columns: Sequence[str] | None) -> None:
    with pytest.raises((UsageError, NoSuchColumnError)):
        Completion(folder, draws, columns=columns)


def test_a_column_that_has_the_name_of_the_mark(tmp_path: Path) -> None:
    table = patients(100).append_column(MARK, pa.array(np.arange(100) % 4))
    assert drawn(released(table, tmp_path / "r"), 1)[0].column_names[-1] == f"{MARK}_2"


def shown(table: pa.Table) -> Callable[[pa.Table], Any]:
    return lambda rows: np.asarray(rows["age"].to_numpy(), np.float32)[:, None] / 20 - 2.5


def test_what_is_asked_for_is_learned_with_it(folder: ReleaseFolder) -> None:
    completion = Completion(folder, 2, seed=1, further=shown(folder.table("qit")))
    assert completion.lesson.learned[0].coding.parts[-1] == "asked"
    for one in tables_of(completion):
        assert_possible(folder, one, DISEASE)

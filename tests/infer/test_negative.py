"""Negative pairs: planted ones are found, none where there are none, whatever the columns are like."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dalenius.errors import ReleaseError
from dalenius.infer import cells as cells_module
from dalenius.infer import compositions as compositions_module
from dalenius.infer import negative
from dalenius.infer.negative import NegativePairs, negative_pairs, select_significant
from dalenius.release.folder import ReleaseFolder, open_release
from tests.handmade import CATEGORY, Handmade, edit_manifest, restate_hashes

EACH = 200  # buckets of each composition
DAY = datetime.date(2000, 1, 1)


def release(
    folder: Path, rule: dict[str, Any], seed: int = 0, *, kind: str = "parquet", fakes: int = 0
) -> ReleaseFolder:
    """Buckets of every two of the values a, b, c, d, e (and fakes); `rule` has a type and a cell of (value, random).

    Which of a bucket's values are fake is random.
    """
    random = np.random.default_rng(seed)
    values, buckets, fake = [], [], []
    for number, held in enumerate(sorted(list(itertools.combinations("abcde", 2 + fakes)) * EACH), start=1):
        mixed = [held[k] for k in random.permutation(len(held))]
        values += mixed[:2]
        buckets += [number] * 2
        fake += [(number, value) for value in mixed[2:]]
    rows = [tuple(cell(value, random) for _, cell in rule.values()) for value in values]
    types = {name: entry[0] for name, entry in rule.items()}
    return open_release(Handmade(types, rows, values, buckets, fakes=fake).write(folder, kind))


def found(pairs: NegativePairs) -> set[tuple[str, str, str]]:
    return {(pair.column, pair.value, pair.sensitive) for pair in pairs.pairs}


def gender(value: str, random: np.random.Generator) -> str:
    return "m" if random.random() < {"a": 0.02, "b": 0.5}.get(value, 0.6) else "f"


def coin(value: str, random: np.random.Generator) -> str:
    return "yes" if random.random() < 0.3 else "no"


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_planted_pair_is_found(tmp_path: Path, kind: str) -> None:
    folder = release(tmp_path, {"Gender": (pa.string(), gender), "Coin": (CATEGORY, coin)}, kind=kind)
    pairs = negative_pairs(folder)
    assert found(pairs) == {("Gender", "m", "a")}
    assert pairs.columns == ("Gender",)
    assert pairs.notes == ()
    (pair,) = pairs.pairs
    assert pair.expected == pytest.approx(4 * EACH * 0.464, rel=0.1)
    assert pair.ratio == pytest.approx(0.02 / 0.464, abs=0.1)
    assert pair.ratio == pair.estimated / pair.expected
    assert pair.p_value < 1e-6
    for batch in folder.batches("qit", ["Gender", "bucket"], rows=77):
        men = np.array(batch["Gender"].to_pylist()) == "m"
        expected = np.zeros((len(men), 5), dtype=bool)
        expected[:, 0] = men
        assert np.array_equal(pairs.ruled_out(batch), expected)


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    """The expected number of false pairs is at most 0.01 a table."""

    def number(value: str, random: np.random.Generator) -> int:
        return int(random.integers(0, 40))

    rule = {"Coin": (pa.string(), coin), "Number": (pa.int32(), number)}
    for seed in range(6):
        assert negative_pairs(release(tmp_path, rule, seed)).pairs == ()


def test_fakes_are_allowed_for(tmp_path: Path) -> None:
    pairs = negative_pairs(release(tmp_path, {"Gender": (pa.string(), gender)}, fakes=1))
    assert found(pairs) == {("Gender", "m", "a")}
    (pair,) = pairs.pairs
    assert pair.expected == pytest.approx(4 * EACH * 0.464, rel=0.1)  # of 4 records in 6 slots
    assert pair.ratio == pytest.approx(0.02 / 0.464, abs=0.2)


def stratified(folder: Path, rule: dict[str, Any], seed: int = 0, *, fakes: int = 0) -> ReleaseFolder:
    """Three regions, each a stratum with buckets of every two of its own values (and fakes)."""
    random = np.random.default_rng(seed)
    values, buckets, fake, regions = [], [], [], []
    number = 0
    for region, letters in enumerate(("abcde", "abcd", "acdef")):
        for held in sorted(list(itertools.combinations(letters, 2 + fakes)) * (EACH // 2)):
            number += 1
            mixed = [held[k] for k in random.permutation(len(held))]
            values += mixed[:2]
            buckets += [number] * 2
            regions += [region] * 2
            fake += [(number, value) for value in mixed[2:]]
    rows = [
        (region, *(cell(value, random) for _, cell in rule.values()))
        for region, value in zip(regions, values, strict=True)
    ]
    types = {"Region": pa.int32(), **{name: entry[0] for name, entry in rule.items()}}
    tree: list[tuple[str, Any, int, int] | int] = [("Region", 0, 1, 2), 1, ("Region", 1, 3, 4), 2, 3]
    return open_release(Handmade(types, rows, values, buckets, fakes=fake, tree=tree).write(folder))


@pytest.mark.parametrize("fakes", [0, 1])
def test_strata_are_learned_from_each_by_itself(tmp_path: Path, fakes: int) -> None:
    """The planted pair is found; and so is what a stratum shows by itself: nobody has f in the first two regions."""
    folder = stratified(tmp_path, {"Gender": (pa.string(), gender), "Coin": (CATEGORY, coin)}, fakes=fakes)
    pairs = negative_pairs(folder)
    assert pairs.notes == ()
    certain = {("Region", "0", "f"), ("Region", "1", "f"), ("Region", "1", "e"), ("Region", "2", "b")}
    assert found(pairs) == {("Gender", "m", "a"), *certain}
    for pair in pairs.pairs:
        if pair.column == "Region":
            assert pair.estimated == pytest.approx(0, abs=1e-6)
            assert pair.p_value == pytest.approx(0)
        else:
            assert pair.ratio == pytest.approx(0.02 / 0.464, abs=0.1 + 0.1 * fakes)


def test_nothing_is_found_in_strata_of_shuffled_rows(tmp_path: Path) -> None:
    def number(value: str, random: np.random.Generator) -> int:
        return int(random.integers(0, 40))

    rule = {"Coin": (pa.string(), coin), "Number": (pa.int32(), number)}
    for seed in range(4):
        pairs = negative_pairs(stratified(tmp_path, rule, seed)).pairs
        assert {pair.column for pair in pairs} == {"Region"}


def test_numbers_and_dates_are_cut_into_ranges(tmp_path: Path) -> None:
    def age(value: str, random: np.random.Generator) -> int | None:
        return None if random.random() < 0.05 else int(random.integers(50 if value == "a" else 0, 100))

    def born(value: str, random: np.random.Generator) -> datetime.date:
        return DAY + datetime.timedelta(days=int(random.integers(500 if value == "b" else 0, 1000)))

    def few(value: str, random: np.random.Generator) -> float:
        return float(random.integers(2 if value == "c" else 0, 5))

    rule = {"Age": (pa.uint8(), age), "Born": (pa.date32(), born), "Few": (pa.float64(), few)}
    folder = release(tmp_path, rule)
    pairs = negative_pairs(folder)
    chosen = found(pairs)
    assert {(column, value) for column, _, value in chosen} == {("Age", "a"), ("Born", "b"), ("Few", "c")}
    assert {name for column, name, _ in chosen if column == "Few"} == {"0.0", "1.0"}
    ranges = [name for column, name, _ in chosen if column == "Age"]
    assert 4 <= len(ranges) <= 9
    assert all(int(name.rpartition("up to ")[2]) <= 52 for name in ranges)
    assert all("up to 200" in name for column, name, _ in chosen if column == "Born")
    for batch in folder.batches("qit"):
        out, rows = pairs.ruled_out(batch), batch.to_pylist()
        for k, row in enumerate(rows):
            if row["Age"] is None or row["Age"] > 56:  # the range in which 50 is ends before
                assert not out[k, 0]
            assert out[k, 1] <= (row["Born"] < DAY + datetime.timedelta(days=560))
            assert out[k].tolist()[2:] == [row["Few"] < 2, False, False]


def test_a_null_is_a_value(tmp_path: Path) -> None:
    def asked(value: str, random: np.random.Generator) -> str | None:
        return None if random.random() < (0 if value == "c" else 0.6) else "said"

    def measured(value: str, random: np.random.Generator) -> float | None:
        kinds = [1.5, None, float("nan")]
        return kinds[random.choice(3, p=[0.4, 0.3, 0.3] if value != "d" else [0.4, 0.6, 0.0])]

    pairs = negative_pairs(release(tmp_path, {"Asked": (pa.string(), asked), "Level": (pa.float64(), measured)}))
    assert found(pairs) == {("Asked", "(null)", "c"), ("Level", "(NaN)", "d")}


def test_columns_of_rare_texts_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "MOST_TEXTS", 1000)
    monkeypatch.setattr(cells_module, "MOST_CELLS", 2)

    def name(value: str, random: np.random.Generator) -> str:
        return f"{random.integers(10**9)}"

    def letter(value: str, random: np.random.Generator) -> str:
        return "xyz"[random.choice(3, p=[0.5, 0.3, 0.2])]

    rule = {"Name": (pa.string(), name), "Gender": (pa.string(), gender), "Letter": (CATEGORY, letter)}
    pairs = negative_pairs(release(tmp_path, rule))
    assert found(pairs) == {("Gender", "m", "a")}
    assert ["Name" in note for note in pairs.notes] == [True, False]
    assert "Letter" in pairs.notes[1]


def test_batches_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = release(tmp_path, {"Gender": (CATEGORY, gender)})
    whole = negative_pairs(folder)
    monkeypatch.setattr(negative, "_ROWS_AT_ONCE", 37)
    assert negative_pairs(folder).pairs == whole.pairs


def test_releases_that_teach_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = release(tmp_path, {"Gender": (pa.string(), gender)})
    monkeypatch.setattr(compositions_module, "MOST_CLASSES", 3)
    pairs = negative_pairs(folder)
    assert not pairs.pairs
    assert not pairs.columns
    assert "compositions" in pairs.notes[0]
    assert not pairs.ruled_out(next(folder.batches("qit"))).any()


def test_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    release(tmp_path, {"Gender": (pa.string(), gender)})
    edit_manifest(tmp_path, lambda manifest: manifest["values"].pop())
    restate_hashes(tmp_path)
    with pytest.raises(ReleaseError, match="name"):
        negative_pairs(open_release(tmp_path))
    release(tmp_path, {"Gender": (pa.string(), gender)})
    edit_manifest(tmp_path, lambda manifest: manifest["adversary"].update(fake_values=1))
    with pytest.raises(ReleaseError, match="rows"):
        negative_pairs(open_release(tmp_path))


def test_significance_is_by_benjamini_and_hochberg() -> None:
    p_values = np.array([0.04, 0.001, 0.012, 0.5, 0.03])
    assert select_significant(p_values, 0.05).tolist() == [True, True, True, False, True]  # 0.04 = 4 * 0.05 / 5
    assert select_significant(p_values, 0.02).tolist() == [False, True, False, False, False]
    assert select_significant(np.zeros(0), 0.05).tolist() == []

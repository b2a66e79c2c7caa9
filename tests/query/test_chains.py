"""Counting in chained releases, where people left and their values stay: against every world of a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import InputError
from dalenius.model.estimate import Asked
from dalenius.query.count import Counter, open_tables
from dalenius.query.figures import figures
from dalenius.query.release_tables import published_columns
from dalenius.query.true_count import true_count
from dalenius.query.workload import evaluate
from dalenius.release.folder import ReleaseFolder
from tests.chains import begin_chain, follow
from tests.effort import examples
from tests.query.releases import random_buckets, write_release
from tests.query.test_fakes import CONDITIONS, Bucket, of_all_worlds, within
from tests.query.test_matchings import assert_same


def chained(path: Path, table: pa.Table, buckets: Sequence[int], left: Sequence[int]) -> ReleaseFolder:
    """The second release of a chain, whose first has every row, in the order of its buckets."""
    begin_chain(write_release(path / "first", table, "X", buckets).path)
    return follow(path / "first", path / "second", left)


@st.composite
def bucket_lists(draw: st.DrawFn) -> list[Bucket]:
    """A letter for everybody who is still there, and for everybody's value; somebody is there."""

    def bucket() -> Bucket:
        size = draw(st.integers(1, 5))
        rows = draw(st.text("abc", min_size=0, max_size=size))
        return rows, draw(st.text("xyz", min_size=size, max_size=size))

    found = [bucket() for _ in range(draw(st.integers(1, 4)))]
    return found if any(rows for rows, _ in found) else [("a", found[0][1]), *found[1:]]


def release_of(path: Path, buckets: Sequence[Bucket]) -> ReleaseFolder:
    """The release with these buckets; whoever left had no letter."""
    everybody = [rows + "-" * (len(values) - len(rows)) for rows, values in buckets]
    table = pa.table({"A": list("".join(everybody)), "X": list("".join(values for _, values in buckets))})
    numbers = [number for number, (_, values) in enumerate(buckets, 1) for _ in values]
    left = [place for place, letter in enumerate("".join(everybody)) if letter == "-"]
    return chained(path, table, numbers, left)


@settings(max_examples=examples(25))
@given(bucket_lists(), st.sampled_from(sorted(CONDITIONS)))
def test_every_condition_against_all_worlds(
    tmp_path_factory: pytest.TempPathFactory, buckets: list[Bucket], condition: str
) -> None:
    folder = release_of(tmp_path_factory.mktemp("chain"), buckets)
    accepts = CONDITIONS[condition]
    with Counter(folder) as counter:
        assert_same(counter.count(condition), of_all_worlds(buckets, accepts))
        for by in (["A"], ["X"], ["X", "A"]):
            for group in counter.count_by(condition, by):
                assert_same(group.estimate, of_all_worlds(buckets, within(accepts, group.group)))


@settings(max_examples=examples(15))
@given(bucket_lists())
def test_sums_of_numbers_against_all_worlds(tmp_path_factory: pytest.TempPathFactory, buckets: list[Bucket]) -> None:
    """x, y and z are 0, 1 and 2: with two of a number, its people count twice."""
    path = tmp_path_factory.mktemp("chain")
    everybody = "".join(rows + "-" * (len(values) - len(rows)) for rows, values in buckets)
    numbers = ["xyz".index(value) for _, values in buckets for value in values]
    table = pa.table({"A": list(everybody), "X": pa.array(numbers, pa.int64())})
    places = [number for number, (_, values) in enumerate(buckets, 1) for _ in values]
    folder = chained(path, table, places, [place for place, letter in enumerate(everybody) if letter == "-"])
    mean, _, _, _ = of_all_worlds(buckets, lambda row, value: row == "a" and value == "y")
    twice, _, _, _ = of_all_worlds(buckets, lambda row, value: row == "a" and value == "z")
    somebody = any("a" in rows for rows, _ in buckets)
    with Counter(folder) as counter:
        found = figures(counter, "A = 'a'", Asked(sum=True))[0] if somebody else None
    if found is not None:
        assert found.sum is not None
        assert found.sum.estimate == pytest.approx(float(mean + 2 * twice))
        assert found.sum.bounds[0] <= mean + 2 * twice <= found.sum.bounds[1]


def test_what_only_those_had_who_left_is_nobodys(tmp_path: Path) -> None:
    folder = release_of(tmp_path, [("ab", "xy"), ("", "zz"), ("a", "xz")])
    with Counter(folder) as counter:
        assert counter.count("TRUE").bounds == (3, 3)
        assert counter.count("A = 'a'").exact
        assert counter.count("X IS NOT NULL").bounds == (3, 3)
        assert counter.count("X = 'z'").bounds == (0, 1)
        assert counter.count("X = 'z'").estimate == pytest.approx(0.5)
        assert not counter.count("X = 'z'").exact
        assert counter.count("X = 'y'").bounds == (1, 1)  # nobody left the first bucket
        assert [group.group["X"] for group in counter.count_by("TRUE", ["X"])] == ["x", "y", "z"]


def people(rows: int, seed: int = 6) -> pa.Table:
    random = np.random.default_rng(seed)
    first = random.integers(0, 6, rows)
    sensitive = (first + random.integers(0, 3, rows)) % 7
    return pa.table({"A": first, "B": random.integers(0, 3, rows), "X": [f"x{value}" for value in sensitive]})


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReleaseFolder, pa.Table]:
    """A chain that a third of its people left, from some buckets all of them; and who is still there."""
    table, random = people(1500), np.random.default_rng(1)
    numbers = np.sort(random_buckets(1500, 5))
    left = np.flatnonzero((random.random(1500) < 0.3) | (numbers > 280))
    folder = chained(tmp_path_factory.mktemp("chain"), table, numbers.tolist(), left.tolist())
    assert folder.manifest.surplus == len(left)
    return folder, table.take(np.setdiff1d(np.arange(1500), left))


def test_learned_estimates_are_made_and_hold(released: tuple[ReleaseFolder, pa.Table]) -> None:
    """Against the truth: within intervals nearly always, and no less than without surplus."""
    folder, there = released
    with Counter(folder) as counter:
        held = 0
        for first in range(6):
            for value in range(7):
                condition = f"A = {first} AND X = 'x{value}'"
                estimate = counter.count(condition, learn=True, measure=True)
                truth = true_count(counter, there, condition)
                assert estimate.not_learned is None
                assert estimate.bounds[0] <= truth <= estimate.bounds[1]
                held += estimate.interval[0] <= truth <= estimate.interval[1]
        assert held >= 38  # of 42
        everybody = [group.estimate.estimate for group in counter.count_by("TRUE", ["X"], learn=True)]
        assert sum(everybody) == pytest.approx(there.num_rows, rel=0.01)


def test_who_left_counts_with_nothing_learned(tmp_path: Path) -> None:
    """With one value in all buckets every present row has it, whatever is left over."""
    folder = release_of(tmp_path, [("ab", "xxx"), ("a", "xxxx"), ("", "xx")])
    with Counter(folder) as counter:
        found = counter.count("A = 'a' AND X = 'x'", learn=True, measure=True)
    assert found.estimate == 2
    assert found.bounds == (2, 2)


def test_the_workload_of_a_chained_release(released: tuple[ReleaseFolder, pa.Table]) -> None:
    folder, there = released
    result = evaluate(folder, there, queries=300, selectivity=0.1, learn=True)
    assert result.bounds_hold == 300
    assert result.learned is not None
    assert result.learned.coverage >= 0.93
    with pytest.raises(InputError, match="rows and the release"):
        evaluate(folder, people(1500), queries=5)


def test_columns_are_described_as_published(released: tuple[ReleaseFolder, pa.Table]) -> None:
    with open_tables(released[0]) as tables:
        (column,) = published_columns(tables, ["X"])
    assert column.values == tuple(f"x{number}" for number in range(7))


def test_a_bucket_that_is_too_full_is_refused(tmp_path: Path) -> None:
    folder = release_of(tmp_path, [("ab", "xyz"), ("a", "xx")])
    manifest = folder.manifest.model_copy(
        update={"adversary": folder.manifest.adversary.model_copy(update={"fake_values": 2})}
    )
    with pytest.raises(Exception, match="do not have as many values"), Counter(ReleaseFolder(folder.path, manifest)):
        pass


def test_the_share_of_a_value_is_that_of_all_places(tmp_path: Path) -> None:
    """c / S for everybody who stays, however many left."""
    folder = release_of(tmp_path, [("a", "xxyz")])
    with Counter(folder) as counter:
        for value, share in (("x", Fraction(1, 2)), ("y", Fraction(1, 4)), ("z", Fraction(1, 4))):
            assert counter.count(f"A = 'a' AND X = '{value}'").estimate == float(share)

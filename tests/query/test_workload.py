"""The paper's workload: the rule, and the evaluator against SQL on the table and single queries on the release."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dalenius.errors import DaleniusError, InputError, NoSuchColumnError
from dalenius.query.bitsets import CodedRelease, CodedTable
from dalenius.query.count import Counter
from dalenius.query.workload import Answers, answer, encode, evaluate, generate, summarise, values_per_predicate
from dalenius.release.folder import ReleaseFolder
from tests.query.releases import random_buckets, write_release

SIZES = {"A": 9, "B": 2, "C": 40}


def people(rows: int = 1200, seed: int = 3) -> pa.Table:
    """A table whose sensitive column goes with A; B has nulls."""
    random = np.random.default_rng(seed)
    columns = {name: random.integers(0, size, rows) for name, size in SIZES.items()}
    sensitive = (columns["A"] + random.integers(0, 4, rows)) % 11
    nulls = random.random(rows) < 0.1
    return pa.table(
        {
            "A": columns["A"],
            "B": pa.array([None if null else f"b{value}" for null, value in zip(nulls, columns["B"], strict=True)]),
            "C": columns["C"],
            "X": [f"x{value}" for value in sensitive],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return write_release(
        tmp_path_factory.mktemp("release"), people(), "X", random_buckets(1200, 5), row_group_size=1200
    )


@pytest.mark.parametrize("selectivity", [0.01, 0.05, 1.0])
def test_the_rule(selectivity: float) -> None:
    domains, sensitive = [76, 2, 14, 5, 9, 8, 83], 50
    queries = generate(domains, sensitive, 3000, selectivity, seed=5)
    dimensions = [len(query.attributes) for query in queries]
    assert set(dimensions) == set(range(1, 8))
    assert all(dimensions.count(d) == pytest.approx(3000 / 7, abs=5 * math.sqrt(3000 / 7)) for d in range(1, 8))
    for query in queries:
        assert len(set(query.attributes)) == len(query.attributes)
        named = [(domains[a], values) for a, values in zip(query.attributes, query.values, strict=True)]
        for domain, values in [*named, (sensitive, query.sensitive)]:
            exact = domain * selectivity ** (1 / (len(query.attributes) + 1))
            assert exact - 1e-6 <= len(values) < exact + 1 + 1e-6
            assert len(set(values.tolist())) == len(values)
            assert 0 <= values.min() <= values.max() < domain
    assert {a for query in queries for a in query.attributes} == set(range(7))
    assert {int(v) for query in queries for v in query.sensitive} == set(range(50))


def test_whole_numbers_are_not_rounded_up() -> None:
    assert values_per_predicate(50, 1, 0.01) == 5
    assert values_per_predicate(100, 3, 0.0001) == 10
    assert values_per_predicate(3, 1, 0.01) == 1
    assert values_per_predicate(1000, 2, 0.008) == 200


def test_the_same_seed_the_same_queries() -> None:
    def texts(seed: int) -> list[str]:
        return [str(query) for query in generate([5, 6], 7, 50, 0.1, seed)]

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)


def test_answers_are_those_of_single_queries(folder: ReleaseFolder) -> None:
    table, release = encode(folder, people())
    queries = generate(table.domains, table.sensitive_domain, 40, 0.2, seed=1)
    found = answer(table, release, queries)
    source = people()
    names = ["A", "B", "C"]
    texts = {name: _texts_by_code(source, name, codes) for name, codes in zip(names, table.attributes, strict=True)}
    texts["X"] = _texts_by_code(source, "X", table.sensitive)
    connection = duckdb.connect()
    connection.register("people", source)
    with Counter(folder) as counter:
        for i, query in enumerate(queries):
            parts = [
                f"CAST({name} AS VARCHAR) IN ({', '.join(repr(texts[name][int(v)]) for v in values)})"
                for name, values in [
                    *((names[a], values) for a, values in zip(query.attributes, query.values, strict=True)),
                    ("X", query.sensitive),
                ]
            ]
            expression = " AND ".join(parts)
            ((actual,),) = connection.execute(f"SELECT count(*) FROM people WHERE {expression}").fetchall()  # noqa: S608
            estimate = counter.count(expression)
            assert found.actual[i] == actual
            assert found.estimate[i] == pytest.approx(estimate.estimate)
            assert (found.low[i], found.high[i]) == estimate.bounds
            assert (found.interval_low[i], found.interval_high[i]) == estimate.interval


def _texts_by_code(table: pa.Table, name: str, codes: np.ndarray) -> dict[int, str]:
    return {int(code): str(value) for code, value in zip(codes, table[name].to_pylist(), strict=True) if code >= 0}


def test_columns_that_are_too_large_for_bits_are_looked_up(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, release = encode(folder, people())
    queries = generate(table.domains, table.sensitive_domain, 50, 0.1)
    by_bits = answer(table, release, queries)
    monkeypatch.setattr("dalenius.query.bitsets._MOST_BYTES", 0)
    by_lookup = answer(table, release, queries, threads=1)
    assert str(by_bits) == str(by_lookup)


def test_the_summary() -> None:
    def array(*numbers: int) -> np.ndarray:
        return np.array(numbers, dtype=np.int64)

    answers = Answers(
        actual=array(10, 0, 4, 100),
        estimate=np.array([5.0, 1.0, 4.0, 110.0]),
        low=array(0, 0, 4, 101),
        high=array(20, 3, 4, 200),
        interval_low=array(4, 0, 4, 105),
        interval_high=array(6, 2, 4, 115),
    )
    found = summarise(answers)
    assert (found.queries, found.empty, found.bounds_hold, found.coverage) == (4, 1, 3, 0.5)
    assert found.mean_relative_error == pytest.approx((0.5 + 0 + 0.1) / 3)
    assert found.median_relative_error == pytest.approx(0.1)
    assert found.mean_interval_width == pytest.approx((2 + 2 + 0 + 10) / 4)
    assert found.mean_bounds_width == pytest.approx((20 + 3 + 0 + 99) / 4)


def test_bounds_always_hold_and_one_record_a_bucket_has_no_error(tmp_path: Path, folder: ReleaseFolder) -> None:
    found = evaluate(folder, people(), queries=300)
    assert found.bounds_hold == 300
    assert found.mean_relative_error > 0
    alone = write_release(tmp_path, people(), "X", list(range(1, 1201)), row_group_size=1200)
    exact = evaluate(alone, people(), queries=300)
    assert exact.mean_relative_error == 0
    assert exact.coverage == 1
    assert exact.mean_bounds_width == 0


def test_matched_at_random_the_intervals_hold() -> None:
    random = np.random.default_rng(8)
    rows = 20_000
    attributes = tuple(random.integers(0, size, rows) for size in (5, 8, 12))
    sensitive = random.integers(0, 20, rows)
    buckets = random.permutation(np.arange(rows) % (rows // 5)).astype(np.int64)
    table = CodedTable(attributes, sensitive, (5, 8, 12), 20)
    found = summarise(
        answer(table, CodedRelease(attributes, buckets, buckets, sensitive), generate((5, 8, 12), 20, 1000))
    )
    assert found.coverage >= 0.94
    assert found.bounds_hold == 1000


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_tables_of_any_kind(tmp_path: Path, folder: ReleaseFolder, suffix: str) -> None:
    path = tmp_path / f"people.{suffix}"
    shuffled = people().take(pa.array(np.random.default_rng(0).permutation(1200)))
    if suffix == "csv":
        pyarrow.csv.write_csv(shuffled, path)
    else:
        pyarrow.parquet.write_table(shuffled, path)
    expected, found = evaluate(folder, people(), queries=100), evaluate(folder, path, queries=100)
    assert found.queries == expected.queries
    assert found.bounds_hold == 100


def test_another_table_is_refused(folder: ReleaseFolder) -> None:
    with pytest.raises(NoSuchColumnError, match="'C'"):
        evaluate(folder, people().drop_columns(["C"]))
    with pytest.raises(InputError, match="1,199 rows and the release 1,200"):
        evaluate(folder, people().slice(1))
    with pytest.raises(InputError, match="does not have the same values"):
        evaluate(folder, people(seed=4))


@pytest.mark.parametrize(
    ("domains", "sensitive", "queries", "selectivity"),
    [([], 3, 10, 0.1), ([0], 3, 10, 0.1), ([3], 0, 10, 0.1), ([3], 3, 0, 0.1), ([3], 3, 1, 0.0), ([3], 3, 1, 1.5)],
)
def test_workloads_that_cannot_be(domains: list[int], sensitive: int, queries: int, selectivity: float) -> None:
    with pytest.raises(DaleniusError):
        generate(domains, sensitive, queries, selectivity)

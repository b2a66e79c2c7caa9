"""The tasks that run on executors, run here: nothing but Arrow batches goes in and comes out."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dalenius.errors import ChangedInputError, EngineError, InputError, OutputError, SelfCheckError, TooManyValuesError
from dalenius.model.problem import BucketSetting, Partition
from dalenius.place.budget import Budget
from dalenius.place.packed import Pieces
from dalenius.place.slots import Placement
from dalenius.place.survey import Survey, survey
from dalenius.publishing.spark.placing import PieceEncoder, PlaceTask, Ranks, SortTask
from dalenius.publishing.spark.rereading import Check, CountTask, PackedRecordsOf, PackTask, RawRecordsOf
from dalenius.publishing.spark.spark_errors import CarriedError, carry_errors, explain, start_error
from dalenius.publishing.spark.surveying import SurveyTask, tracker_for
from dalenius.tables.arrow import TableSource

Integers = np.ndarray[Any, Any]
KEY = bytes(range(32))
ROWS = 600
_NUMBERS = [pa.field(name, pa.int64(), nullable=False) for name in ("Age", "bucket")]
ENCODER = PieceEncoder(pa.schema(_NUMBERS), "bucket", group=64)


def people() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"Age": rng.integers(0, 80, ROWS), "s": rng.choice(["a", "b", "c"], ROWS, p=[0.6, 0.3, 0.1])})


def looked_at(table: pa.Table) -> Survey:
    return survey(TableSource(table), "s", ["Age"], None, Budget.of(None), lambda _rows: None)


def fingerprints(table: pa.Table) -> Integers:
    return np.random.default_rng(2).integers(-(2**62), 2**62, len(table))


def batches(*columns: Any, rows: int = 100) -> Iterator[pa.RecordBatch]:
    names = [str(number) for number in range(len(columns))]
    return iter(pa.table(list(columns), names=names).combine_chunks().to_batches(rows))


def check_of(marks: Integers) -> Check:
    return Check(np.array([len(marks)]), np.array([np.bitwise_xor.reduce(marks)]))


def packed(table: pa.Table, check: Check, marks: Integers) -> list[pa.RecordBatch]:
    found = looked_at(table)
    layout = found.layout()
    assert layout is not None
    codes = table["Age"].combine_chunks().to_numpy() - found.domains["Age"].low  # type: ignore[union-attr]
    task = pickle.loads(pickle.dumps(PackTask(found.sensitive, layout, {}, check)))  # noqa: S301
    return list(task(batches(pa.array(marks), pa.array(codes), table["s"])))


def test_a_partition_that_is_the_same_passes() -> None:
    table = people()
    marks = fingerprints(table)
    kept = packed(table, check_of(marks), marks)
    assert sum(batch.column(1)[0].as_py() for batch in kept) == ROWS


@pytest.mark.parametrize("change", ["fewer rows", "another row", "another partition"])
def test_a_partition_that_is_not_the_same_fails(change: str) -> None:
    table = people()
    marks = fingerprints(table)
    check = check_of(marks)
    if change == "fewer rows":
        table, marks = table.slice(0, ROWS - 1), marks[:-1]
    elif change == "another row":
        marks[7] ^= 1
    else:
        check = Check(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    with pytest.raises(CarriedError) as carried:
        packed(table, check, marks)
    assert isinstance(explain(carried.value), ChangedInputError)


def test_a_value_that_spark_could_not_pack_is_a_change() -> None:
    table = people()
    marks = fingerprints(table)
    found = looked_at(table)
    layout = found.layout()
    assert layout is not None
    codes = pa.array([None, *range(ROWS - 1)], pa.int64())
    with pytest.raises(CarriedError) as carried:
        list(PackTask(found.sensitive, layout, {}, check_of(marks))(batches(pa.array(marks), codes, table["s"])))
    assert isinstance(explain(carried.value), ChangedInputError)


def dealt(found: Survey) -> Partition:
    """All in one size group of buckets of two."""
    return Partition(BucketSetting.of([(2, ROWS // 2)]), tuple((count,) for count in found.sensitive.counts))


def placed(found: Survey, kept: list[pa.RecordBatch], counts: np.ndarray[Any, Any]) -> Iterator[pa.RecordBatch]:
    partition, layout = dealt(found), found.layout(ROWS // 2)
    assert layout is not None
    records = PackedRecordsOf(found.sensitive, layout, None)
    pieces = Pieces.of(partition.setting.groups, 100)
    task = PlaceTask(records, Ranks.of(counts), Placement([partition], KEY), pieces, layout)
    result: Iterator[pa.RecordBatch] = pickle.loads(pickle.dumps(task))(iter(kept))  # noqa: S301
    return result


def test_records_are_placed_and_sorted_piece_by_piece() -> None:
    table = people()
    found, marks = looked_at(table), fingerprints(people())
    kept = packed(table, check_of(marks), marks)
    counts = np.array([found.sensitive.counts])
    by_piece: dict[int, list[bytes]] = {}
    for batch in placed(found, kept, counts):
        for piece, records in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            by_piece.setdefault(piece, []).append(records)
    pieces = Pieces.of(dealt(found).setting.groups, 100)
    layout = found.layout(ROWS // 2)
    assert layout is not None
    sort = SortTask(pieces, layout, ENCODER)
    rows: list[tuple[int, int]] = []
    for piece in range(len(pieces)):
        sent = by_piece[piece]
        (batch,) = sort(batches(pa.array([piece] * len(sent), pa.int32()), pa.array(sent, pa.binary())))
        assert batch.column(0).to_pylist() == [piece]
        file = pyarrow.parquet.read_table(pa.BufferReader(batch.column(1)[0].as_py()))
        rows += zip(file["bucket"].to_pylist(), file["Age"].to_pylist(), strict=True)
    assert rows == sorted(rows)
    assert [bucket for bucket, _ in rows] == [number for number in range(1, ROWS // 2 + 1) for _ in range(2)]
    assert sorted(age for _, age in rows) == sorted(table["Age"].to_pylist())


@pytest.mark.parametrize("change", [-1, 1])
def test_other_counts_than_those_of_before_fail(change: int) -> None:
    table = people()
    found, marks = looked_at(table), fingerprints(people())
    kept = packed(table, check_of(marks), marks)
    counts = np.array([found.sensitive.counts])
    counts[0, 1] += change
    with pytest.raises(CarriedError) as carried:
        list(placed(found, kept, counts))
    assert isinstance(explain(carried.value), ChangedInputError)


def test_a_piece_that_lacks_a_record_fails_and_so_do_two_pieces_in_one_task() -> None:
    pieces = Pieces.of(dealt(looked_at(people())).setting.groups, 100)
    layout = looked_at(people()).layout(ROWS // 2)
    assert layout is not None
    sort = SortTask(pieces, layout, ENCODER)
    keys = np.arange(int(pieces.rows[0]) - 1, dtype=np.uint64).tobytes()
    with pytest.raises(CarriedError) as carried:
        list(sort(batches(pa.array([0], pa.int32()), pa.array([keys], pa.binary()))))
    assert isinstance(explain(carried.value), ChangedInputError)
    with pytest.raises(CarriedError) as carried:
        list(sort(batches(pa.array([0, 1], pa.int32()), pa.array([keys, keys], pa.binary()))))
    assert isinstance(explain(carried.value), SelfCheckError)


def test_counting_raw_records_counts_values() -> None:
    table = people()
    found, marks = looked_at(table), fingerprints(people())
    records = RawRecordsOf(found.sensitive, (found.schema.field("Age"),), None, check_of(marks))
    (batch,) = CountTask(records)(batches(pa.array(marks), table["Age"], table["s"]))
    assert np.frombuffer(batch.column(1)[0].as_py(), dtype=np.int64).tolist() == list(found.sensitive.counts)
    marks[0] += 1
    with pytest.raises(CarriedError):
        list(CountTask(records)(batches(pa.array(marks), table["Age"], table["s"])))


def test_executors_need_few_libraries() -> None:
    """Those that docs/spark.md names, and pyspark itself."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(['duckdb', 'pydantic', 'highspy', 'click', 'pandas']))"
    tasks = "; ".join(f"import dalenius.publishing.spark.{name}" for name in ("placing", "rereading", "surveying"))
    subprocess.run([sys.executable, "-c", f"{blocked}; {tasks}"], check=True)


def test_an_empty_partition_gives_nothing() -> None:
    assert list(SurveyTask(pa.string(), "s", {})(iter(()))) == []
    marks = np.array([], dtype=np.int64)
    found = looked_at(people())
    layout = found.layout()
    assert layout is not None
    assert list(PackTask(found.sensitive, layout, {}, check_of(marks))(iter(()))) == []


@pytest.mark.parametrize("place", [1, 2])
def test_text_that_is_not_utf8_is_refused_by_the_name_of_its_column(place: int) -> None:
    """Spark takes the bytes of a Parquet file as they are."""
    columns = [pa.array([7, 8]), pa.array(["a", "b"]), pa.array(["c", "d"])]
    columns[place] = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    task = SurveyTask(pa.string(), "Illness", {"Town": tracker_for(pa.string(), 2**20)})
    with pytest.raises(CarriedError) as caught:
        list(task(batches(*columns)))
    error = explain(caught.value)
    assert isinstance(error, InputError)
    assert error.message == f"the text column '{('Illness', 'Town')[place - 1]}' has bytes that are not UTF-8"


def test_errors_of_ours_come_back_as_they_were() -> None:
    @carry_errors
    def task(_batches: Any) -> Iterator[Any]:
        yield 1
        raise TooManyValuesError.in_column("s: :", 5)

    with pytest.raises(CarriedError) as carried:
        list(task(iter(())))
    inside = RuntimeError(f"Job aborted.\nTraceback (most recent call last):\n  {carried.value}\n at java.lang.Thread")
    again = explain(inside)
    assert isinstance(again, TooManyValuesError)
    assert str(again) == str(TooManyValuesError.in_column("s: :", 5))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/secret", InputError),
        ("[TABLE_OR_VIEW_NOT_FOUND] `secret`", InputError),
        ("java.io.IOException: No space left on device: /secret", OutputError),
        ("ModuleNotFoundError: No module named 'pyarrow' secret", EngineError),
        ("org.apache.spark.SparkException: secret [CAST_INVALID_INPUT] '007'", EngineError),
        ("java.io.FileNotFoundException: File secret does not exist", ChangedInputError),
    ],
)
def test_what_spark_says_is_not_repeated(text: str, kind: type[Exception]) -> None:
    for ours in (explain(RuntimeError(text)), start_error(RuntimeError(text))):
        assert "secret" not in str(ours)
        assert "007" not in str(ours)
    assert type(explain(RuntimeError(text))) is kind


def test_a_forged_failure_cannot_name_any_class() -> None:
    told = base64.b64encode(b'["BaseException", "m", null]').decode()
    assert isinstance(explain(RuntimeError(f"dalenius-failure:{told}:")), InputError)

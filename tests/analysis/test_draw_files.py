"""Files of draws: read back by other programs, written whole or not at all, and never taken for the data."""

from __future__ import annotations

import datetime
import resource
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyreadstat
import pytest

from dalenius.analysis import draw_files
from dalenius.analysis.completing import MARK, NOT_DATA, Completion
from dalenius.analysis.draw_files import README, Format, is_draws, tables_of, write_draws, write_weights
from dalenius.analysis.outcomes import plain_values
from dalenius.analysis.weighing import Weighing
from dalenius.errors import InputError, OutputError, UsageError
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import DISEASES, patients, released

KINDS: tuple[Format, ...] = ("parquet", "csv", "dta", "sav")
ROWS = 90


def mixed() -> pa.Table:
    """All kinds of columns, most of them with nulls, under names that every program takes."""
    random = np.random.default_rng(0)
    numbers = random.integers(0, 50, ROWS).tolist()

    def some(cell: Callable[[int], Any], kind: pa.DataType, *, nulls: bool = True) -> pa.Array:
        return pa.array([None if nulls and number % 7 == 0 else cell(number) for number in numbers], kind)

    return pa.table(
        {
            "age": some(lambda number: number, pa.int64(), nulls=False),
            "visits": some(lambda number: number % 5, pa.int16()),
            "town": some(lambda number: ["Zürich", "北京", "Łódź", "x y"][number % 4], pa.string()),
            "born": some(lambda number: datetime.date(1950, 1, 1) + datetime.timedelta(100 * number), pa.date32()),
            "seen": some(lambda number: datetime.datetime(2020, 1, 1, number % 24, 30), pa.timestamp("us")),  # noqa: DTZ001
            "income": some(lambda number: Decimal(number * 101) / 100, pa.decimal128(9, 2)),
            "weight": some(lambda number: number + 0.25, pa.float64()),
            "insured": some(lambda number: number % 2 == 0, pa.bool_()),
            "smokes": some(lambda number: number % 3 == 0, pa.bool_(), nulls=False),
            "empty": pa.nulls(ROWS, pa.string()),
            "at": some(lambda number: datetime.time(number % 24, 15), pa.time64("us")),
            "disease": pa.array([["flü", "cold", "gout", "flux", "bile"][place % 5] for place in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module", name="folder")
def made(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return released(mixed(), tmp_path_factory.mktemp("made") / "release")


@pytest.fixture(scope="module", name="expected")
def of_draws(folder: ReleaseFolder) -> list[pa.Table]:
    return [plain_values(table) for table in tables_of(Completion(folder, 2, seed=3))]


def completion(folder: ReleaseFolder) -> Completion:
    return Completion(folder, 2, seed=3)


def missing(cell: Any) -> bool:
    return cell is None or cell == "" or bool(pd.isna(cell))


def assert_same(cells: list[Any], expected: list[Any], name: str) -> None:
    """Cells as another program has them: numbers for decimals and flags, text for times, moments for dates."""
    for cell, own in zip(cells, expected, strict=True):
        if own is None:
            assert missing(cell), name
        elif isinstance(own, datetime.datetime | datetime.date):
            assert pd.Timestamp(cell) == pd.Timestamp(own), name
        elif isinstance(own, datetime.time):
            assert datetime.time.fromisoformat(str(cell)) == own, name
        elif isinstance(own, int | float | Decimal):
            assert float(cell) == pytest.approx(float(own), rel=1e-12), name
        else:
            assert cell == own, name


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "dta": pd.read_stata,
    "sav": lambda path: pyreadstat.read_sav(str(path))[0],
    "csv": lambda path: pd.read_csv(path, true_values=["true"], false_values=["false"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_draws_come_back_as_they_were(
    folder: ReleaseFolder, expected: list[pa.Table], tmp_path: Path, kind: Format
) -> None:
    names = write_draws(completion(folder), tmp_path / "draws", kind)
    assert names == [f"draw-01.{kind}", f"draw-02.{kind}", README]
    assert sorted(path.name for path in (tmp_path / "draws").iterdir()) == sorted(names)
    for name, own in zip(names, expected, strict=False):
        path = tmp_path / "draws" / name
        if kind == "parquet":
            assert pyarrow.parquet.read_table(path).equals(own)
            continue
        found = READERS[kind](path)
        assert list(found.columns) == own.column_names
        for column in own.column_names:
            assert_same(found[column].tolist(), own[column].to_pylist(), column)


def test_csv_has_the_types_that_arrow_reads(folder: ReleaseFolder, expected: list[pa.Table], tmp_path: Path) -> None:
    write_draws(completion(folder), tmp_path / "draws", "csv")
    schema = {field.name: field.type for field in expected[0].schema if not pa.types.is_time(field.type)}
    options = pyarrow.csv.ConvertOptions(column_types=schema, strings_can_be_null=True, include_columns=list(schema))
    for number, own in enumerate(expected, 1):
        found = pyarrow.csv.read_csv(tmp_path / "draws" / f"draw-{number:02}.csv", convert_options=options)
        assert found.equals(own.select(list(schema)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_says_that_it_is_not_the_data(folder: ReleaseFolder, tmp_path: Path, kind: Format) -> None:
    *names, readme = write_draws(completion(folder), tmp_path / "draws", kind)
    assert (tmp_path / "draws" / readme).read_text(encoding="utf-8").startswith(NOT_DATA)
    for number, name in enumerate(names, 1):
        path = tmp_path / "draws" / name
        if kind == "parquet":
            assert pyarrow.parquet.read_schema(path).metadata[b"dalenius"].decode() == NOT_DATA
        elif kind == "dta":
            with pd.read_stata(path, iterator=True) as reader:
                assert "not the data" in (reader.data_label or "")
        elif kind == "sav":
            meta = pyreadstat.read_sav(str(path), metadataonly=True)[1]
            assert "not the data" in (meta.file_label or "")
            assert " ".join(" ".join(meta.notes).split()) == NOT_DATA
        else:
            marks = pd.read_csv(path)[MARK]
            assert (marks == number).all()


def fail_on_second(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The disk is full, or whatever else, when the second file is written."""
    opened: list[Any] = []
    open_file = draw_files._open

    class Broken:
        def __init__(self, writer: Any) -> None:
            self._writer = writer

        def write_table(self, table: pa.Table) -> None:
            raise error

        def close(self) -> None:
            self._writer.close()

    def opening(*given: Any, **options: Any) -> Any:
        opened.append(open_file(*given, **options))
        return Broken(opened[-1]) if len(opened) == 2 else opened[-1]

    monkeypatch.setattr(draw_files, "_open", opening)


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("error", "raised"), [(FULL, OutputError), (KeyboardInterrupt(), KeyboardInterrupt), (ValueError(), ValueError)]
)
@pytest.mark.parametrize("there", [False, True])
def test_a_crash_leaves_what_was_there(
    folder: ReleaseFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    raised: Any,
    there: bool,
) -> None:
    target = tmp_path / "new" / "draws" if not there else tmp_path / "draws"
    before = {}
    if there:
        write_draws(completion(folder), target, "csv")
        before = {path.name: path.read_bytes() for path in target.iterdir()}
    fail_on_second(monkeypatch, error)
    with pytest.raises(raised):
        write_draws(completion(folder), target, "parquet", force=True)
    assert {path.name for path in tmp_path.iterdir()} == ({"draws"} if there else set())
    if there:
        assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_a_disk_that_is_full_at_the_end_is_an_error_of_ours(
    folder: ReleaseFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held back until a file is closed may be what does not fit."""

    class Held:
        def write_table(self, table: pa.Table) -> None:
            pass

        def close(self) -> None:
            raise FULL

    monkeypatch.setattr(draw_files, "_open", lambda *given, **options: Held())
    with pytest.raises(OutputError, match="disk is full"):
        write_draws(completion(folder), tmp_path / "draws", "parquet")
    with pytest.raises(OutputError, match="disk is full"):
        write_weights(Weighing(folder, "bucket", "disease"), tmp_path / "weights.csv")
    assert list(tmp_path.iterdir()) == []


def test_draws_replace_draws_alone(folder: ReleaseFolder, tmp_path: Path) -> None:
    target = tmp_path / "draws"
    write_draws(completion(folder), target, "csv")
    with pytest.raises(UsageError, match="is there already"):
        write_draws(completion(folder), target, "parquet")
    assert (target / "draw-01.csv").exists()
    write_draws(completion(folder), target, "parquet", force=True)
    assert sorted(path.name for path in target.iterdir()) == ["README.txt", "draw-01.parquet", "draw-02.parquet"]


def other_readme(folder: Path) -> None:
    (folder / README).write_text("My own files.")


def thesis(folder: Path) -> None:
    (folder / "draw-of-my-thesis.csv").write_text("mine")


def inner(folder: Path) -> None:
    (folder / "draw-03.csv").mkdir()


def without_readme(folder: Path) -> None:
    (folder / README).unlink()


@pytest.mark.parametrize("change", [other_readme, thesis, inner, without_readme])
def test_a_folder_of_somebody_else_is_not_replaced(
    folder: ReleaseFolder, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    target = tmp_path / "draws"
    write_draws(completion(folder), target, "csv")
    assert is_draws(target)
    change(target)
    assert not is_draws(target)
    before = sorted(path.name for path in target.iterdir())
    with pytest.raises(UsageError, match="not of this kind"):
        write_draws(completion(folder), target, "csv", force=True)
    assert sorted(path.name for path in target.iterdir()) == before


def test_a_release_is_not_replaced_by_draws(tmp_path: Path) -> None:
    folder = released(patients(60), tmp_path / "release")
    with pytest.raises(UsageError):
        write_draws(completion(folder), tmp_path / "release", "csv", force=True)
    assert (tmp_path / "release" / "manifest.json").exists()


@pytest.mark.parametrize("kind", ["dta", "sav"])
@pytest.mark.parametrize("name", ["two words", "Straße", "a" * 33])
def test_names_that_a_program_does_not_take_are_refused(tmp_path: Path, kind: Format, name: str) -> None:
    table = patients(60).rename_columns([name, "ward", "name", "disease"])
    with pytest.raises(InputError, match="cannot have this name"):
        write_draws(completion(released(table, tmp_path / "r")), tmp_path / "draws", kind)
    assert not (tmp_path / "draws").exists()


@pytest.mark.parametrize(("kind", "name"), [("sav", "ALL"), ("sav", "_age")])
def test_names_that_mean_something_else_are_refused(tmp_path: Path, kind: Format, name: str) -> None:
    table = patients(60).rename_columns([name, "ward", "name", "disease"])
    with pytest.raises(InputError, match="names or values"):
        write_draws(completion(released(table, tmp_path / "r")), tmp_path / "draws", kind)
    assert not (tmp_path / "draws").exists()


def test_values_that_a_program_does_not_have_are_refused(tmp_path: Path) -> None:
    """And the message does not quote them."""
    weight = pa.array([np.inf if place % 9 == 0 else place / 2 for place in range(60)])
    folder = released(patients(60).append_column("weight", weight), tmp_path / "r",
                      quasi_identifiers=["age", "weight"])  # fmt: skip
    with pytest.raises(InputError, match=r"a \.dta file cannot have") as error:
        write_draws(completion(folder), tmp_path / "draws", "dta")
    assert not any(disease in str(error.value) for disease in DISEASES)


BIG = 2**53 + 1  # the first whole number that a floating-point number does not hold


@pytest.mark.parametrize("kind", ["dta", "sav"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([BIG] * 60, pa.int64()),
        pa.array([None, -BIG] * 30, pa.int64()),
        pa.array([2**63 + place for place in range(60)], pa.uint64()),
        pa.array([Decimal(BIG)] * 60, pa.decimal128(20, 0)),
        pa.array([Decimal(f"{BIG}.25")] * 60, pa.decimal128(20, 2)),
    ],
)
def test_numbers_that_would_be_rounded_are_refused(tmp_path: Path, kind: Format, column: pa.Array) -> None:
    folder = released(patients(60).drop_columns(["name"]).append_column("code", column), tmp_path / "r",
                      quasi_identifiers=["age", "code"])  # fmt: skip
    with pytest.raises(InputError, match=rf"beyond 2\^53, which a \.{kind} file cannot have(.|\n)*parquet") as error:
        write_draws(Completion(folder, 1), tmp_path / "draws", kind)
    assert str(BIG) not in str(error.value)
    assert not (tmp_path / "draws").exists()


@pytest.mark.parametrize("kind", ["dta", "sav"])
def test_the_largest_number_that_is_not_rounded_is_written(tmp_path: Path, kind: Format) -> None:
    codes = pa.array([None if place % 9 == 0 else 2**53 - place % 2 for place in range(60)], pa.int64())
    folder = released(patients(60).drop_columns(["name"]).append_column("code", codes), tmp_path / "r",
                      quasi_identifiers=["age", "code"])  # fmt: skip
    write_draws(Completion(folder, 1), tmp_path / "draws", kind)
    found = READERS[kind](tmp_path / "draws" / f"draw-01.{kind}")["code"].dropna().tolist()
    assert sorted(map(int, found)) == sorted(code for code in codes.to_pylist() if code is not None)


@pytest.fixture(name="few_files")
def with_few_files() -> Iterator[int]:
    """As many files as a program may have open, until it asks for more, and those that it can ask for."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_draws_are_written_than_files_may_be_open_at_first(
    folder: ReleaseFolder, tmp_path: Path, few_files: int
) -> None:
    names = write_draws(Completion(folder, few_files + 10, seed=1), tmp_path / "draws", "csv")
    assert len(names) == few_files + 11
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_files  # as it was


def test_draws_for_which_no_files_may_be_open_are_refused_before_anything_is_learned(
    folder: ReleaseFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (256, 256))
    monkeypatch.setattr("dalenius.analysis.learned.fit", None)
    with pytest.raises(UsageError, match=r"300 draws(.|\n)*256(.|\n)*Ask for fewer draws") as error:
        write_draws(Completion(folder, 300), tmp_path / "draws", "csv")
    assert str(tmp_path) not in str(error.value)
    assert not (tmp_path / "draws").exists()


def test_draws_are_not_put_into_a_release(tmp_path: Path) -> None:
    folder = released(patients(60), tmp_path / "release")
    for place in ("draws", "a/b/draws"):
        with pytest.raises(UsageError, match="in the folder of a release"):
            write_draws(completion(folder), tmp_path / "release" / place, "csv", force=True)
    (tmp_path / "manifest.json").write_text("{}")  # as other programs have, too
    write_draws(completion(folder), tmp_path / "new" / "draws", "csv")


@pytest.mark.parametrize("name", ["int", "_n", "str12", "if"])
def test_words_of_stata_are_refused(tmp_path: Path, name: str) -> None:
    """pandas would write them with another name."""
    table = patients(60).drop_columns(["name"]).rename_columns([name, "ward", "disease"])
    folder = released(table, tmp_path / "release")
    with pytest.raises(InputError, match=f"the column '{name}' cannot have this name"):
        write_draws(Completion(folder, 1), tmp_path / "draws", "dta")


def test_unknown_formats_are_refused(folder: ReleaseFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no format 'xlsx'"):
        write_draws(completion(folder), tmp_path / "draws", "xlsx")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_weights_are_written(folder: ReleaseFolder, tmp_path: Path, kind: str) -> None:
    target = tmp_path / f"weights.{kind}"
    weighing = Weighing(folder, "bucket")
    expected = plain_values(pa.concat_tables(list(weighing.pieces())))
    assert write_weights(weighing, target) == expected.num_rows
    if kind == "parquet":
        assert pyarrow.parquet.read_table(target).equals(expected)
    else:
        found = pd.read_csv(target)
        assert found["disease"].tolist() == expected["disease"].to_pylist()
        assert found[weighing.names[-1]].to_numpy() == pytest.approx(expected[weighing.names[-1]].to_numpy())
    with pytest.raises(UsageError, match="is there already"):
        write_weights(Weighing(folder, "bucket"), target)
    assert write_weights(Weighing(folder, "bucket"), target, force=True) == expected.num_rows
    with pytest.raises(UsageError, match="by what the name of the file ends in"):
        write_weights(weighing, tmp_path / "weights.xlsx")
    assert {path.name for path in tmp_path.iterdir()} == {target.name}

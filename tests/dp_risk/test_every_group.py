"""The file of all groups, against direct computation and the exact law; and what happens when it cannot be written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dalenius.dp_risk.every_group import GroupFile
from dalenius.dp_risk.group_tables import GroupTables
from dalenius.dp_risk.risk import dp_risk
from dalenius.errors import DaleniusError, InputError, OutputError, UsageError
from tests.dp_risk.exact import claimed_above, ratio_at_most
from tests.dp_risk.people import DRAWS, EPSILONS, LIMITS, people, risk, table

ROOM = math.sqrt(math.log(2 / 1e-9) / (2 * DRAWS))
COLUMNS = ["group", "named", "qi_Gender", "qi_Age", "value", "x", "y", "limit", "above", "epsilon"]
COLUMNS += ["theorem_mean", "theorem_variance", "median", "low", "high", "pinned"]
COLUMNS += ["release_mean_share", "release_largest_share", "release_group_mean_share"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        found = pyarrow.parquet.read_table(path)
    else:
        texts = {name: pa.string() for name in ("qi_Gender", "qi_Age", "value")}
        wanted = pyarrow.csv.ConvertOptions(
            column_types=texts, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        found = pyarrow.csv.read_csv(path, convert_options=wanted)
    assert found.column_names == COLUMNS
    return list(found.to_pylist())


@pytest.mark.parametrize("name", ["groups.parquet", "GROUPS.CSV"])
def test_every_row_against_direct_computation(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    found = risk(groups_file=path, least_shown=1, top=0)
    renamed = path.rename(tmp_path / name.lower())
    rows = rows_of(renamed)
    sizes = Counter((gender, str(age)) for gender, age, _ in people())
    counts = Counter((gender, str(age), disease) for gender, age, disease in people())
    assert len(rows) == found.group_rows == len(counts) * len(EPSILONS)
    seen = Counter((row["qi_Gender"], row["qi_Age"], row["value"], row["epsilon"]) for row in rows)
    assert seen == Counter((*cell, epsilon) for cell in counts for epsilon in EPSILONS)
    for row in rows:
        group = (row["qi_Gender"], row["qi_Age"])
        x, y, b, limit = sizes[group], counts[*group, row["value"]], 1 / row["epsilon"], row["limit"]
        assert (row["x"], row["y"], row["named"], limit) == (x, y, True, float(LIMITS[row["value"]]))
        assert row["above"] == (Fraction(y, x) > Fraction(LIMITS[row["value"]]))
        assert row["theorem_mean"] == pytest.approx(y / x * (1 + 2 * b * b / x**2))
        assert row["theorem_variance"] == pytest.approx(2 * b * b / x**2 * (1 + (y / x) ** 2))
        for column, share in (("low", 0.025), ("median", 0.5), ("high", 0.975)):
            assert ratio_at_most(row[column], x, y, b) == pytest.approx(share, abs=ROOM)
        expected = claimed_above(limit, x, y, b) if limit < 1 else 0.0
        assert row["pinned"] == pytest.approx(expected, abs=ROOM)
        assert 0 < row["release_mean_share"] <= row["release_largest_share"] <= limit
    by_group: dict[int, set[tuple[str | None, str]]] = {}
    for row in rows:
        by_group.setdefault(row["group"], set()).add((row["qi_Gender"], row["qi_Age"]))
    assert list(by_group) == [1, 2, 3, 4]
    assert all(len(keys) == 1 for keys in by_group.values())
    assert [row["x"] for row in rows] == sorted((row["x"] for row in rows), reverse=True)
    for number in by_group:
        of_group = [row for row in rows if row["group"] == number and row["epsilon"] == EPSILONS[0]]
        mean = sum(row["y"] * row["release_mean_share"] for row in of_group) / of_group[0]["x"]
        assert [row["release_group_mean_share"] for row in of_group] == [pytest.approx(mean)] * len(of_group)


def test_the_file_agrees_with_the_listed_groups(tmp_path: Path) -> None:
    found = risk(groups_file=tmp_path / "groups.parquet", least_shown=1, draws=200)
    rows = rows_of(tmp_path / "groups.parquet")
    assert len(found.top) == 3
    for group in found.top:
        assert group.group is not None
        for value in group.values:
            same = [
                row
                for row in rows
                if (row["qi_Gender"], row["qi_Age"], row["value"])
                == (group.group["Gender"], group.group["Age"], value.value)
            ]
            assert [row["epsilon"] for row in same] == list(EPSILONS)  # in the order given
            for row, ratio, chance in zip(same, value.ratios, value.pinned, strict=True):
                assert (row["median"], (row["low"], row["high"])) == (ratio.median, ratio.interval)
                assert (row["pinned"], row["above"]) == (chance, value.above)
                assert group.release is not None
                assert row["release_group_mean_share"] == pytest.approx(group.release.mean_share)
                assert row["release_mean_share"] == pytest.approx(value.released_mean)


def test_small_groups_have_no_quasi_identifiers(tmp_path: Path) -> None:
    risk(groups_file=tmp_path / "groups.parquet", least_shown=7, draws=100)
    for row in rows_of(tmp_path / "groups.parquet"):
        shown = (row["qi_Gender"], row["qi_Age"])
        assert (row["named"], shown) == ((True, ("M", "50")) if row["x"] == 60 else (False, (None, None)))


def test_the_numbers_of_unnamed_groups_do_not_follow_their_quasi_identifiers(tmp_path: Path) -> None:
    rows: list[tuple[str | None, int, str]] = [("F", 100 + i, f"v{i:03}") for i in range(200)]
    orders = []
    for name in ("one.parquet", "two.parquet"):
        settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "epsilons": [1], "draws": 100}
        dp_risk(table(rows), {"uniform": 1}, **settings, groups_file=tmp_path / name)
        orders.append(pyarrow.parquet.read_table(tmp_path / name)["value"].to_pylist())
    assert sorted(orders[0]) == sorted(orders[1]) == [value for _, _, value in rows]
    assert orders[0] not in (orders[1], sorted(orders[0]))


def test_rows_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalenius.dp_risk.group_tables._ROWS_AT_ONCE", 50)
    monkeypatch.setattr("dalenius.dp_risk.group_tables._TRIPLES_AT_ONCE", 64)
    monkeypatch.setattr("dalenius.dp_risk.every_group._CELLS_OF_A_BLOCK", 700)
    written: list[int] = []
    write = GroupFile.write

    def counting(self: GroupFile, batch: pa.RecordBatch) -> None:
        written.append(batch.num_rows)
        write(self, batch)

    monkeypatch.setattr(GroupFile, "write", counting)
    rows: list[tuple[str | None, int, str]] = [("F", i % 97, f"v{i % 7}") for i in range(5000)]
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "epsilons": [1, 2], "draws": 100}
    found = dp_risk(table(rows), {"uniform": 1}, **settings, groups_file=tmp_path / "groups.csv")
    assert sum(written) == found.group_rows == 2 * 97 * 7
    assert max(written) <= 50
    lines = (tmp_path / "groups.csv").read_text().splitlines()
    assert len(set(lines)) == len(lines) == 1 + 2 * 97 * 7


def test_an_existing_file_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("old")
    with pytest.raises(UsageError, match="already exists") as caught:
        risk(groups_file=path, draws=100)
    assert "--force" in (caught.value.hint or "")
    assert path.read_text() == "old"
    risk(groups_file=path, draws=100, force=True)
    assert path.read_text().startswith('"group"')
    assert [entry.name for entry in tmp_path.iterdir()] == ["groups.csv"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("failure", [InputError("broken"), OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("before", [True, False])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, before: bool
) -> None:
    path = tmp_path / "groups.parquet"
    if before:
        path.write_text("old")
    write = GroupFile.write

    def broken(self: GroupFile, batch: pa.RecordBatch) -> None:
        write(self, batch)
        raise failure

    if isinstance(failure, OSError):
        monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_batch", _raising(failure))
    else:
        monkeypatch.setattr(GroupFile, "write", broken)
    with pytest.raises(OutputError if isinstance(failure, OSError) else type(failure)):
        risk(groups_file=path, draws=100, force=True)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("groups.parquet", "old")] * before


def _raising(failure: BaseException) -> Any:
    def raising(*_: Any, **__: Any) -> None:
        raise failure

    return raising


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "groups.csv"
    every = GroupTables.every_row

    def slowly(self: GroupTables, *given: Any) -> Iterator[pa.RecordBatch]:
        path.write_text("another's")
        yield from every(self, *given)

    monkeypatch.setattr(GroupTables, "every_row", slowly)
    with pytest.raises(UsageError, match="already exists"):
        risk(groups_file=path, draws=100)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("groups.csv", "another's")]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("groups.txt", UsageError, "'.txt'"),
        ("groups", UsageError, "''"),
        ("folder.csv", UsageError, "folder"),
        ("nowhere/groups.csv", OutputError, "cannot be written"),
        ("file/groups.csv", OutputError, "cannot be written"),
        ("x" * 300 + ".csv", OutputError, "cannot be written"),
        ("/proc/groups.csv", OutputError, "cannot be written"),
    ],
)
def test_places_that_cannot_be(tmp_path: Path, name: str, kind: type[DaleniusError], words: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(entry.name for entry in tmp_path.rglob("*"))
    with pytest.raises(kind, match=words):
        dp_risk(  # a table that is not there: the place is looked at before anything is read
            tmp_path / "none.csv", {"uniform": 1}, sensitive="s", quasi_identifiers=["q"], epsilons=[1],
            groups_file=tmp_path / name, force=True,
        )  # fmt: skip
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == before


def test_the_table_itself_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("Age,Disease\n1,Flu\n2,Cold\n")
    (tmp_path / "link.csv").symlink_to(path)
    for source, target in ((path, path), (tmp_path / "link.csv", path), (path, tmp_path / "link.csv")):
        with pytest.raises(UsageError, match="the table itself"):
            dp_risk(source, {"uniform": 1}, sensitive="Disease", quasi_identifiers=["Age"], epsilons=[1],
                    groups_file=target, force=True)  # fmt: skip
    assert path.read_text() == "Age,Disease\n1,Flu\n2,Cold\n"


def test_without_quasi_identifiers_there_are_no_groups_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="quasi-identifiers"):
        risk(quasi_identifiers=(), where="Age = 40", groups_file=tmp_path / "groups.csv")
    assert not list(tmp_path.iterdir())


def test_without_a_release_its_columns_are_null(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Gender", "Age"], "epsilons": [1]}
    path = tmp_path / "groups.parquet"
    dp_risk(table(), {"uniform": "0.2"}, **settings, draws=100, groups_file=path)
    for row in rows_of(path):
        assert {row[name] for name in COLUMNS[-3:]} == {None}


def test_quasi_identifiers_may_have_any_name(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 1, 2], "v": ["a", "a", None], 'q"0': ["", "", None], "s": ["Flu", "Cold", "Flu"]})
    settings: dict[str, Any] = {"sensitive": "s", "quasi_identifiers": ["x", "v", 'q"0'], "epsilons": [1]}
    path = tmp_path / "groups.csv"
    dp_risk(rows, {"uniform": 1}, **settings, draws=100, groups_file=path, least_shown=1)
    lines = path.read_text().splitlines()
    assert lines[0].startswith('"group","named","qi_x","qi_v","qi_q""0","value","x","y"')
    assert sorted(line.split(",0.0")[0].split(",1,true")[0].split(",1,false")[0] for line in lines[1:]) == [
        '1,true,"1","a","","Cold",2,1',
        '1,true,"1","a","","Flu",2,1',
        '2,true,"2",,,"Flu",1,1',
    ]

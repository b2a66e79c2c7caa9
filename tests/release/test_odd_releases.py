"""Releases that nobody would make: every command gives a finding or an error, and never fails itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.cli.main import main
from dalenius.errors import ReleaseError, UsageError
from dalenius.release.staging import check_target
from dalenius.release.store import LocalStore
from dalenius.release.two_tables import named_type
from tests.effort import cases, examples
from tests.handmade import edit_manifest, hospital, restate_hashes

NUMBERS = st.one_of(
    st.integers(-3, 80),
    st.sampled_from([2**31 - 1, 2**31, 99_999_999_999]),
    st.sampled_from(["9" * 5000, "007", "+3", "1_0", "٣", "", " 1", "0x1"]),
)
INDICES = st.sampled_from(["int8", "int32", "uint64", "string", "double", "bool", "", "int8, ordered=0", "\x00"])
ZONES = st.one_of(
    st.sampled_from(["UTC", "Europe/Berlin", "+05:30", "+99:99", "", "Europe", "../UTC", "/etc/passwd", "localtime"]),
    st.text(max_size=5),
)
UNITS = st.sampled_from(["s", "ms", "us", "ns", "m", ""])
SIMPLE = st.one_of(
    st.builds("decimal{}({}, {})".format, st.sampled_from([32, 64, 128, 256, 512]), NUMBERS, NUMBERS),
    st.builds("fixed_size_binary[{}]".format, NUMBERS),
    st.builds("timestamp[{}, tz={}]".format, UNITS, ZONES),
    st.builds("{}[{}]".format, st.sampled_from(["timestamp", "time32", "time64", "duration", "date32"]), UNITS),
    st.sampled_from(["int64", "float64", "double", "str", "halffloat", "null", "list<item: int8>", "struct<a: int8>"]),
    st.text(max_size=8),
)
NAMES = st.recursive(
    SIMPLE,
    lambda inner: st.builds(
        "dictionary<values={}, indices={}, ordered={}>".format, inner, INDICES, st.sampled_from(["0", "1", "2"])
    ),
    max_leaves=3,
)
DEEP = "dictionary<values=" * 3000 + "string" + ", indices=int8, ordered=0>" * 3000
ODD = [
    "decimal128(99999999999, 2)",
    "dictionary<values=string, indices=string, ordered=0>",
    "timestamp[us, tz=Nowhere/City]",
    "dictionary<values=dictionary<values=string, indices=int8, ordered=0>, indices=int8, ordered=0>",
    "fixed_size_binary[999999999999]",
    "decimal128(5, 2147483647)",
    "decimal256(76, -3)",
    "fixed_size_binary[2147483647]",
    "month_day_nano_interval",
    DEEP,
]


@settings(max_examples=examples(1000))
@given(name=NAMES)
@example(DEEP)
def test_a_name_is_that_of_a_type_or_refused(name: str) -> None:
    try:
        found = named_type(name)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert str(found) == name
        assert not pa.types.is_timestamp(found) or len(pa.nulls(1, found).cast(pa.string())) == 1  # looks up its zone
    assert len(refusal) < 500


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(38, 0),
        pa.decimal256(76, 76),
        pa.binary(3),
        pa.timestamp("ns", "America/St_Johns"),
        pa.dictionary(pa.int32(), pa.timestamp("s", "+05:30"), ordered=True),
        pa.dictionary(pa.uint8(), pa.decimal64(3, 1)),
    ],
    ids=str,
)
def test_types_are_known_by_their_texts(kind: pa.DataType) -> None:
    assert named_type(str(kind)) == kind


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def judgements(release: Path) -> Iterator[Result]:
    """What the commands say that read a release."""
    yield run("verify", release)
    yield run("audit", release)
    yield run("report", release, "--out", release.parent / "report.html", "--force")
    for expression in ("Age > 40", "Zipcode IS NULL", "Disease = 'Flu'"):
        yield run("query", release, expression, "--no-measure")


def change_type(column: str, name: str) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        columns = manifest["columns"]
        for one in (*columns["quasi_identifiers"], columns["sensitive"]):
            if one["name"] == column:
                one["type"] = name

    return change


@pytest.mark.parametrize(
    ("name", "kind"),
    cases((ODD[0], "parquet"), (ODD[1], "csv"), (ODD[2], "csv"), *product(ODD, ["parquet", "csv"]), usually=3),
    ids=lambda name: name[:40],
)
def test_a_manifest_that_names_odd_types(name: str, kind: str, tmp_path: Path) -> None:
    for column in ("Zipcode", "Disease"):
        release = hospital().write(tmp_path / column, kind)
        edit_manifest(release, change_type(column, name))
        verified, *others = judgements(release)
        assert (verified.exit_code, "schema    FAILED" in verified.output) == (1, True), verified.output
        assert {result.exit_code for result in others} <= {0, 1, 2}, [result.output for result in others]


@pytest.mark.parametrize("table", ["qit", "st"])
def test_text_in_a_release_that_is_not_utf8(table: str, tmp_path: Path) -> None:
    release = hospital().write(tmp_path / "release")
    path = release / f"{table}.parquet"
    path.write_bytes(
        path.read_bytes().replace(b"71236" if table == "qit" else b"Gout", b"71\xff36"[: 5 - (table == "st")])
    )
    restate_hashes(release)
    verified, audited, _, *queries = judgements(release)
    assert verified.exit_code == 1
    assert "not UTF-8" in verified.output
    assert audited.exit_code == 2
    codes = [result.exit_code for result in queries]
    assert codes == ([0, 2, 0] if table == "qit" else [0, 0, 2])  # those who read the column


@contextmanager
def deepened(folder: Path, depth: int = 1200) -> Iterator[None]:
    """Folders in folders, for a while: what removes temporary folders would fail on them."""
    inner = [folder / "/".join(["d"] * number) for number in range(1, depth + 1)]
    for one in inner:
        one.mkdir()
    yield
    for one in reversed(inner):
        one.rmdir()


def test_folders_that_are_very_deep(tmp_path: Path) -> None:
    release = hospital().write(tmp_path / "release")
    with deepened(release):
        verified, *others = judgements(release)
        with pytest.raises(UsageError, match="is not a release"):
            check_target(release, replace=True)
    assert verified.exit_code == 1
    assert "files     FAILED  the folder has folders that are more than 16 deep" in verified.output
    assert {result.exit_code for result in others} <= {0, 2}


def test_a_table_in_folders_that_are_very_deep(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    pyarrow.parquet.write_table(pa.table({"s": ["x", "y"]}), folder / "one.parquet")
    assert run("plan", folder, "--sensitive", "s", "--odds", "2").exit_code == 0
    publishing: list[str | Path] = ["publish", folder, "--out", tmp_path / "out", "--quasi-identifiers", "q"]
    with deepened(folder):
        results = [run(*words, "--sensitive", "s", "--odds", "2") for words in (["plan", folder], publishing)]
    assert [(result.exit_code, "50 deep" in result.output) for result in results] == [(2, True)] * 2


def test_files_are_listed_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/b", "a/c/d", "e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty" / "er").mkdir(parents=True)
    assert LocalStore(tmp_path).names() == ["a/b", "a/c/d", "e", "empty/er/"]
    monkeypatch.setattr("dalenius.release.store._MOST_FILES", 3)
    with pytest.raises(ReleaseError, match="more than 3 files"):
        LocalStore(tmp_path).names()


def test_a_release_of_an_older_program_with_types_that_are_not_published_any_more(tmp_path: Path) -> None:
    """They can be audited all the same."""
    made = hospital(
        types={"Age": pa.decimal32(5, 1), "Size": pa.float16(), "Stay": pa.duration("s")},
        rows=[(age, size, age) for age, size in zip(range(20, 32), [1.5, 2.5] * 6, strict=True)],
        values=[1, 2, 1, 3, 4, 1, 1, 2, 4, 2, 3, 1],
        sensitive=pa.decimal64(3, 0),
        limits={},
    )
    release = made.write(tmp_path / "release")
    assert dalenius.load(release).verify().verified
    result = run("audit", release)
    assert result.exit_code == 0, result.output

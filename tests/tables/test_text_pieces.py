"""Text files that an engine would read with rows missing: refused, or read from the beginning to the end."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import InputError
from dalenius.tables import text_check
from dalenius.tables.describe import describe
from dalenius.tables.open_table import open_table
from dalenius.tables.sources import open_source
from dalenius.tables.text_check import LONGEST, is_in_one_piece
from tests.effort import examples

PIECE = 8_000_000  # bytes, for each of DuckDB's threads
ROW = b"12345,78\n"


def write(path: Path, text: bytes) -> Path:
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def up_to(place: int) -> bytes:
    """A header and rows that end exactly there."""
    rows, left = divmod(place - len(b"a,b\n") - len(ROW), len(ROW))
    return b"a,b\n" + b"1" * left + ROW * (rows + 1)


def refusals(path: Path) -> set[str]:
    """What the ways of reading a table say: describing, counting and publishing."""
    with pytest.raises(InputError) as described:
        describe(path)
    with pytest.raises(InputError) as counted, open_table(path) as table:
        table.count_by_value("a")
    with pytest.raises(InputError) as published, open_source(path) as source:
        list(source.batches(["a", "b"]))
    return {error.value.message for error in (described, counted, published)}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("end", [b"", b"\n", b",y", b",y\n", b',"y\ny"\n', b",y\n3,4\n"])
def test_lines_that_are_too_long(end: bytes, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, b"a,b\n1,2\n" + b"x" * 33_000_000 + end)
    assert refusals(path) == {"the table has a line that is too long at line 3"}


@pytest.mark.parametrize("end", [b",y", b",y\n", b',"""y"\n'])
def test_lines_that_are_a_little_too_long(end: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"a,b\n1,2\n" + b"x" * LONGEST + end + ROW)
    (said,) = refusals(path)
    assert "too long at line 3" in said


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("after", [b"", ROW * 1000])
@pytest.mark.parametrize(("bad", "fields"), [(b"x\n", 1), (b"1,2,3\n", 3)])
def test_ragged_lines_where_a_piece_begins(bad: bytes, fields: int, after: bytes, name: str, tmp_path: Path) -> None:
    before = up_to(PIECE + 1)
    path = write(tmp_path / name, before + bad + after)
    line = before.count(b"\n") + 1
    assert refusals(path) == {f"the table is ragged at line {line}: {fields} fields where the header has 2"}


@pytest.mark.parametrize("rest", [b'1,"x\n', b'1,"x', b'"1,2\n' + ROW * 1000])
def test_quotes_that_are_not_closed(rest: bytes, tmp_path: Path) -> None:
    before = up_to(4 * PIECE - 3)
    path = write(tmp_path / "t.csv", before + rest)
    line = before.count(b"\n") + 1
    assert refusals(path) == {f"the table has a quote that does not fit at line {line}"}


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    before = up_to(PIECE + 1)
    line = before.count(b"\n") + 1
    path = write(tmp_path / "t.csv", before + b"caf\xe9,1\n")
    assert refusals(path) == {f"the table is not UTF-8 text at line {line}"}
    cut = write(tmp_path / "u.csv", b"a,b\n1,\xc3")
    assert refusals(cut) == {"the table is not UTF-8 text at line 2"}


def test_line_ends_inside_values_where_a_piece_begins(tmp_path: Path) -> None:
    value = "\n1,2\n" * 3
    before = up_to(PIECE - 6)
    path = write(tmp_path / "t.csv", before + b'1,"' + value.encode() + b'"\n' + ROW * 10)
    with open_table(path) as table:
        counts = table.count_by_value("b")
    assert dict(zip(counts.values, counts.counts, strict=True)) == {value: 1, "78": before.count(b"\n") - 1 + 10}


def test_files_are_cut_where_that_is_safe(tmp_path: Path) -> None:
    def asked(text: bytes) -> bool:
        return is_in_one_piece(write(tmp_path / "t.csv", text), ",", 2)

    assert not asked(b"a,b\n1,2\n\n3,4")
    assert not asked(b'\xef\xbb\xbf"a",b\r\n"1,""x""",2\r\n\r\n"",""\r\n')
    assert not asked(b"a,b\r\n1,2\r\n3,4")
    assert asked(b'a,b\n1,"x\ny"\n')
    assert asked(b'a,b\r\n1,"x\ry"\r\n')
    assert asked(b"a,b\n5'10\",2\n")
    assert asked(b"a,b\r1,2\r3,4")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"b\n5'10\"\n", ("5'10\"",)),
        (b"a,b\r1,x\r2,y\r", ("x", "y")),
        (b'a,b\r\n1,"x\ny"\r\n\r\n', ("x\ny",)),
        (b"a,b\n1,\x00\n", ("\x00",)),
    ],
)
def test_unusual_files_are_still_read(text: bytes, values: tuple[str, ...], tmp_path: Path) -> None:
    with open_table(write(tmp_path / "t.csv", text)) as table:
        assert table.count_by_value("b").values == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a,b\n1,2\r\n3,4\n", "not valid CSV at line 2"),
        (b"a,b\n1,2\n3,4\r", "not valid CSV at line 3"),
        (b'a,b\n1,"x"y\n3,4\n', "quote that does not fit at line 2"),
        (b'a,b\n2,"x"\n1, "x"\n', "quote that does not fit at line 3"),
        (b'a,b\n2,"x"\n1,"x" \n', "quote that does not fit at line 3"),
        (b'a,b\n1, "x"\n' + ROW * (LONGEST // len(ROW) + 1), "quote that does not fit at line 2"),
        (b"a,b\n1,x\n2,y,\n", "ragged at line 3: 3 fields"),
        (b'a,b\n1,"x"\n2,"y",\n', "ragged at line 3: 3 fields"),
        (b'a,b\n1,"x"y\n' + ROW * (LONGEST // len(ROW) + 1), "quote that does not fit at line 2"),
        (b'a,b\n"1\n1",2\n3\n', "ragged at line 4: 1 fields"),
    ],
)
def test_what_is_wrong_is_said(text: bytes, message: str, tmp_path: Path) -> None:
    (said,) = refusals(write(tmp_path / "t.csv", text))
    assert message in said


@pytest.mark.parametrize("place", [-6, 1000])  # in the checksum, and in the data
def test_damaged_archives_are_refused(place: int, tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i % 97) for i in range(50_000))))
    whole[place] ^= 1
    (tmp_path / "t.csv.gz").write_bytes(whole)
    assert len(refusals(tmp_path / "t.csv.gz")) == 1


def test_a_file_that_changed_is_checked_again(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"a,b\n1,2\n")
    assert describe(path).rows == 1
    write(path, b"a,b\n1,2\n3\n")
    assert refusals(path) == {"the table is ragged at line 3: 1 fields where the header has 2"}


def is_whole(text: str, fields: int) -> bool:
    """Whether Python's reader finds records of so many fields."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return False
    return all(len(row) in (0, fields) for row in rows)


@settings(max_examples=examples(400))
@given(
    text=st.lists(st.sampled_from(["x", "ä", ",", ",", "\n", "\n", '"', '""', '"x"', '"x,\ny"', "1,2\n", '"1","2"\n'])),
    block=st.sampled_from([6, 7, 11, 2**22]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_the_same_as_another_reader(text: list[str], block: int, line_end: str) -> None:
    whole = ("a,b\n" + "".join(text)).replace("\n", line_end)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_check, "_BLOCK", block)
        path = write(Path(folder) / "t.csv", whole.encode())
        try:
            is_in_one_piece(path, ",", 2)
            passed = True
        except InputError:
            passed = False
    assert passed == is_whole(whole, 2)

"""Text files: what Python's csv module reads is what the engine gives, and what is not whole is refused."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import InputError
from dalenius.tables import text_check
from dalenius.tables.open_table import open_table
from dalenius.tables.text_check import is_in_one_piece
from tests.effort import examples

CELLS = st.text(st.sampled_from('ab,"\n;é'), min_size=1, max_size=6)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12)
PIECE = 32_000_000  # bytes that DuckDB reads at once


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@settings(max_examples=examples(40))
@given(rows=ROWS, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), block=st.integers(1, 40))
def test_records_are_those_of_the_csv_module(rows: list[tuple[str, str, str]], quoting: int, block: int) -> None:
    out = io.StringIO()
    writer = csv.writer(
        out, quoting=csv.QUOTE_ALL if quoting == csv.QUOTE_ALL else csv.QUOTE_MINIMAL, lineterminator="\n"
    )
    writer.writerows([("A", "B", "C"), *rows])
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_check, "_BLOCK", block)
        path = Path(made, "t.csv")
        path.write_bytes(out.getvalue().encode())
        with open_table(path) as table:
            assert table.relation.fetchall() == rows
        inside = any("\n" in cell for row in rows for cell in row)
        assert is_in_one_piece(path, ",", 3) or not inside


ODD = st.sampled_from(['"a b"', ' "a"', '"a" ', '"a,b"', "a", "", " a ", '""', '""""', '"\n"', 'a"b', '\t"a"', '"a"\t'])


@settings(max_examples=examples(120))
@given(records=st.lists(st.lists(ODD, min_size=2, max_size=3), min_size=1, max_size=4))
def test_odd_records_are_those_of_the_csv_module_or_refused(records: list[list[str]]) -> None:
    """Never other values than Python reads; blanks around quotes, and one field too many, never pass."""
    text = "A,B\n" + "\n".join(",".join(fields) for fields in records)
    wanted = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))][1:]
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "t.csv")
        path.write_bytes(text.encode())
        try:
            with open_table(path) as table:
                read = [tuple(cell or "" for cell in row) for row in table.relation.fetchall()]
        except InputError:
            odd = any(field.strip(" \t") != field and '"' in field for fields in records for field in fields)
            assert odd or any(len(fields) != 2 for fields in records)
        else:
            assert read == wanted


@pytest.mark.parametrize(
    ("line", "why"),
    [(b"x" * 50, "ragged"), (b"1,2,3", "ragged"), (b'1,"2', "quote"), (b"1,\xff", "UTF-8"), (b'1,"2" 3', "quote")],
)
def test_a_bad_record_where_one_piece_ends_is_refused(line: bytes, why: str, folder: Path) -> None:
    head, row = b"a,b\n", b"12345,78\n"
    rows = (PIECE - len(head)) // len(row)
    path = folder / "t.csv"
    path.write_bytes(head + row * rows + line + b"\n" + row * 1000)
    with pytest.raises(InputError, match=why) as caught, open_table(path) as table:
        table.count_by_value("a")
    assert str(rows + 2) in f"{caught.value}".replace(",", "") or why == "quote"


def test_a_last_line_that_is_too_long_is_refused(folder: Path) -> None:
    path = folder / "t.csv"
    path.write_bytes(b"a,b\n1,2\n" + b"x" * 40_000_000)
    with pytest.raises(InputError, match="too long"), open_table(path):
        pass

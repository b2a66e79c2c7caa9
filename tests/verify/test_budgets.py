"""Files that say more of themselves than they can be: a verdict or a clear error, within a memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.cli.main import main
from dalenius.errors import MemoryLimitError, ReleaseError, UsageError
from dalenius.model.memory import MIB, ReadingMemory, resident_memory
from dalenius.release.admission import MOST_ROWS, admit_parquet, require_modest
from dalenius.release.folder import open_release
from dalenius.release.thrift import sum_of_deltas
from dalenius.verify.judge import verify
from fuzz.thrift_tree import read_tree, write_tree
from tests.effort import examples
from tests.handmade import hospital, restate_hashes
from tests.verify.hostile import CASES, COMMANDS, make
from tests.verify.test_coverage import varint

ROOM = ReadingMemory(2**30, 2**29)
FORMATS = Path(__file__).parents[1] / "release" / "formats"
Results = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What became of every hostile release, in a process that may not grow by more than 2 GB."""
    folder = tmp_path_factory.mktemp("hostile")
    words = [sys.executable, "-m", "tests.verify.hostile", str(folder)]
    done = subprocess.run(words, capture_output=True, check=False, timeout=300, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found: Results = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", CASES)
def test_it_ends_in_a_verdict_or_a_clear_error(results: Results, case: str, command: str) -> None:
    result = results[f"{case} {command}"]
    assert result["code"] in ((1, 2) if command == "verify" else (2,)), result
    assert "unexpected" not in result["output"]


@pytest.mark.parametrize(
    ("case", "says"),
    {
        "run_lengths": "a row group of 1,073,741,824 rows",
        "many_dictionaries": "--memory",
        "one_after_the_other": "--memory",
        "large_page": "a page of 2,147,483,647 bytes in 3",
        "many_entries": "a dictionary of 1,073,741,824 entries in 7 bytes",
        "braces": "more than a release has",
        "many_values": "--memory",
        "many_columns": "are not the manifest's",
    }.items(),
)
def test_it_says_why(results: Results, case: str, says: str) -> None:
    assert says in results[f"{case} verify"]["output"]


def test_nothing_is_read_that_was_not_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_release(make("run_lengths", tmp_path))
    opened: list[Any] = []
    monkeypatch.setattr(pq, "ParquetFile", opened.append)
    for read in (lambda: next(folder.batches("st")), lambda: folder.admitted_paths("st"), lambda: folder.table("st")):
        with pytest.raises(ReleaseError, match="1,073,741,824 rows"):
            read()
    assert opened == []


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*/*/")), ids=lambda path: "-".join(path.parts[-2:]))
def test_what_was_ever_written_is_admitted(path: Path) -> None:
    assert verify(path, memory=resident_memory() + 256 * MIB).verified


@pytest.mark.parametrize("command", ["verify", "audit", "report"])
def test_memory_that_is_too_little_is_an_error_that_says_how_much(tmp_path: Path, command: str) -> None:
    folder = hospital().write(tmp_path / "release")
    more = ["-o", str(tmp_path / "report.html")] if command == "report" else []
    result = CliRunner().invoke(main, [command, str(folder), "--memory", "20MiB", *more])
    assert result.exit_code == 2
    assert "Give --memory" in result.output
    ended = CliRunner().invoke(main, [command, str(folder), "--memory", "8GB", *more])
    assert ended.exit_code == 0, ended.output
    assert CliRunner().invoke(main, [command, str(folder), "--memory", "much", *more]).exit_code == 2


@pytest.mark.parametrize("ask", ["verify", "audit", "report"])
def test_memory_from_python(tmp_path: Path, ask: str) -> None:
    release = dalenius.load(hospital().write(tmp_path / "release"))
    method = partial(getattr(release, ask), *([tmp_path / "report.html"] if ask == "report" else []))
    with pytest.raises(UsageError, match="20 MiB of memory are too little"):
        method(memory=20 * MIB)
    assert method(memory=2**33)


def test_memory_is_of_no_use_to_a_certificate(tmp_path: Path) -> None:
    words = ["verify", "--certificate", str(tmp_path / "proof.json"), "--memory", "1GB", "--uniform", "0.1"]
    assert "--memory is for a release" in CliRunner().invoke(main, words).output


def test_the_hint_is_enough() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        ROOM.require(2**28, ROOM.piece, "a page")
    assert caught.value.hint is not None
    total = int(caught.value.hint.split()[2].rstrip(",").removesuffix("MiB")) * MIB
    taken = ROOM.total - ROOM.spare
    ReadingMemory(total, total - taken).require(2**28, ReadingMemory(total, total - taken).piece, "a page")
    with pytest.raises(UsageError, match="too little"):
        ReadingMemory.of(10 * MIB)


class TestManifest:
    def test_text_may_have_any_signs(self) -> None:
        signs = '{[,\\"' * 10_000
        require_modest(json.dumps({"value": signs}).encode(), ROOM)
        with pytest.raises(ReleaseError, match="more than a release has"):
            require_modest(signs.replace('\\"', "").encode(), ROOM)

    @pytest.mark.parametrize(
        "text", ["[" * 1000, '["' + '\\"' * 100_000 + "{" * 200_000, '{"a":' * 3 + "[1,2,3,4,5,6,7,8]"]
    )
    def test_branches_are_counted(self, text: str) -> None:
        if '\\"' in text:
            require_modest(text.encode(), ROOM)  # a string that does not end has no branches
        else:
            with pytest.raises(ReleaseError, match="more than a release has"):
                require_modest(text.encode(), ROOM)

    def test_a_large_one_needs_memory(self) -> None:
        text = json.dumps([{"value": "abcdefgh", "count": 1}] * 200_000).encode()
        require_modest(text, ReadingMemory(2**34, 2**33))
        with pytest.raises(MemoryLimitError, match="the manifest would not fit"):
            require_modest(text, ROOM)


def written(table: pa.Table, **options: Any) -> io.BytesIO:
    content = io.BytesIO()
    pq.write_table(table, content, **options)
    return content


TYPES = [pa.int32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.decimal128(20, 2), pa.date32(), pa.null()]


class TestAdmission:
    @settings(max_examples=examples(80))
    @given(st.data())
    def test_whatever_arrow_writes_flat_is_admitted(self, data: st.DataObject) -> None:
        """With the encodings and codecs that releases were written with, in any pages and row groups."""
        rows = data.draw(st.integers(1, 300))
        columns = {}
        for place, kind in enumerate(data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))):
            texts = pa.array([str(number % 17 - 5) if number % 5 else None for number in range(rows)])
            columns[f"c{place}"] = _of_type(texts, kind)
        table = pa.table(columns)
        options = {
            "compression": data.draw(st.sampled_from(["snappy", "none"])),
            "row_group_size": data.draw(st.sampled_from([7, 100, 1000])),
            "data_page_size": data.draw(st.sampled_from([1, 64, 2**20])),
            "dictionary_pagesize_limit": data.draw(st.sampled_from([1, 2**20])),
            "use_dictionary": data.draw(st.booleans()),
            "data_page_version": data.draw(st.sampled_from(["1.0", "2.0"])),
            "write_statistics": data.draw(st.booleans()),
            "write_page_index": data.draw(st.booleans()),
        }
        admitted = admit_parquet(written(table, **options), "st.parquet", len(columns), ROOM)
        assert sum(number for number, _ in admitted.expanded) == rows
        assert admitted.rows_at_a_time(1000, 2**26) == 1000
        assert admitted.rows_at_a_time(1000, 1) == 1

    @pytest.mark.parametrize("codec", ["gzip", "zstd", "brotli"])
    def test_codecs_that_no_release_has_are_not(self, codec: str) -> None:
        table = pa.table({"a": ["text"] * 10})
        with pytest.raises(ReleaseError, match="damaged"):
            admit_parquet(written(table, compression=codec), "st.parquet", 1, ROOM)

    @pytest.mark.parametrize(
        "table",
        [pa.table({"a": [1], "b": [2]}), pa.table({"a": [[1, 2]]}), pa.table({"a": [{"b": 1}]})],
        ids=["more columns", "a list", "a structure"],
    )
    def test_columns_are_flat_and_as_many_as_stated(self, table: pa.Table) -> None:
        with pytest.raises(ReleaseError, match="damaged"):
            admit_parquet(written(table), "st.parquet", 1, ROOM)

    def test_row_groups_are_short(self) -> None:
        table = pa.table({"a": pa.nulls(MOST_ROWS + 1, pa.int8())})
        with pytest.raises(ReleaseError, match="row group of 1,048,577 rows"):
            admit_parquet(written(table, row_group_size=2**21), "st.parquet", 1, ROOM)
        admit_parquet(written(table, row_group_size=2**20), "st.parquet", 1, ROOM)

    def test_sizes_that_do_not_fit_the_column_are_refused(self, tmp_path: Path) -> None:
        """Arrow ends the program on them: here a column that may have nulls says that it may not."""
        folder = hospital().write(tmp_path, format=3)
        path = folder / "st.parquet"
        content = path.read_bytes()
        length = int.from_bytes(content[-8:-4], "little")
        tree = read_tree(content[-8 - length : -8])
        leaf = dict(tree.value)[2].value[1]
        dict(leaf.value)[3].value = 0
        footer = write_tree(tree)
        path.write_bytes(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        restate_hashes(folder)
        verdict = verify(folder)
        assert "damaged" in verdict["schema"].summary

    def test_text_that_goes_on_from_the_last_is_measured(self) -> None:
        texts = ["the same start of all, and then " + str(number) * (number % 7) for number in range(500)]
        options = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}, "data_page_version": "2.0"}
        for codec in ("snappy", "none"):
            content = written(pa.table({"a": texts}), compression=codec, **options)
            ((rows, size),) = admit_parquet(content, "st.parquet", 1, ROOM).expanded
            assert rows == 500
            assert sum(map(len, texts)) <= size < 2 * sum(map(len, texts)) + 4 * rows + 5000


def _of_type(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        return pa.array([None if text is None else len(text.as_py() or "") > 1 for text in texts])
    if kind in (pa.date32(), pa.decimal128(20, 2)):
        return texts.cast(pa.int32()).cast(kind)
    return pa.nulls(len(texts)) if kind == pa.null() else texts.cast(kind)


@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=700))
def test_the_sum_of_deltas_is_that_of_the_numbers(numbers: list[int]) -> None:
    """Arrow packs them, and the page is taken from the file behind its header."""
    table = pa.table(
        {"a": pa.array(numbers, pa.int32())}, schema=pa.schema([pa.field("a", pa.int32(), nullable=False)])
    )
    options = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BINARY_PACKED"}, "compression": "none"}
    content = written(table, **options).getvalue()
    start = content.index(varint(128) + varint(4) + varint(len(numbers)) + varint(numbers[0] << 1))
    assert sum_of_deltas(content[start:], len(numbers), 2**20) == sum(numbers)


def test_long_text_is_spelled_out_in_small_pieces(tmp_path: Path) -> None:
    folder = open_release(make("long_dictionary", tmp_path), resident_memory() + 512 * MIB)
    batches = folder.batches("st")
    first = next(batches)
    batches.close()
    assert first.column("Disease").type == pa.string()
    assert first.nbytes <= folder.memory.batch + 2**20
    assert first.num_rows < 100

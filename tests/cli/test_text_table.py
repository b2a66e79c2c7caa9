"""Tables on the terminal: at their own width, aligned, and safe to print."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dalenius.cli.main import main
from dalenius.cli.text_table import TextTable, printable, show_pairs


def test_numbers_are_aligned_right_and_names_left(capsys: pytest.CaptureFixture[str]) -> None:
    table = TextTable(("value", "count"), left=("value",), title="2 values", caption="All of them.")
    table.add("Flu", "90")
    table.add("Influenza", "1,000")
    table.show()
    rule = "─" * len("Influenza   1,000")
    lines = [
        "2 values",
        " value       count",
        f" {rule}",
        " Flu            90",
        " Influenza   1,000",
        "",
        "All of them.",
    ]
    assert capsys.readouterr().out.splitlines() == lines


def test_wide_characters_and_accents_keep_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    table = TextTable(("value", "count"), left=("value",))
    table.add("流感", "1")
    table.add("e\u0301a", "2")
    table.show()
    assert capsys.readouterr().out.splitlines()[2:4] == [" 流感        1", " e\u0301a          2"]


def test_a_table_without_rows_has_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    TextTable(("value", "count")).show()
    assert capsys.readouterr().out.startswith(" value   count\n")


def test_pairs_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    show_pairs([("loss", "4"), ("seconds", "0.1")])
    assert capsys.readouterr().out == "loss     4\nseconds  0.1\n"


def test_text_from_the_data_cannot_move_the_cursor() -> None:
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert printable("x" * 50) == "x" * 37 + "..."


@pytest.mark.parametrize(("environment", "has_color"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colors_can_be_switched_off(tmp_path: Path, environment: dict[str, str], has_color: bool) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text("value,count\nFlu,30\nCold,20\nGout,10\n", encoding="utf-8")
    words = ["plan", "--counts", str(counts), "--uniform", "1/2"]
    shown = CliRunner(env={"NO_COLOR": None, **environment}).invoke(main, words, color=True)
    assert shown.exit_code == 0
    assert ("\x1b[" in shown.stdout) is has_color

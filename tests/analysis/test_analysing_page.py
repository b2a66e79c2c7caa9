"""Every example of docs/analysing.md is run, in the order of the page, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.page_examples import NOT_RUN, PAGE, alike, examples, run

EXAMPLES = list(examples(PAGE.read_text(encoding="utf-8")))


def test_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    for example in EXAMPLES:
        if example.path.suffix in NOT_RUN:
            continue
        printed = run(example, tmp_path)
        assert not example.shown or alike(printed, example.shown), f"{example.path.name} prints\n{printed}"


def test_what_examples_print_is_on_the_page() -> None:
    silent = {"make_release.py", "export.sh", "crosstab.sh", "complete.sh", "query.sh"}
    for example in EXAMPLES:
        expected = example.path.suffix not in NOT_RUN and example.path.name not in silent
        assert example.shown or not expected, example.path.name


def test_every_file_is_on_the_page_once() -> None:
    files = sorted(PAGE.with_suffix("").iterdir())
    assert sorted(example.path for example in EXAMPLES) == files


def test_code_that_is_in_no_file_is_found() -> None:
    with pytest.raises(ValueError, match="no test runs: print"):
        list(examples("```python\nprint(1)\n```\n"))


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("age  0.032 (0.030)\n", "age   0.033 (0.030)\n", True),  # draws differ between processors
        ("age  0.032\n", "age  0.092\n", False),
        ("age  -0.1\n", "age  0.1\n", True),  # two units of the last digit
        ("age  -0.10\n", "age  0.10\n", False),
        ("age  0.032\n", "bmi  0.032\n", False),
        ("age  0.032\n", "age  0.032 0.001\n", False),
        ("age  0.032\n", "age  0.032\nbmi  0.2\n", False),
        ("p = 1.2e-30\n", "p = 3e-18\n", True),
        ("p = 0.2\n", "p = 3e-18\n", True),
        ("p = 0.25\n", "p = 3e-18\n", False),
        ("1,234 people\n", "1,300 people\n", True),
        ("1,234 people\n", "2,300 people\n", False),
    ],
)
def test_what_counts_as_the_same(printed: str, shown: str, same: bool) -> None:
    assert alike(printed, shown) is same

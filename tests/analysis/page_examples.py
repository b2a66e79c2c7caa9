"""The examples of docs/analysing.md: what they are, what they print, and whether the page still says so.

`python -m tests.analysis.page_examples` writes what they print now into the page. The page includes the files of
docs/analysing. The block of text behind a file is what it prints. Draws differ a little between processors, so a test
asks for the same words, and for numbers that are close.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "analysing.md"
NOT_RUN = (".R", ".do", ".sps")  # R is run by tests/r, and the others are run by nobody here

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_INCLUDED = re.compile(r'--8<-- "(docs/analysing/[\w.]+)"\n')
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_SQL = "import sys, duckdb; print(duckdb.sql(open(sys.argv[1], encoding='utf-8').read()))"
_CLOSE = 0.3  # of a number, that it may change between processors
_NOTHING = 1e-6
_UNITS = 2.01  # of the last digit that is shown, that any number may change
_SECONDS = 120  # until an example has to have ended: the machine may be busy


@dataclass(frozen=True)
class Example:
    """A file of the page, what the page says that it prints, and where the page says so."""

    path: Path
    shown: str
    span: tuple[int, int]


def examples(page: str) -> Iterator[Example]:
    """The examples of a page in their order; a ValueError if code on it is in no file."""
    for block in _BLOCK.finditer(page):
        language, code, shown = block.groups()
        if language == "text":
            continue
        included = _INCLUDED.fullmatch(code)
        if included is None:
            raise ValueError(f"code on the page that no test runs: {code.splitlines()[0]}")
        yield Example(ROOT / included.group(1), shown or "", block.span(3))


def run(example: Example, folder: Path) -> str:
    """What a file prints in a folder, without blanks at the ends of lines."""
    commands = {
        ".py": [sys.executable, str(example.path)],
        ".sh": ["sh", "-e", str(example.path)],
        ".sql": [sys.executable, "-c", _SQL, str(example.path)],
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "100"}
    settings["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        commands[example.path.suffix],
        cwd=folder, env=settings, capture_output=True, encoding="utf-8", timeout=_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{example.path.name} failed:\n{done.stdout}{done.stderr}")
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def alike(printed: str, shown: str) -> bool:
    """Whether two texts have the same words, line by line, and numbers that are close to each other."""
    lines = printed.splitlines(), shown.splitlines()
    return len(lines[0]) == len(lines[1]) and all(map(_alike, *lines))


def _alike(one: str, other: str) -> bool:
    words = [[re.sub(r"[\s─]+", " ", word) for word in _NUMBER.split(line)] for line in (one, other)]
    numbers = [_NUMBER.findall(line) for line in (one, other)]
    return words[0] == words[1] and all(map(_close, *numbers))


def _close(one: str, other: str) -> bool:
    numbers = [float(text.replace(",", "")) for text in (one, other)]
    decimals = max(len(text.partition("e")[0].partition(".")[2]) for text in (one, other))
    most = max(abs(number) for number in numbers)
    return most < _NOTHING or abs(numbers[0] - numbers[1]) <= max(_CLOSE * most, _UNITS * 10**-decimals)


def current(page: str) -> str:
    """The page with what its examples print now."""
    parts, end = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for example in examples(page):
            if example.path.suffix in NOT_RUN:
                continue
            printed = run(example, Path(folder))
            if example.shown:
                start, stop = example.span
                parts += [page[end:start], printed]
                end = stop
    return "".join([*parts, page[end:]])


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

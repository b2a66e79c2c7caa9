"""The page about a run: every picture with what the paper says, what this run found, and whether they agree.

It names the machine as well, since times depend on it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from dalenius.model import VERSION
from paper.experiment import Claim, Table, Verdict

_WORDS = {
    Verdict.AGREES: "agree",
    Verdict.PARTLY: "agree in part",
    Verdict.DIFFERS: "do not agree",
    Verdict.UNDECIDED: "cannot be said",
}
_MARKS = {Verdict.AGREES: "✓", Verdict.PARTLY: "◐", Verdict.DIFFERS: "✗", Verdict.UNDECIDED: "?"}


@dataclass(frozen=True)
class Result:
    """One experiment, as the page shows it."""

    name: str
    title: str
    about: str
    table: Table | None
    claims: tuple[Claim, ...]


def head(data: str, notes: Sequence[str], machine: dict[str, str]) -> str:
    """What was run, and on what."""
    return (
        "\n\n".join([f"# The paper's experiments on: {data}", *notes, f"Run on {describe_machine(machine)}."]) + "\n\n"
    )


def body(results: Sequence[Result], images: str = "") -> str:
    """All claims, and then every experiment, in Markdown; `images` is the folder of the pictures."""
    lines = ["## All claims", "", *_overview(results)]
    for result in results:
        lines += ["", f"## {result.title}", "", *_section(result, images)]
    return "\n".join(lines).rstrip() + "\n"


def tally(results: Sequence[Result]) -> dict[str, int]:
    """How many claims have each verdict."""
    verdicts = [claim.verdict for result in results for claim in result.claims]
    return {str(verdict): verdicts.count(verdict) for verdict in Verdict if verdict in verdicts}


def tally_sentence(results: Sequence[Result]) -> str:
    """The same in a sentence."""
    counts = tally(results)
    parts = ", ".join(f"{number} {_WORDS[Verdict(verdict)]}" for verdict, number in counts.items())
    return f"Of {sum(counts.values())} claims, {parts}"


def machine() -> dict[str, str]:
    """The machine's description."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "dalenius": VERSION,
        "cores": str(cores),
        "processor": platform.machine(),
        "python": platform.python_version(),
    }


def describe_machine(machine: dict[str, str]) -> str:
    """In words."""
    cores = machine["cores"]
    plural = "" if cores == "1" else "s"
    return f"{cores} {machine['processor']} core{plural}, Python {machine['python']}, Dalenius {machine['dalenius']}"


def _overview(results: Sequence[Result]) -> list[str]:
    lines = [f"{tally_sentence(results)}.", "", "| where | the paper says | verdict |", "|---|---|---|"]
    for result in results:
        lines += [f"| {c.where} | {_cell(c.paper)} | {_MARKS[c.verdict]} {c.verdict} |" for c in result.claims]
    return lines


def _section(result: Result, images: str) -> list[str]:
    lines = [result.about, "", f"![{result.title}]({images}{result.name}.svg)", ""]
    lines += [f"Data: [{result.name}.csv]({images}{result.name}.csv)", ""]
    for claim in result.claims:
        lines += [
            f"**{claim.where}.** The paper: {claim.paper}. This run: {claim.found}. "
            f"**{_MARKS[claim.verdict]} {str(claim.verdict).capitalize()}.**",
            "",
        ]
    if result.table is not None:
        lines += [f"| {' | '.join(result.table.headings)} |", "|---" * len(result.table.headings) + "|"]
        lines += [f"| {' | '.join(map(_cell, line))} |" for line in result.table.lines]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

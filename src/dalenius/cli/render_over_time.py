"""The intersection of releases in words: who can be found again in several of them, and what that gives away."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dalenius.cli.failures import CHECK_FAILED
from dalenius.cli.progress_bar import show_progress
from dalenius.cli.text_table import (
    LONGEST_NOTE,
    Command,
    TextTable,
    if_possible,
    printable,
    show_advice,
    show_concerns,
    show_notes,
)
from dalenius.errors import UsageError

if TYPE_CHECKING:
    from dalenius.attack.over_time_result import Claims, OverTime, Sums
    from dalenius.model.attack_result import NewChain


def over_time_options(command: Command) -> Command:
    """How people are linked in several releases."""
    link = click.option(
        "--link",
        "links",
        multiple=True,
        metavar="COLUMN,...",
        help="With several releases: columns by which people are linked (default: all quasi-identifiers they share).",
    )
    advance = click.option(
        "--advance",
        "advances",
        multiple=True,
        metavar="COLUMN=STEP",
        help="With several releases: a number grows by so much from one to the next, such as age=1. Repeatable.",
    )
    return link(advance(command))


def is_over_time(folders: Sequence[Path], of_one: Mapping[str, Any], of_several: Mapping[str, Sequence[str]]) -> bool:
    """Whether several releases are given; an error about an option that is for one release, or for several."""
    several = len(folders) > 1
    wrong = [option for option, given in of_one.items() if several and given is not None]
    if wrong:
        raise UsageError(f"{wrong[0]} is for the audit of one release", "Leave it out, or give one folder.")
    wrong = [option for option, given in of_several.items() if not several and given]
    if wrong:
        raise UsageError(f"{wrong[0]} links people of several releases", "Give two folders or more, the oldest first.")
    return several


def audit_over_time(
    folders: Sequence[Path],
    truth: Path | None,
    table: str | None,
    links: Sequence[str],
    advances: Sequence[str],
    memory: int | None,
    as_json: bool,
) -> None:
    """Intersect releases and show what comes of it; exit with 1 if somebody is above a limit."""
    from dalenius.attack.over_time import audit_releases
    from dalenius.attack.over_time_result import over_time_object

    advance: dict[str, str] = {}
    for text in advances:
        name, equals, step = text.rpartition("=")
        if not equals or name in advance:
            raise UsageError(f"--advance needs each column once, with a number, got {text!r}", "Write --advance age=1.")
        advance[name] = step
    link = [name.strip() for text in links for name in text.split(",")] if links else None
    with show_progress(as_json, lines=False) as progress:
        result = audit_releases(
            folders, truth=truth, table=table, link=link, advance=advance, memory=memory, progress=progress
        )
    if as_json:
        click.echo(json.dumps(over_time_object(result)))
    else:
        show_over_time(result)
    if result.intersection.above:
        sys.exit(CHECK_FAILED)


def show_over_time(result: OverTime) -> None:
    """Print the releases, the attack beside its baseline and its control, and what it means."""
    _releases(result).show()
    _table(result).show()
    if result.intersection.groups is not None:
        _groups(result).show()
    for sentence in _sentences(result):
        click.echo(printable(sentence, LONGEST_NOTE))
    show_notes((*result.notes, *about_new_chain(result.new_chain)))
    show_concerns(result.concerns)
    if not result.intersection.above:
        click.echo("Nobody is above a limit by intersecting these releases.")
    show_advice(result.advice)


def about_new_chain(beside: NewChain | None) -> Iterator[str]:
    """What a release beside the chain would give away, if there is one."""
    if beside is not None and beside.people:
        yield (
            "A new chain of these people, or any release of them that is not of this one, would put about "
            f"{beside.people_above_limit:,} of {beside.people:,} people whose quasi-identifiers nobody shares above a "
            f"limit, and leave about {beside.pinned:,} with one value. This is an estimate, from buckets drawn at "
            "random"
        )


def _releases(result: OverTime) -> TextTable:
    people = (
        ", ".join(f"{number:,} in {releases:,}" for releases, number in result.linked.items() if number) or "nobody"
    )
    columns = ", ".join(printable(repr(name)) for name in result.columns)
    title = f"People linked by {columns}: {people} releases" if people != "nobody" else f"Nobody is linked by {columns}"
    heads = ("release", "rows", "buckets", "in the chain", "people linked", "above a limit by it alone")
    table = TextTable(heads, title=title)
    for place, one in enumerate(result.releases, start=1):
        follows = f", follows {one.follows}" if one.follows is not None else ""
        chain = f"number {one.chain}{follows}" if one.chain is not None else "-"
        table.add(f"{place}", f"{one.rows:,}", f"{one.buckets:,}", chain, f"{one.linked:,}", f"{one.above_alone:,}")
    return table


def _rows(result: OverTime) -> Iterator[tuple[str, Sums]]:
    yield "all releases", result.intersection
    yield "the last bucket alone", result.baseline
    if result.control is not None:
        yield "linked by chance", result.control


def _table(result: OverTime) -> TextTable:
    heads = ("by", "people", "above a limit", "one value left", "of these right", "value guessed", "guess expected")
    table = TextTable((*heads, "claims", "claims right", "allowed"), left=("by",))
    for name, sums in _rows(result):
        success = sums.success if result.with_truth else None
        table.add(
            name,
            f"{sums.people:,}",
            f"{sums.above:,}",
            f"{sums.pinned:,}",
            f"{round(sums.pinned_right):,} of {sums.pinned_known:,}" if result.with_truth else "-",
            "-"
            if success is None
            else f"{success.share:.1%} {if_possible('±', '+-')} {50 * (success.high - success.low):.1f}",
            _percent(sums.expected),
            *_claims(sums.values, result.with_truth),
        )
    return table


def _groups(result: OverTime) -> TextTable:
    heads = ("by", "above a limit", "claims", "claims right", "allowed")
    table = TextTable(heads, left=("by",), title="Claims about groups of values")
    for name, sums in _rows(result):
        if sums.groups is not None:
            table.add(name, f"{sums.groups.people:,}", *_claims(sums.groups, result.with_truth))
    return table


def _claims(claims: Claims, with_truth: bool) -> tuple[str, str, str]:
    right = claims.right / claims.known if with_truth and claims.known else None
    return f"{claims.claims:,}", _percent(right), _percent(claims.limits / claims.claims if claims.claims else None)


def _sentences(result: OverTime) -> Iterator[str]:
    if result.one_bucket:
        yield (
            f"{result.one_bucket:,} people have the same bucket of a chain in all of their releases: for them there is "
            "nothing to intersect."
        )
    if result.intersection.nothing:
        yield (
            f"For {result.intersection.nothing:,} people no value is in all of their buckets: it changed, or it is "
            "somebody else. Nothing is claimed of them."
        )
    movers = result.movers
    if movers is not None and movers.people:
        nothing = f"; for {movers.contradicted:,} no two values are possible" if movers.contradicted else ""
        yield (
            f"{movers.people:,} people moved within a chain: their value changed, or these are other people. "
            f"{movers.above_limit:,} are above a limit with the old or the new one, {movers.pinned:,} have one left "
            f"for either, and the largest belief is {movers.largest_ratio:.2f} times its limit{nothing}."
        )
        yield (
            f"{movers.bystanders:,} people are in buckets that somebody moved from or to: "
            f"{movers.bystanders_above_limit:,} are above a limit by that, by at most "
            f"{movers.bystanders_largest_ratio:.2f} times."
        )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"

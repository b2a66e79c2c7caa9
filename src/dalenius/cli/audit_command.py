"""dalenius audit: run simulated attacks on a release, and say in words what they came to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from dalenius.cli.failures import CHECK_FAILED, report_errors
from dalenius.cli.progress_bar import show_progress
from dalenius.cli.render_over_time import about_new_chain, audit_over_time, is_over_time, over_time_options
from dalenius.cli.set_options import person_option
from dalenius.cli.text_table import (
    LONGEST_NOTE,
    TextTable,
    if_possible,
    memory_option,
    number,
    printable,
    show_advice,
    show_concerns,
    show_notes,
)
from dalenius.errors import UsageError
from dalenius.model.attack_result import ATTACKS, Attack, Audit, Share

_EPILOG = """\b
Examples:
  dalenius audit release
  dalenius audit release --truth hospital.parquet
  dalenius audit release --truth hospital.parquet --fail-above 1
  dalenius audit release --truth hospital.parquet --person patient
  dalenius audit release --truth hospital.parquet --attack corruption --known 2 --json
  dalenius audit 2025 2026 --truth hospital.parquet --advance age=1
"""


@click.command("audit", epilog=_EPILOG)
@click.argument("folders", type=click.Path(path_type=Path), metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="Table that was published (of several releases, the last): shows how often the attackers are right.",
)
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file given as --truth.")
@person_option("Column of --truth that says whose rows are whose: plays attackers who know that.")
@click.option(
    "--attack",
    "attacks",
    multiple=True,
    type=click.Choice(list(ATTACKS)),
    help="Run only this attack. Repeatable (default: all of them).",
)
@click.option(
    "--known",
    type=click.IntRange(min=0),
    metavar="Q",
    help="Records of a bucket that the corruption attacker knows (default: what the release withstands, at least 1).",
)
@click.option(
    "--control",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="Table of people who are not in the release, with the same columns: shows how well they are guessed.",
)
@click.option(
    "--fail-above",
    type=click.FloatRange(min=0),
    metavar="POINTS",
    help="Exit with 1 if an attacker's claims are right more often than the limits allow, by more than so many "
    "percentage points. Needs --truth.",
)
@over_time_options
@memory_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit_command(
    folders: tuple[Path, ...],
    truth: Path | None,
    table_name: str | None,
    person: str | None,
    attacks: tuple[str, ...],
    known: int | None,
    control: Path | None,
    fail_above: float | None,
    links: tuple[str, ...],
    advances: tuple[str, ...],
    memory: int | None,
    as_json: bool,
) -> None:
    """Run simulated attacks on the release in DIR and show what each attacker learns.

    Several releases of the same people, oldest first, are intersected: what do the buckets of somebody have in common?

    Writes nothing. Exit code 0, or 1 if an attack broke a promise of the release, several releases together put
    somebody above a limit, or --fail-above says so. Results with --truth are computed from the raw table: they are for
    the publisher, not for publication.
    """
    with report_errors(as_json):
        if table_name is not None and truth is None:
            raise UsageError("--table is for a DuckDB file given as --truth", "Give --truth, or leave it out.")
        of_one = {"--person": person, "--attack": attacks or None, "--known": known, "--control": control}
        if is_over_time(folders, {**of_one, "--fail-above": fail_above}, {"--link": links, "--advance": advances}):
            audit_over_time(folders, truth, table_name, links, advances, memory, as_json)
            return
        (folder,) = folders
        if person is not None and truth is None:
            raise UsageError("--person is a column of the table given as --truth", "Give --truth, or leave it out.")
        if fail_above is not None and truth is None:
            raise UsageError("how often attackers are right is not known without the table", "Give --truth TABLE too.")
        if control is not None and attacks and "learning" not in attacks:
            raise UsageError("--control is for the learning attack", "Give --attack learning, or leave it out.")
        from dalenius.attack.audit import audit, audit_object

        with show_progress(as_json, lines=False) as progress:
            result = audit(
                folder,
                truth=truth,
                table=table_name,
                person=person,
                attacks=attacks or tuple(ATTACKS),
                known=known,
                control=control,
                memory=memory,
                progress=progress,
            )
        if as_json:
            click.echo(json.dumps(audit_object(result)))
        else:
            show_audit(result)
        if result.broken or (fail_above is not None and _points(result) > fail_above):
            sys.exit(CHECK_FAILED)


def show_audit(result: Audit) -> None:
    """Print one line per attack, then what it means."""
    _table(result).show()
    _show_groups(result)
    for attack in result.attacks:
        for sentence in _sentences(attack):
            click.echo(printable(f"{_name(attack)}: {sentence}", LONGEST_NOTE))
    notes = dict.fromkeys(note for attack in result.attacks for note in attack.notes)
    show_notes((*result.notes, *notes, *_not_played(result), *about_new_chain(result.new_chain)))
    for sentence in result.broken:
        click.echo(click.style("BROKEN", fg="red", bold=True) + f": {printable(sentence, LONGEST_NOTE)}.")
    show_concerns(result.concerns)
    if not result.concerns:
        click.echo("No promise was broken by these attacks, and no claim is right more often than the limits allow.")
    show_advice(result.advice)


def _name(attack: Attack) -> str:
    """With the sensitive column, where there are several."""
    return attack.name if attack.column is None else f"{attack.column}: {attack.name}"


def _not_played(result: Audit) -> Iterator[str]:
    """Who was not played, and why."""
    reasons = dict.fromkeys(attack.not_played for attack in result.attacks if attack.not_played is not None)
    for reason in reasons:
        names = [_name(attack) for attack in result.attacks if attack.not_played == reason]
        yield f"Not played: {', '.join(names)}: {reason}"


def _points(result: Audit) -> float:
    """The most by which claims are right more often than allowed, of attackers that the release is to withstand."""
    played = (attack for attack in result.attacks if not attack.beyond)
    claims = (claims for attack in played for claims in (attack, attack.groups) if claims is not None)
    return max((one.points or 0.0 for one in claims), default=0.0)


def _table(result: Audit) -> TextTable:
    numbers = (
        "people",
        "guessed right",
        "from the bucket alone",
        "by chance",
        "people above a limit",
        "claims",
        "claims right",
        "allowed",
    )
    people = f"{result.people:,} people with " if result.people not in (None, result.rows) else ""
    title = f"{people}{result.rows:,} rows in {result.buckets:,} buckets"
    table = TextTable(("attack", *numbers), left=("attack",), title=title)
    for attack in result.attacks:
        if attack.not_played is not None:
            continue
        table.add(
            _name(attack),
            f"{attack.people:,}",
            *(_share(share, result.approximate) for share in (attack.success, attack.baseline, attack.control)),
            number(attack.people_above_limit),
            number(attack.claims),
            _percent(attack.right.share if attack.right else None),
            _percent(attack.mean_limit),
        )
    return table


def _show_groups(result: Audit) -> None:
    """One line per attack that makes claims about groups of values, if any of them has a limit."""
    numbers = ("people above a limit", "claims", "claims right", "allowed")
    table = TextTable(("attack", *numbers), left=("attack",), title="Claims about groups of values")
    for attack in result.attacks:
        if (groups := attack.groups) is not None:
            table.add(
                _name(attack),
                number(groups.people_above_limit),
                number(groups.claims),
                _percent(groups.right.share if groups.right else None),
                _percent(groups.mean_limit),
            )
    if table.rows:
        table.show()


def _sentences(attack: Attack) -> Iterator[str]:
    """What an attack came to, in words."""
    if attack.details and attack.name in _WORDS:
        yield from _WORDS[attack.name](attack)


def _corruption(attack: Attack) -> Iterator[str]:
    chosen, random, known = (attack.details[key] for key in ("chosen", "random", "known"))
    others = f"{known:,} record{'s' if known != 1 else ''} of other people in each bucket"
    text = (
        f"an attacker who chooses and knows {others} can put {chosen['people_above_limit']:,} of "
        f"{chosen['people']:,} people above a limit; the worst case is {chosen['worst_ratio']:.2f} times the limit."
    )
    if random["rows"]:
        text += (
            f" Guesses and claims are those of an attacker who knows {known:,} at random, about {random['people']:,} "
        )
        text += "people."
    yield text


def _negative(attack: Attack) -> Iterator[str]:
    details = attack.details
    yield (
        f"{details['pairs']:,} pairs of values do not go together. They rule out {details['mean_ruled_out']:.2f} "
        f"candidates per person; people left with one candidate: {details['left_with_one']:,}."
    )


def _learning(attack: Attack) -> Iterator[str]:
    yield f"the learner shown is {attack.details['learner']!s}."
    yield _claims(attack)
    known = attack.details.get("by_quasi_identifiers")
    if known:
        yield (
            f"an attacker who knows a person's quasi-identifiers, but not the row, is right for {known['success']:.1%} "
            f"of people, and for {known['baseline']:.1%} by the buckets alone."
        )


def _order(attack: Attack) -> Iterator[str]:
    if attack.success is not None:
        yield f"the best decoder: {attack.details['decoder']}."


def _minimality(attack: Attack) -> Iterator[str]:
    details = attack.details
    if not details["merged_strata"]:
        yield f"none of the {details['strata']:,} strata was merged from several leaves: there is nothing to infer."
        return
    yield (
        f"{details['merged_strata']:,} of {details['strata']:,} strata were merged from {details['merged_leaves']:,} "
        f"leaves. Guesses and claims use the model {details['guesses_by']}."
    )
    group = " or group" if attack.groups is not None else ""
    for model in details["models"]:
        yield (
            f"by the model {model['model']}, {model['pairs_above_limit']:,} pairs of a leaf and a value{group} have a "
            f"share above its limit; the largest share is {model['worst_ratio']:.2f} times the limit."
        )
        truth = model.get("truth")
        if truth:
            yield (
                f"of the {truth['suspected']:,} pairs it suspects most, one per stratum, {truth['suspected_unfit']:,} "
                f"are unfit and {truth['suspected_above_limit']:,} are really above the limit."
            )
    if details.get("truth"):
        yield (
            f"in truth {details['truth']['pairs_unfit']:,} pairs of merged leaves are unfit, and the largest share of "
            f"a value{group} in one of them is {details['truth']['worst_true_ratio']:.2f} times its limit."
        )


def _intersection(attack: Attack) -> Iterator[str]:
    details = attack.details
    if "pinned" in details:
        right = details["pinned_right"]
        known = details["pinned"] and right is not None
        rightly = f", {right / details['pinned']:.1%} of them rightly" if known else ""
        yield (
            f"of {details['several_rows']:,} people with several rows, {details['pinned']:,} are left with one value "
            f"that all their buckets have{rightly}; for {details['nothing_in_common']:,} there is none."
        )
    yield from _union(attack)


def _union(attack: Attack) -> Iterator[str]:
    yield _claims(attack)
    best, above = attack.details.get("best_claims_right"), attack.people_above_limit
    if best is not None and above:
        yield f"of the {above:,} people above a limit, the most probable value is right for {best / above:.1%}."


def _other_column(attack: Attack) -> Iterator[str]:
    known = attack.details["known_column"]
    kept = any(one["kept_together"] for one in attack.details["known_columns"] if one["column"] == known)
    tuples = ", and the release says what goes with what: the two are kept together" if kept else ""
    yield f"the column that is known is {known!r}{tuples}."
    yield _claims(attack)


def _claims(attack: Attack) -> str:
    if not attack.claims:
        return "the attacker believes nothing with a probability above its limit."
    believed = f"believed with a mean probability of {attack.details['mean_belief']:.1%}"
    right = f", and {attack.right.share:.1%} are true" if attack.right is not None else ""
    return f"{attack.claims:,} claims are above their limits (mean {attack.mean_limit or 0:.1%}), {believed}{right}."


def _share(share: Share | None, approximate: bool) -> str:
    """With its interval, unless that would promise too much."""
    if share is None or approximate:
        return _percent(share.share if share else None)
    return f"{share.share:.1%} {if_possible('±', '+-')} {100 * (share.high - share.low) / 2:.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


_WORDS = {
    "corruption": _corruption,
    "negative": _negative,
    "learning": _learning,
    "minimality": _minimality,
    "order": _order,
    "intersection": _intersection,
    "union": _union,
    "other-column": _other_column,
}

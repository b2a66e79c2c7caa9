"""Attacks as a table and sentences for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dalenius.cli.render_plan import print_whole, printable, show_notes
from dalenius.model.attack_result import Attack, Audit, Share

_LONGEST = 2000


def show_audit(found: Audit) -> None:
    """One line an attack, then what it means."""
    console = Console(soft_wrap=True)
    print_whole(console, _table(found))
    for attack in found.attacks:
        for sentence in _sentences(attack):
            console.print(Text(printable(f"{attack.name}: {sentence}", _LONGEST)))
    show_notes(console, (*found.notes, *(note for attack in found.attacks for note in attack.notes)))
    if found.broken:
        for sentence in found.broken:
            console.print(
                Text("BROKEN", style="red bold") + Text(f": {printable(sentence, _LONGEST)}.", style="not bold")
            )
    else:
        console.print(Text("No promise was broken", style="green bold") + Text(" by these attacks.", style="not bold"))


def _table(found: Audit) -> Table:
    title = f"{found.rows:,} rows in {found.buckets:,} buckets"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("attack")
    names = ("people", "success", "baseline", "control", "above limit", "claims", "right", "mean limit")
    for name in names:
        table.add_column(name, justify="right")
    for attack in found.attacks:
        table.add_row(
            attack.name,
            f"{attack.people:,}",
            *(_share(share, found.approximate) for share in (attack.success, attack.baseline, attack.control)),
            _number(attack.people_above_limit),
            _number(attack.claims),
            _percent(attack.right.share if attack.right else None),
            _percent(attack.mean_limit),
        )
    return table


def _sentences(attack: Attack) -> Iterator[str]:
    details = attack.details
    if not details:
        return
    if attack.name == "corruption":
        chosen, random, known = details["chosen"], details["random"], details["known"]
        yield (
            f"with {known:,} chosen records of others in each bucket known, {chosen['people_above_limit']:,} of "
            f"{chosen['people']:,} people can be put above a limit; the worst is {chosen['worst_ratio']:.2f} times "
            f"the limit. Guesses and claims are with {known:,} random records known, about {random['people']:,} others."
        )
    elif attack.name == "negative":
        yield (
            f"pairs of values that do not go together: {details['pairs']:,}. "
            f"They rule out {details['mean_ruled_out']:.2f} candidates of a person; "
            f"people left with one: {details['left_with_one']:,}."
        )
    elif attack.name == "learning":
        yield f"the learner that is shown: {details['learner']}."
        yield _claims(attack)
        known = details.get("by_quasi_identifiers")
        if known:
            yield (
                f"knowing the quasi-identifiers and not the row, the attacker is right about {known['success']:.1%} of "
                f"people; by the buckets alone, about {known['baseline']:.1%}."
            )
    elif attack.name == "minimality":
        yield from _merging(details)
    elif attack.name == "order" and attack.success is not None:
        yield f"the best decoder: {details['decoder']}."


def _merging(details: Mapping[str, Any]) -> Iterator[str]:
    if not details["merged_strata"]:
        yield f"none of the {details['strata']:,} strata was merged of several leaves: there is nothing to conclude."
        return
    yield (
        f"{details['merged_strata']:,} of {details['strata']:,} strata were merged, of {details['merged_leaves']:,} "
        f"leaves. Guesses and claims are by the model {details['guesses_by']}."
    )
    for model in details["models"]:
        yield (
            f"by the model {model['model']}, {model['pairs_above_limit']:,} pairs of a leaf and a value have a share "
            f"above the value's limit; the largest share is {model['worst_ratio']:.2f} times the limit."
        )
        truth = model.get("truth")
        if truth:
            yield (
                f"of its {truth['suspected']:,} most suspected pairs, one a stratum, {truth['suspected_unfit']:,} are "
                f"unfit, and {truth['suspected_above_limit']:,} are really above the limit."
            )
    if details.get("truth"):
        yield (
            f"in truth {details['truth']['pairs_unfit']:,} pairs of merged leaves are unfit, and the largest share of "
            f"a value in one of them is {details['truth']['worst_true_ratio']:.2f} times its limit."
        )


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
    return f"{share.share:.1%} ({share.low:.1%} to {share.high:.1%})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"

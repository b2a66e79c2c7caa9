"""Attacks as a table and sentences for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dalenius.cli.render import print_whole, printable, show_notes
from dalenius.model.attack import Attack, Audit, Share

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
            _share(attack.success),
            _share(attack.baseline),
            _share(attack.control),
            _number(attack.people_above_limit),
            _number(attack.claims),
            _percent(_right(attack)),
            _percent(attack.mean_limit),
        )
    return table


def _sentences(attack: Attack) -> Iterator[str]:
    details = attack.details
    if not details:
        return
    if attack.name == "corruption":
        above, known = attack.people_above_limit or 0, details["known"]
        worst = next(entry["worst_ratio"] for entry in details["by_known"] if entry["known"] == known)
        yield (
            f"with {known:,} records of each bucket known, chosen by the attacker, {above:,} people are where a value "
            f"is above its limit; the worst is {worst:.2f} times the limit. Guesses are with {known:,} known at random."
        )
    elif attack.name == "negative":
        yield (
            f"pairs of values that do not go together: {details['pairs']:,}. "
            f"They rule out {details['mean_ruled_out']:.2f} candidates of a person; "
            f"people left with one: {details['left_with_one']:,}."
        )
    elif attack.name == "learning":
        yield _claims(attack)
        known = details.get("by_quasi_identifiers")
        if known:
            yield (
                f"knowing the quasi-identifiers and not the row, the attacker is right about {known['success']:.1%} of "
                f"people; by the buckets alone, about {known['baseline']:.1%}."
            )
    elif attack.success is not None:
        yield f"the best decoder: {details['decoder']}."


def _claims(attack: Attack) -> str:
    if not attack.claims:
        return "the attacker believes nothing with a probability above its limit."
    believed = f"believed with a mean probability of {attack.details['mean_belief']:.1%}"
    right = f", and {_percent(_right(attack))} are true" if attack.claims_right is not None else ""
    return f"{attack.claims:,} claims are above their limits (mean {attack.mean_limit or 0:.1%}), {believed}{right}."


def _right(attack: Attack) -> float | None:
    return attack.claims_right / attack.claims if attack.claims and attack.claims_right is not None else None


def _share(share: Share | None) -> str:
    return "-" if share is None else f"{share.share:.1%} ({share.low:.1%} to {share.high:.1%})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"

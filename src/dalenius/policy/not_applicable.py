"""Values that say that a question does not apply: no income, because somebody is a child.

They are not sensitive, and must not be camouflage for others either: whoever is known to be grown up has none of them.
So they have no limits, frequencies are those of the other records, and records with them are set apart, in a stratum
and in buckets of their own. That it does not apply to these people is then published outright, and said so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dalenius.errors import AbsentCodesError, PolicyError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.policy.exact import quote_names
from dalenius.policy.limits import LimitPolicy


def without_not_applicable(counts: ValueCounts, named: Sequence[str]) -> ValueCounts:
    """The counts of the values that apply; an error if there are none."""
    own = [(value, count) for value, count in zip(counts.values, counts.counts, strict=True) if value not in named]
    if not own:
        raise PolicyError(
            f"every record has a value that does not apply: {quote_names(list(counts.values))}",
            "At least one value must be left to protect: name fewer under not_applicable.",
        )
    return ValueCounts.of(own, cuts=counts.cuts)


def refuse_not_applicable(policy: LimitPolicy, values: Collection[str], named: Sequence[str]) -> None:
    """An error if a value that does not apply has a limit, or if no record has it, unless that is meant."""
    limited = next((value for value in named if value in policy.values), None)
    if limited is not None:
        raise PolicyError(
            f"{limited!r} does not apply, and has a limit",
            "Leave out one of them: values that do not apply are published outright.",
        )
    absent = [value for value in named if value not in values]
    if absent and not policy.allow_absent:
        raise AbsentCodesError.of(absent, "not_applicable", values)


def refuse_fakes(named: Sequence[str], fake_values: int) -> None:
    """An error if there are fake values too."""
    if named and fake_values:
        raise UsageError(
            "fake values are given, and values that do not apply: a fake among people to whom the question does not "
            "apply would hide nothing, and say of somebody that it does not apply",
            "Leave out --fakes, or --not-applicable.",
        )


def apart_sentence(counts: ValueCounts, named: Sequence[str]) -> str | None:
    """How many people are set apart, and what is published of them; None if there are none."""
    found = [(value, count) for value, count in zip(counts.values, counts.counts, strict=True) if value in named]
    if not found:
        return None
    people, named_here = sum(count for _, count in found), quote_names([value for value, _ in found])
    who = "1 person is" if people == 1 else f"{people:,} of {counts.total:,} people are"
    return (
        f"{who} set apart: it is published outright that the question does not apply to them ({named_here}), and all "
        "other numbers are about the others"
    )

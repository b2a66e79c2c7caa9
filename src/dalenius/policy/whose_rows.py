"""Signs that people have several rows, where nobody said whose rows are whose.

Publishing, verifying against a table and auditing with one each look for them: limits are about rows then.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from dalenius.model.concern import Concern, Severity, quoted
from dalenius.model.entries import Occurrences, may_be_alike
from dalenius.policy.roles import may_be_a_person, says_a_person

_REPEATED = 0.98  # as many different identifiers as records, or fewer
_MORE_THAN_CHANCE = 3.0  # times as many pairs of rows that agree
_LIKE_PEOPLE = 20  # records a person, at most, in a column that nobody named an identifier
_LEAST_ROWS = 20
_MANY_ROWS = 100  # of a person, on the average


def repeated_people(
    identifying: Mapping[str, Occurrences], identifiers: Sequence[str], person: str | None = None
) -> Iterator[Concern]:
    """Identifiers with fewer different values than records, or columns without a role that look like such.

    If it was said which column tells `person`s apart, and some have several rows, that is what limits are about. Where
    most people have several rows, nearly everybody can be found by intersection: that is reason not to publish.
    """
    said = identifying.get(person) if person is not None else None
    if person is not None and said is not None and said.different < said.records:
        yield from _too_few_people(person, said, identifying)
        yield from _too_many_people(person, said, identifying, identifiers)
        return
    repeated = {
        name: found
        for name, found in identifying.items()
        if found.records >= _LEAST_ROWS and 0 < found.different <= _REPEATED * found.records
        if may_be_a_person(name) and (name in identifiers or found.different * _LIKE_PEOPLE >= found.records)
    }
    if not repeated:
        return
    name = min(repeated, key=lambda one: (one not in identifiers, repeated[one].different))
    found = repeated[name]
    about = "about " if found.is_estimate else ""
    most = name in identifiers and 2 * found.several > found.different
    yield Concern(
        code="repeated-people",
        severity=Severity.STOP if most else Severity.LOOK,
        message=(
            f"{quoted(name)} has {about}{found.different:,} different values in {found.records:,} rows: if it stands "
            f"for people, they have several rows, and limits are about a row, not about a person"
        ),
        answer=f"Say whose rows they are, and limits will be about people: {name_person(name)}.",
        people=found.several,
        columns=(name,),
    )


def earlier_releases(number: int, person: str | None, is_chain: bool) -> Concern:
    """Releases that this one can be compared with, as far as they are beside it, or in its place."""
    are = "a release" if number == 1 else f"{number:,} releases"
    over_time = (
        "It is not of this chain, and none can follow on it. If nobody has it, remove it."
        if is_chain
        else "Releases of the same people over time are published with --ledger FILE and --after OLD"
        f"{'' if person is not None else ', and --person COLUMN'}: then they tell no more than one."
    )
    return Concern(
        code="earlier-releases",
        severity=Severity.LOOK,
        message=(
            f"{are} of the same columns {'is' if number == 1 else 'are'} in the same folder, or about to be replaced: "
            "whoever finds the same people in two releases can intersect their buckets, and no limit holds for that"
        ),
        answer=f"See what it gives away: dalenius audit OLD NEW. {over_time}",
    )


def changed_values(people: int, of: int) -> Concern:
    """People who move to another bucket of a chain of releases, because they have another value than before."""
    who = "1 person has" if people == 1 else f"{people:,} people have"
    most = 2 * people > of
    return Concern(
        code="changed-values",
        severity=Severity.STOP if most else Severity.LOOK,
        message=(
            f"{who} another value than in the release before{f', of {of:,} who were there' if most else ''}, and "
            f"{'is' if people == 1 else 'are'} in another bucket, or in none: whoever sees that knows that the value "
            "is not the one it was, which can exceed a limit, theirs or that of people in these buckets"
        ),
        answer=(
            "See what it comes to: dalenius audit OLD NEW."
            + (" Does --person name who people are? A chain protects values that stay what they are." if most else "")
        ),
        people=people,
    )


def few_stayed(left: int, new: int) -> Concern:
    """Most people of a chain of releases left, and most are new: they may be the same, written in another way."""
    return Concern(
        code="few-stayed",
        severity=Severity.LOOK,
        message=(
            f"{left:,} people left since the release before, and {new:,} are new: are they the same, written otherwise?"
        ),
        answer="Write people as they were written then: whoever is in two unrelated buckets can be found in both.",
        people=new,
    )


def _too_few_people(person: str, said: Occurrences, identifying: Mapping[str, Occurrences]) -> Iterator[Concern]:
    """A column that was said to tell people apart, and has so few entries that another may have been meant."""
    if said.records < _MANY_ROWS * said.different:
        return
    likelier = [
        name
        for name, found in identifying.items()
        if may_be_a_person(name) and said.different < found.different < found.records
    ]
    names = " or ".join(name_person(name) for name in likelier) or "--person COLUMN"
    about = "about " if said.is_estimate else ""
    yield Concern(
        code="few-people",
        severity=Severity.LOOK,
        message=(
            f"{quoted(person)} has {about}{said.different:,} different values in {said.records:,} rows: if it does not "
            "stand for people, limits are about something else"
        ),
        answer=f"Name the column that says whose rows they are: {names}.",
        people=said.different,
        columns=(person,),
    )


def _too_many_people(
    person: str, said: Occurrences, identifying: Mapping[str, Occurrences], identifiers: Sequence[str]
) -> Iterator[Concern]:
    """A column that was said to tell people apart, and has clearly more entries than another: of visits, say."""
    fewer = {
        name: found
        for name, found in identifying.items()
        if name in identifiers or says_a_person(name)
        if may_be_a_person(name) and found.records >= max(_LEAST_ROWS, said.records / 2)
        if found.records <= _LIKE_PEOPLE * found.different and found.different <= _REPEATED * said.different
    }
    if not fewer:
        return
    name = max(fewer, key=lambda one: (says_a_person(one), fewer[one].different))
    about = "about " if fewer[name].is_estimate or said.is_estimate else ""
    yield Concern(
        code="repeated-people",
        severity=Severity.LOOK,
        message=(
            f"{quoted(name)} has {about}{fewer[name].different:,} different values, and {quoted(person)}, which was "
            f"said to tell people apart, {said.different:,}: if {quoted(name)} stands for people, they are several in "
            "the release, and limits are about each of these"
        ),
        answer=f"If so, say whose rows they are: {name_person(name)}.",
        people=said.different - fewer[name].different,
        columns=(name,),
    )


def alike_people(person: str, people: int, alike: int) -> Concern:
    """People who differ from others in spelling alone: if they are the same people, each is published as several."""
    several = alike > 1
    return Concern(
        code="alike-people",
        severity=Severity.LOOK if may_be_alike(alike, people) else Severity.NOTE,
        message=(
            f"{alike:,} of {people:,} people in {quoted(person)} {'differ' if several else 'differs'} from others in "
            "case, blanks or '.0' alone: if they are the same people, limits are about parts of a person"
        ),
        answer=f"Write {quoted(person)} in one way before publishing, if that is so.",
        people=alike,
        columns=(person,),
    )


def name_person(column: str) -> str:
    """The option that says whose rows are whose."""
    return f"--person {shlex.quote(column)}"


def agreeing_people(name: str, identifier: Occurrences, others: Occurrences, both: Occurrences) -> Iterator[Concern]:
    """Rows that agree in an identifier and in all quasi-identifiers, far more often than by chance: the same people.

    If the two had nothing to do with each other, of N (N - 1) / 2 pairs of rows the share of those that agree in both
    would be the product of the shares of those that agree in each.
    """
    everything = both.records * (both.records - 1) / 2
    again = both.records - both.different
    by_chance = identifier.pairs * others.pairs / everything if everything else 0.0
    if again < max(_LEAST_ROWS, (1 - _REPEATED) * both.records) or both.pairs < _MORE_THAN_CHANCE * by_chance:
        return
    about = "about " if both.is_estimate else ""
    yield Concern(
        code="repeated-people",
        severity=Severity.LOOK,
        message=(
            f"{about}{again:,} of {both.records:,} rows agree with an earlier one in {quoted(name)} and in all "
            "quasi-identifiers: if they are the same people, limits are about a row, not about a person"
        ),
        answer="Name a column that says whose rows they are (--person COLUMN), or leave one row of each person.",
        people=both.several,
        columns=(name,),
    )

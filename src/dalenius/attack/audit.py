"""Audit a release: play simulated attackers against it, and say what each of them gets.

Without the truth, an attack says what the attacker believes and how often that is above a limit; with it, how often
that is right. Only what the release promises can be broken: limits with so many known records, and that order says
nothing.

`ATTACKERS` lists the attackers. A new one is a function of a `Target` in a module of its own, with a line there and one
in `model.attack_result.ATTACKS`.

`audit_object` is an audit as a JSON object, the same for the command line, the report and Studio.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dalenius.attack.corruption import corruption
from dalenius.attack.learning import learning
from dalenius.attack.minimality import minimality
from dalenius.attack.one_bucket import chosen_people
from dalenius.attack.order import order_attack
from dalenius.attack.other_column import other_column
from dalenius.attack.over_time import cost_of_new_chain
from dalenius.attack.people_target import PeopleTarget, people_target
from dalenius.attack.reading import MOST_ENTRIES, Target, entries_that_fit
from dalenius.attack.ruled_out import negative
from dalenius.attack.several_rows import intersection, union
from dalenius.attack.target_reader import TargetReader, is_approximate
from dalenius.attack.truth import others_of, table_concerns
from dalenius.attack.whereabouts import Whereabouts, find_people
from dalenius.errors import ReleaseError, UsageError
from dalenius.model.attack_result import ATTACKS, Attack, Audit
from dalenius.model.concern import Concern
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import Manifest
from dalenius.verify.judge import verify
from dalenius.verify.release_files import require_folder

__all__ = ["ATTACKERS", "ATTACKS", "Audit", "audit"]


@dataclass(frozen=True)
class Attacker:
    """Who plays. `needs_strata`: against a release without any it is played only if it is the one that was asked for.

    `needs_candidates`: where all buckets are too large to look at their rows, it cannot be played.
    """

    play: Callable[[Target], Attack]
    needs_strata: bool = False
    needs_candidates: bool = True


@dataclass(frozen=True)
class PeopleAttacker:
    """Who plays on people. `needs_columns`: only where there are several sensitive columns."""

    play: Callable[[PeopleTarget], Attack]
    needs_columns: bool = False


ATTACKERS: dict[str, Attacker | PeopleAttacker] = {
    "corruption": Attacker(corruption, needs_candidates=False),
    "negative": Attacker(negative),
    "learning": Attacker(learning),
    "minimality": Attacker(minimality, needs_strata=True),
    "order": Attacker(order_attack),
    "intersection": PeopleAttacker(intersection),
    "union": PeopleAttacker(union),
    "other-column": PeopleAttacker(other_column, needs_columns=True),
}

_FORMAT = 2
_NEEDED = frozenset({"files", "schema"})  # checks of verify without which attacks mean nothing
_SEVERAL = "the release is about people with several rows or values, and this attacker can only deal with one of each"
_BY_PEOPLE = "The attackers on people show what that amounts to. Published with --person too, limits are about people."
_NO_PERSON = "Without --person it is not known whose rows of the table are whose, so attackers on people are not scored"


@dataclass(frozen=True)
class _Asked:
    """What an audit is asked for: the tables, and how much may be looked at."""

    truth: Any
    table: str | None
    person: str | None
    control: Any
    known: int | None
    most: int


def audit(
    folder: str | os.PathLike[str] | ReleaseFolder,
    *,
    truth: Any = None,
    table: str | None = None,
    person: str | None = None,
    attacks: Sequence[str] = tuple(ATTACKS),
    known: int | None = None,
    control: Any = None,
    progress: Progress | None = None,
    memory: int | None = None,
    most_entries: int = MOST_ENTRIES,
) -> Audit:
    """Attack the release in a folder.

    `truth` is the table that it was made of: a path (with `table`, for a DuckDB file that has several), a DataFrame, a
    pyarrow Table or a DuckDB relation. `person` is its column that says whose rows are whose, for the attackers on
    people. `known` is how many records of a bucket the corrupting attacker knows; without it, as many as the release
    promises to withstand, and at least one. `control` is a table of people who are not in the release. `memory` is
    what the whole program may take, in bytes. Where there are more candidates than there is room for, or than
    `most_entries`, a random sample of buckets is used.
    """
    if isinstance(folder, ReleaseFolder):
        release = folder if memory is None else folder.within(memory)
    else:
        require_folder(Path(folder))
        release = open_release(Path(folder), memory)
    if person is not None and truth is None:
        raise UsageError("a column of people is one of the table that was published", "Give that table as the truth.")
    if known is not None and known < 0:
        raise UsageError(f"{known} known records cannot be", "Give 0 or more.")
    names = _choose(attacks, release.manifest, person is not None)
    progress = progress or Silent()
    progress.stage("Verifying")
    verdict = verify(folder, memory=memory)
    failed = [check.check for check in verdict.checks if not check.passed]
    if not _NEEDED.isdisjoint(failed) or ("sizes" in failed and "order" not in failed):
        raise _not_whole(failed)
    most = min(most_entries, entries_that_fit(release))
    try:
        result = _Game(release, _Asked(truth, table, person, control, known, most), progress).play(names)
    except (ArithmeticError, LookupError, ValueError, pa.ArrowException):
        if not failed:
            raise
        raise _not_whole(failed) from None
    if failed:
        note = f"dalenius verify does not pass this release: {', '.join(failed)}"
        result = replace(result, notes=(note, *result.notes))
    others = (*verdict.concerns, *_table_concerns(release, truth, table, person))
    return replace(result, others=others, new_chain=cost_of_new_chain(release, progress))


def _not_whole(failed: Sequence[str]) -> ReleaseError:
    return ReleaseError(
        f"the release does not hold together ({', '.join(failed)}), so there is nothing to attack",
        "Run 'dalenius verify' on it.",
    )


def _choose(attacks: Sequence[str], manifest: Manifest, with_people: bool) -> list[str]:
    """The attacks in their order; without those that there is nothing for in the release, unless one was asked for."""
    for name in attacks:
        if name not in ATTACKERS:
            raise UsageError(f"there is no attack {name!r}", f"There are: {', '.join(ATTACKERS)}.")
    chosen = [name for name in ATTACKERS if name in attacks]
    of_people = with_people or any(manifest.view(number).has_several_values for number in range(manifest.sets))

    def has_something(attacker: Attacker | PeopleAttacker) -> bool:
        if isinstance(attacker, Attacker):
            return manifest.strata is not None or len(chosen) == 1 or not attacker.needs_strata
        return manifest.sets > 1 if attacker.needs_columns else of_people

    able = [name for name in chosen if has_something(ATTACKERS[name])]
    if chosen and not able:
        raise UsageError(
            f"there is nothing for {' and '.join(map(repr, chosen))}: every row is somebody, with one sensitive value",
            "Give --truth TABLE with --person COLUMN, if people have several rows.",
        )
    return able


class _Game:
    """Plays attackers on a release, one sensitive column after the other."""

    def __init__(self, release: ReleaseFolder, asked: _Asked, progress: Progress) -> None:
        self._release, self._asked, self._progress = release, asked, progress
        self._notes: list[str] = []
        self._used, self._approximate = release.manifest.rows, False

    def play(self, names: Sequence[str]) -> Audit:
        """The attacks in their order, for each column."""
        manifest = self._release.manifest
        where = None
        if any(isinstance(ATTACKERS[name], PeopleAttacker) for name in names) or not manifest.is_plain:
            where = self._find_people()
        attacks = [attack for number in range(manifest.sets) for attack in self._play_column(number, names, where)]
        return Audit(
            attacks=tuple(attacks),
            rows=manifest.rows,
            buckets=manifest.buckets,
            known_records=manifest.adversary.known_records,
            fake_values=manifest.adversary.fake_values,
            used=self._used,
            notes=tuple(dict.fromkeys(self._notes)),
            approximate=self._approximate,
            people=manifest.people if not manifest.is_plain else None,
        )

    def _find_people(self) -> Whereabouts:
        asked, truth = self._asked, self._asked.truth
        if self._release.manifest.persons is not None and asked.person is None and truth is not None:
            self._notes.append(_NO_PERSON)
            truth = None
        where = find_people(self._release, truth, asked.table, asked.person, self._progress)
        self._notes += where.notes
        return where

    def _play_column(self, number: int, names: Sequence[str], where: Whereabouts | None) -> Iterator[Attack]:
        """All attackers on one sensitive column."""
        view = self._release.view(number)
        on_rows = any(isinstance(ATTACKERS[name], Attacker) for name in names)
        several = view.manifest.has_several_values
        target = self._read(view) if on_rows and not several else None
        of_people = people_target(self._release, number, where, self._progress) if where is not None else None
        column = view.manifest.columns.sensitive.name if self._release.manifest.sets > 1 else None
        for name in names:
            attacker = ATTACKERS[name]
            if isinstance(attacker, PeopleAttacker):
                attack = self._play_on_people(attacker, of_people)
            elif target is not None:
                attack = self._play_on_rows(name, attacker, target)
            elif name == "corruption" and of_people is not None:
                attack = chosen_people(of_people, self._known)
            else:
                attack = Attack(name, 0, not_played=_SEVERAL)
            if attack is not None:
                yield replace(attack, column=column)

    def _play_on_people(self, attacker: PeopleAttacker, target: PeopleTarget | None) -> Attack | None:
        """None where nobody has several rows, or several values, in what is looked at."""
        if target is None:
            return None
        nobody = not target.by_people and target.where.people is None
        return None if nobody and not attacker.needs_columns else attacker.play(target)

    def _play_on_rows(self, name: str, attacker: Attacker, target: Target) -> Attack:
        if attacker.needs_candidates and not target.candidates.rows:
            note = f"Every bucket has more than {self._asked.most:,} candidates: too many to attack"
            return Attack(name, 0, notes=(note,))
        return attacker.play(target)

    @property
    def _known(self) -> int:
        """Records of a bucket that the corrupting attacker knows."""
        known = self._asked.known
        return max(1, self._release.manifest.adversary.known_records) if known is None else known

    def _read(self, view: ReleaseFolder) -> Target:
        asked = self._asked
        reader = TargetReader(view, asked.truth, asked.table, asked.control, self._progress, asked.most)
        target = reader.read(self._known)
        self._notes += reader.notes
        self._used = min(self._used, target.sample.candidates.rows)
        self._approximate |= is_approximate(target.people, target.sample)
        return target


def _table_concerns(release: ReleaseFolder, truth: Any, table: str | None, person: str | None) -> list[Concern]:
    """What the table gives away by itself, if it is given; that a value does not apply is no secret.

    Fake values make the counts of the manifest too large. A set of several columns is not looked at.
    """
    if truth is None:
        return []
    concerns: dict[str, Concern] = {}
    for number in range(release.manifest.sets):
        view = release.manifest.view(number)
        if len(view.columns.sensitive.of) > 1:
            continue
        found = table_concerns(
            truth,
            table,
            [column.name for column in view.columns.quasi_identifiers],
            view.columns.sensitive.of[0],
            {entry.value: entry.count for entry in view.values if entry.applies},
            view.null_value,
            *others_of(view),
        )
        concerns |= {one.message: one for one in found if view.persons is None or one.code != "repeated-people"}
    return [
        replace(one, answer=_BY_PEOPLE) if one.code == "repeated-people" and one.columns == (person,) else one
        for one in concerns.values()
    ]


def audit_object(result: Audit) -> dict[str, Any]:
    """The audit as one JSON object. The keys are a contract (docs/json.md)."""
    column, *others = result.columns or (None,)
    first = result.of(column)
    return {
        "format": _FORMAT,
        "rows": result.rows,
        "buckets": result.buckets,
        "known_records": result.known_records,
        "fake_values": result.fake_values,
        "sampled": {"rows": result.used, "of": result.rows} if result.sampled else None,
        "verdict": str(result.advice),
        "findings": [concern.as_object() for concern in result.concerns],
        "broken": list(result.broken),
        "notes": list(result.notes),
        "people": result.people,
        "new_chain": result.new_chain.as_object() if result.new_chain is not None else None,
        **{attack.name: attack.as_object() for attack in first},
        "other_columns": [
            {"column": column, **{attack.name: attack.as_object() for attack in result.of(column)}} for column in others
        ],
    }

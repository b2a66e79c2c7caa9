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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.attack.claims import LimitedGroups
from dalenius.attack.corruption import ChosenGroups, ChosenRecords, corruption, numbers_known
from dalenius.attack.dealing import SlotCounts
from dalenius.attack.learning import learning
from dalenius.attack.minimality import minimality
from dalenius.attack.order import order_attack
from dalenius.attack.people import ITERATIONS, People, align, plain_rows
from dalenius.attack.reading import (
    MOST_ENTRIES,
    Outline,
    Sample,
    Target,
    draw_buckets,
    entries_that_fit,
    last_buckets,
    limits_of,
    read_outline,
    read_sample,
)
from dalenius.attack.ruled_out import negative
from dalenius.attack.truth import control_people, others_of, table_concerns, truth_classes
from dalenius.errors import InputError, ReleaseError, UsageError
from dalenius.infer.candidates import Floats
from dalenius.model.attack_result import ATTACKS, Attack, Audit
from dalenius.model.concern import Concern
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.verify.buckets import Integers, WholeBuckets
from dalenius.verify.judge import verify
from dalenius.verify.release_files import require_folder
from dalenius.verify.stated_groups import StatedGroups

__all__ = ["ATTACKERS", "ATTACKS", "Audit", "audit"]


@dataclass(frozen=True)
class Attacker:
    """Who plays. `needs_strata`: against a release without any it is played only if it is the one that was asked for.

    `needs_candidates`: where all buckets are too large to look at their rows, it cannot be played.
    """

    play: Callable[[Target], Attack]
    needs_strata: bool = False
    needs_candidates: bool = True


ATTACKERS = {
    "corruption": Attacker(corruption, needs_candidates=False),
    "negative": Attacker(negative),
    "learning": Attacker(learning),
    "minimality": Attacker(minimality, needs_strata=True),
    "order": Attacker(order_attack),
}

_FORMAT = 2
_NEEDED = frozenset({"files", "schema"})  # checks of verify without which attacks mean nothing
_MOST_CONTROL = 100_000  # people outside of the release


def audit(
    folder: str | os.PathLike[str] | ReleaseFolder,
    *,
    truth: Any = None,
    table: str | None = None,
    attacks: Sequence[str] = tuple(ATTACKS),
    known: int | None = None,
    control: Any = None,
    progress: Progress | None = None,
    memory: int | None = None,
    most_entries: int = MOST_ENTRIES,
) -> Audit:
    """Attack the release in a folder.

    `truth` is the table that it was made of: a path (with `table`, for a DuckDB file that has several), a DataFrame, a
    pyarrow Table or a DuckDB relation. `known` is how many records of a bucket the corrupting attacker knows; without
    it, as many as the release promises to withstand, and at least one. `control` is a table of people who are not in
    the release. `memory` is what the whole program may take, in bytes. Where there are more candidates than there is
    room for, or than `most_entries`, a random sample of buckets is used.
    """
    if isinstance(folder, ReleaseFolder):
        release = folder if memory is None else folder.within(memory)
    else:
        require_folder(Path(folder))
        release = open_release(Path(folder), memory)
    names = _choose(attacks, release.manifest.strata is not None)
    progress = progress or Silent()
    progress.stage("Verifying")
    verdict = verify(folder, memory=memory)
    failed = [check.check for check in verdict.checks if not check.passed]
    if not _NEEDED.isdisjoint(failed) or ("sizes" in failed and "order" not in failed):
        raise _not_whole(failed)
    most = min(most_entries, entries_that_fit(release))
    try:
        result = _Auditor(release, truth, table, control, progress, most).run(names, known)
    except (ArithmeticError, LookupError, ValueError, pa.ArrowException):
        if not failed:
            raise
        raise _not_whole(failed) from None
    if failed:
        note = f"dalenius verify does not pass this release: {', '.join(failed)}"
        result = replace(result, notes=(note, *result.notes))
    return replace(result, others=(*verdict.concerns, *_table_concerns(release, truth, table)))


def _not_whole(failed: Sequence[str]) -> ReleaseError:
    return ReleaseError(
        f"the release does not hold together ({', '.join(failed)}), so there is nothing to attack",
        "Run 'dalenius verify' on it.",
    )


def _choose(attacks: Sequence[str], with_strata: bool) -> list[str]:
    """The attacks in their order; that on strata, unless it is the only one, if there are any."""
    for name in attacks:
        if name not in ATTACKERS:
            raise UsageError(f"there is no attack {name!r}", f"There are: {', '.join(ATTACKERS)}.")
    chosen = [name for name in ATTACKERS if name in attacks]
    return [name for name in chosen if with_strata or len(chosen) == 1 or not ATTACKERS[name].needs_strata]


class _Auditor:
    """Reads what the attackers share: buckets, a sample of rows, the truth, frequencies."""

    def __init__(
        self, release: ReleaseFolder, truth: Any, table: str | None, control: Any, progress: Progress, most: int
    ) -> None:
        self._release, self._truth, self._table, self._control = release, truth, table, control
        self._progress, self._most = progress, most
        self._limits = limits_of(release)
        adversary = release.manifest.adversary
        self._slots = SlotCounts(len(self._limits), adversary.fake_values, last_buckets(release.manifest))
        self._notes: list[str] = []

    def run(self, names: Sequence[str], known: int | None) -> Audit:
        """The attacks in their order."""
        manifest = self._release.manifest
        promised = manifest.adversary.known_records
        known = max(1, promised) if known is None else known
        if known < 0:
            raise UsageError(f"{known} known records cannot be", "Give 0 or more.")
        target = self._read(known)
        sample, people = target.sample, target.people
        return Audit(
            attacks=tuple(self._play(name, target) for name in names),
            rows=manifest.rows,
            buckets=manifest.buckets,
            known_records=promised,
            fake_values=manifest.adversary.fake_values,
            used=sample.candidates.rows,
            notes=tuple(self._notes),
            approximate=people is not None and self._is_approximate(people, sample),
        )

    def _play(self, name: str, target: Target) -> Attack:
        attacker = ATTACKERS[name]
        if attacker.needs_candidates and not target.candidates.rows:
            return Attack(name, 0, notes=(f"Every bucket has more than {self._most:,} candidates: too many to attack",))
        return attacker.play(target)

    def _read(self, known: int) -> Target:
        manifest = self._release.manifest
        adversary = manifest.adversary
        numbers = numbers_known(max(group.size for group in manifest.setting))
        exposure = ChosenRecords(self._limits, adversary.fake_values, adversary.known_records, known, numbers)
        groups, group_exposure = LimitedGroups.of(manifest), None
        if groups is not None and (stated := StatedGroups.of(manifest)) is not None:
            texts = [entry.value for entry in manifest.values]
            group_exposure = ChosenGroups(stated, texts, adversary.fake_values, adversary.known_records, known)
        others, control = self._others() if self._control is not None else (None, None)
        watching = [part for part in (exposure, self._slots, group_exposure) if part is not None]
        outline, sample = self._read_tables(watching, others)
        people = self._people(sample) if self._truth is not None and sample.candidates.rows else None
        return Target(
            release=self._release,
            outline=outline,
            sample=sample,
            limits=self._limits,
            frequencies=self._frequencies(people),
            slots=self._slots,
            exposure=exposure,
            known=known,
            groups=groups,
            group_exposure=group_exposure,
            people=people,
            control=control,
            progress=self._progress,
        )

    def _read_tables(
        self, watching: Sequence[ChosenRecords | SlotCounts], others: pa.Table | None
    ) -> tuple[Outline, Sample]:
        manifest = self._release.manifest

        def watch(whole: WholeBuckets) -> None:
            for part in watching:
                part.add(whole)

        self._progress.stage("Reading", 2 * manifest.tables.st.rows + manifest.rows)
        outline = read_outline(self._release, watch, self._progress.advance)
        places = draw_buckets(outline, self._most, np.random.default_rng(0))
        sample, notes = read_sample(self._release, outline, places, self._progress.advance, others)
        self._notes += notes
        if not sample.whole and sample.candidates.rows:
            self._notes.append(
                f"A random sample of {sample.candidates.rows:,} of {manifest.rows:,} rows is attacked; "
                "people above their limit by known records are counted in all of them. "
                "The learning attacker learns from the sample alone, and gets more out of all rows"
            )
        return outline, sample

    def _others(self) -> tuple[pa.Table, Integers]:
        """People who are not in the release, and the numbers of their values; -1 for one that the release has not."""
        manifest = self._release.manifest
        schema = self._release.schema("qit")
        kinds = {column.name: schema.field(column.name).type for column in manifest.columns.quasi_identifiers}
        plain = pa.schema(
            [(name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in kinds.items()]
        )
        sensitive = manifest.columns.sensitive.name
        rows, values, everyone = control_people(
            self._control, None, plain, sensitive, manifest.null_value, _MOST_CONTROL, *others_of(manifest)
        )
        if not everyone:
            raise InputError("the control table has no rows", "Give people who are not in the release.")
        if len(values) < everyone:
            self._notes.append(f"The control is a random sample of {len(values):,} of {everyone:,} people")
        place = {entry.value: number for number, entry in enumerate(manifest.values)}
        return rows, np.array([-1 if value is None else place.get(value, -1) for value in values], np.int64)

    def _people(self, sample: Sample) -> People:
        manifest = self._release.manifest
        self._progress.stage("Aligning", ITERATIONS)
        classes = truth_classes(
            self._truth,
            self._table,
            plain_rows(sample.rows),
            sample.candidates.rows,
            manifest.columns.sensitive.name,
            [entry.value for entry in manifest.values],
            manifest.null_value,
            min(2**30, self._release.memory.engine // 2),  # before the engine that reads the truth spills
            *others_of(manifest),
        )
        people = align(
            sample.candidates,
            classes,
            sample.whole,
            manifest.rows,
            self._slot_counts(),
            lambda: self._progress.advance(1),
        )
        everyone = sample.candidates.rows
        rest = "; for the others, success is estimated from the table's margins" if people.pinned < everyone else ""
        certain = "nearly certain" if self._is_approximate(people, sample) else "certain"
        self._notes.append(f"Who has which value is {certain} for {people.pinned:,} of {everyone:,} people{rest}")
        if self._is_approximate(people, sample):
            self._notes.append("In a sample that estimate is approximate, by more than the intervals of shares say")
        if not people.converged:
            self._notes.append(
                f"The estimate did not settle: about {people.misplaced:,.0f} people are not where the table and the "
                "release have them"
            )
        return people

    def _is_approximate(self, people: People, sample: Sample) -> bool:
        return not sample.whole and people.pinned < sample.candidates.rows

    def _slot_counts(self) -> Floats:
        """How often each value is in ST."""
        return self._slots.totals.astype(np.float64)

    def _frequencies(self, people: People | None) -> Floats:
        """The share of every value among all people, as the release shows it, or as the truth has it."""
        counts = self._slot_counts() if people is None else people.classes.totals.astype(np.float64)
        shares: Floats = counts / counts.sum()
        return shares


def _table_concerns(release: ReleaseFolder, truth: Any, table: str | None) -> list[Concern]:
    """What the table gives away by itself, if it is given; that a value does not apply is no secret.

    Fake values make the counts of the manifest too large.
    """
    if truth is None:
        return []
    columns = release.manifest.columns
    return table_concerns(
        truth,
        table,
        [column.name for column in columns.quasi_identifiers],
        columns.sensitive.name,
        {entry.value: entry.count for entry in release.manifest.values if entry.applies},
        release.manifest.null_value,
        *others_of(release.manifest),
    )


def audit_object(result: Audit) -> dict[str, Any]:
    """The audit as one JSON object. The keys are a contract (docs/json.md)."""
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
        **{attack.name: attack.as_object() for attack in result.attacks},
    }

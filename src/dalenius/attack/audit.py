"""Audit a release: play simulated attackers against it, and say what each of them gets.

Without the truth, an attack says what the attacker believes and how often that is above a limit; with it, how often
that is right. Only what the release promises can be broken: limits with so many known records, and that order says
nothing.

An audit as a JSON object, the same for the command line, the report and Studio.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.attack.corruption import NAME as CORRUPTION
from dalenius.attack.corruption import Exposure, corruption, numbers_known
from dalenius.attack.dealing import Dealt
from dalenius.attack.learning import NAME as LEARNING
from dalenius.attack.learning import ROUNDS as ROUNDS_TOGETHER
from dalenius.attack.learning import learning
from dalenius.attack.minimality import NAME as MINIMALITY
from dalenius.attack.minimality import minimality
from dalenius.attack.order import NAME as ORDER
from dalenius.attack.order import order_attack
from dalenius.attack.people import ITERATIONS, People, align, plain_rows
from dalenius.attack.reading import MOST_ENTRIES, Outline, Sample, draw, last_buckets, limits_of, outline, sample
from dalenius.attack.ruled_out import NAME as NEGATIVE
from dalenius.attack.ruled_out import negative
from dalenius.attack.truth import control_people, truth_classes
from dalenius.errors import InputError, ReleaseError, UsageError
from dalenius.infer.candidates import Floats
from dalenius.infer.naive_bayes import ROUNDS
from dalenius.infer.negative import negative_pairs
from dalenius.model.attack_result import Attack, Audit, Share
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.verify.buckets import Integers, WholeBuckets
from dalenius.verify.judge import verify
from dalenius.verify.release_files import require_folder

__all__ = ["ATTACKS", "Audit", "audit"]

ATTACKS = (CORRUPTION, NEGATIVE, LEARNING, MINIMALITY, ORDER)
_NEEDED = frozenset({"files", "schema"})  # checks of verify without which attacks mean nothing
_MOST_CONTROL = 100_000  # people outside of the release
_ENGINE_MEMORY = 2**30  # bytes, before the engine that reads the truth spills to the disk


def audit(
    folder: str | os.PathLike[str] | ReleaseFolder,
    *,
    truth: Any = None,
    table: str | None = None,
    attacks: Sequence[str] = ATTACKS,
    known: int | None = None,
    control: Any = None,
    progress: Progress | None = None,
    most_entries: int = MOST_ENTRIES,
) -> Audit:
    """Attack the release in a folder.

    `truth` is the table that it was made of: a path (with `table`, for a DuckDB file that has several), a DataFrame, a
    pyarrow Table or a DuckDB relation. `known` is how many records of a bucket the corrupting attacker knows; without
    it, as many as the release promises to withstand, and at least one. `control` is a table of people who are not in
    the release. `most_entries` bounds memory: where a release has more candidates, a random sample of buckets is used.
    """
    if isinstance(folder, ReleaseFolder):
        release = folder
    else:
        require_folder(Path(folder))
        release = open_release(Path(folder))
    wanted = _wanted(attacks, release.manifest.strata is not None)
    progress = progress or Silent()
    progress.stage("Verifying")
    failed = [check.check for check in verify(folder).checks if not check.passed]
    if not _NEEDED.isdisjoint(failed) or ("sizes" in failed and "order" not in failed):
        raise _not_whole(failed)
    try:
        found = _Auditor(release, truth, table, control, progress, most_entries).run(wanted, known)
    except (ArithmeticError, LookupError, ValueError, pa.ArrowException):
        if not failed:
            raise
        raise _not_whole(failed) from None
    if failed:
        note = f"dalenius verify does not pass this release: {', '.join(failed)}"
        found = replace(found, notes=(note, *found.notes))
    return found


def _not_whole(failed: Sequence[str]) -> ReleaseError:
    return ReleaseError(
        f"the release does not hold together ({', '.join(failed)}), so there is nothing to attack",
        "Run 'dalenius verify' on it.",
    )


def _wanted(attacks: Sequence[str], with_strata: bool) -> list[str]:
    """The attacks in their order; that on strata, unless it is the only one, if there are any."""
    for name in attacks:
        if name not in ATTACKS:
            raise UsageError(f"there is no attack {name!r}", f"There are: {', '.join(ATTACKS)}.")
    found = [name for name in ATTACKS if name in attacks]
    return found if with_strata or len(found) == 1 else [name for name in found if name != MINIMALITY]


class _Auditor:
    """What the attacks share: the sample, the truth, frequencies."""

    def __init__(
        self, release: ReleaseFolder, truth: Any, table: str | None, control: Any, progress: Progress, most: int
    ) -> None:
        self._release, self._truth, self._table, self._control = release, truth, table, control
        self._progress, self._most = progress, most
        self._limits = limits_of(release)
        adversary = release.manifest.adversary
        self._dealt = Dealt(len(self._limits), adversary.fake_values, last_buckets(release.manifest))
        self._notes: list[str] = []

    def run(self, attacks: Sequence[str], known: int | None) -> Audit:
        """The attacks in their order."""
        manifest = self._release.manifest
        promised = manifest.adversary.known_records
        known = max(1, promised) if known is None else known
        if known < 0:
            raise UsageError(f"{known} known records cannot be", "Give 0 or more.")
        numbers = numbers_known(max(group.size for group in manifest.setting))
        exposure = Exposure(self._limits, manifest.adversary.fake_values, promised, known, numbers)
        found, drawn, outside = self._read(exposure)
        people = self._people(drawn) if self._truth is not None and drawn.candidates.rows else None
        frequencies = self._frequencies(people)
        results = [
            corruption(exposure, drawn.candidates, self._limits, people, frequencies, known, promised)
            if name == CORRUPTION
            else self._attack(name, found, drawn, people, frequencies, outside)
            for name in attacks
        ]
        return Audit(
            tuple(results),
            manifest.rows,
            manifest.buckets,
            promised,
            manifest.adversary.fake_values,
            drawn.candidates.rows,
            tuple(self._notes),
            people is not None and self._is_approximate(people, drawn),
        )

    def _read(self, exposure: Exposure) -> tuple[Outline, Sample, Integers | None]:
        manifest = self._release.manifest
        others, outside = self._others() if self._control is not None else (None, None)
        self._progress.stage("Reading", 2 * manifest.tables.st.rows + manifest.rows)
        found = outline(self._release, lambda whole: self._watch(exposure, whole), self._progress.advance)
        chosen = draw(found, self._most, np.random.default_rng(0))
        drawn, notes = sample(self._release, found, chosen, self._progress.advance, others)
        self._notes += notes
        if not drawn.whole and drawn.candidates.rows:
            self._notes.append(
                f"A random sample of {drawn.candidates.rows:,} of {manifest.rows:,} rows is attacked; "
                "people above their limit by known records are counted in all of them. "
                "The learning attacker learns from the sample alone, and gets more out of all rows"
            )
        return found, drawn, outside

    def _watch(self, exposure: Exposure, whole: WholeBuckets) -> None:
        exposure.add(whole)
        self._dealt.add(whole)

    def _others(self) -> tuple[pa.Table, Integers]:
        """People who are not in the release, and the numbers of their values; -1 for one that the release has not."""
        manifest = self._release.manifest
        kinds = {
            column.name: self._release.schema("qit").field(column.name).type
            for column in manifest.columns.quasi_identifiers
        }
        plain = pa.schema(
            [(name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in kinds.items()]
        )
        sensitive = manifest.columns.sensitive.name
        rows, values, everyone = control_people(
            self._control, None, plain, sensitive, manifest.null_value, _MOST_CONTROL
        )
        if not everyone:
            raise InputError("the control table has no rows", "Give people who are not in the release.")
        if len(values) < everyone:
            self._notes.append(f"The control is a random sample of {len(values):,} of {everyone:,} people")
        place = {entry.value: number for number, entry in enumerate(manifest.values)}
        return rows, np.array([-1 if value is None else place.get(value, -1) for value in values], np.int64)

    def _people(self, drawn: Sample) -> People:
        manifest = self._release.manifest
        self._progress.stage("Aligning", ITERATIONS)
        classes = truth_classes(
            self._truth,
            self._table,
            plain_rows(drawn.rows),
            drawn.candidates.rows,
            manifest.columns.sensitive.name,
            [entry.value for entry in manifest.values],
            manifest.null_value,
            _ENGINE_MEMORY,
        )
        people = align(
            drawn.candidates, classes, drawn.whole, manifest.rows, self._slots(), lambda: self._progress.advance(1)
        )
        everyone = drawn.candidates.rows
        rest = "; for the others, success is estimated from the table's margins" if people.pinned < everyone else ""
        certain = "nearly certain" if self._is_approximate(people, drawn) else "certain"
        self._notes.append(f"Who has which value is {certain} for {people.pinned:,} of {everyone:,} people{rest}")
        if self._is_approximate(people, drawn):
            self._notes.append("In a sample that estimate is approximate, by more than the intervals of shares say")
        if not people.converged:
            self._notes.append(
                f"The estimate did not settle: about {people.misplaced:,.0f} people are not where the table and the "
                "release have them"
            )
        return people

    def _is_approximate(self, people: People, drawn: Sample) -> bool:
        return not drawn.whole and people.pinned < drawn.candidates.rows

    def _slots(self) -> Floats:
        """How often each value is in ST."""
        return self._dealt.totals.astype(np.float64)

    def _frequencies(self, people: People | None) -> Floats:
        """The share of every value among all people, as the release shows it, or as the truth has it."""
        counts = self._slots() if people is None else people.classes.totals.astype(np.float64)
        shares: Floats = counts / counts.sum()
        return shares

    def _attack(
        self,
        name: str,
        found: Outline,
        drawn: Sample,
        people: People | None,
        frequencies: Floats,
        outside: Integers | None,
    ) -> Attack:
        candidates, limits = drawn.candidates, self._limits
        if not candidates.rows:
            return Attack(name, 0, notes=(f"Every bucket has more than {self._most:,} candidates: too many to attack",))
        if name == NEGATIVE:
            self._progress.stage("Negative")
            pairs = negative_pairs(self._release)
            return negative(candidates, drawn.rows, pairs, limits, people, frequencies)
        if name == LEARNING:
            self._progress.stage("Learning", ROUNDS + ROUNDS_TOGETHER, "rounds")
            advance = self._progress.advance
            return learning(candidates, limits, people, frequencies, outside, lambda: advance(1))
        if name == MINIMALITY:
            self._progress.stage("Minimality")
            slots = self._dealt.strata()
            return minimality(self._release, slots, candidates, drawn.rows, limits, people, frequencies)
        self._progress.stage("Order")
        return order_attack(self._release, found, self._dealt, drawn, people)


_FORMAT = 1


def audit_object(found: Audit) -> dict[str, Any]:
    """The audit as one JSON object. The keys are a contract (docs/json.md)."""
    return {
        "format": _FORMAT,
        "rows": found.rows,
        "buckets": found.buckets,
        "known_records": found.known_records,
        "fake_values": found.fake_values,
        "sampled": {"rows": found.used, "of": found.rows} if found.sampled else None,
        "broken": list(found.broken),
        "notes": list(found.notes),
        **{attack.name: _attack_object(attack) for attack in found.attacks},
    }


def _attack_object(attack: Attack) -> dict[str, Any]:
    return {
        "people": attack.people,
        **_share_object("success", attack.success),
        **_share_object("baseline", attack.baseline),
        **_share_object("control", attack.control),
        "people_above_limit": attack.people_above_limit,
        "claims": attack.claims,
        "claims_right": attack.claims_right,
        "claims_right_interval": [attack.right.low, attack.right.high] if attack.right is not None else None,
        "mean_limit": attack.mean_limit,
        "details": dict(attack.details),
        "notes": list(attack.notes),
    }


def _share_object(name: str, share: Share | None) -> dict[str, Any]:
    return {
        name: share.share if share is not None else None,
        f"{name}_interval": [share.low, share.high] if share is not None else None,
    }

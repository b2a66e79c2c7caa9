"""Attackers on rows: what they share is read once for a sensitive column, and then they are played.

They are about releases in which every row is a person and has one sensitive value. What is read: all buckets in
passing, a sample of rows or all of them, the truth, and frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.attack.aligned_rows import ITERATIONS, People, align, plain_rows
from dalenius.attack.claims import LimitedGroups
from dalenius.attack.corruption import ChosenGroups, ChosenRecords, numbers_known
from dalenius.attack.dealing import SlotCounts
from dalenius.attack.minimality import leaves_of
from dalenius.attack.reading import (
    Control,
    Outline,
    Sample,
    Target,
    draw_buckets,
    last_buckets,
    limits_of,
    read_outline,
    read_sample,
)
from dalenius.attack.truth import control_people, others_of, truth_classes
from dalenius.errors import InputError
from dalenius.infer.candidates import Floats
from dalenius.infer.compositions import rows_of_buckets
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder
from dalenius.verify.buckets import Integers, WholeBuckets
from dalenius.verify.findings import Report
from dalenius.verify.stated_groups import StatedGroups
from dalenius.verify.stated_tree import Tree, check_tree

_MOST_CONTROL = 100_000  # people outside of the release


class TargetReader:
    """Reads what the attackers share. `notes` say what is to be known about it, after it was read."""

    def __init__(
        self, release: ReleaseFolder, truth: Any, table: str | None, control: Any, progress: Progress, most: int
    ) -> None:
        self._release, self._truth, self._table, self._control = release, truth, table, control
        self._progress, self._most = progress, most
        self._limits = limits_of(release)
        self._rows = rows_of_buckets(release) if release.manifest.surplus else None
        adversary = release.manifest.adversary
        self._slots = SlotCounts(len(self._limits), adversary.fake_values, last_buckets(release.manifest))
        self.notes: list[str] = []

    def read(self, known: int) -> Target:
        """Everything; `known` records of a bucket are known to the corrupting attacker."""
        manifest = self._release.manifest
        adversary = manifest.adversary
        numbers = numbers_known(max(group.size for group in manifest.setting))
        exposure = ChosenRecords(self._limits, adversary.fake_values, adversary.known_records, known, numbers)
        exposure.present = self._rows
        groups, group_exposure = LimitedGroups.of(manifest), None
        if groups is not None and (stated := StatedGroups.of(manifest)) is not None:
            texts = [entry.value for entry in manifest.values]
            group_exposure = ChosenGroups(stated, texts, adversary.fake_values, adversary.known_records, known)
            group_exposure.present = self._rows
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
        outline = read_outline(self._release, watch, self._progress.advance, self._rows)
        places = draw_buckets(outline, self._most, np.random.default_rng(0))
        sample, notes = read_sample(self._release, outline, places, self._progress.advance, others)
        self.notes += notes
        if not sample.whole and sample.candidates.rows:
            self.notes.append(
                f"A random sample of {sample.candidates.rows:,} of {manifest.rows:,} rows is attacked; "
                "people above their limit by known records are counted in all of them. "
                "The learning attacker learns from the sample alone, and gets more out of all rows"
            )
        return outline, sample

    def _others(self) -> tuple[pa.Table, Control]:
        """People who are not in the release: their quasi-identifiers, and what is known of them."""
        manifest = self._release.manifest
        schema = self._release.schema("qit")
        kinds = {column.name: schema.field(column.name).type for column in manifest.columns.quasi_identifiers}
        plain = pa.schema(
            [(name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in kinds.items()]
        )
        sensitive = manifest.columns.sensitive.of[0]
        rows, values, everyone = control_people(
            self._control, None, plain, sensitive, manifest.null_value, _MOST_CONTROL, *others_of(manifest)
        )
        if not everyone:
            raise InputError("the control table has no rows", "Give people who are not in the release.")
        if len(values) < everyone:
            self.notes.append(f"The control is a random sample of {len(values):,} of {everyone:,} people")
        place = {entry.value: number for number, entry in enumerate(manifest.values)}
        numbers = np.array([-1 if value is None else place.get(value, -1) for value in values], np.int64)
        return rows, Control(numbers, self._strata_of(rows))

    def _strata_of(self, rows: pa.Table) -> Integers:
        """The strata to which the manifest's tree leads rows; the first where there is none."""
        strata, chain = self._release.manifest.strata, self._release.manifest.chain
        if chain is not None and chain.release > 1:
            return np.zeros(rows.num_rows, np.int64)  # the tree leads to new strata alone
        if strata is None or not check_tree(self._release.manifest, Report()):
            return np.zeros(rows.num_rows, np.int64)
        tree = Tree.of(strata, dict(zip(rows.schema.names, rows.schema.types, strict=True)))
        return tree.stratum_of[leaves_of(tree, rows, rows.num_rows)]

    def _people(self, sample: Sample) -> People:
        manifest = self._release.manifest
        held_back = manifest.chain.held_back if manifest.chain is not None else 0
        self._progress.stage("Aligning", ITERATIONS)
        classes = truth_classes(
            self._truth,
            self._table,
            plain_rows(sample.rows),
            sample.candidates.rows,
            manifest.columns.sensitive.of[0],
            [entry.value for entry in manifest.values],
            manifest.null_value,
            min(2**30, self._release.memory.engine // 2),  # before the engine that reads the truth spills
            *others_of(manifest),
        )
        if held_back and classes.total == manifest.rows + held_back:
            raise InputError(
                f"the table has {held_back:,} rows more than the release, which held back as many",
                "Leave out the people who are held back: no release has them yet.",
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
        certain = "nearly certain" if is_approximate(people, sample) else "certain"
        self.notes.append(f"Who has which value is {certain} for {people.pinned:,} of {everyone:,} people{rest}")
        if is_approximate(people, sample):
            self.notes.append("In a sample that estimate is approximate, by more than the intervals of shares say")
        if not people.converged:
            self.notes.append(
                f"The estimate did not settle: about {people.misplaced:,.0f} people are not where the table and the "
                "release have them"
            )
        return people

    def _slot_counts(self) -> Floats:
        """How often each value is in ST."""
        return self._slots.totals.astype(np.float64)

    def _frequencies(self, people: People | None) -> Floats:
        """The share of every value among all people, as the release shows it, or as the truth has it."""
        counts = self._slot_counts() if people is None else people.classes.totals.astype(np.float64)
        shares: Floats = counts / counts.sum()
        return shares


def is_approximate(people: People | None, sample: Sample) -> bool:
    """Whether it is not certain who of the sample has what."""
    return people is not None and not sample.whole and people.pinned < sample.candidates.rows

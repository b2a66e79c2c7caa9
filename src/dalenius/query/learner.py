"""Learned estimates for the answers of one release: its classes are found once, queries are answered in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from dalenius.engines.classes import coded_values, keep_runs, rows_by_class, values_that_match
from dalenius.engines.codes import Dictionary
from dalenius.engines.counting import Group, ReleaseTables, same_group
from dalenius.infer.compositions import compositions, first_buckets
from dalenius.infer.learned import learned
from dalenius.infer.pooled import Associations
from dalenius.model.estimate import Estimate, GroupEstimate, Learned
from dalenius.release.folder import ReleaseFolder

MIXED = "The condition ties quasi-identifiers to the sensitive column, and only what separates into both is learned."

Floats = npt.NDArray[np.float64]


class Learner:
    """The association that a release shows. Raises UnsupportedError if the release is not one to learn from."""

    def __init__(self, folder: ReleaseFolder, tables: ReleaseTables) -> None:
        self._tables, self._sensitive = tables, folder.manifest.columns.sensitive.name
        self._codes = Dictionary(folder.manifest.null_value)
        found = compositions(coded_values(tables, self._codes), first_buckets(folder.manifest.strata))
        self._association = Associations(found, folder.manifest.adversary.fake_values)
        keep_runs(tables, found.firsts, found.classes)

    def learn(self, answers: Sequence[GroupEstimate], rows: str, values: str) -> list[GroupEstimate]:
        """The same answers, of a condition on rows and one on values, with what is learned."""
        columns = list(answers[0].group) if answers else []
        place = columns.index(self._sensitive) if self._sensitive in columns else None
        own = [i for i in range(len(columns)) if i != place]
        waiting: dict[Group, list[int]] = {}  # answers by their group of rows
        for number, answer in enumerate(answers):
            cells = list(answer.group.values())
            waiting.setdefault(same_group(cells[i] for i in own), []).append(number)
        sets = self._wanted(values, grouped=place is not None)
        found = list(answers)
        pending: list[tuple[int, Floats, Floats]] = []

        def settle() -> None:
            if pending:
                numbers, matching, wanted = zip(*pending, strict=True)
                for number, estimate in zip(numbers, self._estimates(found, numbers, matching, wanted), strict=True):
                    found[number] = replace(found[number], estimate=estimate)
                pending.clear()

        for group, matching in self._matching(rows, [columns[i] for i in own], list(waiting)):
            for number in waiting.get(group, ()):
                cells = list(answers[number].group.values())
                value = same_group([cells[place]]) if place is not None else ()
                pending.append((number, matching, sets.get(value, self._nothing)))
                if len(pending) == self._association.at_once:
                    settle()
        settle()
        return found

    @property
    def _nothing(self) -> Floats:
        return np.zeros(self._association.values)

    def _wanted(self, values: str, *, grouped: bool) -> dict[Group, Floats]:
        """The set C, by group of the sensitive column; if there are none, all under ()."""
        sets: dict[Group, Floats] = {}
        for text, value in values_that_match(self._tables, values, self._sensitive):
            chosen = sets.setdefault(same_group(value) if grouped else (), self._nothing)
            chosen[self._codes.code(text)] = 1.0
        return sets

    def _matching(self, rows: str, by: Sequence[str], groups: Sequence[Group]) -> Iterator[tuple[Group, Floats]]:
        """The y of every group of rows; zeros where nothing matches."""
        missing = dict.fromkeys(groups)
        for group, entries in groupby(rows_by_class(self._tables, rows, by), key=lambda entry: same_group(entry[0])):
            matching = np.zeros(self._association.classes)
            for _, kind, count in entries:
                matching[kind] += count
            missing.pop(group, None)
            yield group, matching
        for group in missing:
            yield group, np.zeros(self._association.classes)

    def _estimates(
        self,
        answers: Sequence[GroupEstimate],
        numbers: Sequence[int],
        matching: Sequence[Floats],
        wanted: Sequence[Floats],
    ) -> Iterator[Estimate]:
        posterior = self._association.posterior(np.array(matching), np.array(wanted))
        for position, number in enumerate(numbers):
            estimate = answers[number].estimate
            yield replace(estimate, learned=certain(estimate) or learned(posterior, position, estimate.bounds))


def certain(estimate: Estimate) -> Learned | None:
    """What is exact needs no learning."""
    return Learned(estimate.estimate, 0.0, estimate.bounds) if estimate.exact else None

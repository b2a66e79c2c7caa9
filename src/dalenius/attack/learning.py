"""The learning attacker: learns across buckets what goes together, and uses it within them.

F'-privacy as the paper defines it does not cover this, so no success breaks a promise. With the truth the attacker is
scored twice: knowing each person's row, and knowing the quasi-identifiers alone.

Two learners are played: naive Bayes (`infer.naive_bayes`), and, as far as there is room for it, one that fits the
columns together. The better one is shown, as far as the truth tells; without the truth, the second.

Naive Bayes counts twice what two columns tell that go together. With strata it does so even more: they are cut by
quasi-identifiers, so what education tells about an occupation is in the composition of the stratum already, and age,
which goes with education, repeats it. In the second learner a record has value x with a probability in proportion to

    exp(b_x + sum over columns a of f_a(z_a, x)),

with one f for the whole table, in which every column answers only for what the others leave open. As in naive Bayes,
who has what is learned together with it:

    M   for one column after the other, f_a(z, x) += log (N_a(z, x) / E_a(z, x)),     N the sum of beliefs in the rows
        with z, E that of what the model says of these rows (iterative scaling; both are smoothed by one record);
    E   beliefs in proportion to exp (sum of f), matched within the bucket, where b has no say.

On a census table (100,000 records, occupation, 82 strata) it guesses 29.0 % of the people right, naive Bayes 28.2 %,
and the buckets alone 25.8 %. One f for each stratum has too few records to learn from, and an f of what is beyond the
composition of strata leaves out what they show: 26.6 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.attack.reading import Target
from dalenius.attack.scoring import attack_result, by_quasi_identifiers, score
from dalenius.infer.candidates import Beliefs, Candidates, Column, Floats, Integers
from dalenius.infer.naive_bayes import ROUNDS as NAIVE_ROUNDS
from dalenius.infer.naive_bayes import NaiveBayes, learn, likelihood, log_scores, match_values
from dalenius.model.attack_result import Attack, Share

NAME = "learning"
ROUNDS = 6  # more of them learn noise
_MOST_CELLS = 2**25  # rows times values, in single precision
_LARGEST = 8.0  # of f: a value that was never believed in is improbable, and not impossible
_ROWS_AT_ONCE = 2**14
_NAIVE, _TOGETHER = "naive Bayes", "columns fitted together"
_NOT_COVERED = "F'-privacy does not cover what is learned across buckets: beliefs above a limit break no promise"
_TOO_LARGE = "The release is too large for the learner that fits columns together"

Singles = npt.NDArray[np.float32]


def learning(target: Target) -> Attack:
    """Learn with both learners, and score the better one."""
    candidates, people = target.candidates, target.people
    target.progress.stage("Learning", NAIVE_ROUNDS + ROUNDS, "rounds")

    def each_round() -> None:
        target.progress.advance(1)

    learners = [(_NAIVE, learn(candidates, each_round=each_round))]
    notes = [_NOT_COVERED]
    if (together := fit_together(candidates, each_round)) is not None:
        learners.append((_TOGETHER, together))
    elif candidates.columns:
        notes.append(_TOO_LARGE)
    scored = [(name, learned, score(target, learned.beliefs)) for name, learned in learners]
    # without the truth nobody is right: then the last counts
    name, best, scores = max(reversed(scored), key=lambda entry: entry[2].right)
    details: dict[str, Any] = {"rounds": best.rounds, "columns": [column.name for column in candidates.columns]}
    details["learner"] = name
    details["learners"] = [
        {
            "learner": name,
            "success": own.right / own.people if people is not None else None,
            "claims": own.values.claims,
        }
        for name, _, own in scored
    ]
    if people is not None:
        details["by_quasi_identifiers"] = by_quasi_identifiers(candidates, best.beliefs, people)
    control = _guess_control(target, best, target.control) if target.control is not None else None
    return attack_result(NAME, scores, target, details, tuple(notes), control)


def _guess_control(target: Target, learned: NaiveBayes, truth: Integers) -> Share | None:
    """People who are not in the release, guessed from what it teaches about anybody."""
    candidates, right = target.candidates, 0
    at_once = max(1, _ROWS_AT_ONCE * 64 // max(64, candidates.values))
    for start in range(0, len(truth), at_once):
        stop = min(len(truth), start + at_once)
        rows = candidates.rows + np.arange(start, stop)
        guessed = log_scores(learned.tables, candidates.columns, rows, target.frequencies).argmax(axis=1)
        right += int((guessed == truth[start:stop]).sum())
    return Share.of(right, len(truth))


def fit_together(candidates: Candidates, each_round: Callable[[], None] | None = None) -> NaiveBayes | None:
    """The second learner; None if there is no room for it."""
    if not candidates.columns or candidates.rows * candidates.values > _MOST_CELLS:
        return None
    model = _Model(candidates)
    beliefs = candidates.shares()
    for _ in range(ROUNDS):
        model.fit(beliefs)
        beliefs = [match_values(block, likelihood(candidates, block, model.tables)) for block in candidates.blocks]
        if each_round is not None:
            each_round()
    return NaiveBayes(beliefs, tuple(model.tables), ROUNDS)


class _Model:
    """f, as one table a column, and the logarithm of what the model says of every row."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        rows = candidates.rows
        self.tables: list[Floats] = [np.zeros((candidates.values, column.kinds)) for column in candidates.columns]
        # rows in the order of each column's codes: sums over them are sums over stretches
        self._orders = [np.argsort(column.codes[:rows], kind="stable") for column in candidates.columns]
        with np.errstate(divide="ignore"):
            start = np.log(candidates.counts() / max(1.0, float(candidates.counts().sum())))
        self._logs: Singles = np.tile(np.maximum(start, -60.0).astype(np.float32), (rows, 1))

    def fit(self, beliefs: Beliefs) -> None:
        """One pass over the columns."""
        for table, column, order in zip(self.tables, self._candidates.columns, self._orders, strict=True):
            sums = self._sum_beliefs(column, beliefs)
            model = np.maximum(self._sum_model(column, order), 1e-9)
            every = model.sum(axis=1, keepdims=True)
            step = np.log((sums + model / every) / (model * (1 + 1 / every)))
            fitted = np.clip(table + step, -_LARGEST, _LARGEST)
            change = (fitted - table).T.astype(np.float32)
            table[:] = fitted
            for rows in self._parts():
                self._logs[rows] += change[column.codes[rows]]

    def _sum_beliefs(self, column: Column, beliefs: Beliefs) -> Floats:
        """N: beliefs by value and code."""
        sums = np.zeros(self._candidates.values * column.kinds)
        for block, p in zip(self._candidates.blocks, beliefs, strict=True):
            codes = column.codes[block.rows].astype(np.int64)
            places = block.values[:, None, :] * column.kinds + codes[:, :, None]
            weights = np.ascontiguousarray(p[:, : block.size]).ravel()
            sums += np.bincount(places.ravel(), weights=weights, minlength=len(sums))
        return sums.reshape(self._candidates.values, column.kinds)

    def _sum_model(self, column: Column, order: Integers) -> Floats:
        """E: what the model says, by value and code."""
        sums = np.zeros((column.kinds, self._candidates.values))
        for part in self._parts():
            rows = order[part]
            p = np.exp(self._logs[rows] - self._logs[rows].max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            codes = column.codes[rows]
            starts = np.flatnonzero(np.diff(codes, prepend=-1))
            sums[codes[starts]] += np.add.reduceat(p, starts, axis=0)
        return sums.T

    def _parts(self) -> Iterator[slice]:
        for start in range(0, self._candidates.rows, _ROWS_AT_ONCE):
            yield slice(start, min(self._candidates.rows, start + _ROWS_AT_ONCE))

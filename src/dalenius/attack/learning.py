"""The learning attacker: learns across buckets what goes together, and uses it within them.

F'-privacy as the paper defines it does not cover this, so no success breaks a promise. With the truth the attacker is
scored twice: knowing each person's row, and knowing the quasi-identifiers alone.

Two learners are played: naive Bayes (`infer.naive_bayes`), and, as far as there is room for it, the regression by which
analysts learn from a release (`infer.regression`): what they can learn, attackers can. The better one is shown, as far
as the truth tells; without the truth, the second.

Naive Bayes counts twice what two columns tell that go together. With strata it does so even more: they are cut by
quasi-identifiers, so what education tells about an occupation is in the composition of the stratum already, and age,
which goes with education, repeats it. In the regression every column answers only for what the others leave open, each
stratum has a level of its own for every value, and columns that tell little are held to be silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalenius.attack.reading import Target
from dalenius.attack.scoring import attack_result, by_quasi_identifiers, score
from dalenius.infer.candidates import Beliefs, Candidates, Floats, Integers
from dalenius.infer.features import Coding, Design, frequent_kinds
from dalenius.infer.naive_bayes import ROUNDS as NAIVE_ROUNDS
from dalenius.infer.naive_bayes import learn, log_scores
from dalenius.infer.regression import ROUNDS, fit
from dalenius.model.attack_result import Attack, Share

NAME = "learning"
_MOST_CELLS = 2**24  # rows times kinds of values, in single precision
_ROWS_AT_ONCE = 2**14
_NAIVE, _TOGETHER = "naive Bayes", "regression"
_NOT_COVERED = "F'-privacy does not cover what is learned across buckets: beliefs above a limit break no promise"
_TOO_LARGE = "The release is too large for the learner that fits columns together"


@dataclass(frozen=True)
class _Learned:
    """What a learner believes, and the logarithms of its scores for rows of codes and their strata."""

    name: str
    beliefs: Beliefs
    rounds: int
    scores: Callable[[Integers, Integers], Floats]


def learning(target: Target) -> Attack:
    """Learn with both learners, and score the better one."""
    candidates, people = target.candidates, target.people
    target.progress.stage("Learning", NAIVE_ROUNDS + ROUNDS, "rounds")

    def each_round() -> None:
        target.progress.advance(1)

    learners = [_naive(target, each_round)]
    notes = [_NOT_COVERED]
    if (together := fit_together(candidates, target.bucket_strata, each_round)) is not None:
        learners.append(together)
    elif candidates.columns:
        notes.append(_TOO_LARGE)
    scored = [(learned, score(target, learned.beliefs)) for learned in learners]
    # without the truth nobody is right: then the last counts
    best, scores = max(reversed(scored), key=lambda entry: entry[1].right)
    details: dict[str, Any] = {"rounds": best.rounds, "columns": [column.name for column in candidates.columns]}
    details["learner"] = best.name
    details["learners"] = [
        {
            "learner": learned.name,
            "success": own.right / own.people if people is not None else None,
            "claims": own.values.claims,
        }
        for learned, own in scored
    ]
    if people is not None:
        details["by_quasi_identifiers"] = by_quasi_identifiers(candidates, best.beliefs, people)
    control = _guess_control(target, best) if target.control is not None else None
    return attack_result(NAME, scores, target, details, tuple(notes), control)


def _guess_control(target: Target, learned: _Learned) -> Share | None:
    """People who are not in the release, guessed from what it teaches about anybody."""
    assert target.control is not None  # noqa: S101 (there are some)
    candidates, right, truth = target.candidates, 0, target.control.values
    at_once = max(1, _ROWS_AT_ONCE * 64 // max(64, candidates.values))
    for start in range(0, len(truth), at_once):
        stop = min(len(truth), start + at_once)
        guessed = learned.scores(candidates.rows + np.arange(start, stop), target.control.strata[start:stop])
        right += int((guessed.argmax(axis=1) == truth[start:stop]).sum())
    return Share.of(right, len(truth))


def _naive(target: Target, each_round: Callable[[], None]) -> _Learned:
    found = learn(target.candidates, each_round=each_round)

    def scores(rows: Integers, _strata: Integers) -> Floats:
        return log_scores(found.tables, target.candidates.columns, rows, target.frequencies)

    return _Learned(_NAIVE, found.beliefs, found.rounds, scores)


def fit_together(
    candidates: Candidates, strata: Integers, each_round: Callable[[], None] | None = None
) -> _Learned | None:
    """The second learner, given the stratum of every bucket; None if there is no room for it."""
    kind_of, kinds = frequent_kinds(candidates.counts())
    if not candidates.columns or candidates.rows * kinds > _MOST_CELLS:
        return None
    coding = Coding(candidates.columns, candidates.rows)
    design = Design.of_values(candidates, kind_of, kinds, strata, coding)
    found = fit(design, each_round=each_round)
    shares = np.log(np.maximum(candidates.counts(), 1e-9))
    of_kind = np.log(np.maximum(np.bincount(kind_of, weights=candidates.counts(), minlength=kinds), 1e-9))

    def scores(rows: Integers, strata: Integers) -> Floats:
        parts = found.logits_of(coding.dense(candidates.columns, rows), strata)
        values: Floats = parts[:, kind_of] + shares - of_kind[kind_of]
        return values

    return _Learned(_TOGETHER, found.beliefs(candidates, kind_of), ROUNDS, scores)

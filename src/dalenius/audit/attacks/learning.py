"""The learning attacker: what goes together, learned across buckets, used within them.

Two learners are played: naive Bayes (`infer.naive_bayes`), and one that fits the columns together (`fitted`), as far as
there is room for it. The better one is shown, as far as the truth tells; without it, the second.

F'-privacy as the paper defines it does not cover this, so no success breaks a promise. With the truth it is scored
twice: knowing each person's row, and knowing the quasi-identifiers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dalenius.audit.attacks.fitted import fit_together
from dalenius.audit.attacks.people import People
from dalenius.audit.attacks.scoring import attack, by_quasi_identifiers, score
from dalenius.infer.candidates import Candidates, Floats, Integers
from dalenius.infer.naive_bayes import NaiveBayes, learn, log_scores
from dalenius.model.attack import Attack, Share

NAME = "learning"
_NOT_COVERED = "F'-privacy does not cover what is learned across buckets: beliefs above a limit break no promise"
_TOO_LARGE = "The release is too large for the learner that fits columns together"
_ROWS_AT_ONCE = 2**14
_NAIVE, _TOGETHER = "naive Bayes", "columns fitted together"


def learning(
    candidates: Candidates,
    limits: Sequence[Fraction],
    people: People | None,
    frequencies: Floats,
    control: Integers | None = None,
    each_round: Callable[[], None] | None = None,
) -> Attack:
    """Learn, and score. `control` are the values of the people whose codes come after the rows."""
    tried = [(_NAIVE, learn(candidates, each_round=each_round))]
    notes = [_NOT_COVERED]
    if (together := fit_together(candidates, each_round)) is not None:
        tried.append((_TOGETHER, together))
    elif candidates.columns:
        notes.append(_TOO_LARGE)
    scored = [(name, one, score(candidates, limits, one.beliefs, people, frequencies)) for name, one in tried]
    # without the truth nobody is right: then the last counts
    name, learned, found = max(reversed(scored), key=lambda entry: entry[2].right)
    details: dict[str, object] = {"rounds": learned.rounds, "columns": [column.name for column in candidates.columns]}
    details["learner"] = name
    details["learners"] = [
        {"learner": name, "success": one.right / one.people if people is not None else None, "claims": one.claims}
        for name, _, one in scored
    ]
    if people is not None:
        details["by_quasi_identifiers"] = by_quasi_identifiers(candidates, learned.beliefs, people)
    outside = _outside(candidates, learned, frequencies, control) if control is not None else None
    return attack(NAME, found, people is not None, details, tuple(notes), outside)


def _outside(candidates: Candidates, learned: NaiveBayes, frequencies: Floats, truth: Integers) -> Share | None:
    """People who are not in the release, guessed from what it teaches about anybody."""
    right = 0
    for start in range(0, len(truth), max(1, _ROWS_AT_ONCE * 64 // max(64, candidates.values))):
        stop = min(len(truth), start + max(1, _ROWS_AT_ONCE * 64 // max(64, candidates.values)))
        rows = candidates.rows + np.arange(start, stop)
        guessed = log_scores(learned.tables, candidates.columns, rows, frequencies).argmax(axis=1)
        right += int((guessed == truth[start:stop]).sum())
    return Share.of(right, len(truth))

"""What follows from attacks for publication."""

from __future__ import annotations

import pytest

from dalenius.model.attack_result import LEARNING, Attack, Audit
from dalenius.model.concern import Advice, Severity


def audit(*attacks: Attack) -> Audit:
    return Audit(attacks, rows=12, buckets=4, known_records=0, fake_values=0, used=12)


@pytest.mark.parametrize("column", [None, "Disease"])
def test_nothing_is_cleared_if_nobody_tried_to_learn(column: str | None) -> None:
    played = Attack(name=LEARNING, people=12, claims=0, claims_right=0, people_above_limit=0, column=column)
    assert audit(played).advice is Advice.PUBLISH
    unplayed = Attack(name=LEARNING, people=0, not_played="people can have several values", column=column)
    (concern,) = audit(unplayed).concerns
    assert (concern.code, concern.severity, concern.attacker) == ("not-played", Severity.LOOK, LEARNING)
    assert concern.columns == (() if column is None else (column,))
    assert audit(unplayed).advice is Advice.LOOK_FIRST
    others = Attack(name="union", people=0, not_played="nobody has several rows", column=column)
    assert audit(played, others).advice is Advice.PUBLISH

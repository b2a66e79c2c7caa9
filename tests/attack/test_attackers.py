"""The list of attackers, and how one is added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dalenius.attack.audit import ATTACKERS, Attacker, audit, audit_object
from dalenius.attack.reading import Target
from dalenius.attack.scoring import attack_result, score
from dalenius.cli.audit_command import show_audit
from dalenius.errors import UsageError
from dalenius.model.attack_result import ATTACKS, Attack
from tests.attack.tables import table


def test_every_attacker_is_described() -> None:
    """In the order in which they are played."""
    assert list(ATTACKERS) == list(ATTACKS)


def last_value(target: Target) -> Attack:
    """A toy: believes that everybody has the last value of the bucket."""
    beliefs = []
    for block in target.candidates.blocks:
        p = np.zeros(block.shape)
        p[:, :, -1] = 1.0
        beliefs.append(p)
    return attack_result("last value", score(target, beliefs), target, {"toy": True})


def test_a_new_attacker_takes_one_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(ATTACKERS, "last value", Attacker(last_value))
    made = table(300)
    folder = made.write(tmp_path / "release")
    result = audit(folder, truth=made.source(), attacks=["order", "last value"])
    assert [attack.name for attack in result.attacks] == ["order", "last value"]
    attack = result["last value"]
    assert attack.people == 300
    assert attack.success is not None
    assert attack.success.low < 1 / 3 < attack.success.high
    assert (attack.people_above_limit, attack.claims) == (300, 300)  # certain, where limits are 2/5
    assert audit_object(result)["last value"]["details"]["toy"]
    show_audit(result)
    assert "last value" in capsys.readouterr().out


def test_an_attacker_whom_there_is_not(tmp_path: Path) -> None:
    folder = table(300).write(tmp_path / "release")
    with pytest.raises(UsageError, match="there is no attack 'guessing'"):
        audit(folder, attacks=["guessing"])

"""The attacker who knows another column, where the release says what goes with what."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dalenius.attack.audit import audit
from dalenius.model.attack_result import Attack
from dalenius.verify.judge import verify
from tests.handmade_people import HandmadePeople, Sensitive

DISEASE = Sensitive("Disease", ["Disease"], limits={"hiv": "2/3", "flu": "2/3", "cold": "2/3"})
DRUG = Sensitive("Drug", ["Drug"], limits={"x": "3/4", "y": "3/4", "z": "3/4"})
TEST = Sensitive("Test", ["Test"])


def patients(each: int = 1, people: int = 240) -> HandmadePeople:
    """People with `each` rows and ages of their own, in buckets of six. The drug of hiv is always z."""
    draw = random.Random(2)  # noqa: S311

    def row(who: int) -> Any:
        disease = ["hiv", "flu", "cold"][who % 3]
        drug = "z" if disease == "hiv" else draw.choice("xy")
        return (who,), {"Disease": disease, "Drug": drug, "Test": draw.choice("+-")}

    made = [[row(who) for _ in range(each)] for who in range(people)]
    return HandmadePeople(
        {"Age": pa.int64()},
        made,
        [1 + who // 6 for who in range(people)],
        [DISEASE, DRUG, TEST],
        numbered=each > 1,
        together=[["Disease", "Drug"]],
    )


def attack(made: HandmadePeople, folder: Path, column: str, **others: Any) -> Attack:
    release = folder if folder.exists() else made.write(folder)
    (found,) = audit(release, attacks=["other-column"], **others).of(column)
    return found


def test_the_release_says_what_goes_with_what(tmp_path: Path) -> None:
    made = patients()
    apart = replace(made, together=[])
    truth = made.source()
    kept = attack(made, tmp_path / "kept", "Drug", truth=truth)
    learned = attack(apart, tmp_path / "apart", "Drug", truth=truth)
    assert kept.details["known_column"] == "Disease"
    assert [one["kept_together"] for one in kept.details["known_columns"]] == [True, False]
    assert [one["kept_together"] for one in learned.details["known_columns"]] == [False, False]
    assert kept.success is not None
    assert learned.success is not None
    assert kept.people == 240
    # by plain loops: the most frequent drug among those of the bucket with the disease
    right = Fraction(0)
    for bucket in set(made.buckets):
        members = [person[0][1] for person, own in zip(made.people, made.buckets, strict=True) if own == bucket]
        for disease in ("hiv", "flu", "cold"):
            drugs = [cells["Drug"] for cells in members if cells["Disease"] == disease]
            right += max(drugs.count(drug) for drug in "xyz")
    assert kept.success.share == pytest.approx(float(right / 240))
    assert learned.success.share < kept.success.share - 0.05
    assert kept.claims_right is not None
    assert kept.claims_right == kept.claims  # with two of a disease in a bucket, above 3/4 is certain
    assert kept.remedy is not None
    assert "--keep-together" in kept.remedy
    (known,) = [one for one in verify(tmp_path / "kept").known_columns if one.known == "Disease"]
    assert (kept.people_above_limit, known.pinned) == (known.above, known.above)
    alone = attack(made, tmp_path / "kept", "Test", truth=truth)
    assert not any(one["kept_together"] for one in alone.details["known_columns"])
    assert audit(tmp_path / "kept", attacks=["other-column"]).of("Drug")[0].claims == kept.claims


def test_people_with_several_rows(tmp_path: Path) -> None:
    made = patients(2)
    found = attack(made, tmp_path / "kept", "Drug", truth=made.source(), person="id")
    assert found.success is not None
    assert found.details["known_column"] == "Disease"
    assert found.people == 240  # everybody has one disease
    assert any("in the same row" in note for note in found.notes)
    right = Fraction(0)
    for bucket in set(made.buckets):
        members = [person for person, own in zip(made.people, made.buckets, strict=True) if own == bucket]
        for disease in ("hiv", "flu", "cold"):
            own = [{cells["Drug"] for _, cells in person} for person in members if person[0][1]["Disease"] == disease]
            have = [sum(drug in drugs for drugs in own) for drug in "xyz"]
            best = [number for number in have if number == max(have)]
            right += Fraction(sum(best), len(best))
    assert found.success.share == pytest.approx(float(right / 240))
    apart = attack(replace(made, together=[]), tmp_path / "apart", "Drug", truth=made.source(), person="id")
    assert apart.success is not None
    assert apart.success.share < found.success.share
    assert not any("in the same row" in note for note in apart.notes)

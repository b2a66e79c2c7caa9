"""Claims about groups of values: by hand, and against loops over people, groups and values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from dalenius.attack import claims
from dalenius.attack.audit import ATTACKERS, Attacker, audit, audit_object
from dalenius.attack.reading import Target
from dalenius.attack.scoring import attack_result, score
from dalenius.cli.audit_command import show_audit
from dalenius.cli.main import main
from dalenius.infer.candidates import Beliefs
from dalenius.model.attack_result import Attack, Audit, Claims, ClaimsAbout
from dalenius.model.concern import Advice
from tests.handmade import Handmade, grouped_hospital, hospital

GROUPS = [("any", None, "4/5"), ("virus", "any", "1/2"), ("rest", None, None)]
GROUP_OF = {"HIV": "virus", "HPV": "virus", "Flu": "any", "Cold": "rest", "Gout": "rest"}


def two_buckets() -> Handmade:
    """Eight people with a number each, so that it is certain who has what."""
    values = ["HIV", "HPV", "Flu", "Cold", "HIV", "Flu", "Cold", "Gout"]
    rows = [(number,) for number in range(8)]
    limits = dict.fromkeys(values, "2/5")
    return Handmade(
        {"id": pa.int64()}, rows, values, [1] * 4 + [2] * 4, limits=limits, groups=GROUPS, group_of=GROUP_OF
    )


def of_toy(
    monkeypatch: pytest.MonkeyPatch, made: Handmade, folder: Path, beliefs: dict[int, dict[str, float]]
) -> Audit:
    """An attacker who believes this of people, and of everybody else what their bucket says."""

    def toy(target: Target) -> Attack:
        texts = [entry.value for entry in target.release.manifest.values]
        every: Beliefs = []
        for block in target.candidates.blocks:
            p = block.shares()
            for bucket, row in np.ndindex(block.rows.shape):
                if (own := beliefs.get(int(block.rows[bucket, row]))) is not None:
                    p[bucket, row] = [own[texts[value]] for value in block.values[bucket]]
            every.append(p)
        return attack_result("toy", score(target, every), target, {})

    monkeypatch.setitem(ATTACKERS, "toy", Attacker(toy))
    return audit(made.write(folder), truth=made.source(), attacks=["order", "toy"])


def test_the_sum_over_the_values_of_a_group_is_above_its_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beliefs = {
        0: {"HIV": 0.3, "HPV": 0.3, "Flu": 0.3, "Cold": 0.1},  # a virus with 0.6, anything with 0.9: both are true
        1: {"HIV": 0.2, "HPV": 0.2, "Flu": 0.3, "Cold": 0.3},  # nothing is above a limit
        2: {"HIV": 0.3, "HPV": 0.3, "Flu": 0.2, "Cold": 0.2},  # a virus with 0.6, which is false; anything with 0.8
        3: {"HIV": 0.0, "HPV": 0.0, "Flu": 0.4, "Cold": 0.6},  # a cold: a claim about a value, and about no group
    }
    result = of_toy(monkeypatch, two_buckets(), tmp_path, beliefs)
    found = result["toy"]
    assert (found.claims, found.claims_right) == (1, 1)
    groups = found.groups
    assert groups is not None
    assert (groups.people_above_limit, groups.claims, groups.claims_right) == (2, 3, 2)
    assert groups.mean_limit == pytest.approx((0.5 + 0.5 + 0.8) / 3)
    assert groups.points == pytest.approx(100 * (2 / 3 - 0.6))
    told = audit_object(result)
    assert told["order"]["groups"] is None
    assert told["toy"]["groups"] == {
        "people_above_limit": 2,
        "claims": 3,
        "claims_right": 2,
        "claims_right_interval": [groups.right.low, groups.right.high] if groups.right else None,
        "mean_limit": pytest.approx(0.6),
        "points": pytest.approx(100 / 15),
        # of claims about a virus half are right, as allowed
        "worst_groups": [{"group": "any", "claims": 1, "claims_right": 1.0, "limit": 0.8}],
    }
    json.dumps(told)
    show_audit(result)
    shown = capsys.readouterr().out
    table = shown[shown.index("Claims about groups of values") :].splitlines()
    assert table[3].split() == ["toy", "2", "3", "66.7%", "60.0%"]


def test_a_release_without_limits_on_groups_has_no_such_claims(tmp_path: Path) -> None:
    chronic = dict.fromkeys(("HIV", "Gout", "Flu", "Cold"), "Chronic")
    for name, made in {
        "none": hospital(),
        "unlimited": grouped_hospital(groups=[("Chronic", None, None)], group_of=chronic),
        "limit of 1": grouped_hospital(groups=[("Chronic", None, "1")], group_of=chronic),
    }.items():
        found = audit(made.write(tmp_path / name))
        assert [attack.groups for attack in found.attacks] == [None] * len(found.attacks)


def some_release(rng: np.random.Generator) -> Handmade:
    """Buckets of different sizes, with values of groups in groups; limits are loose enough to be kept, or are not."""
    values, buckets = list[str](), list[int]()
    for bucket, size in enumerate(sorted(rng.integers(2, 9, 39).tolist()), 1):
        values += [f"v{k}" for k in rng.integers(0, 12, size)]
        buckets += [bucket] * size
    groups: list[tuple[str, str | None, str | None]] = [(f"g{k}", None, "4/5") for k in range(3)]
    groups += [(f"h{k}", f"g{k % 3}", "3/5") for k in range(5)] + [("i0", "h0", None), ("i1", "i0", "1/2")]
    group_of = {f"v{k}": ["g0", "h0", "h1", "h2", "h3", "h4", "i1", "i0", "g1", "i1"][k] for k in range(10)}
    rows = [(number,) for number in range(len(values))]
    made = Handmade({"id": pa.int64()}, rows, values, buckets, groups=groups, group_of=group_of)
    used = {name for value in set(values) for name in made.holding(value)}
    return Handmade(
        {"id": pa.int64()},
        rows,
        values,
        buckets,
        limits={f"v{k}": "9/10" for k in range(12)},
        groups=[group for group in groups if group[0] in used],
        group_of={value: group for value, group in group_of.items() if value in values},
    )


def limited(made: Handmade, value: str) -> Iterator[tuple[str, Fraction]]:
    limits = {name: Fraction(limit) for name, _, limit in made.groups if limit is not None}
    return ((name, limits[name]) for name in made.holding(value) if name in limits)


@pytest.mark.parametrize("cells", [2**20, 64])
def test_claims_against_loops(cells: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All buckets at once, or a few at a time."""
    monkeypatch.setattr(claims, "_CELLS", cells)
    rng = np.random.default_rng(3)
    made = some_release(rng)
    held = {bucket: list[str]() for bucket in made.buckets}
    for value, bucket in zip(made.values, made.buckets, strict=True):
        held[bucket] = sorted({*held[bucket], value})
    own = {
        number: dict(zip(held[bucket], rng.dirichlet(np.ones(len(held[bucket]))).tolist(), strict=True))
        for number, bucket in enumerate(made.buckets)
    }
    found = of_toy(monkeypatch, made, tmp_path, own)["toy"].groups
    people, number, right, allowed = set(), 0, 0, Fraction(0)
    for person, believed in own.items():
        sums: dict[tuple[str, Fraction], float] = {}
        for value, p in believed.items():
            for group in limited(made, value):
                sums[group] = sums.get(group, 0.0) + p
        for (name, limit), p in sums.items():
            if p > limit:
                people.add(person)
                number, allowed = number + 1, allowed + limit
                right += name in made.holding(made.values[person])
    assert found is not None
    assert (found.people_above_limit, found.claims, found.claims_right) == (len(people), number, right)
    assert number > len(people) > 20
    assert found.mean_limit == pytest.approx(float(allowed / number))


@pytest.mark.parametrize("known", [0, 1, 3])
def test_chosen_records_put_people_above_the_limit_of_a_group(known: int, tmp_path: Path) -> None:
    """By person and group: what is left of it if as many others as possible are known to be without it."""
    made = some_release(np.random.default_rng(4))
    found = audit(made.write(tmp_path), attacks=["corruption"], known=known)["corruption"]
    everyone = list(zip(made.values, made.buckets, strict=True))
    people = 0
    for value, bucket in everyone:
        held = [other for other, where in everyone if where == bucket]
        left = max(1, len(held) - known)
        above = False
        for name, limit in {group for other in held for group in limited(made, other)}:
            of_it = sum(name in made.holding(other) for other in held)
            most = min(of_it, left if name in made.holding(value) else left - 1)
            above |= Fraction(most, left) > limit
        people += above
    assert found.groups is not None
    assert found.groups.people_above_limit == people > 0
    if not known:  # then the limits are not kept
        assert f"{people:,} people can be put above the limit of a group of values by an attacker" in found.broken[-1]


def test_known_records_against_a_group(tmp_path: Path) -> None:
    """Of the last bucket, two of four are chronic; if one of the others is known it is two of three for all of them.

    In the bucket of a flu and a gout, it is certain for whoever has gout. Elsewhere it is one of three at most.
    """
    made = grouped_hospital()
    found = audit(made.write(tmp_path), attacks=["corruption"])["corruption"]
    assert found.groups is not None
    assert found.groups.people_above_limit == 1 + 4
    assert found.broken == ()


def test_more_true_claims_about_a_group_than_allowed_are_a_concern(monkeypatch: pytest.MonkeyPatch) -> None:
    worst = (ClaimsAbout("virus", 100, 45.0, 0.3),)
    groups = Claims(people_above_limit=70, claims=100, claims_right=45, mean_limit=0.3, worst=worst)
    found = Audit((Attack("learning", 500, claims=0, claims_right=0, groups=groups),), 500, 100, 0, 0, 500)
    (concern,) = found.concerns
    assert found.advice is Advice.DO_NOT_PUBLISH
    assert (concern.code, concern.people, concern.points) == ("above-limit", 70, 15.0)
    assert (concern.attacker, concern.values, concern.groups) == ("learning", (), ("virus",))
    assert concern.message.endswith("where the limits allow 30.0%; worst: 'virus'")
    assert "70 people above the limit of a group of values" in concern.message
    monkeypatch.setattr("dalenius.attack.audit.audit", lambda *_, **__: found)
    words = ["audit", "release", "--truth", "table", "--fail-above"]
    assert [CliRunner().invoke(main, [*words, points]).exit_code for points in ("14", "16")] == [1, 0]
    unknown = Claims(people_above_limit=70, claims=100, mean_limit=0.3)
    found = Audit((Attack("learning", 500, claims=0, groups=unknown),), 500, 100, 0, 0, 500)
    assert [(one.code, one.message[:9]) for one in found.concerns] == [("not-measured", "70 people")]

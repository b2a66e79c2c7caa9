"""Groups of values: every one of them in every bucket against its limit, and what the manifest says of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dalenius.cli.main import main
from dalenius.model.groups import MOST_LEVELS
from dalenius.policy.limits import LimitPolicy
from dalenius.release import manifest as release_manifest
from dalenius.release.manifest import read_manifest
from dalenius.verify import stated_groups
from dalenius.verify.buckets import BucketStream
from dalenius.verify.findings import verdict_object
from dalenius.verify.judge import verify
from dalenius.verify.stated_groups import GroupRuns, StatedGroups
from tests.handmade import Handmade, edit_manifest, grouped_hospital, hospital, restate_hashes, rewrite
from tests.verify.test_verify import failed, not_made

# Gout of bucket 2 for the cold of bucket 4: every value keeps its limit, and three of four in bucket 4 are chronic.
CROWDED = ["Flu", "Cold", "Flu", "Cold", "HIV", "Flu", "Flu", "Cold", "HIV", "Gout", "Gout", "Flu"]
WITH_FAKES: dict[str, Any] = {"fakes": [(1, "Gout"), (2, "Cold"), (3, "Cold"), (4, "Cold")]}


@pytest.mark.parametrize("changes", [{}, WITH_FAKES, {"known_records": 1, "limits": {}}], ids=["", "fakes", "known"])
@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_a_right_release_passes(tmp_path: Path, batch_rows: int, changes: dict[str, Any]) -> None:
    groups = [("Chronic", None, "1"), ("Joints", "Chronic", None), ("Airways", None, None)]
    made = grouped_hospital(groups=groups, **changes)
    for kind in ("parquet", "csv"):
        folder = made.write(tmp_path / kind, kind) if kind == "parquet" else text(made).write(tmp_path / kind, kind)
        verdict = verify(folder, batch_rows=batch_rows)
        assert verdict.findings == ()
        assert [(share.name, share.parent) for share in verdict.groups] == [
            ("Airways", None),
            ("Chronic", None),
            ("Joints", 1),
        ]
    assert "or of a group of values" in verdict["limits"].summary


def text(made: Handmade) -> Handmade:
    types = {name: pa.string() if pa.types.is_dictionary(kind) else kind for name, kind in made.types.items()}
    return grouped_hospital(**{**vars(made), "types": types})


def test_a_group_above_its_limit_though_every_value_keeps_its_own(tmp_path: Path) -> None:
    folder = grouped_hospital(values=CROWDED).write(tmp_path / "release")
    assert verify(hospital(values=CROWDED).write(tmp_path / "without"))
    verdict = verify(folder)
    assert failed(verdict) == {"manifest", "limits"}  # its worst case says so too
    assert verdict["limits"].summary == (
        "1 bucket holds more of a group of values than its limit allows; the worst: 'Chronic' 3 of 4 in bucket 4, "
        "limit 1/2"
    )
    assert "the worst case of the group 'Chronic', 3 of 4, is above its limit 1/2" in verdict["manifest"].summary
    result = CliRunner().invoke(main, ["verify", str(folder)])
    assert result.exit_code == 1
    assert "more of a group of values than its limit allows" in result.stdout


def test_limits_of_groups_hold_whatever_limits_of_values_are_given(tmp_path: Path) -> None:
    crowded = grouped_hospital(values=CROWDED).write(tmp_path / "crowded")
    edit_manifest(crowded, lambda m: m["values"][1].update(count=1))  # then the table is read once more
    for policy in (LimitPolicy.of(uniform="1"), LimitPolicy.of(values=dict(hospital().limits))):
        assert verify(grouped_hospital().write(tmp_path / "release"), policy=policy)
        assert "'Chronic' 3 of 4 in bucket 4" in verify(crowded, policy=policy)["limits"].summary


def test_known_records_and_fakes_count_in_groups(tmp_path: Path) -> None:
    """Two chronic rows of four records are all right if nothing is known, and 2 of 3 if one record is."""
    made = grouped_hospital(known_records=1, limits={})
    verdict = verify(made.write(tmp_path / "release"))
    assert "'Chronic' 1 of 2 less 1 known in bucket 2, limit 1/2" in verdict["limits"].summary
    fakes = [(1, "Gout"), (2, "Gout"), (3, "Cold"), (4, "Cold")]
    verdict = verify(grouped_hospital(fakes=fakes).write(tmp_path / "fakes"))
    assert "1 bucket holds more of a group of values" in verdict["limits"].summary
    assert "'Chronic' 2 of 2 in bucket 2" in verdict["limits"].summary


Change = Callable[[dict[str, Any]], Any]


def swap_groups(manifest: dict[str, Any]) -> None:
    """Chronic and Joints before Airways: still a tree, and every number is right."""
    airways, chronic, joints = manifest["groups"]
    manifest["groups"] = [chronic, {**joints, "parent": 0}, airways]
    for value in manifest["values"]:
        value["group"] = {0: 2, 1: 0, 2: 1}[value["group"]]


def move_member(manifest: dict[str, Any]) -> None:
    """Gout goes from the joints to the airways, and all counts with it."""
    manifest["values"][2]["group"] = 0
    manifest["groups"][0]["count"], manifest["groups"][1]["count"] = 10, 2
    manifest["groups"].pop()


def without_joints(manifest: dict[str, Any]) -> None:
    manifest["groups"].pop()


BROKEN: dict[str, tuple[Change, str, str]] = {
    "a member moved": (lambda m: m["values"][2].update(group=0), "manifest", "'Airways' add up to 10, and the"),
    "a member moved, with its counts": (move_member, "values", "'Chronic' 1 of 4, not 2 of 4"),
    "a wrong count": (lambda m: m["groups"][2].update(count=3), "manifest", "'Joints' add up to 2, and the"),
    "a wrong worst case": (lambda m: m["groups"][1].update(worst={"count": 1, "size": 4}), "values", "not 1 of 4"),
    "the other of two equal shares": (lambda m: m["groups"][1].update(worst={"count": 1, "size": 2}), "values", "not"),
    "a worst case that cannot be": (lambda m: m["groups"][2]["worst"].update(count=3), "manifest", "cannot be"),
    "of a size that is not there": (lambda m: m["groups"][0]["worst"].update(size=3), "manifest", "cannot be"),
    "a group missing": (without_joints, "manifest", "1 value is in a group that is not there"),
    "no groups": (lambda m: m.update(groups=None), "manifest", "4 values are in a group, and there are no groups"),
    "a wrong parent": (lambda m: m["groups"][2].update(parent=0), "manifest", "the counts of the values in the group"),
    "its own parent": (lambda m: m["groups"][1].update(parent=1), "manifest", "before the group that it is part of"),
    "a parent nowhere": (lambda m: m["groups"][1].update(parent=9), "manifest", "before the group that it is part"),
    "another order": (swap_groups, "manifest", "the groups are not in order"),
    "a name twice": (lambda m: m["groups"][1].update(name="Airways"), "manifest", "1 group listed more than once"),
    "a group without values": (lambda m: m["values"][2].update(group=None), "manifest", "1 group has no value"),
    "a limit that is not kept": (lambda m: m["groups"][0].update(limit="1/2"), "limits", "'Airways' 2 of 2 in bucket"),
    "a limit in higher terms": (lambda m: m["groups"][1].update(limit="2/4"), "manifest", "not spelled"),
    "a limit of 0": (lambda m: m["groups"][1].update(limit="0"), "manifest", "a limit is above 0"),
    "an empty name": (lambda m: m["groups"][0].update(name=""), "manifest", "groups.0.name"),
    "a table in a name": (lambda m: m["groups"][0].update(name="A" * 301), "manifest", "groups.0.name"),
    "a table in a level": (lambda m: m["groups"][2].update(level="A" * 301), "manifest", "groups.2.level"),
    "an empty list": (lambda m: m.update(groups=[]), "manifest", "groups"),
    "a place below 0": (lambda m: m["values"][0].update(group=-1), "manifest", "values.0.group"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_groups_is_found(tmp_path: Path, name: str) -> None:
    folder = grouped_hospital().write(tmp_path / "release")
    assert verify(folder)
    change, check, words = BROKEN[name]
    edit_manifest(folder, change)
    verdict = verify(folder)
    assert check in failed(verdict)
    assert words in verdict[check].summary


def test_a_row_of_a_group_that_changed_its_bucket(tmp_path: Path) -> None:
    folder = grouped_hospital().write(tmp_path / "release")

    def swapped(rows: list[dict[str, Any]]) -> None:
        gout = next(row for row in rows if row["bucket"] == 2 and row["Disease"] == "Gout")
        cold = next(row for row in rows if row["bucket"] == 4 and row["Disease"] == "Cold")
        gout["Disease"], cold["Disease"] = "Cold", "Gout"
        rows.sort(key=lambda row: (row["bucket"], row["Disease"]))

    rewrite(folder, "st", swapped)
    restate_hashes(folder)
    verdict = verify(folder)
    assert {"limits", "values"} <= failed(verdict)
    assert "'Chronic' 3 of 4, not 2 of 4" in verdict["values"].summary


def test_groups_that_are_no_tree_leave_limits_unchecked(tmp_path: Path) -> None:
    folder = grouped_hospital().write(tmp_path / "release")
    edit_manifest(folder, lambda m: m["groups"][1].update(parent=2))
    verdict = verify(folder)
    assert failed(verdict) == {"manifest"}
    assert not_made(verdict) == {"limits", "values"}
    assert "the groups of the manifest are no tree" in verdict["limits"].summary


def test_nobody_keeps_the_judge_busy_with_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = grouped_hospital().write(tmp_path / "release")

    def chain(manifest: dict[str, Any], length: int) -> None:
        last = manifest["groups"][2]
        more = [{**last, "name": f"Joints {number:05d}", "parent": 2 + number} for number in range(length)]
        manifest["groups"] += more
        manifest["values"][2]["group"] = 2 + length

    edit_manifest(folder, lambda manifest: chain(manifest, MOST_LEVELS - 2))
    assert verify(folder)
    folder = grouped_hospital().write(tmp_path / "release")
    edit_manifest(folder, lambda manifest: chain(manifest, 5000))
    assert "its groups are 5,002 deep" in verify(folder)["manifest"].summary
    monkeypatch.setattr(release_manifest, "MOST_VALUES", 5000)
    assert "the manifest has 5,003 groups, more than 5,000" in verify(folder)["manifest"].summary


def test_format_4_has_no_groups_and_its_own_spelling(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release", format=4)
    manifest = read_manifest(folder)
    assert (manifest.made_in, manifest.is_strict, manifest.groups) == (4, True, None)
    assert manifest.to_json() == (folder / "manifest.json").read_text(encoding="utf-8")
    assert verify(folder)
    for change in (
        lambda m: m.update(groups=None),
        lambda m: m["values"][0].update(group=None),
        lambda m: m["values"][0].update(value=m["values"][0].pop("value")),
        lambda m: m["values"][0].update(limit="2/4"),
        lambda m: m.pop("strata"),
    ):
        folder = hospital().write(tmp_path / "release", format=4)
        edit_manifest(folder, change)
        assert failed(verify(folder)) == {"manifest"}


@st.composite
def grouped(draw: st.DrawFn) -> Handmade:
    """Any tree over a few values, in any buckets."""
    count = draw(st.integers(1, 6))
    parents = [draw(st.sampled_from([None, *range(place)])) for place in range(count)]
    names = draw(st.permutations([f"g{place}" for place in range(count)]))
    values = ["a", "b", "c", "d", "e"]
    group_of = {value: names[draw(st.integers(0, count - 1))] for value in values if draw(st.booleans())}
    buckets = sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=20)))
    sizes = sorted(Counter(buckets).values())
    return Handmade(
        types={"Age": pa.int64()},
        rows=[(1,)] * len(buckets),
        values=draw(st.lists(st.sampled_from(values), min_size=len(buckets), max_size=len(buckets))),
        buckets=[number for number, size in enumerate(sizes, 1) for _ in range(size)],
        groups=[
            (name, None if parent is None else names[parent], "1") for name, parent in zip(names, parents, strict=True)
        ],
        group_of=group_of,
    )


@given(grouped(), st.integers(1, 5), st.sampled_from([0, 1000]))
def test_any_tree_passes_and_a_lower_limit_of_any_group_fails(made: Handmade, batch_rows: int, room: int) -> None:
    shown = {made.text(value) for _, value in made.shown()}
    made = Handmade(**{**vars(made), "group_of": {v: g for v, g in made.group_of.items() if v in shown}})
    with TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stated_groups, "_ROOM", room)
        folder = made.write(Path(scratch))
        verdict = verify(folder, batch_rows=batch_rows)
        assert verdict, verdict.findings
        for place, share in enumerate(verdict.groups):
            below = str(share.share - Fraction(1, 1000))
            edit_manifest(folder, limit_to(place, below))
            verdict = verify(folder, batch_rows=batch_rows)
            assert verdict["limits"].count == buckets_above(made, share.name, Fraction(below))
            assert f"the worst: {share.name!r} " in verdict["limits"].summary
            edit_manifest(folder, limit_to(place, None))
        assert verify(folder)


def limit_to(place: int, limit: str | None) -> Change:
    return lambda manifest: manifest["groups"][place].update(limit=limit)


def buckets_above(made: Handmade, group: str, limit: Fraction) -> int:
    sizes = Counter(made.buckets)
    held = Counter(bucket for bucket, value in made.shown() if group in made.holding(made.text(value)))
    return sum(1 for bucket, count in held.items() if Fraction(count, sizes[bucket]) > limit)


@pytest.mark.parametrize("room", [0, 1000])
def test_runs_of_groups_are_those_of_counting_rows(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stated_groups, "_ROOM", room)
    random = np.random.default_rng(7)
    paths = ((0,), (0, 1), (0, 1, 2), (0, 3), (4,))
    of_value = {"a": 2, "b": 1, "c": 3, "d": 4, "e": 4}
    groups = StatedGroups(tuple("vwxyz"), (None,) * 5, paths, of_value)
    values = ["a", "b", "c", "d", "e", "none"]
    buckets = np.sort(random.integers(1, 40, 600))
    codes = random.integers(0, 7, 600).astype(np.int32)  # one more than was known at first
    wanted: Counter[tuple[int, int]] = Counter()
    for bucket, code in zip(buckets.tolist(), codes.tolist(), strict=True):
        for group in paths[of_value[values[code]]] if code < 5 else ():
            wanted[bucket, group] += 1
    runs, stream, found = GroupRuns(groups, values), BucketStream(), Counter[tuple[int, int]]()
    for whole in (*stream.add(buckets, codes), stream.finish()):
        of_groups = runs.of(whole, 7)
        numbers = of_groups.of_runs(of_groups.numbers).tolist()
        for number, code, count in zip(numbers, of_groups.codes.tolist(), of_groups.counts.tolist(), strict=True):
            assert (number, code) not in found
            found[number, code] = count
        assert of_groups.sizes is whole.sizes
    assert found == wanted


def test_the_verdict_shows_groups(tmp_path: Path) -> None:
    folder = grouped_hospital().write(tmp_path / "release")
    shown = verdict_object(verify(folder))["groups"]
    assert shown == json.loads(CliRunner().invoke(main, ["verify", str(folder), "--json"]).stdout)["groups"]
    chronic, joints = (shown[place].pop("exposure") for place in (1, 2))
    assert shown[1:] == [
        {"name": "Chronic", "level": "level 1", "parent": None, "limit": "1/2", "worst": {"count": 2, "size": 4}},
        {"name": "Joints", "level": "level 2", "parent": 1, "limit": None, "worst": {"count": 1, "size": 2}},
    ]
    # three who are chronic are in buckets half of which is, and one in a bucket of which a quarter is
    assert chronic == {
        "people": 4,
        "outright": 0,
        "mean": 1.75 / 4,
        "highest": 0.5,
        "bands": [0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 0],
    }
    assert joints["mean"] == 0.75 / 2
    assert verdict_object(verify(hospital().write(tmp_path / "without")))["groups"] == []
    printed = CliRunner().invoke(main, ["verify", str(folder)]).stdout
    assert "Chronic" in printed
    assert "2 of 4 = 50 %" in printed
    assert "Joints" not in printed  # it has no limit

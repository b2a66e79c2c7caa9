"""Values that do not apply: no limits, a stratum and buckets of their own, and never camouflage for others."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.attack.audit import audit
from dalenius.cli.main import main
from dalenius.errors import AbsentCodesError, NoSolutionError, PolicyError, UsageError
from dalenius.place.budget import Budget
from dalenius.publishing.arrangement import _in_pairs
from dalenius.query.count import Counter as QueryCounter
from dalenius.release.folder import open_release
from dalenius.report.facts import collect
from dalenius.report.page import report_html
from dalenius.report.twin import report_object
from dalenius.verify.judge import verify
from tests.handmade import Handmade, edit_manifest, restate_hashes, rewrite
from tests.report.reading import read


def town(rows: int = 401, children: int = 90, also: int = 0) -> pa.Table:
    """Grown-ups with an income, and children with none ("N"); `also` people refuse ("R")."""
    rng = np.random.default_rng(rows + children)
    age = np.concatenate((rng.integers(0, 16, children), rng.integers(16, 90, rows - children)))
    income = rng.choice(["low", "mid", "high", "top"], rows, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    income[:children], income[children : children + also] = "N", "R"
    mixed = rng.permutation(rows)
    return pa.table({"Age": age[mixed], "Sex": rng.choice(["F", "M"], rows), "Income": income[mixed].astype(str)})


ROLES: dict[str, Any] = {"sensitive": "Income", "quasi_identifiers": ["Age", "Sex"]}


def by_bucket(table: pa.Table, column: str) -> dict[int, Counter[str]]:
    held: dict[int, Counter[str]] = {}
    for bucket, value in zip(table["bucket"].to_pylist(), table[column].to_pylist(), strict=True):
        held.setdefault(bucket, Counter())[value] += 1
    return held


def check(release: dalenius.Release, table: pa.Table, apart: set[str]) -> None:
    """Every row once, and rows of children in buckets with nobody else."""
    columns = ["Age", "Sex"]
    rows = Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
    assert Counter(zip(*(release.qit[name].to_pylist() for name in columns), strict=True)) == rows
    assert Counter(release.st["Income"].to_pylist()) == Counter(table["Income"].to_pylist())
    held, made = by_bucket(release.st, "Income"), release.manifest
    assert made.strata is not None
    last = made.strata.strata[-1]
    assert [stratum.applies for stratum in made.strata.strata] == [True] * (len(made.strata.strata) - 1) + [False]
    firsts = made.buckets - last.buckets
    for bucket, values in held.items():
        assert set(values) <= apart if bucket > firsts else not apart & set(values)
    people = {name: Counter[Any]() for name in ("in", "out")}
    values = table["Income"].to_pylist()
    for row, value in zip(zip(*(table[name].to_pylist() for name in columns), strict=True), values, strict=True):
        people["in" if value in apart else "out"][row] += 1
    placed = {name: Counter[Any]() for name in ("in", "out")}
    for age, sex, bucket in zip(*(release.qit[name].to_pylist() for name in (*columns, "bucket")), strict=True):
        placed["in" if bucket > firsts else "out"][age, sex] += 1
    assert placed == people
    assert {value.value for value in made.values if not value.applies} == apart
    others = sum(value.count for value in made.values if value.applies)
    for value in made.values:  # frequencies are those of the others
        frequency = Fraction(value.count, others)
        wanted = max(Fraction(1, 50), 6 * frequency / (1 - frequency + 6 * frequency)) if value.applies else 1
        assert Fraction(value.limit) == wanted
    verdict = release.verify(against=table)
    assert verdict.verified, verdict.findings
    assert verdict.exposure is not None
    assert round(verdict.exposure.people) == others


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("strata", ["none", ["Sex"], 3])
@pytest.mark.parametrize("format", ["parquet", "csv", "parts"])
def test_rows_that_do_not_apply_are_set_apart(
    format: Any, strata: Any, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept and format != "parquet":
        return
    monkeypatch.setattr(Budget, "copy_fits", lambda *_: kept)
    table = town(also=20)
    release = dalenius.publish(
        table, {"odds": 6}, not_applicable=["N", "R"], strata=strata, format=format, known_records=1, **ROLES
    )
    check(release, table, {"N", "R"})
    assert any("110 of 401 people are set apart" in note for note in release.notes)
    plan = dalenius.plan(table, {"odds": 6}, sensitive="Income", not_applicable=["N", "R"], known_records=1)
    assert plan.problem.total == 291
    assert any("110 of 401 people are set apart" in note for note in plan.notes)
    if strata == "none":
        assert release.manifest.strata is not None
        assert [node.model_dump() for node in release.manifest.strata.tree] == [{"stratum": 1}]
        assert plan.solution.setting is not None
        own = {(group.size, group.buckets) for group in plan.solution.setting.groups}
        assert {(group.size, group.buckets) for group in release.manifest.strata.strata[0].setting} == own


@pytest.mark.parametrize("children", [1, 2, 3, 4])
def test_few_rows(children: int) -> None:
    table = town(60, children)
    release = dalenius.publish(table, {"odds": 6}, not_applicable="N", known_records=2, **ROLES)
    check(release, table, {"N"})
    assert release.manifest.apart is not None
    sizes = [(group.size, group.buckets) for group in release.manifest.apart.setting]
    assert sizes == {1: [(1, 1)], 2: [(2, 1)], 3: [(3, 1)], 4: [(2, 2)]}[children]


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_pairs_hold_every_record_once(counts: list[int]) -> None:
    partition = _in_pairs(counts)
    assert [sum(quota) for quota in partition.quotas] == counts
    sizes = [group.records for group in partition.setting.groups]
    assert [sum(column) for column in zip(*partition.quotas, strict=True)] == sizes
    assert partition.setting.buckets == max(1, sum(counts) // 2)


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("FM"), st.sampled_from("abcdNR")), min_size=12, max_size=60),
    st.sampled_from(["none", ["Sex"]]),
    st.integers(0, 1),
)
def test_any_table(rows: list[tuple[int, str, str]], strata: Any, known: int) -> None:
    """Whoever is in it, every row is there once, and each in a bucket with its own kind."""
    rows += [(1, "F", "a"), (2, "M", "b"), (3, "F", "c"), (0, "M", "N"), (0, "F", "R")]
    table = pa.table(dict(zip(("Age", "Sex", "Income"), map(list, zip(*rows, strict=True)), strict=True)))
    limits = {"odds": 6, "allow_absent": True}
    try:
        release = dalenius.publish(
            table,
            limits,
            not_applicable=["N", "R"],
            strata=strata,
            known_records=known,
            publish_in_the_clear=True,
            **ROLES,
        )
    except NoSolutionError:
        return  # too many have one value, if some of them are known
    check(release, table, {"N", "R"})


def test_with_groups_and_missing_codes() -> None:
    table = town(also=30)
    values = ["?" if value == "R" else value for value in table["Income"].to_pylist()]
    table = table.set_column(2, "Income", pa.array(values))
    tree = {"tree": {"little": ["low", "mid"], "much": ["high", "top"]}}
    limits = {"odds": 6, "grouping": tree, "levels": {"group": {"odds": 9}}}
    release = dalenius.publish(table, limits, not_applicable=["N", "missing"], missing=["?"], strata=["Sex"], **ROLES)
    assert release.verify(against=table).verified
    made = {value.value: value for value in release.manifest.values}
    assert [made[name].applies for name in ("N", "missing", "low")] == [False, False, True]
    assert made["N"].group is made["missing"].group is None
    assert release.manifest.groups is not None
    little, much = release.manifest.groups
    assert little.count + much.count == 401 - 90 - 30
    share = Fraction(much.count, 401 - 90 - 30)
    assert Fraction(much.limit or 0) == 9 * share / (1 - share + 9 * share)


def test_what_is_refused() -> None:
    table = town()
    with pytest.raises(AbsentCodesError, match="'n' is under not_applicable, and no record has it"):
        dalenius.publish(table, {"odds": 6}, not_applicable=["n"], **ROLES)
    with pytest.raises(PolicyError, match="'N' does not apply, and has a limit"):
        dalenius.plan(table, {"odds": 6, "values": {"N": 1}}, sensitive="Income", not_applicable=["N"])
    with pytest.raises(PolicyError, match="every record has a value that does not apply"):
        dalenius.publish(table, {"odds": 6}, not_applicable=["N", "low", "mid", "high", "top"], **ROLES)
    for call in (dalenius.plan, dalenius.publish):
        roles = ROLES if call is dalenius.publish else {"sensitive": "Income"}
        with pytest.raises(UsageError, match="fake values are given, and values that do not apply"):
            call(table, {"odds": 6}, not_applicable=["N"], fake_values=1, **roles)
    with pytest.raises(UsageError, match="under missing and under not_applicable"):
        dalenius.publish(table, {"odds": 6}, not_applicable=["N"], missing=["N"], **ROLES)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(town(), "t.csv")
    roles = "sensitive = 'Income'\nquasi_identifiers = ['Age', 'Sex']"
    Path("job.toml").write_text(
        f"[table]\n{roles}\nnot_applicable = ['N']\n[limits]\nodds = 6\n[solve]\nmin_size = 3\n"
    )
    Path("plain.toml").write_text(f"[table]\n{roles}\n[limits]\nodds = 6\n")
    shown = run("plan", "t.csv", "--job", "job.toml")
    assert "90 of 401 people are set apart" in " ".join(shown.output.split())
    made = run(
        "publish", "t.csv", "--job", "plain.toml", "--not-applicable", "N", "--min-size", "3", "--out", "release"
    )
    assert made.exit_code == 0, made.output
    assert "90 people are set apart, of 401: it is published outright" in " ".join(made.output.split())
    good = run("verify", "release", "--job", "job.toml", "--against", "t.csv")
    assert good.exit_code == 0, good.output
    assert "90 people are set apart" in good.output
    bad = run("verify", "release", "--job", "plain.toml")
    assert bad.exit_code == 1
    assert "the release sets people with 'N' apart, and the job does not say not_applicable of it" in bad.output
    Path("other.toml").write_text(Path("job.toml").read_text().replace("['N']", "['N', 'top']"))
    assert "the job says that 'top' does not apply" in run("verify", "release", "--job", "other.toml").output
    told = json.loads(run("verify", "release", "--json").output)
    assert told["exposure"]["people"] == 311
    assert [finding["code"] for finding in told["findings"]] == ["not-applicable"]
    assert run("query", "release", "Income = 'N' AND Age < 16").exit_code == 0
    assert run("report", "release", "--out", "report.html").exit_code == 0


def test_attackers_and_queries_know_such_releases(tmp_path: Path) -> None:
    table = town(3000, 1001)
    dalenius.publish(table, {"odds": 6}, not_applicable=["N"], strata=["Sex"], out=tmp_path / "r", **ROLES)
    audited = audit(tmp_path / "r", truth=table, control=table)
    assert {attack.name for attack in audited.attacks} >= {"corruption", "learning", "minimality", "negative", "order"}
    assert not [one for one in audited.concerns if one.code == "determining-column"]  # all children have "N"
    with QueryCounter(open_release(tmp_path / "r")) as counter:
        assert counter.count("Income = 'N' AND Age < 16").estimate == pytest.approx(1001)
        assert counter.count("Income = 'N' AND Age >= 16").estimate == pytest.approx(0)


def swap(folder: Path, first: str, second: str) -> None:
    """Exchange one value of a bucket that has `first` for one of a bucket that has `second`."""

    def swapped(rows: list[dict[str, Any]]) -> None:
        one = next(row for row in rows if row["Income"] == first)
        other = next(row for row in rows if row["Income"] == second)
        one["Income"], other["Income"] = second, first
        rows.sort(key=lambda row: (row["bucket"], row["Income"]))

    rewrite(folder, "st", swapped)
    restate_hashes(folder)


def test_a_value_that_was_moved_is_found(tmp_path: Path) -> None:
    dalenius.publish(town(), {"uniform": 1}, not_applicable=["N"], out=tmp_path / "r", strata="none",
                     publish_in_the_clear=True, **ROLES)  # fmt: skip
    assert verify(tmp_path / "r").verified
    swap(tmp_path / "r", "N", "low")
    verdict = verify(tmp_path / "r")
    assert "2 buckets hold values that do not apply beside others, or in their place" in verdict["strata"].summary


def apart(**changes: Any) -> Handmade:
    """Four grown-ups in two buckets by sex, and three children in one, of either sex."""
    parts: dict[str, Any] = {
        "types": {"Sex": pa.string()},
        "rows": [("F",), ("F",), ("M",), ("M",), ("F",), ("M",), ("M",)],
        "values": ["low", "top", "low", "top", "N", "N", "N"],
        "buckets": [1, 1, 2, 2, 3, 3, 3],
        "limits": {"low": "1/2", "top": "1/2"},
        "tree": [("Sex", "F", 1, 2), 1, 2],
        "not_applicable": ["N"],
        "name": "Income",
        **changes,
    }
    return Handmade(**parts)


def test_a_release_by_hand(tmp_path: Path) -> None:
    assert verify(apart().write(tmp_path / "r")).verified
    alone = {"rows": [("F",), ("F",), ("M",), ("M",), ("F",)], "values": ["low", "top", "low", "top", "N"]}
    known = apart(known_records=1, limits={}, buckets=[1, 1, 2, 2, 3], **alone)
    assert verify(known.write(tmp_path / "known")).verified  # a bucket of one, of whom nothing is to be hidden
    whole = apart(tree=[1], buckets=[1, 1, 1, 1, 2, 2, 2], limits={})
    assert verify(whole.write(tmp_path / "whole")).verified


def test_rows_of_others_still_go_through_the_tree(tmp_path: Path) -> None:
    """And those that are set apart do not, wherever they are."""
    folder = apart().write(tmp_path / "r")

    def exchange(rows: list[dict[str, Any]]) -> None:
        rows[1]["Sex"], rows[2]["Sex"] = "M", "F"  # of buckets 1 and 2

    rewrite(folder, "qit", exchange)
    restate_hashes(folder)
    assert verify(folder)["strata"].findings[0].count == 2


BROKEN: dict[str, tuple[Any, str, str]] = {
    "a stratum that applies": (lambda m: m["strata"]["strata"][2].update(applies=True), "manifest", "no leaf leads"),
    "another stratum": (lambda m: m["strata"]["strata"][0].update(applies=False), "manifest", "comes before others"),
    "a value that applies": (lambda m: m["values"][0].update(applies=True), "manifest", "no such values"),
    "another value": (lambda m: m["values"][1].update(applies=False), "strata", "2 buckets hold values that do not"),
    "its limit": (lambda m: m["values"][0].update(limit="1/2"), "manifest", "has a limit, or a group"),
    "fakes": (lambda m: m["adversary"].update(fake_values=1), "manifest", "there are fake values, and values that"),
    "a leaf": (lambda m: m["strata"]["tree"][2].update(stratum=3), "manifest", "leaves name 1 stratum beyond the 2"),
    "nothing applies": (lambda m: [value.update(applies=False) for value in m["values"]], "manifest", "no value appl"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_it_is_found(name: str, tmp_path: Path) -> None:
    folder = apart().write(tmp_path / "r")
    change, where, words = BROKEN[name]
    edit_manifest(folder, change)
    assert words in " ".join(found.message for found in verify(folder)[where].findings)


def test_the_report_says_who_is_set_apart(tmp_path: Path) -> None:
    whole = apart(tree=[1], buckets=[1, 1, 1, 1, 2, 2, 2])
    twin = report_object(collect(whole.write(tmp_path / "r")))
    assert twin["release"]["not_applicable"] == [{"value": "N", "count": 3}]
    assert [value["value"] for value in twin["release"]["values"]] == ["low", "top"]
    seen = read(report_html(twin)).text.replace("\u2068", "").replace("\u2069", "")  # around names
    assert "The question does not apply to 3 of 7 people (“N”). This is published outright" in seen
    assert "with 2 values and 1 that means that the question does not apply" in seen
    assert "Beside people to whom the question does not apply, it was not cut into strata" in seen
    assert "no limit" not in seen

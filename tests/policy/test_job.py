from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dalenius.errors import JobFileError, PolicyError
from dalenius.policy.job import parse_job, read_job
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.roles import SensitiveSet

JOB = """
[table]
sensitive = "Disease"
quasi_identifiers = ["Gender", "Zipcode"]
identifiers = ["Name"]

[limits]
theta = 8
base = "0.02"

[limits.values]
HIV = "0.02"
Flu = 1

[solve]
method = "two-size"
max_size = 50
gap = 0.001

[adversary]
corrupted = 1
fakes = 2

[report]
title = " Discharges\t2026 "
purpose = "  "
"""


def test_a_whole_job_file() -> None:
    job = parse_job(JOB)
    assert job.table.sensitive == "Disease"
    assert job.table.quasi_identifiers == ["Gender", "Zipcode"]
    assert job.solve.method == "two-size"
    assert (job.solve.max_size, job.solve.gap) == (50, Decimal("0.001"))
    assert (job.adversary.corrupted, job.adversary.fakes) == (1, 2)
    assert (job.report.title, job.report.purpose, job.report.controller) == ("Discharges 2026", None, None)
    policy = job.limits.policy()
    assert (policy.theta, policy.base) == (Fraction(8), Fraction(1, 50))
    assert policy.values == {"HIV": Fraction(1, 50), "Flu": Fraction(1)}


def test_unquoted_decimals_are_exact_too() -> None:
    assert parse_job("[limits]\ntheta = 1\nbase = 0.29").limits.policy().base == Fraction(29, 100)


SETS = "[table]\nsensitive = ['a', {{{}}}]\n"


def test_sensitive_sets(tmp_path: Path) -> None:
    (tmp_path / "groups.csv").write_text("value,group\nUp,changed\nDown,changed\nNo,same\n", encoding="utf-8")
    text = """
        [table]
        sensitive = [
            {columns = ["diag_1", "diag_2"], name = "diagnosis", limits = {odds = 4, values = {HIV = "0.02"}}},
            {columns = ["insulin"], groups = "groups.csv", missing = ["?"], null_value = "unknown"},
            "readmitted",
        ]
        person = "patient"
        most_rows = 2
        missing = ["-9"]
        [limits]
        odds = 8
        floor = "0.1"
    """
    job = parse_job(text, tmp_path)
    assert (job.table.person, job.table.most_rows) == ("patient", 2)
    assert job.table.sets == (
        SensitiveSet("diagnosis", ("diag_1", "diag_2"), None, ("-9",)),
        SensitiveSet("insulin", ("insulin",), "unknown", ("?",)),
        SensitiveSet("readmitted", ("readmitted",), None, ("-9",)),
    )
    first, second, third = job.policies()
    assert first == job.policy() == LimitPolicy.of(odds=4, values={"HIV": "0.02"})
    assert third == LimitPolicy.of(odds=8, floor="0.1")
    assert second.odds == third.odds
    assert second.grouping is not None
    assert set(second.grouping.names) == {"changed", "same"}


def test_one_set_may_have_general_limits() -> None:
    table = "[table]\nsensitive = [{columns = ['a', 'b'], name = 'c'}]\n"
    job = parse_job(f"groups = 'icd9'\n{table}[limits.values]\nx = '0.1'")
    (policy,) = job.policies()
    assert set(policy.values) == {"x"}
    assert policy.grouping is not None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[limits]\nthetta = 8", "unknown key: limits.thetta", "Did you mean 'theta'?"),
        ("[limit]\ntheta = 8", "unknown key: limit", "Did you mean 'limits'?"),
        ("[table]\nsensitiv = 'x'", "unknown key: table.sensitiv", "Did you mean 'sensitive'?"),
        ("[solve]\nmaxsize = 3", "unknown key: solve.maxsize", "Did you mean 'max_size'?"),
        ("[adversary]\ncorupted = 3", "unknown key: adversary.corupted", "Did you mean 'corrupted'?"),
        ("[groups]\nnamd = 'icd9'", "unknown key: groups.namd", "Did you mean 'named'?"),
        ("[groups]\nnamed = 'icd11'", "there is no classification 'icd11'", "Did you mean 'icd10'?"),
        ("[limits.levels.block]\nods = 3", "unknown key: limits.levels.block.ods", "Did you mean 'odds'?"),
        ("[table]\npersn = 'x'", "unknown key: table.persn", "Did you mean 'person'?"),
        ("[table]\nmost_row = 3", "unknown key: table.most_row", "Did you mean 'most_rows'?"),
        (SETS.format("colums = ['b', 'c']"), "unknown key: table.sensitive (set 2).colums", "Did you mean 'columns'?"),
        (SETS.format("columns = ['b'], limits = {ods = 8}"), "(set 2).limits.ods", "Did you mean 'odds'?"),
        (SETS.format("columns = ['b'], groups = {namd = 'icd9'}"), "(set 2).groups.namd", "Did you mean 'named'?"),
        (
            SETS.format("columns = ['b'], limits = {odds = 8, levels = {block = {ods = 8}}}"),
            "(set 2).limits.levels.block.ods",
            "Did you mean 'odds'?",
        ),
    ],
)
def test_unknown_keys_are_named_with_the_nearest_valid_one(text: str, message: str, hint: str) -> None:
    with pytest.raises(JobFileError) as error:
        parse_job(text)
    assert message in error.value.message
    assert error.value.hint == hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("theta = ", "not valid TOML"),
        ("[limits]\ntheta = 1e" + "9" * 40, "not valid TOML: a number is too long"),
        ("[limits]\ntheta = true", "limits.theta"),
        ("[limits.values]\nHIV = [1]", "limits.values.HIV"),
        ("[table]\nsensitive = 3", "table.sensitive"),
        ("[table]\nquasi_identifiers = 'Age'", "table.quasi_identifiers"),
        ("[solve]\nmax_size = 0", "solve.max_size"),
        ("[solve]\nmethod = 'best'", "solve.method"),
        ("[adversary]\ncorrupted = -1", "adversary.corrupted"),
        ("[adversary]\nfakes = 1.5", "adversary.fakes"),
        ("[report]\ntitle = 2026", "report.title"),
        ("groups = 3", "groups: .* expected a text such as 'icd10'"),
        ("groups = 'icd11'", "groups: there are no groups 'icd11'"),
        ("[groups]\nprefix = true", "groups.prefix"),
        ("[groups]\nprefix = 3\nquantiles = 8", "groups come from prefix and quantiles"),
        ("[groups]\ncuts = [true]", "groups.cuts: .* expected a number"),
        ("[groups]\ncuts = [[1], [2, nan]]", "groups.cuts: .* expected a number"),
        ("[groups]\nquantiles = [4, {}]", "groups.quantiles: .* expected a number"),
        ("[groups]\ncuts = [[5], [4, 6]]", "groups: the cut 5 of level 1 is none of the finer level"),
        ("[groups]\ncsv = 'nowhere.csv'", "groups: the file of groups cannot be read: No such file"),
        ("[limits.levels]\nblock = 'all'", "limits.levels.block: .* expected 'none', or a rule"),
        ("[limits.levels.block]", "limits.levels.block: .* expected 'none', or a rule"),
        ("[limits.groups]\nC = [1]", "limits.groups.C"),
        ("[table]\nmissing = '?'", "table.missing"),
        ("[table]\nmissing = ['?', 'N']\nnot_applicable = ['N']", "'N' is under missing and under not_applicable"),
        ("[table]\nnot_applicable = ['N']\n[limits.values]\nN = 1", "'N' is under table.not_applicable"),
        ("[table]\nsensitive = []", "sensitive is a list without columns"),
        ("[table]\nsensitive = ['a', 3]", r"table.sensitive \(set 2\)"),
        ("[table]\nsensitive = ['a', 'a']", "'a' has more than one role"),
        ("[table]\nsensitive = 'a'\nperson = 'a'", "'a' has more than one role"),
        ("[table]\nsensitive = 'a'\nquasi_identifiers = ['b']\nperson = 'b'", "'b' has more than one role"),
        ("[table]\nmost_rows = 0", "table.most_rows"),
        (SETS.format("columns = ['b', 'c']"), "a sensitive set of 2 columns has no name"),
        (SETS.format("columns = ['b', 'c'], name = 'a'"), "two sensitive sets are called 'a'"),
        (SETS.format("columns = ['b'], name = 'c'"), "'b' is to be called 'c'"),
        (SETS.format("columns = []"), r"table.sensitive \(set 2\).columns"),
        (SETS.format("columns = ['b'], limits = {publish_in_the_clear = true}"), "unknown key: .*publish_in_the_clear"),
        (SETS.format("columns = ['b'], limits = {odds = 8, theta = 2}"), "limits: only one rule is allowed"),
        (SETS.format("columns = ['b']") + "[limits.values]\nHIV = '0.1'", "about single values, and there are 2"),
        ("groups = 'icd9'\n" + SETS.format("columns = ['b']"), "about groups, and there are 2 sensitive sets"),
    ],
)
def test_wrong_types_say_where(text: str, message: str) -> None:
    with pytest.raises(JobFileError, match=message):
        parse_job(text)


def test_limits_in_job_files_are_checked() -> None:
    with pytest.raises(PolicyError, match="the limit of 'HIV'"):
        parse_job("[limits.values]\nHIV = 2").limits.policy()


def test_a_job_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="No such file"):
        read_job(tmp_path / "job.toml")


def test_a_job_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobFileError, match="not UTF-8"):
        read_job(path)


def test_groups_by_a_text_or_a_section() -> None:
    assert parse_job("groups = 'icd10'").groups == parse_job("[groups]\nnamed = 'icd10'").groups
    job = parse_job(
        "groups = 'prefix:1,3'\n[limits]\nodds = 8\n[limits.groups]\nC50 = 0.1\n"
        "[limits.levels]\n'prefix 1' = 'none'\n'prefix 3' = {odds = 2}"
    )
    policy = job.policy()
    assert policy.grouping is not None
    assert policy.grouping.prefix == (1, 3)
    assert policy.groups == {"C50": Fraction(1, 10)}
    assert policy.levels == {"prefix 1": LimitPolicy(), "prefix 3": LimitPolicy.of(odds=2)}
    assert job.said()["limits.levels"] == {"prefix 1": "none", "prefix 3": {"odds": 2}}


def test_a_file_of_groups_is_next_to_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "groups.csv").write_text("value,group\nHIV,any virus\n")
    (tmp_path / "job.toml").write_text("groups = 'groups.csv'")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    read = read_job(tmp_path / "job.toml")
    assert read.policy().grouping == read.groups.grouping()
    assert read.groups.csv == str(tmp_path / "groups.csv")
    with pytest.raises(JobFileError, match="No such file"):
        parse_job("groups = 'groups.csv'")
    monkeypatch.chdir(tmp_path)
    assert parse_job("groups = 'groups.csv'").policy().grouping == read.policy().grouping


def test_codes_for_missing_values() -> None:
    table = parse_job("[table]\nmissing = ['?', 'Unknown']\nnot_applicable = ['N']").table
    assert (table.missing, table.not_applicable) == (["?", "Unknown"], ["N"])

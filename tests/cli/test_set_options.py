"""Several sensitive columns, and people with several rows, as options: what they come to, alone and with a job file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dalenius.cli.group_options import group_options, null_options
from dalenius.cli.main import main
from dalenius.cli.set_options import people_options
from dalenius.cli.shared_options import PlanRequest, policy_options, read_request, solver_options
from dalenius.errors import DaleniusError, JobFileError, PolicyError, UsageError
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.roles import SensitiveSet
from tests.verify.test_against_job import Patients

Run = Callable[..., Result]


def read(*words: str) -> PlanRequest:
    """What these options come to."""
    found: list[PlanRequest] = []

    @click.command()
    @people_options
    @null_options
    @policy_options
    @group_options
    @solver_options
    def command(**arguments: Any) -> None:
        found.append(read_request(arguments))

    CliRunner().invoke(command, list(words), catch_exceptions=False)
    return found[0]


def sets_of(request: PlanRequest) -> tuple[SensitiveSet, ...]:
    assert request.said is not None
    return request.said.sets


def policies_of(request: PlanRequest) -> tuple[Any, ...]:
    assert request.said is not None
    return request.said.limits


def test_one_column_is_what_it_was() -> None:
    words = "--sensitive diag_1 --odds 8 --limit a:b=0.1 --missing ?,a:b --null-value a:b --groups icd9 --ungrouped a:b"
    request = read(*words.split())
    assert sets_of(request) == (SensitiveSet("diag_1", ("diag_1",), "a:b", ("?", "a:b")),)
    assert (request.sensitive, request.null_value, request.missing) == ("diag_1", "a:b", ("?", "a:b"))
    grouping = {"named": "icd9", "ungrouped": ["a:b"]}
    assert request.policy == LimitPolicy.of(odds=8, values={"a:b": "0.1"}, grouping=grouping)
    assert not request.by_people
    roles, set_limits = request.roles_and_limits(("age",), ())
    assert (roles.sets, set_limits) == ((), ())


def test_several_columns_and_sets_of_them() -> None:
    words = "--sensitive diagnosis=diag_1,diag_2 --sensitive insulin --person patient --most-rows 3 --odds 8"
    limits = (
        "--limit diagnosis:HIV=0.02 --limit insulin:a=b=0.3 --groups diagnosis:icd9 --group-limit diagnosis:001-139=0.1"
    )
    groups = "--level-rule diagnosis:chapter:odds=4 --ungrouped diagnosis:?"
    codes = "--missing diagnosis:?,! --missing -9 --null-value none"
    request = read(*f"{words} {limits} {groups} {codes}".split())
    assert sets_of(request) == (
        SensitiveSet("diagnosis", ("diag_1", "diag_2"), "none", ("?", "!")),
        SensitiveSet("insulin", ("insulin",), "none", ("-9",)),
    )
    first, second = policies_of(request)
    assert first == request.policy
    assert first == LimitPolicy.of(
        odds=8,
        values={"HIV": "0.02"},
        grouping={"named": "icd9", "ungrouped": ["?", "none"]},
        groups={"001-139": "0.1"},
        levels={"chapter": {"odds": 4}},
    )
    assert second == LimitPolicy.of(odds=8, values={"a=b": "0.3"})
    assert (request.person, request.most_rows, request.by_people) == ("patient", 3, True)
    roles, set_limits = request.roles_and_limits(("age",), ("name",))
    assert (roles.person, roles.sets, set_limits) == ("patient", sets_of(request), (first, second))


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("a,b", "a,b", ("a,b",)),
        ('"a=b"', "a=b", ("a=b",)),
        ('"a,b"', "a,b", ("a,b",)),
        ("x = a, b", "x", ("a", "b")),
        ('"x=y"="a,b",c=d', "x=y", ("a,b", "c=d")),
    ],
)
def test_how_names_are_written(text: str, name: str, columns: tuple[str, ...]) -> None:
    (found,) = sets_of(read("--sensitive", text, "--odds", "8"))
    assert (found.name, found.columns) == (name, columns)


TWO = ("--sensitive", "a", "--sensitive", "b")


@pytest.mark.parametrize(
    ("words", "error", "says", "hint"),
    [
        (
            [*TWO, "--odds", "8", "--limit", "HIV=0.1"],
            UsageError,
            "--limit HIV=0.1 does not say which of 2",
            "a:HIV=0.1",
        ),
        ([*TWO, "--odds", "8", "--groups", "icd9"], UsageError, "--groups icd9 does not say", "--groups a:icd9"),
        ([*TWO, "--odds", "8", "--ungrouped", "c:x"], UsageError, "--ungrouped c:x does not say", "a:c:x"),
        ([*TWO, "--odds", "8", "--group-limit", "x=1"], UsageError, "--group-limit x=1 does not say", "a:x=1"),
        ([*TWO, "--odds", "8", "--level-rule", "x:none"], UsageError, "--level-rule x:none does not", "a:x:none"),
        ([*TWO, "--odds", "8", "--null-value", "a:x", "--null-value", "a:y"], UsageError, "given 2 times", "one"),
        ([*TWO, "--limit", "a:HIV=0.1"], PolicyError, "no limits are given", "--odds 8"),
        (["--sensitive", "a=b", "--odds", "8"], UsageError, "'b' is to be called 'a'", "double quotes"),
        (["--sensitive", "x=", "--odds", "8"], UsageError, "'x' has no columns", "Name at least one"),
        (["--sensitive", "a", "--odds", "8", "--groups", "icd9", "--groups", "icd10"], UsageError, "2 times", "one"),
    ],
)
def test_what_is_not_clear(words: list[str], error: type[DaleniusError], says: str, hint: str) -> None:
    with pytest.raises(error, match=says) as caught:
        read(*words)
    assert hint in str(caught.value.hint)


JOB = """
[table]
sensitive = [
    {columns = ["a"], limits = {odds = 2, values = {x = "0.1"}}, missing = ["?"]},
    {columns = ["b", "c"], name = "d", groups = "icd9"},
    "e",
]
person = "p"
most_rows = 4
null_value = "none"
[limits]
odds = 8
floor = 0
"""


@pytest.fixture
def job(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "job.toml"
    path.write_text(JOB, encoding="utf-8")
    return "--job", str(path)


def test_a_job_file_and_options(job: tuple[str, str]) -> None:
    alone = read(*job)
    assert (alone.person, alone.most_rows) == ("p", 4)
    assert sets_of(alone) == (
        SensitiveSet("a", ("a",), "none", ("?",)),
        SensitiveSet("d", ("b", "c"), "none"),
        SensitiveSet("e", ("e",), "none"),
    )
    rule = LimitPolicy.of(odds=8, floor=0)
    grouped = LimitPolicy.of(odds=8, floor=0, grouping={"named": "icd9", "ungrouped": ["none"]})
    assert policies_of(alone) == (LimitPolicy.of(odds=2, values={"x": "0.1"}), grouped, rule)
    options = "--uniform 0.5 --limit a:y=0.2 --limit e:z=0.3 --missing e:! --null-value a:gone --person q --most-rows 1"
    both = read(*job, *options.split())
    assert (both.person, both.most_rows) == ("q", 1)
    assert [(one.null_value, one.missing) for one in sets_of(both)] == [
        ("gone", ("?",)),
        ("none", ()),
        ("none", ("!",)),
    ]
    first, second, third = policies_of(both)
    assert first == LimitPolicy.of(odds=2, values={"x": "0.1", "y": "0.2"})  # it keeps the rule that it has of its own
    assert (second.uniform, second.odds, second.grouping) == (
        LimitPolicy.of(uniform="0.5").uniform,
        None,
        grouped.grouping,
    )
    assert third == LimitPolicy.of(uniform="0.5", values={"z": "0.3"})


def test_columns_in_options_replace_those_of_the_job(job: tuple[str, str]) -> None:
    request = read(*job, "--sensitive", "e", "--limit", "x=0.1")
    assert [one.name for one in sets_of(request)] == ["e"]
    assert policies_of(request) == (LimitPolicy.of(odds=8, floor=0, values={"x": "0.1"}),)


def test_general_limits_of_a_job_that_name_values(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("[limits]\nodds = 8\n[limits.values]\nHIV = '0.02'\n", encoding="utf-8")
    with pytest.raises(PolicyError, match="about single values, and there are 2 sensitive sets"):
        read("--job", str(path), *TWO)
    path.write_text("[table]\nsensitive = ['a', 'b']\n[limits]\nodds = 8\n[limits.values]\nHIV = '1'", encoding="utf-8")
    with pytest.raises(JobFileError, match="about single values, and there are 2 sensitive sets"):
        read("--job", str(path))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(Patients.table(), "patients.parquet")
    pyarrow.parquet.write_table(Patients.table(400), "many.parquet")
    return lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)


ASKED = (
    "patients.parquet",
    "--quasi-identifiers",
    "Age",
    "--sensitive",
    "Disease",
    "--sensitive",
    "Drug",
    "--odds",
    "8",
)
MANY = ("many.parquet", *ASKED[1:])  # so many that whichever two rows are kept, the limits can be kept too


@pytest.mark.parametrize("command", ["publish", "plan", "verify", "audit", "report"])
def test_one_column_says_whose_rows_they_are(run: Run, command: str) -> None:
    target = MANY if command in ("publish", "plan") else ("release",)
    result = run(command, *target, "--person", "Patient", "--person", "Age")
    assert result.exit_code == 2
    assert "one column says whose row it is. Make one of several first" in result.stderr


def test_a_set_is_not_called_like_a_column_that_has_no_role(run: Run) -> None:
    words = ("many.parquet", "--quasi-identifiers", "Age", "--sensitive", "Patient=Disease,Drug", "--odds", "8")
    result = run("publish", *words, "--out", "release")
    assert result.exit_code == 2
    assert "the sensitive set 'Patient' is called like a column that is not part of it" in result.stderr


def test_publish_and_verify(run: Run) -> None:
    done = run("publish", *MANY, "--person", "Patient", "--most-rows", "2", "--out", "release", "--json")
    assert done.exit_code == 0, done.stderr
    made = json.loads(Path("release/manifest.json").read_text(encoding="utf-8"))
    assert (made["people"], made["persons"]["most_rows"], made["persons"]["dropped"]) == (400, 2, 200)
    assert [made["columns"]["sensitive"]["name"], *(one["column"]["name"] for one in made["others"])] == [
        "Disease",
        "Drug",
    ]
    table = "[table]\nperson = 'Patient'\nmost_rows = 2\nsensitive = ['Disease', 'Drug']\nquasi_identifiers = ['Age']\n"
    Path("job.toml").write_text(f"{table}[limits]\nodds = 8\n", encoding="utf-8")
    assert run("verify", "release", "--job", "job.toml").exit_code == 0
    again = run("publish", "many.parquet", "--job", "job.toml", "--out", "again")
    assert again.exit_code == 0, again.stderr
    assert run("verify", "again", "--job", "job.toml").exit_code == 0


def test_columns_kept_together(run: Run) -> None:
    words = ("--person", "Patient", "--most-rows", "2", "--keep-together", "Drug,Disease", "--seed", "1")
    done = run("publish", *ASKED, *words, "--out", "release")
    assert done.exit_code == 0, done.stderr
    assert "'Disease' and 'Drug' are kept together: whoever knows somebody's" in " ".join(done.output.split())
    assert "together.parquet" in done.output
    made = json.loads(Path("release/manifest.json").read_text(encoding="utf-8"))
    assert [one["columns"] for one in made["together"]] == [["Disease", "Drug"]]
    checked = run("verify", "release", "--json")
    assert checked.exit_code == 0
    known = json.loads(checked.stdout)["known_columns"]
    assert [(one["known"], one["asked"]) for one in known] == [("Disease", "Drug"), ("Drug", "Disease")]
    assert all(0 <= one["pinned"] <= one["above"] <= one["people"] for one in known)
    planned = run("plan", *ASKED, "--keep-together", "Drug,Disease", "--strata", "none")
    assert "Values of 'Disease' and 'Drug' are published together, row by row" in planned.stdout
    table = "[table]\nsensitive = ['Disease', 'Drug']\nquasi_identifiers = ['Age']\nperson = 'Patient'\nmost_rows = 2\n"
    together = "keep_together = [['Disease', 'Drug']]\n"
    Path("job.toml").write_text(f"{table}{together}[limits]\nodds = 8\n", encoding="utf-8")
    assert run("publish", "patients.parquet", "--job", "job.toml", "--out", "again", "--seed", "1").exit_code == 0
    assert run("verify", "again", "--job", "job.toml").exit_code == 0
    Path("job.toml").write_text(f"{table}[limits]\nodds = 8\n", encoding="utf-8")
    assert run("verify", "again", "--job", "job.toml").exit_code == 1
    counted = run("query", "release", "Disease = 'Flu' AND Drug = 'A'", "--count", "rows", "--json")
    low, high = json.loads(counted.stdout)["bounds"]
    assert low == high
    audited = run("audit", "release", "--attack", "other-column")
    assert "the two are kept together" in " ".join(audited.stdout.split())


def test_plan(run: Run) -> None:
    planned = run("plan", *MANY, "--person", "Patient", "--most-rows", "2", "--json")
    assert planned.exit_code == 0, planned.stderr
    found = json.loads(planned.stdout)
    assert (found["people"], found["rows"], found["dropped_rows"]) == (400, 600, 200)
    assert [one["column"] for one in found["sensitive"]] == ["Disease", "Drug"]
    assert "repeated-people" not in [one["code"] for one in found["findings"]]
    assert "400 people with 600 rows" in run("plan", *MANY, "--person", "Patient", "--most-rows", "2").stdout


def test_a_plan_for_people_with_one_row_each_is_that_of_rows(run: Run) -> None:
    """As which they will be published."""
    rows = [{"Patient": k, "Age": k % 9, "Disease": f"d{(k * k) % 7 % 4}"} for k in range(60)]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), "once.parquet")
    asked = ("plan", "once.parquet", "--quasi-identifiers", "Age", "--sensitive", "Disease", "--odds", "8", "--json")
    by_person, by_row = (json.loads(run(*asked, *words).stdout) for words in (["--person", "Patient"], []))
    for found in (by_person, by_row):
        found.pop("seconds"), found.pop("notes")  # a column has no role where it is not the person's
    assert by_person == by_row
    assert by_person["n"] == 60


def test_people_who_have_every_value(run: Run) -> None:
    """Whoever has three rows has all three drugs, so that no bucket hides one."""
    result = run("plan", *ASKED, "--person", "Patient")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "20 people" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", *ASKED, "--compare"], "--compare is about methods for one value a person"),
        (["plan", *ASKED, "--certificate", "proof.json"], "there is no certificate for several sensitive columns"),
        (["plan", "--counts", "c.csv", "--person", "p", "--odds", "8"], "counts do not say who has what"),
        (["plan", *ASKED[:1], *ASKED[3:]], "no quasi-identifiers are named"),
        (["plan", *ASKED, "--engine", "spark"], "Spark does not publish several sensitive columns"),
        (["plan", *ASKED, "--fakes", "1"], "fake values are not made for several sensitive columns"),
        (["publish", *ASKED, "--out", "x", "--fakes", "1"], "fake values are not made for several sensitive columns"),
        (["publish", *ASKED, "--out", "x", "--not-applicable", "Flu"], "nobody is set apart"),
        (["publish", *ASKED, "--out", "x", "--format", "parts"], "are not written in parts"),
        (["publish", *ASKED, "--out", "x", "--engine", "spark"], "the rows of a person are spread over the cluster"),
        (["publish", *ASKED, "--out", "x", "--person", "Drug"], "'Drug' has more than one role"),
        (["publish", *ASKED, "--out", "x", "--person", "Patien"], "Did you mean 'Patient'?"),
        (["publish", *ASKED, "--out", "x", "--most-rows", "2"], "most_rows is about people with several rows"),
        (["publish", *ASKED, "--out", "x", "--most-rows", "0"], "0 is not in the range x>=1"),
        (["publish", *ASKED, "--out", "x", "--keep-together", "Drug"], "'Drug' is to be kept together with nothing"),
        (["publish", *ASKED, "--out", "x", "--keep-together", "Drug,Age"], "'Age' is to be kept together with others"),
        (["publish", *ASKED, "--out", "x", "--keep-together", "Drug,Diseas"], "Did you mean 'Disease'?"),
        (
            ["publish", *ASKED, "--out", "x", "--keep-together", "Drug,Drug"],
            "'Drug' is to be kept together with itself",
        ),
        (["publish", *ASKED[:5], "--odds", "8", "--out", "x", "--keep-together", "Drug,Disease"], "fewer than two"),
        (["plan", *ASKED[:5], "--odds", "8", "--keep-together", "Drug,Disease"], "fewer than two are sensitive"),
        (["plan", "--counts", "c.csv", "--odds", "8", "--keep-together", "a,b"], "fewer than two are sensitive"),
        (["publish", *ASKED, "--out", "x", "--groups", "Drug:quantiles:2"], "there are several sensitive columns"),
        (["publish", *ASKED, "--out", "x", "--method", "two-size"], "two-size is for one value a person"),
        (["plan", *ASKED, "--method", "anatomy"], "several sensitive columns have a method of their own"),
        (["publish", *ASKED, "--out", "x", "--limit", "Drugs:none=0.5"], "Did you mean --limit Drug:none=0.5?"),
        (["publish", *ASKED, "--out", "x", "--limit", "none=0.5"], "Name the column first: --limit Disease:none=0.5"),
    ],
)
def test_refusals(words: list[str], says: str, run: Run) -> None:
    result = run(*words)
    assert (result.exit_code, Path("x").exists()) == (2, False)
    assert says in " ".join(result.stderr.split())


def test_commands_about_rows_refuse_people(run: Run) -> None:
    Path("job.toml").write_text("[table]\nsensitive = ['Disease', 'Drug']\n[limits]\nodds = 8\n", encoding="utf-8")
    risk = run("dp-risk", "patients.parquet", "--job", "job.toml", "--epsilon", "1")
    assert "dp-risk counts rows with one sensitive value each" in risk.stderr
    Path("proof.json").write_text("{}", encoding="utf-8")
    proof = run("verify", "--certificate", "proof.json", "patients.parquet", "--job", "job.toml")
    assert "a certificate counts rows with one sensitive value each" in proof.stderr

"""Publishing as scripts and people see it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dalenius
from dalenius.cli.main import main

Run = Callable[..., Result]

COMMAND = str(Path(sys.executable).parent / "dalenius")
HOSPITAL = """Name,Gender,"Post,code",Disease
Alice,F,54321,HIV
Bob,M,54322,Flu
Carl,M,54322,Flu
Dora,F,54324,Flu
Eve,F,54325,Cold
Finn,M,,Cold
Gail,F,54327,Flu
Hugo,M,54321,Cold
"""
JOB = """
[table]
sensitive = "Disease"
quasi_identifiers = ["Gender", "Post,code"]
identifiers = ["Name"]
[limits]
uniform = "0.9"
[limits.values]
HIV = "1/4"
"""
ARGUMENTS = ("publish", "hospital.csv", "--job", "job.toml", "--out", "release")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder that has hospital.csv and job.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("hospital.csv").write_text(HOSPITAL, encoding="utf-8")
    Path("job.toml").write_text(JOB, encoding="utf-8")
    return lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)


def as_object(result: Result) -> dict[str, Any]:
    """Standard output is exactly one JSON object."""
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_the_summary_tells_what_was_made(run: Run) -> None:
    result = run(*ARGUMENTS)
    assert result.exit_code == 0
    for text in ("3 sensitive values", "1 of 4 = 25 %", "release: qit.parquet", "verified"):
        assert text in result.stdout
    assert result.stderr.splitlines()[:2] == ["Counting ...", "Looking 8 rows ..."]
    assert dalenius.load("release").verify(against="hospital.csv").verified


def test_known_records_and_fakes_are_told_with_their_price_before_anything_is_placed(run: Run) -> None:
    result = run(*ARGUMENTS, "--corrupted", "1", "--fakes", "1")
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    price = next(k for k, line in enumerate(lines) if line.startswith("the price of protection: a loss of "))
    assert price < next(k for k, line in enumerate(lines) if line.startswith("Placing"))
    assert "whichever record of it an attacker knows; 1 of the values of each bucket is fake" in " ".join(
        result.stdout.split()
    )
    made = dalenius.load("release").manifest
    assert (made.adversary.known_records, made.adversary.fake_values) == (1, 1)
    assert made.tables.st.rows == made.rows + made.buckets
    assert dalenius.load("release").verify(against="hospital.csv").verified


def test_a_job_file_can_name_the_adversary_and_an_option_goes_first(run: Run) -> None:
    Path("job.toml").write_text(JOB + "[adversary]\ncorrupted = 1\nfakes = 2\n", encoding="utf-8")
    found = as_object(run(*ARGUMENTS, "--fakes", "1", "--avoid-ruled-out", "--json"))
    assert (found["known_records"], found["fake_values"]) == (1, 1)
    assert any("the price of protection" in note for note in found["notes"])
    assert any("no negative association was learned" in note for note in found["notes"])


def test_avoiding_fakes_without_fakes_is_wrong_use(run: Run) -> None:
    result = run(*ARGUMENTS, "--avoid-ruled-out")
    assert result.exit_code == 2
    assert "--fakes" in result.stderr


def test_once_the_release_is_there_an_interrupt_comes_too_late(run: Run) -> None:
    """Whoever is told "interrupted" can rely on it that nothing was published."""
    done = interrupted(
        """
from dalenius.release.staging import Staging
commit = Staging.commit
def stopped(self, force):
    commit(self, force)
    os.kill(os.getpid(), signal.SIGINT)
Staging.commit = stopped
"""
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"]
    assert dalenius.load("release").verify().verified


def test_no_room_for_known_records_is_no_solution(run: Run) -> None:
    result = run(*ARGUMENTS, "--corrupted", "7", "--json")
    assert result.exit_code == 3
    assert as_object(result)["reason"]["kind"] == "not-eligible"
    assert not Path("release").exists()


def test_the_json_summary_has_the_keys_of_the_contract(run: Run) -> None:
    result = run(*ARGUMENTS, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = as_object(result)
    assert found.pop("seconds") >= 0
    assert found.pop("count_error")["share"] == 0.1
    assert [value["value"] for value in found["exposure"].pop("values")] == ["Cold", "Flu", "HIV"]
    assert found == {
        "format": 2,
        "exposure": {
            "people": 8,
            "several": False,
            "outright": 0,
            "mean": 0.4375,  # four in pairs of two values; 1, 2 and 1 in a bucket of four
            "median": 0.5,
            "highest": 0.5,
            "bands": [0, 0, 2, 0, 0, 6, 0, 0, 0, 0, 0],
        },
        "findings": [
            {
                "code": "unique-people",
                "severity": "note",
                "message": "6 people (75 %) are alone with their quasi-identifiers: whoever knows those finds their "
                "bucket, and only the limits protect them there",
                "answer": "Make quasi-identifiers coarser, or publish fewer, if that is too many.",
                "people": 6,
                "points": None,
                "attacker": None,
                "values": [],
                "columns": ["Gender", "Post,code"],
                "groups": [],
            }
        ],
        "out": "release",
        "rows": 8,
        "people": 8,
        "dropped_rows": 0,
        "buckets": 3,
        "setting": [{"size": 2, "buckets": 2}, {"size": 4, "buckets": 1}],
        "loss": 11,
        "mse": pytest.approx(11 / 7),
        "known_records": 0,
        "fake_values": 0,
        "strata": None,
        "method": "optimal",
        "status": "optimal",
        "bound": 11,
        "gap": 0.0,
        "values": [
            {"value": "Cold", "count": 3, "limit": "9/10", "worst": {"count": 1, "size": 2}},
            {"value": "Flu", "count": 4, "limit": "9/10", "worst": {"count": 2, "size": 4}},
            {"value": "HIV", "count": 1, "limit": "1/4", "worst": {"count": 1, "size": 4}},
        ],
        "others": [],
        "groups": [],
        "randomness": "cryptographic",
        "verified": True,
        "notes": [],
        "chain": None,
        "signed_by": None,
    }


def test_options_go_before_the_job_file(run: Run) -> None:
    words = ("--quasi-identifiers", 'Gender,"Post,code"', "--quasi-identifiers", "Name", "--identifiers", "Disease")
    result = run(*ARGUMENTS, *words, "--json")
    assert result.exit_code == 2
    assert "'Disease' has more than one role" in as_object(result)["error"]["message"]
    result = run(*ARGUMENTS, "--quasi-identifiers", "Gender", "--format", "csv", "--json")
    assert as_object(result)["notes"] == ["1 column has no role and is not published: 'Post,code'"]
    assert Path("release/qit.csv").read_text(encoding="utf-8").splitlines()[0] == '"Gender","bucket"'


def test_a_release_in_parts(run: Run) -> None:
    result = run(*ARGUMENTS, "--format", "parts", "--json")
    assert result.exit_code == 0, result.output
    assert as_object(result)["verified"] is True
    assert sorted(str(path) for path in Path("release").rglob("*")) == [
        "release/manifest.json",
        "release/qit",
        "release/qit/part-00000.parquet",
        "release/st",
        "release/st/part-00000.parquet",
    ]
    assert run("verify", "release", "--against", "hospital.csv").exit_code == 0
    result = run(*ARGUMENTS, "--format", "parts", "--force")
    assert "release: qit " in result.stdout
    assert run(*ARGUMENTS, "--force").exit_code == 0
    assert sorted(path.name for path in Path("release").iterdir()) == ["manifest.json", "qit.parquet", "st.parquet"]


def test_the_folder_is_printed_as_a_path(run: Run) -> None:
    result = run("publish", "./hospital.csv", "--job", "job.toml", "--out", "./made//release/", "--json")
    assert as_object(result)["out"] == "made/release"
    assert dalenius.load("made/release").verify(against="hospital.csv").verified


def test_a_seed_is_said_to_be_one(run: Run) -> None:
    result = run(*ARGUMENTS, "--seed", "5")
    assert "not for publication" in result.stdout
    first = Path("release/qit.parquet").read_bytes()
    assert run(*ARGUMENTS, "--seed", "5", "--force").exit_code == 0
    assert Path("release/qit.parquet").read_bytes() == first
    assert "5" not in Path("release/manifest.json").read_text(encoding="utf-8").split('"randomness"')[1].split(",")[0]


def test_an_existing_target_needs_force(run: Run) -> None:
    assert run(*ARGUMENTS).exit_code == 0
    before = Path("release/manifest.json").read_bytes()
    result = run(*ARGUMENTS, "--json")
    assert result.exit_code == 2
    assert as_object(result)["error"]["kind"] == "usage"
    assert "--force" in as_object(result)["error"]["hint"]
    assert Path("release/manifest.json").read_bytes() == before
    assert run(*ARGUMENTS, "--force").exit_code == 0


def test_no_solution_is_exit_code_three(run: Run) -> None:
    result = run(*ARGUMENTS, "--uniform", "0.1", "--json")
    assert result.exit_code == 3
    found = as_object(result)
    assert found["status"] == "infeasible"
    assert found["reason"]["kind"] == "not-eligible"
    result = run(*ARGUMENTS, "--uniform", "0.1")
    assert result.exit_code == 3
    assert "more frequent than their limit allows" in result.stdout
    assert not Path("release").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("publish", "hospital.csv", "--out", "r", "--uniform", "1"), "sensitive column is not named"),
        (("publish", "hospital.csv", "--out", "r", "--sensitive", "Disease", "--uniform", "1"), "no quasi-identifiers"),
        ((*ARGUMENTS, "--memory", "lots"), "--memory needs a size"),
        ((*ARGUMENTS, "--memory", "20MB"), "too little"),
        ((*ARGUMENTS, "--quasi-identifiers", '"a'), "quote out of place"),
        (("publish", "nothing.csv", "--job", "job.toml", "--out", "r"), "no file at the path"),
        ((*ARGUMENTS, "--quasi-identifiers", "Zip"), "no column 'Zip'"),
        ((*ARGUMENTS, "--seed", "-1"), "-1 is not in the range"),
        ((*ARGUMENTS, "--engine", "abacus"), "'abacus' is not one of"),
        ((*ARGUMENTS, "--master", "local[2]"), "--master is for Spark"),
        ((*ARGUMENTS, "--spark-remote", "sc://nowhere"), "--spark-remote is for Spark"),
        ((*ARGUMENTS, "--conf", "spark.ui.enabled=false"), "Spark settings are given without Spark"),
        ((*ARGUMENTS, "--engine", "spark", "--master", "local", "--spark-remote", "sc://x"), "both a master and"),
        ((*ARGUMENTS, "--engine", "spark", "--format", "csv"), "Spark does not write releases as csv"),
        ((*ARGUMENTS, "--engine", "spark", "--conf", "spark.ui.enabled"), "--conf needs KEY=VALUE"),
        ((*ARGUMENTS, "--engine", "spark", "--conf", "=x"), "--conf needs KEY=VALUE"),
        ((*ARGUMENTS, "--engine", "spark", "--conf", "a=1", "--conf", "a=2"), "--conf is given twice for 'a'"),
    ],
)
def test_wrong_use(run: Run, words: tuple[str, ...], message: str) -> None:
    result = run(*words, "--json")
    assert result.exit_code == 2
    assert message in as_object(result)["error"]["message"]
    assert sorted(os.listdir()) == ["hospital.csv", "job.toml"]  # noqa: PTH208


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("512MiB", 2**29), ("1.5 gib", 3 * 2**29), ("800m", 8 * 10**8)]
)
def test_sizes(text: str, size: int) -> None:
    from dalenius.cli.text_table import parse_size

    assert parse_size(text) == size


def visits() -> None:
    """A table with a column that determines the disease, and two visits of every patient."""
    rows = [(f"P{number // 2}", number % 7, number % 3, f"D{number % 3}") for number in range(600)]
    Path("visits.csv").write_text(
        "patient_nbr,Age,Code,Disease\n" + "".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8"
    )


VISITS = ("publish", "visits.csv", "--sensitive", "Disease", "--uniform", "0.6", "--out", "release")


def test_what_weighs_is_told_first_and_again_at_the_end(run: Run) -> None:
    visits()
    result = run(*VISITS, "--quasi-identifiers", "Age,Code")
    assert result.exit_code == 0
    stages = result.stderr.splitlines()
    told = stages[stages.index("Looking 600 rows ...") + 1 : stages.index("Solving ...")]
    assert told[0].startswith("STOP: 'Code' determines 'Disease': whoever knows it guesses 100 % of the people right")
    assert told[1] == "      Leave it out of the quasi-identifiers (--quasi-identifiers), or make it coarser first."
    assert told[2].startswith("LOOK: 'patient_nbr' has 300 different values in 600 rows")
    assert result.stdout.index("STOP   'Code' determines") < result.stdout.index("Look   'patient_nbr'")
    found = as_object(run(*VISITS, "--quasi-identifiers", "Age,Code", "--force", "--json"))
    assert [one["code"] for one in found["findings"]][:2] == ["determining-column", "repeated-people"]


@pytest.mark.parametrize("by", ["option", "job"])
def test_strict_is_exit_code_2_and_writes_nothing(run: Run, by: str) -> None:
    visits()
    words = [*VISITS, "--quasi-identifiers", "Age,Code"]
    if by == "option":
        words.append("--strict")
    else:
        Path("strict.toml").write_text("[table]\nstrict = true\n", encoding="utf-8")
        words += ["--job", "strict.toml"]
    result = run(*words)
    assert result.exit_code == 2
    assert (
        "Error: nothing was published: strict makes errors of 2 concerns about the table\nSTOP: 'Code'" in result.stderr
    )
    assert "Leave it out of the quasi-identifiers" in result.stderr
    assert result.stderr.endswith("Do what they say, or publish without --strict.\n")
    assert not Path("release").exists()
    error = as_object(run(*words, "--json"))["error"]
    assert error["kind"] == "concerns"
    assert "'patient_nbr' has 300 different values" in error["message"]


def interrupted(before: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which gets a Ctrl-C when the program says so."""
    awake = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a shell's background jobs ignore it
    program = f"import os, signal\n{awake}\n{before}\nfrom dalenius.cli.main import entry\nentry()"
    words = [sys.executable, "-c", program, *ARGUMENTS, "--json"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("module", "stage"),
    [
        ("publishing.local", "survey"),
        ("publishing.flow", "plan_counts"),
        ("publishing.local", "place_coded_records"),
        ("publishing.local_output", "read_manifest"),
        ("publishing.flow", "describe"),
        ("publishing.placements", "verify"),
    ],
)
def test_ctrl_c_leaves_nothing_and_says_so(run: Run, module: str, stage: str) -> None:
    before = sorted(path.name for path in Path().iterdir())
    done = interrupted(
        f"""
import dalenius.{module} as module
proper = module.{stage}
def stopped(*words, **options):
    found = proper(*words, **options)
    os.kill(os.getpid(), signal.SIGINT)
    return found
module.{stage} = stopped
"""
    )
    assert done.returncode == 130, done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "interrupted"
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in Path().iterdir()) == before


def test_a_terminal_gets_a_bar(run: Run) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *ARGUMENTS, "--json"],
        stderr=follower,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(follower)
    shown = b""
    with suppress(OSError):  # the terminal is gone with the process
        while piece := os.read(leader, 4096):
            shown += piece
    os.close(leader)
    output, _ = process.communicate(timeout=60)
    assert b"Placing" in shown
    assert b"8/8" in shown
    assert json.loads(output)["verified"] is True

"""The command as scripts and people see it: output, exit codes, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main
from dalenius.model.plan import Certificate, CertificateRow
from dalenius.model.problem import Problem
from dalenius.policy.exact import exact_fraction
from dalenius.verify.proof import certified_bound
from tests.problems import acs

Run = Callable[..., Result]

COMMAND = str(Path(sys.executable).parent / "dalenius")
HOSPITAL = "Gender,Zipcode,Disease\nM,54321,Brain Tumor\nM,54322,Indigestion\nF,61234,Cancer\nF,61434,HIV\n"
COUNTS = "value,count\nFlu,90\nHIV,10\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder that has hospital.csv and counts.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("hospital.csv").write_text(HOSPITAL)
    Path("counts.csv").write_text(COUNTS)
    return lambda *words: CliRunner().invoke(main, list(words), catch_exceptions=False)


def as_object(result: Result) -> dict[str, Any]:
    """Standard output is exactly one JSON object."""
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_the_hospital_example(run: Run) -> None:
    result = run("plan", "hospital.csv", "--sensitive", "Disease", "--uniform", "1/2")
    assert result.exit_code == 0
    assert "4 records, 4 sensitive values" in result.stdout
    assert "proven optimal" in result.stdout


def test_json_has_the_keys_of_the_contract(run: Run) -> None:
    result = run("plan", "hospital.csv", "--sensitive", "Disease", "--uniform", "1/2", "--json")
    assert result.exit_code == 0
    found = as_object(result)
    seconds = found.pop("seconds")
    assert seconds >= 0
    error = found.pop("count_error")
    assert error["typical"] == pytest.approx(3 / 2**0.5)  # one value in a bucket of 2: sqrt(0.09 / 2) of 0.1
    assert error["sentence"].startswith("a count of one value among a tenth of the records is typically off by 212 %")
    exposure = found.pop("exposure")
    assert exposure.pop("values")[0] == {
        "value": "Brain Tumor",
        "people": 1,
        "outright": 0,
        "mean": 0.5,
        "highest": 0.5,
        "bands": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
    }
    assert exposure == {
        "people": 4,
        "several": False,
        "outright": 0,
        "mean": 0.5,
        "median": 0.5,
        "highest": 0.5,
        "bands": [0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0],
    }
    assert found == {
        "format": 2,
        "method": "optimal",
        "status": "optimal",
        "n": 4,
        "m": 4,
        "min_size": 2,
        "max_size": 4,
        "known_records": 0,
        "fake_values": 0,
        "groups": [],
        "strata": None,
        "setting": [{"size": 2, "buckets": 2}],
        "loss": 2,
        "mse": pytest.approx(2 / 3),
        "bound": 2,
        "gap": 0.0,
        "price": None,
        "notes": [],
    }


def test_json_of_a_plan_for_people(run: Run) -> None:
    """Ten people with a row, and twelve with two; of those, three have two values."""
    rows = [f"P{person},{person % 3},{'ABC'[person % 3]}" for person in range(22)]
    rows += [f"P{person},{person % 3},{'ABC'[(person + (person % 4 == 0)) % 3]}" for person in range(10, 22)]
    Path("visits.csv").write_text("\n".join(["person,age,disease", *rows]), encoding="utf-8")
    words = ("plan", "visits.csv", "--sensitive", "disease", "--person", "person", "--quasi-identifiers", "age")
    result = run(*words, "--uniform", "3/4", "--json")
    assert result.exit_code == 0
    found = as_object(result)
    keys = ["format", "exposure", "people", "rows", "dropped_rows", "status", "loss", "bound", "gap", "mse"]
    assert set(found) == {*keys, "strata", "sensitive", "notes", "verdict", "findings"}
    assert (found["format"], found["people"], found["rows"], found["dropped_rows"]) == (2, 22, 34, 0)
    assert (found["exposure"]["people"], found["exposure"]["several"]) == (22, True)
    assert [(one["people"], one["rows_each"]) for one in found["strata"]] == [(10, 1), (12, 2)]
    for one in found["strata"]:
        assert set(one) == {"people", "rows_each", "loss", "bound", "setting"}
        assert sum(group["size"] * group["buckets"] for group in one["setting"]) == one["people"]
        assert sum((group["size"] - 1) ** 2 * group["buckets"] for group in one["setting"]) == one["loss"]
    assert found["mse"] == pytest.approx(found["loss"] / 21)
    (disease,) = found["sensitive"]
    assert disease["column"] == "disease"
    assert [value["value"] for value in disease["values"]] == ["A", "B", "C"]
    assert sum(value["people"] for value in disease["values"]) == 25
    assert {value["limit"] for value in disease["values"]} == {"3/4"}
    refused = run(*words, "--uniform", "1/3", "--json")
    assert (refused.exit_code, as_object(refused)["error"]["kind"]) == (3, "no-solution")


def test_counts_alone(run: Run) -> None:
    found = as_object(run("plan", "--counts", "counts.csv", "--limit", "Flu=1", "--limit", "HIV=0.2", "--json"))
    assert found["setting"] == [{"size": 2, "buckets": 25}, {"size": 5, "buckets": 10}]
    assert found["n"] == 100


def test_the_setting_says_which_values_need_large_buckets(run: Run) -> None:
    result = run("plan", "--counts", "counts.csv", "--limit", "Flu=1", "--limit", "HIV=0.2")
    (line,) = [line for line in result.stdout.splitlines() if line.endswith("   HIV")]
    assert line.split() == ["5", "10", "50", "160", "HIV"]
    assert result.stdout.startswith("50 of 100 people have their value published outright ('Flu' 50).")


def test_compare_shows_every_method(run: Run) -> None:
    words = ("plan", "--counts", "counts.csv", "--uniform", "1", "--limit", "HIV=0.2", "--compare")
    result = run(*words)
    assert result.exit_code == 0
    for method in ("optimal", "two-size", "multi-size", "anatomy"):
        assert method in result.stdout
    plans = as_object(run(*words, "--json"))["plans"]
    assert [plan["method"] for plan in plans] == ["optimal", "two-size", "multi-size", "anatomy"]
    assert all(plan["loss"] >= plans[0]["loss"] for plan in plans)


def test_a_job_file_and_options_before_it(run: Run) -> None:
    Path("job.toml").write_text(
        '[table]\nsensitive = "Disease"\n[limits]\nuniform = "0.5"\n[solve]\nmethod = "two-size"\nmin_size = 3\n'
    )
    found = as_object(run("plan", "hospital.csv", "--job", "job.toml", "--json"))
    assert (found["method"], found["min_size"], found["setting"]) == ("two-size", 3, [{"size": 4, "buckets": 1}])
    found = as_object(run("plan", "hospital.csv", "--job", "job.toml", "--theta", "2", "--min-size", "2", "--json"))
    assert found["setting"] == [{"size": 2, "buckets": 2}]
    found = as_object(run("plan", "hospital.csv", "--job", "job.toml", "--limit", "HIV=0.25", "--json"))
    assert found["setting"] == [{"size": 4, "buckets": 1}]


def test_not_eligible_lists_each_value_with_what_would_do(run: Run) -> None:
    words = ("plan", "--counts", "counts.csv", "--uniform", "0.5", "--limit", "HIV=0.05")
    result = run(*words)
    assert result.exit_code == 3
    assert "Flu: frequency 0.9, limit 0.5; the smallest limit that works is 9/10 (0.9)" in result.stdout
    assert "HIV: frequency 0.1, limit 0.05; the smallest limit that works is 1/10 (0.1)" in result.stdout
    result = run(*words, "--json")
    assert result.exit_code == 3
    found = as_object(result)
    assert (found["status"], found["setting"], found["loss"]) == ("infeasible", None, None)
    assert found["reason"]["kind"] == "not-eligible"
    assert found["reason"]["values"][0] == {
        "value": "Flu",
        "is_group": False,
        "frequency": 0.9,
        "limit": "1/2",
        "smallest_limit": "9/10",
    }


def test_max_size_too_small_says_what_would_do(run: Run) -> None:
    words = ("plan", "--counts", "counts.csv", "--uniform", "1", "--limit", "HIV=0.125", "--max-size", "7")
    result = run(*words)
    assert result.exit_code == 3
    assert "The smallest --max-size that works is 8." in result.stdout
    assert as_object(run(*words, "--json"))["reason"] == {
        "kind": "max-size",
        "values": [],
        "smallest_max_size": 8,
        "is_smallest": True,
    }


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["hospital.csv", "--sensitive", "Diseas", "--uniform", "0.5"], "no-such-column", "Did you mean 'Disease'?"),
        (["absent.csv", "--sensitive", "x", "--uniform", "0.5"], "input", "no file"),
        (["hospital.csv", "--uniform", "0.5"], "usage", "sensitive column is not named"),
        (["hospital.csv", "--sensitive", "Disease"], "policy", "no limits are given"),
        (["--uniform", "0.5"], "usage", "either TABLE or --counts"),
        (["hospital.csv", "--counts", "counts.csv", "--uniform", "1"], "usage", "either TABLE or --counts"),
        (["--counts", "counts.csv", "--theta", "-1"], "policy", "theta must not be negative"),
        (["--counts", "counts.csv", "--uniform", "0"], "policy", "above 0 and at most 1"),
        (["--counts", "counts.csv", "--uniform", "nan"], "policy", "decimal, an integer or a ratio"),
        (["--counts", "counts.csv", "--limit", "HIV"], "usage", "VALUE=NUMBER"),
        (
            ["--counts", "counts.csv", "--uniform", "1", "--corrupted", "-1"],
            "usage",
            "known records must be at least 0",
        ),
        (["--counts", "counts.csv", "--uniform", "1", "--corrupted", "100"], "usage", "knows all 100 of the table"),
        (["--counts", "counts.csv", "--uniform", "1", "--corrupted", "1.5"], "usage", "not a valid integer"),
        (["--counts", "counts.csv", "--uniform", "1", "--fakes", "-2"], "usage", "fake values must be at least 0"),
        (["--counts", "counts.csv", "--uniform", "1", "--fakes", "1001"], "usage", "more than the 1,000"),
        (["--counts", "counts.csv", "--limit", "HIV=1", "--limit", "HIV=0.5"], "usage", "twice for 'HIV'"),
        (["--counts", "counts.csv", "--sensitive", "x", "--uniform", "1"], "usage", "no columns to name"),
        (["--counts", "counts.csv", "--max-size", "abc"], "usage", "'abc' is not a valid integer"),
        (["--counts", "counts.csv", "--bogus"], "usage", "No such option"),
        (["--counts", "counts.csv", "--method", "best"], "usage", "'best' is not one of"),
        (["--counts", "counts.csv", "--job", "."], "job-file", "cannot be read"),
        (["--counts", "counts.csv", "--limit", "HIV=0.1"], "policy", "no limit covers 1 of 2"),
        (["--counts", "hospital.csv", "--uniform", "0.5"], "counts", "value,count"),
        (["--counts", "counts.csv", "--job", "absent.toml"], "job-file", "cannot be read"),
        (["--counts", "counts.csv", "--uniform", "1", "--engine", "spark"], "usage", "needs no engine"),
        (["hospital.csv", "--sensitive", "Disease", "--uniform", "1", "--master", "local"], "usage", "is for Spark"),
        (["hospital.csv", "--sensitive", "Disease", "--uniform", "1", "--conf", "a=b"], "usage", "without Spark"),
        (["hospital.csv", "--sensitive", "Disease", "--uniform", "1", "--conf", "ab"], "usage", "KEY=VALUE"),
        (
            ["--counts", "counts.csv", "--uniform", "1", "--min-size", "5", "--max-size", "4"],
            "usage",
            "above the largest",
        ),
    ],
)
def test_bad_input_ends_with_2_and_names_the_fix(run: Run, words: list[str], kind: str, message: str) -> None:
    result = run("plan", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    result = run("plan", *words, "--json")
    assert result.exit_code == 2
    error = as_object(result)["error"]
    assert error["kind"] == kind
    assert message in f"{error['message']} {error['hint']}"


@pytest.mark.parametrize("adversary", [(), ("--corrupted", "1", "--fakes", "2")])
def test_the_certificate_can_be_checked_from_its_file_alone(run: Run, adversary: tuple[str, ...]) -> None:
    table = acs("Occupation", 300, 8)
    lines = [f"{value},{count}" for value, count in zip(table.values, table.counts, strict=True)]
    Path("acs.csv").write_text("\n".join(["value,count", *lines]))
    words = ("--theta", "8", "--base", "0.02", "--max-size", "50", "--certificate", "proof.json", "--json")
    found = as_object(run("plan", "--counts", "acs.csv", *words, *adversary, "--gap", "0.01"))
    proof = json.loads(Path("proof.json").read_text())
    problem = Problem(
        tuple(v["value"] for v in proof["values"]),
        tuple(v["count"] for v in proof["values"]),
        tuple(exact_fraction(v["limit"], "limit") for v in proof["values"]),
        proof["min_size"],
        proof["max_size"],
        proof["known_records"],
        proof["fake_values"],
    )
    assert proof["units"] == (2**20 if adversary else 1)
    rows = tuple(
        CertificateRow(
            exact_fraction(row["multiplier"], "y"), tuple(row["values"]), tuple((a, b) for a, b in row["sizes"])
        )
        for row in proof["rows"]
    )
    certificate = Certificate(exact_fraction(proof["bound"], "bound"), rows, units=proof["units"])
    bound = certified_bound(problem, certificate)
    assert found["bound"] - 1 < bound <= found["bound"] <= found["loss"]


def test_known_records_and_fakes_have_a_price(run: Run) -> None:
    Path("six.csv").write_text("\n".join(["value,count", *(f"{v},20" for v in "abcdef")]))
    words = ("plan", "--counts", "six.csv", "--uniform", "1/4")
    plain = as_object(run(*words, "--json"))
    result = run(*words, "--corrupted", "1", "--fakes", "1")
    assert result.exit_code == 0
    assert "The attacker may know any 1 of a bucket's records; 1 of its values is fake" in result.stdout
    assert "Price of protection: loss 270 -> 384 (x 1.42); MSE 2.269 -> 3.227" in result.stdout
    found = as_object(run(*words, "--corrupted", "1", "--fakes", "1", "--json"))
    assert (found["known_records"], found["fake_values"]) == (1, 1)
    assert found["setting"] == [{"size": 5, "buckets": 24}]
    assert found["price"] == {"loss": plain["loss"], "mse": plain["mse"], "ratio": pytest.approx(384 / 270)}
    plans = as_object(run(*words, "--corrupted", "1", "--fakes", "1", "--compare", "--json"))["plans"]
    assert [plan["price"]["loss"] for plan in plans] == [270] * 4


def test_without_a_loss_to_compare_with_there_is_no_ratio(run: Run) -> None:
    words = ("plan", "--counts", "counts.csv", "--uniform", "1", "--corrupted", "1", "--min-size", "1")
    found = as_object(run(*words, "--json"))
    assert found["loss"] > 0
    assert found["price"] == {"loss": 0, "mse": 0.0, "ratio": None}
    assert "Price of protection: loss 0 -> 810; MSE 0 -> 8.182" in run(*words).stdout


def test_the_adversary_in_a_job_file(run: Run) -> None:
    Path("job.toml").write_text('[limits]\nuniform = "1"\n[adversary]\ncorrupted = 2\nfakes = 1\n')
    found = as_object(run("plan", "--counts", "counts.csv", "--job", "job.toml", "--json"))
    assert (found["known_records"], found["fake_values"]) == (2, 1)
    found = as_object(run("plan", "--counts", "counts.csv", "--job", "job.toml", "--corrupted", "0", "--json"))
    assert (found["known_records"], found["fake_values"]) == (0, 1)


def test_not_eligible_with_known_records(run: Run) -> None:
    words = ("plan", "--counts", "counts.csv", "--uniform", "0.9", "--corrupted", "4")
    result = run(*words)
    assert result.exit_code == 3
    assert "Flu: frequency 0.9, limit 0.9; the smallest limit that works is 15/16 (0.9375)" in result.stdout
    assert "lower --corrupted" in result.stdout
    (value,) = as_object(run(*words, "--json"))["reason"]["values"]
    assert value["smallest_limit"] == "15/16"
    words = ("plan", "--counts", "counts.csv", "--uniform", "1", "--corrupted", "20")
    assert "no limit works" in run(*words).stdout
    assert as_object(run(*words, "--json"))["reason"]["values"][0]["smallest_limit"] is None


def test_no_room_for_fakes(run: Run) -> None:
    words = ("plan", "--counts", "counts.csv", "--limit", "Flu=0.9", "--limit", "HIV=0.1", "--fakes", "1")
    result = run(*words)
    assert result.exit_code == 3
    assert "No setting exists: 1 fake values beside 100 records are more than all limits" in result.stdout
    assert as_object(run(*words, "--json"))["reason"]["kind"] == "no-room-for-fakes"


def test_a_certificate_that_cannot_be_written(run: Run) -> None:
    words = ("--uniform", "1", "--certificate", "absent/proof.json")
    result = run("plan", "--counts", "counts.csv", *words)
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_without_a_solution_nothing_is_written(run: Run) -> None:
    for words in (("--uniform", "0.5"), ("--uniform", "1", "--limit", "HIV=0.125", "--max-size", "7")):
        result = run("plan", "--counts", "counts.csv", *words, "--certificate", "proof.json")
        assert result.exit_code == 3
        assert not Path("proof.json").exists()


def test_control_characters_do_not_reach_the_terminal(run: Run) -> None:
    Path("counts.csv").write_text('value,count\n"\x1b[31mred",5\n"two\nlines",5\n')
    result = run("plan", "--counts", "counts.csv", "--uniform", "0.5")
    assert "\x1b" not in result.stdout
    assert "\\x1b[31mred, two\\nlines" in result.stdout


def test_no_number_is_cut_short(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    Path("counts.csv").write_text("value,count\na,1000000000000001\nb,1000000000000001\n")
    words = ("plan", "--counts", "counts.csv", "--uniform", "0.5")
    assert "1,000,000,000,000,001" in run(*words).stdout
    assert "1,000,000,000,000,001" in run(*words, "--compare").stdout


def test_an_unexpected_error_is_called_a_bug_and_quotes_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_words: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("dalenius.tables.delimited.read_counts", broken)
    result = run("plan", "--counts", "counts.csv", "--uniform", "0.5", "--json")
    assert result.exit_code == 70
    assert as_object(result)["error"]["kind"] == "internal"
    assert "secret" not in result.output


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text(COUNTS)
    words = ["plan", "--counts", "counts.csv", "--uniform", "1", "--json"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [COMMAND, *words], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 2
    assert "No space left" in ended.stderr


def test_markup_in_values_is_printed_as_it_is(run: Run) -> None:
    Path("counts.csv").write_text("value,count\n[red]x[/red],5\n[/oops],5\n")
    result = run("plan", "--counts", "counts.csv", "--uniform", "0.5")
    assert result.exit_code == 0
    assert "[red]x[/red]" in result.stdout
    assert "[/oops]" in result.stdout


def test_no_command_at_all_shows_the_help(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")


def test_help_has_examples_and_version_is_printed(run: Run) -> None:
    assert "Examples:" in run("plan", "--help").stdout
    assert run("--version").stdout.startswith("dalenius, version ")
    assert "_DALENIUS_COMPLETE" in run("completion", "bash").stdout


def processor_seconds(process: int) -> float:
    """The time that a process has had so far, however busy the machine is."""
    user, system = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_ends_a_long_search_at_once(tmp_path: Path) -> None:
    """A full proof on scaled-up counts takes minutes; the interrupt must not."""
    table = acs("Occupation", 500, 8)
    lines = [f"{v}{h},{c // 2 + h * (c % 2)}" for v, c in zip(table.values, table.counts, strict=True) for h in (0, 1)]
    (tmp_path / "counts.csv").write_text("\n".join(["value,count", *lines]))
    words = ["plan", "--counts", "counts.csv", "--theta", "8", "--base", "0.02", "--gap", "0", "--time-limit", "600"]
    process = subprocess.Popen(
        [COMMAND, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    while processor_seconds(process.pid) < 3:  # all is imported by then, and the search has begun
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err == "Error: interrupted\n"

"""dp-risk as scripts and people see it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main

Run = Callable[..., Result]

GROUP_KEYS = {"size", "group", "pinned", "pinned_rightly", "release", "values", "more_values"}
VALUE_KEYS = {"value", "count", "limit", "above", "released", "released_mean", "ratios"}
SHARE_KEYS = {"mean_share", "largest_share", "above_limit"}
RATIO_KEYS = {"epsilon", "mean", "variance", "median", "interval"}
EPSILON_KEYS = {
    "epsilon",
    "pinned",
    "pinned_standard_error",
    "pinned_rightly",
    "pinned_rightly_standard_error",
    "mean_estimate",
    "median_relative_error",
}
LIMITS = ("--limit", "HIV=0.3", "--limit", "Flu=1", "--limit", "Cold=0.6")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run dp-risk in a folder with a table; the names of small groups are words that occur nowhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    rows = ["zyxlone,31,HIV", "zyxpair,32,HIV", "zyxpair,32,Cold"]
    rows += [f"manyfolk,40,{value}" for value in ["HIV"] * 30 + ["Flu"] * 10 + ["Cold"] * 20]
    rows += [f"zyxnine,50,{value}" for value in ["HIV"] * 4 + ["Flu"] * 5]
    rows += [f"tenfold,50,{value}" for value in ["HIV"] * 5 + ["Flu"] * 5]
    rows += [f"flufolk,60,{value}" for value in ["Flu"] * 60]
    Path("people.csv").write_text("Town,Age,Disease\n" + "\n".join(rows) + "\n")

    def invoke(*words: str) -> Result:
        base = ["dp-risk", "people.csv", "--sensitive", "Disease", "--draws", "300"]
        return CliRunner().invoke(main, [*base, *words], catch_exceptions=False)

    return invoke


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_object(run: Run) -> None:
    found = parsed(
        run("--quasi-identifiers", "Town,Age", "--epsilon", "0.1,1", *LIMITS, "--where", "Town = 'manyfolk'", "--json")
    )
    assert set(found) == {
        "format",
        "people",
        "groups",
        "draws",
        "least_shown",
        "exact",
        "mean_share",
        "noise_alone",
        "epsilons",
        "sizes",
        "top",
        "where",
        "theorem",
        "release",
        "group_rows",
        "notes",
    }
    assert found["group_rows"] is None
    assert (found["format"], found["people"], found["groups"], found["draws"]) == (1, 142, 6, 300)
    assert found["least_shown"] == 10
    assert [entry["epsilon"] for entry in found["epsilons"]] == [0.1, 1.0]
    assert all(set(entry) == EPSILON_KEYS for entry in found["epsilons"])
    for entry in found["sizes"]:
        assert set(entry) == {"least", "most", "groups", "people", "exact", "noise_alone", "release", "epsilons"}
        assert set(entry["release"]) == SHARE_KEYS
        assert entry["release"]["above_limit"] == 0
        assert all(set(inner) == EPSILON_KEYS for inner in entry["epsilons"])
    assert all(set(group) == GROUP_KEYS for group in [*found["top"], found["where"]])
    assert all(set(group["release"]) == SHARE_KEYS for group in [*found["top"], found["where"]])
    assert {group["size"] for group in found["top"]} == {1, 2, 9, 10, 60}  # nobody of flufolk is above a limit
    for value in found["where"]["values"]:
        assert set(value) == VALUE_KEYS
        assert all(set(ratio) == RATIO_KEYS | {"pinned"} for ratio in value["ratios"])
    assert all(set(point) == RATIO_KEYS | {"size", "count", "factor"} for point in found["theorem"])
    assert set(found["release"]) == {"status", "buckets", "mse", "above_limit", "mean_share", "largest_share"}
    assert found["release"]["above_limit"] == 0
    assert found["where"]["size"] == 60
    hiv = next(value for value in found["where"]["values"] if value["value"] == "HIV")
    assert (hiv["count"], hiv["limit"], hiv["above"]) == (30, "3/10", True)


def test_the_numbers_of_the_paper(run: Run) -> None:
    found = parsed(run("--where", "Age = '40'", "--epsilon", "0.1", *LIMITS, "--json"))
    factors = {point["size"]: point["factor"] for point in found["theorem"]}
    assert factors[100] == pytest.approx(1.02)
    assert factors[1000] == pytest.approx(1.0002)
    text = " ".join(run("--where", "Age = '40'", "--epsilon", "0.1", *LIMITS).stdout.split())
    assert " 1.02 " in text
    assert " 1.0002 " in text
    assert "no breach of differential privacy" in text
    assert "x = 60 people" in text


def test_the_tables(run: Run) -> None:
    result = run("--quasi-identifiers", "Town", "--epsilon", "0.1", "--epsilon", "1", *LIMITS)
    assert result.exit_code == 0
    assert "142 people in 6 groups" in result.stdout
    for words in ("noisy counts, epsilon 0.1", "noise and no counts", "exact counts", "F'-private release", "50 to 99"):
        assert words in result.stdout
    assert result.stdout.count("By size of the group") == 2
    assert "Town=manyfolk" in result.stdout
    for words in ("release: mean share of own value", "largest in any bucket", "above limit"):
        assert result.stdout.count(words) >= 2
    assert "Simulating 142 rows" in result.stderr


def test_listed_groups_with_theorem_and_simulation(run: Run) -> None:
    words = ["--quasi-identifiers", "Town", "--epsilon", "0.1,1", *LIMITS, "--top", "1"]
    result = run(*words)
    listing = result.stdout[result.stdout.index("Groups with most people pinned rightly") :].split("\n\n")[0]
    for column in ("x", "y", "limit", "theorem: mean", "variance", "median", "95 % interval", "pinned", "rightly"):
        assert column in listing
    (line,) = (line for line in listing.splitlines() if "manyfolk" in line)
    group = parsed(run(*words, "--json"))["top"][0]
    assert (group["size"], group["values"][0]["value"], group["values"][0]["count"]) == (60, "HIV", 30)
    assert line.split()[:5] == ["60", "HIV", "30", "0.3000", "0.1"]
    assert f"{0.5 * (1 + 200 / 3600):.4g}" in line.split()
    assert "flufolk" not in result.stdout
    none = run("--quasi-identifiers", "Town", "--epsilon", "1", "--uniform", "1")
    assert "nobody is pinned rightly" in " ".join(none.stdout.split())


def test_the_file_of_groups(run: Run) -> None:
    words = ["--quasi-identifiers", "Town,Age", "--epsilon", "0.1,1", *LIMITS, "--groups", "groups.csv"]
    assert parsed(run(*words, "--json"))["group_rows"] == 22
    text = Path("groups.csv").read_text()
    assert len(text.splitlines()) == 1 + 22
    assert "zyx" not in text
    assert "manyfolk" in text
    assert "tenfold" in text
    refused = run(*words, "--json")
    assert refused.exit_code == 2
    assert json.loads(refused.stdout)["error"]["kind"] == "usage"
    shown = run(*words, "--force", "--least-shown", "1")
    assert shown.exit_code == 0
    assert "groups.csv has 22 rows on all groups: not for publication." in " ".join(shown.stdout.split())
    assert "zyxlone" in Path("groups.csv").read_text()


def test_the_help_says_what_is_listed_and_that_it_is_not_for_publication() -> None:
    text = " ".join(CliRunner().invoke(main, ["dp-risk", "--help"]).stdout.split())
    assert "most people pinned rightly at the smallest epsilon" in text
    assert "Not for publication" in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_small_groups_are_not_named(run: Run, form: str) -> None:
    words = ["--quasi-identifiers", "Town,Age", "--epsilon", "1", *LIMITS, *(["--json"] if form == "json" else [])]
    result = run(*words)
    assert result.exit_code == 0
    assert "zyx" not in result.output + result.stderr
    assert "manyfolk" in result.stdout
    assert "tenfold" in result.stdout
    for failing in (["--where", "Town = 5"], ["--where", "CAST(Town AS INTEGER) = 5"], ["--where", "nonsense"]):
        failed = run(*words, *failing)
        assert failed.exit_code == 2
        assert "zyx" not in failed.output + failed.stderr
    everything = run(*words, "--least-shown", "1")
    assert "zyxlone" in everything.stdout


def test_a_job_file_names_the_columns(run: Run) -> None:
    job = '[table]\nsensitive = "Disease"\nquasi_identifiers = ["Town"]\n[limits]\nuniform = "0.6"\n'
    Path("job.toml").write_text(job)
    assert parsed(run("--job", "job.toml", "--epsilon", "1", "--json"))["groups"] == 6
    assert parsed(run("--job", "job.toml", "--epsilon", "1", "--where", "Age = '40'", "--json"))["groups"] == 0


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--epsilon", "0", "--quasi-identifiers", "Town"], "usage"),
        (["--epsilon", "-1", "--quasi-identifiers", "Town"], "usage"),
        (["--epsilon", "0.1,,1", "--quasi-identifiers", "Town"], "usage"),
        (["--epsilon", "nan", "--quasi-identifiers", "Town"], "usage"),
        (["--epsilon", "many", "--quasi-identifiers", "Town"], "usage"),
        (["--quasi-identifiers", "Town"], "usage"),
        (["--epsilon", "1"], "usage"),
        (["--epsilon", "1", "--quasi-identifiers", "Town", "--draws", "1"], "usage"),
        (["--epsilon", "1", "--quasi-identifiers", "Twn"], "no-such-column"),
        (["--epsilon", "1", "--quasi-identifiers", "Town", "--force"], "usage"),
        (["--epsilon", "1", "--quasi-identifiers", "Town", "--groups", "groups.json"], "usage"),
        (["--epsilon", "1", "--quasi-identifiers", "Town", "--groups", "nowhere/groups.csv"], "output"),
        (["--epsilon", "1", "--quasi-identifiers", "Town", "--groups", "people.csv", "--force"], "usage"),
        (["--epsilon", "1", "--where", "Age = '40'", "--groups", "groups.csv"], "usage"),
        (["--epsilon", "1", "--where", "Age > 3"], "query"),
        (["--epsilon", "1", "--where", "Disease = 'HIV'"], "query"),
    ],
)
def test_errors(run: Run, words: list[str], kind: str) -> None:
    result = run(*words, *LIMITS, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == kind


def test_without_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opendp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opendp", None)
    words = ["--epsilon", "1", "--quasi-identifiers", "Town", *LIMITS]
    result = run(*words, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "missing-extra"
    assert error["hint"] == "Install it with: pip install 'dalenius[dp]'"
    assert "pip install 'dalenius[dp]'" in run(*words).stderr

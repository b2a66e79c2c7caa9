"""Groups of values as options: what they come to, alone and with a job file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from dalenius.cli.group_options import group_options
from dalenius.cli.main import main
from dalenius.cli.shared_options import policy_options, read_request, solver_options
from dalenius.errors import DaleniusError, UsageError
from dalenius.policy.limits import LimitPolicy

JOB = """
groups = {width = 10, from = 0, ungrouped = ["?"]}
[limits]
odds = 8
[limits.groups]
"0 to below 10" = "0.2"
[limits.levels]
band = "none"
"""


def policy_of(*words: str) -> LimitPolicy:
    """The policy that these options come to."""
    found: list[LimitPolicy] = []

    @click.command()
    @policy_options
    @group_options
    @solver_options
    def command(**arguments: Any) -> None:
        found.append(read_request(arguments).policy)

    CliRunner().invoke(command, list(words), catch_exceptions=False)
    return found[0]


def test_groups_and_their_limits() -> None:
    words = "--odds 8 --groups icd10 --ungrouped ? --ungrouped ! --group-limit C00-D49=0.1"
    found = policy_of(*words.split(), "--level-rule", "chapter:odds=4,floor=0.1", "--level-rule", "block:none")
    assert found == LimitPolicy.of(
        odds=8,
        grouping={"named": "icd10", "ungrouped": ["?", "!"]},
        groups={"C00-D49": "0.1"},
        levels={"chapter": {"odds": 4, "floor": "0.1"}, "block": "none"},
    )


@pytest.mark.parametrize(
    ("spec", "section"),
    [
        ("prefix:3", {"prefix": 3}),
        ("prefix:1, 3", {"prefix": [1, 3]}),
        ("cuts:-1,0.5", {"cuts": [-1, "0.5"]}),
        ("quantiles:8", {"quantiles": 8}),
        ("width:2.5", {"width": "2.5"}),
        ("cuts:1/3 : 0,1/3,0.5", {"cuts": [["1/3"], [0, "1/3", "0.5"]]}),
        ("quantiles:2:4:8", {"quantiles": [2, 4, 8]}),
        ("width:5:2.5", {"width": [5, "2.5"]}),
    ],
)
def test_where_groups_come_from(spec: str, section: dict[str, Any]) -> None:
    assert policy_of("--odds", "8", "--groups", spec).grouping == LimitPolicy.of(grouping=section).grouping


def test_a_file_of_groups_is_looked_for_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("groups.csv").write_text("value,group\nHIV,any virus\n")
    found = policy_of("--odds", "8", "--groups", "groups.csv").grouping
    assert found is not None
    assert found.paths == (("HIV", ("any virus",)),)


def test_options_go_before_the_job_file(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    as_it_is = policy_of("--job", str(job))
    assert as_it_is == LimitPolicy.of(
        odds=8,
        grouping={"width": 10, "from": 0, "ungrouped": ["?"]},
        groups={"0 to below 10": "0.2"},
        levels={"band": "none"},
    )
    words = ["--groups", "cuts:10", "--ungrouped", "!", "--group-limit", "below 10=0.5", "--level-rule", "band:beta=1"]
    changed = policy_of("--job", str(job), *words)
    assert changed.grouping == LimitPolicy.of(grouping={"cuts": [10], "ungrouped": ["?", "!"]}).grouping
    assert changed.groups == {"0 to below 10": Fraction(1, 5), "below 10": Fraction(1, 2)}
    assert changed.levels == {"band": LimitPolicy.of(beta=1)}


def test_limits_on_groups_are_enough() -> None:
    assert policy_of("--groups", "icd10", "--level-rule", "chapter:odds=8").odds is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group-limit", "C00"], "--group-limit needs NAME=NUMBER"),
        (["--group-limit", "a=1", "--group-limit", "a=0.5"], "--group-limit is given twice for 'a'"),
        (["--level-rule", "chapter"], "--level-rule needs LEVEL:RULE"),
        (["--level-rule", "chapter:odds"], "--level-rule needs LEVEL:RULE"),
        (["--level-rule", ":odds=4"], "--level-rule needs LEVEL:RULE"),
        (["--level-rule", "a:none", "--level-rule", "a:odds=4"], "--level-rule is given twice for 'a'"),
    ],
)
def test_options_that_make_no_sense(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        policy_of("--odds", "8", "--groups", "icd10", *words)


def test_what_is_in_no_group_needs_groups() -> None:
    with pytest.raises(DaleniusError, match="nothing says where the groups come from"):
        policy_of("--odds", "8", "--ungrouped", "?")


def test_the_shell_completes_the_names_of_classifications() -> None:
    completion = ShellComplete(main, {}, "dalenius", "_DALENIUS_COMPLETE")
    assert [found.value for found in completion.get_completions(["plan", "--groups"], "icd")] == ["icd9", "icd10"]


def test_verify_names_the_option_that_is_for_certificates() -> None:
    result = CliRunner().invoke(main, ["verify", "release", "--groups", "icd9"])
    assert result.exit_code == 2
    assert "--groups goes with --certificate" in result.stderr


@pytest.mark.parametrize("groups", ["prefix:1", "cuts:15,31"])
def test_a_plans_certificate_is_checked_with_the_same_groups(groups: str, tmp_path: Path) -> None:
    """And with those alone: without them it is about another problem."""
    counts = tmp_path / "counts.csv"
    counts.write_text("value,count\n11,40\n12,35\n21,9\n22,8\n31,30\n32,1\n", encoding="utf-8")
    options = ["--counts", str(counts), "--odds", "3"]
    certificate = ["--certificate", str(tmp_path / "proof.json")]
    done = CliRunner().invoke(main, ["plan", *options, "--groups", groups, *certificate])
    assert done.exit_code == 0, done.output
    checked = CliRunner().invoke(main, ["verify", *certificate, *options, "--groups", groups])
    assert checked.exit_code == 0, checked.output
    other = CliRunner().invoke(main, ["verify", *certificate, *options])
    assert other.exit_code in (1, 2), other.output

"""What a command says that cannot publish the next release of a chain: never a path, a person, or a row."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dalenius
from dalenius.cli.main import main
from tests.over_time import files_in

Run = Callable[..., Result]

BASE = "--sensitive disease --quasi-identifiers age,zip --uniform 1/2"
CHAIN = "--person id --ledger vault/ledger"
NEXT = f"{CHAIN} --after r1 --out r2"


def rows(first: int, last: int) -> str:
    """Nobody has the number of anybody else in anything, so that it would be found in a message."""
    lines = [f"person-{k},{9000 + k},{k % 3},{['flu', 'cold', 'gout'][k % 3]}" for k in range(first, last)]
    return "\n".join(["id,age,zip,disease", *lines]) + "\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Publish in a folder that has two years, and the release of the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("DALENIUS_LEDGER_KEY", raising=False)
    Path("2025.csv").write_text(rows(0, 12), encoding="utf-8")
    Path("2026.csv").write_text(rows(2, 18), encoding="utf-8")

    def publish(words: str, table: str = "2026.csv", base: str = BASE, env: Mapping[str, str] | None = None) -> Result:
        everything = ["publish", table, *base.split(), *words.split()]
        return CliRunner().invoke(main, everything, catch_exceptions=False, env=dict(env or {}))

    assert publish(f"{CHAIN} --out r1", "2025.csv").exit_code == 0
    return publish


def refused(run: Run, words: str, says: str, hint: str = "", code: int = 2, **options: Any) -> None:
    """The command fails and says so, and nothing is other than it was."""
    before = files_in(Path())
    result = run(words, **options)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert hint in result.stderr
    told = result.stderr[result.stderr.index("Error:") :]
    for secret in ("person-", "90", str(Path.cwd()), "vault", "r1", "2026"):
        assert secret not in told
    assert files_in(Path()) == before
    again = run(f"{words} --json", **options)
    error = json.loads(again.stdout)["error"]
    assert (again.exit_code, error["message"] in told) == (code, True)


OTHER_COLUMNS = "the release before has other columns: age, zip, disease"
OPTIONS = {
    "nobody": ("--ledger vault/ledger --after r1 --out r2", "nothing says who they are", "--person COLUMN"),
    "no ledger": ("--person id --after r1 --out r2", "--after is about a chain", "--ledger FILE"),
    "waiting without a ledger": ("--person id --hold-back --out r2", "--hold-back is about a chain", "--ledger FILE"),
    "filled up without a ledger": ("--counterfeits --out r2", "--counterfeits are for new people of a chain", ""),
    "both": (f"{NEXT} --hold-back --counterfeits", "are held back, or counterfeits fill", "Keep one"),
    "values without a ledger": ("--values-change --out r2", "--values-change is about a chain", "--ledger"),
    "not applicable": (f"{NEXT} --not-applicable gout", "nobody is set apart", "--limit VALUE=1"),
    "several rows": (f"{NEXT} --most-rows 2", "one row and one sensitive column each", ""),
    "avoiding fakes": (f"{NEXT} --fakes 1 --avoid-ruled-out", "fakes are not exchanged", "--avoid-ruled-out"),
    "a cluster": (f"{NEXT} --engine spark", "Spark does not publish chains", "leave out --engine spark"),
    "another limit": (f"{NEXT} --limit flu=2/3", "the limit of 'flu' was 1/2 in the release before, and 2/3", "audit"),
    "a typing error in a limit": (f"{NEXT} --limit fluu=1/2", "'fluu', which does not occur", "'flu'"),
    "another adversary": (f"{NEXT} --corrupted 1", "was made with --corrupted 0 and --fakes 0", "the same adversary"),
    "other fakes": (f"{NEXT} --fakes 1", "was made with --corrupted 0 and --fakes 0", "Give the same"),
    "no such person": (NEXT.replace("--person id", "--person idd"), "no column 'idd'", "Did you mean 'id'?"),
    "the same folder": (f"{CHAIN} --after r1 --out r1 --force", "would replace the one that it follows on", "--out"),
    "no release": (f"{CHAIN} --after nowhere --out r2", "has no manifest that can be read", "Give the folder"),
    "no ledger there": ("--person id --ledger none --after r1 --out r2", "the key of the ledger is not there", ".key"),
    "a folder": ("--person id --ledger vault --after r1 --out r2", "the path of the ledger is a folder", "a file"),
    "a ledger for everybody": ("--person id --ledger r2/ledger --out r2", "the ledger is private, and would be", ""),
    "a ledger that is the release": ("--person id --ledger r2 --out r2", "the ledger is private, and would be", ""),
    "a ledger that is the table": ("--person id --ledger 2026.csv --out r2", "there is a ledger already", ""),
    "a folder that is not there": ("--person id --ledger a/b/c --after r1 --out r2", "key of the ledger is not", ""),
    "a second first one": (f"{CHAIN} --out r2", "there is a ledger already", "--after"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_what_does_not_go_together(name: str, run: Run) -> None:
    words, says, hint = OPTIONS[name]
    refused(run, words, says, hint)


BASES = {
    "another sensitive column": ("--sensitive zip --quasi-identifiers age,disease --uniform 1/2", OTHER_COLUMNS),
    "a typing error": ("--sensitive diseas --quasi-identifiers age,zip --uniform 1/2", OTHER_COLUMNS),
    "fewer columns": ("--sensitive disease --quasi-identifiers age --uniform 1/2", OTHER_COLUMNS),
    "another order": ("--sensitive disease --quasi-identifiers zip,age --uniform 1/2", OTHER_COLUMNS),
    "two sensitive columns": (
        "--sensitive disease --sensitive zip --quasi-identifiers age --uniform 1/2",
        "one sensitive column each",
    ),
    "bands": ("--sensitive age --quasi-identifiers zip --uniform 1/2 --groups width:10", "do not count by bands"),
    "other limits": (
        "--sensitive disease --quasi-identifiers age,zip --uniform 2/3",
        "by the rule 'uniform 1/2' at first",
    ),
    "groups": (
        "--sensitive disease --quasi-identifiers age,zip --uniform 1/2 --groups prefix:1",
        "the release before has no groups of values",
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_what_is_other_than_before(name: str, run: Run) -> None:
    base, says = BASES[name]
    refused(run, NEXT, says, base=base)


def test_a_typing_error_in_a_first_release_is_corrected(run: Run) -> None:
    base = BASE.replace("disease", "diseas")
    refused(run, "--person id --ledger ledger --out r2", "no column 'diseas'", "Did you mean 'disease'?", base=base)


def test_what_a_table_has_that_does_not_follow(run: Run) -> None:
    Path("types.csv").write_text(rows(2, 18).replace(",9002,", ",old,"), encoding="utf-8")
    refused(run, NEXT, "'age' was int64 in the release before, and has other values now", table="types.csv")
    Path("others.csv").write_text(rows(20, 30), encoding="utf-8")
    refused(run, NEXT, "nobody of the table was in a release of the chain before", "--person", table="others.csv")
    Path("twice.csv").write_text(rows(2, 18) + "PERSON-3,9100,1,flu\n", encoding="utf-8")
    refused(run, NEXT, "1 of 17 rows are of a person who has another one", "case, blanks", table="twice.csv")
    Path("nobody.csv").write_text(rows(2, 18) + ",9100,1,flu\n", encoding="utf-8")
    refused(run, NEXT, "1 of 17 rows have no person", table="nobody.csv")


def test_too_few_new_people_are_no_solution(run: Run) -> None:
    Path("few.csv").write_text(rows(0, 13), encoding="utf-8")
    says = "1 person is new, or has another value than before, and no buckets of them alone keep the limits: 1 of them"
    refused(run, NEXT, f"{says} has 'flu', whose limit 1/2 asks for 2", "--counterfeits", code=3, table="few.csv")
    Path("few.csv").write_text(rows(0, 12) + "person-12,9012,1,gout\nperson-13,9013,1,gout\n", encoding="utf-8")
    says = "2 people are new, or have another value than before, and no buckets of them alone keep the limits: 2 of"
    refused(run, NEXT, f"{says} them have 'gout', whose limit 1/2 asks for 4", "--hold-back", code=3, table="few.csv")


def test_a_release_before_that_was_changed(run: Run) -> None:
    st = Path("r1/st.parquet")
    whole = st.read_bytes()
    st.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    refused(run, NEXT, "st.parquet of the release before was changed", "Restore")
    st.unlink()
    refused(run, NEXT, "a file of the release before cannot be read", "Restore")


def test_a_release_that_is_none_of_a_chain(run: Run) -> None:
    assert run("--out plain").exit_code == 0
    refused(run, f"{CHAIN} --after plain --out r2", "it was published without --ledger", "Begin a chain now")
    refused(run, "--person id --ledger new --after plain --out r2", "it was published without --ledger", "Begin")


def test_limits_stay_whoever_is_new(run: Run) -> None:
    """A rule or a limit that is not the one of before is an error, and not passed over where nobody is new."""
    base = "--sensitive disease --quasi-identifiers age,zip"
    for rule, says in (("--odds 4", "'odds 4, floor 1/50'"), ("--theta 1 --base 0.5", "'theta 1, base 1/2'")):
        refused(run, NEXT, says, "the same limits", base=f"{base} {rule}", table="2025.csv")
    refused(run, f"{NEXT} --limit cold=0.3", "the limit of 'cold' was 1/2", base=BASE, table="2025.csv")
    refused(run, f"{NEXT} --limit cold=0.3", "the limit of 'cold' was 1/2", base=BASE)
    assert run(NEXT, table="2025.csv").exit_code == 0


def rewritten(change: Callable[[int, str], str], many: int = 60) -> str:
    """Rows of which each has its person's number and its value changed."""
    lines = rows(0, many).splitlines()
    return "\n".join([lines[0], *(change(number, line) for number, line in enumerate(lines[1:]))]) + "\n"


def test_people_who_are_others_are_an_error(run: Run, tmp_path: Path) -> None:
    """A number of the row is unique in both tables, and stands for somebody else in each."""
    Path("first.csv").write_text(rows(0, 60), encoding="utf-8")
    assert run("--person id --ledger a --out a1", "first.csv").exit_code == 0
    other = rewritten(lambda number, line: f"person-{number ^ 1},{line.split(',', 1)[1]}")
    Path("other.csv").write_text(other, encoding="utf-8")
    words = "--person id --ledger a --after a1 --out a2"
    refused(
        run, words, "60 of 60 people who were there before have another value", "--values-change", table="other.csv"
    )
    assert run(f"{words} --values-change", "other.csv").exit_code == 0


def test_a_value_with_another_name_is_an_error(run: Run) -> None:
    """All who had it would move, and nobody else."""
    Path("first.csv").write_text(rows(0, 60), encoding="utf-8")
    assert run("--person id --ledger a --out a1", "first.csv").exit_code == 0
    Path("other.csv").write_text(rewritten(lambda _, line: line.replace("gout", "Gout")), encoding="utf-8")
    words = "--person id --ledger a --after a1 --out a2"
    refused(run, words, "all 20 people who had 'gout' have 'Gout' now", "--values-change", table="other.csv")
    refused(run, f"{words} --hold-back", "all 20 people who had 'gout'", "Write values as in", table="other.csv")
    nearly = rewritten(lambda number, line: line.replace("gout", "Gout") if number < 55 else line)
    Path("nearly.csv").write_text(nearly, encoding="utf-8")
    assert run(f"{words} --hold-back", "nearly.csv").exit_code == 0


def test_few_who_stay_are_a_concern(run: Run) -> None:
    Path("other.csv").write_text(rows(10, 40), encoding="utf-8")
    found = json.loads(run(f"{NEXT} --json", "other.csv").stdout)
    assert "few-stayed" in [finding["code"] for finding in found["findings"]]


def test_a_ledger_is_in_no_folder_of_a_release(run: Run) -> None:
    for ledger in ("r1/ledger", "r1/deep/ledger", "r9/ledger"):
        result = run(f"--person id --ledger {ledger} --out r9", "2025.csv")
        assert (result.exit_code, "would be in the folder of a release" in result.stderr) == (2, True)
    assert sorted(path.name for path in Path("r1").iterdir()) == ["manifest.json", "qit.parquet", "st.parquet"]
    assert not Path("r9").exists()


def test_a_link_to_a_ledger_is_the_ledger(run: Run) -> None:
    Path("link").symlink_to("vault/ledger")
    assert run("--person id --ledger link --after r1 --out r2").exit_code == 0
    assert Path("link").is_symlink()
    refused(run, f"{CHAIN} --after r1 --out elsewhere/r2", "another release follows already")
    shutil.move("r2", "away")
    refused(run, f"{CHAIN} --after r1 --out r3", "another release follows already", "the latest")
    Path("deep").mkdir()
    Path("away").rename("deep/r2")
    refused(run, f"{CHAIN} --after r1 --out r3", "the ledger is of a later release", "the latest")
    Path("latest").symlink_to("r1")
    refused(run, f"{CHAIN} --after latest --out r1 --force", "would replace the one that it follows on")


def test_a_release_follows_already(run: Run) -> None:
    """Beside the one given, or beside the new one; and so whatever ledger was restored."""
    old = Path("vault/ledger").read_bytes()
    assert run(NEXT).exit_code == 0
    new = Path("vault/ledger").read_bytes()
    refused(run, f"{CHAIN} --after r1 --out r3", "another release follows already on the one given", "the latest")
    Path("vault/ledger").write_bytes(old)  # restored from a backup
    refused(run, f"{CHAIN} --after r2 --out r3", "restored from an older backup", "Restore the ledger")
    refused(run, f"{CHAIN} --after r1 --out r3", "another release follows already on the one given", "its folder")
    refused(run, f"{CHAIN} --after r1 --out elsewhere/r3", "another release follows already on the one given")
    Path("vault/ledger").write_bytes(new)
    Path("elsewhere").mkdir()
    shutil.move("r2", "elsewhere/r2")
    refused(run, f"{CHAIN} --after r1 --out elsewhere/r3", "another release follows already on the one given")
    refused(run, f"{CHAIN} --after r1 --out r3", "the ledger is of a later release than the one given", "latest")
    assert run(f"{CHAIN} --after elsewhere/r2 --out r3").exit_code == 0


def concerns(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [concern["code"] for concern in json.loads(result.stdout)["findings"]]


def test_releases_that_can_be_compared_are_a_concern_but_for_those_of_the_chain(run: Run) -> None:
    assert "earlier-releases" not in concerns(run(f"{NEXT} --json --strict"))
    later = f"{CHAIN} --after r2 --out r3 --json"
    assert "earlier-releases" not in concerns(run(f"{later} --strict"))
    assert "earlier-releases" in concerns(run("--person id --ledger other --out first --json"))
    for words in (f"{CHAIN} --after r3 --out r4 --strict", "--person id --ledger third --out r4 --strict"):
        result = run(words)
        assert result.exit_code == 2
        assert "in the same folder, or about to be replaced" in result.stderr
        assert not Path("r4").exists()
        assert not Path("third").exists()
    assert "earlier-releases" in concerns(run(f"{CHAIN} --after r3 --out r4 --json"))


def test_the_summary_says_what_became_of_everybody(run: Run) -> None:
    Path("2026.csv").write_text(rows(2, 18).replace("9002,2,gout", "9002,2,cold"), encoding="utf-8")
    result = run(NEXT)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert (
        "release 2 of its chain: 9 people stay in their buckets, 2 left, 0 came back, 6 are new, and 1 have another "
        "value than before" in text
    )
    assert "3 of 19 values (16%) are nobody's" in text
    assert "1 person has another value than in the release before" in text


def test_what_became_of_everybody_as_json(run: Run) -> None:
    found = json.loads(run(f"{NEXT} --json").stdout)
    assert found["chain"] == {
        "release": 2,
        "stayed": 10,
        "returned": 0,
        "left": 2,
        "new": 6,
        "changed": 0,
        "held_back": 0,
        "counterfeits": 0,
        "surplus": 2,
        "places": 18,
    }
    assert found["verified"] is True
    assert dalenius.load("r2").verify(previous="r1", against="2026.csv").verified
    Path("2027.csv").write_text(rows(0, 19), encoding="utf-8")
    later = f"{CHAIN} --after r2 --out r3 --hold-back --json"
    chain = json.loads(run(later, "2027.csv").stdout)["chain"]
    assert (chain["release"], chain["returned"], chain["held_back"], chain["new"]) == (3, 2, 1, 1)
    assert json.loads(run("--out plain --json").stdout)["chain"] is None


def test_a_job_file_says_the_rest(run: Run) -> None:
    job = """
[table]
sensitive = "disease"
quasi_identifiers = ["age", "zip"]
person = "id"
[limits]
uniform = "1/2"
"""
    Path("job.toml").write_text(job, encoding="utf-8")
    assert run("--job job.toml --ledger vault/ledger --after r1 --out r2", base="").exit_code == 0
    assert dalenius.load("r2").verify(previous="r1", job="job.toml").verified


def test_a_pipe_beside_a_release_is_none(run: Run) -> None:
    """Whoever reads one waits for somebody who writes."""
    Path("other").mkdir()
    os.mkfifo("other/manifest.json")
    assert run(NEXT).exit_code == 0
    refused(run, f"{CHAIN} --after other --out r3", "not a regular file")

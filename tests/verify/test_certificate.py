"""Certificates: what they prove, and that nobody can make them prove more."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner, Result

from dalenius.cli.main import main
from dalenius.model.plan import Certificate, CertificateRow
from dalenius.model.problem import Problem, ValueCounts
from dalenius.solve.optimal import find_optimum
from dalenius.solve.sizes import least_min_size
from dalenius.verify.certificate_file import Claim
from dalenius.verify.proof import certified_bound, check_certificate
from tests.problems import acs


def found_certificate() -> Certificate:
    certificate = find_optimum(acs("Education", 300, 8)).certificate
    assert certificate is not None
    return certificate


def test_a_certificate_with_changed_multipliers_proves_no_more() -> None:
    """Whatever somebody writes into a certificate, what it proves stays below the optimum."""
    table = acs("Education", 300, 8)
    certificate = found_certificate()
    for factor in (Fraction(0), Fraction(1, 2), Fraction(11, 10), Fraction(5)):
        rows = tuple(replace(row, multiplier=row.multiplier * factor) for row in certificate.rows)
        assert certified_bound(table, Certificate(certificate.bound, rows)) <= 531_287


def test_negative_multipliers_are_refused() -> None:
    certificate = found_certificate()
    rows = tuple(replace(row, multiplier=-row.multiplier) for row in certificate.rows)
    with pytest.raises(ValueError, match="must not be negative"):
        certified_bound(acs("Education", 300, 8), Certificate(certificate.bound, rows))


@pytest.mark.parametrize(("known", "fakes"), [(1, 0), (0, 1), (2, 2)])
def test_the_adversary_is_part_of_the_proof(known: int, fakes: int) -> None:
    """A certificate proves its bound for its own adversary; read for a weaker one, a bound that is true there."""
    open_table = acs("Education", 300, 8)
    low = least_min_size(open_table.limits, known)
    table = replace(open_table, min_size=low, max_size=52, known_records=known, fake_values=fakes)
    found = find_optimum(table, gap=0.01).certificate
    assert found is not None
    assert found.units == (2**20 if fakes else 1)
    bound = certified_bound(table, found)
    assert bound == found.bound > 531_287
    assert certified_bound(replace(open_table, max_size=52), found) <= 531_287
    for units in (1, 7, 2**30):  # whatever the units, the rows are true
        assert certified_bound(table, replace(found, units=units)) <= optimal_loss(table)
    with pytest.raises(ValueError, match="units must be at least 1"):
        certified_bound(table, replace(found, units=0))


def optimal_loss(table: Problem) -> int:
    setting = find_optimum(table).setting
    assert setting is not None
    return setting.loss


def test_a_certificate_of_another_table_does_not_fit() -> None:
    assert certified_bound(acs("Education", 300, 32), found_certificate()) <= 50_804


# The command: a certificate from its file, against the publisher's own counts and limits.

COUNTS = {"Flu": 60, "Cold": 30, "Asthma": 12, "HIV": 5, "a,b": 13}
LIMITS = ("--uniform", "0.6", "--limit", "HIV=0.125", "--limit", "Asthma=1/4")
ADVERSARIES: list[tuple[str, ...]] = [(), ("--corrupted", "1", "--fakes", "1")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with counts, the table that has them, and a job file with the limits."""
    monkeypatch.chdir(tmp_path)
    write_counts(COUNTS)
    values = [value for value, count in COUNTS.items() for _ in range(count)]
    pyarrow.csv.write_csv(pa.table({"age": list(range(len(values))), "Disease": values}), "hospital.csv")
    limits = '[limits]\nuniform = "0.6"\n[limits.values]\nHIV = "0.125"\nAsthma = "1/4"\n'
    Path("job.toml").write_text('[table]\nsensitive = "Disease"\n' + limits, encoding="utf-8")
    return tmp_path


def write_counts(counts: dict[str, int], name: str = "counts.csv") -> None:
    lines = [f'"{value}",{count}' for value, count in counts.items()]
    Path(name).write_text("\n".join(["value,count", *lines]), encoding="utf-8")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


def write_certificate(*words: str) -> dict[str, Any]:
    """The certificate that `plan` writes to proof.json."""
    result = run(
        "plan", "--counts", "counts.csv", *LIMITS, *words, "--certificate", "proof.json", "--gap", "0", "--json"
    )
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(Path("proof.json").read_text(encoding="utf-8"))
    return found


def check(proof: object = None, *words: str, counts: str = "counts.csv", limits: tuple[str, ...] = LIMITS) -> Result:
    if proof is not None:
        Path("proof.json").write_text(proof if isinstance(proof, str) else json.dumps(proof), encoding="utf-8")
    return run("verify", "--certificate", "proof.json", "--counts", counts, *limits, *words)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_right_certificate_passes(folder: Path, adversary: tuple[str, ...]) -> None:
    proof = write_certificate(*adversary)
    result = check(None, *adversary)
    assert result.exit_code == 0, result.output
    least = math.ceil(Fraction(proof["bound"]))
    sizes = f"bucket sizes from {proof['min_size']} to {proof['max_size']}"
    assert result.stdout == f"Verified: no valid setting with {sizes} has a loss below {least:,}.\n"
    found = json.loads(check(None, *adversary, "--json").stdout)
    assert found == {
        "format": 1,
        "verified": True,
        "proves": "loss",
        "stated_bound": proof["bound"],
        "proven_bound": proof["bound"],
        "least_loss": least,
        "n": 120,
        "m": 5,
        "min_size": proof["min_size"],
        "max_size": proof["max_size"],
        "known_records": proof["known_records"],
        "fake_values": proof["fake_values"],
        "findings": [],
    }


def test_counts_may_come_from_a_table_and_limits_from_a_job_file(folder: Path) -> None:
    write_certificate()
    for words in (("hospital.csv", "--job", "job.toml"), ("hospital.csv", "--sensitive", "Disease", *LIMITS)):
        result = run("verify", "--certificate", "proof.json", *words)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("Verified: ")


def test_another_bound_than_is_proven(folder: Path) -> None:
    proof = write_certificate()
    true = Fraction(proof["bound"])
    for stated in (true + 1, true + Fraction(1, 10**30), true * 10**200):
        result = check({**proof, "bound": str(stated)})
        assert result.exit_code == 1
        assert "the certificate says that its bound is" in result.stdout
        assert f"has a loss below {math.ceil(true):,}." in result.stdout
    for stated in (true - 1, true - Fraction(1, 10**30)):
        lower = check({**proof, "bound": str(stated)}, "--json")
        assert lower.exit_code == 1
        assert json.loads(lower.stdout)["proven_bound"] == proof["bound"]


def test_whatever_is_changed_in_the_rows_no_false_bound_is_proven(folder: Path) -> None:
    """Each number of each row, and the units: the certificate fails, or proves no more than is true."""
    adversary = ("--corrupted", "1", "--fakes", "1")
    proof = write_certificate(*adversary)
    loss = json.loads(run("plan", "--counts", "counts.csv", *LIMITS, *adversary, "--gap", "0", "--json").stdout)["loss"]
    changed: list[dict[str, Any]] = [{**proof, "units": units} for units in (1, 3, 2**40)]
    for number, row in enumerate(proof["rows"]):
        y = Fraction(row["multiplier"])
        others = [{**row, "multiplier": str(y * factor)} for factor in (0, Fraction(1, 3), 2, 10**9)]
        others += [{**row, "values": [value]} for value in range(5)]
        others += [{**row, "sizes": [[1, 7]]}, {**row, "sizes": [[3, 2**62], [5, 6]]}]
        changed += [{**proof, "rows": [*proof["rows"][:number], o, *proof["rows"][number + 1 :]]} for o in others]
    changed.append({**proof, "rows": []})
    failed = 0
    for other in changed:
        result = check(other, *adversary, "--json")
        found = json.loads(result.stdout)
        assert result.exit_code == (0 if found["verified"] else 1)
        assert found["least_loss"] <= loss
        assert found["verified"] == (found["proven_bound"] == proof["bound"])
        failed += result.exit_code
    assert failed > len(changed) / 2


@pytest.mark.parametrize(
    ("key", "number", "words"),
    [
        ("min_size", 30, ""),
        ("max_size", 9, ""),
        ("known_records", 1, "the certificate has --corrupted 1, and you have 0"),
        ("fake_values", 2, "the certificate has --fakes 2, and you have 0"),
    ],
)
def test_what_the_bound_is_about_is_said_or_compared(folder: Path, key: str, number: int, words: str) -> None:
    proof = write_certificate()
    result = check({**proof, key: number})
    if words:
        assert result.exit_code == 1
        assert words in result.stdout
        return
    low, high = (30, proof["max_size"]) if key == "min_size" else (proof["min_size"], 9)
    assert f"bucket sizes from {low} to {high}" in result.stdout
    result = check(None, "--min-size", str(proof["min_size"]), "--max-size", str(proof["max_size"]))
    assert result.exit_code == 1
    assert f"the certificate is about bucket sizes from {low} to {high}, and yours are from" in result.stdout


def test_other_counts_and_other_limits_fail(folder: Path) -> None:
    proof = write_certificate()
    for entry, key, number in ((0, "count", 13), (4, "count", 0), (3, "limit", "1"), (2, "limit", "1/1000")):
        values = [dict(value) for value in proof["values"]]
        values[entry][key] = number
        result = check({**proof, "values": values})
        assert result.exit_code == 1
        assert f"1 {key} differs from yours: of " in result.stdout
        assert f"has a loss below {math.ceil(Fraction(proof['bound']))}." in result.stdout  # for the counts given
    write_counts({**COUNTS, "Flu": 61, "HIV": 4}, "others.csv")
    result = check(proof, counts="others.csv")
    assert result.exit_code == 1
    assert "2 counts differ from yours: of 'Flu' it has 60 records, and you have 61" in result.stdout
    result = check(proof, limits=("--uniform", "0.6", "--limit", "HIV=0.12", "--limit", "Asthma=1/4"))
    assert result.exit_code == 1
    assert "1 limit differs from yours: of 'HIV' it has 0.125, and you have 0.12" in result.stdout


def test_other_values_cannot_be_checked(folder: Path) -> None:
    proof = write_certificate()
    write_counts({**COUNTS, "Measles": 3}, "more.csv")
    write_counts({value: count for value, count in COUNTS.items() if value != "Cold"}, "fewer.csv")
    for name, words in (("more.csv", "not about 'Measles'"), ("fewer.csv", "about 'Cold', which the counts do not")):
        result = check(proof, counts=name)
        assert result.exit_code == 2
        assert words in result.stderr


def broken(proof: dict[str, Any]) -> dict[str, object]:
    text = json.dumps(proof)
    row = proof["rows"][0]
    cases: dict[str, object] = {
        "empty": "",
        "cut short": text[: len(text) // 2],
        "not JSON": "value,count\nFlu,1\n",
        "too deep": "[" * 100_000,
        "a number too long": text.replace('"format": 1', '"format": 1' + "0" * 5000),
        "another format": {**proof, "format": 2},
        "a list": [proof],
        "a row too many": {**proof, "more": 1},
        "truth for a number": {**proof, "known_records": True},
        "no size": {**proof, "min_size": 0},
        "no units": {**proof, "units": 0},
        "proves nothing known": {**proof, "proves": "everything"},
        "a decimal": {**proof, "bound": "0.5"},
        "division by zero": {**proof, "bound": "1/0"},
        "a negative multiplier": {**proof, "rows": [{**row, "multiplier": "-1"}]},
        "a value that is not listed": {**proof, "rows": [{**row, "values": [5]}]},
        "a negative value": {**proof, "rows": [{**row, "values": [-1]}]},
        "half a range": {**proof, "rows": [{**row, "sizes": [[1]]}]},
        "two values without sizes": {**proof, "rows": [{**row, "values": [0, 1], "sizes": []}]},
        "a value twice": {**proof, "values": [*proof["values"], proof["values"][0]]},
        "sizes without records": {**proof, "min_size": 1000, "max_size": 2000},
    }
    cases |= {f"without {key}": {k: v for k, v in proof.items() if k != key} for key in proof}
    return cases


def test_files_that_are_no_certificates(folder: Path) -> None:
    proof = write_certificate()
    for name, content in broken(proof).items():
        result = check(content)
        assert result.exit_code == 2, name
        assert result.stdout == ""
        assert result.stderr.startswith("Error: "), name
        assert json.loads(check(content, "--json").stdout)["error"]["kind"] in ("input", "usage")
    Path("proof.json").write_bytes(b"\xff\xfe\x00")
    assert check().exit_code == 2
    Path("proof.json").unlink()
    assert check().exit_code == 2
    Path("proof.json").mkdir()
    assert check().exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--certificate", "proof.json", *LIMITS), "Give either --counts FILE, or a table"),
        (("--certificate", "proof.json", "hospital.csv", "--counts", "counts.csv", *LIMITS), "Give either --counts"),
        (("--certificate", "proof.json", "hospital.csv", *LIMITS), "the sensitive column is not named"),
        (("--certificate", "proof.json", "--counts", "counts.csv"), "no limits are given"),
        (("--certificate", "proof.json", "--counts", "counts.csv", "--limit", "HIV=1"), "no limit covers"),
        (("--certificate", "proof.json", "--counts", "counts.csv", "--sensitive", "s", *LIMITS), "no columns to name"),
        (("--certificate", "proof.json", "--counts", "none.csv", *LIMITS), "No such file"),
        (("--certificate", "proof.json", "--against", "hospital.csv", *LIMITS), "--against is for a release"),
        (("--certificate", "proof.json", "--counts", "counts.csv", "--fakes", "-1", *LIMITS), "not be negative"),
        (("release", "--counts", "counts.csv"), "--counts goes with --certificate"),
        (("release", "--limit", "HIV=1"), "--limit goes with --certificate"),
        (("release", "--l-diversity", "4"), "--l-diversity goes with --certificate"),
        ((), "no release is given"),
    ],
)
def test_options_that_do_not_go_together(folder: Path, words: tuple[str, ...], message: str) -> None:
    write_certificate()
    result = run("verify", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_certificate_that_no_setting_exists() -> None:
    """Two values of two records each, limits of 1/3 and 1: whoever has the first fits nowhere near that often."""
    table = Problem(("a", "b"), (2, 2), (Fraction(1, 3), Fraction(1)), min_size=1, max_size=4)
    row = CertificateRow(Fraction(1), (0,))
    bound = certified_bound(table, Certificate(Fraction(1), (row,), "no-setting"))
    assert bound == Fraction(2, 3)  # 2 - 4 * (1/3), as one record of a takes at least three places
    claim = Claim(table, Certificate(bound, (row,), "no-setting"))
    counts = ValueCounts.of([("a", 2), ("b", 2)])
    verdict = check_certificate(claim, counts, table.limits)
    assert (verdict.verified, verdict.proven, verdict.least_loss) == (True, bound, None)
    modest = Claim(table, replace(claim.certificate, bound=Fraction(0)))
    weak = check_certificate(modest, counts, (Fraction(1), Fraction(1)))
    assert not weak.verified
    assert "only a bound above 0 proves that there is no setting" in weak.findings[-1]


def test_the_bound_is_what_the_definition_says() -> None:
    """The sums are taken limit by limit and range by range; here they are taken row by row and size by size."""
    limits = tuple(Fraction(1, 2 + value % 7) for value in range(40))
    table = Problem(tuple(map(str, range(40))), (1000,) * 40, limits, min_size=2, max_size=300)
    rows = tuple(CertificateRow(Fraction(1, 3 + k), tuple(range(k)), ((2 + k, 10 + 50 * k),)) for k in range(1, 20))
    rows += (CertificateRow(Fraction(2, 7), (3,)), CertificateRow(Fraction(1, 7), (39,)))
    right = sum(row.multiplier * 1000 * (-len(row.values) if row.sizes else 1) for row in rows)
    slope = min(slow_rate(table, rows, size) for size in range(2, 301))
    assert certified_bound(table, Certificate(Fraction(0), rows)) == right + slope * table.total


def slow_rate(table: Problem, rows: tuple[CertificateRow, ...], size: int) -> Fraction:
    """r(S) / S as the definition has it, where no records are known and there are no fakes."""
    caps = [limit.numerator * size // limit.denominator for limit in table.limits]
    reduced = Fraction((size - 1) ** 2)
    for row in rows:
        if not row.sizes:
            reduced -= row.multiplier * caps[row.values[0]]
        elif any(low <= size <= high for low, high in row.sizes):
            reduced -= row.multiplier * (sum(cap for i, cap in enumerate(caps) if i not in row.values) - size)
    return reduced / size

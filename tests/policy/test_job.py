from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dalenius.errors import JobFileError, PolicyError
from dalenius.policy.job import parse_job, read_job

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


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[limits]\nthetta = 8", "unknown key: limits.thetta", "Did you mean 'theta'?"),
        ("[limit]\ntheta = 8", "unknown key: limit", "Did you mean 'limits'?"),
        ("[table]\nsensitiv = 'x'", "unknown key: table.sensitiv", "Did you mean 'sensitive'?"),
        ("[solve]\nmaxsize = 3", "unknown key: solve.maxsize", "Did you mean 'max_size'?"),
        ("[adversary]\ncorupted = 3", "unknown key: adversary.corupted", "Did you mean 'corrupted'?"),
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

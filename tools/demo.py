"""The demo: a made-up hospital table is planned, published, verified, counted from and attacked. Writes into demo/."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from dalenius.studio.demo_table import write_table

FOLDER = Path(__file__).parent.parent / "demo"
JOB = """\
[table]
sensitive = "Disease"
quasi_identifiers = ["Gender", "Age", "Zipcode"]
identifiers = ["Name"]

[limits]                 # nobody's odds of having a disease may exceed 4 times those of any patient ...
odds = 4
floor = "0.02"           # (and 2 % is allowed for the rarest)

[limits.values]          # ... but these two have limits of their own
HIV = "0.02"
Flu = "0.9"
"""


def run(*words: str) -> None:
    print(f"\n$ dalenius {shlex.join(words)}\n", flush=True)
    subprocess.run([Path(sys.executable).parent / "dalenius", *words], check=True, cwd=FOLDER)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_table(FOLDER / "hospital.csv")
    (FOLDER / "job.toml").write_text(JOB, encoding="utf-8")
    print("A hospital has 5,000 patients (demo/hospital.csv) and a policy (demo/job.toml): nobody may be linked to HIV")
    print(
        "with a probability above 2 %, to flu above 90 %, to any other disease with more than 4 times the usual odds."
    )
    print("\nWhat would it cost?")
    run("plan", "hospital.csv", "--job", "job.toml")
    print("\nPublish it:")
    run("publish", "hospital.csv", "--job", "job.toml", "--out", "release", "--force")
    print("\nAnybody can check the release, and the hospital can check it against its own table and limits:")
    run("verify", "release", "--job", "job.toml", "--against", "hospital.csv")
    print("\nAn analyst counts from it:")
    run("query", "release", "Gender = 'F' AND Disease IN ('Cancer', 'Hepatitis')")
    run("query", "release", "Age >= 65", "--group-by", "Disease")
    print("\nThe hospital attacks its own release: how often would somebody who learns from it guess right?")
    run("audit", "release", "--truth", "hospital.csv")
    print("\nOne page to read, print and sign, for its data-protection officer (open demo/report.html):")
    run("report", "release", "--audit", "--truth", "hospital.csv", "-o", "report.html", "--force")
    print(
        "\nAnd if somebody knows one of the patients of a bucket, or all but one? Larger buckets, and a fake in each:"
    )
    run("publish", "hospital.csv", "--job", "job.toml", "--corrupted", "1", "--fakes", "1", "--out", "safer", "--force")
    run("audit", "safer", "--truth", "hospital.csv", "--attack", "corruption")
    print("\nTo choose limits by looking at what they cost, in the browser:")
    print("\n$ .venv/bin/dalenius studio demo/hospital.csv --job demo/job.toml\n")


if __name__ == "__main__":
    main()

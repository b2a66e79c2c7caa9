"""The demo: a made-up hospital table is planned, published, verified and counted from. Writes into demo/."""

from __future__ import annotations

import csv
import random
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "demo"
# Made up: how many of 5,000 patients have what.
DISEASES = {
    "Flu": 1900,
    "Hypertension": 1200,
    "Asthma": 700,
    "Diabetes": 600,
    "Depression": 330,
    "Cancer": 200,
    "Hepatitis": 50,
    "HIV": 20,
}
JOB = """\
[table]
sensitive = "Disease"
quasi_identifiers = ["Gender", "Age", "Zipcode"]
identifiers = ["Name"]

[limits]                 # f'_i = min(1, 3 * frequency + 0.02) for every disease ...
theta = 3
base = "0.02"

[limits.values]          # ... but these two
HIV = "0.02"
Flu = "0.9"
"""


def write_table(path: Path) -> None:
    chance = random.Random(1977)  # noqa: S311 (made-up data)
    diseases = [disease for disease, count in DISEASES.items() for _ in range(count)]
    chance.shuffle(diseases)
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["Name", "Gender", "Age", "Zipcode", "Disease"])
        for number, disease in enumerate(diseases):
            gender, age, zipcode = chance.choice("FM"), chance.randint(18, 90), f"{chance.randint(0, 99):05d}"
            writer.writerow([f"Patient {number}", gender, age, zipcode, disease])


def run(*words: str) -> None:
    print(f"\n$ dalenius {shlex.join(words)}\n", flush=True)
    subprocess.run([Path(sys.executable).parent / "dalenius", *words], check=True, cwd=FOLDER)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_table(FOLDER / "hospital.csv")
    (FOLDER / "job.toml").write_text(JOB, encoding="utf-8")
    print("A hospital has 5,000 patients (demo/hospital.csv) and a policy (demo/job.toml): nobody may be linked to HIV")
    print("with a probability above 0.02, to flu above 0.9, to any other disease above 3 times its frequency + 0.02.")
    print("\nWhat would it cost?")
    run("plan", "hospital.csv", "--job", "job.toml")
    print("\nPublish it:")
    run("publish", "hospital.csv", "--job", "job.toml", "--out", "release", "--force")
    print("\nAnybody can check the release, and the hospital can check it against its own table and limits:")
    run("verify", "release", "--job", "job.toml", "--against", "hospital.csv")
    print("\nAn analyst counts from it:")
    run("query", "release", "Gender = 'F' AND Disease IN ('Cancer', 'Hepatitis')")
    run("query", "release", "Age >= 65", "--group-by", "Disease")


if __name__ == "__main__":
    main()

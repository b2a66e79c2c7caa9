"""A made-up table to try things with: a hospital of 5,000 patients who do not exist. It is the same every time."""

from __future__ import annotations

import csv
import random
from pathlib import Path

NAME = "made-up-hospital.csv"
SENSITIVE, QUASI_IDENTIFIERS, IDENTIFIERS = "Disease", ["Gender", "Age", "Zipcode"], ["Name"]
# How many patients have what, the share of women among them, and their mean age.
_DISEASES = {
    "Flu": (1900, 0.5, 45),
    "Hypertension": (1200, 0.45, 68),
    "Asthma": (700, 0.55, 30),
    "Diabetes": (600, 0.45, 62),
    "Depression": (330, 0.7, 35),
    "Cancer": (200, 0.5, 66),
    "Hepatitis": (50, 0.3, 42),
    "HIV": (20, 0.25, 38),
}


def write_table(path: Path) -> None:
    """Write it as a CSV file."""
    chance = random.Random(1977)  # noqa: S311 (made-up data)
    diseases = [disease for disease, (count, *_) in _DISEASES.items() for _ in range(count)]
    chance.shuffle(diseases)
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow([*IDENTIFIERS, *QUASI_IDENTIFIERS, SENSITIVE])
        for number, disease in enumerate(diseases):
            _, women, mean = _DISEASES[disease]
            gender = "F" if chance.random() < women else "M"
            age = min(95, max(18, round(chance.gauss(mean, 14))))
            writer.writerow([f"Patient {number}", gender, age, f"{chance.randint(0, 99):05d}", disease])

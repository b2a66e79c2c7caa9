"""make bench-people DATA=...: rows of a person taken for people, and releases by people.

DATA is a folder with diabetes130_101766.parquet, whose 71,518 patients have 101,766 rows, and from which a table with
six rows a person is made. Both are published by rows and by people, one stratum each, and attacked by whoever knows
which rows are a person's. Then Diabetes-130 is published whole, by patient, with three sensitive columns, and attacked
again.

Two runs are about cost: people with one row and one column, with --person and without by turns, on the same table; and
10 million people with two columns, and 10 million rows of 3 million people, in 4 GB.

    python -m bench.people DATA [--no-scale] [--no-attacks]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import altair
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dalenius
from bench.charts import save
from bench.machine import machine
from bench.people_costs import at_scale, measured, one_row_a_person
from bench.publish import DOCS, RESULTS
from dalenius.attack.audit import audit

FILE = "diabetes130_101766.parquet"
PERSON = "patient_nbr"
# of a visit: with these, nearly every row is one of a kind, and it is certain whose it is
QUASI_IDENTIFIERS = [
    *("race", "gender", "age", "time_in_hospital", "num_lab_procedures"),
    *("num_procedures", "num_medications", "number_diagnoses"),
]
QUARTERS, PATIENTS, STAYS = 6, 8000, 0.9925
WHOLE = ["--person", PERSON, "--identifiers", "encounter_id", "--quasi-identifiers", ",".join(QUASI_IDENTIFIERS)]
WHOLE += ["--sensitive", "diag_1", "--sensitive", "insulin", "--sensitive", "readmitted", "--odds", "8"]
WHOLE += ["--floor", "0.02", "--groups", "diag_1:icd9", "--ungrouped", "diag_1:?", "--most-rows", "5"]
WHOLE += ["--limit", "readmitted:>30=1", "--limit", "readmitted:<30=1"]
SOLVING = 20.0  # seconds for each of the small releases
Rows = list[dict[str, Any]]


def quarterly(visits: pa.Table) -> pa.Table:
    """Six rows a person of some patients: what is known stays, and so does nearly every diagnosis."""
    rng = np.random.default_rng(19)
    _, first = np.unique(visits[PERSON].to_numpy(), return_index=True)
    own = visits.take(pa.array(np.sort(rng.permutation(first)[:PATIENTS])))
    person = np.repeat(np.arange(PATIENTS), QUARTERS)
    texts = np.array(own["diag_1"].to_pylist())
    stays = rng.random(len(person)) < STAYS
    diagnosis = np.where(stays, texts[person], texts[rng.integers(PATIENTS, size=len(person))])
    columns = {name: own[name].take(pa.array(person)) for name in (PERSON, *QUASI_IDENTIFIERS)}
    columns["quarter"] = pa.array(np.tile(np.arange(1, QUARTERS + 1, dtype=np.int8), PATIENTS))
    return pa.table({**columns, "diag_1": pa.array(diagnosis.tolist())}).take(pa.array(rng.permutation(len(person))))


def attacked(table: str, how: str, truth: Any, folder: Path) -> Rows:
    """What the two attackers who know whose rows are whose get from a release, column by column."""
    result = audit(folder, truth=truth, person=PERSON, attacks=["intersection", "union"])
    found = []
    for attack in result.attacks:
        row = {"table": table, "release": how, "attack": attack.name, **attack.as_object()}
        row["details"].pop("calibration", None)
        found.append(row)
        print(json.dumps({**row, "details": None, "worst_values": None, "groups": None, "notes": None}), flush=True)
    return found


def assumed_to_stay(release: dalenius.Release) -> dict[str, Any] | None:
    """What somebody gets from a release by people who assumes of everybody that a value stays the same.

    Of a bucket's values only those count that ST shows in all rows of somebody. A claim is right for whoever has the
    value, and ST says how many have; who that is does not matter, as it is claimed of everybody in the bucket. None if
    everybody has one row.
    """
    manifest = release.manifest
    if manifest.persons is None or manifest.strata is None:
        return None
    name = manifest.columns.sensitive.name
    limits = {value.value: float(Fraction(value.limit)) for value in manifest.values}
    qit = release.qit.group_by(manifest.columns.bucket).aggregate([(manifest.persons.number, "max")])
    people = dict(zip(*(column.to_pylist() for column in qit.columns), strict=True))
    last = np.cumsum([sum(group.buckets for group in one.setting) for one in manifest.strata.strata])
    have: dict[int, Counter[str]] = defaultdict(Counter)
    steady: dict[int, Counter[str]] = defaultdict(Counter)
    for line in release.st.to_pylist():
        bucket = line[manifest.columns.bucket]
        have[bucket][line[name]] += 1
        if line[manifest.persons.rows] == manifest.strata.strata[int(np.searchsorted(last, bucket))].rows_each > 1:
            steady[bucket][line[name]] += 1
    claims = right = allowed = above = 0.0
    for bucket, values in steady.items():
        claimed = [value for value, count in values.items() if count > limits[value] * values.total()]
        above += people[bucket] if claimed else 0
        for value in claimed:
            claims += people[bucket]
            right += have[bucket][value]
            allowed += people[bucket] * limits[value]
    return {
        "people_above_limit": above,
        "claims": claims,
        "claims_right": right,
        "mean_limit": allowed / max(1, claims),
    }


def before_and_after(data: Path, folder: Path) -> Rows:
    """Both tables, by rows and by people, in one stratum each."""
    visits = pyarrow.parquet.read_table(data / FILE)
    found: Rows = []
    odds = {"odds": 8, "floor": "0.02"}
    tables: list[tuple[str, pa.Table, dict[str, Any], int | None]] = [
        ("Diabetes-130, theta 8", visits, {"theta": 8}, 2),
        ("Diabetes-130, odds 8", visits, odds, 5),
        ("six rows a person, theta 8", quarterly(visits), {"theta": 8}, None),
        ("six rows a person, odds 8", quarterly(visits), odds, None),
    ]
    for name, table, limits, most_rows in tables:
        quarter = ["quarter"] if "quarter" in table.column_names else []
        asked: dict[str, Any] = {
            "sensitive": "diag_1",
            "quasi_identifiers": [*QUASI_IDENTIFIERS, *quarter],
            "strata": "none",
            "out": folder / "release",
            "force": True,
            "time_limit": SOLVING,
        }
        dalenius.publish(table, limits, identifiers=[PERSON], **asked)
        found += attacked(name, "by rows", table, folder / "release")
        release = dalenius.publish(table, limits, person=PERSON, most_rows=most_rows, **asked)
        after = attacked(name, "by people", table, folder / "release")
        dropped = release.manifest.persons.dropped if release.manifest.persons is not None else 0
        found += [{**row, "dropped": dropped, "gap": release.manifest.gap} for row in after]
        found[-2]["assumed"] = assumed_to_stay(release)  # the intersection
    return found


def whole(data: Path, folder: Path) -> dict[str, Any]:
    """Diabetes-130 by patient, with three sensitive columns."""
    table, out = str(data / FILE), folder / "whole"
    run = measured("publish", table, *WHOLE, "--out", str(out), "--force", "--json")
    run.pop("output")
    manifest = dalenius.load(out).manifest
    dropped = manifest.persons.dropped if manifest.persons is not None else 0
    found = {**run, "people": manifest.people, "rows": manifest.rows, "dropped": dropped, "buckets": manifest.buckets}
    found |= {"loss": manifest.loss, "bound": manifest.bound, "gap": manifest.gap}
    found["strata"] = len(manifest.strata.strata) if manifest.strata else 1
    found["verified"] = json.loads(measured("verify", str(out), "--json")["output"])["verified"]
    print(json.dumps(found), flush=True)
    return {**found, "attacks": attacked("Diabetes-130, three columns", "by people", table, out)}


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g}%"


def _right(row: dict[str, Any]) -> str:
    low, high = row["claims_right_interval"] or (0.0, 0.0)
    return f"{row['claims_right'] / row['claims']:.1%} ({low:.1%} to {high:.1%})" if row["claims"] else ""


def attack_table(rows: Rows, columns: tuple[str, str]) -> list[str]:
    """A line for each attack."""
    heads = [*columns, "attack", "people", "above a limit", "claims", "claims right", "limits allow", "guessed right"]
    heads += ["from one bucket", "by chance"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        numbers = [f"{row[name]:,}" for name in ("people", "people_above_limit", "claims")]
        shares = [_percent(row[name]) for name in ("mean_limit", "success", "baseline", "control")]
        keys = [str(row[name]) for name in columns]
        lines.append(f"| {' | '.join([*keys, row['attack'], *numbers, _right(row), *shares])} |")
    return lines


def steady_table(attacks: Rows) -> list[str]:
    """By people: what is believed of whoever has one value in all rows, which is assumed of all, or known of some."""
    heads = ("by people", "whose value stays", "above a limit", "claims", "claims right", "limits allow")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in attacks:
        for how, claims in (("is assumed", row.get("assumed")), ("is known", row["details"].get("steady"))):
            if claims is not None and claims["claims"]:
                cells = [row["table"], how, f"{claims['people_above_limit']:,.0f}", f"{claims['claims']:,.0f}"]
                cells += [_percent(claims["claims_right"] / claims["claims"]), _percent(claims["mean_limit"])]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def summary(found: dict[str, Any]) -> str:
    """The tables of the documentation, of what was run."""
    lines: list[str] = []
    if attacks := found.get("attacks"):
        lines += [*attack_table(attacks, ("table", "release")), ""]
        lines.append("| table | people whose buckets have one value in common | rightly |")
        lines.append("|---|---|---|")
        for row in attacks:
            details = row["details"]
            if "pinned" in details:
                share = details["pinned_right"] / max(1, details["pinned"])
                lines.append(f"| {row['table']} | {details['pinned']:,} of {row['people']:,} | {share:.1%} |")
        lines += ["", *steady_table(attacks), ""]
    if one := found.get("whole"):
        lines += [
            "| people | rows | left out | strata | loss | bound | gap | publish, s | processor, s | peak memory |"
        ]
        lines += ["|---" * 10 + "|"]
        cells = [f"{one[name]:,}" for name in ("people", "rows", "dropped", "strata", "loss", "bound")]
        cells += [f"{one['gap']:.1%}", f"{one['seconds']:.1f}", f"{one['cpu']:.1f}", f"{one['peak_mib']:,.0f} MiB"]
        lines += [f"| {' | '.join(cells)} |", "", *attack_table(one["attacks"], ("table", "column")), ""]
    if plain := found.get("plain"):
        same = "byte for byte the same" if plain["same"] else "DIFFERENT"
        lines.append(
            f"{plain['rows']:,} people with one row and one sensitive column: {plain['cpu_rows']:.2f} s of the "
            f"processor without --person, {plain['cpu_people']:.2f} s with it (ratio {plain['ratio']:.2f}); the "
            f"releases of a seed are {same}."
        )
        lines.append("")
    if scale := found.get("scale"):
        lines += ["| rows | people | step | seconds | processor, s | peak memory | gap |", "|---" * 7 + "|"]
        for row in scale:
            gap = f"{row['gap']:.1%}" if row["step"] == "publish" else ""
            cells = [f"{row['rows']:,}", f"{row['people']:,}", row["step"], f"{row['seconds']:.0f}"]
            lines.append(f"| {' | '.join(cells)} | {row['cpu']:.0f} | {row['peak_mib']:,.0f} MiB | {gap} |")
        lines.append("")
    return "\n".join(lines)


def picture(attacks: Rows) -> Any:
    """Of the people, how many are above a limit: by rows, and by people."""
    points = [
        {
            "who": f"{row['table']}: {row['attack']}",
            "percent": 100 * row["people_above_limit"] / max(1, row["people"]),
            "release": row["release"],
        }
        for row in attacks
    ]
    base = altair.Chart(altair.InlineData(values=points)).encode(
        x=altair.X("percent:Q", title="people above a limit, %", scale=altair.Scale(domain=[0, 100])),
        y=altair.Y("who:N", title=None, sort=None, axis=altair.Axis(labelLimit=320)),
        color=altair.Color("release:N", title=None),
        shape=altair.Shape("release:N", title=None),
    )
    return base.mark_point(filled=True, size=80, opacity=0.9).properties(
        title="Whoever knows which rows are a person's", width=420, height=240
    )


def main() -> None:
    """Run everything, or what is not left out; results of what is left out stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the largest tables")
    parser.add_argument("--no-scale", action="store_true", help="leave the largest tables out")
    parser.add_argument("--no-attacks", action="store_true", help="only what is about cost")
    options = parser.parse_args()
    results = RESULTS / "people.json"
    found = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        if not options.no_attacks:
            found["attacks"] = before_and_after(options.data, Path(folder))
            found["whole"] = whole(options.data, Path(folder))
        found["plain"] = one_row_a_person(Path(folder))
        if not options.no_scale:
            found["scale"] = at_scale(options.rows, Path(folder))
    found["machine"] = machine()
    results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "people.md").write_text(summary(found), encoding="utf-8")
    save([picture(found["attacks"])], RESULTS / "people")
    (DOCS / "images" / "bench-people.svg").write_bytes((RESULTS / "people.svg").read_bytes())


if __name__ == "__main__":
    main()

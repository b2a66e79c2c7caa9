"""What releases by people cost: with one row a person beside a release by rows, and with 10 million rows in 4 GB."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

import dalenius
from bench.publish import COMMAND, ENVIRONMENT
from bench.tables import SHAPES, write_table

REPEATS = 7
MADE = ["--sensitive", "disease", "--sensitive", "drug", "--quasi-identifiers", "age,sex,region,education"]
MEMORY = "4GB"
Rows = list[dict[str, Any]]


def measured(*words: str) -> dict[str, Any]:
    """Run dalenius as a process of its own: seconds on the clock and of the processor, peak memory, and its output."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([COMMAND, *words], stdout=output, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        output.seek(0)
        text = output.read().decode()
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"dalenius {' '.join(words[:2])} failed: {text[-2000:]}")
    found = {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}
    return {**found, "output": text}


def one_row_a_person(folder: Path) -> dict[str, Any]:
    """A table in which every row is somebody: published with --person and without, by turns."""
    table, shape, rows = folder / "plain.parquet", SHAPES["mixed"], 1_000_000
    write_table(shape, rows, table)
    plain = pyarrow.parquet.read_table(table)
    person = np.random.default_rng(19).permutation(rows)
    pyarrow.parquet.write_table(plain.append_column("id", pa.array([f"P{one:09d}" for one in person.tolist()])), table)
    words = ["publish", str(table), "--sensitive", shape.sensitive, "--odds", "8", "--seed", "19", "--force", "--json"]
    words += ["--quasi-identifiers", ",".join(shape.quasi_identifiers)]
    outs = {"rows": folder / "by_rows", "people": folder / "by_people"}
    options = {"rows": ["--identifiers", "id"], "people": ["--person", "id"]}
    runs: dict[str, list[float]] = {how: [] for how in outs}
    for _ in range(REPEATS + 1):
        for how, out in outs.items():
            runs[how].append(measured(*words, *options[how], "--out", str(out))["cpu"])
    rows_cpu, people_cpu = runs["rows"][1:], runs["people"][1:]
    files = ("qit.parquet", "st.parquet", "manifest.json")
    same = all((outs["rows"] / name).read_bytes() == (outs["people"] / name).read_bytes() for name in files)
    found = {"rows": rows, "cpu_rows": statistics.median(rows_cpu), "cpu_people": statistics.median(people_cpu)}
    found |= {"ratio": statistics.median(b / a for a, b in zip(rows_cpu, people_cpu, strict=True)), "same": same}
    print(json.dumps(found), flush=True)
    return found


def _skewed(rng: np.random.Generator, values: int, rows: int) -> npt.NDArray[np.int64]:
    weights = 1 / (np.arange(values) + values / 8 + 1)
    return rng.choice(values, rows, p=weights / weights.sum())


def made_up(rows: int, people: int, path: Path) -> None:
    """So many rows of people who are as many or fewer, with two sensitive columns of 50 and 12 values."""
    rng = np.random.default_rng(19)
    person = rng.permutation(rows)
    if people < rows:
        person = np.concatenate([np.arange(people), (people * rng.random(rows - people) ** 1.3).astype(np.int64)])
        person = rng.permutation(person)
    usual = _skewed(rng, 50, people)
    disease = np.where(rng.random(rows) < 0.7, usual[person], _skewed(rng, 50, rows))

    def text(name: str, codes: npt.NDArray[np.int64], values: int) -> pa.Array:
        labels = [f"{name} {k}" for k in range(values)]
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int16)), labels).cast(pa.string())

    columns = {
        "person": pa.array([f"P{one:09d}" for one in person.tolist()]),
        "age": pa.array(rng.integers(18, 90, people).astype(np.int16)[person]),
        "sex": text("sex", rng.integers(0, 2, people)[person], 2),
        "region": pa.array(rng.integers(0, 50, people).astype(np.int16)[person]),
        "education": text("level", _skewed(rng, 14, rows), 14),
        "disease": text("disease", disease, 50),
        "drug": text("drug", _skewed(rng, 12, rows), 12),
    }
    pyarrow.parquet.write_table(pa.table(columns), path)


def at_scale(rows: int, folder: Path) -> Rows:
    """As many people as rows, and three in ten of that: publishing, verifying and counting in so much memory."""
    found: Rows = []
    for people, options in ((rows, ["--odds", "8"]), (3 * rows // 10, ["--odds", "20", "--most-rows", "3"])):
        table, out = folder / "made.parquet", folder / "made"
        made_up(rows, people, table)
        publish = ["publish", str(table), *MADE, "--person", "person", *options, "--out", str(out)]
        steps = {
            "publish": [*publish, "--memory", MEMORY, "--force", "--json"],
            "verify": ["verify", str(out), "--memory", MEMORY, "--json"],
            "query": ["query", str(out), "disease = 'disease 3' AND drug = 'drug 2' AND age < 40"],
        }
        steps["query"] += ["--count", "people", "--memory", MEMORY, "--json"]
        for step, words in steps.items():
            run = measured(*words)
            run.pop("output")
            manifest = dalenius.load(out).manifest
            row = {"rows": rows, "people": manifest.people, "step": step, "gap": manifest.gap, **run}
            print(json.dumps(row), flush=True)
            found.append(row)
        shutil.rmtree(out)
        table.unlink()
    return found

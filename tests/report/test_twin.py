"""The twin says what the files show, and nothing that it must not."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.attack.audit import audit, audit_object
from dalenius.errors import ChangedInputError, InputError, UsageError
from dalenius.query.workload import evaluate
from dalenius.report.facts import Facts, Workload, collect
from dalenius.report.page import report_html
from dalenius.report.twin import report_object, twin_text
from dalenius.verify.findings import verdict_object
from dalenius.verify.judge import verify
from tests.handmade import Handmade, edit_manifest, hospital, rewrite, three_strata
from tests.report.releases import published

KEYS = [
    *["format", "program", "title", "dataset", "controller", "purpose", "made_on", "verdict", "findings", "exposure"],
    *["count_error", "from_raw_table", "with_control", "holds", "release", "other_files", "verify", "audit"],
    *["audit_note", "workload", "workload_note", "earlier"],
]


def twin_of(folder: Path, **asked: Any) -> dict[str, Any]:
    return report_object(collect(folder, **asked))


def test_the_release_is_what_its_tables_show(tmp_path: Path) -> None:
    """Counts, worst cases, sizes and hashes, counted from the rows of both tables."""
    published(tmp_path / "release")
    release = twin_of(tmp_path / "release")["release"]
    rows = pyarrow.parquet.read_table(tmp_path / "release" / "qit.parquet").to_pylist()
    values = pyarrow.parquet.read_table(tmp_path / "release" / "st.parquet").to_pylist()
    size = Counter(row["bucket"] for row in rows)
    held = Counter((row["bucket"], row["Disease"]) for row in values)
    worst: dict[str, Fraction] = defaultdict(Fraction)
    for (bucket, value), count in held.items():
        worst[value] = max(worst[value], Fraction(count, size[bucket] - 1))  # one record may be known
    counts = Counter(row["Disease"] for row in values)
    found = {entry["value"]: entry for entry in release["values"]}
    assert {value: entry["count"] for value, entry in found.items()} == counts
    assert {value: Fraction(entry["probability"]) for value, entry in found.items()} == worst
    limits = {
        entry["value"]: Fraction(entry["limit"])
        for entry in json.loads((tmp_path / "release" / "manifest.json").read_text(encoding="utf-8"))["values"]
    }
    shares = [entry["share_of_limit"] for entry in release["values"]]
    assert shares == sorted(shares, reverse=True)
    assert shares == [pytest.approx(float(worst[v] / limits[v]), rel=1e-15) for v in found]
    sizes = sorted(Counter(size.values()).items())
    assert release["setting"] == [{"size": s, "buckets": b, "people": s * b, "records": s * b} for s, b in sizes]
    assert (release["rows"], release["buckets"]) == (len(rows), len(size))
    assert release["loss"] == sum((s - 1) ** 2 for s in size.values())
    assert (release["known_records"], release["fake_values"]) == (1, 1)
    for file in release["files"]:
        content = (tmp_path / "release" / file["file"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
        assert file.get("bytes", len(content)) == len(content)


def test_the_parts_are_those_of_the_other_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalenius.report.facts.evaluate", evaluate)  # all queries
    table = published(tmp_path / "release")
    facts = collect(tmp_path / "release", audit=True, truth=table)
    twin = report_object(facts)
    assert list(twin) == KEYS
    verdict = verdict_object(verify(tmp_path / "release", against=table))
    exposure = verdict.pop("exposure")
    with_column = [{**value, "column": "Disease"} for value in exposure["values"]]
    assert twin["exposure"] == {**exposure, "values": with_column}
    assert twin["verify"] == {key: verdict[key] for key in verdict if key not in ("verdict", "findings")}
    assert [check["check"] for check in twin["verify"]["checks"]][-1] == "source"
    expected = audit_object(audit(tmp_path / "release", truth=table))
    expected["negative"]["details"].pop("strongest")
    found = expected.pop("findings")
    assert twin["findings"] == verdict["findings"] + found
    assert twin["verdict"] == expected.pop("verdict")
    assert twin["audit"] == {**expected, "approximate": False}
    assert twin["workload"]["queries"] == 5000
    assert twin["workload"]["bounds_hold"] == 5000
    assert set(twin["workload"]["learned"]) >= {"coverage", "mean_relative_error"}
    assert (twin["from_raw_table"], twin["holds"]) == (True, True)
    assert json.loads(twin_text(twin)) == twin
    assert datetime.date.fromisoformat(twin["made_on"]) == facts.made_on


def test_exposure_and_errors_are_those_of_the_buckets(tmp_path: Path) -> None:
    """Both counted from the rows of ST, the errors by their formula: sums of c (S - c) / S over all buckets."""
    made = hospital()
    twin = twin_of(made.write(tmp_path / "release"))
    rows = pyarrow.parquet.read_table(tmp_path / "release" / "st.parquet").to_pylist()
    size = Counter(row["bucket"] for row in rows)
    held = Counter((row["bucket"], row["Disease"]) for row in rows)
    total = Counter(row["Disease"] for row in rows)
    bands = [0] * 11
    spread: dict[str, float] = defaultdict(float)
    for (bucket, value), count in held.items():
        bands[10 * count // size[bucket]] += count
        spread[value] += count * (size[bucket] - count) / size[bucket]
    assert twin["exposure"]["bands"] == bands
    errors = {value: (0.1 * 0.9 * spread[value]) ** 0.5 / (0.1 * total[value]) for value in total}
    typical = sum(errors[row["Disease"]] for row in rows) / len(rows)
    assert twin["count_error"]["typical"] == pytest.approx(typical)
    for kind, choose in (("best", min), ("worst", max)):
        assert twin["count_error"][kind]["error"] == pytest.approx(choose(errors.values()))
        assert errors[twin["count_error"][kind]["value"]] == pytest.approx(choose(errors.values()))


def test_every_key_is_documented(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    section = text[text.index("## `report --json`") : text.index("## `dp-risk --json`")]
    twin = twin_of(hospital().write(tmp_path / "release"))
    for key in (*twin, *twin["release"]):
        assert f"`{key}`" in section, key


def test_facts_of_what_was_found_before_are_the_same(tmp_path: Path) -> None:
    table = published(tmp_path / "release")
    whole = collect(tmp_path / "release", audit=True, truth=table)
    assert whole.workload is not None
    again = Facts.of(
        tmp_path / "release",
        whole.verdict,
        audit=whole.audit,
        workload=Workload(whole.workload.result, whole.workload.seconds),
        made_on=whole.made_on,
    )
    assert report_object(again) == report_object(whole)
    alone = Facts.of(tmp_path / "release", verify(tmp_path / "release"))
    assert not alone.from_raw_table
    assert Facts.of(tmp_path / "release", alone.verdict, audit=whole.audit, from_raw_table=True).from_raw_table


def test_the_release_alone(tmp_path: Path) -> None:
    twin = twin_of(hospital().write(tmp_path / "release"))
    assert (twin["audit"], twin["workload"], twin["from_raw_table"]) == (None, None, False)
    assert (twin["audit_note"], twin["workload_note"]) == (None, None)
    assert twin["release"]["strata"] is None
    assert [check["check"] for check in twin["verify"]["checks"]][-1] == "order"


def test_strata_are_counted_and_their_cuts_are_not_told(tmp_path: Path) -> None:
    strata = twin_of(three_strata().write(tmp_path / "release"))["release"]["strata"]
    assert strata == {
        "number": 3,
        "leaves": 3,
        "columns": ["Age"],
        "by_number_of_rows": False,
        "merged": 0,
        "merged_records": 0,
        "merged_people": 0,
        "smallest_people": 4,
        "largest_people": 4,
        "smallest": 4,
        "largest": 4,
    }
    merged = hospital(
        tree=[("Age", 22, 1, 2), 2, ("Age", 43, 3, 4), 1, 1], buckets=[1, 1, 2, 2, 5, 5, 5, 5, 3, 3, 4, 4]
    )
    found = twin_of(merged.write(tmp_path / "merged"))["release"]["strata"]
    assert (found["number"], found["leaves"], found["merged"], found["merged_records"]) == (2, 3, 1, 8)
    assert (found["smallest"], found["largest"]) == (4, 8)


QUASI, TRUTH, FOLDER, SEED = "quasimark", "truthmark", "foldermark", 918_273_645


def test_no_path_no_seed_and_no_quasi_identifier_is_in_it(tmp_path: Path) -> None:
    """Marks in the cells, in the paths and in the seed; the attackers do find pairs with marked cells."""
    rng = np.random.default_rng(1)
    number = 20_000
    sex = rng.choice(2, number)
    disease = np.where(sex == 1, rng.choice(4, number), 4 - rng.choice(4, number))
    table = pa.table(
        {
            "Sex": pa.array([f"{QUASI}-{s}" for s in sex]),
            "Town": pa.array([f"{QUASI}town{k}" for k in rng.choice(30, number)]),
            "Disease": pa.array([f"disease {d}" for d in disease]),
        }
    )
    source = tmp_path / f"{TRUTH}.parquet"
    pyarrow.parquet.write_table(table, source)
    folder = tmp_path / FOLDER
    dalenius.publish(
        table,
        {"uniform": "1/2"},
        sensitive="Disease",
        quasi_identifiers=["Sex", "Town"],
        out=folder,
        seed=SEED,
        strata=["Town"],
    )
    assert QUASI in (folder / "manifest.json").read_text(encoding="utf-8")  # the tree cuts there
    found = audit_object(audit(folder, truth=source))
    assert QUASI in json.dumps(found["negative"]["details"]["strongest"])
    for asked in ({}, {"audit": True}, {"audit": True, "truth": source, "control": source}):
        twin = twin_of(folder, **asked)
        for text in (twin_text(twin), report_html(twin)):
            for mark in (QUASI, TRUTH, FOLDER, str(SEED), str(tmp_path)):
                assert mark not in text.lower()
        assert "seeded" in [one["code"] for one in twin["findings"] if one["severity"] == "stop"]


def break_hash(folder: Path) -> None:
    with (folder / "qit.parquet").open("ab") as file:
        file.write(b"x")


def swap_values(folder: Path) -> None:
    rewrite(folder, "st", lambda rows: rows[0].update(Disease="HIV"))


BROKEN: dict[str, Callable[[Path], object]] = {
    "limit": lambda folder: edit_manifest(folder, lambda m: m["values"][1].update(limit="1/5")),
    "hash": break_hash,
    "values": swap_values,
    "no table": lambda folder: (folder / "st.parquet").unlink(),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "no JSON": lambda folder: (folder / "manifest.json").write_text("{", encoding="utf-8"),
    "known": lambda folder: edit_manifest(folder, lambda m: m["adversary"].update(known_records=2)),
    "known by many": lambda folder: edit_manifest(folder, lambda m: m["adversary"].update(known_records=2**31 - 1)),
    "large": lambda folder: edit_manifest(folder, lambda m: m["setting"][0].update(buckets=10**400, size=10**300)),
    "infinite": lambda folder: edit_manifest(folder, lambda m: m.update(mse=float("inf"), gap=float("nan"))),
    "long limit": lambda folder: edit_manifest(folder, lambda m: m["values"][0].update(limit=f"1/{'9' * 200}")),
    "worst": lambda folder: edit_manifest(folder, lambda m: m["values"][0]["worst"].update(count=10**400)),
    "surrogate": lambda folder: edit_manifest(folder, lambda m: m["values"][0].update(value="\ud800")),
    "column": lambda folder: edit_manifest(folder, lambda m: m["columns"]["sensitive"].update(type="nonsense")),
    "method": lambda folder: edit_manifest(folder, lambda m: m.update(bound=10**30, status="optimal")),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("asked", ["alone", "audited", "with the table"])
def test_whatever_is_broken_the_report_says_so(how: str, asked: str, tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    BROKEN[how](folder)
    options: dict[str, Any] = {} if asked == "alone" else {"audit": True}
    if asked == "with the table":
        options["truth"] = hospital().source()
    twin = twin_of(folder, **options)
    assert not twin["holds"]
    assert not twin["verify"]["verified"]
    failed = {check["check"] for check in twin["verify"]["checks"] if not check["passed"]}
    assert failed <= {one["code"] for one in twin["findings"] if one["severity"] == "stop"}
    assert twin["verdict"] == "do not publish"
    assert twin["workload"] is None
    assert (twin["workload_note"] is not None) == (asked == "with the table")
    assert twin["audit"] is not None or asked == "alone" or twin["audit_note"]
    assert json.loads(twin_text(twin).encode()) == twin
    page = report_html(twin)
    assert "NOT verified" in page
    assert page.index("NOT verified") < page.index("What is promised, and what was checked</h2>")
    assert page.index("Do not publish</h2>") < page.index("NOT verified")


def test_the_wrong_table_is_told_and_not_used(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    other = hospital(values=["Flu", "Cold", "Flu", "Gout", "HIV", "Flu", "Flu", "Cold", "HIV", "Cold", "Gout", "HIV"])
    twin = twin_of(folder, audit=True, truth=other.source())
    assert [check["check"] for check in twin["verify"]["checks"] if check["outcome"] == "failed"] == ["source"]
    assert (twin["holds"], twin["from_raw_table"], twin["workload"]) == (False, True, None)
    assert "not scored" in twin["audit_note"]
    assert twin["audit"]["learning"]["success"] is None
    with pytest.raises(InputError):
        collect(folder, truth=hospital().source().drop_columns(["Age"]))


def test_a_broken_promise_that_verifying_does_not_see(tmp_path: Path) -> None:
    """Rows in the order of the table: values are decoded from it, and no check fails but that of order."""
    rows = [(k,) for k in range(400)]
    made = Handmade(
        types={"Age": pa.int64()},
        rows=rows,
        values=[f"v{k % 4}" for k in range(400)],
        buckets=[k // 4 + 1 for k in range(400)],
        limits={f"v{k}": "1/4" for k in range(4)},
    )
    folder = made.write(tmp_path / "release")
    facts = collect(folder, audit=True, truth=made.source())
    twin = report_object(facts)
    assert facts.verdict.verified
    assert twin["audit"]["broken"]
    assert not twin["holds"]
    assert [one["code"] for one in twin["findings"] if one["severity"] == "stop"][-1] == "promise-broken"
    assert twin["verdict"] == "do not publish"
    assert "A promise was broken" in report_html(twin)


def test_a_control_table_is_for_the_audit(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    with pytest.raises(UsageError):
        collect(folder, control=hospital().source())
    twin = twin_of(folder, audit=True, control=hospital().source())
    assert (twin["from_raw_table"], twin["with_control"]) == (True, True)
    assert not twin_of(folder, audit=True, truth=hospital().source())["with_control"]


class AtStage:
    """Does something when a stage begins, and remembers all of them."""

    def __init__(self, name: str = "", what: Any = None) -> None:
        self._name, self._what = name, what
        self.stages: list[tuple[str, int | None]] = []
        self.done = 0

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        self.stages.append((name, total))
        if name == self._name:
            self._what()

    def advance(self, number: int) -> None:
        if len(self.stages) == 1:
            self.done += number

    def tell(self, sentence: str) -> None:
        pass


def test_a_release_that_changes_meanwhile(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    watch = AtStage("Learning", lambda: edit_manifest(folder, lambda m: m.update(status="optimal", bound=20, gap=0.0)))
    with pytest.raises(ChangedInputError):
        collect(folder, audit=True, progress=watch)


def test_progress(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release")
    watch = AtStage()
    collect(folder, audit=True, truth=hospital().source(), progress=watch)
    assert watch.stages[0] == ("Verifying", 48)  # both tables, and both again with the source
    assert watch.done == 48
    assert [name for name, _ in watch.stages][-1] == "Counting"
    assert "Learning" in [name for name, _ in watch.stages]

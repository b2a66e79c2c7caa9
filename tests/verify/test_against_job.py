"""A job is the publisher's whole will: every key is compared, or a note says that nobody can see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

import dalenius
from dalenius import publish
from dalenius.cli.main import main
from dalenius.errors import PolicyError, SelfCheckError
from dalenius.model.verdict import Outcome, Verdict
from dalenius.policy.icd import path_of
from dalenius.policy.job import Job, parse_job
from dalenius.policy.limits import LimitPolicy
from dalenius.publishing import flow
from dalenius.publishing.description import describe
from dalenius.release.manifest import read_manifest
from dalenius.verify.against_job import BY_EXPOSURE, BY_LIMITS, BY_MANIFEST, UNSEEN
from dalenius.verify.judge import verify
from tests.effort import cases
from tests.handmade import Handmade, edit_manifest, hospital, rewrite, three_strata

LIMITS = "[limits.values]\nHIV = '1/4'\nFlu = '1/2'\nCold = '1/2'\nGout = '3/4'\n"
Make = Callable[..., "Handmade | Aged | Patients"]


def keys_of_a_job() -> set[str]:
    """Every key of every section, from the schema."""
    keys: set[str] = set()
    for name, section in Job.model_fields.items():
        kind = section.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        keys |= {f"{name}.{field.alias or key}" for key, field in kind.model_fields.items()}
    return keys


def with_fakes(**changes: Any) -> Handmade:
    """The hospital with a fake value in every bucket."""
    return hospital(fakes=[(1, "Gout"), (2, "Cold"), (3, "Gout"), (4, "Cold")], limits={}, **changes)


def in_the_clear(**changes: Any) -> Handmade:
    """Both patients of the first bucket have the flu."""
    values = ["Flu", "Flu", "Cold", "Gout", "HIV", "Flu", "Flu", "Cold", "HIV", "Cold", "Gout", "Flu"]
    return hospital(values=values, limits={"HIV": "1/4"}, **changes)


def chronic(limit: str | None = None, **changes: Any) -> Handmade:
    """The hospital in two groups on one level."""
    parts: dict[str, Any] = {
        "groups": [("Chronic", None, limit), ("Airways", None, None)],
        "group_of": {"HIV": "Chronic", "Gout": "Chronic", "Flu": "Airways", "Cold": "Airways"},
        "levels": ["group"],
        **changes,
    }
    return hospital(**parts)


def lettered(*but: str) -> Handmade:
    """The hospital in groups by the first letter, but for some."""
    letters = {value: value[0] for value in ("Cold", "Flu", "Gout", "HIV") if value not in but}
    return chronic(groups=[(letter, None, None) for letter in letters.values()], group_of=letters, levels=["prefix 1"])


def diagnosed() -> Handmade:
    """Codes in the chapters and blocks of ICD-10."""
    codes = {"Flu": "J10", "Cold": "J00", "HIV": "B20", "Gout": "M10"}
    holders = {code: path_of("icd10", code) or () for code in codes.values()}
    groups = {
        group.name: (group.name, path[k - 1].name if k else None, None)
        for path in holders.values()
        for k, group in enumerate(path)
    }
    made = hospital()
    return chronic(
        values=[codes[value] for value in made.values],
        limits={},
        groups=[*groups.values()],
        group_of={code: path[-1].name for code, path in holders.items()},
        levels=["chapter", "block"],
    )


@dataclass(frozen=True)
class Aged:
    """Numbers from 1 to 8 in bands."""

    groups: str

    def write(self, folder: Path) -> Path:
        """A release of them."""
        table = pa.table({"Age": list(range(64)), "Number": [1 + k % 8 for k in range(64)]})
        limits = {"uniform": "1", "grouping": self.groups}
        asked: dict[str, Any] = {"sensitive": "Number", "quasi_identifiers": ["Age"], "publish_in_the_clear": True}
        dalenius.publish(table, limits, out=folder / "aged", **asked)
        return folder / "aged"


@dataclass(frozen=True)
class Patients:
    """Forty patients, some with three rows, of whom nobody keeps more than two; and two sensitive columns."""

    sensitive: Any = "Disease"
    person: str | None = "Patient"
    most_rows: int | None = 2
    keep_together: Any = ()

    @staticmethod
    def table(people: int = 40) -> pa.Table:
        """What is published."""
        rows = [(k, 20 + k % 5, visit) for k in range(people) for visit in range(1 + 2 * (k % 2))]
        return pa.table(
            {
                "Patient": [patient for patient, _, _ in rows],
                "Age": [age for _, age, _ in rows],
                "Disease": [["Flu", "Cold", "Gout", "HIV"][(patient // 2 + visit) % 4] for patient, _, visit in rows],
                "Drug": [["A", "B", "C"][(patient + visit) % 3] for patient, _, visit in rows],
            }
        )

    def write(self, folder: Path) -> Path:
        """A release of them."""
        asked: dict[str, Any] = {"sensitive": self.sensitive, "person": self.person, "most_rows": self.most_rows}
        asked["keep_together"] = self.keep_together
        limits = {"uniform": 1}
        dalenius.publish(
            self.table(),
            limits,
            quasi_identifiers=["Age"],
            strata="none",
            publish_in_the_clear=True,
            out=folder / "patients",
            **asked,
        )
        return folder / "patients"


def test_every_key_of_a_job_has_its_comparison() -> None:
    """A key that is new in the schema has to be put into exactly one of these."""
    tables = [set(BY_MANIFEST), set(BY_LIMITS), set(BY_EXPOSURE), set(UNSEEN)]
    assert set().union(*tables) == keys_of_a_job()
    assert sum(map(len, tables)) == len(keys_of_a_job())


class Case(NamedTuple):
    """A release, a job that it agrees with, and one that it contradicts; what the verdict then says, and where."""

    agrees: str
    contradicts: str
    says: str
    make: Make = hospital
    check: str = "job"
    edit: dict[str, Any] | None = None


def limits(rule: str, others: str = "") -> str:
    return f"[limits]\n{rule}\n{others}"


TREE = "[groups]\ntree = {Chronic = ['HIV', 'Gout'], Airways = ['Flu', 'Cold']}"
OPTIMAL = {"status": "optimal", "bound": 18, "gap": 0.1}
CASES = {
    "table.sensitive": Case(
        "[table]\nsensitive = 'Disease'",
        "[table]\nsensitive = 'Age'",
        "the job says that the sensitive column is 'Age', and the release has 'Disease'",
    ),
    "table.quasi_identifiers": Case(
        "[table]\nquasi_identifiers = ['Gender', 'Zipcode', 'Age']",
        "[table]\nquasi_identifiers = ['Gender', 'Age', 'Zipcode']",
        "the job says that the quasi-identifiers are 'Gender', 'Age', 'Zipcode', in this order, and the release has "
        "'Gender', 'Zipcode', 'Age'",
    ),
    "table.identifiers": Case(
        "[table]\nidentifiers = ['Name']",
        "[table]\nidentifiers = ['Name', 'Zipcode']",
        "the job lists 'Zipcode' under identifiers, and the release publishes it",
    ),
    "table.person": Case(
        "[table]\nperson = 'Patient'",
        "[table]\nperson = 'Age'",
        "the job says that 'Age' tells people apart, and the release publishes it",
        Patients,
    ),
    "table.most_rows": Case(
        "[table]\nmost_rows = 2",
        "[table]\nmost_rows = 3",
        "the job says that people have at most 3 rows, and the release has 2",
        Patients,
    ),
    "table.keep_together": Case(
        "[table]\nsensitive = ['Disease', 'Drug']\nkeep_together = [['Drug', 'Disease']]",
        "[table]\nsensitive = ['Disease', 'Drug']",
        "the release keeps 'Disease', 'Drug' together, and the job does not",
        lambda: Patients(sensitive=["Disease", "Drug"], keep_together=["Disease", "Drug"]),
    ),
    "table.null_value": Case(
        "[table]\nnull_value = 'Flu'",
        "[table]\nnull_value = 'none'",
        "the job says that nulls count as 'none', and the release counts them as 'Flu'",
        edit={"null_value": "Flu"},
    ),
    "table.missing": Case(
        "[table]\nmissing = ['?']",
        "[table]\nmissing = ['?', 'Unknown']",
        "the job says that 'Unknown' stands for a missing value, and the release counts it as a value",
        lambda: hospital(null_value="Flu", missing=["?"]),
    ),
    "table.not_applicable": Case(
        "[table]\nnot_applicable = ['Gout']",
        "[table]\nnot_applicable = ['Flu']",
        "the release sets people with 'Gout' apart, and the job does not say not_applicable of it",
        lambda: hospital(
            values=["Flu", "Cold", "Flu", "Cold", "HIV", "Flu", "Flu", "Cold", *["Gout"] * 4],
            tree=[1],
            not_applicable=["Gout"],
            limits={},
        ),
    ),
    "table.strata": Case(
        "[table]\nstrata = 3",
        "[table]\nstrata = 2",
        "the job says at most 2 strata, and the release has 3",
        three_strata,
    ),
    "limits.odds": Case(limits("odds = 8"), limits("odds = 1.1"), "limit", check="limits"),
    "limits.floor": Case(limits("odds = 1\nfloor = '1/2'"), limits("odds = 1\nfloor = '1/4'"), "limit", check="limits"),
    "limits.theta": Case(limits("theta = 3"), limits("theta = '1.1'"), "limit", check="limits"),
    "limits.base": Case(limits("theta = 0\nbase = '1/2'"), limits("theta = 0\nbase = '1/3'"), "limit", check="limits"),
    "limits.uniform": Case(limits("uniform = '1/2'"), limits("uniform = '1/3'"), "limit", check="limits"),
    "limits.l_diversity": Case(limits("l_diversity = 2"), limits("l_diversity = 3"), "limit", check="limits"),
    "limits.beta": Case(limits("beta = 2"), limits("beta = '0.1'"), "limit", check="limits"),
    "limits.values": Case(LIMITS, LIMITS.replace("1/4", "1/5"), "limit", check="limits"),
    "limits.allow_absent": Case(
        limits("allow_absent = true", f"{LIMITS}Plague = 1\n"),
        limits("allow_absent = false", f"{LIMITS}Plague = 1\n"),
        "'Plague'",
        check="limits",
    ),
    "limits.publish_in_the_clear": Case(
        limits("uniform = 1\npublish_in_the_clear = true"),
        limits("uniform = 1\npublish_in_the_clear = false"),
        "2 of 12 people have their value published outright ('Flu'), and the job does not say publish_in_the_clear",
        in_the_clear,
    ),
    "solve.method": Case(
        "[solve]\nmethod = 'optimal'",
        "[solve]\nmethod = 'anatomy'",
        "the job says the method anatomy, and the release was made by optimal",
    ),
    "solve.min_size": Case(
        "[solve]\nmin_size = 2", "[solve]\nmin_size = 3", "the job says at least 3 records to a bucket, and 2 buckets"
    ),
    "solve.max_size": Case(
        "[solve]\nmax_size = 4", "[solve]\nmax_size = 3", "the job says at most 3 records to a bucket, and 2 buckets"
    ),
    "solve.gap": Case(
        "[solve]\ngap = 0.1",
        "[solve]\ngap = 0.05",
        "the job says a gap of 0.05, and the release has 0.1 and says that it was reached",
        edit=OPTIMAL,
    ),
    "adversary.corrupted": Case(
        "[adversary]\ncorrupted = 1",
        "[adversary]\ncorrupted = 2",
        "the job says 2 known records, and the release was made against 1",
        lambda: hospital(known_records=1, limits={}),
    ),
    "adversary.fakes": Case(
        "[adversary]\nfakes = 1",
        "[adversary]\nfakes = 0",
        "the job says 0 fake values in every bucket, and the release has 1",
        with_fakes,
    ),
    "limits.groups": Case(
        f"{TREE}\n{LIMITS}[limits.groups]\nChronic = '1/2'",
        f"{TREE}\n{LIMITS}[limits.groups]\nChronic = '3/4'",
        "1 group has another limit in the manifest; the first: 'Chronic', 1/2, not 3/4",
        lambda: chronic("1/2"),
        "limits",
    ),
    "limits.levels": Case(
        f"{TREE}\n[limits]\nuniform = '1/2'\n[limits.levels]\ngroup = 'none'",
        f"{TREE}\n[limits]\nuniform = '1/2'\n[limits.levels.group]\nuniform = 1",
        "2 groups have another limit in the manifest; the first: 'Airways', none, not 1",
        chronic,
        "limits",
    ),
    "groups.tree": Case(
        TREE,
        TREE.replace("'Gout'], ", "], ").replace("'Flu'", "'Flu', 'Gout'"),
        "1 value is in another group in the manifest; the first: 'Gout', in 'Chronic', not 'Airways'",
        chronic,
        "limits",
    ),
    "groups.csv": Case(
        "groups = 'groups.csv'",
        "groups = 'kinds.csv'",
        "the group 'Airways' is on another level in the manifest: 'group', not 'kind'",
        chronic,
        "limits",
    ),
    "groups.prefixes": Case(
        "[groups]\nprefixes = {H = 'Chronic', G = 'Chronic', F = 'Airways', C = 'Airways'}",
        "[groups]\nprefixes = {H = 'Chronic', G = 'Chronic', F = 'Airways', C = 'Common'}",
        "the manifest lacks 1 group; the first: 'Common'",
        chronic,
        "limits",
    ),
    "groups.prefix": Case(
        "[groups]\nprefix = 1", "[groups]\nprefix = 2", "the manifest lacks 4 groups", lettered, "limits"
    ),
    "groups.ungrouped": Case(
        "[groups]\nprefix = 1\nungrouped = ['Flu']",
        "[groups]\nprefix = 1\nungrouped = ['Flu', 'HIV']",
        "the manifest has 1 group that should not be; the first: 'H'",
        lambda: lettered("Flu"),
        "limits",
    ),
    "groups.named": Case("groups = 'icd10'", "groups = 'icd9'", "unknown to icd9", diagnosed, "limits"),
    "groups.cuts": Case("[groups]\ncuts = [3]", "[groups]\ncuts = [4]", "the cuts", lambda: Aged("cuts:3"), "limits"),
    "groups.quantiles": Case(
        "[groups]\nquantiles = 4", "[groups]\nquantiles = 3", "more bands", lambda: Aged("quantiles:4"), "limits"
    ),
    "groups.width": Case(
        "[groups]\nwidth = 3", "[groups]\nwidth = 2", "not 2 apart", lambda: Aged("width:3"), "limits"
    ),
    "groups.from": Case(
        "[groups]\nwidth = 3\nfrom = 3",
        "[groups]\nwidth = 3\nfrom = 2",
        "do not start",
        lambda: Aged("cuts:3,6"),
        "limits",
    ),
}


@pytest.fixture(autouse=True)
def _files_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "HIV,Chronic\nGout,Chronic\nFlu,Airways\nCold,Airways\n"
    Path("groups.csv").write_text(f"value,group\n{rows}")
    Path("kinds.csv").write_text(f"value,kind\n{rows}")


def made(case: Case, folder: Path) -> Path:
    release = case.make().write(folder)
    if case.edit is not None:
        changed = case.edit
        edit_manifest(release, lambda manifest: manifest.update(changed))
    return release


def test_columns_that_the_release_keeps_apart(tmp_path: Path) -> None:
    apart = Patients(sensitive=["Disease", "Drug"]).write(tmp_path)
    verdict = verify(apart, job=parse_job("[table]\nkeep_together = [['Disease', 'Drug']]"))
    assert verdict["job"].summary == (
        "the job says that 'Disease', 'Drug' are kept together, and the release keeps no columns together"
    )


def test_every_key_that_can_be_seen_has_a_case() -> None:
    assert set(CASES) == keys_of_a_job() - set(UNSEEN)


@pytest.mark.parametrize("key", CASES)
def test_a_release_that_agrees_with_the_job(key: str, tmp_path: Path) -> None:
    if key == "solve.gap":  # the loss is 20: (20 - 18) / 20
        assert hospital().manifest("parquet")["loss"] == 20
    verdict = verify(made(CASES[key], tmp_path), job=parse_job(CASES[key].agrees))
    assert verdict.verified, verdict.findings
    assert key in verdict["job"].summary


@pytest.mark.parametrize("key", CASES)
def test_a_release_that_contradicts_the_job(key: str, tmp_path: Path) -> None:
    case = CASES[key]
    verdict = verify(made(case, tmp_path), job=parse_job(case.contradicts))
    assert [check.check for check in verdict.checks if check.outcome is Outcome.FAILED] == [case.check]
    assert case.says in verdict[case.check].summary
    if case.check == "job":
        assert any("options of publish override the job" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("made", "agrees", "contradicts", "says"),
    [
        (
            "cuts:5:3,5,7",
            "cuts = [[5], [3, 5, 7]]",
            "cuts = [[7], [3, 5, 7]]",
            "the manifest lacks 2 groups; the first: '7 and above'",
        ),
        ("cuts:5:3,5,7", "cuts = [[5], [3, 5, 7]]", "cuts = [3, 5, 7]", "bands within coarser ones"),
        ("cuts:3,5,7", "cuts = [3, 5, 7]", "cuts = [[5], [3, 5, 7]]", "the manifest lacks 2 groups"),
        ("cuts:5:3,5,7", "cuts = [[5], [3, 5, 7]]", "cuts = [[5], [3, 5]]", "the cuts"),
        ("quantiles:2:4", "quantiles = [2, 4]", "quantiles = 4", "bands within coarser ones"),
        ("quantiles:4:8", "quantiles = [4, 8]", "quantiles = [2, 8]", "more bands than 2"),
        ("width:4:2", "width = [4, 2]", "width = [6, 2]", "the manifest lacks"),
    ],
)
def test_coarser_bands(made: str, agrees: str, contradicts: str, says: str, tmp_path: Path) -> None:
    release = Aged(made).write(tmp_path)
    verdict = verify(release, job=parse_job(f"[groups]\n{agrees}"))
    assert verdict.verified, verdict.findings
    verdict = verify(release, job=parse_job(f"[groups]\n{contradicts}"))
    assert not verdict.verified
    assert says in " ".join(str(finding) for finding in verdict.findings)


def test_the_limit_of_a_coarser_band_that_was_changed(tmp_path: Path) -> None:
    release = Aged("cuts:5:3,5,7").write(tmp_path)
    job = parse_job("[groups]\ncuts = [[5], [3, 5, 7]]\n[limits]\nuniform = 1\npublish_in_the_clear = true")
    assert verify(release, job=job).verified
    edit_manifest(release, lambda manifest: manifest["groups"][0].update(limit="3/4"))
    assert verify(release).verified, "if nobody knows better"
    verdict = verify(release, job=job)
    assert (
        "1 group has another limit in the manifest; the first: '5 and above', 3/4, not 1" in verdict["limits"].summary
    )
    edit_manifest(release, lambda manifest: manifest["groups"][0].update(limit="1/9"))
    assert not verify(release).verified


@pytest.mark.parametrize(
    ("place", "change", "says"),
    [
        (("groups", 0), {"name": "4 and above"}, "'4 and above' is no range between cuts"),
        (("groups", 0), {"name": "any number"}, "'any number' is no range between cuts"),
        (("groups", 0), {"name": "3 and above"}, "'3 and above' does not hold the bands"),
        (("values", 1), {"group": 0}, "'5 and above' does not hold the bands"),
    ],
)
def test_a_coarser_band_is_what_its_name_says(
    place: tuple[str, int], change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    release = Aged("cuts:5:3,5,7").write(tmp_path)
    edit_manifest(release, lambda manifest: manifest[place[0]][place[1]].update(change))
    assert says in " ".join(str(finding) for finding in verify(release).findings)


UNSEEN_JOBS = {
    "table.strict": "[table]\nstrict = true",
    "solve.time_limit": "[solve]\ntime_limit = 5",
    "adversary.avoid_ruled_out": "[adversary]\navoid_ruled_out = true",
    **{f"report.{name}": f"[report]\n{name} = 'x'" for name in ("title", "dataset", "controller", "purpose")},
}


@pytest.mark.parametrize("key", UNSEEN)
def test_what_cannot_be_seen_is_said(key: str, tmp_path: Path) -> None:
    verdict = verify(hospital().write(tmp_path / "release"), job=parse_job(UNSEEN_JOBS[key]))
    assert verdict.verified
    assert any(key in note and "cannot be seen in a release" in note for note in verdict.notes)
    assert key not in verdict["job"].summary


def test_without_a_job_there_is_no_such_check(tmp_path: Path) -> None:
    assert "job" not in [check.check for check in verify(hospital().write(tmp_path)).checks]


def test_a_job_without_limits_leaves_those_of_the_manifest(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    edit_manifest(folder, lambda manifest: manifest["values"][1].update(limit="1/3"))
    verdict = verify(folder, job=parse_job("[table]\nsensitive = 'Disease'"))
    assert not verdict["limits"].passed
    assert verdict["job"].passed


def test_a_policy_beside_a_job_gives_the_limits(tmp_path: Path) -> None:
    """Whoever has resolved a rule already, where fakes hide the counts, still has the rest of the job compared."""
    folder = hospital().write(tmp_path)
    job = parse_job("[limits]\nuniform = '1/9'\n[adversary]\nfakes = 1")
    verdict = verify(folder, job=job, policy=LimitPolicy.of(uniform="3/4"))
    assert [check.check for check in verdict.checks if not check.passed] == ["job"]


@pytest.mark.parametrize(
    ("strata", "agrees"),
    [
        ("'auto'", True),
        ("' NONE '", False),
        ("1", False),
        ("'1'", False),
        ("'3'", True),
        ("['Age']", True),
        ("'Age'", True),
        ("['Gender', 'Age']", True),
        ("['Gender']", False),
        ("['auto']", False),
    ],
)
def test_strata(strata: str, agrees: bool, tmp_path: Path) -> None:
    job = parse_job(f"[table]\nstrata = {strata}")
    assert verify(three_strata().write(tmp_path / "cut"), job=job).verified is agrees
    assert verify(hospital().write(tmp_path / "whole"), job=job).verified, "a table that could not be cut is whole"


def test_known_records_and_fakes_that_a_job_does_not_speak_of_are_noted(tmp_path: Path) -> None:
    """Publish makes neither from such a job alone; with its options it may, and nobody is protected less."""
    job = parse_job("[table]\nsensitive = 'Disease'")
    verdict = verify(with_fakes(known_records=1).write(tmp_path), job=job)
    assert verdict.verified, verdict.findings
    (note,) = (note for note in verdict.notes if "says nothing of" in note)
    assert "1 known record" in note
    assert "1 fake value" in note
    assert not any("says nothing of" in note for note in verify(hospital().write(tmp_path / "plain"), job=job).notes)


class TestValuesInTheClear:
    """As publish refuses them, by the limits that the job names."""

    def test_a_limit_of_1_by_name_asks_for_it(self, tmp_path: Path) -> None:
        folder = in_the_clear().write(tmp_path)
        assert not verify(folder, job=parse_job("[limits]\nuniform = 1"))["job"].passed
        assert verify(folder, job=parse_job("[limits]\nuniform = 1\n[limits.values]\nFlu = 1"))["job"].passed
        assert not verify(folder, job=parse_job("[limits]\nuniform = 1\n[limits.values]\nHIV = 1"))["job"].passed

    def test_but_not_for_buckets_of_one_record(self, tmp_path: Path) -> None:
        folder = hospital(buckets=[1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5], limits={}).write(tmp_path)
        names = "Flu = 1\nCold = 1\nHIV = 1\nGout = 1\n"
        verdict = verify(folder, job=parse_job(f"[limits.values]\n{names}"))
        assert "2 buckets hold a single record" in verdict["job"].summary
        clear = parse_job(f"[limits]\npublish_in_the_clear = true\n[limits.values]\n{names}")
        assert verify(folder, job=clear).verified

    def test_a_job_that_speaks_of_no_limits_speaks_of_no_values_in_the_clear(self, tmp_path: Path) -> None:
        assert verify(in_the_clear().write(tmp_path), job=parse_job("[table]\nsensitive = 'Disease'")).verified

    def test_it_is_not_checked_if_the_values_cannot_be_read(self, tmp_path: Path) -> None:
        folder = hospital().write(tmp_path)
        (folder / "st.parquet").unlink()
        verdict = verify(folder, job=parse_job("[limits]\nuniform = 1"))
        assert verdict["job"].outcome is Outcome.NOT_CHECKED


def test_nulls_that_the_table_does_not_have_need_no_name(tmp_path: Path) -> None:
    assert verify(hospital().write(tmp_path), job=parse_job("[table]\nnull_value = 'unknown'")).verified


def test_a_gap_that_was_not_reached_is_noted(tmp_path: Path) -> None:
    """Time ran out, or the method cannot do better: the status says so, and publish does as much."""
    folder = hospital().write(tmp_path)
    job = parse_job("[solve]\ngap = 0.05")
    assert any("solve.gap" in note for note in verify(folder, job=job).notes)
    edit_manifest(folder, lambda manifest: manifest.update({**OPTIMAL, "status": "feasible"}))
    verdict = verify(folder, job=job)
    assert verdict.verified
    assert any("solve.gap" in note and "0.1" in note for note in verdict.notes)


def test_a_manifest_that_cannot_be_read_leaves_the_job_unchecked(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    (folder / "manifest.json").write_text("{}")
    verdict = verify(folder, job=parse_job("[table]\nsensitive = 'Disease'"))
    assert verdict["job"].outcome is Outcome.NOT_CHECKED


def test_a_job_can_be_given_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[adversary]\nfakes = 1\n")
    assert not verify(hospital().write(tmp_path / "release"), job=tmp_path / "job.toml").verified


JOBS = {
    "plain": "[limits]\nodds = 8",
    "known": "[limits]\nodds = 8\n[adversary]\ncorrupted = 1\nfakes = 1",
    "sizes": "[limits]\nuniform = '1/2'\n[solve]\nmin_size = 3\nmax_size = 9\ngap = 0.2",
    "anatomy": "[limits]\nl_diversity = 2\n[solve]\nmethod = 'anatomy'\ngap = 0",
    "two": "[limits]\nodds = 4\n[solve]\nmethod = 'two-size'",
    "named": "[limits]\nodds = 4\n[limits.values]\nFlu = 1",
    "clear": "[limits]\ntheta = 8\nbase = '0.5'\npublish_in_the_clear = true\n[solve]\nmin_size = 1",
    "columns": "strata = ['Gender']\n[limits]\nodds = 8",
    "number": "strata = 2\n[limits]\nodds = 8",
    "groups": "[limits]\nodds = 6\n[limits.levels.'prefix 1']\nodds = 9\n[groups]\nprefix = 1",
    "covered": "[groups]\ntree = {x = ['Flu', 'Acne'], y = ['Cold', 'Gout', 'Mumps']}\n[limits.groups]\nx='.8'\ny='.9'",
    "none": "strata = 'none'\nnull_value = 'unknown'\nstrict = false\n[limits]\nodds = 8\n[report]\ntitle = 'x'",
}


@pytest.mark.parametrize("name", cases(*JOBS, usually=4))
def test_what_publish_makes_of_a_job_agrees_with_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = ["Flu", "Cold", "Flu", "Gout", "Cold", "Flu", "Mumps", "Gout", "Cold", "Acne"] * 30
    table = {"Name": list(range(300)), "Gender": ["F", "M", "F"] * 100, "Age": list(range(100)) * 3, "Disease": values}
    pyarrow.parquet.write_table(pa.table(table), "table.parquet")
    roles = "sensitive = 'Disease'\nquasi_identifiers = ['Age', 'Gender']\nidentifiers = ['Name']"
    Path("job.toml").write_text(f"[table]\n{roles}\n{JOBS[name]}\n")
    words = ["publish", "table.parquet", "--job", "job.toml", "--out", "release"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(main, ["verify", "release", "--job", "job.toml"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert ["job", "ok"] in [line.split()[:2] for line in result.output.splitlines()]


def test_groups_that_a_job_does_not_speak_of_are_noted(tmp_path: Path) -> None:
    verdict = verify(chronic("1/2").write(tmp_path / "release"), job=parse_job(LIMITS))
    assert verdict.verified
    assert any("the job says nothing of it" in note and "2 groups of values" in note for note in verdict.notes)


def test_a_job_whose_groups_the_release_has_not(tmp_path: Path) -> None:
    verdict = verify(hospital().write(tmp_path / "release"), job=parse_job(f"{TREE}\n{LIMITS}"))
    assert "the manifest lacks 2 groups; the first: 'Airways'" in verdict["limits"].summary


class TestFakesHideTheCountsOfGroups:
    """The job's rule is for two levels; the release was published with it, and with a fake value in every bucket."""

    JOB = (
        "[limits]\nuniform = '0.6'\n[limits.levels.group]\nodds = 3\n[groups]\ntree = {x = ['a', 'b'], y = ['c', 'd']}"
    )
    TABLE = pa.table({"Age": list(range(120)), "Disease": ["a"] * 50 + ["b"] * 20 + ["c"] * 30 + ["d"] * 20})

    def published(self, folder: Path, **changes: Any) -> Path:
        job = parse_job(self.JOB)
        roles: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "fake_values": 1, **changes}
        return publish(self.TABLE, job.policy(), out=folder, strata="none", **roles).path

    def test_the_table_shows_them(self, tmp_path: Path) -> None:
        release = self.published(tmp_path / "release")
        assert verify(release, job=parse_job(self.JOB), against=self.TABLE).verified
        alone = verify(release, job=parse_job(self.JOB))
        assert alone.verified
        assert any("odds goes by how many records" in note and "2 groups" in note for note in alone.notes)

    def test_another_limit_is_found_with_the_table_and_a_far_one_without(self, tmp_path: Path) -> None:
        release = self.published(tmp_path / "release")
        stated = Fraction(read_manifest(release).groups[0].limit)  # type: ignore[index, arg-type]
        assert stated == Fraction(7, 12) * 3 / (1 + Fraction(7, 12) * 2)
        for limit, found in ((stated + Fraction(1, 1000), False), (Fraction(1), True)):
            changed = {"limit": str(limit)}
            edit_manifest(release, lambda manifest: manifest["groups"][0].update(changed))  # noqa: B023
            assert verify(release, job=parse_job(self.JOB)).verified is not found
            verdict = verify(release, job=parse_job(self.JOB), against=self.TABLE)
            assert f"the first: 'x', {limit}, not {stated}" in verdict["limits"].summary

    def test_publishing_checks_limits_of_groups_itself(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A manifest that promises another limit, or another group, is not published, with fakes or without."""

        def described(*given: Any) -> Any:
            right = describe(*given)
            groups = [group.model_copy(update={"limit": "1"}) for group in right.groups or ()]
            return right.model_copy(update={"groups": groups})

        monkeypatch.setattr(flow, "describe", described)
        for fakes in (0, 1):
            with pytest.raises(SelfCheckError, match="limits"):
                self.published(tmp_path / "release", fake_values=fakes)


def test_the_command_compares_the_whole_job(tmp_path: Path) -> None:
    """The two that used to pass: no known records where the job says one, and an identifier that is published."""
    release, job = hospital().write(tmp_path / "release"), tmp_path / "job.toml"
    for text, says in (
        (f"[adversary]\ncorrupted = 1\nfakes = 1\n{LIMITS}", "the job says 1 known record, and the release was made"),
        (f"[table]\nidentifiers = ['Age']\n{LIMITS}", "the job lists 'Age' under identifiers"),
    ):
        job.write_text(text)
        result = CliRunner().invoke(main, ["verify", str(release), "--job", str(job)])
        assert result.exit_code == 1
        assert says in result.output
    job.write_text(LIMITS)
    assert CliRunner().invoke(main, ["verify", str(release), "--job", str(job)]).exit_code == 0


def test_limits_that_make_no_sense_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        verify(hospital().write(tmp_path), job=parse_job("[limits]\nbase = 1"))


def outcomes(verdict: Verdict) -> dict[str, Outcome]:
    return {check.check: check.outcome for check in verdict.checks}


def test_the_other_checks_stay_what_they_are(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    rewrite(folder, "qit", lambda rows: rows[:-1])
    alone, with_job = verify(folder), verify(folder, job=parse_job("[table]\nsensitive = 'Disease'"))
    assert outcomes(with_job) == {**outcomes(alone), "job": Outcome.PASSED}


SETS = [{"columns": ["Disease"], "missing": ["HIV"]}, "Drug"]


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("sensitive = [{columns = ['Disease'], missing = ['HIV']}, 'Drug']", None),
        ("sensitive = ['Disease', 'Drug']\nmissing = ['HIV']", None),
        (
            "sensitive = ['Drug', 'Disease']",
            "sensitive columns are 'Drug', 'Disease', and the release has 'Disease', 'Drug'",
        ),
        ("sensitive = 'Disease'", "the sensitive column is 'Disease', and the release has 'Disease', 'Drug'"),
        (
            "sensitive = [{columns = ['Disease', 'Drug'], name = 'Any'}]",
            "sensitive columns are 'Any' ('Disease', 'Drug'), and the release has 'Disease', 'Drug'",
        ),
        (
            "sensitive = [{columns = ['Disease'], missing = ['HIV', 'Flu']}, 'Drug']",
            "'Disease': the job says that 'Flu'",
        ),
        ("identifiers = ['Drug']", "the job lists 'Drug' under identifiers, and the release publishes it"),
    ],
)
def test_several_sensitive_columns(job: str, says: str | None, tmp_path: Path) -> None:
    release = Patients(SETS, None, None).write(tmp_path)
    verdict = verify(release, job=parse_job(f"[table]\n{job}"))
    assert verdict.verified is (says is None), verdict.findings
    assert says is None or says in verdict["job"].summary


@pytest.mark.parametrize(("limit", "holds"), [("1", True), ("0.02", False)])
def test_limits_of_the_second_set(limit: str, holds: bool, tmp_path: Path) -> None:
    sets = f"sensitive = ['Disease', {{columns = ['Drug'], limits = {{values = {{A = '{limit}'}}}}}}]"
    job = parse_job(f"[table]\n{sets}\n[limits]\nuniform = 1\npublish_in_the_clear = true")
    verdict = verify(Patients(["Disease", "Drug"], None, None).write(tmp_path), job=job)
    assert verdict.verified is holds
    assert [one.check for one in verdict.checks if not one.passed] == ([] if holds else ["limits"])


def test_a_person_whose_rows_are_not_counted_together(tmp_path: Path) -> None:
    release, job = Patients(person=None, most_rows=None).write(tmp_path), parse_job("[table]\nperson = 'Patient'")
    alone = verify(release, job=job)
    assert alone.verified
    assert any("which verifying against the table shows" in note for note in alone.notes)
    known = verify(release, job=job, against=Patients.table())
    assert not known.verified
    assert "'Patient' tells people apart, 20 of them have several rows, and in the release" in known["job"].summary


def test_people_with_other_numbers_of_rows_are_no_strata_that_somebody_asked_for(tmp_path: Path) -> None:
    release = Patients().write(tmp_path)
    for asked in ("'none'", "1", "['Age']"):
        verdict = verify(release, job=parse_job(f"[table]\nperson = 'Patient'\nstrata = {asked}"))
        assert verdict["job"].passed, verdict.findings
    people = pa.concat_tables([Patients.table()] * 30).set_column(0, "Patient", pa.array([k // 2 for k in range(2400)]))
    roles: dict[str, Any] = {"sensitive": "Disease", "person": "Patient", "quasi_identifiers": ["Age"]}
    dalenius.publish(people, {"odds": 8}, strata=["Age"], publish_in_the_clear=True, out=tmp_path / "cut", **roles)
    verdict = verify(tmp_path / "cut", job=parse_job("[table]\nperson = 'Patient'\nstrata = 'none'"))
    assert "of people with equally many rows" in verdict["job"].summary


@pytest.mark.parametrize(("odds", "holds"), [(8, True), (2, False)])
def test_rules_go_by_people(odds: int, holds: bool, tmp_path: Path) -> None:
    """Of 40 people, 20 have two values each."""
    asked: dict[str, Any] = {"sensitive": ["Disease", "Drug"], "person": "Patient", "most_rows": 2}
    dalenius.publish(Patients.table(), {"odds": 8}, quasi_identifiers=["Age"], out=tmp_path / "r", seed=1, **asked)
    verdict = verify(tmp_path / "r", job=parse_job(f"[limits]\nodds = {odds}"))
    assert verdict.verified is holds, verdict.findings
    assert any("another limit in the manifest" in note for note in verdict.notes) is not holds


def test_groups_that_a_release_of_people_has_not(tmp_path: Path) -> None:
    groups = "[groups]\ntree = {Chronic = ['HIV', 'Gout'], Airways = ['Flu', 'Cold']}\n[limits]\nodds = 8"
    verdict = verify(Patients().write(tmp_path), job=parse_job(groups))
    assert "by the limits given, the manifest lacks 2 groups" in verdict["limits"].summary

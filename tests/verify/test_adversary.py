"""Releases against an adversary who knows records, and releases with fake values: right ones pass, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dalenius.policy.limits import LimitPolicy
from dalenius.verify.judge import verify
from tests.handmade import Handmade, edit_manifest, hospital, restate_hashes, rewrite
from tests.verify.generated import assert_passes_and_lower_limits_fail
from tests.verify.test_verify import Steps, failed, releases

FAKES = [(1, "Gout"), (2, "Cold"), (3, "Gout"), (4, "Cold")]
LIMITS = {"HIV": "1/3", "Flu": "1", "Cold": "1", "Gout": "1"}


def protected(**changes: Any) -> Handmade:
    """The hospital with a fake value in every bucket, against somebody who knows one of the records in it."""
    return hospital(**{"fakes": FAKES, "known_records": 1, "limits": LIMITS, **changes})


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = protected().write(tmp_path / "release")
    assert verify(folder)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize(("known", "fakes"), [(0, []), (1, []), (0, FAKES), (1, FAKES), (1, FAKES + FAKES)])
def test_right_releases_pass(tmp_path: Path, kind: str, batch_rows: int, known: int, fakes: list[Any]) -> None:
    types = {"Gender": pa.string(), "Zipcode": pa.string(), "Age": pa.uint8()}
    limits = {} if len(fakes) > 4 or known else LIMITS  # the same fake twice fills a bucket of two
    sizes = {"buckets": [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]} if len(fakes) > 4 else {}
    listed = [((bucket + 1) // 2, value) for bucket, value in fakes] if sizes else fakes
    made = protected(types=types, known_records=known, fakes=listed, limits=limits, **sizes)
    verdict = verify(made.write(tmp_path, kind), batch_rows=batch_rows, against=made.source())
    assert verdict.findings == ()
    assert verdict.verified
    assert verdict.notes == ()


def test_the_rows_of_both_tables_are_watched(release: Path) -> None:
    progress = Steps()
    verify(release, progress=progress)
    assert progress.stages == [("Verifying", 12 + 16)]
    assert sum(progress.steps) == 12 + 16


@pytest.mark.parametrize("table", ["qit", "st"])
@pytest.mark.parametrize("more", [True, False])
def test_a_row_too_many_and_one_too_few(release: Path, table: str, more: bool) -> None:
    def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*rows, rows[-1]] if more else rows[:-1]

    rewrite(release, table, changed)
    restate_hashes(release)
    assert failed(verify(release)) == {"schema"}
    protected().write(release, format=3)
    rewrite(release, table, changed)
    restate_hashes(release)
    verdict = verify(release)
    assert "sizes" in failed(verdict)
    assert f"bucket 4 has {(4 if table == 'qit' else 5) + (1 if more else -1)} rows" in verdict["sizes"].summary


def test_a_fake_value_in_another_bucket(release: Path) -> None:
    """As many rows in all, one bucket with two fakes and one with none."""

    def moved(rows: list[dict[str, Any]]) -> None:
        fake = next(row for row in rows if row["bucket"] == 4 and row["Disease"] == "Cold")
        fake["bucket"] = 3
        rows.sort(key=lambda row: (row["bucket"], row["Disease"]))

    rewrite(release, "st", moved)
    restate_hashes(release)
    verdict = verify(release)
    assert "sizes" in failed(verdict)
    assert verdict["sizes"].count == 2


@pytest.mark.parametrize(
    ("value", "limit", "kept"),
    [
        ("HIV", "1/3", True),  # 1 of the 3 that are not known
        ("HIV", "333333/1000000", False),
        ("HIV", "1/4", False),  # enough if nobody knows anything
        ("Flu", "1", True),  # 1 of 1 in the buckets of two
        ("Flu", "99/100", False),
    ],
)
def test_the_limit_is_of_what_is_not_known(tmp_path: Path, value: str, limit: str, kept: bool) -> None:
    verdict = verify(protected(limits={**LIMITS, value: limit}).write(tmp_path))
    assert failed(verdict) == (set() if kept else {"manifest", "limits"})
    if value == "HIV" and not kept:
        assert f"'HIV' 1 of 4 less 1 known in bucket 3, limit {limit}" in verdict["limits"].summary
    assert verify(protected(limits={**LIMITS, value: limit}, known_records=0).write(tmp_path))


def test_fake_values_count_like_real_ones(tmp_path: Path) -> None:
    """Two of HIV in bucket 3, one of them fake: half of the four records."""
    made = protected(fakes=[*FAKES[:2], (3, "HIV"), FAKES[3]], known_records=0)
    verdict = verify(made.write(tmp_path), against=made.source())
    assert failed(verdict) == {"manifest", "limits"}
    assert "'HIV' 2 of 4 in bucket 3, limit 1/3" in verdict["limits"].summary


def test_a_bucket_that_is_known_altogether(tmp_path: Path) -> None:
    folder = protected().write(tmp_path)
    edit_manifest(folder, lambda m: m["adversary"].update(known_records=2))
    verdict = verify(folder)
    assert {"manifest", "limits"} <= failed(verdict)
    assert "a bucket has 2 records, and the adversary may know 2" in verdict["manifest"].summary
    edit_manifest(folder, lambda m: m["adversary"].update(known_records=2**31 - 1))
    assert {"manifest", "limits"} <= failed(verify(folder))


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], set[str]]] = {
    "no fake values": (lambda m: m["adversary"].update(fake_values=0), {"manifest", "sizes"}),
    "more fake values": (lambda m: m["adversary"].update(fake_values=2), {"manifest", "sizes", "limits", "values"}),
    "most fake values": (lambda m: m["adversary"].update(fake_values=2**31 - 1), {"manifest", "sizes", "limits"}),
    "nothing known": (lambda m: m["adversary"].update(known_records=0), {"values"}),
    "st rows": (lambda m: m["tables"]["st"].update(rows=12), {"manifest"}),
    "qit rows": (lambda m: m["tables"]["qit"].update(rows=16), {"manifest"}),
    "rows": (lambda m: m.update(rows=16), {"manifest", "sizes"}),
    "counts of records": (lambda m: m["values"][0].update(count=3), {"manifest", "values"}),
    "sizes with fake values": (
        lambda m: m.update(setting=[{"size": 3, "buckets": 2}, {"size": 5, "buckets": 2}]),
        {"manifest", "sizes"},
    ),
    "another worst case": (lambda m: m["values"][3].update(worst={"count": 1, "size": 2}), {"manifest", "values"}),
    "the worst case with fake values": (
        lambda m: m["values"][3].update(worst={"count": 1, "size": 5}),
        {"manifest", "values"},
    ),
    "a worst case that is as bad": (lambda m: m["values"][1].update(worst={"count": 3, "size": 4}), {"values"}),
    "rows huge": (lambda m: m.update(rows=2**53, buckets=2**53), {"manifest"}),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_statement_is_checked(release: Path, name: str) -> None:
    change, wanted = EDITS[name]
    edit_manifest(release, change)
    assert failed(verify(release)) >= wanted
    assert bool(verify(release)) == (not wanted)


class TestSource:
    """The table's values are all there, and so many more."""

    def test_a_value_that_no_fake_makes_up_for(self, release: Path) -> None:
        values = ["HIV", *hospital().values[1:]]  # three cases of HIV, and ST has two
        verdict = verify(release, against=hospital(values=values).source())
        assert failed(verdict) == {"source"}
        assert verdict["source"].summary == (
            "the sensitive values in st.parquet are not those of the table and 4 fake values: 1 rows are missing, "
            "1 are too many"
        )

    def test_a_table_with_more_rows(self, release: Path) -> None:
        source = pa.concat_tables([hospital().source(), hospital().source().slice(1, 1)])  # a case of Cold
        verdict = verify(release, against=source)
        assert failed(verdict) == {"source"}
        assert "1 of the fake values are not there" in verdict["source"].summary

    def test_a_row_of_another_value_that_the_fakes_hide(self, release: Path) -> None:
        """ST has enough of both values: nobody can tell, and the hashes are there for that."""
        values = ["Cold", *hospital().values[1:]]
        assert verify(release, against=hospital(values=values).source())


class TestPublishersLimits:
    """With fake values the counts in ST are not those of the table."""

    THETA = LimitPolicy.of(theta=2, values={"Flu": 1, "Cold": 1, "Gout": 1})  # HIV: 2 of 12, so 1/3

    def test_with_the_table_rules_are_worked_out(self, release: Path) -> None:
        verdict = verify(release, policy=self.THETA, against=hospital().source())
        assert verdict.verified
        assert verdict.notes == ()
        tighter = LimitPolicy.of(theta="1.99", values=self.THETA.values)
        assert failed(verify(release, policy=tighter, against=hospital().source())) == {"limits"}

    def test_without_it_the_manifest_is_taken_and_a_note_says_so(self, release: Path) -> None:
        verdict = verify(release, policy=self.THETA)
        assert verdict.verified
        assert verdict.notes[0].startswith("theta goes by how many records a value has")
        assert "for 1 value the manifest's limit is taken" in verdict.notes[0]

    def test_but_never_more_than_the_rule_can_give(self, release: Path) -> None:
        """ST has two of HIV, so the table has no more: theta 3/2 allows a quarter at most."""
        verdict = verify(release, policy=LimitPolicy.of(theta="3/2", values=self.THETA.values))
        assert failed(verdict) == {"limits"}
        assert any("another limit in the manifest" in note for note in verdict.notes)

    def test_a_manifest_that_allows_more(self, release: Path) -> None:
        edit_manifest(release, lambda m: m["values"][3].update(limit="1"))
        assert verify(release, policy=self.THETA).verified
        assert failed(verify(release, policy=LimitPolicy.of(beta="0.5", values=self.THETA.values))) == {"limits"}

    def test_rules_without_counts_need_no_table(self, release: Path) -> None:
        verdict = verify(release, policy=LimitPolicy.of(uniform=1, values={"HIV": "1/3"}))
        assert verdict.verified
        assert verdict.notes == ()
        assert failed(verify(release, policy=LimitPolicy.of(l_diversity=2))) == {"limits"}

    def test_resolved_limits_are_taken_as_they_are(self, release: Path) -> None:
        exact = {value: Fraction(limit) for value, limit in LIMITS.items()}
        verdict = verify(release, policy=LimitPolicy(values=exact))
        assert verdict.verified
        assert verdict.notes == ()
        below = {**exact, "HIV": Fraction(1, 3) - Fraction(1, 10**30)}
        assert failed(verify(release, policy=LimitPolicy(values=below))) == {"limits"}
        del exact["HIV"]
        assert failed(verify(release, policy=LimitPolicy(values=exact))) == {"limits"}

    def test_counts_that_the_manifest_gets_wrong(self, release: Path) -> None:
        edit_manifest(release, lambda m: m["values"][3].update(count=200))
        source = hospital().source()
        assert failed(verify(release, policy=self.THETA, against=source)) == {"manifest", "values"}
        tighter = LimitPolicy.of(theta="1.99", values=self.THETA.values)
        assert failed(verify(release, policy=tighter, against=source)) == {"manifest", "values", "limits"}

    def test_a_fake_value_that_the_table_has_not(self, tmp_path: Path) -> None:
        made = protected(fakes=[*FAKES[:3], (4, "Ebola")], limits={**LIMITS, "Ebola": "1/3"})
        folder, source = made.write(tmp_path), made.source()
        assert verify(folder, against=source)
        assert failed(verify(folder, policy=self.THETA, against=source)) == {"limits"}
        with_base = LimitPolicy.of(theta=2, base="1/3", values=self.THETA.values)
        assert verify(folder, policy=with_base, against=source).verified


@st.composite
def protected_releases(draw: st.DrawFn) -> Handmade:
    """Any release with fakes and known records, with the tightest limits that it keeps."""
    made = draw(releases())
    sizes = Counter(made.buckets)
    known = draw(st.integers(0, min(sizes.values()) - 1))
    every = draw(st.integers(0, 3))
    names = st.sampled_from(["a", "b", "é", "HIV", "zz"])
    fakes = [(bucket, draw(names)) for bucket in sorted(sizes) for _ in range(every)]
    limits: dict[str, Fraction] = {}
    for (bucket, value), count in Counter([*zip(made.buckets, made.values, strict=True), *fakes]).items():
        share = Fraction(count, sizes[bucket] - known)
        assume(share <= 1)
        limits[value] = max(limits.get(value, share), share)
    texts = {value: str(limit) for value, limit in limits.items()}
    return Handmade(made.types, made.rows, made.values, made.buckets, limits=texts, fakes=fakes, known_records=known)


@given(protected_releases(), st.integers(1, 9), st.data())
def test_generated_releases_pass_and_lower_limits_fail(made: Handmade, batch_rows: int, data: st.DataObject) -> None:
    assert_passes_and_lower_limits_fail(made, batch_rows, data)

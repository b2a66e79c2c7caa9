"""What holds of every generated release: it passes, and fails by a limit that is lower by a hair."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from dalenius.policy.limits import LimitPolicy
from dalenius.verify.judge import verify
from tests.handmade import Handmade


def assert_passes_and_lower_limits_fail(made: Handmade, batch_rows: int, data: st.DataObject) -> None:
    """Every limit of the release is the worst share of its value."""
    with TemporaryDirectory() as scratch:
        folder = made.write(Path(scratch))
        verdict = verify(folder, batch_rows=batch_rows)
        assert verdict.findings == ()
        assert verdict.verified
        value = data.draw(st.sampled_from(sorted(made.limits)))
        exact = {name: Fraction(limit) for name, limit in made.limits.items()}
        below = exact[value] * (1 - Fraction(1, 10**30))
        verdict = verify(folder, policy=LimitPolicy(values={**exact, value: below}), batch_rows=batch_rows)
        assert {check.check for check in verdict.checks if not check.passed} == {"limits"}
        sizes, shown = Counter(made.buckets), Counter(made.shown())
        over = [b for b, size in sizes.items() if Fraction(shown[b, value], size - made.known_records) > below]
        assert verdict["limits"].count == len(over)

"""How hard tests try that could go on for ever: a little in `make test`, much in `make test-all`.

The variable HYPOTHESIS_PROFILE names the profile, "dalenius" if it is not set.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import hypothesis

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dalenius")
_FACTORS = {"dalenius": Fraction(1, 4), "thorough": Fraction(5)}
_LEAST = 5
Case = TypeVar("Case")


def examples(number: int) -> int:
    """How many examples a test gets that deserves `number`: a quarter of them, or five times as many when thorough."""
    return max(_LEAST, int(number * _FACTORS[PROFILE]))


def cases(*every: Case, usually: int) -> Sequence[Case]:
    """The cases of a test that takes long: the first so many of them, which differ most, or all when thorough."""
    return every if PROFILE == "thorough" else every[:usually]


def load_profile() -> None:
    """Register the profiles and take the one that is asked for. Generated tests are not timed."""
    for name, factor in _FACTORS.items():
        hypothesis.settings.register_profile(name, deadline=None, max_examples=int(100 * factor))
    hypothesis.settings.load_profile(PROFILE)

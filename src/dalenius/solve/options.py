"""Are the options for finding a setting sensible?"""

from __future__ import annotations

from typing import Any

from dalenius.errors import UsageError
from dalenius.model.plan import PlanOptions
from dalenius.solve.sizes import LARGEST_SIZE

MOST_FAKES = 1000  # in a bucket: more fakes than that make a release of fakes


def check_options(options: PlanOptions, total: int) -> None:
    """Raise a `UsageError` for the first option that makes no sense for a table of `total` records."""
    _check_sizes(options.min_size, options.max_size, total)
    _check_adversary(options.known_records, options.fake_values, total)
    for name, number in (("gap", options.gap), ("time limit", options.time_limit)):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise UsageError(f"the {name} must be a number, got {type(number).__name__}")
    if not 0 <= options.gap < 1:
        raise UsageError(f"the gap must be at least 0 and below 1, got {options.gap}")
    if not options.time_limit > 0:
        raise UsageError(f"the time limit must be above 0 seconds, got {options.time_limit}")


def _check_sizes(low: int | None, high: int | None, total: int) -> None:
    for name, size in (("smallest", low), ("largest", high)):
        if size is not None:
            _check_whole(f"the {name} bucket size", size, 1)
    if low is not None and high is not None and low > high:
        raise UsageError(f"the smallest bucket size {low} is above the largest, {high}", "Swap them, or leave one out.")
    if low is not None and low > total:
        raise UsageError(
            f"the smallest bucket size {low} is more than the {total} records there are", "Give a smaller --min-size."
        )
    if high is not None and min(high, total) > LARGEST_SIZE:
        raise UsageError(
            f"the largest bucket size {high:,} is above {LARGEST_SIZE:,}, the most that is searched",
            "Give a smaller --max-size, or none.",
        )


def _check_adversary(known_records: int, fake_values: int, total: int) -> None:
    _check_whole("the number of known records", known_records, 0)
    _check_whole("the number of fake values", fake_values, 0)
    if known_records >= total and known_records:
        raise UsageError(
            f"an adversary who knows {known_records:,} records knows all of the {total:,} there are",
            "Give a smaller --corrupted.",
        )
    if fake_values > MOST_FAKES:
        raise UsageError(
            f"{fake_values:,} fake values in a bucket are more than the {MOST_FAKES:,} that are allowed",
            "Give a smaller --fakes.",
        )


def _check_whole(name: str, number: Any, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise UsageError(f"{name} must be a whole number, got {type(number).__name__}")
    if number < least:
        raise UsageError(f"{name} must be at least {least}, got {number}")

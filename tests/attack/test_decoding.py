"""The order attack: decode the sensitive values from the order of the rows alone.

The adversary knows the algorithm: the value with the most records is dealt out first, round-robin, then the next, in
the order of the file. ST shows how many records each value has in each bucket. If QIT is left in the order of the file,
and ranks are places in the file, then the t-th row that a value is responsible for goes to bucket (P + t) mod b: walk
the rows in the published order, keep for each value the bucket that it must hit next, and take the value whose next
bucket is the row's. Against a release in canonical order with keyed ranks, the walk finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import dalenius

COUNTS = [3517, 3083, 2711, 2399, 2107, 1801, 1499, 1201, 907, 775]
ROWS, VALUES, SIZE = sum(COUNTS), len(COUNTS), 5


def people(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A person each with a number of its own, in the order of the file, and a sensitive value."""
    rng = np.random.default_rng(seed)
    values = rng.permutation(np.repeat(np.arange(VALUES), COUNTS))
    return np.arange(ROWS), values


def naive_buckets(values: np.ndarray) -> np.ndarray:
    """Round-robin in the order of the file: what the paper's algorithm does when nobody shuffles."""
    buckets = ROWS // SIZE
    start = np.concatenate(([0], np.cumsum(np.bincount(values))[:-1]))
    seen = np.zeros(VALUES, dtype=int)
    placed = np.empty(ROWS, dtype=int)
    for row, value in enumerate(values):
        placed[row] = (start[value] + seen[value]) % buckets + 1
        seen[value] += 1
    return placed


def decode(buckets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The attack: for each row in published order, the value whose turn it is in the row's bucket."""
    number = int(buckets.max())
    turn = np.concatenate(([0], np.cumsum(counts)[:-1])) % number
    left = counts.copy()
    guesses = np.empty(len(buckets), dtype=int)
    for row, bucket in enumerate(buckets):
        late = np.where(left > 0, (bucket - 1 - turn) % number, number)
        guess = int(late.argmin())
        guesses[row] = guess
        turn[guess] = bucket % number
        left[guess] -= 1
    return guesses


def chance(share: float) -> float:
    """The most that guessing within the bucket gets right, but for one time in a million."""
    return share + 5 * float(np.sqrt(share * (1 - share) / ROWS))


def test_the_attack_breaks_a_naive_release() -> None:
    _, values = people()
    guesses = decode(naive_buckets(values), np.bincount(values))
    assert float((guesses == values).mean()) > 0.9


@pytest.mark.parametrize("kind", ["packed", "wide"])
def test_the_attack_finds_nothing_in_a_published_release(kind: str) -> None:
    numbers, values = people()
    columns = {"number": pa.array(numbers), "value": pa.array(values)}
    names = ["number"]
    if kind == "wide":
        columns |= {
            "far": pa.array([2**62 if n % 2 else -(2**62) for n in numbers.tolist()]),
            "text": pa.array(numbers.astype(str)),
        }
        columns |= {"large": pa.array(numbers.astype(np.int64) * 10**14)}
        names = ["far", "large", "text", "number"]
    release = dalenius.publish(
        pa.table(columns), {"uniform": "1/5"}, sensitive="value", quasi_identifiers=names, max_size=SIZE
    )
    qit = release.qit
    published = qit["number"].to_numpy()
    buckets = qit["bucket"].to_numpy()
    truth = values[published]
    counts = np.bincount(values)
    assert release.manifest.setting[0].size == SIZE
    for order in (np.arange(ROWS), np.argsort(published)):  # as published, and as in the file the adversary may know
        guesses = decode(buckets[order], counts)
        assert float((guesses == truth[order]).mean()) < chance(1 / SIZE)


def test_the_order_of_the_file_does_not_show_in_the_buckets() -> None:
    """The buckets of neighbours in the file that share a value are as far apart as those of any two that do."""
    numbers, values = people(1)
    table = pa.table({"number": pa.array(numbers), "value": pa.array(values)})
    release = dalenius.publish(
        table, {"uniform": "1/5"}, sensitive="value", quasi_identifiers=["number"], max_size=SIZE
    )
    bucket_of = np.empty(ROWS, dtype=int)
    bucket_of[release.qit["number"].to_numpy()] = release.qit["bucket"].to_numpy()

    def gaps(row_of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        found = np.zeros(20)
        for value in range(VALUES):
            row = row_of(bucket_of[values == value])
            found += np.bincount(np.diff(row) % (ROWS // SIZE) * 20 // (ROWS // SIZE), minlength=20)
        return found

    rng = np.random.default_rng(2)
    expected = np.mean([gaps(rng.permutation) for _ in range(100)], axis=0)
    assert ((gaps(np.asarray) - expected) ** 2 / expected).sum() < 60  # 19 degrees of freedom, p = 0.000004

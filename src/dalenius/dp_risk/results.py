"""What an observer of two noisy counts can pin on people, beside what a release reveals to the same observer.

A group is all people with the same quasi-identifiers, or all who meet a predicate. It has x people, of whom y carry a
value with the limit f'. The observer sees X = x + noise and Y = y + noise, and takes Y/X for the chance that somebody
of the group carries the value: 0 if Y is below 0, 1 if it is above X, and no claim at all if X is not above 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

PROMISE = (
    "Differential privacy promises that the answers would be nearly as likely if any one person were not in the table. "
    "It does not promise that nothing about a person can be inferred from the others. What is shown here is such "
    "inference, from population statistics; it is no breach of differential privacy."
)


@dataclass(frozen=True)
class Ratio:
    """Y/X under one epsilon: Theorem 2's numbers, and the simulated median and central 95 % interval."""

    epsilon: float
    mean: float
    variance: float
    median: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class TheoremPoint:
    """Theorem 2 and the simulation side by side, for given x and y; the theorem's mean is `factor` times y/x."""

    size: int
    count: int
    factor: float
    ratio: Ratio


@dataclass(frozen=True)
class ReleaseShares:
    """What an F'-private release reveals about some of the people: the share of their own value in their buckets.

    `mean_share` is the mean over these people, expected over the random placement of the release; `largest_share` the
    largest that any placement can give one of them; `above_limit` the number of them whose share is above the limit.
    """

    mean_share: float
    largest_share: float
    above_limit: int


@dataclass(frozen=True)
class ValueRisk:
    """One sensitive value in one group: `count` (y) people carry it.

    `above` says whether y/x is above the limit. `pinned` has for each epsilon the chance that Y/X is. `released` is
    the largest share that the value has in a bucket of the release, `released_mean` the share that somebody who
    carries it can expect in theirs; None without a release.
    """

    value: str
    count: int
    limit: Fraction
    above: bool
    ratios: tuple[Ratio, ...]
    pinned: tuple[float, ...]
    released: Fraction | None
    released_mean: float | None


@dataclass(frozen=True)
class GroupRisk:
    """One group of `size` (x) people. `group` has its quasi-identifiers, as text; None if it is too small to show.

    `pinned` and `pinned_rightly` are expected numbers of people, for each epsilon. `release` is what a release reveals
    about its people. `values` are those with most people pinned, those above their limit first, `more_values` the
    number of the others.
    """

    size: int
    group: dict[str, str | None] | None
    pinned: tuple[float, ...]
    pinned_rightly: tuple[float, ...]
    release: ReleaseShares | None
    values: tuple[ValueRisk, ...]
    more_values: int


@dataclass(frozen=True)
class EpsilonRisk:
    """Shares of people under one epsilon.

    `pinned`: the noisy ratio for the person's own value is above its limit. `pinned_rightly`: and so is y/x. The
    standard errors are those of the simulation. `mean_estimate` is the mean of what the observer takes for the chance
    of the person's own value (0 where there is no claim). `median_relative_error` is that of Y/X as an estimate of
    y/x, over people and draws.
    """

    epsilon: float
    pinned: float
    pinned_error: float
    pinned_rightly: float
    pinned_rightly_error: float
    mean_estimate: float
    median_relative_error: float


@dataclass(frozen=True)
class SizeRisk:
    """The groups of `least` to `most` people.

    `exact` is the share of people whose y/x is above the limit, `noise_alone` the share that would be pinned if both
    counts were 0 and the noise were all there is. `release` is what a release reveals about their people.
    """

    least: int
    most: int
    groups: int
    people: int
    exact: float
    noise_alone: float
    release: ReleaseShares | None
    epsilons: tuple[EpsilonRisk, ...]


@dataclass(frozen=True)
class ReleaseRisk:
    """What an F'-private release of the same table reveals to this observer: count / size in the person's bucket.

    `above_limit` counts people whose own value has a share above its limit in their bucket. Mean and largest share are
    over people, of their own value.
    """

    status: str
    buckets: int
    mse: float
    above_limit: int
    mean_share: float
    largest_share: float


@dataclass(frozen=True)
class DpRisk:
    """The whole answer. Without quasi-identifiers there are no `groups`, `epsilons`, `sizes` and `top`.

    `exact` and `mean_share` are what exact counts would reveal: the share of people with y/x above the limit, and the
    mean of y/x over people. `noise_alone` is the share that noise without any counts would pin. `group_rows` is the
    number of rows in the file of all groups; None without such a file.
    """

    people: int
    groups: int
    draws: int
    least_shown: int
    exact: float | None
    mean_share: float | None
    noise_alone: float | None
    epsilons: tuple[EpsilonRisk, ...]
    sizes: tuple[SizeRisk, ...]
    top: tuple[GroupRisk, ...]
    predicate: GroupRisk | None
    theorem: tuple[TheoremPoint, ...]
    release: ReleaseRisk | None
    group_rows: int | None
    notes: tuple[str, ...]

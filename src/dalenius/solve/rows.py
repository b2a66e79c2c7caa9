"""What an inequality in b is, and what it has to know of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dalenius.solve.caps import Integers, Mask
from dalenius.solve.forest import Forest


class Demand(Protocol):
    """What a cut needs to know of a problem: an `Instance`, or one of many problems that share their caps."""

    @property
    def counts(self) -> Integers:
        """K o_i."""

    @property
    def demands(self) -> Integers:
        """What PC asks room for: K o_i; more where records have several values each (`units_bound.py`)."""

    @property
    def units(self) -> int:
        """K."""

    @property
    def total(self) -> int:
        """n."""

    @property
    def forest(self) -> Forest | None:
        """The groups of values that have limits; None if there are none."""


class Row(Protocol):
    """sum_S a(S) b(S) >= right, with a(S) defined for every size."""

    @property
    def right(self) -> int:
        """The right-hand side."""

    @property
    def units(self) -> int:
        """The divisor that makes the row's numbers those of records."""

    @property
    def key(self) -> object:
        """Equal for equal rows."""

    def coefficients(self, sizes: Integers, caps: Integers) -> Integers:
        """a(S) for each of the given sizes, whose caps are the columns of `caps`."""

    def terms(self, size: int) -> Terms | None:
        """The terms of a(S), at this size and up to the next of the `edges`; None for a(S) = 0."""

    @property
    def edges(self) -> tuple[int, ...]:
        """The sizes at which the terms change."""


@dataclass(frozen=True)
class Terms:
    """a(S) = the caps of the masked values, added up, - per_size * S - per_loss * (S - 1)^2."""

    values: Mask | None = None
    per_size: int = 0
    per_loss: int = 0


@dataclass(frozen=True)
class LossRow:
    """The loss is at most `most`: sum_S -(S-1)^2 b(S) >= -most. Holds for the settings that beat a known one."""

    most: int

    @property
    def right(self) -> int:
        """The right-hand side."""
        return -self.most

    @property
    def units(self) -> int:
        """The loss is as it is."""
        return 1

    @property
    def key(self) -> object:
        """Equal for equal rows."""
        return self

    def coefficients(self, sizes: Integers, caps: Integers) -> Integers:  # noqa: ARG002 (the loss knows no caps)
        """-(S-1)^2."""
        return -((sizes - 1) ** 2)

    def terms(self, size: int) -> Terms | None:  # noqa: ARG002 (the same at every size)
        """The loss alone."""
        return Terms(per_loss=1)

    @property
    def edges(self) -> tuple[int, ...]:
        """None: the terms never change."""
        return ()

"""Every error that Dalenius raises on purpose, in one tree.

A message says what failed, the number that was got, the number that was needed, and what to do next. It never
carries a row or a cell of somebody's data, beyond a sensitive value's name where the message is about its limit.

Did you mean ...? The nearest known name to one that is not known.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DaleniusError(Exception):
    """The root of the tree. `kind` is the stable, machine-readable name that `--json` prints."""

    kind = "error"
    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(DaleniusError):
    """Options or arguments that do not go together."""

    kind = "usage"


class InputError(DaleniusError):
    """A table or a file of counts that cannot be used as it is."""

    kind = "input"


class NoSuchColumnError(InputError):
    """A column was named that the table does not have."""

    kind = "no-such-column"


class NullsError(InputError):
    """The sensitive column has nulls, and nobody said what they mean."""

    kind = "nulls"

    @classmethod
    def in_column(cls, column: str, nulls: int, rows: int) -> NullsError:
        """So many nulls in so many rows."""
        return cls(
            f"the sensitive column {column!r} has {nulls:,} nulls in {rows:,} rows",
            "Say what they mean with --null-value NAME (they then count as that value), "
            "or take those rows out of the table first.",
        )


class TooManyValuesError(InputError):
    """The sensitive column has more different values than can be protected one by one."""

    kind = "too-many-values"

    @classmethod
    def in_column(cls, column: str, most: int) -> TooManyValuesError:
        """More than `most` values."""
        return cls(
            f"the sensitive column {column!r} has more than {most:,} different values",
            "Is it an identifier, or a measurement? Group its values first.",
        )


class CountsError(InputError):
    """Counts that are empty, negative, not whole numbers, or given twice for one value."""

    kind = "counts"


class PolicyError(DaleniusError):
    """A policy that is malformed, or does not cover every sensitive value."""

    kind = "policy"


class JobFileError(PolicyError):
    """A job file that cannot be read, or has keys that Dalenius does not know."""

    kind = "job-file"


class UndecidedError(DaleniusError):
    """Time ran out before a setting was found, or proven not to exist."""

    kind = "undecided"


class NoSolutionError(DaleniusError):
    """No release exists under these limits. `plan` says why."""

    kind = "no-solution"
    exit_code = 3

    def __init__(self, message: str, hint: str | None, plan: object) -> None:
        super().__init__(message, hint)
        self.plan = plan


class SelfCheckError(DaleniusError):
    """A release did not pass its own verification. This is probably a bug in Dalenius; nothing was published."""

    kind = "internal"
    exit_code = 70


class SolverError(DaleniusError):
    """The optimiser answered with something that cannot be. This is probably a bug in Dalenius."""

    kind = "internal"
    exit_code = 70


class ReleaseError(InputError):
    """A folder that is not a release, or whose files cannot be read."""

    kind = "release"


class QueryError(DaleniusError):
    """A query that is not an expression over the published columns."""

    kind = "query"


class OutputError(DaleniusError):
    """A release that cannot be written where it was asked for."""

    kind = "output"


class ChangedInputError(InputError):
    """The table changed while it was being read."""

    kind = "input-changed"


class EngineError(DaleniusError):
    """A cluster that could not be reached, or could not do its part."""

    kind = "engine"


class CancelledError(DaleniusError):
    """Somebody asked for the work to stop: a `Progress` raises it, and whatever was begun is undone."""

    kind = "cancelled"

    def __init__(self, message: str = "the work was cancelled", hint: str | None = None) -> None:
        super().__init__(message, hint)


class MissingExtraError(DaleniusError):
    """A library that only some commands need is not installed."""

    kind = "missing-extra"

    @classmethod
    def of(cls, what: str, extra: str) -> MissingExtraError:
        """What is missing, and the extra that has it."""
        return cls(f"{what} is not installed", f"Install it with: pip install 'dalenius[{extra}]'")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, if one is like it at all."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold().strip(), candidate)
    close = difflib.get_close_matches(name.casefold().strip(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known name, or lists the known ones."""
    names = list(known)
    close = nearest_name(name, names)
    if close is not None:
        return f"Did you mean {close!r}?"
    listed = ", ".join(repr(known_name) for known_name in names[:12])
    return f"Known: {listed}{', ...' if len(names) > 12 else ''}." if names else ""

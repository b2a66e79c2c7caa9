"""Every error that Dalenius raises on purpose, in one tree, and the "Did you mean ...?" of their hints.

A message says what failed, which number Dalenius got, which number it needs, and what to do next. It never carries a
row or a cell of somebody's data, except a sensitive value's name where the message is about its limit.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class DaleniusError(Exception):
    """The root of the tree. `kind` is a stable name for programs, which `--json` prints."""

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
    """A table or a file of counts that Dalenius cannot use as it is."""

    kind = "input"


class NoSuchColumnError(InputError):
    """The table has no column of that name."""

    kind = "no-such-column"

    @classmethod
    def in_table(cls, column: str, columns: Sequence[str]) -> NoSuchColumnError:
        """The hint names the nearest column.

        The others are not listed: in a file without a header line they would be somebody's data.
        """
        close = nearest_name(column, columns)
        number = f"It has {len(columns)} columns; is the first line of the file its header?"
        return cls(f"the table has no column {column!r}", f"Did you mean {close!r}?" if close is not None else number)


class NullsError(InputError):
    """The sensitive column has nulls, and the caller gave them no name."""

    kind = "nulls"

    @classmethod
    def in_column(cls, column: str, nulls: int, rows: int) -> NullsError:
        """The error for a column with `nulls` nulls in `rows` rows."""
        return cls(
            f"the sensitive column {column!r} has {nulls:,} nulls in {rows:,} rows",
            "Give nulls a name with --null-value NAME, under which they count as a value, or remove those rows first.",
        )


class TooManyValuesError(InputError):
    """The sensitive column has more different values than can be protected one by one."""

    kind = "too-many-values"

    @classmethod
    def in_column(cls, column: str, most: int) -> TooManyValuesError:
        """The error for a column with more than `most` values."""
        return cls(
            f"the sensitive column {column!r} has more than {most:,} different values",
            "Is it an identifier? If it has numbers, let limits be on bands of them: --groups quantiles:8.",
        )


class CountsError(InputError):
    """Counts that are empty, negative, not whole numbers, or given twice for one value."""

    kind = "counts"


class PolicyError(DaleniusError):
    """A policy that is malformed, or does not cover every sensitive value."""

    kind = "policy"


class AbsentCodesError(PolicyError):
    """A code was named for what is missing or does not apply, and no record has it: likely a typing error."""

    @classmethod
    def of(cls, codes: Sequence[str], named: str, known: Iterable[str]) -> AbsentCodesError:
        """For codes that were named under `named`, in a column with these values."""
        close = nearest_name(codes[0], known)
        more = f" (and {len(codes) - 1} more)" if len(codes) > 1 else ""
        return cls(
            f"{codes[0]!r}{more} is under {named}, and no record has it",
            (f"Did you mean {close!r}? " if close is not None else "")
            + "Where it is meant, say so: --allow-absent-values, or allow_absent = true in the job file's [limits].",
        )


class ClearValuesError(PolicyError):
    """A policy under which somebody's value would be published outright, though nobody has asked for it."""


class JobFileError(PolicyError):
    """A job file that cannot be read, or has keys that Dalenius does not know."""

    kind = "job-file"


class KeyFileError(DaleniusError):
    """A file that is not the key that was asked for, or that cannot be opened with the passphrase given."""

    kind = "key-file"


class LedgerError(DaleniusError):
    """The private file of a chain of releases that does not belong to the release, or cannot be used."""

    kind = "ledger"


class UndecidedError(DaleniusError):
    """Time ran out before a setting was found, or proven impossible."""

    kind = "undecided"


class NoSolutionError(DaleniusError):
    """No release exists under these limits. `plan` says why, if the message does not say it all.

    `most_rows` is how many rows people may keep at most, where that would help.
    """

    kind = "no-solution"
    exit_code = 3

    def __init__(self, message: str, hint: str | None, plan: object = None, most_rows: int | None = None) -> None:
        super().__init__(message, hint)
        self.plan, self.most_rows = plan, most_rows


class ConcernsError(DaleniusError):
    """The table has something to look at before it is published, and that was to be an error."""

    kind = "concerns"


class SelfCheckError(DaleniusError):
    """A release did not pass its own verification. This is probably a bug in Dalenius; nothing was published."""

    kind = "internal"
    exit_code = 70


class SolverError(DaleniusError):
    """A solver returned an impossible answer. This is probably a bug in Dalenius."""

    kind = "internal"
    exit_code = 70


class ReleaseError(InputError):
    """A folder that is not a release, or whose files cannot be read."""

    kind = "release"


class MemoryLimitError(DaleniusError):
    """Reading a release would take more memory than the program may have."""

    kind = "memory"


class QueryError(DaleniusError):
    """A query that is not an expression over the published columns."""

    kind = "query"


class TimeLimitError(QueryError):
    """A count that takes longer than it may."""

    kind = "timeout"


class OutputError(DaleniusError):
    """A place where Dalenius cannot write its output."""

    kind = "output"


class ChangedInputError(InputError):
    """The table changed while Dalenius was reading it."""

    kind = "input-changed"


class EngineError(DaleniusError):
    """A cluster that Dalenius could not reach, or that failed."""

    kind = "engine"


class CancelledError(DaleniusError):
    """Somebody cancelled the work. A `Progress` raises it, and whatever was begun is undone."""

    kind = "cancelled"

    def __init__(self, message: str = "the work was cancelled", hint: str | None = None) -> None:
        super().__init__(message, hint)


class MissingExtraError(DaleniusError):
    """A library that only some commands need is missing."""

    kind = "missing-extra"

    @classmethod
    def of(cls, what: str, extra: str) -> MissingExtraError:
        """The error for a missing library, with the extra to install."""
        return cls(f"{what} is not installed", f"Install it with: pip install 'dalenius[{extra}]'")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `name`, if any is similar."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold().strip(), candidate)
    close = difflib.get_close_matches(name.casefold().strip(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or else with a list of known names."""
    names = list(known)
    close = nearest_name(name, names)
    if close is not None:
        return f"Did you mean {close!r}?"
    listed = ", ".join(repr(known_name) for known_name in names[:12])
    return f"Known: {listed}{', ...' if len(names) > 12 else ''}." if names else ""

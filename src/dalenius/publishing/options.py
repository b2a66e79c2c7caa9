"""What a publisher asks for: the table, the roles of its columns, the limits, and how the release is made and written.

A `PublishRequest` is checked when it is made, before anything is read or written. It also names the engine that does
the work: this process (DuckDB and Arrow), or Spark.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import secrets
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from dalenius.errors import UsageError, nearest_name
from dalenius.model.groups import LONGEST_NAME
from dalenius.model.plan import Method, PlanOptions
from dalenius.model.problem import MOST_CODES, name_of_nulls
from dalenius.place.budget import Budget
from dalenius.place.permutation import KEY_BYTES
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.not_applicable import refuse_fakes
from dalenius.policy.roles import Roles, SensitiveSet, check_roles
from dalenius.policy.sensitive_sets import Limits, limits_of_sets
from dalenius.publishing.people_rules import check_chain, check_most_rows, check_people
from dalenius.release.writer import FORMATS, Format

if TYPE_CHECKING:
    from dalenius.release.manifest import Manifest
    from dalenius.release.signature import SigningKey

LOCAL, SPARK = "duckdb", "spark"

_FORMATS: dict[str, tuple[Format, ...]] = {LOCAL: FORMATS, SPARK: ("parts",)}  # of each engine, its usual one first
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_STRATA_HINT = "Give auto, none, a number, or names of quasi-identifiers."
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class PublishOptions:
    """How a release is made and written. `table` names a table of a DuckDB file; `format` defaults to the engine's.

    Texts of the sensitive column that are `missing` count as nulls do, under `null_value`, or else as "missing".
    Values that are `not_applicable` have no limits, and buckets of their own.
    `in_the_clear` allows a release that publishes somebody's value outright. `sign` is the key to sign it with.
    Of people with more than `most_rows` rows, so many at random are kept.

    With a `ledger` the release is one of a chain: the first, or the next `after` another one. `hold_back` lets new
    people wait who are too few for buckets of their own, and `counterfeits` fill their buckets up. `values_change` says
    that most people may have another value than before.
    """

    null_value: str | None = None
    missing: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    table: str | None = None
    format: Format | None = None
    force: bool = False
    memory: int | None = None
    seed: int | None = None
    avoid_ruled_out: bool = False
    strata: str | int | Sequence[str] | None = "auto"
    in_the_clear: bool = False
    strict: bool = False
    engine: str = LOCAL
    master: str | None = None
    spark_remote: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()
    sign: SigningKey | str | os.PathLike[str] | None = None
    most_rows: int | None = None
    ledger: str | os.PathLike[str] | None = None
    after: str | os.PathLike[str] | None = None
    hold_back: bool = False
    counterfeits: bool = False
    values_change: bool = False

    @property
    def null_name(self) -> str | None:
        """The name under which nulls count, and the texts that are `missing`."""
        return name_of_nulls(self.null_value, self.missing)


@dataclass(frozen=True)
class StrataChoice:
    """`auto`, `none`, at most a `number` of strata, or one for each combination of the values of some `columns`."""

    kind: Literal["auto", "none", "number", "columns"]
    number: int = 0
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: str | int | Sequence[str] | None, quasi_identifiers: Sequence[str]) -> StrataChoice:
        """From an option: None means `none`, and a text that is neither a word nor a number names a column."""
        if given is None:
            return cls("none")
        if isinstance(given, str):  # a column called "auto" or "12" has to be given in a list
            word = given.strip().casefold()
            if word in ("auto", "none"):
                return cls("auto") if word == "auto" else cls("none")
            if _NUMBER.fullmatch(word):
                given = int(word)
        if isinstance(given, int) and not isinstance(given, bool):
            return cls._at_most(given)
        return cls("columns", columns=_strata_columns(given, quasi_identifiers))

    @classmethod
    def _at_most(cls, number: int) -> StrataChoice:
        if number < 1:
            raise UsageError(f"there cannot be {number} strata", _STRATA_HINT)
        return cls("number", number) if number > 1 else cls("none")


@dataclass(frozen=True, kw_only=True)
class PublishRequest:
    """Everything that a publisher asks for, checked.

    `key` is the source of everything random in a release except fake values. It exists as long as this object does.
    `limits` are those of the first sensitive set. Where people count, and not rows, `set_limits` has those of each set.
    """

    table: Any
    roles: Roles
    limits: LimitPolicy | Mapping[Any, Any]
    method: Method | str = Method.OPTIMAL
    solving: PlanOptions = field(default_factory=PlanOptions)
    options: PublishOptions = field(default_factory=PublishOptions)
    set_limits: tuple[LimitPolicy | Mapping[Any, Any], ...] = ()
    strata: StrataChoice = field(init=False)
    budget: Budget = field(init=False)
    key: bytes = field(init=False, repr=False)
    signing_key: SigningKey | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        options = choose_engine(self.table, self.options)
        check_roles(self.roles)
        _check_numbers(options)
        check_most_rows(self.roles, options.most_rows)
        roles, set_limits = _sets_of(self.roles, self.limits, self.set_limits, options)
        _check_codes(roles, options, self.solving)
        check_chain(self.roles, self.limits, options)
        if self.by_people and options.ledger is None:
            check_people(roles, set_limits, options, self.solving)
        derived = {
            "options": options,
            "roles": roles,
            "set_limits": set_limits,
            "budget": Budget.of(options.memory),
            "key": _key(options.seed),
            "strata": StrataChoice.of(options.strata, self.roles.quasi_identifiers),
            "signing_key": _signing_key(options.sign),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def limited(self, limits: LimitPolicy, *, cut: bool = True) -> PublishRequest:
        """The same request with other limits, or without strata: same key, and the memory that there was when it was
        made."""
        other = copy(self)
        object.__setattr__(other, "limits", limits)
        object.__setattr__(other, "strata", self.strata if cut else StrataChoice("none"))
        return other

    @property
    def by_people(self) -> bool:
        """Whether people may have several rows or sensitive values: then people count, and not rows."""
        return self.roles.by_people

    @property
    def format(self) -> Format:
        """How the two tables are written."""
        return self.options.format or FORMATS[0]

    def signature(self, manifest: Manifest) -> bytes | None:
        """The signature of a manifest, as it is stored; None if the release is not to be signed."""
        return self.signing_key.sign(manifest.to_json().encode()) if self.signing_key is not None else None

    def random_bits(self) -> random.Random:
        """The source of fake values: the operating system, or, for tests, the seed."""
        seed = self.options.seed
        return secrets.SystemRandom() if seed is None else random.Random(f"dalenius seed {seed}")  # noqa: S311 (tests)


def choose_engine(table: Any, options: PublishOptions) -> PublishOptions:
    """The options with the engine that the table needs and its usual format; an error if they contradict each other."""
    if options.engine not in _FORMATS:
        raise UsageError(f"there is no engine {options.engine!r}", f"Known: {', '.join(_FORMATS)}.")
    is_frame = _is_spark_frame(table)
    engine = SPARK if is_frame else options.engine
    if engine == SPARK:
        _check_spark(options, is_frame)
    else:
        refuse_url(table, "the table")
        _refuse_spark_options(options)
    return replace(options, engine=engine, format=_choose_format(options.format, engine))


def refuse_url(path: Any, what: str) -> None:
    """Refuse a URL where a path of this machine is needed: a folder of that name could otherwise be created."""
    if isinstance(path, str | os.PathLike) and _URL.match(os.fspath(path)):
        raise UsageError(f"{what} is a URL, which only Spark can read", "Give a path, or --engine spark.")


def _check_spark(options: PublishOptions, is_frame: bool) -> None:
    if options.master is not None and options.spark_remote is not None:
        raise UsageError("both a master and a Spark Connect server are given", "Give --master or --spark-remote.")
    if is_frame and (options.master is not None or options.spark_remote is not None):
        raise UsageError("the DataFrame has a session of its own", "Leave the master and the Spark Connect server out.")
    if options.spark_remote is not None and options.avoid_ruled_out:
        raise UsageError(
            "exchanging fakes means writing again, and nothing written through Spark Connect can be removed",
            "Leave --avoid-ruled-out out, or submit the job with --master.",
        )


def _refuse_spark_options(options: PublishOptions) -> None:
    for name, value in (("master", options.master), ("spark-remote", options.spark_remote)):
        if value is not None:
            raise UsageError(f"--{name} is for Spark", "Give --engine spark as well, or leave it out.")
    if options.spark_conf:
        raise UsageError("Spark settings are given without Spark", "Give --engine spark, or leave them out.")


def _choose_format(format: Format | None, engine: str) -> Format:
    usual, *_ = known = _FORMATS[engine]
    if format is None:
        return usual
    if format not in FORMATS:
        raise UsageError(f"there is no format {format!r}", f"Known: {', '.join(known)}.")
    if format not in known:
        raise UsageError(f"Spark does not write releases as {format}", f"Leave the format out, or say {usual}.")
    return format


def _is_spark_frame(table: Any) -> bool:
    """Judged by its type, since Spark need not be installed."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(table).__mro__
    )


def _sets_of(
    roles: Roles, limits: Limits, set_limits: tuple[Limits, ...], options: PublishOptions
) -> tuple[Roles, tuple[Limits, ...]]:
    """The roles and the limits with the sets that they leave unsaid; neither has any in a plain request."""
    if not roles.by_people:
        return replace(roles, sets=()), ()
    if not roles.sets:
        only = SensitiveSet(roles.sensitive, (roles.sensitive,), options.null_value, options.missing)
        roles = replace(roles, sets=(only,))
    own: list[Limits | None] = [None] * len(roles.sets)
    limits_by_set = set_limits or limits_of_sets(limits, own, [one.name for one in roles.sets])
    if len(limits_by_set) != len(roles.sets):
        raise UsageError(f"there are {len(roles.sets)} sensitive sets, and limits for {len(limits_by_set)}")
    return roles, limits_by_set


def _check_codes(roles: Roles, options: PublishOptions, solving: PlanOptions) -> None:
    for missing in (options.missing, *(one.missing for one in roles.sets)):
        if not all(isinstance(code, str) for code in (*missing, *options.not_applicable)):
            raise UsageError("codes must be text", "Give them as the column's texts: ['?', '-9'].")
        if len(missing) > MOST_CODES or any(len(code) > LONGEST_NAME for code in missing):
            raise UsageError(
                f"at most {MOST_CODES} codes for what is missing, of at most {LONGEST_NAME} characters, can be "
                "published",
                "Turn values that are missing into nulls first.",
            )
    both = next((code for code in options.missing if code in options.not_applicable), None)
    if both is not None:
        raise UsageError(f"{both!r} is under missing and under not_applicable", "Keep one of them.")
    refuse_fakes(options.not_applicable, solving.fake_values)


def _check_numbers(options: PublishOptions) -> None:
    seed, memory = options.seed, options.memory
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise UsageError(f"the seed must be a whole number, got {type(seed).__name__}")
    if seed is not None and seed < 0:
        raise UsageError(f"the seed must not be negative, got {seed}")
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int)):
        raise UsageError(f"memory is a number of bytes, got {type(memory).__name__}", "Give 2 * 10**9.")


def _key(seed: int | None) -> bytes:
    return secrets.token_bytes(KEY_BYTES) if seed is None else hashlib.sha256(f"dalenius seed {seed}".encode()).digest()


def _signing_key(given: SigningKey | str | os.PathLike[str] | None) -> SigningKey | None:
    if not isinstance(given, str | os.PathLike):
        return given
    from dalenius.release.signature import read_signing_key  # here, because few releases are signed

    return read_signing_key(given)


def _strata_columns(given: Any, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise UsageError(f"strata cannot be given by a {type(given).__name__}", _STRATA_HINT)
    if not any(name.strip() for name in names):
        raise UsageError("no column is named to cut strata by", _STRATA_HINT)
    for name in names:
        if name not in quasi_identifiers:
            close = nearest_name(name, quasi_identifiers)
            raise UsageError(
                f"strata are cut by quasi-identifiers, and {name!r} is not one of them",
                f"Did you mean {close!r}?" if close is not None else _STRATA_HINT,
            )
    return tuple(dict.fromkeys(names))

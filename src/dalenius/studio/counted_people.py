"""Who has what, for drafts in which people count and not rows: counted once, in the background, and kept in memory.

From that an answer is quick which says whom limits concern, what they come to, and whether some of them cannot be kept.
What a release would cost is not known without making its buckets: `people_plans` does that when somebody asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from dalenius.errors import AbsentCodesError, ChangedInputError, DaleniusError, NoSolutionError, SelfCheckError
from dalenius.model.groups import NO_GROUP, Groups
from dalenius.place.budget import Budget
from dalenius.place.people import SetSpec
from dalenius.place.people_counts import CountedPeople
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.roles import SensitiveSet
from dalenius.publishing.engine import open_engine
from dalenius.publishing.local import LocalTable
from dalenius.publishing.options import PublishOptions
from dalenius.publishing.people_limits import LimitedSet, all_items, limit_set
from dalenius.publishing.telling_numbers import refuse_telling_numbers
from dalenius.solve.sizes import HIDING_SIZE
from dalenius.studio.draft import Draft
from dalenius.studio.exploration import Exploration, ExploredTree, Obstacle, Offer, exploration_object
from dalenius.studio.messages import RequestError, error_object, internal_object, on_a_page
from dalenius.studio.offers import rounded_up
from dalenius.studio.set_choice import sensitive_set
from dalenius.studio.table_entries import Stamp, TableEntry

_NAMES = 3


class PeopleKey(NamedTuple):
    """What the counts depend on."""

    table: str
    stamp: Stamp
    person: str | None
    sets: tuple[SensitiveSet, ...]

    @classmethod
    def of(cls, table: TableEntry, draft: Draft) -> PeopleKey:
        """Those of a draft, of a table as it was read."""
        roles = draft.roles
        return cls(table.id, table.stamp, roles.person, tuple(sensitive_set(one, roles) for one in roles.all_sets))


@dataclass(frozen=True)
class PeopleColumns:
    """The sensitive sets, as far as they are counted."""

    key: PeopleKey
    status: Literal["counting", "ready", "failed"] = "counting"
    counted: CountedPeople | None = None
    error: dict[str, Any] | None = None

    def require(self) -> CountedPeople:
        """The counts, or an error that says why there are none yet."""
        if self.counted is not None:
            return self.counted
        if self.status == "counting":
            raise RequestError(409, "counting", "the sensitive columns are being counted", "Ask again in a moment.")
        error = self.error or {}
        raise RequestError(
            400, error.get("kind", "input"), error.get("message", "the columns cannot be counted"), error.get("hint")
        )

    def state(self) -> dict[str, Any]:
        """As GET /api/state has it: the total and the values are those of people."""
        counted = self.counted
        several = counted.rows_each[counted.rows_each > 1] if counted is not None else ()
        return {
            "column": self.key.sets[0].name,
            "total": counted.number if counted is not None else None,
            "values": len(counted.columns[0].texts) if counted is not None else None,
            "numbers": None,
            "cuts": "",
            "bands_advised": False,
            "status": self.status,
            "error": self.error,
            "rows": counted.rows if counted is not None else None,
            "people_with_several_rows": len(several),
            "most_rows_of_a_person": int(counted.rows_each.max()) if counted is not None else None,
        }


class PeopleCounts:
    """The sensitive sets of the last drafts, each counted once. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: PeopleColumns | None = None  # they take memory, so there is one
        self._counter = ThreadPoolExecutor(1, "counting people")

    def request(self, table: TableEntry, draft: Draft) -> PeopleColumns:
        """The sets as far as they are counted. Counting begins if it has not, or if it failed before."""
        key = PeopleKey.of(table, draft)
        with self._lock:
            if self._known is None or self._known.key != key or self._known.status == "failed":
                self._known = PeopleColumns(key)
                self._counter.submit(self._count, table, key)
            return self._known

    def get(self, key: PeopleKey) -> PeopleColumns | None:
        """What is known about sets that were requested."""
        with self._lock:
            return self._known if self._known is not None and self._known.key == key else None

    def forget(self, table: str) -> None:
        """Forget the people of a table."""
        with self._lock:
            if self._known is not None and self._known.key.table == table:
                self._known = None

    def close(self) -> None:
        """Stop counting."""
        self._counter.shutdown(wait=False, cancel_futures=True)

    def _count(self, table: TableEntry, key: PeopleKey) -> None:
        with suppress(Exception):
            if self.get(key) is None:
                return  # somebody has chosen other columns meanwhile
            columns = _count(table, key)
            with self._lock:
                if self._known is not None and self._known.key == key:
                    self._known = columns


def _count(table: TableEntry, key: PeopleKey) -> PeopleColumns:
    try:
        return PeopleColumns(key, "ready", _counted(table, key))
    except DaleniusError as error:
        return PeopleColumns(key, "failed", error=error_object(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, the page has to know)
        return PeopleColumns(key, "failed", error=internal_object(error))


def _counted(table: TableEntry, key: PeopleKey) -> CountedPeople:
    specs = [SetSpec(one.name, one.columns, one.null_name, one.missing) for one in key.sets]
    options = PublishOptions(table=table.table)
    with (
        open_engine(table.path, options, Budget.of(None)) as engine,
        engine.open(table.path, table.table) as opened,
    ):
        if not isinstance(opened, LocalTable):
            raise SelfCheckError("people are read by the local engine alone")
        counted = opened.count_people(specs, key.person)
    if not table.is_unchanged():
        raise ChangedInputError("the table changed while it was being counted", "Studio reads it again.")
    return counted


@dataclass(frozen=True)
class _Problem:
    """Why limits cannot be kept, and the rows that people may keep at most, if that would help."""

    obstacle: Obstacle
    most_rows: int | None = None


def explore_people(columns: PeopleColumns, draft: Draft, shown: str) -> dict[str, Any]:
    """What the limits of one set come to, and why no release keeps those of all sets, if that is certain."""
    started = time.monotonic()
    counted, sets = columns.require(), columns.key.sets
    place = next((place for place, one in enumerate(sets) if one.name == shown), 0)
    known = draft.protection.known_records
    limited: list[LimitedSet] = []
    problem: _Problem | None = None
    for at, (one, policy) in enumerate(zip(sets, draft.policies(), strict=True)):
        try:
            counted.columns[at].refuse_absent_codes(one.missing, policy.allow_absent)
            limited.append(limit_set(counted.columns[at], counted.items[at], policy, one.null_name))
        except DaleniusError as error:
            problem = problem or _Problem(_of_error(error, one.name if at != place else None))
            limited.append(limit_set(counted.columns[at], counted.items[at], LimitPolicy.of(uniform=1), None))
    if problem is None:
        problem = _too_frequent(counted, limited, place, known) or _too_rare(counted, limited, draft)
    answer = _exploration(limited[place], counted.number, known, problem, time.monotonic() - started)
    return {
        **exploration_object(answer),
        "n": counted.number,
        "by_people": True,
        "set": sets[place].name,
        "most_rows": problem.most_rows if problem is not None else None,
    }


def _of_error(error: DaleniusError, of_set: str | None) -> Obstacle:
    offer = None
    if isinstance(error, AbsentCodesError):
        offer = Offer("They may stay, if that is meant. They have no effect on this table.", allow_absent=True)
    where = f"{of_set!r}: " if of_set is not None else ""
    return Obstacle(error.kind, f"{where}{error.message}", on_a_page(error.hint or "", "") or None, offer=offer)


def _too_frequent(counted: CountedPeople, limited: Sequence[LimitedSet], place: int, known: int) -> _Problem | None:
    """Values and groups that more people have than their limits allow, even if all people were in one bucket."""
    found = []
    for at, one in enumerate(limited):
        values = _over(one.column.texts, one.column.counts, one.limits, counted.number - known)
        names = [group.name for group in one.groups]
        groups = _over(names, _people_in_groups(one), one.group_limits, counted.number - known)
        if values or groups:
            found.append((at, values, groups))
    if not found:
        return None
    at, values, groups = next((one for one in found if one[0] == place), found[0])
    too_many = {**values, **groups}
    listed = ", ".join(map(repr, list(too_many)[:_NAMES]))
    more = f" and {len(too_many) - _NAMES:,} more" if len(too_many) > _NAMES else ""
    where = "" if len(limited) == 1 else f" of {limited[at].column.name!r}"
    message = f"more people have {listed}{more}{where} than the limit allows, even if all were in one bucket"
    if at != place or None in too_many.values():
        return _Problem(Obstacle("not-eligible", message, "Raise these limits.", tuple(too_many)))
    offer = Offer(
        "The smallest limits that all people together can keep. Buckets may need higher ones.",
        {name: rounded_up(limit) for name, limit in values.items() if limit is not None},
        groups={name: rounded_up(limit) for name, limit in groups.items() if limit is not None},
    )
    return _Problem(Obstacle("not-eligible", message, "Raise these limits.", tuple(too_many), offer))


def _over(
    names: Sequence[str], people: Sequence[int], limits: Sequence[Fraction], left: int
) -> dict[str, Fraction | None]:
    """What has more people than its limit allows among so many, with the smallest limit that would do."""
    return {
        name: Fraction(count, left) if count <= left else None
        for name, count, limit in zip(names, people, limits, strict=True)
        if count > limit * max(0, left)
    }


def _too_rare(counted: CountedPeople, limited: Sequence[LimitedSet], draft: Draft) -> _Problem | None:
    """Numbers of rows for which no buckets keep the limits. Of those that lose rows by chance nothing is certain."""
    most, known = draft.roles.most_rows, draft.protection.known_records
    items, rows_each = all_items(counted.number, limited), counted.rows_each
    if most is not None and (rows_each > most).any():
        kept = np.flatnonzero(rows_each < most)
        offsets, codes = items.take(kept)
        items, rows_each = replace(items, offsets=offsets, items=codes), rows_each[kept]
    if not len(rows_each):
        return None
    try:
        refuse_telling_numbers(rows_each, items, max(draft.solve.min_size or HIDING_SIZE, known + 1), known)
    except NoSolutionError as error:
        return _Problem(Obstacle("no-buckets", error.message, on_a_page(error.hint or "", "")), error.most_rows)
    return None


def _people_in_groups(one: LimitedSet) -> list[int]:
    if one.in_groups is None:
        return []
    found: list[int] = np.bincount(one.in_groups.codes, minlength=len(one.groups) + 1)[: len(one.groups)].tolist()
    return found


def _exploration(one: LimitedSet, people: int, known: int, problem: _Problem | None, seconds: float) -> Exploration:
    """What the limits of a set come to, without a setting."""
    texts, counts, left = one.column.texts, one.column.counts, max(0, people - known)
    order = sorted(range(len(texts)), key=lambda code: (-counts[code], texts[code]))
    eligible = [counts[code] <= one.limits[code] * left for code in order]
    return Exploration(
        exact=True,
        status="undecided" if problem is None else "infeasible",
        values=tuple(texts[code] for code in order),
        counts=tuple(counts[code] for code in order),
        limits=tuple(one.limits[code] for code in order),
        eligible=tuple(eligible),
        smallest=tuple(_least(counts[code], left, fits) for code, fits in zip(order, eligible, strict=True)),
        worst=(None,) * len(order),
        obstacle=problem.obstacle if problem is not None else None,
        notes=one.notes,
        seconds=seconds,
        tree=_tree(one, order, left) if one.groups else None,
    )


def _tree(one: LimitedSet, order: Sequence[int], left: int) -> ExploredTree:
    people = _people_in_groups(one)
    of_value = tuple(holders[-1] if holders else NO_GROUP for holders in (one.holders[code] for code in order))
    eligible = [count <= limit * left for count, limit in zip(people, one.group_limits, strict=True)]
    return ExploredTree(
        groups=Groups(one.groups, of_value),
        level_names=tuple(dict.fromkeys(group.level for group in one.groups)),
        of_value=of_value,
        records=tuple(people),
        smallest=tuple(_least(count, left, fits) for count, fits in zip(people, eligible, strict=True)),
        eligible=tuple(eligible),
    )


def _least(people: int, left: int, fits: bool) -> Fraction | None:
    return None if fits or people > left else Fraction(people, left)


def counts_object(columns: PeopleColumns, shown: str, labels: dict[str, str]) -> dict[str, Any]:
    """GET /api/counts where people count: how many of them have each value of one set."""
    counted = columns.require()
    names = [one.name for one in columns.key.sets]
    column = counted.columns[names.index(shown) if shown in names else 0]
    pairs = sorted(zip(column.texts, column.counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return {
        "column": column.name,
        "total": counted.number,
        "values": [text for text, _ in pairs],
        "counts": [count for _, count in pairs],
        "labels": {text: labels[text] for text in column.texts if text in labels},
        "are_bands": False,
    }

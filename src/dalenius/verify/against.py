"""What the publisher knows beyond the release: the limits that were meant.

Limits from a policy (`PublishersLimits`). Rules such as theta make a limit from how many records a value has. Without
fake values ST shows that. With them it does not: ST has every value as often as the table, or more often. Then the
table's own counts are used if the table is there. If it is not, the manifest's limit stands in for the rule's, but
never with more than the rule gives for all rows of ST with the value, since a rule never falls as counts grow; and a
note says so. A policy of explicit limits for all values depends on no counts: a publisher who has resolved a rule
already uses it to have a release compared with exactly that.

In a chain of releases a value keeps the limit that it had when it first came, from the counts of that time. Later
releases do not show these, and neither does today's table: the manifest's limit stands in for the rule's there too.

If the policy says what the groups of values are, the manifest must have these groups, on the same levels, with the same
values and the same limits. If it does not, those of the manifest hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dalenius.errors import CountsError, PolicyError
from dalenius.model.groups import NO_GROUP, Groups
from dalenius.model.problem import ValueCounts
from dalenius.policy.banding import policy_of_bands
from dalenius.policy.grouping import limit_groups, resolve_groups
from dalenius.policy.limits import LimitPolicy, refuse_absent, resolve_limits
from dalenius.release.manifest import Manifest
from dalenius.verify.findings import LIMITS, Report, plural, quote
from dalenius.verify.stated_bands import bands_meant
from dalenius.verify.stated_groups import StatedGroups

if TYPE_CHECKING:
    from dalenius.tables.compare import SourceTable

_BY_COUNTS = ("odds", "theta", "beta")  # rules


@dataclass(frozen=True)
class GivenLimits:
    """The limits of values, in their order, and those of the manifest's groups; None if these are the manifest's."""

    values: list[Fraction]
    groups: tuple[Fraction | None, ...] | None = None


@dataclass(frozen=True)
class PublishersLimits:
    """A policy, and if its rules need them and ST does not show them, the table's counts."""

    policy: LimitPolicy
    manifest: Manifest
    table_counts: dict[str, int] | None = None

    @classmethod
    def of(cls, policy: LimitPolicy, manifest: Manifest, source: SourceTable | None) -> PublishersLimits:
        """Counts the values of the table, if there is one and it is needed. What is missing is in no group."""
        policy = policy.ungrouping(manifest.null_value)
        spec = policy.grouping.bands if policy.grouping is not None else None
        if spec is not None and manifest.bands is not None:  # bands are the values of such a release
            policy = policy_of_bands(policy, bands_meant(spec, manifest))
        hides_counts = manifest.adversary.fake_values or manifest.surplus
        if source is None or not policy.goes_by_counts or not hides_counts or _keeps_limits(manifest):
            return cls(policy, manifest)
        column = manifest.columns.sensitive.name
        return cls(policy, manifest, source.counts_of_values(column, manifest.null_value, manifest.missing))

    def limits(self, held: Sequence[tuple[str, int]], report: Report) -> GivenLimits | None:
        """The limits in the order of the values, each with its rows of ST; None, and a finding, if there are none."""
        apart = {value.value for value in self.manifest.values if not value.applies}
        everything, held = held, [(value, count) for value, count in held if value not in apart]
        try:
            unseen = self.manifest.adversary.fake_values or self.manifest.surplus or _keeps_limits(self.manifest)
            hidden = unseen and self.policy.goes_by_counts and self.table_counts is None
            by_value, tree = self._by_manifest(held, report) if hidden else self._by_counts(held)
        except (PolicyError, CountsError) as error:
            report.fail(LIMITS, f"by the limits given, {error.message}")
            return None
        values = [by_value.get(value, Fraction(1)) for value, _ in everything]
        return GivenLimits(values, self._compare(tree, held, report) if tree is not None else None)

    def _by_counts(self, held: Sequence[tuple[str, int]]) -> tuple[dict[str, Fraction], Tree | None]:
        """What the rules give for the table's counts, or for those of ST. A value that is not in the table counts 0."""
        counts = dict(held) if self.table_counts is None else {value: 0 for value, _ in held} | self.table_counts
        if not any(counts.values()):
            raise CountsError("there are no records")
        table = ValueCounts(tuple(sorted(counts)), tuple(counts[value] for value in sorted(counts)))
        if self.manifest.has_several_values:
            table = replace(table, people=self.manifest.people, in_groups=_PeopleOfGroups.of(self.manifest))
        if self.policy.has_limits:
            resolved = resolve_limits(self.policy, table)
            limits, groups = dict(zip(table.values, resolved.limits, strict=True)), resolved.groups
        else:
            limits, groups = self._stated(table.values), self._tree(table.values, table.counts)
        return limits, _by_name(groups, table.values) if groups is not None else None

    def _by_manifest(self, held: Sequence[tuple[str, int]], report: Report) -> tuple[dict[str, Fraction], Tree | None]:
        """The manifest's limits where the rules are needed, and at most what the rules can give."""
        policy = self.policy
        refuse_absent(policy, ValueCounts.of(held))
        stated, limits, ruled = self._stated([value for value, _ in held]), dict[str, Fraction](), 0
        for value, count in held:
            most = self._most(policy, count)
            own = policy.values.get(value, Fraction(1) if most is None else most)
            if value not in policy.values and policy.rule in _BY_COUNTS:
                ruled, own = ruled + 1, min(stated[value], own)
            limits[value] = own
        if any(limit <= 0 for limit in limits.values()):
            raise PolicyError("a rule gives a value the limit 0, and a limit must be above 0")
        if ruled:
            report.note(self._hidden(str(policy.rule), plural(ruled, "value")))
        return limits, self._tree_by_manifest(held, report) if policy.grouping is not None else None

    def _most(self, policy: LimitPolicy, count: int) -> Fraction | None:
        """The most that a rule can give for so many rows of ST; where it went by other counts, for any number."""
        rows = self.manifest.rows
        return policy.rule_limit(rows if _keeps_limits(self.manifest) else min(count, rows), rows)

    def _hidden(self, rule: str, what: str) -> str:
        if _keeps_limits(self.manifest):
            return (
                f"{rule} goes by how many records a value has, and in a chain of releases by how many it had when it "
                f"first came: for {what} the manifest's limit is taken, if {rule} can give as much; compare with "
                "--previous to have it checked that limits stay"
            )
        return (
            f"{rule} goes by how many records a value has, which a release with values of nobody does not show: for "
            f"{what} the manifest's limit is taken, if {rule} can give as much; compare with the table to have it "
            "worked out"
        )

    def _tree_by_manifest(self, held: Sequence[tuple[str, int]], report: Report) -> Tree | None:
        """The same for groups: what depends on counts is the manifest's."""
        policy, grouping = self.policy, self.policy.grouping
        if grouping is None or grouping.goes_by_counts:
            report.note("quantiles go by counts, which fake values hide: the groups are those of the manifest")
            return None
        none = LimitPolicy()
        levels = {level: policy.levels.get(level, policy).rule for level in grouping.levels}
        ruled = {level: none for level, rule in levels.items() if rule in _BY_COUNTS}
        table = ValueCounts.of(held)
        fixed, _ = limit_groups(replace(policy, values={}, levels={**policy.levels, **ruled}), grouping, table)
        stated = {group.name: group.limit for group in self.manifest.groups or ()}
        by_name = {grouping.full_name(name) for name in policy.groups}
        limited = []
        for group, count in zip(fixed.groups, fixed.sums(table.counts), strict=True):
            if group.level in ruled and group.name not in by_name:
                rule = policy.levels.get(group.level, policy)
                most = self._most(rule, count) or Fraction(1)
                group = replace(group, limit=min(most, Fraction(stated.get(group.name) or 1)))
            limited.append(group)
        here = sum(1 for group in limited if group.level in ruled and group.name not in by_name)
        if here:
            rules = ", ".join(dict.fromkeys(str(levels[level]) for level in ruled))
            report.note(self._hidden(rules, plural(here, "group")))
        return _by_name(replace(fixed, groups=tuple(limited)), table.values)

    def _compare(
        self, tree: Tree, held: Sequence[tuple[str, int]], report: Report
    ) -> tuple[Fraction | None, ...] | None:
        """Add where the manifest has other groups. Gives the limits of its own groups, if it has the same ones."""
        stated = StatedGroups.of(self.manifest)
        if stated is None and self.manifest.groups is not None:
            return None  # no tree, as another check says
        groups = self.manifest.groups or []
        listed = {value.value: value.group for value in self.manifest.values}
        own = Tree(
            {
                group.name: (group.level, None if group.parent is None else groups[group.parent].name)
                for group in groups
            },
            {value: None if place is None else groups[place].name for value, place in listed.items()},
            {group.name: None if group.limit is None else Fraction(group.limit) for group in groups},
        )
        problems = [*tree.differences(own, [value for value, _ in held if value in listed])]
        if self.policy.has_limits and not problems:
            problems = [*tree.other_limits(own)]
        for problem, count in problems:
            report.fail(LIMITS, f"by the limits given, {problem}", count)
        if stated is None or not self.policy.has_limits or not own.groups.keys() <= tree.groups.keys():
            return None
        return tuple(tree.limits[name] for name in stated.names)

    def _stated(self, values: Sequence[str]) -> dict[str, Fraction]:
        stated = {value.value: Fraction(value.limit) for value in self.manifest.values}
        return {value: stated.get(value, Fraction(1)) for value in values}

    def _tree(self, values: Sequence[str], counts: Sequence[int]) -> Groups | None:
        grouping = self.policy.grouping
        return resolve_groups(grouping, values, counts, self.policy.allow_absent) if grouping is not None else None


@dataclass(frozen=True)
class Tree:
    """Groups by their names: the level and the parent of each, the lowest group of every value, and limits."""

    groups: dict[str, tuple[str, str | None]]
    of_value: dict[str, str | None]
    limits: dict[str, Fraction | None]

    def differences(self, stated: Tree, values: Sequence[str]) -> Iterator[tuple[str, int]]:
        """How the manifest's groups differ from these, and in how many cases, each kind with its first case."""
        missing = sorted(self.groups.keys() - stated.groups.keys())
        extra = sorted(stated.groups.keys() - self.groups.keys())
        if missing:
            yield f"the manifest lacks {plural(len(missing), 'group')}; the first: {quote(missing[0])}", len(missing)
        if extra:
            more = plural(len(extra), "group")
            yield f"the manifest has {more} that should not be; the first: {quote(extra[0])}", len(extra)
        both = sorted(self.groups.keys() & stated.groups.keys())
        for place, what in enumerate(("is on another level", "is part of another group")):
            other = [name for name in both if self.groups[name][place] != stated.groups[name][place]]
            for name in other[:1]:
                has, wanted = (_named(tree.groups[name][place]) for tree in (stated, self))
                yield f"the group {quote(name)} {what} in the manifest: {has}, not {wanted}", len(other)
        moved = [value for value in values if self.of_value.get(value) != stated.of_value.get(value)]
        for value in moved[:1]:
            has, wanted = (_named(tree.of_value.get(value)) for tree in (stated, self))
            are = plural(len(moved), "value is", "values are")
            yield (
                f"{are} in another group in the manifest; the first: {quote(value)}, in {has}, not {wanted}",
                len(moved),
            )

    def other_limits(self, stated: Tree) -> Iterator[tuple[str, int]]:
        """Where the limits of groups differ."""
        other = [name for name in sorted(self.limits) if self.limits[name] != stated.limits[name]]
        for name in other[:1]:
            has, wanted = (tree.limits[name] or "none" for tree in (stated, self))
            more = plural(len(other), "group has", "groups have")
            yield f"{more} another limit in the manifest; the first: {quote(name)}, {has}, not {wanted}", len(other)


class _PeopleOfGroups(dict[str, int]):
    """How many people have a value of a group, as the manifest states it. It is said elsewhere if it lacks a group."""

    people: int

    @classmethod
    def of(cls, manifest: Manifest) -> _PeopleOfGroups:
        """A group that is not stated is everybody's."""
        stated = cls((group.name, group.count) for group in manifest.groups or ())
        stated.people = manifest.people
        return stated

    def __missing__(self, name: str) -> int:
        return self.people


def _by_name(groups: Groups, values: Sequence[str]) -> Tree:
    names = [group.name for group in groups.groups]
    return Tree(
        {
            group.name: (group.level, names[group.parent] if group.parent != NO_GROUP else None)
            for group in groups.groups
        },
        {
            value: names[place] if place != NO_GROUP else None
            for value, place in zip(values, groups.of_value, strict=True)
        },
        {group.name: group.limit for group in groups.groups},
    )


def _named(name: str | None) -> str:
    return "none" if name is None else quote(name)


def _keeps_limits(manifest: Manifest) -> bool:
    """Whether limits are those of counts at another time, or of more people than are in the release."""
    return manifest.chain is not None and (manifest.chain.release > 1 or manifest.chain.held_back > 0)

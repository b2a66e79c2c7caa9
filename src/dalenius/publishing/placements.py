"""Where records go, placement after placement, and what is checked of a release before anybody else can see it."""

from __future__ import annotations

from dalenius.errors import SelfCheckError
from dalenius.fakes.avoiding import MOST_ROUNDS, FakeImprover
from dalenius.fakes.marking import draw_marks
from dalenius.fakes.quotas import unprotected_notes
from dalenius.model.plan import Plan
from dalenius.model.progress import Progress
from dalenius.model.verdict import Verdict
from dalenius.place.marks import Marks
from dalenius.place.slots import Placement
from dalenius.policy.grouping import settle_bands
from dalenius.policy.limits import LimitPolicy
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.options import PublishRequest
from dalenius.release.atomic import writable
from dalenius.release.folder import ReleaseFolder
from dalenius.verify.judge import verify


class Placements:
    """Where records go: one placement, and with fake values further ones in which fewer of them are ruled out."""

    def __init__(self, arrangement: Arrangement, request: PublishRequest) -> None:
        self._partitions, self._key = arrangement.partitions, request.key
        self._marks: Marks | None = None
        self._improver: FakeImprover | None = None
        if arrangement.fake_values:
            rounds = MOST_ROUNDS if request.options.avoid_ruled_out else 0
            self._marks = draw_marks(self._partitions, self._key)
            self._improver = FakeImprover(self._partitions, request.random_bits(), rounds)

    def first(self) -> Placement:
        """The placement as it stands."""
        return Placement(self._partitions, self._key, self._marks)

    def next(self, folder: ReleaseFolder, progress: Progress) -> Placement | None:
        """A better placement than that of the release as it stands; None if there is none, or none was asked for."""
        if self._improver is None or self._marks is None:
            return None
        progress.stage("Learning")
        self._marks = self._improver.improve(folder, self._marks)
        return self.first() if self._marks is not None else None

    def notes(self) -> tuple[str, ...]:
        """What to know about the fake values."""
        return (*unprotected_notes(self._partitions), *self._improver.sentences()) if self._improver is not None else ()


def check(
    folder: ReleaseFolder,
    policy: LimitPolicy | None,
    batch_rows: int,
    progress: Progress,
    before: ReleaseFolder | None = None,
) -> Verdict:
    """Verify the release as anybody could who knows the limits, before anybody else can see it."""
    with writable():  # the files may be gone by now
        verdict = verify(folder, policy=policy, previous=before, progress=progress, batch_rows=batch_rows)
    if not verdict.verified:
        failed = ", ".join(check.check for check in verdict.checks if not check.passed)
        raise SelfCheckError(
            f"the release did not pass its own verification ({failed}), and was not published",
            "This is probably a bug in Dalenius: please report it.",
        )
    return verdict


def limits_to_verify(policy: LimitPolicy, plan: Plan) -> LimitPolicy:
    """The policy itself, or, where fakes hide the counts that a rule needs, the limits that it came to."""
    problem = plan.problem
    if not problem.fake_values:
        return policy
    values = dict(zip(problem.values, problem.limits, strict=True))
    if policy.grouping is None or problem.groups is None:
        return LimitPolicy(values=values)
    grouping, _ = settle_bands(policy.grouping, problem.values, problem.counts)
    return LimitPolicy(
        values=values,
        grouping=grouping,
        groups={group.name: group.limit for group in problem.groups.groups if group.limit is not None},
        levels=dict.fromkeys(grouping.levels, LimitPolicy()),
        allow_absent=policy.allow_absent,
    )

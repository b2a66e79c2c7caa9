"""The four kinds of long work: the price of strata, publishing, verifying, auditing. Each runs as a task."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dalenius.audit.objects import audit_object, verdict_object
from dalenius.model.solution import Method
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.publishing import price_of_strata, publish_table
from dalenius.release.folder import open_release
from dalenius.web.draft import Draft
from dalenius.web.forms import PublishForm
from dalenius.web.release import StudioRelease
from dalenius.web.releases import new_id
from dalenius.web.studio import Studio
from dalenius.web.tables import TableEntry
from dalenius.web.tasks import Task

_VERIFYING = "Verifying"


def start_price(studio: Studio) -> Task:
    """What strata would cost or save; nothing is placed or written."""
    table, draft = studio.table(), studio.draft
    roles, policy, options = draft.to_publish(), draft.limits.policy(), draft.publish_options(table.table)

    def work(task: Task) -> dict[str, Any]:
        return asdict(price_of_strata(table.path, roles, policy, Method.OPTIMAL, draft.options, options, task))

    return studio.tasks.start("strata-price", table.id, work)


def start_publishing(studio: Studio, form: PublishForm) -> Task:
    """Publish the draft under a name."""
    table, draft = studio.table(), studio.draft
    roles, policy, options = draft.to_publish(), draft.limits.policy(), draft.publish_options(table.table, form.format)
    target = studio.releases.target(form.name)
    judged_by = _judged_by(studio, draft, table)

    def work(task: Task) -> dict[str, Any]:
        studio.releases.begin(target)
        made = publish_table(table.path, roles, policy, target, Method.OPTIMAL, draft.options, options, task)
        release = StudioRelease(
            new_id(),
            form.name,
            open_release(made.path),
            saved=studio.options.out is not None,
            job_text=studio.job(draft, table, form.format, form.name),
            table=table,
            policy=judged_by,
            notes=made.notes,
        )
        studio.releases.add(release)
        return {"release": release.id, "notes": list(made.notes)}

    return studio.tasks.start("publish", table.id, work)


def _judged_by(studio: Studio, draft: Draft, table: TableEntry) -> LimitPolicy | None:
    """The publisher's limits: by rule, or, where fakes hide the counts that a rule goes by, one by one."""
    policy = draft.limits.policy()
    if not draft.protection.fake_values:
        return policy
    counts, _ = studio.counts.want(table, draft.roles.sensitive or "", draft.roles.null_value).ready()
    return LimitPolicy(values=dict(zip(counts.values, resolve_limits(policy, counts).limits, strict=True)))


def start_verifying(studio: Studio, release: StudioRelease, against: bool) -> Task:
    """Check every promise of a release."""
    table = release.source() if against else None

    def work(task: Task) -> dict[str, Any]:
        return verdict_object(release.verify(table, task.rows_of(_VERIFYING)))

    return studio.tasks.start("verify", table.id if table is not None else "", work)


def start_auditing(studio: Studio, release: StudioRelease, truth: bool) -> Task:
    """Play simulated attackers against a release."""
    table = release.source() if truth else None

    def work(task: Task) -> dict[str, Any]:
        return audit_object(release.audit(table, task))

    return studio.tasks.start("audit", table.id if table is not None else "", work)

"""The plan of a release of people, as pages show it: made on demand, since it makes all buckets."""

from __future__ import annotations

from typing import Any

from dalenius.errors import ClearValuesError
from dalenius.model.exposure import exposure_sentence
from dalenius.model.progress import Progress
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.people_buckets import Buckets, refuse_clear_values
from dalenius.publishing.people_flow import PeoplePlan, plan_people
from dalenius.studio.messages import on_a_page


def people_plan(request: PublishRequest, progress: Progress) -> dict[str, Any]:
    """How many people go into which buckets, how good that is proven to be, and what would be in the clear."""
    return plan_object(plan_people(request, progress))


def plan_object(plan: PeoplePlan) -> dict[str, Any]:
    """As GET /api/state has it."""
    of_plan, known = plan.as_object(), ("people", "rows", "dropped_rows", "status", "loss", "bound", "gap", "mse")
    rows_each: dict[int, dict[str, int]] = {}
    for stratum in of_plan["strata"]:
        entry = rows_each.setdefault(
            stratum["rows_each"],
            {"rows": stratum["rows_each"], "people": 0, "strata": 0, "buckets": 0, "smallest": 2**62, "largest": 0},
        )
        sizes = [group["size"] for group in stratum["setting"]]
        entry["people"] += stratum["people"]
        entry["strata"] += 1
        entry["buckets"] += sum(group["buckets"] for group in stratum["setting"])
        entry["smallest"], entry["largest"] = min(entry["smallest"], *sizes), max(entry["largest"], *sizes)
    try:
        refuse_clear_values(Buckets.of_cut(plan.solved.cut), plan.solved.sets)
        clear = None
    except ClearValuesError as error:
        clear = on_a_page(error.message, "")
    return {
        **{name: of_plan[name] for name in known},
        "buckets": sum(entry["buckets"] for entry in rows_each.values()),
        "strata": len(of_plan["strata"]),
        "by_rows": list(rows_each.values()),
        "in_the_clear": clear,
        "exposure": {"sentence": exposure_sentence(plan.exposure), "bands": list(plan.exposure.bands)},
        "sentences": [on_a_page(sentence, "") for sentence in plan.solved.sentences()],
    }

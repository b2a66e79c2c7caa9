"""What releases would cost: the last price of strata and the last plan for people, each with what it is about.

A plan for people is made on demand, since it makes all buckets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dalenius.errors import ClearValuesError
from dalenius.model.exposure import exposure_sentence
from dalenius.model.progress import Progress
from dalenius.publishing.arrangement import StrataPrice
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.people_buckets import Buckets, refuse_clear_values
from dalenius.publishing.people_flow import plan_people
from dalenius.studio.draft import Draft
from dalenius.studio.exploration import price_object
from dalenius.studio.messages import on_a_page
from dalenius.studio.table_entries import Stamp
from dalenius.studio.worker import ExactWorker

PriceKey = tuple[str, Stamp, Draft]  # a table, its file, and what is to be published of it


class Prices:
    """The last ones. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker = ExactWorker(children=1)
        self._priced: tuple[PriceKey, dict[str, Any]] | None = None
        self._planned: tuple[PriceKey, dict[str, Any]] | None = None
        self._pricing: PriceKey | None = None

    def ask(self, key: PriceKey, request: Callable[[], PublishRequest]) -> Future[StrataPrice] | None:
        """The price of strata, from another process; None if it is known."""
        with self._lock:
            if self._priced is not None and self._priced[0] == key:
                return None
            self._pricing = key
        return self._worker.price(request())

    def abandon(self, draft: Draft) -> None:
        """End the search for the price of another draft: nobody waits for it any more."""
        with self._lock:
            outdated = self._pricing is not None and self._pricing[2] != draft
        if outdated:
            self._worker.abandon()

    def keep(self, key: PriceKey, price: StrataPrice) -> None:
        """Keep a price."""
        with self._lock:
            self._priced = (key, price_object(price))

    def keep_plan(self, key: PriceKey, plan: dict[str, Any]) -> None:
        """Keep a plan for people."""
        with self._lock:
            self._planned = (key, plan)

    def state(self, key: PriceKey, *, of_people: bool) -> dict[str, Any] | None:
        """The last plan for people, or price of strata, for this table; and whether it is that of this draft."""
        with self._lock:
            known = self._planned if of_people else self._priced
        if known is None or known[0][0] != key[0]:
            return None
        return {**known[1], "stale": known[0] != key}

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def people_plan(request: PublishRequest, progress: Progress) -> dict[str, Any]:
    """How many people go into which buckets, how good that is proven to be, and what would be in the clear.

    As GET /api/state has it.
    """
    plan = plan_people(request, progress)
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
        "exposure": {
            "sentence": exposure_sentence(plan.exposure),
            "bands": list(plan.exposure.bands),
            "several": plan.exposure.several,
        },
        "sentences": [on_a_page(sentence, "") for sentence in plan.solved.sentences()],
    }

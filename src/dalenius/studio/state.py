"""Everything in one Studio: tables, the draft, counts, tasks and releases. One user, several tabs, several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dalenius.model import VERSION
from dalenius.model.concern import Concern
from dalenius.policy.job import Job, job_text
from dalenius.publishing.arrangement import StrataPrice
from dalenius.publishing.options import PublishRequest
from dalenius.studio.counted_people import PeopleColumns, PeopleCounts, PeopleKey
from dalenius.studio.draft import Draft
from dalenius.studio.exploration import Curve, Exploration, TradeOffPoint
from dalenius.studio.explored import Explored
from dalenius.studio.explorer import Explorer
from dalenius.studio.forms import RELEASE, ExploreForm, PublishForm
from dalenius.studio.group_choice import GroupSources
from dalenius.studio.history import History, Tab
from dalenius.studio.messages import RequestError
from dalenius.studio.prices import PriceKey, Prices
from dalenius.studio.releases import Releases, publish_command
from dalenius.studio.role_forms import RolesForm
from dalenius.studio.table_entries import ColumnCounts, CountKey, Counts, TableEntry, Tables
from dalenius.studio.tasks import Tasks
from dalenius.studio.worker import Counting, ExactWorker, Looks
from dalenius.tables.killable import Allowance, PrivateFolder

_SECONDS_TO_END = 5.0  # for tasks, when Studio is closed


@dataclass(frozen=True)
class StudioOptions:
    """The options that Studio is started with."""

    table: Path | None = None
    table_name: str | None = None
    job: Job | None = None
    releases: tuple[Path, ...] = ()
    out: Path | None = None
    upload_limit: int = 4 * 10**9
    allowance: Allowance = field(default_factory=Allowance)  # of one count


class Studio:
    """Everything behind the pages. Methods may be called from any thread."""

    def __init__(self, options: StudioOptions, private: PrivateFolder) -> None:
        """`private` is removed when Studio is closed."""
        self.options, self.private = options, private
        self.tasks = Tasks()
        self.counts, self.people, self.prices = Counts(), PeopleCounts(), Prices()
        self.releases = Releases(options.out, self.private.folder("releases"), (options.job or Job()).report)
        self._lock = threading.RLock()
        draft = Draft.of_job(options.job) if options.job is not None else Draft()
        sources = [one for one in (draft.source, *(own.source for own in draft.own.values())) if one is not None]
        self._history, self.groups = History(draft), GroupSources(self.private.folder("groups"), sources)
        self._chosen_id: str | None = None
        self.explored = Explored()
        self._labels: dict[tuple[str, str], dict[str, str]] = {}  # of values, by table and column
        self._closed = False
        self._worker, self._looks = ExactWorker(), Looks()
        self.counting, self.analysing = Counting(options.allowance), Counting(options.allowance, at_once=1)
        self.tables = Tables(self._described)
        for path in options.releases:
            self.releases.open(path)
        if options.table is not None:
            with self._lock:  # or the table might be described before it is chosen
                added = self.tables.add(options.table, options.table.name, "given", options.table_name)
                self._chosen_id = added[0] if len(added) == 1 else None

    @property
    def draft(self) -> Draft:
        """The draft as it is now."""
        with self._lock:
            return self._history.draft

    def history(self, tab: Tab | None = None) -> dict[str, Any]:
        """The number of the draft, its steps, and whether this tab shows an older one."""
        with self._lock:
            return {**self._history.state(), "stale": self._history.is_stale(tab)}

    def require_fresh(self, tab: Tab | None) -> None:
        """Refuse a tab that shows an older draft than the one it would work with."""
        with self._lock:
            self._history.require_fresh(tab)

    def step(self, tab: Tab | None, *, back: bool) -> None:
        """Undo or redo a change of the draft."""
        with self._lock:
            self._history.step(tab, back=back)
            entry = self.chosen_table()
            if entry is not None and entry.status == "ready":
                self._described(entry, tab)

    def saved(self, draft: Draft | None = None) -> None:
        """Somebody has the job file of a draft: that of now, or another one."""
        with self._lock:
            self._history.saved(draft or self._history.draft)

    def choose(self, identifier: str, tab: Tab | None = None, roles: RolesForm | None = None) -> None:
        """Work on another table. The draft keeps what fits it, or gets these roles."""
        entry = self.tables.current(identifier)
        with self._lock:
            self._history.require_fresh(tab)
            if self._chosen_id != identifier:
                self._chosen_id = identifier
                self.explored.unpin()
                draft = self._history.draft
                self._history.restart(draft if roles is None else draft.with_roles(roles), tab, forget=True)
            if entry.status == "ready":
                self._described(entry, tab)

    def _described(self, entry: TableEntry, tab: Tab | None = None) -> None:
        """The chosen table is described now: the draft keeps what fits it, and counting begins."""
        with self._lock:
            if entry.id == self._chosen_id:
                self._history.restart(self._history.draft.fitting(entry.columns), tab, forget=False)
                self._count(entry)

    def chosen_table(self) -> TableEntry | None:
        """The chosen table, ready or not."""
        with self._lock:
            return self.tables.get(self._chosen_id) if self._chosen_id is not None else None

    def table(self) -> TableEntry:
        """The chosen table; an error if it is not ready."""
        with self._lock:
            if self._chosen_id is None:
                raise RequestError(409, "no-table", "no table is chosen", "Choose one on the first page.")
            entry = self.tables.current(self._chosen_id)
        if entry.status == "reading":
            raise RequestError(409, "not-ready", "the table is being read", "Ask again in a moment.")
        if entry.status == "failed":
            raise RequestError(409, "not-ready", "the table cannot be read", "Choose another one.")
        return entry

    def remove_table(self, identifier: str) -> None:
        """Forget an uploaded table."""
        if any(task.subject == identifier for task in self.tasks.running()):
            raise RequestError(409, "busy", "the table is being worked on", "Wait until that is done, or cancel it.")
        self.tables.remove(identifier)
        self.counts.forget(identifier)
        self.people.forget(identifier)
        self.releases.forget_table(identifier)
        with self._lock:
            if self._chosen_id == identifier:
                self._chosen_id = None
                self.explored.unpin()

    def set_roles(self, roles: RolesForm, tab: Tab | None = None) -> None:
        """Set the roles of columns. Counting the sensitive column begins."""
        entry = self.table()
        roles.require_columns(entry.columns)
        with self._lock:
            before = self._history.draft.roles
            self._history.change(self._history.draft.with_roles(roles), tab)
            if before.of_sensitive != roles.of_sensitive:
                self.explored.unpin()
            self._count(entry)

    def _count(self, entry: TableEntry | None) -> None:
        draft = self._history.draft
        if entry is not None and entry.status == "ready" and draft.roles.sensitive is not None:
            (self.people if draft.by_people else self.counts).request(entry, draft)

    def column_counts(self) -> ColumnCounts:
        """The sensitive column of the draft, as far as it is counted."""
        column = self._sensitive_column(self.table())
        if column is None:
            raise _nothing_sensitive()
        if isinstance(column, PeopleColumns):
            raise RequestError(
                409,
                "by-people",
                "people count here, and not rows: there is no such figure without making buckets of people",
                "Work out the plan on the limits page.",
            )
        return column

    def people_columns(self) -> PeopleColumns:
        """The sensitive columns of a draft in which people count, as far as they are counted."""
        column = self._sensitive_column(self.table())
        if not isinstance(column, PeopleColumns):
            raise _nothing_sensitive()
        return column

    def explorer(self, draft: Draft) -> Explorer:
        """What answers questions about the sensitive column, by value or by band as a draft has it."""
        return self.column_counts().explorer(draft.bands, draft.roles.not_applicable)

    def _sensitive_column(self, table: TableEntry) -> ColumnCounts | PeopleColumns | None:
        draft = self.draft
        if draft.roles.sensitive is None:
            return None
        if draft.by_people:
            return self.people.get(PeopleKey.of(table, draft))
        return self.counts.get(CountKey.of(table, draft))

    def abandon(self) -> None:
        """End the search for an exact answer, and for the price of other strata: nobody waits for them any more."""
        self._worker.abandon()
        self.prices.abandon(self.draft)

    def ask(self, about: Explorer, draft: Draft) -> Future[Exploration]:
        """The exact answer, from another process. A search for another one ends."""
        return self._worker.submit(about.everybody, draft.policy(), draft.options, about.not_applicable)

    def ask_trade_off(self, about: Explorer, curve: Curve, draft: Draft) -> Future[tuple[TradeOffPoint, ...]]:
        """The trade-off of the rule by odds, from another process. A search for an exact answer ends."""
        return self._worker.trade_off(about.everybody, curve, draft.options, about.not_applicable)

    def look(self, roles: RolesForm) -> Future[tuple[Concern, ...]]:
        """What to know about the table before it is published with these roles, from another process."""
        table = self.table()
        roles.require_columns(table.columns)
        draft = self.draft.to_look_at(roles)
        return self._looks.ask((table.id, table.stamp, repr(draft)), self.request(table, draft)())

    def request(self, table: TableEntry, draft: Draft, form: PublishForm = RELEASE) -> Callable[[], PublishRequest]:
        """What to publish. The request itself is made, and checked, where the work is done."""
        roles, policies = draft.to_publish(), draft.policies()
        return partial(
            PublishRequest,
            table=table.path,
            roles=roles,
            limits=policies[0],
            set_limits=policies if draft.by_people else (),
            solving=draft.options,
            options=draft.publish_options(table.table, form),
        )

    def price(self) -> tuple[PriceKey, Future[StrataPrice] | None]:
        """The price of strata for the draft, from another process; None if it is known."""
        table, draft = self.table(), self.draft
        if draft.by_people:
            self.column_counts()  # which says why there is none
        key = (table.id, table.stamp, draft)
        return key, self.prices.ask(key, self.request(table, draft))

    def price_state(self, *, of_people: bool = False) -> dict[str, Any] | None:
        """The last price of strata, or plan for people, and whether it is that of the draft."""
        with self._lock:
            chosen, draft = self._chosen_id, self._history.draft
        if chosen is None:
            return None
        return self.prices.state((chosen, self.tables.get(chosen).stamp, draft), of_people=of_people)

    def label(self, labels: dict[str, str], of_set: str = "") -> None:
        """Names for the values of a sensitive column, the first if none is named. No release has them."""
        with self._lock:
            self._labels[self.table().id, of_set or self.draft.roles.sensitive or ""] = labels

    def labels(self, of_set: str = "") -> dict[str, str]:
        """The names of the values of a sensitive column, the first if none is named."""
        with self._lock:
            return self._labels.get((self._chosen_id or "", of_set or self._history.draft.roles.sensitive or ""), {})

    def take_over(self, form: ExploreForm, tab: Tab | None = None) -> Draft:
        """The draft with other limits. It becomes the draft of Studio if the form says so."""
        with self._lock:
            source = self.groups.get(form.limits.grouping)
            draft = self._history.draft.with_limits(form, source)
            draft.policies()  # limits that are none do not become the draft's
            others = draft.limits.allow_absent != self._history.draft.limits.allow_absent
            if form.draft:
                self._history.change(draft, tab, form.gesture)
            if form.draft and others:  # codes that may be absent
                self._count(self.chosen_table())
        return draft

    def remember(self, key: CountKey, draft: Draft, exploration: dict[str, Any], complete: bool) -> None:
        """Keep the exploration, if it is about the draft."""
        with self._lock:
            if draft.question == self._history.draft.question:
                self.explored.remember(key, draft, exploration, complete)

    def job(self, draft: Draft, table: TableEntry | None, form: PublishForm = RELEASE) -> str:
        """The text of the job file, for a release if there is one. Its first line is the command that makes it."""
        job = draft.job(self.releases.head(table), form.in_the_clear, written=True)
        return f"# {publish_command(table, form)}\n\n{job_text(job)}"

    def state(self) -> dict[str, Any]:
        """GET /api/state. It reads files, so the thread that answers everybody must not call it."""
        with self._lock:
            chosen, draft = self._chosen_id, self._history.draft
            history = self._history.state()
        column = self._sensitive_column(self.tables.current(chosen)) if chosen is not None else None
        key = column.key if isinstance(column, ColumnCounts) else None
        plan = self.price_state(of_people=True) if draft.by_people else None
        return {
            "version": VERSION,
            "upload_limit": self.options.upload_limit,
            "count_timeout": self.options.allowance.seconds,
            "saves_to": self.options.out is not None,
            "tables": [entry.state() for entry in self.tables.all()],
            "table": chosen,
            **draft.state(),
            "history": history,
            "counted": column.state() if column is not None else None,
            "explored": self.explored.standing(key, draft) if key is not None else _standing_of(plan),
            "pinned": self.explored.pinned(key) if key is not None else None,
            "strata_price": self.price_state() if not draft.by_people else None,
            "people_plan": plan,
            "tasks": [{"id": task.id, "kind": task.kind, "about": task.about} for task in self.tasks.running()],
            "releases": [release.state() for release in self.releases.all()],
        }

    def close(self) -> bool:
        """Stop all work and remove all temporary files. Returns whether all work has ended."""
        with self._lock:
            if self._closed:
                return not self.tasks.running()
            self._closed = True
        try:
            for working in (
                self.counting,
                self.analysing,
                self._worker,
                self.prices,
                self._looks,
                self.tables,
                self.counts,
                self.people,
            ):
                working.close()
            if not self.tasks.close(_SECONDS_TO_END):
                self.releases.abandon_unfinished()
        finally:
            self.private.remove()
        return not self.tasks.running()

    def has_leftovers(self) -> bool:
        """Whether temporary files are left after closing."""
        return self.private.exists() or self.releases.has_leftovers()


def _standing_of(plan: dict[str, Any] | None) -> str | None:
    """Limits of people can be kept if there is a plan that keeps them."""
    return "feasible" if plan is not None and not plan["stale"] else None


def _nothing_sensitive() -> RequestError:
    return RequestError(409, "not-ready", "no sensitive column is chosen", "Choose one on the first page.")

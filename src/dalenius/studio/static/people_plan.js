// The plan of a release of people. It makes all buckets, so it is worked out when somebody asks, and not while limits move.

import { count, el, figure, fill, percent, plural, sentence } from "./dom.js";
import { exposureChart } from "./outcomes.js";
import { fresh, initial, post } from "./server.js";
import { announce, complain, follow, runningTask } from "./shell.js";
import { messageParts } from "./solving.js";

/** Let people keep at most so many rows, as the first page would. */
export async function keepRows(most) {
  const { roles, null_value, missing, not_applicable } = await fresh();
  await post("/api/roles", { ...roles, null_value, missing, not_applicable, most_rows: most });
}

/** A button that does so, and then what `done()` says. */
export const keepRowsButton = (most, done) =>
  el(
    "button",
    {
      type: "button",
      "data-test": "keep-rows",
      click: () => keepRows(most).then(done).catch(complain),
    },
    `Keep at most ${plural(most, "row")} of a person`,
  );

export class PeoplePlan {
  /**
   * `host` is where the plan is shown. `before()` is waited for before it is worked out; `shown(plan)` is called with
   * every plan that is there, and with null where there is none.
   */
  constructor(host, { before = async () => {}, shown = () => {} } = {}) {
    Object.assign(this, { host, before, shown });
    this.plan = null;
    this.progress = el("div");
    this.result = el("div", { "data-test": "people-plan", "aria-live": "polite" });
    this.button = el(
      "button",
      { type: "button", class: "primary", "data-test": "work-out", click: () => this.run() },
      "Work out the plan",
    );
    fill(
      host,
      el(
        "p",
        { class: "hint" },
        "What a release of people costs is known once all buckets are made, which takes from seconds to a minute or two. So it is not worked out while limits move. Nothing is written.",
      ),
      el("div", { class: "buttons" }, this.button),
      this.progress,
      this.result,
    );
    this.show(initial.people_plan);
    const task = runningTask(initial.tasks, ["people-plan"]);
    if (task) this.#watch(async () => task.id);
  }

  /** The draft has changed: the plan is about an earlier one. */
  changed() {
    if (this.plan !== null && !this.plan.stale) this.show({ ...this.plan, stale: true });
    if (this.failed) fill(this.result);
    this.failed = false;
  }

  /** Work it out. */
  run() {
    return this.#watch(async () => {
      await this.before();
      return (await post("/api/people-plan")).task;
    });
  }

  async #watch(begin) {
    this.button.disabled = true;
    try {
      const plan = await follow(await begin(), this.progress, "Making buckets of people");
      if (plan === null) return;
      this.show({ ...plan, stale: (await fresh()).people_plan?.stale !== false });
      announce(summary(plan));
    } catch (error) {
      this.#fail(error);
    } finally {
      this.button.disabled = false;
    }
  }

  #fail(error) {
    if (error.kind === "stale") return;
    this.plan = null;
    this.failed = true;
    this.shown(null);
    fill(
      this.result,
      el(
        "div",
        { class: "problem", role: "alert", "data-test": "plan-problem" },
        messageParts(error.message),
        error.hint ? el("p", {}, error.hint) : null,
        error.most_rows
          ? el("div", { class: "buttons" }, keepRowsButton(error.most_rows, () => location.reload()))
          : null,
      ),
    );
  }

  /** Draw a plan; null draws none. */
  show(plan) {
    this.plan = plan;
    this.result.classList.toggle("stale", plan?.stale === true);
    this.button.textContent = plan === null ? "Work out the plan" : "Work it out again";
    fill(this.result, plan === null ? null : drawn(plan));
    this.shown(plan);
  }
}

const summary = (plan) =>
  `${plural(plan.people, "person goes", "people go")} into ${plural(plan.buckets, "bucket")}, with ${plural(plan.rows, "row")}.`;

function drawn(plan) {
  const cell = (text) => el("td", { class: "num" }, text);
  const head = (text) => el("th", { scope: "col", class: "num" }, text);
  return [
    plan.stale ? el("p", { class: "hint", "data-test": "plan-stale" }, "For what was set before.") : null,
    plan.in_the_clear ? el("p", { class: "bad-word", "data-test": "plan-clear" }, sentence(plan.in_the_clear)) : null,
    el("p", { class: plan.exposure.bands.at(-1) > 0 ? "bad-word" : null, "data-test": "plan-exposure" }, sentence(plan.exposure.sentence)),
    exposureChart(plan.exposure.bands, sentence(plan.exposure.sentence), plan.exposure.several),
    el("p", { "data-test": "plan-words" }, summary(plan)),
    plan.dropped_rows > 0
      ? el("p", { "data-test": "plan-dropped" }, `${plural(plan.dropped_rows, "row is", "rows are")} left out, chosen at random.`)
      : null,
    el(
      "table",
      { class: "by-rows" },
      el("thead", {}, el("tr", {}, head("Rows each"), head("People"), head("Buckets"), head("People in each"))),
      el(
        "tbody",
        {},
        plan.by_rows.map(({ rows, people, buckets, smallest, largest }) =>
          el(
            "tr",
            { "data-test": "rows-each", "data-rows": rows },
            cell(count(rows)),
            cell(count(people)),
            cell(count(buckets)),
            cell(smallest === largest ? count(smallest) : `${count(smallest)} to ${count(largest)}`),
          ),
        ),
      ),
    ),
    el("p", { class: "hint" }, `Mean squared error ${figure(plan.mse)}, at most ${percent(plan.gap)} above the best buckets of these strata.`),
  ];
}

/** The plan in a few words, for the page that publishes. */
export const planWords = (plan) =>
  plan === null || plan.stale ? null : `${plural(plan.buckets, "bucket")} of people, MSE ${figure(plan.mse)}.`;

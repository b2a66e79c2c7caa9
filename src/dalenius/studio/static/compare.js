// Two policies side by side: A is pinned, B is the one in work.

import { SizesChart } from "./chart_sizes.js";
import { byId, el, fill, say, shownName } from "./dom.js";
import { count, figure, percent, plural, probability } from "./format.js";
import { settingText } from "./results.js";
import { allLimits } from "./rules.js";

const LISTED = 12; // changed limits that are shown
const FIGURES = [
  ["Loss", (answer) => answer.loss, figure],
  ["MSE", (answer) => answer.mse, figure],
  ["Buckets", (answer) => answer.setting?.reduce((sum, group) => sum + group.buckets, 0), count],
  ["Sizes", (answer) => answer.setting?.length, count],
  ["Largest bucket", (answer) => answer.setting?.at(-1)?.size, count],
  ["Error of counts, middle value", (answer) => answer.query_error?.median, percent],
  ["Error of counts, worst value", (answer) => answer.query_error?.worst, percent],
];

/** A policy in a few words. */
export function policyWords(limits) {
  const exceptions = Object.keys(limits.values ?? {}).length;
  if (limits.rule === "none") return `by value only, ${plural(exceptions, "limit")}`;
  const rule = {
    theta: `theta ${limits.theta}, base ${limits.base}`,
    uniform: `uniform ${limits.uniform}`,
    l_diversity: `l-diversity ${limits.l_diversity}`,
    beta: `beta ${limits.beta}`,
  }[limits.rule];
  return exceptions ? `${rule}, and ${plural(exceptions, "exception")}` : rule;
}

export class Compare {
  constructor(table) {
    this.table = table;
    this.charts = { a: new SizesChart(), b: new SizesChart() };
    this.words = { a: el("p", { class: "policy-words" }), b: el("p", { class: "policy-words" }) };
    this.cannot = el("p", { class: "bad-word" }, "⚠ These limits cannot be kept.");
    this.figures = FIGURES.map(([title]) => line(title));
    this.differing = Array.from({ length: LISTED }, () => line(""));
    this.summary = el("p", { class: "muted" });
    this.list = el("div", { class: "changed-limits" }, lines("Limits that differ", this.differing));
    const head = (letter, title) =>
      el("h3", {}, el("span", { class: `letter ${letter}` }, letter.toUpperCase()), title);
    fill(
      byId("compare-body"),
      el(
        "div",
        { class: "compare-columns" },
        el("div", {}, lines("Figures of both policies", this.figures), this.summary, this.list),
        el("div", {}, head("a", "Pinned"), this.words.a, this.charts.a.node),
        el("div", {}, head("b", "Now"), this.words.b, this.cannot, this.charts.b.node),
      ),
    );
  }

  /** Draw both; or nothing, if nothing is pinned. */
  show(pinned, draft, answer) {
    byId("compare").hidden = !pinned;
    if (!pinned || !answer) return;
    if (this.pinned !== pinned) {
      this.pinned = pinned;
      this.pinnedLimits = allLimits(pinned.limits, this.table);
      say(this.words.a, policyWords(pinned.limits));
      this.charts.a.show(pinned.exploration.setting);
    }
    say(this.words.b, policyWords(draft.limits));
    this.charts.b.show(answer.setting);
    this.cannot.hidden = Boolean(answer.setting);
    FIGURES.forEach(([, of, words], at) => this.figures[at].show(of(pinned.exploration), of(answer), words));
    this.#limits(allLimits(draft.limits, this.table));
    byId("compare").dataset.a = settingText(pinned.exploration.setting);
    byId("compare").dataset.b = settingText(answer.setting);
  }

  #limits(now) {
    const before = this.pinnedLimits;
    const places = [];
    for (let at = 0; at < now.length; at += 1) if (!(Math.abs(now[at] - before[at]) <= 1e-12)) places.push(at);
    const change = (at) => Math.abs(Math.log(now[at] / before[at]));
    places.sort((x, y) => change(y) - change(x) || x - y);
    say(
      this.summary,
      places.length === 0
        ? "All limits are the same."
        : `${plural(places.length, "limit differs", "limits differ")}${places.length > LISTED ? `, these ${LISTED} most` : ""}:`,
    );
    this.list.hidden = places.length === 0;
    this.differing.forEach((row, at) => {
      row.node.hidden = at >= places.length;
      if (!row.node.hidden)
        row.show(before[places[at]], now[places[at]], probability, shownName(this.table.values[places[at]]));
    });
  }
}

function lines(title, rows) {
  const head = (text) => el("th", { scope: "col", class: "num" }, text);
  return el(
    "div",
    { class: "scroll-x", tabindex: "0", role: "region", "aria-label": title },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, el("span", { class: "sr-only" }, "What")),
          head("A, pinned"),
          head("B, now"),
          head("B against A"),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) => row.node),
      ),
    ),
  );
}

/** A row of the table; its cells stay, only their text changes. */
function line(title) {
  const name = el("bdi", {}, title);
  const [a, b, difference] = [0, 1, 2].map(() => el("td", { class: "num" }));
  const known = (number) => number !== null && number !== undefined && !Number.isNaN(number);
  return {
    node: el("tr", {}, el("th", { scope: "row" }, name), a, b, difference),
    show(before, now, words, newTitle = title) {
      say(name, newTitle.length > 40 ? `${newTitle.slice(0, 39)}…` : newTitle);
      say(a, known(before) ? words(before) : "–");
      say(b, known(now) ? words(now) : "–");
      say(difference, known(before) && known(now) ? changeWords(before, now) : "–");
    },
  };
}

function changeWords(before, now) {
  if (before === now) return "same";
  return before > 0 ? `${now > before ? "+" : "−"}${percent(Math.abs(now - before) / before)}` : "–";
}

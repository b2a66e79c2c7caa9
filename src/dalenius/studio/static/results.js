// What the limits cost, beside the chart and beside a pinned policy.

import { MethodsChart, settingText, SizesChart } from "./chart_setting.js";
import { Exposure, strataSentence } from "./exposure.js";
import {
  byId,
  count,
  el,
  figure,
  fill,
  named,
  nameText,
  percent,
  plural,
  probability,
  say,
  sentence,
  set,
  shortened,
} from "./dom.js";
import { allLimits, policyWords, read, threeDigits } from "./rules.js";

/** The figures beside the chart. Nodes are made once; every answer only changes what differs. */
export class Results {
  /**
   * `relax(name, text, event, isGroup)` raises a limit; `pointed(names)` gets the values under the pointer; `useOdds` is what
   * Exposure wants. `shown` is the upper part of the page, `host` the lower one.
   */
  constructor(shown, host, { relax, pointed, useOdds }) {
    this.relax = relax;
    this.exposure = new Exposure({ useOdds });
    const figureOf = (name, title, main) => {
      const node = el("span", { "data-test": name });
      const against = el("span", { class: "against" });
      return {
        node,
        against,
        box: el("div", { class: main ? "main" : null }, el("dt", {}, title), el("dd", {}, node, against)),
      };
    };
    this.mse = figureOf("mse", "Mean squared error");
    this.strata = figureOf("mse-strata", "With strata");
    this.loss = figureOf("loss", "Loss");
    this.gap = figureOf("gap", "Proven gap, at most");
    this.sizes = new SizesChart(pointed);
    this.methods = new MethodsChart();
    this.setting = el("div", { "data-test": "setting" }, el("h3", {}, "Bucket sizes"), this.sizes.node);
    this.forcing = block("What forces large buckets", "forcing");
    this.counts = el("p", { "data-test": "count-error" });
    this.otherCounts = el("p", { class: "hint", "data-test": "count-error-strata" });
    this.protection = block("Price of protection", "price");
    this.notes = el("ul", { class: "notes" });
    this.notesBlock = el("div", { class: "block", hidden: true }, el("h3", {}, "Notes"), this.notes);
    fill(
      shown,
      this.exposure.node,
      el(
        "div",
        { class: "block" },
        el("h3", {}, "What it costs"),
        this.counts,
        this.otherCounts,
        el("dl", { class: "figures small" }, this.mse.box, this.strata.box, this.loss.box, this.gap.box),
      ),
    );
    fill(
      host,
      el("div", { class: "block" }, this.setting),
      el("div", { class: "block" }, el("h3", {}, "Error against other methods"), this.methods.node),
      this.forcing.node,
      this.protection.node,
      this.notesBlock,
    );
    this.parts = [shown, host];
  }

  /** Draw an exploration; `pinned` is the one to compare with, or null, and `own` has groups with limits of their own. */
  show(answer, pinned, own) {
    const feasible = answer.setting !== null && answer.setting !== undefined;
    for (const part of this.parts) {
      part.classList.toggle("stale", !feasible);
      part.inert = !feasible; // it is about other limits
      set(part, "aria-busy", !answer.exact);
    }
    if (!feasible) return;
    this.exposure.show(answer.exposure, pinned?.exposure);
    this.exposure.showGroups(answer.groups, own);
    this.error = answer.count_error;
    set(this.counts, "data-number", this.error.typical);
    this.#count();
    set(this.setting, "data-setting", settingText(answer.setting));
    showFigure(this.mse, figure(answer.mse), answer.mse, pinned?.mse, figure);
    showFigure(this.loss, figure(answer.loss), answer.loss, pinned?.loss, figure);
    say(this.gap.node, answer.gap === null || answer.gap === undefined ? "not proven yet" : percent(answer.gap));
    set(this.mse.node, "data-number", answer.mse);
    set(this.loss.node, "data-number", answer.loss);
    this.sizes.show(answer.setting);
    this.methods.show(answer);
    this.#force(answer.forcing);
    this.#protect(answer);
    this.#note(answer.notes ?? []);
  }

  /** Draw the price of strata: null until it is known, grey while the draft has changed since. */
  showStrata(price, strata) {
    this.exposure.showStrata(price, strata);
    this.price = price?.strata > 1 && strata !== "none" ? price : null;
    this.#count();
    this.strata.box.hidden = strata === "none";
    this.strata.box.classList.toggle("stale", price?.stale !== false);
    set(this.strata.box, "aria-busy", price?.stale !== false);
    say(this.strata.node, price ? figure(price.mse) : "…");
    const number = price ? plural(price.strata, "stratum", "strata") : "";
    say(this.strata.against, !price ? "being priced" : price.stale ? `${number}, for earlier limits` : `${number}, as published`);
  }

  /** How far off counts are: in a sentence as published, if that is known, and in a number the other way. */
  #count() {
    const { price, error } = this;
    if (!error) return;
    say(this.counts, strataSentence(price, price?.count_error, error));
    const stale = price?.stale === true;
    this.otherCounts.classList.toggle("stale", stale);
    const number = price ? plural(price.strata, "stratum", "strata") : "";
    const earlier = stale ? `With ${number}, for earlier limits: ${percent(price.count_error.typical)}.` : "";
    say(this.otherCounts, price && !stale ? `The table as one: ${percent(error.typical)}.` : earlier);
  }

  #force(forcing) {
    if (!isNew(this.forcing, forcing)) return;
    if (!forcing) return;
    const { value, size, share_of_loss: share, relaxed_limit: relaxed, saves, is_group: isGroup } = forcing;
    const text = relaxed === null || relaxed === undefined ? null : threeDigits(read(String(relaxed)));
    fill(
      this.forcing.body,
      el(
        "p",
        {},
        el("b", {}, named(value, 40)),
        ` needs buckets of ${count(size)}. They cause ${percent(share)} of the loss.`,
      ),
      text === null ? null : el("p", {}, savingWords(saves, text)),
      saves > 0.0005 && text !== null
        ? el(
            "button",
            { type: "button", class: "small", "data-test": "relax", click: (event) => this.relax(value, text, event, isGroup) },
            `Try ${text}`,
          )
        : null,
    );
  }

  #protect({ price, loss }) {
    if (!isNew(this.protection, price && [price, loss]) || !price) return;
    fill(
      this.protection.body,
      el(
        "p",
        {},
        price.ratio === null
          ? "Without known records and fake values, the loss would be 0."
          : `Known records and fake values make the loss ${probability(price.ratio)} times as large: ${figure(loss)} instead of ${figure(price.loss)}.`,
      ),
    );
  }

  #note(notes) {
    this.notesBlock.hidden = notes.length === 0;
    if (this.notesText === notes.join("\n")) return;
    this.notesText = notes.join("\n");
    fill(
      this.notes,
      notes.map((note) => el("li", {}, sentence(note))),
    );
  }
}

function block(title, test) {
  const body = el("div");
  return {
    node: el("div", { class: "block", "data-test": test, hidden: true }, el("h3", {}, title), body),
    body,
    last: undefined,
  };
}

function savingWords(saves, limit) {
  if (saves === null || saves === undefined) return "Working out what a higher limit would save…";
  if (saves > 0.0005) return `With a limit of ${limit}, the loss would be ${percent(saves)} lower.`;
  return `A limit of ${limit} would save nothing: other values need large buckets too.`;
}

function isNew(part, content) {
  const now = JSON.stringify(content ?? null);
  if (part.last === now) return false;
  part.last = now;
  part.node.hidden = content === null || content === undefined;
  return true;
}

function showFigure(part, text, now, before, words) {
  say(part.node, text);
  const differs =
    now === before
      ? ", the same"
      : before > 0
        ? ` (${now > before ? "+" : "−"}${percent(Math.abs(now - before) / before)})`
        : "";
  say(part.against, before === undefined || before === null ? "" : `A: ${words(before)}${differs}`);
}

const MOST_LISTED = 12; // limits that differ
const FIGURES = [
  ["People published outright", (answer) => answer.exposure?.outright, count],
  ["Own value, on the average", (answer) => answer.exposure?.mean, percent],
  ["Own value, at most", (answer) => answer.exposure?.highest, percent],
  ["Error of counts, typical", (answer) => answer.count_error?.typical, percent],
  ["Error of counts, worst value", (answer) => answer.count_error?.worst.error, percent],
  ["Loss", (answer) => answer.loss, figure],
  ["MSE", (answer) => answer.mse, figure],
  ["Buckets", (answer) => answer.setting?.reduce((sum, group) => sum + group.buckets, 0), count],
  ["Sizes", (answer) => answer.setting?.length, count],
  ["Largest bucket", (answer) => answer.setting?.at(-1)?.size, count],
];

/** Two policies side by side: A is pinned, B is the one in work. */
export class Compare {
  constructor(table) {
    this.table = table;
    this.charts = { a: new SizesChart(), b: new SizesChart() };
    this.words = { a: el("p", { class: "policy-words" }), b: el("p", { class: "policy-words" }) };
    this.cannot = el("p", { class: "bad-word" }, "⚠ These limits cannot be kept.");
    this.figures = FIGURES.map(([title]) => line(title));
    this.differing = Array.from({ length: MOST_LISTED }, () => line(""));
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

  /** Draw both policies, or nothing if none is pinned. */
  show(pinned, draft, answer) {
    byId("compare").hidden = !pinned;
    if (!pinned || !answer) return;
    if (this.pinned !== pinned) {
      this.pinned = pinned;
      const { values, limits } = pinned.exploration;
      this.pinnedLimits = new Map(values.map((value, at) => [value, limits[at] ?? NaN]));
      say(this.words.a, policyWords(pinned.limits));
      this.charts.a.show(pinned.exploration.setting);
    }
    say(this.words.b, policyWords(draft.limits));
    this.charts.b.show(answer.setting);
    this.cannot.hidden = Boolean(answer.setting);
    FIGURES.forEach(([, of, words], at) => this.figures[at].show(of(pinned.exploration), of(answer), words));
    this.#limits(allLimits(draft.limits, this.table), limitsByGroup(pinned.exploration), limitsByGroup(answer));
    byId("compare").dataset.a = settingText(pinned.exploration.setting);
    byId("compare").dataset.b = settingText(answer.setting);
  }

  #limits(ofValues, groupsBefore, groupsNow) {
    const other = [];
    const compare = (name, before, now) => {
      if (Number.isNaN(before) && Number.isNaN(now)) return;
      const change = Math.abs(Math.log(now / before));
      if (Math.abs(now - before) <= 1e-12) return;
      other.push({ name, before, now, change: Number.isNaN(change) ? Infinity : change });
    };
    for (const name of new Set([...groupsBefore.keys(), ...groupsNow.keys()]))
      compare(name, groupsBefore.get(name) ?? NaN, groupsNow.get(name) ?? NaN);
    ofValues.forEach((now, at) => {
      const value = this.table.values[at];
      compare(nameText(value), this.pinnedLimits.get(value) ?? NaN, now);
    });
    other.sort((x, y) => (x.change === y.change ? 0 : y.change - x.change));
    say(
      this.summary,
      other.length === 0
        ? "All limits are the same."
        : `${plural(other.length, "limit differs", "limits differ")}${other.length > MOST_LISTED ? `; these ${MOST_LISTED} differ most` : ""}:`,
    );
    this.list.hidden = other.length === 0;
    this.differing.forEach((row, at) => {
      row.node.hidden = at >= other.length;
      if (!row.node.hidden) row.show(other[at].before, other[at].now, probability, other[at].name);
    });
  }
}

/** The limits of groups by name, NaN for none. */
const limitsByGroup = ({ groups }) => new Map(groups?.names.map((name, at) => [name, groups.limits[at] ?? NaN]) ?? []);

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
      say(name, shortened(newTitle, 40));
      name.title = newTitle;
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

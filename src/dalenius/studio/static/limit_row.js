// One row of the frequency chart: a value's name, its frequency, and its limit, which can be dragged, typed or moved by
// keys.

import { count, el, middle, percent, probability, say, set } from "./dom.js";
import { HOW_TO_WRITE, readLimit, threeDigits } from "./rules.js";

const KEYS = { ArrowRight: 1.02, ArrowUp: 1.02, ArrowLeft: 1 / 1.02, ArrowDown: 1 / 1.02, PageUp: 1.25, PageDown: 0.8 };
const STEPS = {
  ArrowRight: 0.001,
  ArrowUp: 0.001,
  ArrowLeft: -0.001,
  ArrowDown: -0.001,
  PageUp: 0.05,
  PageDown: -0.05,
};

export class LimitRow {
  /**
   * `chart` holds the model, and gets every change. Where it `mayLack` limits, a row without one is no fault.
   * `test` is what the row is called in tests.
   */
  constructor(chart, test = "limit") {
    this.chart = chart;
    this.at = -1; // which value is shown, a position in the counts
    this.name = el("span", { class: "name" });
    this.share = el("span", { class: "share" });
    this.bar = el("div", { class: "bar" });
    this.short = el("div", { class: "short", hidden: true });
    this.worst = el("div", { class: "worst" });
    this.handle = el("div", {
      class: "handle",
      role: "slider",
      tabindex: "0",
      "aria-valuemin": "0",
      "aria-valuemax": "1",
      "aria-describedby": "handle-help",
      "data-test": `${test}-handle`,
    });
    this.field = el("input", {
      type: "text",
      class: "limit-field",
      inputmode: "decimal",
      autocomplete: "off",
      spellcheck: "false",
      "data-test": `${test}-field`,
    });
    this.raise = el("button", { type: "button", class: "small raise", "data-test": "raise", hidden: true });
    this.reset = el(
      "button",
      { type: "button", class: "small quiet", "data-test": "reset-limit", hidden: true },
      "↺ rule",
    );
    this.node = el(
      "div",
      { class: "row", role: "listitem", "data-test": `${test}-row` },
      (this.nameBox = el("div", { class: "row-name" }, this.name, this.share)),
      el("div", { class: "plot" }, this.bar, this.short, this.worst, this.handle),
      this.field,
      el("div", { class: "row-actions" }, this.raise, this.reset),
    );
    this.#listen();
  }

  /** Show another value. */
  bind(at, place, of) {
    this.at = at;
    const { table, scale } = this.chart;
    const value = table.values[at];
    const label = this.chart.nameOf(at);
    middle(this.name, label);
    for (const node of [this.node, this.handle, this.field]) node.dataset.value = value;
    set(this.handle, "aria-label", `Limit of ${label}`);
    set(this.field, "aria-label", `Limit of ${label}, exact`);
    set(this.reset, "aria-label", `Back to the rule's limit for ${label}`);
    set(this.node, "aria-posinset", place + 1);
    set(this.node, "aria-setsize", of);
    this.bar.style.width = `${100 * scale.place(table.counts[at] / table.total)}%`;
    this.refresh();
  }

  /** Show its limit and worst inference as they are now. */
  refresh() {
    const { chart, at } = this;
    const { table, scale } = chart;
    const share = table.counts[at] / table.total;
    const limit = chart.limits[at];
    const own = chart.ownLimit(at);
    const bad = chart.bad[at] === 1;
    const missing = Number.isNaN(limit);
    const none = missing && chart.mayLack === true;
    this.node.classList.toggle("by-hand", own !== undefined);
    this.node.classList.toggle("no-limit", none);
    const outright = chart.outright?.[at] ?? 0; // people
    this.node.classList.toggle("bad", bad);
    this.node.classList.toggle("clear", outright > 0);
    this.node.classList.toggle("marked", chart.marked.has(at));
    say(
      this.share,
      missing && !none
        ? "⚠ no limit"
        : bad
          ? `⚠ cannot be kept (${percent(share)})`
          : outright > 0
            ? `⚠ ${count(outright)} outright`
            : `${count(table.counts[at])} · ${percent(share)}${chart.more?.(at) ?? ""}`,
    );
    const place = missing ? 1 : scale.place(limit);
    this.handle.style.left = `${100 * place}%`;
    set(this.handle, "aria-valuenow", missing ? 1 : limit);
    set(
      this.handle,
      "aria-valuetext",
      `${missing ? "none" : probability(limit)}${bad ? `, cannot be kept, ${percent(share)} of the ${table.whom ?? "records"} have it` : ""}`,
    );
    this.#place(this.worst, chart.worst?.[at] ?? null);
    this.short.hidden = !bad || missing;
    if (bad && !missing) {
      const needed = scale.place(table.counts[at] / (table.total - chart.known));
      this.short.style.left = `${100 * place}%`;
      this.short.style.width = `max(4px, ${100 * (needed - place)}%)`;
    }
    if (document.activeElement !== this.field) {
      const text = own ?? (missing ? "" : threeDigits(limit));
      if (this.field.value !== text) this.field.value = text;
      set(this.field, "aria-invalid", !none && (missing || readLimit(this.field.value) === null));
    }
    const enough = bad ? chart.smallest(at) : null;
    this.raise.hidden = enough === null;
    if (enough !== null) {
      say(this.raise, `raise to ${enough}`);
      set(
        this.raise,
        "aria-label",
        `Raise the limit of ${chart.nameOf(at)} to ${enough}, the smallest that can be kept`,
      );
    }
    this.reset.hidden = own === undefined || !chart.hasRule;
    say(this.reset, bad ? "↺" : "↺ rule");
  }

  #place(node, probabilityOrNull) {
    node.hidden = probabilityOrNull === null;
    if (probabilityOrNull !== null) node.style.left = `${100 * this.chart.scale.place(probabilityOrNull)}%`;
  }

  #listen() {
    const { handle, field } = this;
    handle.addEventListener("pointerdown", (event) => this.#grab(event));
    handle.addEventListener("keydown", (event) => this.#key(event));
    field.addEventListener("input", (event) => {
      const valid = readLimit(field.value) !== null;
      set(field, "aria-invalid", !valid);
      if (valid) this.chart.changed(this.at, field.value.trim(), event);
      else say(this.share, HOW_TO_WRITE);
    });
    field.addEventListener("blur", () => this.refresh());
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        field.blur();
        handle.focus();
      }
    });
    this.raise.addEventListener("click", (event) => {
      this.chart.changed(this.at, this.chart.smallest(this.at), event);
      handle.focus({ preventScroll: true });
    });
    this.reset.addEventListener("click", (event) => {
      this.chart.changed(this.at, null, event);
      handle.focus({ preventScroll: true });
    });
  }

  #grab(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    const { handle, chart } = this;
    handle.focus({ preventScroll: true });
    handle.setPointerCapture(event.pointerId);
    const box = handle.parentElement.getBoundingClientRect();
    const offset = event.clientX - (box.left + box.width * chart.scale.place(chart.limits[this.at]));
    const move = (moved) => {
      const at = (moved.clientX - offset - box.left) / box.width;
      const text = threeDigits(Math.max(chart.scale.value(at), chart.floor));
      if (text !== chart.ownLimit(this.at)) chart.changed(this.at, text, moved);
    };
    const stop = () => {
      handle.removeEventListener("pointermove", move);
      handle.classList.remove("dragging");
      document.body.classList.remove("dragging-limit");
    };
    handle.classList.add("dragging");
    document.body.classList.add("dragging-limit");
    handle.addEventListener("pointermove", move);
    handle.addEventListener("lostpointercapture", stop, { once: true });
  }

  #key(event) {
    const { chart, at } = this;
    const limit = Number.isNaN(chart.limits[at]) ? 1 : chart.limits[at];
    let text = null;
    if (event.key === "Home") text = chart.smallest(at) ?? "1";
    else if (event.key === "End") text = "1";
    else if (event.key in KEYS && chart.scale.kind === "log")
      text = step(limit, limit * KEYS[event.key], KEYS[event.key] > 1);
    else if (event.key in STEPS) text = step(limit, limit + STEPS[event.key], STEPS[event.key] > 0);
    if (text === null) return;
    event.preventDefault();
    if (text !== chart.ownLimit(at)) chart.changed(at, text, event);
  }
}

/** A visible step: three digits, above 0, at most 1, and different from where it began. */
function step(from, to, upwards) {
  const within = Math.min(1, Math.max(to, 1e-9));
  const text = threeDigits(within);
  if (text !== threeDigits(from) || within === 1) return text;
  const unit = 10 ** (Math.floor(Math.log10(from)) - 2);
  return threeDigits(Math.min(1, from + (upwards ? unit : -unit)));
}

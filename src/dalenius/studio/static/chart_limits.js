// The frequency chart: one row for each value, with its limit. Only the rows in view exist, so a thousand values are as
// quick as ten.

import { count, el, fill, nameText, plural, say } from "./dom.js";
import { LimitRow } from "./limit_row.js";
import { atLeast, canBeKept } from "./rules.js";

/** A scale from 0 or a power of ten to 1: `place` in 0..1, `value` back, and the ticks. */
function scale(kind, smallest) {
  return kind === "linear" ? linear() : logarithmic(smallest);
}

function linear() {
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].map((value) => ({ value, label: String(value), place: value }));
  return { kind: "linear", place: (value) => clamp(value), value: (place) => clamp(place), ticks };
}

function logarithmic(smallest) {
  const decades = Math.max(1, Math.ceil(-Math.log10(smallest) - 1e-9));
  const place = (value) => clamp(1 + Math.log10(Math.max(value, 1e-300)) / decades);
  const value = (at) => 10 ** ((clamp(at) - 1) * decades);
  const every = Math.ceil(decades / 5); // labels must not run into each other
  const ticks = [];
  for (let decade = 0; decade <= decades; decade += 1) {
    const labelled = (decades - decade) % every === 0 || every === 1;
    const power = 10 ** (decade - decades);
    ticks.push({ value: power, label: labelled ? power.toFixed(decades - decade) : "", place: place(power) });
    if (decades <= 4 && decade < decades) {
      for (const times of [2, 5]) ticks.push({ value: times * power, label: "", place: place(times * power) });
    }
  }
  return { kind: "log", place, value, ticks };
}

/** The ticks of an axis. */
export function drawTicks(host, { ticks }) {
  fill(
    host,
    ticks.map((tick) => {
      const node = el(
        "span",
        { class: `tick ${tick.label === "" ? "minor" : tick.place === 0 ? "first" : ""}` },
        tick.label,
      );
      node.style.left = `${100 * tick.place}%`;
      return node;
    }),
  );
}

const clamp = (place) => Math.min(1, Math.max(0, place));

const LONG = 18; // characters of a name
const SPARE = 4; // rows beyond the edges of the view
const MOVING = ["nearest", "cost", "limit"]; // orders that depend on the limits

export class LimitChart {
  /**
   * `nodes`: rows, space, axis, count, noMatch, sortAgain.
   * `changedLimit(value, text or null, event)` is called for every change.
   */
  constructor(nodes, table, changedLimit) {
    Object.assign(this, { nodes, table, changedLimit });
    this.limits = new Float64Array(table.values.length).fill(NaN);
    this.bad = new Uint8Array(table.values.length);
    this.worst = null;
    this.outright = null;
    this.known = 0;
    this.own = {};
    this.hasRule = true;
    this.marked = new Set();
    this.rows = new Map(); // place in the order -> row
    this.pool = [];
    this.sort = "frequency";
    this.filter = "";
    this.order = table.values.map((_, at) => at);
    this.floor = 10 ** Math.floor(Math.log10(Math.min(...extremes(table))));
    this.setScale("log");
    this.#widen();
    nodes.rows.addEventListener("scroll", () => this.#window(), { passive: true });
    new ResizeObserver(() => this.#measure()).observe(nodes.rows);
    addEventListener("resize", () => this.#measure());
    this.#measure();
  }

  /** The value, with its name where there is one. */
  nameOf(at) {
    const value = this.table.values[at];
    const { labels } = this.table;
    return Object.hasOwn(labels, value) ? `${nameText(value)} · ${labels[value]}` : nameText(value);
  }

  /** The values that are found by the search. */
  get found() {
    return this.order.map((at) => this.table.values[at]);
  }

  /** The table has other values: bands took the place of numbers, or other bands did. */
  recount() {
    const { values } = this.table;
    this.limits = new Float64Array(values.length).fill(NaN);
    this.bad = new Uint8Array(values.length);
    this.worst = this.outright = null;
    this.own = {};
    this.marked = new Set();
    this.order = values.map((_, at) => at);
    this.floor = 10 ** Math.floor(Math.log10(Math.min(...extremes(this.table))));
    this.setScale(this.scale.kind);
    this.#arrange();
  }

  /** Names of values have arrived. */
  relabel() {
    this.#arrange();
  }

  /** The limit that was set for this value alone, as text. */
  ownLimit(at) {
    return Object.hasOwn(this.own, this.table.values[at]) ? this.own[this.table.values[at]] : undefined;
  }

  /** The smallest limit that can be kept for this value, as text; null if none can. */
  smallest(at) {
    return atLeast(this.table.counts[at], this.table.total - this.known);
  }

  /** A row reports its new limit as text; null stands for the limit of the rule. */
  changed(at, text, event) {
    this.changedLimit(this.table.values[at], text, event);
  }

  /** Draw these limits; whether they can be kept is estimated here at once, and the server answers later. */
  showLimits(limits, own, hasRule, known) {
    Object.assign(this, { limits, own, hasRule, known });
    this.nodes.sortAgain.hidden = !MOVING.includes(this.sort);
    const { counts, total } = this.table;
    for (let at = 0; at < limits.length; at += 1)
      this.bad[at] = canBeKept(limits[at], counts[at], total, known) ? 0 : 1;
    this.#refresh();
  }

  /** Draw an answer: the worst inference and, if it is about the current limits, which of them cannot be kept. */
  showAnswer(answer, current) {
    this.worst = answer.worst ?? null;
    this.outright = answer.exposure?.by_value.outright ?? null;
    this.setting = answer.setting ?? this.setting;
    if (current && answer.eligible)
      answer.eligible.forEach((fits, at) => {
        this.bad[at] = fits ? 0 : 1;
      });
    this.#refresh();
  }

  /** Highlight some values. */
  mark(places) {
    this.marked = new Set(places);
    for (const row of this.rows.values()) row.refresh();
  }

  /** Linear or log. */
  setScale(kind) {
    this.scale = scale(kind, this.floor);
    drawTicks(this.nodes.axis, this.scale);
    this.#rebind();
  }

  /** Sort by one of the options. Some use the limits of this moment, so that rows stay in place while limits move. */
  setSort(sort) {
    this.sort = sort;
    this.#arrange();
  }

  /** Show only values whose name contains this. */
  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.#arrange();
  }

  /** Scroll a value into view and focus its handle. */
  reveal(value) {
    const place = this.order.indexOf(this.table.values.indexOf(value));
    if (place < 0) return;
    this.nodes.rows.scrollTop = Math.max(0, place * this.height - this.nodes.rows.clientHeight / 3);
    this.#window();
    this.rows.get(place)?.handle.focus({ preventScroll: true });
  }

  #arrange() {
    const { values, counts, total } = this.table;
    this.#widen();
    const order = values
      .map((_, at) => at)
      .filter((at) => this.filter === "" || this.nameOf(at).toLowerCase().includes(this.filter));
    if (this.sort === "limit") order.sort((a, b) => (this.limits[a] || 0) - (this.limits[b] || 0) || a - b);
    if (this.sort === "cost") {
      const costs = values.map((_, at) => this.#cost(at));
      order.sort((a, b) => costs[b] - costs[a] || a - b);
    }
    if (this.sort === "name") order.sort((a, b) => values[a].localeCompare(values[b], "en", { numeric: true }));
    if (this.sort === "nearest") {
      const room = (at) => (Number.isNaN(this.limits[at]) ? -1 : (this.limits[at] * total) / counts[at]);
      order.sort((a, b) => room(a) - room(b) || a - b);
    }
    this.order = order;
    this.nodes.sortAgain.hidden = true;
    this.nodes.rows.scrollTop = 0;
    this.nodes.noMatch.hidden = order.length > 0;
    this.#measure();
    this.#rebind();
    this.#refresh();
  }

  /** Long names get more room. */
  #widen() {
    const long = this.table.values.some((_, at) => this.nameOf(at).length > LONG);
    this.nodes.rows.classList.toggle("long-names", long);
  }

  /**
   * How much of the loss is due to a value, to sort by: the loss of the smallest buckets that may hold it, and then how
   * many of them it needs. Without a setting, the size of these buckets.
   */
  #cost(at) {
    const limit = this.limits[at];
    if (!(limit > 0) || limit >= 1) return 0;
    const needed = Math.ceil(1 / limit - 1e-9) + this.known;
    const group = (this.setting ?? []).find(({ size }) => size >= needed);
    if (group === undefined) return needed;
    const most = Math.max(1, Math.floor(limit * (group.size - this.known) + 1e-9));
    return group.loss * (1 + Math.min(1, this.table.counts[at] / most / group.buckets));
  }

  #measure() {
    const { rows, space } = this.nodes;
    this.height = parseFloat(getComputedStyle(rows).getPropertyValue("--row"));
    space.style.height = `${this.order.length * this.height}px`;
    rows.style.setProperty("--grid", `${Math.min(rows.clientHeight, this.order.length * this.height + 26)}px`);
    if (this.drawnAt !== this.height) this.#rebind();
    this.drawnAt = this.height;
    this.#window();
  }

  #rebind() {
    for (const row of this.rows.values()) this.#free(row);
    this.rows.clear();
    if (this.height) this.#window();
  }

  #free(row) {
    row.node.remove();
    this.pool.push(row);
  }

  /**
   * Make the rows in view, in document order, so that Tab goes down the page. The row in focus is never removed.
   */
  #window() {
    const { rows, space } = this.nodes;
    const first = Math.max(0, Math.floor(rows.scrollTop / this.height) - SPARE);
    const last = Math.min(this.order.length, Math.ceil((rows.scrollTop + rows.clientHeight) / this.height) + SPARE);
    for (const [place, row] of this.rows) {
      if ((place < first || place >= last) && !row.node.contains(document.activeElement)) {
        this.rows.delete(place);
        this.#free(row);
      }
    }
    const above = [...this.rows].find(([place]) => place < first); // only the row in focus can be
    let next = above ? above[1].node.nextElementSibling : space.firstElementChild;
    for (let place = first; place < last; place += 1) {
      const row = this.rows.get(place);
      if (row === undefined) this.#addRow(place, next);
      else next = row.node.nextElementSibling;
    }
  }

  #addRow(place, before) {
    const row = this.pool.pop() ?? new LimitRow(this);
    this.rows.set(place, row);
    row.node.style.transform = `translateY(${place * this.height}px)`;
    row.bind(this.order[place], place, this.order.length);
    this.nodes.space.insertBefore(row.node, before);
  }

  #refresh() {
    for (const row of this.rows.values()) row.refresh();
    const bad = this.bad.reduce((sum, flag) => sum + flag, 0);
    const { values, are_bands: areBands, missing } = this.table;
    const beside = areBands && values.includes(missing); // what is missing is in no band
    const bands = `${plural(values.length - (beside ? 1 : 0), "band")}${beside ? ` and ${missing}` : ""}`;
    const all = areBands ? bands : plural(values.length, "value");
    const shownNumber = this.filter ? `${count(this.order.length)} of ${all}` : all;
    const [first] = this.nodes.count.childNodes;
    if (first === undefined)
      this.nodes.count.append(el("span"), el("span", { class: "bad", "data-test": "bad-count" }));
    say(this.nodes.count.firstChild, shownNumber);
    say(this.nodes.count.lastChild, bad > 0 ? ` · ⚠ ${count(bad)} cannot be kept` : "");
  }
}

function extremes(table) {
  const fewest = table.counts.reduce((least, number) => Math.min(least, number), Infinity);
  return [fewest / table.total, 0.1];
}

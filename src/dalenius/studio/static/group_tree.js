// The tree of groups, with a limit in every row. A group shows what is in it once it is opened, so a thousand codes are
// as quick as ten.

import { drawTicks } from "./chart_limits.js";
import { byId, count, el, fill, percent, plural, say, set } from "./dom.js";
import { LimitRow } from "./limit_row.js";
import { atLeast, canBeKept, groupLimits } from "./rules.js";

const MOST_VALUES = 100; // of a group that are shown at once
const NO_GROUP = -1;
const SHAPE = ["names", "parents", "of_value", "records"]; // what the rows depend on

const CODES = /^(.+\s)(\([^()]{1,24}\))$/; // at the end of a name: they stay in one line

/** Put a row into the tree, at a depth. How many rows there are is not known: some are closed. */
function settle(row, at, depth) {
  row.bind(at, 0, 0);
  for (const name of ["aria-posinset", "aria-setsize"]) row.node.removeAttribute(name);
  row.node.style.setProperty("--depth", depth);
  set(row.node, "aria-level", depth + 1);
}

/** A group in the tree: a row of limits with a button that opens it. */
class GroupRow extends LimitRow {
  constructor(tree) {
    super(tree, "group");
    this.button = el("button", { type: "button", class: "quiet opener", "data-test": "group-open" });
    this.button.addEventListener("click", () => tree.toggle(this.at));
    this.nameBox.before(this.button);
    this.field.placeholder = "none";
    this.name.classList.add("group-name"); // several lines, so that long names can be told apart
  }

  place(at, depth, open) {
    settle(this, at, depth);
    const [, title, codes] = CODES.exec(this.chart.nameOf(at)) ?? [null, this.chart.nameOf(at), null];
    fill(this.name, el("bdi", {}, title, codes === null ? null : el("span", { class: "codes" }, codes)));
    set(this.button, "aria-expanded", open);
    set(this.button, "aria-label", `${open ? "Close" : "Open"} ${this.chart.nameOf(at)}`);
    say(this.button, open ? "▾" : "▸");
  }
}

/** The groups as a chart has its values: a `LimitRow` asks it for names, limits and shares. */
export class GroupTree {
  /** `values` are the counts of the values, which `chart` shows. `changed(event)` is called for every change. */
  constructor(draft, values, chart, changed) {
    Object.assign(this, { draft, values, chart, changedDraft: changed });
    this.mayLack = true; // a limit
    this.hasRule = true;
    this.outright = null;
    this.marked = new Set();
    this.open = new Set(); // names of groups
    this.most = new Map(); // name of a group -> how many of its values are shown
    this.rows = new Map(); // "g" or "v" and a place -> its row
    this.filter = "";
    this.tree = null; // as the server has it
    byId("groups-search").addEventListener("input", (event) => {
      this.filter = event.target.value.trim().toLowerCase();
      this.#arrange();
    });
    byId("clear-groups").addEventListener("click", (event) => {
      this.draft.limits.groups = Object.create(null);
      changed(event);
    });
  }

  get scale() {
    return this.chart.scale;
  }

  get floor() {
    return this.chart.floor;
  }

  get known() {
    return this.draft.protection.known_records;
  }

  nameOf(at) {
    return this.table.values[at];
  }

  ownLimit(at) {
    const { groups } = this.draft.limits;
    return Object.hasOwn(groups, this.nameOf(at)) ? groups[this.nameOf(at)] : undefined;
  }

  smallest(at) {
    return atLeast(this.table.counts[at], this.table.total - this.known);
  }

  /** What stands behind the records of a group. */
  more(at) {
    const worst = this.worst?.[at] ?? null;
    return worst === null ? "" : ` · up to ${percent(worst)} of a bucket`;
  }

  /** A row has another limit; null stands for that of the rule. */
  changed(at, text, event) {
    if (text === null) delete this.draft.limits.groups[this.nameOf(at)];
    else this.draft.limits.groups[this.nameOf(at)] = text;
    this.changedDraft(event);
  }

  toggle(at) {
    const name = this.nameOf(at);
    if (!this.open.delete(name)) this.open.add(name);
    this.#arrange();
  }

  /** Whether a value is in a group that has a limit. */
  covers(at) {
    for (let group = this.tree?.of_value[at] ?? NO_GROUP; group !== NO_GROUP; group = this.tree.parents[group])
      if (this.limits[group] < 1) return true;
    return false;
  }

  /** Draw the limits of the draft. Whether they can be kept is estimated here at once, and the server answers later. */
  showLimits() {
    if (!this.tree) return;
    this.limits = groupLimits(this.draft.limits, this.tree, this.values.total);
    this.bad = Uint8Array.from(this.limits, (limit, at) =>
      Number.isNaN(limit) || canBeKept(limit, this.tree.records[at], this.values.total, this.known) ? 0 : 1,
    );
    this.refresh();
  }

  /** Draw an answer, and if it is about the current limits, which of them cannot be kept. */
  showAnswer(tree, current) {
    const same = this.hasShapeOf(tree);
    this.tree = tree;
    this.worst = tree.worst;
    if (!same) this.#plant();
    this.showLimits();
    if (current) this.bad = Uint8Array.from(tree.eligible, (fits) => (fits ? 0 : 1));
    this.refresh();
  }

  /** Whether the tree is this one, whatever its limits are. */
  hasShapeOf(tree) {
    return this.tree !== null && tree !== null && SHAPE.every((part) => equal(this.tree[part], tree[part]));
  }

  /** There are no groups, or nobody knows which. */
  forget() {
    this.tree = this.worst = null;
    this.#drop();
    for (const id of ["tree", "groups-found"]) byId(id).hidden = true;
  }

  /** The scale has changed, or values have other names. */
  redraw() {
    if (!this.tree) return;
    this.#drop();
    this.#arrange();
  }

  /** Draw the rows as they are now: those of values too, whose limits are in the chart. */
  refresh() {
    if (!this.tree) return;
    for (const row of this.rows.values()) if (row.node.isConnected) row.refresh();
    const bad = this.bad.reduce((sum, flag) => sum + flag, 0);
    const all = plural(this.tree.names.length, "group");
    say(byId("groups-count"), bad > 0 ? `${all} · ⚠ ${count(bad)} cannot be kept` : all);
    byId("clear-groups").hidden = Object.keys(this.draft.limits.groups).length === 0;
  }

  /** Other groups, or other values in them. */
  #plant() {
    const { names, records, parents, of_value: ofValue } = this.tree;
    this.table = { values: names, counts: records, total: this.values.total, labels: {} };
    [this.groupsIn, this.valuesIn] = [0, 1].map(() => Array.from({ length: names.length + 1 }, () => []));
    parents.forEach((parent, at) => this.groupsIn[parent + 1].push(at));
    ofValue.forEach((group, at) => this.valuesIn[group + 1].push(at));
    for (const below of this.groupsIn) below.sort((a, b) => records[b] - records[a] || a - b);
    this.limits = new Float64Array(names.length).fill(NaN);
    this.bad = new Uint8Array(names.length);
    this.#drop();
    for (const id of ["tree", "groups-found"]) byId(id).hidden = false;
    this.#arrange();
  }

  #drop() {
    this.rows.clear();
    fill(byId("tree-rows"));
  }

  /** Make the rows of the groups that can be seen, and of the values in those that are open. */
  #arrange() {
    drawTicks(byId("tree-axis"), this.scale);
    const nodes = [];
    const found = this.filter === "" ? null : this.#found();
    const add = (parent, depth) => {
      for (const at of this.groupsIn[parent + 1]) {
        if (found && !found.has(at)) continue;
        const isOpen = this.open.has(this.nameOf(at));
        const row = this.#row(`g${at}`, () => new GroupRow(this));
        row.place(at, depth, isOpen || found !== null);
        nodes.push(row.node);
        if (isOpen || found) add(at, depth + 1);
        if (isOpen && !found) nodes.push(...this.#values(at, depth + 1));
      }
    };
    add(NO_GROUP, 0);
    const host = byId("tree-rows");
    const focused = document.activeElement;
    const moved = nodes.length !== host.children.length || nodes.some((node, at) => host.children[at] !== node);
    if (moved) fill(host, nodes);
    if (moved && host.contains(focused)) focused.focus({ preventScroll: true }); // moving it took the focus away
    const frame = byId("tree");
    frame.style.setProperty("--grid", `${Math.min(frame.clientHeight - 26, host.offsetHeight)}px`);
  }

  /** The rows of the values of a group, the most frequent first, as the page has them. */
  #values(group, depth) {
    const within = this.valuesIn[group + 1];
    const most = this.most.get(this.nameOf(group)) ?? MOST_VALUES;
    const nodes = within.slice(0, most).map((at) => {
      const row = this.#row(`v${at}`, () => new LimitRow(this.chart, "member"));
      settle(row, at, depth);
      return row.node;
    });
    if (within.length <= most) return nodes;
    const button = el("button", { type: "button", class: "link" }, `${count(within.length - most)} more values`);
    button.addEventListener("click", () => {
      this.most.set(this.nameOf(group), most + 5 * MOST_VALUES);
      this.#arrange();
    });
    return [...nodes, el("div", { class: "more-values", role: "listitem" }, button)];
  }

  #row(key, make) {
    if (!this.rows.has(key)) this.rows.set(key, make());
    return this.rows.get(key);
  }

  /** The groups that the search finds, with those that they are in. */
  #found() {
    const found = new Set();
    this.tree.names.forEach((name, at) => {
      if (!name.toLowerCase().includes(this.filter)) return;
      for (let group = at; group !== NO_GROUP && !found.has(group); group = this.tree.parents[group]) found.add(group);
    });
    return found;
  }
}

/** Whether two lists are the same. */
export const equal = (a, b) => a.length === b.length && a.every((part, at) => part === b[at]);

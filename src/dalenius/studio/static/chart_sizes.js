// The picture of a bucket setting: a row a size, with its share of the records and of the loss.

import { el, fill, named, say, set, svg } from "./dom.js";
import { count, listed, percent, plural } from "./format.js";

export class SizesChart {
  /** `pointed(names)` is told whose buckets are pointed at, and an empty list when none are. */
  constructor(pointed = () => {}) {
    this.pointed = pointed;
    this.rows = [];
    this.list = el("div", { class: "sizes", role: "group", "aria-label": "Buckets by size" });
    this.note = el("p", { class: "size-note", "aria-live": "off" });
    this.node = el(
      "div",
      {},
      el(
        "p",
        { class: "size-key", "aria-hidden": "true" },
        el("span", {}, el("i"), "records"),
        el("span", {}, el("i", { class: "lost" }), "loss"),
      ),
      el(
        "div",
        { class: "size-row size-head", "aria-hidden": "true" },
        el("span", {}, "size"),
        el("span", {}, "share"),
        el("span", {}, "records"),
        el("span", {}, "buckets"),
      ),
      this.list,
      this.note,
    );
    this.idle = "";
  }

  /** Draw a setting: a list of {size, buckets, records, loss, needed_by, needed_by_number}. */
  show(setting) {
    const groups = setting ?? [];
    while (this.rows.length < groups.length) this.#add();
    this.rows.forEach((row, at) => {
      row.node.hidden = at >= groups.length;
    });
    const records = sum(groups, "records");
    const loss = sum(groups, "loss");
    const longest = Math.max(
      ...groups.map((group) => Math.max(share(group.records, records), share(group.loss, loss))),
      1e-9,
    );
    groups.forEach((group, at) => this.#draw(this.rows[at], group, records, loss, longest));
    if (!this.at) this.#rest(groups);
  }

  #add() {
    const row = {
      size: el("span", { class: "size" }),
      records: el("span"),
      buckets: el("span"),
      solid: svg("rect", { class: "records", x: 0, y: 0, height: 10 }),
      thin: svg("rect", { class: "lost", x: 0, y: 11, height: 4 }),
    };
    row.node = el(
      "button",
      { type: "button", class: "size-row", "data-test": "size" },
      row.size,
      el("span", { class: "size-bars" }, svg("svg", { "aria-hidden": "true" }, row.solid, row.thin)),
      row.records,
      row.buckets,
    );
    for (const event of ["pointerenter", "focus"]) row.node.addEventListener(event, () => this.#point(row));
    for (const event of ["pointerleave", "blur"]) row.node.addEventListener(event, () => this.#leave());
    this.rows.push(row);
    this.list.append(row.node);
  }

  #draw(row, group, records, loss, longest) {
    row.group = { ...group, share: share(group.records, records), lost: share(group.loss, loss) };
    say(row.size, count(group.size));
    say(row.records, count(group.records));
    say(row.buckets, count(group.buckets));
    set(row.solid, "width", `${(100 * row.group.share) / longest}%`);
    set(row.thin, "width", `${(100 * row.group.lost) / longest}%`);
    set(
      row.node,
      "aria-label",
      `Size ${count(group.size)}: ${plural(group.buckets, "bucket")}, ${plural(group.records, "record")}, ${percent(row.group.lost)} of the loss`,
    );
    if (this.at === row) this.#point(row);
  }

  #point(row) {
    this.at = row;
    const { size, buckets, share, lost, needed_by: names = [], needed_by_number: number = names.length } = row.group;
    const more = number - names.length;
    const needed = names.length
      ? [
          ". Needed by ",
          listed([...names.map((name) => named(name, 24)), ...(more > 0 ? [`${count(more)} more`] : [])]),
          ".",
        ]
      : ".";
    fill(
      this.note,
      `${plural(buckets, "bucket")} of size ${count(size)}: ${percent(share)} of the records, ${percent(lost)} of the loss`,
      needed,
    );
    this.pointed(names);
  }

  #leave() {
    this.at = null;
    this.#rest(this.rows.filter((row) => !row.node.hidden).map((row) => row.group));
    this.pointed([]);
  }

  #rest(groups) {
    const all = sum(groups, "buckets");
    say(
      this.note,
      groups.length
        ? `${plural(all, "bucket")} of ${plural(groups.length, "size")}. Point at a size to see which values need it.`
        : "",
    );
  }
}

const share = (part, whole) => (whole > 0 ? (part ?? 0) / whole : 0);
const sum = (groups, key) => groups.reduce((total, group) => total + (group[key] ?? 0), 0);

// Charts of a bucket setting: its sizes, and its error beside that of other methods.

import { capital, count, el, figure, fill, listed, named, percent, plural, say, set, svg, times } from "./dom.js";

/** A setting as `dalenius plan` writes it: "50 x 1 + 10 x 5", buckets x size, ascending. */
export const settingText = (setting) => (setting ?? []).map((group) => `${group.buckets} x ${group.size}`).join(" + ");

/** A bucket setting: one row for each size, with its share of the records and of the loss. */
export class SizesChart {
  /** `pointed(names)` gets the values whose buckets the pointer is on: an empty list when it leaves. */
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

const PEERS = { "two-size": "two sizes", anatomy: "Anatomy" };

/** MSE by method: this policy, the paper's two sizes, and Anatomy, as bars and in one sentence each. */
export class MethodsChart {
  constructor() {
    this.bars = new Map();
    this.chart = el("div", { class: "methods", "aria-hidden": "true" });
    this.sentences = el("div", { "data-test": "gain" });
    this.node = el("div", {}, this.chart, this.sentences);
    for (const [name, title] of [
      ["own", "This policy"],
      ["two-size", "Two sizes"],
      ["anatomy", "Anatomy"],
    ]) {
      const bar = { meter: el("div", { class: `meter ${name}` }), figure: el("span", { class: "num" }) };
      this.bars.set(name, bar);
      this.chart.append(el("span", {}, title), el("div", {}, bar.meter), bar.figure);
    }
  }

  /** Draw an exploration. Other methods may come with the exact answer only: until then none are shown. */
  show(answer) {
    const { peers = {}, gain = {}, mse } = answer;
    const known = Object.keys(PEERS).filter((name) => peers[name]?.mse !== null && peers[name]?.mse !== undefined);
    const most = Math.max(mse ?? 0, ...known.map((name) => peers[name].mse), 1e-9);
    this.#bar("own", mse, most, true);
    for (const name of Object.keys(PEERS))
      this.#bar(name, peers[name]?.mse ?? null, most, peers[name]?.status !== "infeasible");
    const lines = Object.entries(PEERS).map(([name, title]) => peerSentence(title, peers[name], gain?.[name] ?? null));
    const text = lines.join("|");
    if (text !== this.text)
      fill(
        this.sentences,
        lines.map((line) => el("p", {}, line)),
      );
    this.text = text;
  }

  #bar(name, mse, most, keepsLimits) {
    const bar = this.bars.get(name);
    bar.meter.style.width = mse === null || mse === undefined ? "0" : `${(100 * mse) / most}%`;
    bar.meter.classList.toggle("not-kept", !keepsLimits);
    say(bar.figure, mse === null || mse === undefined ? "…" : figure(mse));
  }
}

function peerSentence(title, peer, ratio) {
  if (peer === null || peer === undefined) return `Comparing with ${title}…`;
  const fails = peer.status === "infeasible";
  if (fails && ratio === null) return `${capital(title)}: ${peer.note ?? "no setting keeps these limits."}`;
  if (ratio === null) return peer.note ?? `${capital(title)} did not finish.`;
  return `${capital(gainWords(ratio, title))}${fails ? ", and these limits are not kept" : ""}.`;
}

/** The error of another method, whose MSE is `ratio` times ours. */
export function gainWords(ratio, title) {
  return `${title}: ${ratio > 0.995 && ratio < 1.005 ? "the same error" : `${times(ratio)} the error`}`;
}

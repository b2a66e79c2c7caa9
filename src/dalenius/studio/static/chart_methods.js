// MSE by method: ours, the paper's two sizes, and Anatomy, as bars and in a sentence each.

import { el, fill, say } from "./dom.js";
import { capital, figure, percent, times } from "./format.js";

const PEERS = { "two-size": "two sizes", anatomy: "Anatomy" };

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

  /** Draw an exploration. Peers may come with the exact answer only; the last ones would be wrong, so none are shown. */
  show(answer) {
    const { peers = {}, gain = {}, mse } = answer;
    const known = Object.keys(PEERS).filter((name) => peers[name]?.mse !== null && peers[name]?.mse !== undefined);
    const most = Math.max(mse ?? 0, ...known.map((name) => peers[name].mse), 1e-9);
    this.#bar("own", mse, most, true);
    for (const name of Object.keys(PEERS))
      this.#bar(name, peers[name]?.mse ?? null, most, peers[name]?.status !== "infeasible");
    const lines = Object.entries(PEERS).map(([name, title]) => sentence(title, peers[name], gain?.[name] ?? null));
    const text = lines.join("|");
    if (text !== this.said)
      fill(
        this.sentences,
        lines.map((line) => el("p", {}, line)),
      );
    this.said = text;
  }

  #bar(name, mse, most, kept) {
    const bar = this.bars.get(name);
    bar.meter.style.width = mse === null || mse === undefined ? "0" : `${(100 * mse) / most}%`;
    bar.meter.classList.toggle("not-kept", !kept);
    say(bar.figure, mse === null || mse === undefined ? "…" : figure(mse));
  }
}

function sentence(title, peer, ratio) {
  if (peer === null || peer === undefined) return `Comparing with ${title}…`;
  const fails = peer.status === "infeasible";
  if (fails && ratio === null) return `${capital(title)}: ${peer.note ?? "no setting keeps these limits."}`;
  if (ratio === null) return peer.note ?? `${capital(title)} did not finish.`;
  return `${capital(gainWords(ratio, title))}${fails ? ", which does not keep these limits" : ""}.`;
}

/** How the error compares with another method's, whose MSE is `ratio` times ours. */
export function gainWords(ratio, title) {
  if (ratio >= 1.2) return `${times(ratio)} less error than ${title}`;
  if (ratio >= 1.005) return `${percent(1 - 1 / ratio)} less error than ${title}`;
  return ratio > 0.995 ? `as much error as ${title}` : `${times(1 / ratio)} the error of ${title}`;
}

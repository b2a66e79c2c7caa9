// What the limits cost, beside the chart. Nodes are made once; every answer only changes what differs.

import { MethodsChart } from "./chart_methods.js";
import { SizesChart } from "./chart_sizes.js";
import { el, fill, named, say, set } from "./dom.js";
import { count, figure, percent, probability, sentence } from "./format.js";
import { read, threeDigits } from "./ratio.js";

/** A setting as `dalenius plan` writes it: "50 x 1 + 10 x 5", buckets x size, ascending. */
export const settingText = (setting) => (setting ?? []).map((group) => `${group.buckets} x ${group.size}`).join(" + ");

export class Results {
  /** `relax(value, text, event)`: raise a limit; `pointed(names)`: values are pointed at. */
  constructor(host, { relax, pointed }) {
    this.relax = relax;
    const figureOf = (name, title, main) => {
      const node = el("span", { "data-test": name });
      const against = el("span", { class: "against" });
      return {
        node,
        against,
        box: el("div", { class: main ? "main" : null }, el("dt", {}, title), el("dd", {}, node, against)),
      };
    };
    this.mse = figureOf("mse", "Mean squared error", true);
    this.loss = figureOf("loss", "Loss");
    this.gap = figureOf("gap", "Proven gap, at most");
    this.sizes = new SizesChart(pointed);
    this.methods = new MethodsChart();
    this.setting = el("div", { "data-test": "setting" }, el("h3", {}, "Bucket sizes"), this.sizes.node);
    this.forcing = block("What forces large buckets", "forcing");
    this.query = block("How good counts will be", "query-error");
    this.price = block("Price of protection", "price");
    this.notes = el("ul", { class: "notes" });
    this.notesBlock = el("div", { class: "block", hidden: true }, el("h3", {}, "To know"), this.notes);
    fill(
      host,
      el("dl", { class: "figures" }, this.mse.box, this.loss.box, this.gap.box),
      el("div", { class: "block" }, this.setting),
      el("div", { class: "block" }, el("h3", {}, "Error against other methods"), this.methods.node),
      this.forcing.node,
      this.query.node,
      this.price.node,
      this.notesBlock,
    );
    this.host = host;
  }

  /** Draw an exploration; `pinned` is the one to compare with, or null. */
  show(answer, pinned) {
    const feasible = answer.setting !== null && answer.setting !== undefined;
    this.host.classList.toggle("stale", !feasible);
    this.host.inert = !feasible; // it tells of other limits
    set(this.host, "aria-busy", !answer.exact);
    if (!feasible) return;
    set(this.setting, "data-setting", settingText(answer.setting));
    figureShown(this.mse, figure(answer.mse), answer.mse, pinned?.mse, figure);
    figureShown(this.loss, figure(answer.loss), answer.loss, pinned?.loss, figure);
    say(this.gap.node, answer.gap === null || answer.gap === undefined ? "not proven yet" : percent(answer.gap));
    set(this.mse.node, "data-number", answer.mse);
    set(this.loss.node, "data-number", answer.loss);
    this.sizes.show(answer.setting);
    this.methods.show(answer);
    this.#force(answer.forcing);
    this.#count(answer.query_error);
    this.#protect(answer);
    this.#note(answer.notes ?? []);
  }

  #force(forcing) {
    if (!changed(this.forcing, forcing)) return;
    if (!forcing) return;
    const { value, size, share_of_loss: share, relaxed_limit: relaxed, saves } = forcing;
    const text = relaxed === null || relaxed === undefined ? null : threeDigits(read(String(relaxed)));
    fill(
      this.forcing.body,
      el(
        "p",
        {},
        el("b", {}, named(value, 40)),
        ` needs buckets of ${count(size)}. They make ${percent(share)} of the loss.`,
      ),
      text === null ? null : el("p", {}, savingWords(saves, text)),
      saves > 0.0005 && text !== null
        ? el(
            "button",
            { type: "button", class: "small", "data-test": "relax", click: (event) => this.relax(value, text, event) },
            `Try ${text}`,
          )
        : null,
    );
  }

  #count(error) {
    if (!changed(this.query, error && [error.median, error.worst, error.worst_value, error.share]) || !error) return;
    fill(
      this.query.body,
      el(
        "p",
        {},
        `Counting one value among ${error.share === 0.1 ? "a tenth" : percent(error.share)} of the records, the estimate is off by `,
        el("b", { "data-test": "query-median" }, percent(error.median)),
        " for the middle value, and by ",
        el("b", { "data-test": "query-worst" }, percent(error.worst)),
        " for the worst, ",
        named(error.worst_value ?? "", 40),
        ". These are standard errors, relative to the count.",
      ),
    );
  }

  #protect({ price, loss }) {
    if (!changed(this.price, price && [price, loss]) || !price) return;
    fill(
      this.price.body,
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
    if (this.noted === notes.join("\n")) return;
    this.noted = notes.join("\n");
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
  if (saves === null || saves === undefined) return "What a higher limit would save is being worked out…";
  if (saves > 0.0005) return `With the limit ${limit} the loss would be ${percent(saves)} less.`;
  return `A limit of ${limit} would save nothing: other values need large buckets too.`;
}

function changed(part, content) {
  const now = JSON.stringify(content ?? null);
  if (part.last === now) return false;
  part.last = now;
  part.node.hidden = content === null || content === undefined;
  return true;
}

function figureShown(part, text, now, before, words) {
  say(part.node, text);
  const differs =
    now === before
      ? ", the same"
      : before > 0
        ? ` (${now > before ? "+" : "−"}${percent(Math.abs(now - before) / before)})`
        : "";
  say(part.against, before === undefined || before === null ? "" : `A: ${words(before)}${differs}`);
}

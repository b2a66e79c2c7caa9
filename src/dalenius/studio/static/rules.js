// Rules that give every value a limit: reading limits, computing them for drawing, and the controls of a rule.

import { byId, el, fill, plural, say, set } from "./dom.js";

const DECIMAL = /^\s*(\d+(?:[.,]\d*)?|[.,]\d+)\s*(%?)\s*$/;
const RATIO = /^\s*(\d+)\s*\/\s*(\d+)\s*$/;

/** How a number can be written, for people who wrote it in another way. */
export const HOW_TO_WRITE = "Write 0.02, 2 % or 1/50.";

/** The number in a text such as "0.02", "0,02", "2 %" or "1/50", or null. This is for drawing: the server is exact. */
export function read(text) {
  const decimal = DECIMAL.exec(text);
  if (decimal !== null) return Number(decimal[1].replace(",", ".")) / (decimal[2] ? 100 : 1);
  const ratio = RATIO.exec(text);
  if (ratio === null || Number(ratio[2]) === 0) return null;
  return Number(ratio[1]) / Number(ratio[2]);
}

/** The limit in a text: above 0 and at most 1, else null. */
export function readLimit(text) {
  const number = read(text);
  return number !== null && number > 0 && number <= 1 ? number : null;
}

/** A number with three significant digits, as decimal text without an exponent. */
export function threeDigits(number) {
  return decimal(Number(number.toPrecision(3)));
}

/** A number of at most three significant digits as decimal text. */
function decimal(number) {
  if (number === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number))));
  const text = number.toFixed(Math.min(places, 20));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/**
 * The smallest limit that is at least count / total: three significant digits, or a ratio where these would be 1,
 * which is no limit. Null if it would be above 1.
 */
export function atLeast(count, total) {
  if (total <= 0 || count > total) return null;
  if (count === total) return "1";
  const unit = 10 ** (Math.floor(Math.log10(count / total)) - 2);
  let steps = Math.floor(count / total / unit);
  for (;;) {
    const text = decimal(steps * unit);
    if (text === "1") return `${count}/${total}`;
    if (isAtLeast(text, count, total)) return text;
    steps += 1;
  }
}

function isAtLeast(text, count, total) {
  const [units, fraction = ""] = text.split(".");
  return BigInt(units + fraction) * BigInt(total) >= BigInt(count) * 10n ** BigInt(fraction.length);
}

const ROOM = 1 - 1e-12; // floating point must not reject a limit that equals the frequency

/** The faults in the numbers of the rule, by the name of the number. */
export function faults(limits) {
  const messages = {};
  const number = (name, fits, words) => {
    const got = read(limits[name] ?? "");
    if (got === null || !fits(got)) messages[name] = words;
  };
  if (limits.rule === "odds") {
    number("odds", (x) => x >= 1, "Odds are a number such as 4, at least 1.");
    number("floor", (x) => x < 1, `The floor is the least limit, below 1. ${HOW_TO_WRITE}`);
  }
  if (limits.rule === "theta") {
    number("theta", () => true, "Theta is a number such as 8.");
    number("base", () => true, `Base is a number that is added to every limit. ${HOW_TO_WRITE}`);
  }
  if (limits.rule === "uniform")
    number("uniform", (x) => x > 0 && x <= 1, `A limit is above 0 and at most 1. ${HOW_TO_WRITE}`);
  if (limits.rule === "l_diversity")
    number("l_diversity", (x) => Number.isInteger(x) && x >= 1, "l is a whole number, at least 1.");
  if (limits.rule === "beta") number("beta", () => true, "Beta is a number such as 3.");
  return messages;
}

/** A function from the frequency of a value to its limit under the rule alone; NaN where there is no rule. */
function ruleLimit(limits) {
  const numbers = Object.fromEntries(
    ["odds", "floor", "theta", "base", "uniform", "l_diversity", "beta"].map((name) => [name, read(limits[name] ?? "") ?? NaN]),
  );
  switch (limits.rule) {
    case "odds":
      return (share) => Math.max(numbers.floor, (numbers.odds * share) / (1 - share + numbers.odds * share));
    case "theta":
      return (share) => Math.min(1, numbers.theta * share + numbers.base);
    case "uniform":
      return () => numbers.uniform;
    case "l_diversity":
      return () => 1 / numbers.l_diversity;
    case "beta":
      return (share) => Math.min(1, (1 + numbers.beta) * share);
    default:
      return () => NaN;
  }
}

/** Limits by value. A job file may have those of bands among limits of groups. */
export const ownLimits = ({ grouping, groups, values }) => (areBands(grouping) ? { ...groups, ...values } : values);

/** The limit of every value, in the order of the counts. */
export function allLimits(limits, table) {
  const [rule, own] = [ruleLimit(limits), ownLimits(limits)];
  return Float64Array.from(table.values, (value, at) => {
    return Object.hasOwn(own, value) ? (readLimit(own[value]) ?? NaN) : rule(table.counts[at] / table.total);
  });
}

const RULES = ["odds", "theta", "uniform", "l_diversity", "beta"];

/** The rule of a level, which has numbers alone. What is left out is as on the command line. */
const levelRule = (numbers) => {
  const rule = RULES.find((name) => name in numbers) ?? "none";
  return { floor: "0.02", base: "0", ...numbers, rule };
};

/** The limit of every group: its own, or that of the rule of its level, or else that of all; NaN for none. */
export function groupLimits(limits, tree, total) {
  const everywhere = ruleLimit(limits);
  const rules = new Map(Object.entries(limits.levels).map(([level, own]) => [level, ruleLimit(levelRule(own))]));
  return Float64Array.from(tree.names, (name, at) => {
    if (Object.hasOwn(limits.groups, name)) return readLimit(limits.groups[name]) ?? NaN;
    return (rules.get(tree.levels[at]) ?? everywhere)(tree.records[at] / total);
  });
}

/** A rule of a level in a few words. */
export const levelWords = (numbers) => policyWords({ ...levelRule(numbers), values: {} });

/** Whether one bucket with everybody would keep the limit against somebody who knows this many records. */
export const canBeKept = (limit, count, total, known) => limit * (total - known) >= count * ROOM;

/** Whether groups are bands of numbers, which take the place of values. */
export const areBands = ({ source }) => ["cuts", "quantiles", "width"].includes(source);

/** How numbers are put into bands, in a few words. */
export const bandWords = ({ source, cuts, quantiles, width, start }) =>
  ({
    cuts: `Cut at ${cuts}`,
    quantiles: `${quantiles} bands with about as many records each`,
    width: `A band every ${width}${start ? `, from ${start}` : ""}`,
  })[source];

/** A policy in a few words. */
export function policyWords(limits) {
  const named = Object.keys(limits.groups ?? {}).length;
  const exceptions = Object.keys(limits.values ?? {}).length + named;
  if (limits.rule === "none") return `by ${named > 0 ? "name" : "value"} only, ${plural(exceptions, "limit")}`;
  const rule = {
    odds: `odds ${limits.odds}, floor ${limits.floor}`,
    theta: `theta ${limits.theta}, base ${limits.base}`,
    uniform: `uniform ${limits.uniform}`,
    l_diversity: `l-diversity ${limits.l_diversity}`,
    beta: `beta ${limits.beta}`,
  }[limits.rule];
  return exceptions ? `${rule}, and ${plural(exceptions, "exception")}` : rule;
}

// From a slider's position (0 to 1) to a number, and back. Odds, theta and uniform are logarithmic; floor, base and beta
// are quadratic, so that small numbers, which matter most, have room.
const SCALES = {
  odds: { number: (at) => 64 ** at, at: (x) => Math.log(Math.max(x, 1)) / Math.log(64) },
  floor: { number: (at) => 0.5 * at ** 2, at: (x) => Math.sqrt(Math.min(x, 0.5) / 0.5) },
  theta: { number: (at) => 64 ** at, at: (x) => Math.log(Math.max(x, 1)) / Math.log(64) },
  base: { number: (at) => 0.5 * at ** 2, at: (x) => Math.sqrt(Math.min(x, 0.5) / 0.5) },
  uniform: { number: (at) => 1000 ** (at - 1), at: (x) => 1 + Math.log(Math.max(x, 0.001)) / Math.log(1000) },
  l_diversity: { number: (at) => Math.round(1 + 99 * at), at: (x) => (Math.min(x, 100) - 1) / 99 },
  beta: { number: (at) => 32 * at ** 2, at: (x) => Math.sqrt(Math.min(x, 32) / 32) },
};
const FORMULAS = {
  odds: ["max(floor, K · f / (1 − f + K · f))", " with K the odds and f the value's share of the records"],
  theta: ["min(1, theta · f + base)", " with f the value's share of the records"],
  uniform: ["the same limit", " for every value"],
  l_diversity: ["1 / l", " for every value"],
  beta: ["min(1, (1 + beta) · f)", " with f the value's share of the records"],
  none: ["no rule", ": every value has its own limit"],
};

/** The rule for all values: which one, and a slider and a field for each of its numbers. */
export class RuleControls {
  /**
   * `changed(event)` is called when a number changes, `ruleChosen(rule, event)` when somebody chooses another rule.
   * `whom` are the ones that have values.
   */
  constructor(draft, changed, ruleChosen, whom = "records") {
    Object.assign(this, { draft, whom });
    for (const radio of document.querySelectorAll("input[name=rule]")) {
      radio.addEventListener("change", (event) => ruleChosen(radio.value, event));
    }
    this.presets = [...document.querySelectorAll("[data-preset]")];
    for (const button of this.presets)
      button.addEventListener("click", (event) => {
        this.draft.limits.odds = button.dataset.preset;
        ruleChosen("odds", event);
      });
    for (const name of Object.keys(SCALES)) {
      const slider = byId(`${name}-slider`);
      const field = byId(name);
      slider.addEventListener("input", (event) => {
        field.value = threeDigits(SCALES[name].number(slider.value / 1000));
        this.#take(name, field.value);
        changed(event);
      });
      field.addEventListener("input", (event) => {
        const wrong = this.#take(name, field.value.trim());
        this.#slide(name);
        if (!wrong) changed(event);
      });
    }
    this.show();
  }

  #take(name, text) {
    this.draft.limits[name] = text;
    const messages = faults(this.draft.limits);
    set(byId(name), "aria-invalid", name in messages);
    byId("rule-error").hidden = !(name in messages);
    say(byId("rule-error"), messages[name] ?? "");
    set(byId(`${name}-slider`), "aria-valuetext", text);
    if (name === "odds")
      for (const button of this.presets) set(button, "aria-pressed", read(text) === Number(button.dataset.preset));
    return name in messages;
  }

  #slide(name) {
    const number = read(this.draft.limits[name] ?? "");
    if (number !== null)
      byId(`${name}-slider`).value = String(Math.round(1000 * Math.min(1, Math.max(0, SCALES[name].at(number)))));
  }

  /** Show the draft's rule and numbers. */
  show() {
    const { limits } = this.draft;
    for (const radio of document.querySelectorAll("input[name=rule]")) radio.checked = radio.value === limits.rule;
    for (const group of document.querySelectorAll("[data-rule]")) group.hidden = group.dataset.rule !== limits.rule;
    const [formula, words] = FORMULAS[limits.rule];
    fill(byId("formula"), "Limit = ", el("span", { class: "f" }, formula), words.replace("records", this.whom));
    for (const name of Object.keys(SCALES)) {
      byId(name).value = limits[name] ?? "";
      this.#take(name, limits[name] ?? "");
      this.#slide(name);
    }
    byId("rule-error").hidden = true;
  }
}

/** "By value only" starts with the limits of the last rule. The next rule replaces those that were not changed. */
export class RuleOfBefore {
  #took = Object.create(null);

  forget() {
    this.#took = Object.create(null);
  }

  /** Change limits to a rule; with none, those of values become what they are now. `known` records are not at risk. */
  change(limits, name, table, known) {
    if (name === "none") {
      const now = allLimits(limits, table);
      this.forget();
      table.values.forEach((value, at) => {
        if (!Object.hasOwn(limits.values, value)) this.#took[value] = startingLimit(now[at], table.counts[at], table.total - known);
      });
      Object.assign(limits.values, this.#took);
    } else if (limits.rule === "none") {
      for (const [value, text] of Object.entries(this.#took))
        if (limits.values[value] === text) delete limits.values[value];
      this.forget();
    }
    limits.rule = name;
  }
}

/** A limit in three digits, but never so low that it can no longer be kept. */
function startingLimit(limit, count, total) {
  const least = atLeast(count, total) ?? "1";
  const text = Number.isNaN(limit) ? least : threeDigits(limit);
  return Number(text) < Number(least) && limit >= Number(least) * 0.99 ? least : text;
}
